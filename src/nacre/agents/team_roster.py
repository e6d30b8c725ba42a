"""The members of a team: `<home>/teams/<team>/config.json`, a flat list that any process may read (A6).

A name is taken while the process of its member runs, and free again once that has ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from nacre.agents.team_file import (
    FORMAT,
    ParsedTeamFile,
    TeamFile,
    TeamFileFormat,
    ignore_line,
    moment,
    number,
    text,
    unknown_fields,
)
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import MailError
from nacre.layers.l7_mail.letter import check_name
from nacre.layers.l7_mail.mailbox import box_path
from nacre.messages.blocks import Extra, Json, JsonObject
from nacre.process import is_alive, start_time
from nacre.store import disk
from nacre.store.locks import LOCK_FOLDER

TEAMS = "teams"


CONFIG = "config.json"


INBOXES = "inboxes"


PROMPTED = "prompted"
"""An empty file; its modification time is that of the last user prompt to the lead."""


MAX_MEMBERS = 100
"""Five times as many as one session may run at once, with room for members that ended and may return."""


FOREIGN_SECONDS = 86_400.0
"""Other machines' processes cannot be checked: one counts as ended after a day, as none runs that long."""


SHOWN_CHARS = 64
"""Maximum length of a refused name in a message: that of a valid one."""


_GONE = ".gone-"


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamMember:
    """One agent of a team and its process."""

    name: str
    type: str = ""
    session: str = ""
    pid: int = 0
    start: str = ""
    """Start time of the process; tells it from a later one with the same pid."""
    host: str = ""
    cwd: str = ""
    joined: datetime = _LONG_AGO
    extra: Extra = field(default=(), repr=False)
    """Fields of a newer version, kept unchanged."""

    @property
    def identity(self) -> tuple[str, ...]:
        """A value that differs between two runs of an agent with the same name."""
        return (self.name, self.session, str(self.pid), self.start, self.host)


@dataclass(frozen=True, slots=True)
class _Team:
    lead: str = ""
    members: tuple[TeamMember, ...] = ()
    extra: Extra = ()


def member_here(
    name: str, *, agent_type: str = "", session: str = "", cwd: str = "", clock: Clock = SYSTEM_CLOCK
) -> TeamMember:
    """Return a member that runs in this process."""
    return TeamMember(
        name=check_name(name),
        type=agent_type,
        session=session,
        pid=os.getpid(),
        start=start_time(os.getpid()),
        host=socket.gethostname(),
        cwd=cwd,
        joined=clock.now(),
    )


def teams(home: Path) -> tuple[str, ...]:
    """Return the names of all teams, sorted."""
    with contextlib.suppress(OSError):
        return tuple(sorted(path.parent.name for path in (home / TEAMS).glob(f"[!.]*/{CONFIG}")))
    return ()


class Roster:
    """The members of one team; `notify` is called with a warning about a damaged file."""

    def __init__(
        self,
        home: Path,
        team: str,
        *,
        notify: Callable[[str], None] = ignore_line,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        from nacre.agents.team_tasks import TeamTasks  # noqa: PLC0415 - most sessions have no team

        name = _name(team)
        if not name or name.casefold() == LOCK_FOLDER:
            raise MailError(f"{team[:SHOWN_CHARS]!r} cannot be a team's name; take one such as release-2")
        self.team = name
        self.folder = home / TEAMS / self.team
        self.tasks = TeamTasks(self.folder, notify=notify, clock=clock)
        self._file = TeamFile(self.folder / CONFIG, _FORM, notify=notify, clock=clock)
        self._clock = clock

    @property
    def exists(self) -> bool:
        """Whether the team exists."""
        return self._file.path.is_file()

    def create(self, lead: TeamMember) -> None:
        """Create the team, or lead one whose lead has ended; members, tasks and letters stay."""

        def begun(team: _Team) -> tuple[_Team, None]:
            old = next((each for each in team.members if each.name == team.lead), None)
            if old and self.is_alive(old):
                raise MailError(f"team {self.team} is led by {_where(old)}; join it or choose another name")
            return replace(self._with(team, lead), lead=lead.name), None

        self._release_dead(lead.name)
        self._file.change(begun, makes_folder=True)

    def join(self, member: TeamMember) -> None:
        """Join the team; replaces an ended member of the same name and releases its tasks in progress."""
        if not self.exists:
            raise MailError(f"there is no team {self.team}; an agent started with team_name begins one")
        self._release_dead(member.name)
        self._file.change(lambda team: (self._with(team, member), None))

    def leave(self, member: TeamMember) -> bool:
        """Leave the team and release the tasks in progress, unless another run has taken over the name."""

        def left(team: _Team) -> tuple[_Team, bool]:
            rest = tuple(each for each in team.members if each.identity != member.identity)
            return replace(team, members=rest), rest != team.members

        if not self.exists or not self._file.change(left):
            return False
        self.tasks.release(member.name)
        return True

    def members(self) -> tuple[TeamMember, ...]:
        """Return all members in the order of joining, running or not."""
        return self._file.read().members

    def member(self, name: str) -> TeamMember | None:
        """Return the member with this name, or None."""
        return next((each for each in self.members() if each.name == name), None)

    def lead(self) -> str:
        """Return the name of the lead; empty if there is none."""
        return self._file.read().lead

    def is_alive(self, member: TeamMember) -> bool:
        """Whether the member's process is running."""
        if member.host != socket.gethostname():
            return abs((self._clock.now() - member.joined).total_seconds()) < FOREIGN_SECONDS
        return is_alive(member.pid, member.start)

    def heard_person(self) -> None:
        """Record the time of a person's input to the lead; errors are ignored."""
        with contextlib.suppress(OSError):
            (self.folder / PROMPTED).touch(mode=disk.FILE_MODE)

    def prompted_at(self) -> int:
        """Return the time of a person's last input to the lead in nanoseconds; 0 if unknown."""
        with contextlib.suppress(OSError):
            return (self.folder / PROMPTED).stat().st_mtime_ns
        return 0

    def inbox_path(self, name: str) -> Path:
        """Return the path of the inbox for this name, also if there is no such member (A3)."""
        return box_path(self.folder / INBOXES, name)

    def remove(self) -> None:
        """Delete the team with its letters and tasks, if no member is running."""

        def gone(team: _Team) -> tuple[_Team, None]:
            if living := [each.name for each in team.members if self.is_alive(each)]:
                raise MailError(f"team {self.team} still has {', '.join(living)}; stop them first")
            try:
                self.folder.rename(self.folder.with_name(f"{_GONE}{self._clock.new_id()}"))
            except OSError as error:
                raise MailError(disk.explain(error, self.folder)) from error
            return team, None

        self._file.change(gone)
        # Also the remains of a removal that was killed here.
        for folder in self.folder.parent.glob(f"{_GONE}*"):
            shutil.rmtree(folder, ignore_errors=True)

    def _release_dead(self, name: str) -> None:
        if self.exists and (old := self.member(name)) and not self.is_alive(old):
            self.tasks.release(name)

    def _with(self, team: _Team, member: TeamMember) -> _Team:
        member = replace(member, name=check_name(member.name))
        # On a file system that ignores case, two names that differ only in case would share an inbox.
        alike = (each for each in team.members if each.name.casefold() == member.name.casefold())
        if any(self.is_alive(each) for each in alike):
            raise MailError(f"{member.name} is taken in team {self.team}; choose another name")
        others = tuple(each for each in team.members if each.name != member.name)
        if len(others) >= MAX_MEMBERS:
            raise MailError(
                f"team {self.team} has {MAX_MEMBERS} members, which is the most; begin another team"
            )
        return replace(team, members=(*others, member))


def _where(member: TeamMember) -> str:
    return f"{member.name} (process {member.pid} on {member.host})"


def _read(said: JsonObject) -> ParsedTeamFile[_Team]:
    rows = said.get("members")
    lead = _name(said.get("lead"))
    if not isinstance(rows, list):
        return ParsedTeamFile(_Team(lead or ""), "it holds no list of members")
    members: dict[str, TeamMember] = {}
    for row in rows:
        if (member := _member(row)) and member.name not in members:
            members[member.name] = member
    lost = len(rows) - len(members)
    problem = f"{lost} of {len(rows)} members cannot be read" if lost else ""
    problem = problem or ("the lead has no proper name" if lead is None else "")
    return ParsedTeamFile(_Team(lead or "", tuple(members.values()), unknown_fields(said, _KNOWN)), problem)


def _member(row: Json) -> TeamMember | None:
    if not isinstance(row, dict) or not (name := _name(row.get("name"))):
        return None
    return TeamMember(
        name=name,
        type=text(row, "type"),
        session=text(row, "session"),
        pid=number(row.get("pid")) or 0,
        start=text(row, "start"),
        host=text(row, "host"),
        cwd=text(row, "cwd"),
        joined=moment(row.get("joined")) or _LONG_AGO,
        extra=unknown_fields(row, _KNOWN_OF_MEMBER),
    )


def _name(said: Json) -> str | None:
    """Return a valid name from a file; empty if there is none."""
    with contextlib.suppress(MailError):
        return check_name(said) if isinstance(said, str) and said else "" if not said else None
    return None


def _written(team: _Team) -> JsonObject:
    rows: list[Json] = [
        {
            "name": each.name,
            "type": each.type,
            "session": each.session,
            "pid": each.pid,
            "start": each.start,
            "host": each.host,
            "cwd": each.cwd,
            "joined": each.joined.isoformat(),
            **dict(each.extra),
        }
        for each in team.members
    ]
    return {"version": FORMAT, "lead": team.lead, "members": rows, **dict(team.extra)}


_FORM = TeamFileFormat(_read, _written)


_KNOWN = frozenset({"lead", "members"})
"""Without the version: that of a newer nacre stays, because its fields do."""


_KNOWN_OF_MEMBER = frozenset({"name", "type", "session", "pid", "start", "host", "cwd", "joined"})
