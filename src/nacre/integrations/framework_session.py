"""Follow a conversation that a framework stores: messages go in, the messages to send come out.

The framework's history is not changed. A session receives its new messages, and its view, which only grows
between two announced rewrites, is sent instead: the same history gives the same bytes.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from threading import Lock

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.context.recalled import RECALLED, bytes_in_view, noted, recalled_in_view
from nacre.layers.l1_offload.layer import Offload
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l1_offload.reader import READ_ONLY_ADVICE
from nacre.layers.l2_microcompact.layer import Microcompact
from nacre.layers.l2_microcompact.settings import CLEARABLE, MicrocompactSettings
from nacre.layers.l4_compact.layer import Compact
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.loop.round import message_record
from nacre.memory.memory import VECTORS_SECONDS, Memory
from nacre.memory.recall.base import Recalled, RecallQuery
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import AlreadySeen, recall, render_attachment, skip_reason
from nacre.messages.blocks import Block, JsonObject, Message, Opaque, Role, Text, Thinking, ToolResult
from nacre.messages.events import Reply
from nacre.messages.records import Record, ReplyFacts, Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.messages.wire import canonical, render_blocks
from nacre.session.layer import Attachment, Layer
from nacre.session.log_writer import NullRecordWriter, RecordWriter
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.store.tool_results import Advice, ToolResultStore

REASONING = frozenset({"redacted_thinking", "reasoning"})
"""Kinds of blocks with reasoning that only the provider can read."""
DIGEST_BYTES = 16
"""128 bits: no two histories collide by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkMessage:
    """One message of the framework in nacre's terms."""

    role: Role
    blocks: tuple[Block, ...]
    usage: Usage | None = None
    """Usage of a reply, if the provider reported it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageToSend:
    """One message to send."""

    role: Role
    blocks: tuple[Block, ...]
    place: int | None = None
    """Index of the framework's message; None for one of nacre's own."""
    is_same: bool = False
    """Whether the framework's message can be sent unchanged."""

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))


def holds_reasoning(blocks: Sequence[Block]) -> bool:
    """Return whether a reply keeps its reasoning, so that it is sent back and takes room in the window."""
    return any(
        isinstance(block, Thinking) or (isinstance(block, Opaque) and block.kind in REASONING)
        for block in blocks
    )


class Following:
    """One conversation and its session."""

    is_busy = False
    """Whether a request is being prepared."""

    def __init__(self, session: Session, chain: Sequence[bytes] = (), ends: Sequence[int] = ()) -> None:
        self.session = session
        self._chain = list(chain)
        """Digests of the received messages; the framework stores the messages."""
        self._ends = list(ends)
        """Number of records after each received and sent message."""
        self._places: dict[str, int] = {}
        """Index in the framework's history by record."""
        self.reply_usage: Usage | None = None
        """Usage of the reply that comes next, where the framework's messages do not say it."""
        starts = [0, *self._ends]
        for place, start in enumerate(starts[:-1]):
            self._place(place, start)

    def shared(self, chain: Sequence[bytes]) -> int:
        """Return how many received messages a history begins with."""
        most = min(len(self._chain), len(chain))
        return bisect_left(range(most), True, key=lambda at: self._chain[at] != chain[at])

    def goes_on(self, chain: Sequence[bytes]) -> bool:
        """Whether a history begins with all received messages and no other request is being prepared."""
        return not self.is_busy and self.shared(chain) == len(self._chain)

    def branch(self, shared: int, base: Base, layers: Layers) -> Following:
        """Return another conversation that begins with the same messages and decisions."""
        end = self._ends[shared - 1]
        session = opened(base, layers, records=self.session.transcript.records[:end])
        return Following(session, self._chain[:shared], self._ends[:shared])

    def hand_over(self, base: Base, layers: Layers) -> None:
        """Continue with another agent's tools and model window."""
        if self.session.base.model != base.model:
            # Another model has its own cache, so that no cached prefix can be lost.
            self.session = opened(base, layers, records=self.session.transcript.records)
        elif self.session.base != base:
            self.session.base = base
        # The framework chose the agent; its person needs no notice of the cost.
        self.session.announce_base_change()

    async def shown(self, told: Sequence[FrameworkMessage], chain: Sequence[bytes]) -> list[MessageToSend]:
        """Return what to send for this history, which begins with all received messages."""
        begun = len(self._chain)
        for place in range(begun, len(told)):
            before = len(self.session.transcript.records)
            one = told[place]
            if one.role == "assistant":
                await self._take_reply(one, is_answer=0 < begun == place)
            else:
                await self._take(one, is_last=place == len(told) - 1)
            self._place(place, before)
            self._ends.append(len(self.session.transcript.records))
            self._chain.append(chain[place])
        await self.session.prepare()
        self._ends[-1] = len(self.session.transcript.records)
        shown: list[MessageToSend] = []
        for item in self.session.view.items:
            if item.parts:
                at = self._places.get(item.record_id)
                blocks = tuple(part.block for part in item.parts)
                is_same = at is not None and told[at].blocks == blocks
                shown.append(MessageToSend(role=item.role, blocks=blocks, place=at, is_same=is_same))
        return shown

    async def _take(self, told: FrameworkMessage, *, is_last: bool) -> None:
        session = self.session
        if len(told.blocks) == 1 and isinstance(told.blocks[0], Text) and is_last:
            await session.add_user(told.blocks[0].text)
        else:
            said = message_record("user", told.blocks, session.clock)
            # Nothing is attached to messages that were answered before: it would rewrite what was sent.
            await session.transcript.append(*await session.message_records(said, attach=is_last))

    async def _take_reply(self, told: FrameworkMessage, *, is_answer: bool) -> None:
        session = self.session
        usage = told.usage or self.reply_usage
        self.reply_usage = None
        if usage is not None and is_answer:
            await session.record(Reply(message=Message("assistant", told.blocks), usage=usage))
            return
        # The cost is unknown, or the reply answered another request than would be sent now, such as a
        # view that was shrunk before a restart: estimates continue from the last known figure.
        now = session.clock.now()
        new_id = session.clock.new_id()
        reply = Said(id=new_id, at=now, role="assistant", blocks=told.blocks, reply=ReplyFacts())
        await session.transcript.append(reply)

    def _place(self, place: int, start: int) -> None:
        first = next(one for one in self.session.transcript.records[start:] if isinstance(one, Said))
        self._places[first.id] = place


class Follower:
    """Finds or creates the session that follows a history."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._known: list[Following] = []
        """Least recently used first."""
        self._one_at_a_time = Lock()
        """Frameworks without an event loop call from several threads."""

    async def shown(self, told: Sequence[FrameworkMessage], base: Base) -> list[MessageToSend]:
        """Return what to send instead of a history, and report what was removed or added."""
        return (await self.follow(told, base))[1] if told else []

    async def follow(
        self, told: Sequence[FrameworkMessage], base: Base
    ) -> tuple[Following, list[MessageToSend]]:
        """The same with the conversation that the history belongs to; there is at least one message."""
        chain = _chain(told)
        # Memories for repeated words are looked up again: they may have changed.
        has_result = any(isinstance(block, ToolResult) for block in told[-1].blocks)
        is_settled = self._layers.memory is None or told[-1].role != "user" or has_result
        following = self._taken(chain if is_settled else chain[:-1], base)
        try:
            return following, await following.shown(told, chain)
        finally:
            following.is_busy = False
            for notice in following.session.notices():
                self._layers.on_notice(notice.text)

    def _taken(self, chain: Sequence[bytes], base: Base) -> Following:
        """Return the session that received the longest part of this history and nothing else, reserved for
        the caller."""
        with self._one_at_a_time:
            known = reversed(self._known)
            found = max(known, key=lambda one: (one.shared(chain), one.goes_on(chain)), default=None)
            if found is None or not (shared := found.shared(chain)):
                found = Following(opened(base, self._layers))
            elif found.goes_on(chain):
                self._known.remove(found)
                found.hand_over(base, self._layers)
            else:
                found = found.branch(shared, base, self._layers)
            found.is_busy = True
            self._known = [*self._known, found][-self._layers.conversations :]
            return found


def _chain(told: Sequence[FrameworkMessage]) -> list[bytes]:
    """Return for every message a digest of it and all before it."""
    chain = [b""]
    for one in told:
        said = one.role.encode() + canonical(render_blocks(one.blocks))
        chain.append(blake2b(chain[-1] + said, digest_size=DIGEST_BYTES).digest())
    return chain[1:]


@dataclass(frozen=True, kw_only=True)
class Layers:
    """Layers for a framework's conversation."""

    results: Path | None = None
    """Directory for long or old tool results; without one they stay in the conversation."""
    memory: Memory | None = None
    """Memory to recall from."""
    window: int | None = None
    """Window in tokens, if the model's own is unknown or should not be used up."""
    clearable: frozenset[str] = frozenset()
    """Tools whose old results may be cleared because they can be repeated."""
    advice: Advice = READ_ONLY_ADVICE
    """What a pointer to a long result says about reading it."""
    compacts: bool = True
    """Whether a summary by rule replaces older messages of a full window; else only results are cleared."""
    offload: OffloadSettings = field(default_factory=OffloadSettings)
    microcompact: MicrocompactSettings = field(default_factory=MicrocompactSettings)
    compact: CompactSettings = field(default_factory=CompactSettings)
    conversations: int = 64
    """Conversations kept in memory; one that returns later is read again from its beginning."""
    on_notice: Callable[[str], None] = lambda _: None
    """Called with one line for everything removed from or added to the conversation."""
    clock: Clock = SYSTEM_CLOCK

    def __post_init__(self) -> None:
        if self.results is not None and not isinstance(self.results, Path):
            raise TypeError(
                f"results takes a pathlib.Path, not {type(self.results).__name__}: Path({self.results!r})"
            )
        if self.memory is not None and not isinstance(self.memory, Memory):
            raise TypeError(f"memory takes a Memory, not {type(self.memory).__name__}; see nacre.open_memory")

    @cached_property
    def _index(self) -> LocalIndex | None:
        """The index of the memory, shared by all conversations."""
        if self.memory is None:
            return None
        location = self.memory.location
        return LocalIndex(location.directory, location.cache, clock=self.memory.clock)


def opened(
    base: Base, layers: Layers, *, records: Sequence[Record] = (), writer: RecordWriter | None = None
) -> Session:
    """Return a session with these layers, cheapest first."""
    session = Session(
        base,
        records,
        writer=writer or NullRecordWriter(layers.clock.new_id()),
        settings=SessionSettings(window_ceiling=layers.window),
        clock=layers.clock,
    )
    if layers.results is not None:
        store = ToolResultStore(layers.results.resolve())
        session.add_layers(Offload(store, layers.offload, advice=layers.advice))
        tools = layers.microcompact.tools | CLEARABLE | layers.clearable
        session.add_layers(Microcompact(store, replace(layers.microcompact, tools=tools)))
    if layers.compacts:
        session.add_layers(Compact(settings=layers.compact))
    if layers.memory is not None and layers._index is not None:
        session.add_layers(Recollection(layers._index, layers.memory.clock))
    return session


class Recollection(Layer):
    """Attaches memories to the user's messages."""

    def __init__(self, index: LocalIndex, clock: Clock) -> None:
        self._index = index
        self._clock = clock

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """Return memories the model does not see yet, without those that must not leave the machine (M27)."""
        if said.meta or any(isinstance(block, ToolResult) for block in said.blocks):
            return ()
        text = "\n".join(block.text for block in said.blocks if isinstance(block, Text))
        size = bytes_in_view(view)
        if skip_reason(text, is_on=True, attached_bytes=size, has_files=True):
            return ()
        seen = frozenset(str(path) for path in recalled_in_view(view))
        already = AlreadySeen(paths=seen, attached_bytes=size, hides_local=True)
        query = RecallQuery(text=text, now=self._clock.now())
        picks = (await asyncio.to_thread(self._looked_up, query, already)).picks
        if not picks:
            return ()
        facts: JsonObject = noted((one.ranked.path for one in picks), size=sum(one.bytes for one in picks))
        names = ", ".join(one.ranked.entry.file for one in picks)
        return [
            Attachment(kind=RECALLED, text=render_attachment(picks), facts=facts, notice=f"recalled {names}")
        ]

    def _looked_up(self, query: RecallQuery, already: AlreadySeen) -> Recalled:
        self._index.refresh()
        self._index.deepen(seconds=VECTORS_SECONDS)
        return recall(query, [self._index], already=already, clock=self._clock)
