"""Lines of text about a session for all interfaces: agents, the end of a turn and of a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from nacre.agents.registry import AgentState
from nacre.errors import NacreError, ProviderError
from nacre.formatting import human_count, shorten, usd_text
from nacre.messages.records import Said
from nacre.session.background import AGENT_PURPOSE
from nacre.session.log_writer import NullRecordWriter
from nacre.session.session import Session

if TYPE_CHECKING:
    from nacre.app.open_agent import OpenedAgent

SHOWN_IN_STATUS = 3
"""Number of agents named in the status line; the rest are counted."""
WORDS_CHARS = 80
"""Maximum length of a report in the line about an ended agent."""
LAST_WORDS_CHARS = 160
"""Maximum length of each of the last two messages on resume: two lines on a narrow terminal."""
PILLS = {
    "compact": "compacting",
    "notes": "notes",
    "hooks": "hooks",
    "extract": "saving",
    "dream": "dreaming",
}
"""Display names of background work."""
ENDED = {
    "completed": "is done",
    "idle": "is done and waits for messages",
    "failed": "has failed",
    "stopped": "was stopped",
    "stalled": "was stopped because it hung",
}
_WHO = {"user": "you", "assistant": "agent", "system": "note"}


def working(ready: OpenedAgent) -> tuple[list[str], list[str]]:
    """Return the display names of background work, and of agents with their activity."""
    names = [each for each in ready.background.running() if not each.startswith(f"{AGENT_PURPOSE} ")]
    return work_pills(names), pills(ready.team.states() if ready.team else ())


def work_pills(names: Iterable[str]) -> list[str]:
    """Return the display name of each kind of background work once."""
    return list(dict.fromkeys(PILLS.get(each.partition(" ")[0], each) for each in names))


def pills(states: Sequence[AgentState]) -> list[str]:
    """Return the running agents with their activity."""
    running = [each for each in states if each.is_running]
    shown = [f"{each.name}: {each.doing}" if each.doing else each.name for each in running[:SHOWN_IN_STATUS]]
    more = len(running) - len(shown)
    return [*shown, f"{more} more agent{'s' * (more != 1)}"] if more else shown


def waiting_line(states: Sequence[AgentState], now: datetime) -> str:
    """Return the activity of the agents that a turn waits for, in one line; empty if there are none."""
    waited_for = [each for each in states if each.is_running and not each.background]
    return " | ".join(
        f"{each.name}: {each.doing or 'starting'} ({max(0, (now - each.started).total_seconds()):.0f} s)"
        for each in waited_for
    )


def ended_line(state: AgentState) -> str:
    """Return how an agent ended, with the beginning of its report."""
    words = shorten(state.result, WORDS_CHARS)
    spent = f"{state.seconds:.0f} s, {human_count(state.tokens)} tokens, {usd_text(state.cost_usd)}"
    return f"{state.name} {ENDED.get(state.status, state.status)} ({spent})" + (f": {words}" if words else "")


def stopped_line(ready: OpenedAgent) -> str:
    """Return a line for a stopped turn: what is kept, and which agents continue."""
    names = [each.name for each in (ready.team.states() if ready.team else ()) if each.is_running]
    goes = f"go{'es' * (len(names) == 1)} on in the background (/agents stop NAME)"
    return "stopped; what was said so far is kept" + (f"; {', '.join(names)} {goes}" if names else "")


def failed_line(error: NacreError) -> str:
    """Return why a turn failed, and how to retry if that could help."""
    return (
        f"{error} (what you said is kept; /retry asks again)"
        if isinstance(error, ProviderError)
        else str(error)
    )


def resumed_lines(session: Session) -> list[str]:
    """Return the last messages, to remind the user of the conversation."""
    said = [
        record
        for record in session.transcript.records
        if isinstance(record, Said) and not record.aside and not record.meta and record.message.text.strip()
    ]
    if not said:
        return []
    last = [f"{_WHO[record.role]}: {shorten(record.message.text, LAST_WORDS_CHARS)}" for record in said[-2:]]
    return [f"resumed session {session.id}", *last]


def farewell_line(session: Session) -> str:
    """Return session, cost and how to resume it; empty if there is nothing to resume."""
    if isinstance(session.writer, NullRecordWriter) or not session.view.items:
        return ""
    id_ = session.id[:8]
    return f"session {id_} · {session.meter.price()} · continue it with: nacre --resume {id_}"
