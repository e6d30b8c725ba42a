"""What the best clearing could have cost, with the whole session known beforehand: a bound, not a policy.

Every result is dropped after the last step that needs it; between two needs it is kept or fetched again,
whichever is cheaper, and what is not kept is never written to the cache; a drop breaks no cache; in each
pause the prefix is refreshed at the last moment or written anew, whichever is cheaper, however long it lasts.
What is not a tool result stays. A need is met by the newest result that says it, and needs nothing where
words or calls say it, too. There is no window, no summary, and a five-minute cache.

So it bounds what clears results once they were sent. What leaves out more than that (a result that never
comes whole, words and calls that are summed up, thinking that is dropped) or forgets for good can cost less.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from nacre.cache.models import PER_MILLION, PriceTier, profile
from nacre.devtools.cache_models.anthropic_render import estimate
from nacre.devtools.replay.run import Need, Pair, facts_of, needs
from nacre.devtools.replay.schema import Recorded
from nacre.messages.blocks import JsonObject
from nacre.messages.wire import render_block

LIFETIME = 300.0
"""Seconds an entry lives; a bound refreshes it at its very end."""


@dataclass(frozen=True, slots=True)
class Part:
    """One block: its size, the step it is first sent with, and the steps that need it later."""

    tokens: int
    sent: int
    is_result: bool
    needed: tuple[int, ...] = ()


def least_usd(session: Recorded, model: str, *, with_base: bool = True) -> float:
    """What a session would have cost at the least."""
    tier = profile(model).tier(0)
    assert tier is not None, "the bound is about money"
    carried = _carried(session, tier)
    total = sum(step.output_tokens for step in session.steps) * tier.output
    base = Part(session.base_tokens if with_base else 0, 0, is_result=False)
    for part in (base, *_parts(session)):
        total += _cost(part, carried, tier, last=len(session.steps) - 1)
    return total / PER_MILLION


def _carried(session: Recorded, tier: PriceTier) -> list[float]:
    """For one token that stays: what it costs from the first request up to each."""
    gaps = [(after.at - before.at).total_seconds() for before, after in pairwise(session.steps)]
    prices = [gap_price(gap, tier) for gap in gaps]
    if prices:
        # Behind the last request nothing is read any more: there it need not be written.
        prices[-1] = min(prices[-1], tier.input)
    return list(accumulate(prices, initial=0.0))


def gap_price(seconds: float, tier: PriceTier) -> float:
    """For one token: refreshed until the next request reads it, or written again by that."""
    refreshes = math.floor(seconds / LIFETIME)
    return min(tier.write_5m, (refreshes + 1) * tier.read)


def _cost(part: Part, carried: list[float], tier: PriceTier, *, last: int) -> float:
    if part.is_result:
        return part.tokens * result_price((part.sent, *part.needed), carried, tier)
    first = tier.write_5m if part.sent < last else min(tier.input, tier.write_5m)
    return part.tokens * (first + carried[last] - carried[part.sent])


def result_price(steps: Sequence[int], carried: Sequence[float], tier: PriceTier) -> float:
    """For one token of a result that must be there at these steps: the best choice of when to keep it."""
    plain, cached = tier.input, tier.write_5m
    for before, after in pairwise(steps):
        kept = cached + carried[after] - carried[before]
        away = min(plain, cached)
        plain, cached = min(away + tier.input, kept), min(away + tier.write_5m, kept)
    return min(plain, cached)


def _parts(session: Recorded) -> list[Part]:
    """Every block of a session with the steps that need it."""
    told = _Told(session.ratio)
    for number, (step, need) in enumerate(zip(session.steps, needs(session), strict=True)):
        for said in step.heard:
            told.tell([render_block(block) for block in said.blocks], number)
        told.need(need, number)
        # A reply is first sent with the request after it.
        told.tell([render_block(block) for block in step.reply.blocks], number + 1)
    last = len(session.steps) - 1
    return [
        Part(tokens, min(sent, last), is_result, tuple(sorted(told.needed[place])))
        for place, (tokens, sent, is_result) in enumerate(told.parts)
        if sent <= last
    ]


class _Told:
    """What was said so far: by results, which can go, and by the rest, which stays."""

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio
        self.parts: list[tuple[int, int, bool]] = []
        self.needed: defaultdict[int, set[int]] = defaultdict(set)
        self._pairs: dict[Pair, int] = {}
        self._staying: set[Pair] = set()
        self._texts: list[tuple[int, str]] = []

    def tell(self, wires: list[JsonObject], step: int) -> None:
        for wire in wires:
            is_result = wire.get("type") == "tool_result"
            facts, place = facts_of(wire), len(self.parts)
            self.parts.append((round(estimate(wire) * self._ratio), step, is_result))
            if is_result:
                self._pairs.update(dict.fromkeys(facts.pairs, place))
                self._texts.append((place, facts.text))
            else:
                self._staying |= facts.pairs
                self._texts.append((-1, facts.text))

    def need(self, need: Need, step: int) -> None:
        for pair, _ in need.pairs:
            if pair not in self._staying and pair in self._pairs:
                self.needed[self._pairs[pair]].add(step)
        for text, _ in need.edits:
            found = [place for place, words in self._texts if text in words]
            if found and -1 not in found:
                self.needed[found[-1]].add(step)
