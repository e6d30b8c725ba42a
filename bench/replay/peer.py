"""Another library's way of keeping a conversation small, driven by a recording (P7).

The library is given every message as it comes, in its own types, and says what it would send. What it leaves
as it is keeps its very block, so that the bytes are the same; what it changed or wrote becomes a new block.
Markers are placed as nacre places them, which none of these libraries does by itself: they get that for free.
So they do exact counts: each is told sizes by the same books that charge it, where it takes a counter at all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nacre.cache.breakpoints import place_markers
from nacre.cache.models import profile, thresholds
from nacre.devtools.cache_models.anthropic_render import estimate
from nacre.devtools.replay.other_policies import filler
from nacre.devtools.replay.schema import (
    LayerAction,
    PolicyAnswer,
    Recorded,
    ReplayPolicy,
    ReplayStep,
    Setting,
    SideRequest,
    WireRequest,
)
from nacre.messages.blocks import JsonObject
from nacre.messages.tokens import estimate_text
from nacre.messages.usage import Usage
from nacre.messages.view import View

SUMMARY_TOKENS = 2_000
"""What a summary takes, for every library as for nacre."""
TAIL_TOKENS = 20_000
"""The newest words that stay where a library is told how many: as much as nacre keeps."""
LEAST_ROOM = 1_000
"""Tokens left for the conversation where the base alone fills the window: libraries refuse less than one."""


class Library(Protocol):
    """A library with one conversation in its own types."""

    compactions: int
    """How often it cut the conversation down for good."""

    def take(self, message: JsonObject) -> None:
        """One more message of the conversation."""
        ...

    def sends(self) -> list[JsonObject]:
        """The messages it would send now; what it rewrites for good is rewritten."""
        ...


@dataclass(frozen=True, slots=True)
class Room:
    """What a library is told about size, in real tokens and less the base, which most do not count."""

    compact_at: int
    """Where nacre would compact."""
    window: int
    max_output: int
    """What nacre leaves of the window for the reply."""
    ratio: float
    """Real tokens for each estimated one."""
    summary: str
    asked: Callable[[str], None]
    """Told the words of a request for a summary, which is charged as it was made."""

    def tokens(self, block: JsonObject) -> int:
        """What the books say about a block."""
        return round(estimate(block) * self.ratio)

    def tokens_of(self, text: str) -> int:
        """The same for words alone."""
        return round(estimate_text(text) * self.ratio)

    @property
    def tail(self) -> int:
        """How many of the newest tokens stay, with room for as much again before the next time."""
        return min(TAIL_TOKENS, self.compact_at // 4)


@dataclass(frozen=True, slots=True)
class Peer:
    """Starts a library for one session."""

    name: str
    make: Callable[[Room], Library]

    def prepare(self, session: Recorded) -> Recorded:
        return session

    def start(self, setting: Setting) -> ReplayPolicy:
        return PeerPolicy(setting, self.make)


class PeerPolicy:
    """One session kept by a library."""

    def __init__(self, setting: Setting, make: Callable[[Room], Library]) -> None:
        self._setting = setting
        self._profile = profile(setting.model)
        self._view = View()
        self._given = 0
        self._questions: list[str] = []
        limits = thresholds(setting.window, max_output=self._profile.max_output)
        base = round(sum(estimate_text(str(block["text"])) for block in setting.base) * setting.ratio)
        self._library = make(
            Room(
                compact_at=max(LEAST_ROOM, limits.autocompact - base),
                window=max(LEAST_ROOM, limits.effective - base) + setting.window - limits.effective,
                max_output=setting.window - limits.effective,
                ratio=setting.ratio,
                summary=filler(SUMMARY_TOKENS, ratio=setting.ratio),
                asked=self._questions.append,
            )
        )

    def ask(self, step: ReplayStep) -> PolicyAnswer:
        self._view = self._view.after(*step.heard)
        before = self._library.compactions
        # Of the processor, as it is counted for nacre.
        began = time.process_time()
        self._give()
        messages = self._library.sends()
        seconds = time.process_time() - began
        sent = self._sent(step, messages)
        sides = tuple(self._side(step, words) for words in self._questions)
        self._questions.clear()
        return PolicyAnswer(
            sent=sent,
            sides=sides,
            actions=tuple(LayerAction("compact") for _ in range(self._library.compactions - before)),
            # What a library rewrites it announces to nobody; it is counted as a break, not as a defect.
            rewrites=("peer",),
            cpu_seconds=seconds,
        )

    def hear(self, step: ReplayStep, usage: Usage) -> None:
        self._view = self._view.after(step.reply)
        messages = self._view.messages
        # A view never ends with a reply: what stands behind it is not said yet.
        self._give(len(messages) - (messages[-1]["role"] == "user"))

    def close(self) -> tuple[SideRequest, ...]:
        return ()

    def _give(self, count: int | None = None) -> None:
        messages = self._view.messages[:count]
        for message in messages[self._given :]:
            self._library.take(message)
        self._given = len(messages)

    def _sent(self, step: ReplayStep, messages: Sequence[JsonObject]) -> WireRequest:
        system, tools, marked = place_markers([*self._setting.base], [], [*messages], profile=self._profile)
        return WireRequest(at=step.at, system=system, tools=tools, messages=marked)

    def _side(self, step: ReplayStep, words: str) -> SideRequest:
        """A request with a prompt of its own: nothing of it is in any cache."""
        message: JsonObject = {"role": "user", "content": [{"type": "text", "text": words}]}
        return SideRequest(
            kind="summary", sent=WireRequest(at=step.at, messages=[message]), output_tokens=SUMMARY_TOKENS
        )


class Blocks:
    """The blocks of a conversation by what a library knows of them: kind, call and text."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], JsonObject] = {}

    def keep(self, kind: str, key: str, text: str, block: JsonObject) -> None:
        self._known.setdefault((kind, key, text), block)

    def text(self, text: str, kind: str = "text") -> JsonObject:
        return self._found((kind, "", text), {"type": "text", "text": text})

    def thinking(self, text: str) -> JsonObject | None:
        return self._known.get(("thinking", "", text))

    def call(self, call_id: str, name: str = "", arguments: Any = None) -> JsonObject:
        fresh: JsonObject = {"type": "tool_use", "id": call_id, "name": name, "input": arguments or {}}
        return self._found(("call", call_id, ""), fresh)

    def result(self, call_id: str, text: str) -> JsonObject:
        fresh: JsonObject = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        return self._found(("result", call_id, text), fresh)

    def _found(self, key: tuple[str, str, str], fresh: JsonObject) -> JsonObject:
        return self._known.setdefault(key, fresh)


def parts(message: JsonObject) -> list[JsonObject]:
    content = message["content"]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def result_text(block: JsonObject) -> str:
    """The words of a result; pictures are one word."""
    content = block.get("content")
    if isinstance(content, str):
        return content
    told = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in told)


def other_text(block: JsonObject) -> str:
    """What stands for a block that a library has no type for."""
    return json.dumps(block, ensure_ascii=False)


class Conversation:
    """Puts blocks back together into messages of alternating roles."""

    def __init__(self) -> None:
        self.messages: list[JsonObject] = []
        self._last: list[JsonObject] = []

    def add(self, role: str, block: JsonObject) -> None:
        if not self.messages or self.messages[-1]["role"] != role:
            self._last = []
            self.messages.append({"role": role, "content": self._last})
        self._last.append(block)
