"""Where a session works: the directory, its git branch, the platform and the date, as the model is told."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

from nacre import prompts
from nacre.clock import Clock
from nacre.messages.blocks import ToolResult
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.session.attachments import DAY, Attachment
from nacre.session.layer import Layer
from nacre.session.session import OPENING

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


NEW_DAY = prompts.load(__package__, "new_day")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""By name, because what a calendar calls them depends on the machine."""


class CurrentDate(Layer):
    """Knows which date the model was told, and tells it a new one; owned by one session."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opened = clock.now().astimezone().date()
        """What the opening of a new session says."""

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """The new date, with a person's words; in the middle of the work it can wait."""
        today = self._clock.now().astimezone().date()
        before = _last_told(view) or self._opened
        if before == today or any(isinstance(block, ToolResult) for block in said.blocks):
            return []
        text = prompts.render(NEW_DAY, before=_spelled(before), now=_spelled(today))
        return [Attachment(kind=DAY, text=text, facts={"date": today.isoformat()})]


def _last_told(view: View) -> date | None:
    """What the last note says; else the day of the opening, which named it.

    Another program's log has no opening of ours: it comes with these very words, and names today.
    """
    for note in reversed(view.noted(DAY)):
        if isinstance(written := note.fact("date"), str):
            return date.fromisoformat(written)
    opening = view.last_noted(OPENING)
    return opening.at.astimezone().date() if opening else None


def _spelled(day: date) -> str:
    return f"{_WEEKDAYS[day.weekday()]}, {day.isoformat()}"
