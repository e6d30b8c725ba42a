"""A provider with scripted replies, for tests and dry runs.

`ScriptedProvider().script(call("read", path="a"), say("done"))` answers two requests and records them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import anyio
import anyio.lowlevel

from nacre.messages.blocks import (
    Block,
    Document,
    Image,
    Json,
    JsonObject,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from nacre.messages.events import ProviderEvent, Reply, TextDelta, ThinkingDelta, ToolCallEvent
from nacre.messages.tokens import estimate_blocks, estimate_json
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical
from nacre.providers.base import Capabilities, Request, capabilities_of

DELTA_CHARS = 12
"""Small enough that even a short sentence arrives in pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """One reply of a script."""

    blocks: tuple[Block, ...] = ()
    usage: Usage | None = None
    """Estimated when not given."""
    stop_reason: str | None = None
    """Follows from the blocks when not given."""
    gate: anyio.Event | None = None
    """The stream is held before its last event until this is set."""
    fails: Exception | None = None
    """Raised after the blocks were streamed, instead of the reply."""


Item: TypeAlias = "Scripted | Block | str | Exception | Sequence[Scripted | Block | str] | Answer"
Answer: TypeAlias = Callable[[Request], "Item"]
"""A reply that depends on the request."""


def say(text: str, *, thinking: str = "") -> Scripted:
    """A reply with text."""
    return Scripted(blocks=(*((Thinking(thinking),) if thinking else ()), Text(text)))


def call(tool: str, /, **arguments: Json) -> Scripted:
    """A reply that calls a tool; the provider numbers its id."""
    return Scripted(blocks=(ToolCall("", tool, dict(arguments)),))


def think(text: str, *, signature: str = "signed") -> Scripted:
    """Reasoning; put it before other parts of a reply."""
    return Scripted(blocks=(Thinking(text, signature),))


def together(
    *parts: Scripted | Block | str,
    usage: Usage | None = None,
    stop_reason: str | None = None,
    gate: anyio.Event | None = None,
    fails: Exception | None = None,
) -> Scripted:
    """One reply of several parts; with `gate` it waits before its end, with `fails` it raises there."""
    blocks = tuple(block for part in parts for block in _whole(part).blocks)
    return Scripted(blocks=blocks, usage=usage, stop_reason=stop_reason, gate=gate, fails=fails)


class ScriptedProvider:
    """Answers from a script and records the requests."""

    def __init__(
        self,
        replies: Iterable[Item] = (),
        *,
        capabilities: Capabilities | None = None,
        otherwise: Item | None = None,
    ) -> None:
        self._script: list[Item] = []
        self.script(*replies)
        self._otherwise = otherwise
        self._capabilities = capabilities
        self._originals: list[Request] = []
        self._cache = _AppendOnlyCache()
        self._ids = 0
        self.requests: list[Request] = []
        """Copies of the requests as they were received."""
        self.sent: list[bytes] = []
        """The canonical bytes of each request."""

    @property
    def name(self) -> str:
        return "scripted"

    @property
    def calls(self) -> int:
        """The number of requests."""
        return len(self.sent)

    @property
    def left(self) -> int:
        """The number of replies that were not used yet."""
        return len(self._script)

    def script(self, *items: Item) -> ScriptedProvider:
        """Add replies: text, calls, a list of parts, an exception to raise, or a function."""
        for one in items:
            if not callable(one):
                _whole(one)  # raises for what is no reply, here rather than at the request
        self._script.extend(items)
        return self

    def changed(self) -> list[int]:
        """Return the indexes of requests that were changed after sending, always a bug of the sender."""
        return [i for i, request in enumerate(self._originals) if _bytes(request) != self.sent[i]]

    def capabilities(self, model: str) -> Capabilities:
        return self._capabilities or capabilities_of(model)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self._record(request)
        reply = self._next(request)
        for block in reply.blocks:
            for event in _events(block):
                await anyio.lowlevel.checkpoint()
                yield event
        await anyio.lowlevel.checkpoint()
        if reply.gate is not None:
            await reply.gate.wait()
        if reply.fails is not None:
            raise reply.fails
        yield Reply(
            message=Message("assistant", reply.blocks),
            usage=reply.usage or self._cache.bill(request, output=estimate_blocks(reply.blocks)),
            stop_reason=reply.stop_reason or _stop_reason(reply.blocks),
            id=f"scripted_{self.calls}",
            model=request.model,
        )

    async def count_tokens(self, request: Request) -> int | None:
        return sum(tokens for _, tokens in _parts(request))

    async def close(self) -> None:
        """Nothing to close."""

    def _record(self, request: Request) -> None:
        bytes_now = _bytes(request)
        self.sent.append(bytes_now)
        self._originals.append(request)
        copy = json.loads(bytes_now)
        self.requests.append(replace(request, **{key: copy[key] for key in _RECORDED}))

    def _next(self, request: Request) -> Scripted:
        item = self._script.pop(0) if self._script else self._otherwise
        if item is None:
            raise AssertionError(f"request {self.calls} came, but the script holds {self.calls - 1} replies")
        while callable(item):
            item = item(request)
        reply = _whole(item)
        blocks: list[Block] = []
        for block in reply.blocks:
            if isinstance(block, ToolCall) and not block.id:
                self._ids += 1
                blocks.append(replace(block, id=f"call_{self._ids}"))
            else:
                blocks.append(block)
        return replace(reply, blocks=tuple(blocks))


def _whole(item: Item) -> Scripted:
    match item:
        case Scripted():
            return item
        case str():
            return say(item)
        case Exception():
            return Scripted(fails=item)
        case Sequence():
            return together(*item)
        case _ if callable(item):
            raise TypeError("a function can stand for a whole reply, not for a part of one")
        case Text() | Thinking() | ToolCall() | Image() | Document() | Opaque() | ToolResult():
            return Scripted(blocks=(item,))
        case _:
            raise TypeError(
                f"a script holds texts, say(…), call(…) and blocks, not a {type(item).__name__}: {item!r:.60}"
            )


def _events(block: Block) -> list[ProviderEvent]:
    match block:
        case Text(text):
            return [TextDelta(piece) for piece in _pieces(text)]
        case Thinking(text):
            return [ThinkingDelta(piece) for piece in _pieces(text)]
        case ToolCall():
            return [ToolCallEvent(block)]
        case _:
            return []


def _pieces(text: str) -> list[str]:
    return [text[start : start + DELTA_CHARS] for start in range(0, len(text), DELTA_CHARS)]


def _stop_reason(blocks: tuple[Block, ...]) -> str:
    return "tool_use" if any(isinstance(block, ToolCall) for block in blocks) else "end_turn"


_RECORDED = ("tools", "system", "messages", "thinking", "output_schema", "options")


def _bytes(request: Request) -> bytes:
    recorded: JsonObject = {key: getattr(request, key) for key in _RECORDED}
    return canonical({"model": request.model, "max_tokens": request.max_tokens, **recorded})


class _AppendOnlyCache:
    """Bills the prefix shared with any earlier request of the model as read and the rest as written."""

    def __init__(self) -> None:
        self._seen: dict[str, list[list[bytes]]] = {}

    def bill(self, request: Request, *, output: int) -> Usage:
        parts = _parts(request)
        now = [part for part, _ in parts]
        seen = self._seen.setdefault(request.model, [])
        shared = max((_shared(now, before) for before in seen), default=0)
        seen.append(now)
        return Usage(
            cache_read=sum(tokens for _, tokens in parts[:shared]),
            cache_write=sum(tokens for _, tokens in parts[shared:]),
            output=output,
        )


def _shared(now: list[bytes], before: list[bytes]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(now, before, strict=False)) if a != b), min(len(now), len(before))
    )


def _parts(request: Request) -> list[tuple[bytes, int]]:
    """Return the cacheable parts of the prompt with their size, without cache markers."""
    pieces = [*request.tools, *request.system, *request.messages]
    bare = [_without_markers(piece) for piece in pieces]
    return [(canonical(piece), estimate_json(piece)) for piece in bare]


def _without_markers(value: JsonObject) -> JsonObject:
    content = value.get("content")
    bare = {key: item for key, item in value.items() if key != "cache_control"}
    if isinstance(content, list):
        bare["content"] = [_without_markers(part) if isinstance(part, dict) else part for part in content]
    return bare
