"""The base of a session: model, system prompt and tools, and what changed in it since the last request.

A note in the log holds their digests, so that a resumed session knows. Thinking is bound to them (C12b), and
what the provider has cached begins with them (C32).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from nacre.cache.models import cost, profile
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.records import Noted, Said
from nacre.messages.tokens import estimate_json, estimate_text
from nacre.messages.tool_references import is_deferred
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.tools.base import Function, Tool, as_tools

BASE = "base"
"""The kind of note with the digests of model, system prompt and tools; written when they change."""
SIZE = "tokens"
"""The fact of such a note with the estimated size of system prompt and tools."""
DIGEST_BYTES = 8
SHOWN_TOOLS = 3
"""Tools that a notice names; it counts the others."""


@dataclass(frozen=True, init=False)
class Base:
    """The model, the instructions and the tools of a session; they never change during it (C31b)."""

    model: str
    system: tuple[JsonObject, ...]
    tools: tuple[JsonObject, ...]
    opening: str
    """Text ahead of the first message, for what varies: a changed system prompt would cost the cache."""

    def __init__(
        self,
        model: str,
        instructions: str | Sequence[JsonObject] = "",
        tools: Iterable[Tool | Function | JsonObject] = (),
        *,
        opening: str = "",
    ) -> None:
        """Take instructions as text or as content blocks, and tools as objects or as JSON definitions.

        Tool objects are sorted by name, so that the order in which they were found never reaches a request.
        """
        if isinstance(instructions, str):
            instructions = ({"type": "text", "text": instructions},) if instructions else ()
        given = tuple(tools)
        objects = as_tools(one for one in given if not isinstance(one, dict))
        definitions = [one.definition for one in sorted(objects, key=lambda one: one.name)]
        definitions += [one for one in given if isinstance(one, dict)]
        values = {
            "model": model,
            "system": tuple(instructions),
            "tools": tuple(definitions),
            "opening": opening,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @cached_property
    def tokens(self) -> int:
        """The estimated size of system prompt and tools; cached, because every request needs it."""
        words = sum(estimate_text(str(block["text"])) for block in self.system)
        return words + sum(estimate_json(one) for one in self.tools if not is_deferred(one))

    @property
    def deferred(self) -> list[JsonObject]:
        """The tools whose definitions are not in the prompt (P12)."""
        return [one for one in self.tools if is_deferred(one)]

    @cached_property
    def facts(self) -> JsonObject:
        """The digests and the size of the base for the log; cached, because every request compares them."""
        return {**base_facts(self.model, self.system, self.tools), SIZE: self.tokens}

    @cached_property
    def digest(self) -> str:
        """A digest of model, system prompt and tools."""
        return base_key(self.facts)


def base_facts(model: str, system: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
    """Return the facts of the note: the model, a digest of the system prompt, and one of each tool."""
    return {
        "model": model,
        "system": _digest(list(system)),
        "tools": [[str(one.get("name") or one.get("type")), _digest(one)] for one in tools],
    }


def base_key(facts: JsonObject) -> str:
    """Return a digest of the facts of a note: what the provider caches begins with equal bytes only."""
    return _digest(_identity(facts))


def _identity(facts: JsonObject) -> JsonObject:
    """Return the facts without the size, which notes of earlier versions lack."""
    return {name: value for name, value in facts.items() if name != SIZE}


def _digest(value: Json) -> str:
    # The order of keys counts: the provider compares bytes.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return blake2b(text.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseChange:
    """The differences between the base of the last request and the current one."""

    model_before: str
    model: str
    is_system_changed: bool = False
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    is_level_changed: bool = False
    """The level of thinking differs; the provider's cache is lost, thinking blocks stay valid."""

    @property
    def is_level_only(self) -> bool:
        """Whether nothing but the level of thinking differs."""
        return self == BaseChange(model_before=self.model, model=self.model, is_level_changed=True)

    @property
    def is_model_changed(self) -> bool:
        return self.model != self.model_before

    @property
    def reason(self) -> str:
        """What changed, as text."""
        if self.is_model_changed:
            return "the model changed"
        tools = [
            f"{word} {_named(names)}"
            for word, names in (("added", self.added), ("removed", self.removed), ("changed", self.changed))
            if names
        ]
        parts = [f"the tools changed ({'; '.join(tools)})"] if tools else []
        parts += ["the system prompt changed"] if self.is_system_changed else []
        parts += ["the level of thinking changed"] if self.is_level_changed else []
        # Otherwise the same tools come in another order.
        return " and ".join(parts) or "the order of the tools changed"

    def notice(self, tokens: int, cached: int) -> str:
        """Return a line for the person; empty if nothing of note is lost.

        `tokens` is the size of the next request, `cached` what the provider still has in its cache of it.
        """
        if self.is_model_changed:
            usd = uncached_price(self.model, tokens)
            price = "" if usd is None else f", about ${usd:.4f}"
            return (
                f"{self.model} continues a conversation with {self.model_before}: "
                f"about {tokens:,} tokens are sent without the prompt cache{price}."
            )
        if cached <= 0:
            return ""
        return f"The prompt cache of {cached:,} tokens cannot be used, because {self.reason}."


def base_change(note: Noted | None, facts: JsonObject) -> BaseChange | None:
    """Return how the base differs from the noted one; None if it does not or if none was noted."""
    if note is None or _identity(note.facts) == _identity(facts):
        return None
    before = _digests(note.fact("tools"))
    now = _digests(facts.get("tools"))
    return BaseChange(
        model_before=str(note.fact("model")),
        model=str(facts.get("model")),
        is_system_changed=note.fact("system") != facts.get("system"),
        added=tuple(name for name in now if name not in before),
        removed=tuple(name for name in before if name not in now),
        changed=tuple(name for name in now if before.get(name, now[name]) != now[name]),
        is_level_changed=note.fact("thinking") != facts.get("thinking"),
    )


def size_change(view: View, base: Base) -> int:
    """Return by how many tokens a request to another model differs from what was counted, besides thinking.

    The system prompt and tools may be larger or smaller. Reasoning that was billed with the last reply but is
    not in its text is not sent.
    """
    note = view.last_noted(BASE)
    size = note.fact(SIZE) if note is not None else None
    growth = base.tokens - size if isinstance(size, int) else 0
    last = next((item for item in reversed(view.items) if item.usage is not None), None)
    if last is None or last.usage is None or not last.thinking_tokens:
        return growth
    return growth - max(0, last.usage.output - last.tokens)


def is_base_counted(view: View) -> bool:
    """Return whether the size in `view.anchor` is that of a request with the base that was noted last."""
    if view.anchor is None or view.last_noted(BASE) is None:
        return False
    for record in reversed(view.records):
        if isinstance(record, Noted) and record.kind == BASE:
            return False
        if isinstance(record, Said) and record.reply and record.reply.id == view.anchor.reply_id:
            return True
    # The note was carried over a compaction.
    return True


def _digests(tools: Json) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for one in tools if isinstance(tools, list) else []:
        match one:
            case [str(name), digest]:
                found[name] = digest
            case _:
                pass
    return found


def _named(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_TOOLS
    return ", ".join(names[:SHOWN_TOOLS]) + (f" and {more} more" if more > 0 else "")


def uncached_price(model: str, tokens: int) -> float | None:
    """Return what a model charges for a prompt of which nothing is cached."""
    rules = profile(model)
    written = tokens if rules.cache_markers or rules.cache == "boundaries" else 0
    return cost(rules, Usage(input=tokens - written, cache_write=written))
