"""Lists agents and teams on disk for other processes, and finds the inbox of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path

from nacre.agents.registry import AgentState, read_states, with_process_status
from nacre.agents.team_roster import INBOXES, Roster, TeamMember, teams
from nacre.agents.team_tasks import STATES
from nacre.errors import MailError, TranscriptError
from nacre.layers.l7_mail.inbox import Inbox
from nacre.layers.l7_mail.letter import MAIN
from nacre.layers.l7_mail.mailbox import Mailbox, box_path, peek
from nacre.layers.l7_mail.post import Post
from nacre.messages.blocks import Json, JsonObject
from nacre.process import is_alive
from nacre.session.spending import FILE, ProcessSpend, read_shared
from nacre.store.sessions import Sessions

LATELY = timedelta(days=1)
"""Agents that ended longer ago are not listed."""
MIN_ID_CHARS = 4
"""Minimum length of an id prefix: a shorter one matches too many names."""
SHOWN = 8
"""Maximum number of names in an error message."""
LIST_ALL = "`nacre agents list --all` shows those of every directory"
NO_TEAM = "a chat begins one when you ask it for a teammate there"
"""No command creates a team; the model calls Agent with team_name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedAgent:
    """An agent of a session."""

    state: AgentState
    session: str
    folder: Path
    """Session folder."""
    cwd: str = ""

    @property
    def is_running(self) -> bool:
        return self.state.status in {"running", "idle"}

    @property
    def is_open(self) -> bool:
        """Whether its process is still running."""
        return is_alive(self.state.pid, self.state.process_start)

    def ended(self) -> datetime:
        return self.state.started + timedelta(seconds=self.state.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMember:
    """A member of a team."""

    member: TeamMember
    is_alive: bool
    waiting: int
    """Number of letters not yet received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTeam:
    """A team with its members and tasks."""

    name: str
    lead: str
    members: tuple[ListedMember, ...]
    tasks: dict[str, int]
    """Number of tasks by state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailTarget:
    """An agent or session that letters can be sent to."""

    name: str
    inbox: Path
    where: str
    """Its session or team, for display."""
    is_running: bool
    seen: ListedAgent | None = None
    roster: Roster | None = None
    member: TeamMember | None = None

    @property
    def is_gone(self) -> bool:
        """Whether no process reads its letters now; unknown, so False, for a session itself."""
        return not self.is_running and (self.seen is not None or self.roster is not None)


def list_agents(home: Path, cwd: Path | None = None) -> list[ListedAgent]:
    """Return the agents of the sessions in a directory, or of all sessions, newest session first."""
    sessions = [(each, each.path.with_suffix("")) for each in Sessions(home).list(cwd)]
    shared = [read_shared(folder / FILE) for _, folder in sessions]
    processes = {(one.owner, one.name): one for found in shared if found for one in found.processes.values()}
    return [
        ListedAgent(
            state=_with_cost(with_process_status(state), processes.get((each.session, state.name))),
            session=each.session,
            folder=folder,
            cwd=each.cwd or "",
        )
        for each, folder in sessions
        for state in read_states(folder)
    ]


def _with_cost(state: AgentState, spent: ProcessSpend | None) -> AgentState:
    """Return the state of a teammate with what it spent in its own process."""
    if spent is None or state.pattern != "teammate":
        return state
    return replace(
        state,
        tokens=spent.meter.usage.total,
        cost_usd=spent.meter.usd,
        rounds=spent.meter.requests,
        model=spent.model or state.model,
    )


def count_running(home: Path, session: str) -> int:
    """Return the number of running agents of a session, with those in processes of teammates, at any depth.

    A teammate with its own process counts as long as the process lives: letters can start its turns.
    """
    count = 0
    sessions = [session]
    seen = {session}
    while sessions:
        owner = sessions.pop()
        for state in _states(home, owner):
            own_session = ""  # of a teammate whose own process is running
            with suppress(MailError):
                roster = Roster(home, state.team)
                member = roster.member(state.name)
                if member is not None and member.session != owner and roster.is_alive(member):
                    own_session = member.session
            count += state.is_running or bool(own_session)
            if own_session and own_session not in seen:
                seen.add(own_session)
                sessions.append(own_session)
    return count


def _states(home: Path, session: str) -> list[AgentState]:
    with suppress(TranscriptError):
        return [with_process_status(one) for one in read_states(Sessions(home).find(session).with_suffix(""))]
    return []


def is_recent(seen: ListedAgent, now: datetime) -> bool:
    """Whether it is running, or ended recently."""
    return seen.is_running or now - seen.ended() <= LATELY


def list_teams(home: Path, cwd: Path | None = None) -> list[ListedTeam]:
    """Return the teams with a member in this directory, or all teams."""
    found = []
    for name in teams(home):
        roster = Roster(home, name)
        members = roster.members()
        if cwd is None or any(each.cwd and Path(each.cwd) == cwd for each in members):
            states = Counter(task.state for task in roster.tasks.list().tasks)
            seen = tuple(
                ListedMember(
                    member=each,
                    is_alive=roster.is_alive(each),
                    waiting=len(peek(roster.inbox_path(each.name)).waiting),
                )
                for each in members
            )
            tasks = {str(state): states[state] for state in STATES}
            found.append(ListedTeam(name=name, lead=roster.lead(), members=seen, tasks=tasks))
    return found


def directory_json(agents: Sequence[ListedAgent], listed: Sequence[ListedTeam]) -> JsonObject:
    """Return what `nacre agents list --json` prints; fields may be added."""
    return {"agents": [_agent_json(each) for each in agents], "teams": [_team_json(one) for one in listed]}


def _agent_json(each: ListedAgent) -> JsonObject:
    state = each.state
    return {
        "id": state.id,
        "name": state.name,
        "type": state.type,
        "pattern": state.pattern,
        "status": state.status,
        "description": state.description,
        "doing": state.doing,
        "session": each.session,
        "cwd": each.cwd,
        "owner": state.owner,
        "team": state.team,
        "model": state.model,
        "background": state.background,
        "started": state.started.isoformat(),
        "seconds": state.seconds,
        "rounds": state.rounds,
        "calls": state.calls,
        "tokens": state.tokens,
        "cost_usd": state.cost_usd,
        "worktree": state.worktree,
        "branch": state.branch,
        "pid": state.pid,
    }


def _team_json(team: ListedTeam) -> JsonObject:
    members: list[Json] = [
        {
            "name": each.member.name,
            "type": each.member.type,
            "alive": each.is_alive,
            "waiting": each.waiting,
            "pid": each.member.pid,
            "host": each.member.host,
            "session": each.member.session,
            "cwd": each.member.cwd,
            "joined": each.member.joined.isoformat(),
        }
        for each in team.members
    ]
    return {"team": team.name, "lead": team.lead, "members": members, "tasks": {**team.tasks}}


def team_of(home: Path, name: str) -> Roster:
    """Return an existing team; raises `MailError` with the existing names."""
    roster = Roster(home, name)
    if not roster.exists:
        raise MailError(f"there is no team {name!r}; {_others(name, teams(home)) or NO_TEAM}")
    return roster


def find(home: Path, cwd: Path, wanted: str, *, team: str = "") -> MailTarget:
    """Return the agent with a name or id prefix; raises `MailError` if there is none or several.

    Without a team: the agents of this directory's sessions, members of all teams, and sessions by their id.
    """
    if team:
        roster = team_of(home, team)
        member = roster.member(wanted)
        if member is None:
            names = [each.name for each in roster.members()]
            raise MailError(_not_found(wanted, names, where=f" in team {roster.team}"))
        return _of_team(roster, member)
    found = list(_candidates(home, cwd, wanted))
    living = [each for each in found if each.is_running]
    found = living if len(living) == 1 else found
    if not found:
        agents = [each.state.name for each in list_agents(home, cwd)]
        members = [each.name for name in teams(home) for each in Roster(home, name).members()]
        raise MailError(_not_found(wanted, [*agents, *members]))
    if len(found) > 1:
        places = "; ".join(each.where for each in found[:SHOWN])
        raise MailError(f"{wanted!r} can mean {len(found)}: {places}; give an id, or --team")
    return found[0]


def post_of(sender: str, target: MailTarget | None, roster: Roster | None) -> Post:
    """Return a post for a sender that is no agent; it writes to the target, else to members of the team."""

    def inbox_of(name: str) -> Inbox | None:
        if target is not None:
            return Mailbox(target.inbox)
        return Mailbox(roster.inbox_path(name)) if roster else None

    def everyone() -> list[str]:
        return [each.name for each in roster.members()] if roster else []

    return Post(sender, find=inbox_of, everyone=everyone)


def _candidates(home: Path, cwd: Path, wanted: str) -> Iterator[MailTarget]:
    is_id = len(wanted) >= MIN_ID_CHARS
    rosters = [Roster(home, name) for name in teams(home)]
    members = {(roster.team, each.name) for roster in rosters for each in roster.members()}
    for seen in list_agents(home, cwd):
        # A member of a team is also on its roster, and its inbox is there.
        is_member = (seen.state.team, seen.state.name) in members
        if not is_member and (seen.state.name == wanted or (is_id and seen.state.id.startswith(wanted))):
            yield MailTarget(
                name=seen.state.name,
                inbox=box_path(seen.folder / INBOXES, seen.state.name),
                where=f"{seen.state.id[:8]} of session {seen.session[:8]} ({seen.state.status})",
                is_running=seen.is_running,
                seen=seen,
            )
    for roster in rosters:
        member = roster.member(wanted)
        if member is not None:
            yield _of_team(roster, member)
    for each in Sessions(home).list(cwd):
        if wanted == MAIN or (is_id and each.session.startswith(wanted)):
            inbox = box_path(each.path.with_suffix("") / INBOXES, MAIN)
            where = f"session {each.session[:8]}"
            yield MailTarget(name=MAIN, inbox=inbox, where=where, is_running=wanted != MAIN)


def _of_team(roster: Roster, member: TeamMember) -> MailTarget:
    return MailTarget(
        name=member.name,
        inbox=roster.inbox_path(member.name),
        where=f"team {roster.team}",
        is_running=roster.is_alive(member),
        roster=roster,
        member=member,
    )


def _not_found(wanted: str, names: Sequence[str], *, where: str = " here") -> str:
    return f"there is no agent {wanted!r}{where}; {_others(wanted, names) or LIST_ALL}"


def _others(wanted: str, names: Sequence[str]) -> str:
    """Return similar or all names for an error message; empty if there are none."""
    known = sorted(set(names))
    near = get_close_matches(wanted, known, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"there {'is' if len(known) == 1 else 'are'} {', '.join(known[:SHOWN])}" if known else ""
