"""Rebuildable values in one SQLite file per home: what was computed from logs, memories and working trees.

A value belongs to a scope (one memory directory, the list of sessions) and a name, and is returned only for
the fingerprint it was stored with. A missing, locked, damaged or newer file reads as empty, and the next
write replaces it: losing it costs time and nothing else.

It has a rollback journal and no WAL, so that a reader creates no files, a read-only home can be read, and no
log keeps a copy of values that were deleted because a memory was purged (M14b).
"""

from __future__ import annotations

import marshal
import os
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from nacre.store import disk

FILE = "derived.db"
FORMAT = 1
"""Incremented when the table changes: a file of another format is deleted, never migrated."""
READ_WAIT = 0.2
"""Seconds a reader waits for another process's commit, which takes milliseconds."""
WRITE_WAIT = 1.0
"""Seconds a writer waits for another writer before it gives up."""
_TABLE = """
create table value (
    scope text, name blob, fingerprint blob, checksum integer, data blob, primary key (scope, name)
) without rowid
"""


class DerivedCache:
    """The values of one scope; safe to use from several threads and processes.

    `DerivedCache(home / "cache" / "sessions")` is the scope `sessions` of `home/cache/derived.db`. Values are
    what `marshal` takes: None, bool, int, float, str, bytes, and tuples, lists, sets and dicts of these.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder.parent / FILE
        self.scope = folder.name

    def get(self, name: str, fingerprint: str = "") -> Any | None:
        """Return a value, or None if there is none with this fingerprint."""
        found = self._rows("name = ? and fingerprint = ?", _encoded(name), _encoded(fingerprint))
        return found[name][1] if name in found else None

    def all(self) -> dict[str, tuple[str, Any]]:
        """Return every name of the scope with its fingerprint and value."""
        return self._rows("true")

    def put(self, name: str, value: Any, fingerprint: str = "") -> None:
        """Store one value; a failure is ignored."""
        self.update({name: (fingerprint, value)})

    def update(self, values: Mapping[str, tuple[str, Any]], *, removed: Iterable[str] = ()) -> None:
        """Store values with their fingerprints and remove other names in one step; a failure is ignored."""
        rows: list[tuple[object, ...]] = []
        for name, (fingerprint, value) in values.items():
            data = marshal.dumps(value)
            rows.append((self.scope, _encoded(name), _encoded(fingerprint), zlib.crc32(data), data))
        self._is_written(
            (
                "delete from value where scope = ? and name = ?",
                [(self.scope, _encoded(name)) for name in removed],
            ),
            ("insert or replace into value values (?, ?, ?, ?, ?)", rows),
        )

    def clear(self) -> None:
        """Delete every value of the scope, with its bytes; raises OSError if even the file cannot go."""
        if not self.path.exists():
            return
        if not self._is_written(("delete from value where scope = ?", [(self.scope,)])):
            self.delete()

    def _rows(self, condition: str, *arguments: bytes) -> dict[str, tuple[str, Any]]:
        if not self.path.is_file():
            return {}
        import sqlite3  # noqa: PLC0415 - two milliseconds that a home without caches need not pay

        query = f"select name, fingerprint, checksum, data from value where scope = ? and {condition}"
        try:
            uri = f"{self.path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=READ_WAIT)) as db:
                if db.execute("pragma user_version").fetchone() != (FORMAT,):
                    return {}
                rows = db.execute(query, (self.scope, *arguments)).fetchall()
            return {
                _decoded(name): (_decoded(fingerprint), marshal.loads(data))
                for name, fingerprint, checksum, data in rows
                if zlib.crc32(data) == checksum
            }
        except (sqlite3.Error, ValueError, EOFError, TypeError):
            return {}

    def _is_written(self, *statements: tuple[str, list[tuple[object, ...]]]) -> bool:
        """Run statements in one transaction; a damaged file or one of another format is replaced first."""
        import sqlite3  # noqa: PLC0415

        unusable = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
        for _ in range(2):
            try:
                if not self.path.exists():
                    disk.make_folder(self.path.parent)
                    # Because SQLite would use the mode that the umask allows.
                    with suppress(FileExistsError):
                        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, disk.FILE_MODE))
                with closing(sqlite3.connect(self.path, timeout=WRITE_WAIT, isolation_level=None)) as db:
                    # Without a flush a power cut may damage the file, which is then replaced.
                    db.execute("pragma synchronous = off")
                    db.execute("pragma secure_delete = on")
                    db.execute("begin immediate")
                    (version,) = db.execute("pragma user_version").fetchone()
                    if version == 0:
                        db.execute(_TABLE)
                        db.execute(f"pragma user_version = {FORMAT}")
                    if version in {0, FORMAT}:
                        for statement, rows in statements:
                            db.executemany(statement, rows)
                        db.execute("commit")
                        return True
                self.delete()
            except sqlite3.Error as error:
                if error.sqlite_errorcode not in unusable:
                    return False
                with suppress(OSError):
                    self.delete()
            except OSError:
                return False
        return False

    def delete(self) -> None:
        """Delete the file with all scopes; raises OSError if that fails."""
        for path in (self.path, self.path.with_name(f"{FILE}-journal")):
            path.unlink(missing_ok=True)


def _encoded(text: str) -> bytes:
    """Encode a text: SQLite takes no lone surrogates, which a path can have."""
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
