"""Who is called at each point of a session, in order, as labels.

The only file of the order test that knows how participants are registered: when that changes, this file
changes, and the expected orders in `test_order.py` stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from itertools import groupby
from types import FunctionType, MethodType
from typing import Any, ClassVar

import pytest

from nacre.agents import opening
from nacre.agents.agent import Agent
from nacre.agents.compacting import Compacting
from nacre.agents.compacting_crew import Crew
from nacre.agents.opening import Ready
from nacre.agents.restore import Restorer
from nacre.agents.session import Session

Orders = Mapping[str, list[str]]
"""Labels by point; a point at which nobody is called is left out."""

OWNERS = {
    "Agent": "Agent",
    "Announcer": "Instructions",
    "Background": "Background",
    "Beginning": "Hooks",
    "Calendar": "Date",
    "Clearing": "Microcompact",
    "Collapsing": "Collapse",
    "Compacting": "Compact",
    "Declaring": "DeclaredClearing",
    "Dreaming": "Dream",
    "Editing": "ServerEdits",
    "EmbeddedProvider": "Provider",
    "Elsewhere": "Teammates",
    "Extracting": "Extract",
    "Forker": "Forks",
    "Hooks": "Hooks",
    "Kinds": "Agents",
    "LocalIndex": "Recall",
    "LogKeeper": "SessionLog",
    "MailRoom": "Mail",
    "Mailing": "Mail",
    "News": "Agents",
    "Noting": "Notes",
    "Offloader": "Offload",
    "Planning": "Plan",
    "Recaller": "Recall",
    "Recollection": "Recall",
    "Servers": "McpServers",
    "SkillDesk": "Skills",
    "SkillList": "Skills",
    "Snipping": "Snip",
    "Spending": "Background",
    "StandIn": "StandIn",
    "StaysHere": "LocalOnly",
    "Team": "Agents",
    "Waking": "Mail",
    "Warmer": "KeepWarm",
    "Watch": "Hooks",
    "Words": "Hooks",
    "Workspace": "Toolset",
    "_Notices": "Toolset",
    "AsyncExitStack": "Memory",
}
"""By the class of a participant, or of the object whose method it is."""

FUNCTIONS = {
    "always_with_compaction": "ProviderCompaction",
    "join_skills": "Skills",
    "_attend": "Hooks",
    "_going_on": "Hooks",
    "_supervised": "Background",
    "serve": "Mail",
    "supervised": "Background",
    "with_compaction": "ProviderCompaction",
    "with_declaration": "DeclaredClearing",
    "with_edits": "ServerEdits",
}
"""By the name of a function, or of the one in which it was defined."""


def label(participant: object) -> str:
    """The label of a callback or of an object that is registered itself."""
    if isinstance(participant, partial):
        return label(participant.func)
    if isinstance(participant, MethodType):
        owner = participant.__self__
        return OWNERS[type(owner).__name__]
    if isinstance(participant, FunctionType):
        outer = participant.__qualname__.partition(".")[0]
        # A closure of a method is its object's.
        return FUNCTIONS.get(outer) or OWNERS[outer]
    generator = getattr(participant, "gen", None)
    if generator is not None:
        return FUNCTIONS[generator.__name__]
    return OWNERS[type(participant).__name__]


def labels(participants: Iterable[object]) -> list[str]:
    """In order; neighbours with one label count once, for they are one layer.

    `tuple` stands for no notices: the tools of a child agent have none.
    """
    return [one for one, _ in groupby(label(one) for one in participants if one is not tuple)]


def orders(ready: Ready) -> Orders:
    """Every point of an opened agent."""
    team = ready.team
    shared = (
        {}
        if team is None
        else {"child_opened": team.house.on_open, "agent_changed": team.house.roll.on_change}
    )
    notices = ready.hands.notices.__self__.others  # type: ignore[attr-defined]
    return {
        **_known({**_of_agent(ready.agent, _restorer(ready.compacting)), **shared}),
        **_known({"toolset_notices": notices}),
        **_of_compaction(ready),
    }


def orders_of_child(ready: Ready, name: str) -> Orders:
    """The points of the session of a child agent."""
    assert ready.team is not None
    child = ready.team.house.members[name].child
    assert child is not None, f"{name} is not open"
    return _known(_of_agent(child.agent, child.restorer))


def orders_of_session(session: Session) -> Orders:
    """The points of a session that belongs to no agent: in a framework, in a replay."""
    return _known(_of_session(session))


class RecordingStack(AsyncExitStack):
    """An exit stack that notes what is registered with it: the last registered is closed first."""

    made: ClassVar[list[RecordingStack]] = []

    def __init__(self) -> None:
        super().__init__()
        self.registered: list[object] = []
        self.made.append(self)

    def callback(self, callback: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.registered.append(callback)
        return super().callback(callback, *args, **kwargs)

    def push_async_callback(self, callback: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.registered.append(callback)
        return super().push_async_callback(callback, *args, **kwargs)

    def push_async_exit(self, leave: Any) -> Any:
        self.registered.append(leave)
        return super().push_async_exit(leave)

    async def enter_async_context(self, cm: Any) -> Any:
        self.registered.append(cm)
        return await super().enter_async_context(cm)


@contextmanager
def recorded_closing() -> Iterator[list[str]]:
    """The order in which participants of the agent that is opened inside are closed, once it is closed.

    Patched because the stack belongs to `open_agent` alone.
    """
    closed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "AsyncExitStack", RecordingStack)
        RecordingStack.made.clear()
        yield closed
    (stack,) = RecordingStack.made
    closed += labels(reversed(stack.registered))


def _of_agent(agent: Agent, restorer: Restorer) -> dict[str, Iterable[object]]:
    return {
        **_of_session(agent.session),
        "before_turn": agent.before_turn,
        "after_turn": agent.after_turn,
        "restore": restorer.sources,
        "carry": restorer.carriers,
    }


def _of_session(session: Session) -> dict[str, Iterable[object]]:
    return {
        "notices": session.tellers,
        "filter": session.filters,
        "attach": session.riders,
        "redact": session.sifters,
        "cache_points": session.marks,
        "finish_request": session.finishers,
        "on_cancel": session.on_cancel,
        "on_reply": session.on_heard,
        "on_usage": session.payers,
        "before_request": session.before_asking,
        "before_stop": session.before_stopping,
        "pending": session.awaited,
        "before_prompt": session.before_words,
        "wrap_tools": session.around_tools,
        "shrink": session.ladder,
    }


def _of_compaction(ready: Ready) -> Orders:
    """Who is asked before a compaction, and who may have a text for it."""
    crew, hooks = ready.compacting.crew, ready.hooks
    asked = ["Hooks"] if hooks is not None and hooks.waits_at("PreCompact") else []
    drafts = {
        "PreparedSummary": crew.preparation is not None,
        "Notes": crew.notes != Crew().notes,
        "Summary": crew.summarise is not None,
    }
    texts = [name for name, is_there in drafts.items() if is_there]
    return {point: found for point, found in {"before_compact": asked, "draft": texts}.items() if found}


def _known(points: Mapping[str, Iterable[object]]) -> Orders:
    return {point: found for point, participants in points.items() if (found := labels(participants))}


def _restorer(compacting: Compacting) -> Restorer:
    carry = compacting.crew.carry
    assert isinstance(carry, MethodType) and isinstance(carry.__self__, Restorer)
    return carry.__self__
