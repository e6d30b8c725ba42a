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
from nacre.session.layer import DAY, Attachment, Layer
from nacre.session.session import OPENING

ENVIRONMENT = prompts.load(__package__, "environment")
_BRANCHES = "refs/heads/"


def git_branch(cwd: Path) -> str:
    """Return the branch checked out around a directory; empty outside of git and on a detached HEAD."""
    from nacre.tools.git import run_git_sync  # noqa: PLC0415 - only new and resumed sessions need it

    if not any((folder / ".git").exists() for folder in (cwd, *cwd.parents)):
        return ""
    try:
        # Also where another account owns the files, as in many containers: this starts no program.
        head = run_git_sync(cwd, "-c", "safe.directory=*", "symbolic-ref", "--quiet", "HEAD")
    except (OSError, TimeoutError):
        return ""
    name = head.out.decode(errors="replace").removesuffix("\n")
    return name.removeprefix(_BRANCHES) if not head.code and name.startswith(_BRANCHES) else ""


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
        if any(isinstance(block, ToolResult) for block in said.blocks):
            return []
        dates = (note.fact("date") for note in reversed(view.noted(DAY)))
        written = next((one for one in dates if isinstance(one, str)), None)
        opening = view.last_noted(OPENING)
        # Another program's log has no such opening: it is added with this prompt, and contains today's date.
        opened = opening.at.astimezone().date() if opening else self._opened
        before = date.fromisoformat(written) if written else opened
        if before == today:
            return []
        text = prompts.render(NEW_DAY, before=_spelled(before), now=_spelled(today))
        return [Attachment(kind=DAY, text=text, facts={"date": today.isoformat()})]


def _spelled(day: date) -> str:
    return f"{_WEEKDAYS[day.weekday()]}, {day.isoformat()}"
