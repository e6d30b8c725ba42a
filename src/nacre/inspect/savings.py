"""Estimate what each layer spent and saved, from a log's notes, usage and prices (C34).

The cost without the layer is unknown, so these are estimates; `savings` and docs/how-to/see-what-it-costs.md
describe the method. Price steps for long requests are not counted, nor the effect of tokens that the model
did not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from nacre.cache.models import PER_MILLION, ModelProfile, PriceTier, cost, profile
from nacre.cache.warmth import FIVE_MINUTES, HOUR
from nacre.messages.records import Compacted, Noted, Record, Replaced, Said, Undone
from nacre.messages.usage import Usage
from nacre.session.layer_decisions import kept_out
from nacre.session.meter import SIDE_QUERY
from nacre.session.read_session import SlimReader
from nacre.store.lines import read_lines

OFFLOAD = "offload"
MICROCOMPACT = "microcompact"
NOTES = "notes"
COMPACT = "compact"
EXTRACT = "extract"
KEEP_WARM = "keep_warm"
RECALL = "recall"
LAYERS = (OFFLOAD, MICROCOMPACT, NOTES, COMPACT, EXTRACT, KEEP_WARM, RECALL)
WITHOUT_ESTIMATE = frozenset({NOTES, COMPACT, EXTRACT, RECALL})
"""Layers whose savings cannot be estimated: the same requests would not have been possible without them."""
_LAYER_OF = {"offload": OFFLOAD, "duplicate": OFFLOAD, "reread": OFFLOAD, "clear": MICROCOMPACT}
"""Layer by kind of note."""
SIDE_LAYERS = {
    "keep_warm": KEEP_WARM,
    "memdir_relevance": RECALL,
    "session_memory": NOTES,
    "notes_and_memories": NOTES,
    "extract_memories": EXTRACT,
    "compact": COMPACT,
}
"""Layer by purpose of a background request."""
WARM_SHARE = 0.5
"""A request that reads less than this share of the previous one found its cache cold."""
_BOOKED = (b'"usage"', b'"nacre"', b"content-replacement", b"compact_boundary", b"isCompactSummary")
"""Marks of lines that matter; all others, most of a log's bytes, are not parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What one layer did."""

    times: int = 0
    """How often it acted."""
    tokens: int = 0
    """Tokens kept out, cleared, summarised, kept warm or used by its requests; the last two are exact."""
    spent_usd: float = 0.0
    saved_usd: float = 0.0
    unpriced: int = 0
    """Relevant requests without a known price."""
    models: tuple[str, ...] = ()
    """Models other than the conversation's that its requests went to."""

    @property
    def has_price(self) -> bool:
        """Whether the amounts are meaningful; for models without a price only the tokens are."""
        return not self.unpriced or bool(self.spent_usd or self.saved_usd)


Savings = Mapping[str, Account]


def savings(records: Iterable[Record], *, ratio: float = 1.0) -> Savings:
    """Return an account for every layer; `ratio` corrects estimated tokens by the session's own counts (C2).

    Let w be the price of a token that is not read from the cache, and r the price of one that is.

    offload: X tokens were left out before they were first sent. Without it the next request pays X·w, and
    every later one X·r, or X·w if the cache was cold, until a compaction or an undo. The size of the pointer
    is deducted from X.

    microcompact: X tokens were cleared. After a pause the next request would have paid X·w for them, and
    later ones as above. With a warm cache it would have paid X·r, and what follows them was written again:
    the drop in tokens read from the cache, times (w - r), is what the clear spent.

    keep_warm: spent is the cost of its requests. Where a pause was longer than the cache lives and the next
    request still found it warm, what it read would have been written again: read tokens times (w - r).

    notes, extract, recall: the cost of their requests; savings are not in the log. A request for notes and
    memories together counts as one of the notes.

    compact: the cost of summaries and the tokens removed from view; savings cannot be estimated, because the
    conversation would not have fitted without it.
    """
    savings = _SavingsCounter(ratio)
    for record in records:
        savings.take(record)
    return savings.accounts


def booked(path: Path) -> list[Record]:
    """Yield the records of a log that matter for savings and meter, without opening the session (C32)."""
    reader = SlimReader(session_id=path.stem)
    for line in read_lines(path):
        if any(mark in line for mark in _BOOKED):
            reader.line(line)
    # A reply written by a program was never requested from a model.
    return [one for one in reader.records if not (isinstance(one, Said) and one.aside == "display")]


@dataclass(slots=True)
class _Carried:
    """Tokens that requests would contain without a layer."""

    layer: str
    tokens: int
    is_cold: bool = True
    """Without the layer the next request would have paid the full price for them."""


@dataclass(slots=True)
class _SavingsCounter:
    """Follows the requests of a session."""

    ratio: float
    accounts: dict[str, Account] = field(default_factory=lambda: {name: Account() for name in LAYERS})
    carried: dict[str, _Carried] = field(default_factory=dict)
    """By id of the record that caused it; undoing that record ends it."""
    rewritten: str = ""
    """The rewrite that the next note of a clear refers to."""
    freed: dict[str, int] = field(default_factory=dict)
    """Tokens that a compaction removed from view, by its id."""
    has_refreshed: bool = False
    cut: int = 0
    """Tokens removed from a warm prefix since the last request."""
    reply: str = ""
    prompt: int = 0
    """Prompt tokens of the last request."""
    model: str = ""
    """Model of the last request."""
    at: datetime | None = None
    is_for_an_hour: bool = False
    """Whether everything written last has a cache TTL of one hour."""

    def take(self, record: Record) -> None:
        match record:
            case Said(aside=None, reply=facts) if facts and facts.usage:
                is_same = facts.id is not None and facts.id == self.reply
                self.reply = facts.id or ""
                if not is_same:  # a reply may be split over several records
                    self._request(facts.usage, facts.model or "", record.at)
            case Replaced(reason="clear"):
                self.rewritten = record.id
            case Noted(kind=kind) if kind in _LAYER_OF:
                layer = _LAYER_OF[kind]
                tokens = round(kept_out(record) * self.ratio)
                self._add(layer, times=1, tokens=tokens)
                stands_for = record.id
                is_cold = True
                if layer == MICROCOMPACT:
                    stands_for = self.rewritten or record.id
                    self.rewritten = ""
                    is_cold = record.fact("reason") == "idle"
                    self.cut += 0 if is_cold else tokens
                self.carried[stands_for] = _Carried(layer, tokens, is_cold)
            case Noted(kind=kind) if kind == SIDE_QUERY:
                self._asked_aside(record)
            case Compacted():
                self.carried.clear()
                self.prompt = 0
                # Account for a compaction of ours; a collapsed span is none.
                if record.kind != "span" and record.post_tokens is not None:
                    self.freed[record.id] = max(0, (record.pre_tokens or 0) - record.post_tokens)
                    self._add(COMPACT, times=1, tokens=self.freed[record.id])
            case Undone(target=target):
                self.carried.pop(target, None)
                self._add(COMPACT, tokens=-self.freed.pop(target, 0))
            case _:
                pass

    def _asked_aside(self, note: Noted) -> None:
        layer = SIDE_LAYERS.get(str(note.fact("purpose")))
        if layer is None:
            return
        usage = Usage.of_json(note.fact("usage"))
        model = str(note.fact("model"))
        spent = cost(profile(model), usage)
        old = self.accounts[layer]
        if self.model and model not in {self.model, *old.models}:
            self.accounts[layer] = replace(old, models=(*old.models, model))
        tokens = usage.prompt if layer == KEEP_WARM else usage.total
        times = int(note.fact("request") in (None, 1))  # a fork may make several
        if layer == COMPACT:
            times = tokens = 0  # counted by what was installed: a summary may be asked for in vain
        self._add(layer, times=times, tokens=tokens, spent=spent or 0.0, unpriced=int(spent is None))
        self.has_refreshed = self.has_refreshed or layer == KEEP_WARM

    def _request(self, usage: Usage, model: str, at: datetime) -> None:
        rules = profile(model)
        tier = rules.tier(usage.prompt)
        is_late = self._is_late(rules, at)
        if is_late and not self.has_refreshed:
            self.cut = 0  # nothing was warm any more that a cut could have lost
        if tier is None:
            for layer in {one.layer for one in self.carried.values()}:
                self._add(layer, unpriced=1)
        else:
            is_warm = self.cut > 0 or usage.cache_read > WARM_SHARE * self.prompt > 0
            self._carry(usage, tier, is_warm=is_warm)
            if is_warm and is_late and self.has_refreshed:
                saved = usage.cache_read * (_written(tier, usage) - tier.read) / PER_MILLION
                self._add(KEEP_WARM, saved=saved)
        for one in self.carried.values():
            one.is_cold = False
        self.has_refreshed = False
        self.cut = 0
        self.prompt = usage.prompt
        self.model = model
        self.at = at
        if usage.cache_write:
            self.is_for_an_hour = usage.cache_write_1h == usage.cache_write

    def _carry(self, usage: Usage, tier: PriceTier, *, is_warm: bool) -> None:
        """Add what this request would have paid for absent tokens, and what a cut made it write again."""
        full = _written(tier, usage)
        saved: dict[str, float] = {}
        for one in self.carried.values():
            price = full if one.is_cold or not is_warm else tier.read
            saved[one.layer] = saved.get(one.layer, 0.0) + one.tokens * price / PER_MILLION
        for layer, usd in saved.items():
            self._add(layer, saved=usd)
        if self.cut:
            again = max(0, self.prompt - self.cut - usage.cache_read)
            self._add(MICROCOMPACT, spent=again * (full - tier.read) / PER_MILLION)

    def _is_late(self, rules: ModelProfile, at: datetime) -> bool:
        """Whether the pause was longer than the cache TTL."""
        lifetime = HOUR if self.is_for_an_hour else rules.ttl_seconds or FIVE_MINUTES
        return self.at is not None and (at - self.at).total_seconds() > lifetime

    def _add(
        self,
        layer: str,
        *,
        times: int = 0,
        tokens: int = 0,
        spent: float = 0.0,
        saved: float = 0.0,
        unpriced: int = 0,
    ) -> None:
        old = self.accounts[layer]
        self.accounts[layer] = replace(
            old,
            times=old.times + times,
            tokens=old.tokens + tokens,
            spent_usd=old.spent_usd + spent,
            saved_usd=old.saved_usd + saved,
            unpriced=old.unpriced + unpriced,
        )


def _written(tier: PriceTier, usage: Usage) -> float:
    """Return the price per million of tokens that this request did not read from the cache."""
    if not usage.cache_write:
        return tier.input
    hour = usage.cache_write_1h / usage.cache_write
    return hour * tier.write_1h + (1 - hour) * tier.write_5m
