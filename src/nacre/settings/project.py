"""Which directory's `.nacre/` applies here, and whether a file in it came with the repository."""

from __future__ import annotations

from pathlib import Path

COMPRESSED_INDEX = 4
"""From this version on git's index shortens paths, so that a search for one proves nothing."""


def find_root(cwd: Path, home: Path) -> Path:
    """The nearest directory with a `.nacre/`, up to the repository's top; outside one, the current directory.

    Nothing above the repository is looked at: anyone may write a `.nacre/` into a shared `/tmp`.
    """
    top = _repository(cwd)
    if top is None:
        return cwd
    for directory in (cwd, *cwd.parents):
        settings = directory / ".nacre"
        if directory == top or (settings.is_dir() and not is_same(settings, home)):
            return directory
    return cwd


def is_same(folder: Path, home: Path) -> bool:
    """Whether a directory's `.nacre/` is the user's own home, which is nobody's project."""
    return folder.resolve() == home.resolve()


def is_committed(path: Path) -> bool:
    """Whether git tracks this file, so that whoever wrote the repository wrote it; in doubt, yes."""
    top = _repository(path.parent)
    if top is None or not path.exists():
        return False
    try:
        data = _index(top / ".git").read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    tracked = str(path.relative_to(top)).encode(errors="surrogateescape")
    return int.from_bytes(data[4:8]) >= COMPRESSED_INDEX or tracked + b"\0" in data


def _repository(directory: Path) -> Path | None:
    return next((above for above in (directory, *directory.parents) if (above / ".git").exists()), None)


def _index(git: Path) -> Path:
    """Git's list of tracked files; in a worktree or submodule `.git` is a file that names the directory."""
    if git.is_dir():
        return git / "index"
    text = git.read_bytes()[:4096].decode(errors="surrogateescape")
    return git.parent / text.removeprefix("gitdir:").strip().replace("\0", "") / "index"
