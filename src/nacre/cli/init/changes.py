"""What `nacre init` writes, with a record by which it can be undone."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from nacre.cli.install.json_edit import Addition, add, at, missing, parsed, take_member
from nacre.errors import ConfigError
from nacre.messages.blocks import Json
from nacre.store import disk

RECORD = Path("cache/init.json")
"""Below the home."""
Kind = Literal["settings", "block", "file"]
"""A settings file of which values were set, a file with a block of lines, a file written as a whole."""


@dataclass(slots=True)
class ChangedFile:
    """A file as it was before the first change, and what was done to it."""

    kind: Kind
    before: str | None
    """In base64; None if there was none."""
    after: str = ""
    """A digest of the file after the last change."""
    block: str = ""
    values: list[tuple[list[str], Json, Json]] = field(default_factory=list)
    """Keys, value before (None: there was none) and value set (None: it was removed)."""


class InitChanges:
    """Changes of files, recorded as they are made."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.settings = home / "settings.json"
        self.lines: list[str] = []
        """What was changed, for the person."""
        self._files, self.has_claude_code = _read_record(home / RECORD)

    def set_value(self, keys: tuple[str, ...], value: Json, *, is_secret: bool = False) -> None:
        """Set a value in the settings; the other bytes stay as they are."""
        text = _text(self.settings)
        before = at(parsed(text, str(self.settings)), keys)
        if before == value:
            return
        new = add(text, Addition(keys=keys, value=value), str(self.settings))
        self._file(self.settings, "settings").values.append(([*keys], before, value))
        self._write(self.settings, new)
        shown = "…" if is_secret else json.dumps(value, ensure_ascii=False)
        self.lines.append(f"{self.settings}: {'.'.join(keys)} is {shown}")

    def remove_value(self, keys: tuple[str, ...]) -> None:
        """Remove a value from the settings, if it is there."""
        text = _text(self.settings)
        document = parsed(text, str(self.settings))
        if missing(document, keys) == len(keys):
            self._file(self.settings, "settings").values.append(([*keys], at(document, keys), None))
            self._write(self.settings, take_member(text, keys))
            self.lines.append(f"{self.settings}: {'.'.join(keys)} is removed")

    def write(self, path: Path, text: str, *, is_block: bool) -> None:
        """Write a file, or append a block of lines to one of the person."""
        changed = self._file(path, "block" if is_block else "file")
        there = _text(path) if is_block else ""
        changed.block = text if is_block else ""
        self._write(path, there + "\n" * (bool(there) and not there.endswith("\n")) + text)
        self.lines.append(f"{path}: {'lines added at its end' if is_block else 'written'}")

    def note_claude_code(self) -> None:
        """Record that Claude Code was set up as well."""
        self.has_claude_code = True
        self._save()

    def undo(self) -> list[str]:
        """Restore the files; of one that was changed since, only what was written is taken out."""
        done = [self._undo_file(Path(path), one) for path, one in self._files.items()]
        self._files = {}
        (self.home / RECORD).unlink(missing_ok=True)
        return done or ["nothing of `nacre init` is there to undo"]

    def _undo_file(self, path: Path, changed: ChangedFile) -> str:
        now = _read(path)
        if now is None:
            return f"{path}: gone already"
        if _digest(now) == changed.after:
            if changed.before is None:
                path.unlink()
                return f"{path}: removed"
            _replace(path, base64.b64decode(changed.before))
            return f"{path}: as it was before"
        text = now.decode(errors="surrogateescape")
        if changed.kind == "file":
            return f"{path}: changed since, so it stays; remove it by hand"
        new = text.replace(changed.block, "") if changed.kind == "block" else _without(text, path, changed)
        _replace(path, new.encode(errors="surrogateescape"))
        return f"{path}: changed since; only what was written is taken out"

    def _file(self, path: Path, kind: Kind) -> ChangedFile:
        before = _read(path)
        kept = None if before is None else base64.b64encode(before).decode()
        return self._files.setdefault(str(path), ChangedFile(kind, kept))

    def _write(self, path: Path, text: str) -> None:
        data = text.encode(errors="surrogateescape")
        self._files[str(path)].after = _digest(data)
        self._save()
        _replace(path, data)

    def _save(self) -> None:
        files = {path: asdict(one) for path, one in self._files.items()}
        data = json.dumps({"files": files, "claude_code": self.has_claude_code}, indent=1).encode()
        _replace(self.home / RECORD, data)


def _without(text: str, path: Path, changed: ChangedFile) -> str:
    """Return settings with the values from before, where the ones that were set are still there."""
    for keys, before, value in reversed(changed.values):
        document = parsed(text, str(path))
        if at(document, keys) != value:
            continue
        if before is not None:
            text = add(text, Addition(keys=tuple(keys), value=before), str(path))
            continue
        text = take_member(text, keys)
        while len(keys := keys[:-1]) and at(parsed(text, str(path)), keys) == {}:
            text = take_member(text, keys)
    return text


def _read_record(path: Path) -> tuple[dict[str, ChangedFile], bool]:
    try:
        stored = json.loads(path.read_bytes())
        files = {name: ChangedFile(**one) for name, one in stored["files"].items()}
        return files, stored["claude_code"] is True
    except FileNotFoundError:
        return {}, False
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); remove it, and undo by hand") from None


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(disk.explain(error, path)) from error


def _text(path: Path) -> str:
    return (_read(path) or b"").decode(errors="surrogateescape")


def _replace(path: Path, data: bytes) -> None:
    """Write a file; a link, as in a folder of dotfiles, stays one."""
    target = Path(os.path.realpath(path))
    try:
        disk.make_folder(target.parent)
        mode = target.stat().st_mode & 0o777 if target.exists() else disk.FILE_MODE
        disk.replace_file(target, data, temp_name=f".{target.name}.tmp", mode=mode)
    except OSError as error:
        raise ConfigError(disk.explain(error, path)) from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
