"""Edit a text in the user's own editor, and keep it if it cannot be saved."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from nacre.errors import ConfigError, StoreError


def edited_by_hand(copy: Path) -> None:
    """Open a file in $VISUAL or $EDITOR and wait until the user has closed it."""
    command = editor()
    try:
        done = subprocess.run([*command, str(copy)], check=False)
    except OSError as error:
        raise ConfigError(
            f"cannot start {command[0]!r}: {error.strerror}; set EDITOR to an editor"
        ) from error
    if done.returncode:
        raise StoreError(f"{command[0]} ended with code {done.returncode}; nothing was changed")


def editor() -> list[str]:
    """Return the command of the user's editor."""
    words = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        return shlex.split(words)
    except ValueError as error:
        raise ConfigError(f"$EDITOR cannot be parsed: {words!r} ({error}); correct it") from error


def put_aside(data: bytes, file: str) -> Path:
    """Keep a text that cannot be saved in a temporary file."""
    descriptor, name = tempfile.mkstemp(prefix=f"{Path(file).stem}-", suffix=".md")
    with os.fdopen(descriptor, "wb") as kept:
        kept.write(data)
    return Path(name)
