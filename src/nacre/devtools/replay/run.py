"""Run recorded sessions through policies: every request billed, every rewrite checked (P7)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from nacre.cache.models import ModelProfile, cost, profile
from nacre.devtools.cache_models.anthropic_checks import refuse
from nacre.devtools.cache_models.anthropic_render import estimate
from nacre.devtools.cache_models.anthropic_state import Call, Rendered
from nacre.devtools.replay.costs import Accounts, Bill, accounts
from nacre.devtools.replay.other_policies import filler
from nacre.devtools.replay.schema import (
    ChartPoint,
    Maker,
    PolicyAnswer,
    PolicyTotals,
    Recorded,
    ReplayStep,
    Setting,
    SideRequest,
    Used,
    WireRequest,
)
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.usage import Usage
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


Progress = Callable[[int, int], None]
"""Called with the number of finished sessions and of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTerms:
    """Parameters of a replay."""

    model: str
    window: int = 200_000
    with_base: bool = True
    """Whether tokens before the first message count, by the recording's own figures."""
    most_base: int | None = None
    """Tokens of them that count at most, for windows that the recorded base would fill; None: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One session under one policy."""

    session: str
    policy: str
    tally: PolicyTotals
    points: tuple[ChartPoint, ...] = ()


def replay(
    sessions: Sequence[Recorded],
    makers: Sequence[Maker],
    terms: ReplayTerms,
    *,
    progress: Progress | None = None,
) -> list[Replayed]:
    """Replay every session under every policy."""
    done: list[Replayed] = []
    total = len(sessions) * len(makers)
    for session in sessions:
        study = Study(session)
        for maker in makers:
            done.append(replay_one(study, maker, terms))
            if progress is not None:
                progress(len(done), total)
    return done


class Study:
    """A session and what is the same for every policy: the needs of its steps, the facts of its blocks."""

    def __init__(self, session: Recorded) -> None:
        self.session = session
        self.needs = needs(session)
        self.reading = Reading()


def replay_one(study: Study, maker: Maker, terms: ReplayTerms) -> Replayed:
    """Replay one session under one policy, from the first step to the last."""
    session = maker.prepare(study.session)
    if session is not study.session:
        study = Study(session)
    base = session.base_tokens if terms.with_base else 0
    if terms.most_base is not None:
        base = min(base, terms.most_base)
    blocks: tuple[JsonObject, ...] = (
        ({"type": "text", "text": filler(base, ratio=session.ratio)},) if base else ()
    )
    setting = Setting(
        model=terms.model, window=terms.window, base=blocks, ratio=session.ratio, has_times=session.has_times
    )
    running = _Running(study, profile(terms.model), terms.window)
    policy = maker.start(setting)
    try:
        for step, need in zip(session.steps, study.needs, strict=True):
            asked = policy.ask(step)
            policy.hear(step, running.take(step, need, asked))
    finally:
        after = policy.close()
    running.beside(after)
    return Replayed(
        session=session.name, policy=maker.name, tally=running.tally(), points=tuple(running.points)
    )


def totals(replayed: Iterable[Replayed]) -> dict[str, PolicyTotals]:
    """Return each policy's totals over all sessions, in the order of the policies."""
    sums: dict[str, PolicyTotals] = {}
    for one in replayed:
        sums[one.policy] = sums.get(one.policy, PolicyTotals()) + one.tally
    return sums


class _Running:
    """The accounts of one session under one policy."""

    def __init__(self, study: Study, rules: ModelProfile, window: int) -> None:
        self._rules = rules
        self._window = window
        self._ratio = study.session.ratio
        self._books: Accounts = accounts(rules, ratio=self._ratio)
        self._retention = Retention(study.reading)
        self._sum = PolicyTotals()
        self._cpu: list[float] = []
        self.points: list[ChartPoint] = []
        self._is_first = True

    def take(self, step: ReplayStep, need: Need, asked: PolicyAnswer) -> Usage:
        """Bill the requests of a step; return the usage of the main request."""
        self.beside(asked.sides)
        bill = self._books.bill(asked.sent, step.output_tokens)
        prompt = bill.usage.prompt
        broke = bill.broke and not self._is_first
        self._sum += PolicyTotals(
            requests=1,
            usage=bill.usage,
            cost_usd=bill.cost_usd,
            reply_usd=0.0 if step.is_added else self._reply_usd(bill),
            peak_tokens=prompt,
            view_tokens=prompt,
            overflow=int(prompt > self._window),
            invalid=int(self._is_refused(asked.sent, bill)),
            compactions=asked.count("compact"),
            prefix_breaks=int(broke),
            unannounced=int(broke and not asked.rewrites),
        )
        self._retain(need, bill)
        self._cpu.append(asked.cpu_seconds)
        self.points.append(ChartPoint(at=asked.sent.at.timestamp(), tokens=prompt, actions=asked.actions))
        self._is_first = False
        return bill.usage

    def _reply_usd(self, bill: Bill) -> float:
        return bill.cost_usd - (cost(self._rules, replace(bill.usage, output=0)) or 0.0)

    def beside(self, sides: Sequence[SideRequest]) -> None:
        """Bill the side requests."""
        for side in sides:
            if side.model is None:
                bill = self._books.bill(side.sent, side.output_tokens, is_side=True)
            else:
                books = accounts(profile(side.model), ratio=self._ratio)
                bill = books.bill(side.sent, side.output_tokens)
            self._sum += PolicyTotals(
                requests=1, sides=1, usage=bill.usage, cost_usd=bill.cost_usd, side_usd=bill.cost_usd
            )

    def _retain(self, need: Need, bill: Bill) -> None:
        """Check which needs of the step are in view; each hidden block is fetched by its own request."""
        self._retention.see(bill.blocks, bill.shared)
        used, hidden = self._retention.check(need)
        fits = bill.usage.prompt <= self._window
        self._sum += PolicyTotals(used=used, refused=Used() if fits else used)
        for source in hidden:
            usage = Usage(cache_read=bill.usage.prompt, cache_write=source.tokens)
            price = cost(self._rules, usage) or 0.0
            self._sum += PolicyTotals(requests=1, usage=usage, cost_usd=price, refetches=1, refetch_usd=price)

    def tally(self) -> PolicyTotals:
        return self._sum + PolicyTotals(cpu_seconds=tuple(self._cpu))

    def _is_refused(self, sent: WireRequest, bill: Bill) -> bool:
        """Whether the provider would refuse it."""
        messages = list(sent.messages)
        if not (bill.broke or self._is_first):
            # The previous request was checked already; only the newest round is new.
            replies = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
            messages = messages[replies[-1] :] if replies else messages
        body: JsonObject = {"system": [*sent.system], "tools": [*sent.tools], "messages": [*messages]}
        return bill.unbound or refuse(Call(body=body), self._rules) is not None


class Reading:
    """Facts of blocks by digest: computed once for all policies."""

    def __init__(self) -> None:
        self._known: dict[bytes, BlockFacts] = {}

    def facts(self, block: Rendered) -> BlockFacts:
        found = self._known.get(block.digest)
        if found is None:
            found = self._known[block.digest] = facts_of(block.wire)
        return found


class Retention:
    """Tracks the view of one session under one policy, request by request."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._shown: list[BlockFacts] = []
        self._pairs: Counter[Hashable] = Counter()
        self._identifiers: Counter[Hashable] = Counter()
        self._fetched: set[int] = set()
        """Hidden blocks that were paid for and not seen in view since."""

    def see(self, blocks: Sequence[Rendered], shared: int) -> None:
        """Set the view to these blocks, of which the first `shared` are unchanged; the base is ignored."""
        for facts in self._shown[shared:]:
            _take_away(self._pairs, facts.pairs)
            _take_away(self._identifiers, facts.identifiers)
        del self._shown[shared:]
        for block in blocks[shared:]:
            facts = self._reading.facts(block) if block.level == "messages" else NOTHING
            self._shown.append(facts)
            self._pairs.update(facts.pairs)
            self._identifiers.update(facts.identifiers)

    def check(self, need: Need) -> tuple[Used, list[LastMention]]:
        """Return which needs of a step are in view, and the hidden blocks to fetch for the rest."""
        hidden: dict[int, LastMention] = {}
        pairs = edits = 0
        for pair, source in need.pairs:
            is_there = pair in self._pairs
            pairs += is_there
            self._settle(source, hidden, is_there=is_there)
        for text, source in need.edits:
            is_there = any(text in facts.text for facts in reversed(self._shown))
            edits += is_there
            self._settle(source, hidden, is_there=is_there)
        used = Used(
            pairs=len(need.pairs),
            pairs_kept=pairs,
            edits=len(need.edits),
            edits_kept=edits,
            identifiers=len(need.identifiers),
            identifiers_kept=sum(one in self._identifiers for one in need.identifiers),
            old=len(need.old),
            old_kept=sum(one in self._identifiers for one in need.old),
        )
        return used, list(hidden.values())

    def _settle(self, source: LastMention, hidden: dict[int, LastMention], *, is_there: bool) -> None:
        if is_there:
            self._fetched.discard(source.place)
        elif source.place not in self._fetched:
            self._fetched.add(source.place)
            hidden[source.place] = source


NOTHING = BlockFacts(frozenset(), frozenset(), "")


def _take_away(counts: Counter[Hashable], gone: Iterable[Hashable]) -> None:
    for one in gone:
        counts[one] -= 1
        if counts[one] <= 0:
            # Deleted, not zero, because membership is tested.
            del counts[one]
