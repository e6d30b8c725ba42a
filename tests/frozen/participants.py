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

from nacre.app import open_agent as opening
from nacre.app.open_agent import OpenedAgent
from nacre.app.restored_context import SessionRestorer
from nacre.hooks.layer import HookLayer
from nacre.layers.l3_notes.layer import Notes
from nacre.layers.l4_compact.layer import Compact
from nacre.layers.l7_mail.layer import Mail
from nacre.session.background import Background
from nacre.session.layer import Layer
from nacre.session.session import Session

Orders = Mapping[str, list[str]]
"""Labels by point; a point at which nobody is called is left out."""

OWNERS = {
    "SessionAgent": "Agent",
    "InstructionUpdates": "Instructions",
    "Background": "Background",
    "CurrentDate": "Date",
    "Microcompact": "Microcompact",
    "Compact": "Compact",
    "Dream": "Dream",
    "EmbeddedProvider": "Provider",
    "ProcessTeammates": "Teammates",
    "Extract": "Extract",
    "ForkRunner": "Forks",
    "HookLayer": "Hooks",
    "Hooks": "Hooks",
    "LocalIndex": "Recall",
    "SessionLogWriter": "SessionLog",
    "MailRoom": "Mail",
    "Mail": "Mail",
    "McpInstructions": "McpInstructions",
    "Notes": "Notes",
    "Offload": "Offload",
    "Plan": "Plan",
    "Recall": "Recall",
    "Recollection": "Recall",
    "Servers": "McpServers",
    "Skills": "Skills",
    "Spending": "Background",
    "PlaceholderCompact": "StandIn",
    "LocalOnlyFilter": "LocalOnly",
    "SubagentHookLayer": "Hooks",
    "SwitchUpdates": "Switches",
    "Team": "Agents",
    "ToolHookLayer": "Hooks",
    "AgentWaker": "Mail",
    "KeepWarm": "KeepWarm",
    "Workspace": "Toolset",
    "AsyncExitStack": "Memory",
}
"""By the class of a participant, or of the object whose method it is."""

FUNCTIONS = {"_attend": "Hooks", "serve": "Mail"}
"""By the name of a function, or of the one in which it was defined."""

POINTS = {
    "filter": Layer.filter,
    "attach": Layer.attach,
    "cache_points": Layer.cache_points,
    "finish_request": Layer.finish_request,
    "on_cancel": Layer.on_cancel,
    "on_reply": Layer.on_reply,
    "before_request": Layer.before_request,
    "before_stop": Layer.before_stop,
    "pending": Layer.pending,
    "before_prompt": Layer.before_prompt,
    "wrap_tools": Layer.wrap_tools,
    "shrink": Layer.shrink,
    "before_turn": Layer.before_turn,
    "after_turn": Layer.after_turn,
    "restore": Layer.restore,
    "carry": Layer.carry,
    "before_compact": Layer.before_compact,
}
"""The methods of a layer that are points of the order, with what they do by default."""

EVENTS = {
    "before_prompt": "UserPromptSubmit",
    "filter": "UserPromptSubmit",
    "attach": "SessionStart",
    "before_stop": "Stop",
    "before_compact": "PreCompact",
}
"""The hook event behind each point of `HookLayer`, which does nothing there without a command for it."""


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
    """In order; neighbours with one label count once, for they are one layer."""
    return [one for one, _ in groupby(map(label, participants))]


def orders(ready: OpenedAgent) -> Orders:
    """Every point of an opened agent."""
    team = ready.team
    shared = (
        {}
        if team is None
        else {
            "child_opened": labels(team.shared.on_open),
            "agent_changed": labels(team.shared.registry.on_change),
        }
    )
    return _known({**orders_of_session(ready.agent.session), **shared, "draft": _drafts(ready)})


def orders_of_child(ready: OpenedAgent, name: str) -> Orders:
    """The points of the session of a child agent."""
    assert ready.team is not None
    child = ready.team.shared.members[name].child
    assert child is not None, f"{name} is not open"
    return orders_of_session(child.agent.session)


def orders_of_session(session: Session) -> Orders:
    """The points of a session, whether it belongs to an agent or not."""
    redacts = [] if session.redactor is None else labels([session.redactor])
    points = {point: _layers_at(point, session) for point in POINTS}
    return _known(
        {
            **points,
            "filter": [*redacts, *points["filter"]],
            "redact": redacts,
            "on_usage": [] if session.on_usage is None else labels([session.on_usage]),
        }
    )


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


def _layers_at(point: str, session: Session) -> list[str]:
    """The layers that do something at a point, in list order."""
    there = [
        one
        for one in session.layers
        if getattr(type(one), point) is not POINTS[point] and _takes_part(one, point)
    ]
    if point == "finish_request":
        return ["ProviderCompaction" if one == "Compact" else one for one in labels(there)]
    return labels(there)


def _takes_part(layer: Layer, point: str) -> bool:
    """Whether a layer that has the method of a point can do anything there, as it was opened."""
    match layer:
        case Mail() if point == "before_prompt":
            return layer.on_prompt is not None
        case HookLayer():
            return layer.hooks.waits_at(EVENTS[point])
        case Background() if point == "before_turn":
            # The limits of a child agent are its parent's: it has no turns of its own to count.
            return layer._above is None and layer.spending is not None
        case Compact() if point in {"on_reply", "finish_request"}:
            # Outside an agent it neither makes summaries ahead nor asks the provider for one.
            return isinstance(layer.restorer, SessionRestorer)
        case _:
            return True


def _drafts(ready: OpenedAgent) -> list[str]:
    """What may give a compaction its text."""
    compacting, noting = ready.compact, ready.agent.session.layer(Notes)
    drafts = {
        "PreparedSummary": compacting.preparation is not None,
        "Notes": noting is not None and noting.gives_drafts,
        "Summary": compacting.summarise is not None,
    }
    return [name for name, is_there in drafts.items() if is_there]


def _known(points: Orders) -> Orders:
    return {point: found for point, found in points.items() if found}
