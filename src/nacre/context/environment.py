"""The environment section of the first message: directory, git branch, platform and date."""

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
    """Return the branch checked out around a directory; empty outside of git and on a detached HEAD."""
    for folder in (cwd, *cwd.parents):
        dot_git = folder / ".git"
        if dot_git.exists():
            return _head(dot_git)
    return ""


def _head(dot_git: Path) -> str:
    try:
        if dot_git.is_file():
            # In a worktree or submodule the file names the real folder.
            dot_git = dot_git.parent / dot_git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (dot_git / "HEAD").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError, ValueError):
        return ""
    return head.removeprefix(_REF) if head.startswith(_REF) else ""


def environment(cwd: Path, now: datetime) -> str:
    """Return the environment section of a session's first message; it never changes afterwards.

    Empty if the directory does not exist, as for a session imported from another machine.
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
"""English names: those of `strftime` depend on the locale."""


class CurrentDate(Layer):
    """Attaches the date when it differs from the one the model knows; owned by one session."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opened = clock.now().astimezone().date()
        """The date in the opening of a new session."""

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """Attach a new date to a user prompt; with tool results it can wait."""
        today = self._clock.now().astimezone().date()
        before = _last_seen(view) or self._opened
        if before == today or any(isinstance(block, ToolResult) for block in said.blocks):
            return []
        text = prompts.render(NEW_DAY, before=_spelled(before), now=_spelled(today))
        return [Attachment(kind=DAY, text=text, facts={"date": today.isoformat()})]


def _last_seen(view: View) -> date | None:
    """Return the date of the last note; else that of the opening, which contains it.

    Another program's log has no such opening: it is added with this prompt, and contains today's date.
    """
    for note in reversed(view.noted(DAY)):
        if isinstance(written := note.fact("date"), str):
            return date.fromisoformat(written)
    opening = view.last_noted(OPENING)
    return opening.at.astimezone().date() if opening else None


def _spelled(day: date) -> str:
    return f"{_WEEKDAYS[day.weekday()]}, {day.isoformat()}"
