"""Pictures that a person drops into the terminal, as paths, or has in the clipboard."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from urllib.parse import unquote, urlsplit

from nacre.messages.blocks import Image
from nacre.messages.media import as_image
from nacre.process import run_sync

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
MAX_PATHS = 20
"""Files dropped at once."""
MAX_DROPPED_CHARS = 8_000
"""A longer text is no list of paths."""
CLIPBOARD_SECONDS = 3.0
CLIPBOARDS: Sequence[Sequence[str]] = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
"""Programs that print the picture in the clipboard, because no terminal can: Wayland, X11, macOS."""
ABSOLUTE = re.compile(r"(?:file://|~?/|'|\")")


def dropped_pictures(text: str) -> list[Path]:
    """Return the pictures that a pasted text names; empty if it says anything else.

    Terminals paste a dropped file as its absolute path: quoted, with backslashes, or as a `file://` address.
    """
    text = text.strip()
    if len(text) > MAX_DROPPED_CHARS or not ABSOLUTE.match(text):
        return []
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    whole = _path(text)  # a path with spaces that nobody quoted
    paths = [whole] if _is_picture(whole) else [_path(word) for word in words[: MAX_PATHS + 1]]
    return paths if len(paths) <= MAX_PATHS and all(_is_picture(path) for path in paths) else []


def named_pictures(text: str) -> list[Path]:
    """Return the pictures that a line names by absolute paths, as a dropped file does."""
    try:
        words = shlex.split(text)
    except ValueError:  # an apostrophe
        words = text.split()
    paths = dict.fromkeys(_path(word) for word in words)
    return [path for path in paths if _is_picture(path)][:MAX_PATHS]


def _path(word: str) -> Path:
    if word.startswith("file://"):
        return Path(unquote(urlsplit(word).path))
    return Path(word)


def _is_picture(path: Path) -> bool:
    try:
        path = path.expanduser()
        return path.suffix.lower() in SUFFIXES and path.is_absolute() and path.is_file()
    except (OSError, ValueError, RuntimeError):
        return False


async def clipboard_picture(cwd: Path, environ: Mapping[str, str]) -> Image | None:
    """Return the picture in the clipboard, if there is one and a program can read it."""
    for command in CLIPBOARDS:
        if which(command[0], path=environ.get("PATH")) is None:
            continue
        try:
            done = await asyncio.to_thread(
                run_sync, command, cwd=cwd, environ=environ, seconds=CLIPBOARD_SECONDS
            )
            if done.returncode == 0 and done.stdout:
                return as_image(done.stdout)
        except (OSError, TimeoutError, ValueError):
            continue
    return None


def clipboard_advice() -> str:
    """Return why there may be no picture, and what else works."""
    program = "pngpaste" if sys.platform == "darwin" else "wl-paste or xclip"
    return f"no picture in the clipboard (read by {program}); drop its file or paste its path"
