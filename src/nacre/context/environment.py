"""Where a session works: the directory, its git branch, the platform and the date, as the model is told."""

from __future__ import annotations

import platform
from datetime import datetime
from pathlib import Path

from nacre import prompts

ENVIRONMENT = prompts.load(__package__, "environment")
_REF = "ref: refs/heads/"


def git_branch(cwd: Path) -> str:
    """The branch checked out around a directory; empty outside of git and on a detached head."""
    for folder in (cwd, *cwd.parents):
        dot_git = folder / ".git"
        if dot_git.exists():
            return _head(dot_git)
    return ""


def _head(dot_git: Path) -> str:
    try:
        if dot_git.is_file():
            # A worktree or submodule: the file names the real folder.
            dot_git = dot_git.parent / dot_git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (dot_git / "HEAD").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError, ValueError):
        return ""
    return head.removeprefix(_REF) if head.startswith(_REF) else ""


def environment(cwd: Path, now: datetime) -> str:
    """What the first message of a session says about its surroundings; it never changes afterwards.

    Empty for a directory that is not there: of a session brought from another machine nothing is known.
    """
    if not cwd.is_dir():
        return ""
    return prompts.render(
        ENVIRONMENT,
        cwd=str(cwd),
        branch=git_branch(cwd) or "none",
        platform=platform.system().lower(),
        date=now.date().isoformat(),
    )
