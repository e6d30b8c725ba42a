"""Makes any log a valid request (T6): calls paired with results, alternating roles, the user first.

An exchange is the part between two replies. It stays open until another reply begins; only then are its
messages sealed, so that nothing sent before can change when a late result or a user's text arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from nacre.messages.blocks import (
    Block,
    Document,
    Image,
    JsonObject,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from nacre.messages.media import MediaFacts, media_facts
from nacre.messages.tokens import estimate_block
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical, render_block

INTERRUPTED = "[Interrupted: this call did not finish and its outcome is unknown.]"
"""Result of a call that never got one."""
CONTINUE = "[Continue.]"
"""Message between two consecutive replies, because roles must alternate."""
OPENING = "[The conversation starts with the assistant.]"
"""First message if a log begins with a reply, because the user must come first."""
DIGEST_BYTES = 16
"""128 bits, so that blocks of a conversation never collide by chance."""

Report = Callable[[str, str, str], None]
"""Callback with kind, location and message of a problem."""


@dataclass(frozen=True, slots=True)
class ItemPart:
    """One block in the view, with its origin."""

    record_id: str
    index: int
    block: Block
    wire: JsonObject
    digest: bytes
    tokens: int
    media: tuple[MediaFacts, ...] = ()
    """Pictures and documents in the block."""


@dataclass(frozen=True, slots=True)
class Item:
    """The blocks of one record in the view."""

    record_id: str
    role: Role
    reply_id: str | None
    parts: tuple[ItemPart, ...]
    usage: Usage | None = None
    """What the provider reported with the record, if it is a reply."""

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)

    @property
    def thinking_tokens(self) -> int:
        return sum(one.tokens for one in self.parts if isinstance(one.block, Thinking))

    @property
    def is_user_text(self) -> bool:
        """Whether the user says something here, rather than a tool alone."""
        is_result = any(isinstance(one.block, ToolResult) for one in self.parts)
        return self.role == "user" and bool(self.parts) and not is_result


@dataclass(frozen=True, slots=True)
class Sealed:
    """A wire message that no longer changes in this epoch."""

    wire: JsonObject
    digests: tuple[bytes, ...]


def part(record_id: str, index: int, block: Block) -> ItemPart:
    wire = render_block(block)
    digest = blake2b(canonical(wire), digest_size=DIGEST_BYTES).digest()
    blocks = block.content if isinstance(block, ToolResult) else (block,)
    media = tuple(
        media_facts(one)
        for one in blocks
        if isinstance(one, Image | Document) and one.source.get("type") != "text"
    )
    return ItemPart(record_id, index, block, wire, digest, estimate_block(block), media)


def seal(role: Role, parts: Iterable[ItemPart]) -> Sealed:
    kept = tuple(parts)
    wire: JsonObject = {"role": role, "content": [one.wire for one in kept]}
    return Sealed(wire, tuple(one.digest for one in kept))


def _synthetic(block: Block) -> ItemPart:
    return part("", 0, block)


@dataclass(slots=True)
class OpenExchange:
    """The open end of a conversation: blocks before the current reply, the reply, its results."""

    before: list[ItemPart] = field(default_factory=list)
    before_system: list[ItemPart] = field(default_factory=list)
    reply: list[ItemPart] = field(default_factory=list)
    reply_id: str | None = None
    has_reply: bool = False
    results: list[ItemPart] = field(default_factory=list)
    after: list[ItemPart] = field(default_factory=list)
    after_system: list[ItemPart] = field(default_factory=list)

    def copy(self) -> OpenExchange:
        return OpenExchange(
            list(self.before),
            list(self.before_system),
            list(self.reply),
            self.reply_id,
            self.has_reply,
            list(self.results),
            list(self.after),
            list(self.after_system),
        )

    def add(self, item: Item, known_calls: Container[str], *, is_first: bool, report: Report) -> list[Sealed]:
        """Add a record; return the messages that are final because a new reply began."""
        if item.role == "assistant":
            if item.reply_id is None:
                goes_on = self.reply_id is None and not (self.results or self.after or self.after_system)
            else:
                goes_on = item.reply_id == self.reply_id
            closed = [] if self.has_reply and goes_on else self.close(is_first=is_first)
            self._hear(item, known_calls, report)
            return closed
        for one in item.parts:
            if isinstance(one.block, ToolResult):
                self._answer(one, report)
            elif isinstance(one.block, ToolCall):
                report("call_by_user", one.block.id, "a tool call in a user record is left out")
            elif _is_blank(one.block):
                report("blank_text", one.record_id, "blank text is left out")
            elif item.role == "system":
                (self.after_system if self.has_reply else self.before_system).append(one)
            else:
                (self.after if self.has_reply else self.before).append(one)
        return []

    def _hear(self, item: Item, known_calls: Container[str], report: Report) -> None:
        self.has_reply = True
        self.reply_id = item.reply_id
        calls = {one.block.id for one in self.reply if isinstance(one.block, ToolCall)}
        for one in item.parts:
            if isinstance(one.block, ToolResult):
                report("result_by_assistant", one.block.call_id, "a tool result in a reply is left out")
            elif _is_blank(one.block):
                report("blank_text", one.record_id, "blank text is left out")
            elif isinstance(one.block, ToolCall) and (one.block.id in calls or one.block.id in known_calls):
                report("repeated_call", one.block.id, "a second call with the same id is left out")
            else:
                self.reply.append(one)
                if isinstance(one.block, ToolCall):
                    calls.add(one.block.id)

    def _answer(self, one: ItemPart, report: Report) -> None:
        assert isinstance(one.block, ToolResult)
        call_id = one.block.call_id
        if call_id in self.open_calls():
            self.results.append(one)
        elif any(isinstance(two.block, ToolResult) and two.block.call_id == call_id for two in self.results):
            report("repeated_result", call_id, "a second result for the same call is left out")
        else:
            report("orphan_result", call_id, "a result without an open call is left out")

    def open_calls(self) -> list[str]:
        """Calls of the current reply that have no result yet, in order."""
        answered = {one.block.call_id for one in self.results if isinstance(one.block, ToolResult)}
        return [
            one.block.id
            for one in self.reply
            if isinstance(one.block, ToolCall) and one.block.id not in answered
        ]

    def is_void(self) -> bool:
        """Return whether the reply has neither text nor call, which a provider would refuse."""
        return all(isinstance(one.block, Thinking) for one in self.reply)

    def close(self, *, is_first: bool) -> list[Sealed]:
        """Close the exchange because another reply begins; the results precede the new reply."""
        if self.is_void():
            self.before += self.after
            self.before_system += self.after_system
            sealed: list[Sealed] = []
        else:
            sealed = [*self._opening(is_first=is_first), seal("assistant", self.reply)]
            answers = self._answers()
            self.before = answers or ([] if self.after_system else [_synthetic(Text(CONTINUE))])
            self.before_system = self.after_system
        self.reply = []
        self.reply_id = None
        self.has_reply = False
        self.results = []
        self.after = []
        self.after_system = []
        return sealed

    def render(self, *, is_first: bool) -> list[Sealed]:
        """Return the open end as messages of a request; it never ends with the assistant."""
        if self.is_void():
            return _user_side(self.before + self.after, self.before_system + self.after_system)
        closing = _user_side(self._answers(), self.after_system)
        return [
            *self._opening(is_first=is_first),
            seal("assistant", self.reply),
            *(closing or [seal("user", [_synthetic(Text(CONTINUE))])]),
        ]

    def _opening(self, *, is_first: bool) -> list[Sealed]:
        opening = _user_side(self.before, self.before_system)
        if opening or not is_first or (self.reply and is_compaction(self.reply[0].block)):
            return opening
        return [seal("user", [_synthetic(Text(OPENING))])]

    def _answers(self) -> list[ItemPart]:
        missing = [
            _synthetic(ToolResult(call_id, (Text(INTERRUPTED),), True)) for call_id in self.open_calls()
        ]
        return [*self.results, *missing, *self.after]


def _user_side(user: list[ItemPart], system: list[ItemPart]) -> list[Sealed]:
    # A system message must follow a user message; otherwise its text becomes a user message.
    if not user:
        user = system
        system = []
    sealed = [seal("user", user)] if user else []
    return [*sealed, seal("system", system)] if system else sealed


def _is_blank(block: Block) -> bool:
    return isinstance(block, Text) and not block.text.strip()


def is_compaction(block: Block) -> bool:
    """Return whether a block is a provider's own summary, which opens a conversation as a reply."""
    return isinstance(block, Opaque) and block.kind == "compaction"
