"""What each step of a recording used of the text before it: the same for every policy (P7).

An identifier is a path, a symbol, a number of three digits or more, or a short quoted string. A pair is two
of them in sequence on one line. Thinking and the base count neither as text nor as use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from nacre.devtools.cache_models.anthropic_render import estimate
from nacre.devtools.replay.schema import Recorded, ReplayStep
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.wire import render_block

IDENTIFIER = re.compile(
    r"""
      "[^"\n]{3,80}" | '[^'\n]{3,80}' | `[^`\n]{3,80}`     # a quoted string
    | (?:[\w.~@+-]*/)+[\w.@+-]*\w                          # a path
    | [A-Za-z_]\w*(?:\.\w+)+                               # a file, a dotted name
    | [A-Za-z]+[0-9_]\w* | _+[A-Za-z]\w*                   # snake_case, names with digits
    | [a-z]+[A-Z]\w* | [A-Z]+[a-z0-9]+[A-Z]\w*             # camelCase
    | [0-9]{3,}                                            # a number
    """,
    re.VERBOSE,
)
NUMBERED = re.compile(r"^[ ]*[0-9]+(?:→|\t)", re.MULTILINE)
"""Line numbers that tools add to a file's lines; not part of the file."""
OLD_STRINGS = ("old_string", "old_str")
"""Arguments of edit tools with text that must be known exactly."""
MIN_EDIT_CHARS = 4
"""A shorter text is found by chance."""
OLD_TOKENS = 20_000
"""Distance from which a mention counts as old: beyond a kept tail."""

Pair = tuple[str, str]


class BlockFacts(NamedTuple):
    """Searchable facts of one block."""

    identifiers: frozenset[str]
    pairs: frozenset[Pair]
    text: str
    """The whole text, without line numbers."""


class LastMention(NamedTuple):
    """The last mention of something."""

    place: int
    tokens: int
    """Real tokens needed to have it in view again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a reply used of the text before it."""

    identifiers: frozenset[str] = frozenset()
    old: frozenset[str] = frozenset()
    """Those last mentioned far back."""
    pairs: tuple[tuple[Pair, LastMention], ...] = ()
    edits: tuple[tuple[str, LastMention], ...] = ()
    """Texts to be replaced, each with the last mention of the whole text."""


def needs(session: Recorded) -> list[Need]:
    """Return one need for each step."""
    told = _Mentioned(session.ratio)
    return [told.need(step) for step in session.steps]


def facts_of(wire: JsonObject) -> BlockFacts:
    """Return the facts of a block in wire form."""
    text = NUMBERED.sub("", "\n".join(_texts(wire)))
    identifiers: set[str] = set()
    pairs: set[Pair] = set()
    for line in text.split("\n"):
        found = IDENTIFIER.findall(line)
        identifiers.update(found)
        pairs.update(pairwise(found))
    return BlockFacts(frozenset(identifiers), frozenset(pairs), text)


def _texts(wire: JsonObject) -> Iterator[str]:
    match wire.get("type"):
        case "text":
            yield str(wire.get("text") or "")
        case "tool_use":
            yield from _leaves(wire.get("input"))
        case "tool_result":
            content = wire.get("content")
            if isinstance(content, str):
                yield content
            elif isinstance(content, list):
                yield from (
                    str(part["text"]) for part in content if isinstance(part, dict) and "text" in part
                )


def _leaves(value: Json) -> Iterator[str]:
    """Yield every string in a call's arguments; a number as its digits."""
    match value:
        case str():
            yield value
        case bool() | None:
            return
        case int() | float():
            yield str(value)
        case list():
            for item in value:
                yield from _leaves(item)
        case dict():
            for item in value.values():
                yield from _leaves(item)


def _edits(value: Json) -> Iterator[str]:
    """Yield the texts a call replaces, at any depth of its arguments."""
    if isinstance(value, list):
        for item in value:
            yield from _edits(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in OLD_STRINGS and isinstance(item, str):
                if len(item.strip()) >= MIN_EDIT_CHARS:
                    yield item
            else:
                yield from _edits(item)


class _Mentioned:
    """All text so far, with the last mentions."""

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio
        self._size = 0
        self._texts: list[tuple[str, int]] = []
        self._pairs: dict[Pair, LastMention] = {}
        self._last: dict[str, int] = {}
        """Amount of text at the last mention of an identifier."""

    def need(self, step: ReplayStep) -> Need:
        for said in step.heard:
            self._tell(render_block(block) for block in said.blocks)
        wires = [render_block(block) for block in step.reply.blocks]
        found = [facts_of(wire) for wire in wires]
        used = frozenset().union(*(one.identifiers for one in found)) & self._last.keys()
        pairs = dict.fromkeys(pair for one in found for pair in one.pairs if pair in self._pairs)
        edits = [
            text for wire in wires if wire.get("type") == "tool_use" for text in _edits(wire.get("input"))
        ]
        need = Need(
            identifiers=frozenset(used),
            old=frozenset(one for one in used if self._size - self._last[one] > OLD_TOKENS),
            pairs=tuple((pair, self._pairs[pair]) for pair in pairs),
            edits=tuple((text, source) for text in edits if (source := self._whole(text))),
        )
        self._tell(wires)
        return need

    def _tell(self, wires: Iterable[JsonObject]) -> None:
        for wire in wires:
            facts = facts_of(wire)
            tokens = round(estimate(wire) * self._ratio)
            source = LastMention(len(self._texts), tokens)
            self._texts.append((facts.text, tokens))
            self._size += tokens
            self._pairs.update(dict.fromkeys(facts.pairs, source))
            self._last.update(dict.fromkeys(facts.identifiers, self._size))

    def _whole(self, text: str) -> LastMention | None:
        """Return where a text occurs as a whole, searched from the newest text back."""
        for place in range(len(self._texts) - 1, -1, -1):
            if text in self._texts[place][0]:
                return LastMention(place, self._texts[place][1])
        return None
