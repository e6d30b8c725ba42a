"""Tool results on disk next to a session's log: one file per call, written once, read, pruned (C4, C8)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nacre import prompts
from nacre.errors import StoreError
from nacre.messages.blocks import Json
from nacre.store import disk

FOLDER = "tool-results"
"""Folder of the results, next to the session's log."""
PIECE_CHARS = 1_048_576
"""Characters encoded at a time: a text of two gigabytes is not copied whole."""
TEMP_PREFIX = ".writing-"
"""Files that a killed process may leave; never listed, and pruned with the rest."""
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")
"""Ids that are their own file name: those of every known provider. The length leaves room for a suffix."""
_ERRORS = "surrogatepass"
"""A lone surrogate is written as its three bytes, so that the text read equals the text stored."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The file of a stored result."""

    path: Path
    bytes: int


@dataclass(frozen=True, slots=True)
class ResultFile:
    """One file of a store, as a listing shows it."""

    path: Path
    bytes: int
    modified: datetime


class ToolResultStore:
    """The results of one session on disk; without a folder nothing can be stored."""

    def __init__(self, folder: Path | None, *, sync: bool = True) -> None:
        self.folder = folder
        self._sync = sync
        """Whether a file must survive a power cut before a pointer to it is recorded."""
        self._known: dict[str, set[str]] | None = None
        """Names by their form on a file system that ignores case."""

    def path(self, call_id: str, *, structured: bool = False) -> Path | None:
        """Return the path for the result of a call; an id can contain anything, a file name cannot."""
        if self.folder is None:
            return None
        ending = ".json" if structured else ".txt"
        name = call_id + ending
        if _PLAIN.fullmatch(call_id) is None or self._is_taken_in_another_case(name):
            # No plain id contains "=", so that no other id can have this name.
            name = f"id={_digest(call_id)}{ending}"
        return self.folder / name

    def keep(self, call_id: str, text: str, *, structured: bool = False) -> StoredResult:
        """Store a whole text, in a file with exactly this text even if an id is used a second time.

        Some servers count their ids from one in every conversation or after every restart. Raises
        `StoreError` if the disk refuses.
        """
        path = self._place(call_id, structured=structured)
        with _as_store_error(path):
            is_ours = not path.exists() and self._create(path, text)
            if not is_ours and not _holds(path, text):
                path = path.with_name(f"{path.stem}={_digest(text)}{path.suffix}")
                if not path.exists():
                    self._create(path, text)
            return StoredResult(path, path.stat().st_size)

    def read(self, call_id: str, *, structured: bool = False) -> str | None:
        """Return the stored text; None if it is not here."""
        path = self.path(call_id, structured=structured)
        if path is None:
            return None
        with _as_store_error(path):
            try:
                return path.read_bytes().decode(errors=_ERRORS)
            except FileNotFoundError:
                return None

    def held(self) -> list[ResultFile]:
        """Return every file, oldest first, without half-written ones."""
        return [one for one in self._listed() if not one.path.name.startswith(TEMP_PREFIX)]

    def leavings(self) -> list[ResultFile]:
        """Return the half-written files of killed processes."""
        return [one for one in self._listed() if one.path.name.startswith(TEMP_PREFIX)]

    def _place(self, call_id: str, *, structured: bool) -> Path:
        path = self.path(call_id, structured=structured)
        if path is None:
            raise StoreError("this session leaves nothing on disk, so its results cannot be kept there")
        return path

    def _create(self, path: Path, text: str) -> bool:
        """Write a temporary file, then rename it: no reader ever sees half, and no file is overwritten.

        False if the name was taken first.
        """
        disk.make_folder(path.parent)
        descriptor, name = tempfile.mkstemp(prefix=TEMP_PREFIX, dir=path.parent)
        try:
            try:
                for start in range(0, len(text), PIECE_CHARS):
                    piece = text[start : start + PIECE_CHARS]
                    disk.write_all(descriptor, piece.encode(errors=_ERRORS))
                if self._sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            is_first = _name(Path(name), path)
        finally:
            Path(name).unlink(missing_ok=True)
        if self._sync:
            disk.sync_folder(path.parent)
        self._names().setdefault(path.name.casefold(), set()).add(path.name)
        return is_first

    def _is_taken_in_another_case(self, name: str) -> bool:
        """Return whether a file system that ignores case would confuse this name with another."""
        same = self._names().get(name.casefold(), set())
        return bool(same) and name not in same

    def _names(self) -> dict[str, set[str]]:
        if self._known is None:
            self._known = {}
            for one in self._listed():
                self._known.setdefault(one.path.name.casefold(), set()).add(one.path.name)
        return self._known

    def _listed(self) -> list[ResultFile]:
        if self.folder is None:
            return []
        found = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                        if entry.is_file(follow_symlinks=False):
                            seen = entry.stat(follow_symlinks=False)
                            moment = datetime.fromtimestamp(seen.st_mtime, UTC)
                            found.append(ResultFile(Path(entry.path), seen.st_size, moment))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(disk.explain(error, self.folder)) from error
        return sorted(found, key=lambda one: (one.modified, one.path.name))


def _name(temp: Path, path: Path) -> bool:
    """Link a file to its name unless it is taken; without hard links, rename it."""
    try:
        path.hardlink_to(temp)
    except FileExistsError:
        return False
    except OSError:
        if path.exists():
            return False
        temp.replace(path)
    return True


def _holds(path: Path, text: str) -> bool:
    """Return whether a file contains exactly this text, compared piece by piece."""
    with path.open("rb") as file:
        for start in range(0, len(text), PIECE_CHARS):
            expected = text[start : start + PIECE_CHARS].encode(errors=_ERRORS)
            if file.read(len(expected)) != expected:
                return False
        return not file.read(1)


def _digest(text: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for start in range(0, len(text), PIECE_CHARS):
        digest.update(text[start : start + PIECE_CHARS].encode(errors=_ERRORS))
    return digest.hexdigest()


@contextlib.contextmanager
def _as_store_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error


def as_result_store(results: ToolResultStore | str | os.PathLike[str]) -> ToolResultStore:
    """Return the store itself, or one in the given directory."""
    return results if isinstance(results, ToolResultStore) else ToolResultStore(Path(results).resolve())


def result_store_in(folder: Path | None) -> ToolResultStore:
    """Return the store of a session; without a folder it stores nothing."""
    return ToolResultStore(folder / FOLDER if folder else None)


def result_folders_named(folders: Iterable[Json], home: Path) -> set[Path]:
    """Return those of the folders a log names in which sessions of this home keep results.

    A branch uses what its origin stored; but a log can come from anywhere, and must open nothing else.
    """
    places = {Path(os.path.normpath(str(folder))) for folder in folders}
    return {one for one in places if one.name == FOLDER and one.is_relative_to(home / "projects")}


PERSISTED = prompts.load(__package__, "persisted")
PERSISTED_CUT = prompts.load(__package__, "persisted_cut")
"""The same for a result that its tool had cut: the file does not contain all of it."""
OPENING = PERSISTED.partition("\n")[0]
"""Start of every pointer."""
LONG_LINE_CHARS = 2_000
"""Characters that Read shows of a line: the rest of a longer one needs another tool."""
BY_LINES = "Read it with Read (offset and limit choose the lines) or search it with Grep."
BY_PIECES = (
    f" It has lines of more than {LONG_LINE_CHARS:,} characters: take pieces of them in Bash with `cut -c`"
    " or `grep -o`."
)
AS_JSON = " It is a JSON list of the texts that the tool gave."


@dataclass(frozen=True, slots=True)
class Advice:
    """How the model should read a file, depending on the tools it has."""

    by_lines: str = BY_LINES
    by_pieces: str = BY_PIECES
    """Added if there are lines that Read would cut."""


USUAL = Advice()


def pointer(
    tool: str,
    texts: Sequence[str],
    kept: StoredResult,
    *,
    preview_bytes: int,
    advice: Advice = USUAL,
    cut: str | None = None,
) -> str:
    """Return the text that replaces these texts from now on.

    `cut` is how much of its result the tool returned, if not all.
    """
    is_list = len(texts) > 1
    by_pieces = advice.by_pieces * (is_list or has_long_line(texts[0]))
    template, more = (PERSISTED, {}) if cut is None else (PERSISTED_CUT, {"cut": cut})
    return prompts.render(
        template,
        **more,
        tool=tool,
        chars=f"{sum(map(len, texts)):,}",
        bytes=f"{kept.bytes:,}",
        path=str(kept.path),
        advice=advice.by_lines + AS_JSON * is_list + by_pieces,
        preview=preview(texts[0], preview_bytes),
    )


def preview(text: str, limit: int) -> str:
    """Return the first bytes of a text, cut at the last line end if past half, never in a character."""
    head = text[:limit].encode(errors="surrogatepass")
    if len(head) > limit:
        end = limit
        while end and head[end] & 0xC0 == 0x80:  # the middle of a character
            end -= 1
        head = head[:end]
    shown = head.decode(errors="surrogatepass")
    line_end = head.rfind(b"\n")
    if len(shown) < len(text) and line_end > limit / 2:
        return head[:line_end].decode(errors="surrogatepass")
    return shown


def has_long_line(text: str) -> bool:
    """Return whether Read would cut a line; checks only positions by which a line must have ended."""
    start = 0
    while len(text) - start > LONG_LINE_CHARS:
        end = text.rfind("\n", start, start + LONG_LINE_CHARS + 1)
        if end < 0:
            return True
        start = end + 1
    return False


CLEARED = "clear"
"""Kind of the note, and reason of the rewrite, for a cleared result."""
KEPT = "[This old result was cleared to save room. Its full text is in {path}; read it there if you need it.]"


KEPT_CUT = (
    "[This old result was cleared to save room. What its tool returned, cut, is in {path};"
    " read it there if you need it.]"
)


def pointed_to(text: str) -> str | None:
    """Return the file that a cleared result names; None if its text could not be stored."""
    for sentence in (KEPT, KEPT_CUT):
        ahead, _, behind = sentence.partition("{path}")
        if text.startswith(ahead) and text.endswith(behind):
            return text[len(ahead) : -len(behind)]
    return None
