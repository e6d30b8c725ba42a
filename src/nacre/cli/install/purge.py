"""The files of nacre in Claude Code's folder beside the memories, and their removal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from nacre.errors import ConfigError, StoreError
from nacre.integrations.claude_code.input import KEPT_FILE, SHORT_FILE
from nacre.memory.files.identity import FILE, read_identity
from nacre.store import disk

OWN_CACHES = frozenset({"hooks", "install", "user", "sessions"})
MARKS = ("lock", "journal")
"""At least one of these is in the cache of each memory that was written."""


def leftovers(home: Path) -> list[Path]:
    """Return what nacre keeps in the client's folder: caches, histories, identities, words of sessions.

    Links are left out; memories and the client's own files are not included.
    """
    return [one for one in _candidates(home) if not one.is_symlink()]


def delete(paths: Sequence[Path], home: Path) -> None:
    """Delete them, and folders that this leaves empty. Raises `ConfigError` if one cannot be deleted."""
    for path in paths:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(disk.explain(error, path)) from error
        above = path.parent
        while above != home and above.is_relative_to(home):
            with suppress(OSError):
                above.rmdir()
            above = above.parent


def _candidates(home: Path) -> Iterator[Path]:
    if not (home / "cache").is_symlink():
        for one in sorted(home.glob("cache/*")):
            is_ours = one.name in OWN_CACHES or any((one / mark).exists() for mark in MARKS)
            if (one.is_dir() and is_ours) or one.name.startswith("derived.db"):
                yield one
    if not (home / "history").is_symlink():
        yield from sorted(one for one in home.glob("history/*.git") if one.is_dir())
    for one in sorted(home.glob(f"projects/*/{FILE}")):
        with suppress(StoreError):
            if read_identity(one):
                yield one
    for name in (KEPT_FILE, SHORT_FILE):
        yield from sorted(home.glob(f"projects/*/*/{name}"))
