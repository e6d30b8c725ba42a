"""A fork: the same loop on a parent's view, with the same prefix bytes and fewer permissions (F1 to F6).

It answers one directive behind the parent's messages. Nothing is written to the parent's transcript; the
result is returned.
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
from nacre.loop.loop import NO_CALLBACKS, LoopCallbacks, run
from nacre.loop.round import Limits, SendRequest, message_record
from nacre.messages.blocks import Block, JsonObject, Message, Text, ToolCall, ToolResult
from nacre.messages.events import Event, Reply
from nacre.messages.records import Noted, Said
from nacre.messages.transcript import Transcript, Write, nowhere
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.tools.base import Tool
from nacre.tools.policy import Narrowing
from nacre.tools.rules import EDITORS
from nacre.tools.workspace import Copies

RequestSource: TypeAlias = Literal[
    "main", "session_memory", "compact", "extract_memories", "auto_dream", "agent_summary",
    "memdir_relevance", "side", "agent", "notes_and_memories",
]  # fmt: skip
"""Who sends a request: its cost is noted under this name, and only `main` may fork (F6)."""

SOURCE: ContextVar[RequestSource] = ContextVar("source", default="main")
"""The source of requests in this asyncio task and in those it starts."""
FORK = "fork"
"""The kind of note that marks a fork's transcript, from which no further fork is allowed (F6)."""
PENDING = "[This call is still running; its result is not known here.]"
"""The result of a call that the parent has not finished; the same bytes for every fork of a reply (A1)."""
NO_TOOLS = "Not allowed: no tool can be called here. Say it in words instead."


@dataclass(frozen=True, slots=True)
class FullAccess:
    """Access to everything that the parent may do, by the same rules; the same person is asked."""


FULL_ACCESS = FullAccess()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkTask:
    """What a fork is to do, and what it may do."""

    source: RequestSource
    directive: str
    """The message that follows the parent's messages."""
    access: Narrowing | FullAccess | None = None
    """Which tools it may call, and where; None refuses every call."""
    max_rounds: int = 1
    """It stops after this many rounds, finished or not, with `tool_use` as the stop reason."""
    ends_with_edits: bool = False
    """It ends when all calls of a reply were edits that succeeded: no further request only says so."""
    max_output: int = 20_000
    view: View | None = None
    """The view to start from; None: the parent's current one."""
    seen_to: str | None = None
    """Id of the last record that earlier tasks of this kind saw: another model gets only what follows it."""
    resumes: bool = False
    """`view` is where an earlier fork of the same parent ended; this one continues it."""
    shown_files: tuple[Path, ...] = ()
    """Files whose text the directive contains, so that they can be edited without a Read call."""
    on_reply: Callable[[Reply], None] | None = None
    """Called with each reply; an exception ends the fork."""
    on_event: Callable[[Event], None] | None = None
    """Called with each event; an exception ends the fork."""
    write: Write = nowhere
    """Receives the fork's records; however it ends, they form a valid conversation (T6)."""
    copies: Copies | None = None
    """Copies that it edits instead of the original files; the caller decides what to take over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkResult:
    """What a fork returned."""

    source: RequestSource
    replies: Sequence[Message]
    """All replies, in order."""
    usage: Usage
    """Of all its requests."""
    first: Usage
    """Of its first request, which shows how much of the parent's prefix was read from the cache."""
    stop_reason: str | None = None
    denials: int = 0
    denied_writes: int = 0
    """Refused calls of tools that can change something."""
    seconds: float = 0.0
    view: View = field(default_factory=View, repr=False, compare=False)
    """Where it ended; a later fork can continue from there."""

    @property
    def text(self) -> str:
        """The text of its last reply."""
        return self.replies[-1].text if self.replies else ""


class Fork(Protocol):
    """Runs a fork and returns its result; layers get one of these."""

    async def __call__(self, task: ForkTask, /) -> ForkResult:
        """Raises what the provider raises, such as `PromptTooLong`."""
        ...


class ForkParticipant(Protocol):
    """The part of a background task in forks that are merged into one request."""

    async def run(self, task: ForkTask, fork: Fork) -> ForkResult:
        """Run a fork, alone or merged with those of others."""
        ...


PARTICIPANT: ContextVar[ForkParticipant | None] = ContextVar("participant", default=None)
"""The part of the current background task in merged forks."""


def refuse_nested(view: View) -> None:
    """Raise `ToolError` if a fork tries to fork, by the current source or by its transcript (F6)."""
    marked = view.last_noted(FORK)
    source = SOURCE.get() if SOURCE.get() != "main" else marked and marked.fact("source")
    if source:
        raise ToolError(
            f"A fork cannot fork ({source}); do it here, or say in the reply what should be done."
        )


async def branch(
    view: View, task: ForkTask, *, clock: Clock = SYSTEM_CLOCK, inside_results: bool = False
) -> Transcript:
    """Return the transcript of a fork: the parent's view, then a message with the directive (A1).

    `inside_results` puts the directive inside the last tool result, for models that drop their thinking, and
    with it the cache, at user text between two tool rounds.
    """
    refuse_nested(View() if task.resumes else view)
    transcript = Transcript.apart(view, write=task.write)
    pending = [ToolResult(call, (Text(PENDING),)) for call in view.open_calls]
    if pending and inside_results:
        pending[-1] = replace(pending[-1], content=(Text(PENDING), Text(task.directive)))
        blocks: tuple[Block, ...] = tuple(pending)
    else:
        blocks = (*pending, Text(task.directive))
    directive = message_record("user", blocks, clock, meta=True)
    if task.resumes:
        await transcript.append(directive)
        return transcript
    if view.open_calls:
        # The fork's own log begins with the reply whose calls its first message answers.
        await task.write(_last_reply(view))
    after = next((one.id for one in reversed(view.records) if isinstance(one, Said)), None)
    facts: JsonObject = {"source": task.source, "after": after}
    mark = Noted(id=clock.new_id(), at=clock.now(), kind=FORK, facts=facts)
    await transcript.append(mark, directive)
    return transcript


async def run_fork(
    transcript: Transcript,
    send: SendRequest,
    tools: Mapping[str, Tool],
    task: ForkTask,
    *,
    callbacks: LoopCallbacks = NO_CALLBACKS,
    clock: Clock = SYSTEM_CLOCK,
) -> ForkResult:
    """Run the loop on a fork's transcript; a prompt that is too long raises, it is never compacted (F6)."""

    async def refuse(arguments: JsonObject) -> str:
        raise ToolError(NO_TOOLS)

    if task.access is None:
        tools = {name: replace(one, call=refuse, read_only=True) for name, one in tools.items()}
    if task.ends_with_edits:
        callbacks = replace(callbacks, is_finished=_are_successful_edits)
    replies: list[Reply] = []
    begun = clock.seconds()
    token = SOURCE.set(task.source)
    try:
        loop = run(transcript, send, tools, callbacks=callbacks, limits=_limits(task), clock=clock)
        async with aclosing(loop) as events:
            async for event in events:
                if task.on_event is not None:
                    task.on_event(event)
                if isinstance(event, Reply):
                    replies.append(event)
                    if task.on_reply is not None:
                        task.on_reply(event)
    finally:
        SOURCE.reset(token)
    calls = sum(len(one.message.tool_calls) for one in replies) if task.access is None else 0
    return ForkResult(
        source=task.source,
        replies=tuple(one.message for one in replies),
        usage=sum((one.usage for one in replies), Usage()),
        first=replies[0].usage,
        stop_reason=replies[-1].stop_reason,
        denials=calls,
        seconds=clock.seconds() - begun,
        view=transcript.view,
    )


def _are_successful_edits(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> bool:
    return all(call.name in EDITORS for call in calls) and not any(one.is_error for one in results)


def _limits(task: ForkTask) -> Limits:
    if isinstance(task.access, FullAccess):
        return Limits(max_rounds=task.max_rounds, max_output=task.max_output)
    # The caller chose the output limit on purpose and handles a reply that was cut off.
    return Limits(
        max_rounds=task.max_rounds,
        max_output=task.max_output,
        raised_output=task.max_output,
        max_continues=0,
    )


def _last_reply(view: View) -> list[Said]:
    """Return the record of the reply whose calls are open, without its usage, which the parent's log has."""
    replies = (one for one in reversed(view.records) if isinstance(one, Said) and one.role == "assistant")
    last = next((one for one in replies if one.aside is None), None)
    if last is None or last.reply is None:
        return []
    return [replace(last, reply=replace(last.reply, usage=None))]
