"""The file that holds a session's notes: read and written whole, and who wrote it last."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import StoreError
from nacre.store import disk

FOLDER = "session-memory"
NAME = "summary.md"
"""Where a session keeps its notes, beside its log."""
ASIDE = ".summary.writing"
"""Only the session's own process writes here, so that one name is enough."""
_MARK = re.compile(r"<!-- by rule ([0-9a-f]{16}) -->\n?\Z")


@dataclass(frozen=True, slots=True)
class NotesFile:
    """One session's notes on disk."""

    path: Path

    @staticmethod
    def of(folder: Path) -> NotesFile:
        """The notes of the session whose folder this is; links on the way to it are followed now, once."""
        return NotesFile(Path(os.path.realpath(folder / FOLDER)) / NAME)

    def read(self) -> str:
        """What it says; nothing if it is not there. Raises `StoreError` for what is no file of ours."""
        try:
            descriptor = disk.open_regular(self.path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise StoreError(disk.explain(error, self.path)) from error

    def write(self, text: str) -> None:
        """Put a text in its place, all or nothing; an empty one takes the file away."""
        try:
            if not text:
                self.path.unlink(missing_ok=True)
                return
            disk.make_folder(self.path.parent)
            # What a power cut takes can be had again from the log: no need to wait for the disk.
            disk.replace_file(self.path, text.encode(errors="replace"), temp_name=ASIDE, sync=False)
        except OSError as error:
            raise StoreError(disk.explain(error, self.path)) from error


def marked(text: str) -> str:
    """A text with the line that says that rules wrote it, and that nobody has changed it since."""
    return f"{text}\n<!-- by rule {_digest(text)} -->\n"


def unmarked(text: str) -> str:
    """A text without that line."""
    return _MARK.sub("", text)


def is_by_rule(text: str) -> bool:
    """Whether rules wrote every word of it: then they may write it again."""
    mark = _MARK.search(text)
    return mark is not None and mark[1] == _digest(text[: mark.start()].removesuffix("\n"))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()
