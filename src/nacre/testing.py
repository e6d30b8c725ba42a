"""Fakes for tests, ours and the users': a scripted provider and a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from nacre.devtools.sim import Simulator
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import ProviderEvent
from nacre.messages.wire import canonical
from nacre.providers.base import Capabilities, Request
from nacre.providers.scripted import Scripted, ScriptedProvider, call, say, think, together

__all__ = [
    "Cast",
    "FrozenClock",
    "Scripted",
    "ScriptedProvider",
    "Simulator",
    "call",
    "first_moved_block",
    "say",
    "think",
    "together",
]


class Cast:
    """A provider for several agents at once: each conversation is answered from its own script.

    `Cast(main, {"count the files": counter})` has `counter` answer conversations with these words in a
    message that is not a reply, and `main` all others.
    """

    def __init__(self, main: ScriptedProvider, parts: dict[str, ScriptedProvider] | None = None) -> None:
        self.main = main
        self.parts = parts or {}

    @property
    def name(self) -> str:
        return "scripted"

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        return self._part(request).stream(request)

    def capabilities(self, model: str) -> Capabilities:
        return self.main.capabilities(model)

    async def count_tokens(self, request: Request) -> int | None:
        return await self._part(request).count_tokens(request)

    async def close(self) -> None:
        """Nothing is open."""

    def _part(self, request: Request) -> ScriptedProvider:
        told = list(_told(request))
        found = (part for words, part in self.parts.items() if any(words in text for text in told))
        return next(found, self.main)


class FrozenClock:
    """Time that moves only when told, ids that count, chance that is always the same."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._ids = 0

    def now(self) -> datetime:
        return self._now

    def seconds(self) -> float:
        return self._now.timestamp()

    def new_id(self) -> str:
        self._ids += 1
        return f"00000000-0000-4000-8000-{self._ids:012d}"

    def chance(self) -> float:
        return 0.5

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


def first_moved_block(requests: Sequence[Request]) -> str | None:
    """Where a request first fails to start with the bytes of the one before it; none means never."""
    before: list[bytes] = []
    for n, request in enumerate(requests):
        now = _blocks(request)
        for i, block in enumerate(before):
            if i >= len(now) or now[i] != block:
                gone = now[i][:200] if i < len(now) else b"nothing"
                return f"request {n}, block {i}: {block[:200]!r} became {gone!r}"
        before = now
    return None


def _told(request: Request) -> Iterator[str]:
    """The texts of messages that are neither replies nor results of tools."""
    for message in request.messages:
        content = message["content"]
        blocks: list[Json] = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if message["role"] == "user":
            yield from (str(one["text"]) for one in blocks if isinstance(one, dict) and "text" in one)


def _blocks(request: Request) -> list[bytes]:
    """The prompt block by block, without the cache markers, which may move."""
    pieces: list[Json] = [*request.tools, *request.system]
    for message in request.messages:
        content = message["content"]
        blocks: list[Json] = content if isinstance(content, list) else [{"type": "text", "text": content}]
        role = str(message["role"])
        pieces += [[role, _bare(block)] for block in blocks]
    return [canonical(_bare(piece)) for piece in pieces]


def _bare(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    bare: JsonObject = {key: item for key, item in value.items() if key != "cache_control"}
    return bare
