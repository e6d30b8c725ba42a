"""A fork: the same loop on a parent's view, with the same prefix bytes and fewer permissions (F1 to F6).

It answers one directive at the end of what the parent has said so far. Nothing it does reaches the parent:
what it wants recorded it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ToolError
from nacre.loop.limits import Limits
from nacre.loop.loop import NO_CALLBACKS, LoopCallbacks, run
from nacre.loop.round import SendRequest, heard
from nacre.messages.blocks import Block, JsonObject, Message, Text, ToolResult
from nacre.messages.events import Event, Reply
from nacre.messages.records import Noted, Said
from nacre.messages.transcript import Transcript, Write, nowhere
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.tools.base import Tool
from nacre.tools.policy import Narrowing
from nacre.tools.workspace import Copies

RequestSource: TypeAlias = Literal[
    "main", "session_memory", "compact", "extract_memories", "auto_dream", "agent_summary",
    "memdir_relevance", "side", "agent",
]  # fmt: skip
"""Who asks a model: under this name it is booked, and only `main` may fork (F6)."""

SOURCE: ContextVar[RequestSource] = ContextVar("source", default="main")
"""Who is asking in this task and in those it starts."""
FORK = "fork"
"""The kind of note that marks a fork's own history: nobody forks from there either (F6)."""
PENDING = "[This call is still running; its result is not known here.]"
"""Stands for the result of a call the parent has not finished: the same for every fork of a reply (A1)."""
NO_TOOLS = "Not allowed: no tool can be called here. Say it in words instead."


@dataclass(frozen=True, slots=True)
class FullAccess:
    """All that the parent may do: by the same rules, and the same person is asked."""


FULL_ACCESS = FullAccess()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkTask:
    """What a fork is sent out for, and how far it may go."""

    source: RequestSource
    directive: str
    """The one message at the end of the parent's."""
    may: Narrowing | FullAccess | None = None
    """Which tools, and where; none: every call is refused."""
    max_rounds: int = 1
    """After so many it stops, with `tool_use` as the reason, whether or not it has come to an end."""
    max_output: int = 20_000
    view: View | None = None
    """Another view than the parent's as it stands now: an older one, or a shorter."""
    resumes: bool = False
    """That view is where a fork of the same parent ended, which goes on from there."""
    knows: tuple[Path, ...] = ()
    """Files whose text the directive shows: to edit them, nobody need read them once more."""
    on_reply: Callable[[Reply], None] | None = None
    """Told of each reply as it comes; raising ends the errand."""
    on_event: Callable[[Event], None] | None = None
    """Told of everything that happens on the way; raising ends the errand."""
    write: Write = nowhere
    """Keeps what is said; whatever ends the errand, that is a whole conversation (T6)."""
    copies: Copies | None = None
    """What it works on instead of some files: what comes of that is the errand's to judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkResult:
    """What came of it."""

    source: RequestSource
    replies: Sequence[Message]
    """All it said, in order."""
    usage: Usage
    """Of all its requests."""
    first: Usage
    """Of its first request: how much of the parent's prefix it read."""
    stop_reason: str | None = None
    denials: int = 0
    seconds: float = 0.0
    view: View = field(default_factory=View, repr=False, compare=False)
    """Where it ended: from there it can go on."""

    @property
    def text(self) -> str:
        """The words of its last reply."""
        return self.replies[-1].text if self.replies else ""


class Fork(Protocol):
    """Sends a fork out and comes back with what it did; layers are handed one."""

    async def __call__(self, errand: ForkTask) -> ForkResult:
        """Raises what the provider raises: `PromptTooLong` among it."""
        ...


def refuse_nested(view: View) -> None:
    """A fork cannot fork: by who asks first, by what its history says as a backup (F6)."""
    marked = view.last_noted(FORK)
    source = SOURCE.get() if SOURCE.get() != "main" else marked and marked.fact("source")
    if source:
        raise ToolError(
            f"A fork cannot fork ({source}); do it here, or say in the reply what should be done."
        )


async def branch(
    view: View, errand: ForkTask, *, clock: Clock = SYSTEM_CLOCK, inside_results: bool = False
) -> Transcript:
    """A history of the fork's own: the parent's view, then one message with the directive at its end (A1).

    `inside_results` is for models that lose their thinking, and with it the cache, at a person's words
    between two tool rounds: there the directive rides inside the last result.
    """
    refuse_nested(View() if errand.resumes else view)
    transcript = Transcript.apart(view, write=errand.write)
    blocks = _directed(view.open_calls, errand.directive, inside_results=inside_results)
    directive = heard("user", blocks, clock, meta=True)
    if errand.resumes:
        await transcript.append(directive)
        return transcript
    if view.open_calls:
        # A log of its own begins with what its first message answers.
        await errand.write(_last_reply(view))
    after = next((one.id for one in reversed(view.records) if isinstance(one, Said)), None)
    facts: JsonObject = {"source": errand.source, "after": after}
    mark = Noted(id=clock.new_id(), at=clock.now(), kind=FORK, facts=facts)
    await transcript.append(mark, directive)
    return transcript


async def run_fork(
    transcript: Transcript,
    ask: SendRequest,
    tools: Mapping[str, Tool],
    errand: ForkTask,
    *,
    slots: LoopCallbacks = NO_CALLBACKS,
    clock: Clock = SYSTEM_CLOCK,
) -> ForkResult:
    """Run the loop on a fork's own history; what is too long is raised, never compacted (F6)."""
    allowed = tools if errand.may is not None else {name: _refusing(one) for name, one in tools.items()}
    replies: list[Reply] = []
    begun = clock.seconds()
    token = SOURCE.set(errand.source)
    try:
        loop = run(transcript, ask, allowed, slots=slots, limits=_limits(errand), clock=clock)
        async with aclosing(loop) as events:
            async for event in events:
                if errand.on_event is not None:
                    errand.on_event(event)
                if isinstance(event, Reply):
                    replies.append(event)
                    if errand.on_reply is not None:
                        errand.on_reply(event)
    finally:
        SOURCE.reset(token)
    calls = sum(len(one.message.tool_calls) for one in replies) if errand.may is None else 0
    return ForkResult(
        source=errand.source,
        replies=tuple(one.message for one in replies),
        usage=sum((one.usage for one in replies), Usage()),
        first=replies[0].usage,
        stop_reason=replies[-1].stop_reason,
        denials=calls,
        seconds=clock.seconds() - begun,
        view=transcript.view,
    )


def _limits(errand: ForkTask) -> Limits:
    if isinstance(errand.may, FullAccess):
        return Limits(max_rounds=errand.max_rounds, max_output=errand.max_output)
    # A reply that was cut off is the errand's to judge: room was given on purpose.
    return Limits(
        max_rounds=errand.max_rounds,
        max_output=errand.max_output,
        raised_output=errand.max_output,
        max_continues=0,
    )


def _last_reply(view: View) -> list[Said]:
    """The record of the reply whose calls are open, for a second log: what it cost stands in the first."""
    replies = (one for one in reversed(view.records) if isinstance(one, Said) and one.role == "assistant")
    last = next((one for one in replies if one.aside is None), None)
    if last is None or last.reply is None:
        return []
    return [replace(last, reply=replace(last.reply, usage=None))]


def _directed(open_calls: Sequence[str], directive: str, *, inside_results: bool) -> tuple[Block, ...]:
    pending = [ToolResult(call, (Text(PENDING),)) for call in open_calls]
    if pending and inside_results:
        last = replace(pending[-1], content=(Text(PENDING), Text(directive)))
        return (*pending[:-1], last)
    return (*pending, Text(directive))


def _refusing(tool: Tool) -> Tool:
    async def call(arguments: JsonObject) -> str:
        raise ToolError(NO_TOOLS)

    return replace(tool, call=call, read_only=True)
