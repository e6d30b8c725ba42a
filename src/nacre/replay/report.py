"""What a replay found, as JSON for programs and as rows and sentences for people (P7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from nacre.cache.rules import profile
from nacre.messages.blocks import JsonObject
from nacre.replay.recorded import PACE
from nacre.replay.run import Terms
from nacre.replay.schema import Recorded, Tally

COLUMNS = (
    "policy", "cost", "change", "cached", "requests", "peak", "compacted", "too large", "pairs", "edits",
    "names", "fetched again",
)  # fmt: skip
THOUSAND = 1_000


def as_json(sums: Mapping[str, Tally], sessions: Sequence[Recorded], terms: Terms) -> JsonObject:
    """One document; money is null where the model's price is not known."""
    errors = [one.error for one in sessions if one.error is not None]
    return {
        "sessions": len(sessions),
        "window": terms.window,
        "model": terms.model,
        "with_base": terms.with_base,
        "estimate_error": round(median(errors), 4) if errors else None,
        "policies": [policy_json(name, tally, terms) for name, tally in sums.items()],
    }


def policy_json(name: str, tally: Tally, terms: Terms) -> JsonObject:
    """One policy's figures; `cost_usd` holds `refetch_usd` and `side_usd`."""
    used, usage = tally.used, tally.usage
    has_price = is_priced(terms.model)
    return {
        "policy": name,
        "requests": tally.requests,
        "input_tokens": usage.input,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "output_tokens": usage.output,
        "cost_usd": round(tally.cost_usd, 4) if has_price else None,
        "hit_rate": round(usage.hit_rate, 4) if usage.prompt else None,
        "peak_tokens": tally.peak_tokens,
        "overflow": tally.overflow,
        "compactions": tally.compactions,
        "prefix_breaks": tally.prefix_breaks,
        "unannounced_breaks": tally.unannounced,
        "invalid_requests": tally.invalid,
        "retention_pairs": share(used.pairs_kept, used.pairs),
        "retention_edits": share(used.edits_kept, used.edits),
        "retention_identifiers": share(used.identifiers_kept, used.identifiers),
        "retention_old_identifiers": share(used.old_kept, used.old),
        "pairs_per_1000_tokens": per_thousand(used.pairs_kept, tally.view_tokens),
        "refetches": tally.refetches,
        "refetch_usd": round(tally.refetch_usd, 4) if has_price else None,
        "side_usd": round(tally.side_usd, 4) if has_price else None,
        "cpu_ms_p50": _milliseconds(tally.cpu_seconds, 0.50),
        "cpu_ms_p99": _milliseconds(tally.cpu_seconds, 0.99),
    }


def rows(sums: Mapping[str, Tally], terms: Terms) -> list[list[str]]:
    """The table for people, one row a policy; the change is against the first."""
    first = next(iter(sums.values()))
    return [[name, *_cells(tally, first, terms)] for name, tally in sums.items()]


def _cells(tally: Tally, first: Tally, terms: Terms) -> list[str]:
    used, has_price = tally.used, is_priced(terms.model)
    change = tally.cost_usd / first.cost_usd - 1 if first.cost_usd else 0.0
    return [
        f"${tally.cost_usd:,.2f}" if has_price else "-",
        f"{change:+.1%}" if has_price and tally is not first else "-",
        f"{tally.usage.hit_rate:.1%}",
        f"{tally.requests:,}",
        f"{tally.peak_tokens:,}",
        _count(tally.compactions),
        _count(tally.overflow),
        _percent(used.pairs_kept, used.pairs),
        _percent(used.edits_kept, used.edits),
        _percent(used.identifiers_kept, used.identifiers),
        f"${tally.refetch_usd:,.2f}" if has_price else _count(tally.refetches),
    ]


def sentences(sums: Mapping[str, Tally], sessions: Sequence[Recorded], terms: Terms) -> list[str]:
    """What the table means, and what its figures rest on."""
    return [*_verdict(sums, terms), *_grounds(sessions, terms)]


def _verdict(sums: Mapping[str, Tally], terms: Terms) -> list[str]:
    names = list(sums)
    if not is_priced(terms.model):
        return [f"The price of {terms.model} is not known: only tokens are compared; name another --model."]
    if len(names) == 1:
        return []
    before, after = sums[names[0]], sums[names[-1]]
    change = f" ({after.cost_usd / before.cost_usd - 1:+.1%})" if before.cost_usd else ""
    lines = [
        f"You would have paid ${before.cost_usd:,.2f} with {names[0]!r}; ${after.cost_usd:,.2f}{change} with "
        f"{names[-1]!r}."
    ]
    if after.used.pairs:
        kept = _percent(after.used.pairs_kept, after.used.pairs)
        lines.append(f"Of the pairs of names that later steps used, {names[-1]!r} still had {kept} in view.")
    if before.overflow:
        lines.append(f"{before.overflow:,} requests of {names[0]!r} would not have fitted the window.")
    return lines


def _grounds(sessions: Sequence[Recorded], terms: Terms) -> list[str]:
    errors = [one.error for one in sessions if one.error is not None]
    figured = [one for one in sessions if one.base_tokens]
    lines = []
    if not terms.with_base:
        lines.append("What stood before the first message (system prompt and tools) is left out.")
    elif figured:
        base = round(median(one.base_tokens for one in figured))
        lines.append(f"System prompt and tools count as recorded: {base:,} tokens in the median session.")
    if errors:
        lines.append(f"Token counts are estimates, off by {median(errors):.1%} in the median session.")
    else:
        lines.append("The recordings hold no usage, so that token counts are bare estimates by size.")
    timeless = sum(not one.has_times for one in sessions)
    if timeless:
        which = "1 recording holds" if timeless == 1 else f"{timeless:,} recordings hold"
        pace = PACE.total_seconds()
        lines.append(f"{which} no times; a request every {pace:g} seconds is assumed, and no pauses.")
    return lines


def is_priced(model: str) -> bool:
    return bool(profile(model).prices)


def share(kept: int, of: int) -> float | None:
    """None where nothing could have been kept."""
    return round(kept / of, 4) if of else None


def per_thousand(kept: int, tokens: int) -> float | None:
    """Of the view, all requests together: what each thousand tokens sent were good for."""
    return round(kept * THOUSAND / tokens, 4) if tokens else None


def _percent(kept: int, of: int) -> str:
    return f"{kept / of:.1%}" if of else "-"


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def _milliseconds(seconds: Sequence[float], quantile: float) -> float | None:
    ordered = sorted(seconds)
    return (
        round(ordered[min(len(ordered) - 1, int(len(ordered) * quantile))] * THOUSAND, 3) if ordered else None
    )
