"""The root directory of a project: its git root, shared by all worktrees of one repository (M3).

Read from git's files, so that no git is needed. A `.git` file is only trusted if the repository it names
knows it: otherwise a hostile folder could choose whose memory it reads and writes.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from nacre.store import disk

MAX_LINK_BYTES = 16_384
"""A `.git`, `commondir` or `gitdir` file holds one path; nothing longer is valid."""
MAX_CONFIG_BYTES = 1_048_576
"""A repository's own settings are small; a larger file is not worth the wait."""

_SECTION = re.compile(r"\[\s*([^\]\"\s]+)\s*(?:\"[^\"]*\")?\s*\]")
_WORKTREE = re.compile(r"\s*worktree\s*=\s*(.*?)\s*", re.IGNORECASE)


def canonical_root(cwd: Path) -> Path:
    """Return the repository root of a directory, for a worktree the main one; without git, itself."""
    start = Path(os.path.realpath(cwd))
    for folder in (start, *start.parents):
        dot_git = folder / ".git"
        if _is_repository(dot_git):
            return folder
        if _is(dot_git, stat.S_ISREG):
            # A worktree, if both sides agree: its administrative folder must be in the repository's own
            # `worktrees/`, where only its owner can write, and must name this very `.git` file. A submodule
            # has no `commondir`: it is its own repository.
            git_dir = _named(dot_git, prefix="gitdir:")
            common = None if git_dir is None else _named(git_dir / "commondir")
            if git_dir is None or common is None or not _is_repository(common):
                return folder
            back = _named(git_dir / "gitdir")
            is_known = git_dir.parent == common / "worktrees" and back == Path(os.path.realpath(dot_git))
            return _main_checkout(common) if is_known else folder
        if _is_repository(folder):  # bare, or inside a `.git`
            return _main_checkout(folder)
    return start


def checkout_root(cwd: Path) -> Path:
    """Return the root of the checkout in use: a worktree's own folder, not its main repository's (M26)."""
    start = Path(os.path.realpath(cwd))
    for folder in (start, *start.parents):
        if _is_repository(folder / ".git") or _is(folder / ".git", stat.S_ISREG):
            return folder
    return start


def _is_repository(folder: Path) -> bool:
    """Return whether git would accept this as a repository: an empty `.git` is none."""
    parts = {"HEAD": stat.S_ISREG, "objects": stat.S_ISDIR, "refs": stat.S_ISDIR}
    return all(_is(folder / name, kind) for name, kind in parts.items())


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    """Return whether a file of this kind exists; inaccessible ones count as absent."""
    try:
        return kind(path.stat().st_mode)
    except OSError:
        return False


def _main_checkout(repository: Path) -> Path:
    """Return the main checkout of a repository; for a bare one the repository itself."""
    if repository.name == ".git":
        return repository.parent
    # `core.worktree` names the checkout of a submodule's repository.
    section = ""
    configured = None
    for line in _text(repository / "config", MAX_CONFIG_BYTES).splitlines():
        if heading := _SECTION.match(line.strip()):
            section = heading[1].lower()
        elif section == "core" and (setting := _WORKTREE.fullmatch(line)):
            configured = _resolved(repository, setting[1].strip('"'))
            break
    for folder in (repository.parent, configured):
        if folder is not None and _named(folder / ".git", prefix="gitdir:") == repository:
            return folder
    return repository


def _named(file: Path, *, prefix: str = "") -> Path | None:
    """Return the real path that a one-line file names, relative to the file."""
    text = _text(file, MAX_LINK_BYTES)
    if not text.startswith(prefix):
        return None
    return _resolved(file.parent, text.removeprefix(prefix).strip())


def _resolved(base: Path, name: str) -> Path | None:
    return Path(os.path.realpath(base / name)) if name and "\0" not in name else None


def _text(file: Path, limit: int) -> str:
    """Return a small regular file's text; empty for anything else, without blocking on a pipe."""
    try:
        descriptor = disk.open_regular(file, os.O_RDONLY)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as source:
        data = source.read(limit + 1)
    return os.fsdecode(data) if len(data) <= limit else ""
