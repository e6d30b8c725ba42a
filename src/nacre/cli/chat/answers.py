"""Questions before a chat begins, answered in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nacre.cli.output import printable


def ask_trust(directory: Path, wants: tuple[str, ...], read: Callable[[str], str] = input) -> bool:
    """Ask whether the settings of a directory may be used."""
    print(printable(f"The settings in {directory} bring: {', '.join(wants)}."))
    print("They can run programs and send your words elsewhere. Unless you trust the")
    print("directory, they are ignored.")
    return read_word(read, "  trust it? [y]es, [N]o: ") in {"y", "yes"}


def ask_outside(root: Path, path: Path, read: Callable[[str], str] = input) -> bool:
    """Ask whether a project's instructions may include a file outside of it (M23)."""
    print(printable(f"The instructions in {root} include {path}, which is outside of it."))
    return read_word(read, "  load it, now and from now on? [y]es, [N]o: ") in {"y", "yes"}


def read_word(read: Callable[[str], str], prompt: str) -> str:
    """Return the answer in lower case; empty at the end of input."""
    try:
        return read(prompt).strip().lower()
    except (EOFError, UnicodeDecodeError):
        print()
        return ""
    except KeyboardInterrupt:
        print()  # what is said next begins on a line of its own
        raise
