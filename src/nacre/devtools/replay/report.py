"""Results of a replay, as JSON for programs and as rows and sentences for people (P7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from nacre.cache.models import profile
from nacre.devtools.replay.recorded import PACE
from nacre.devtools.replay.run import ReplayTerms
from nacre.devtools.replay.schema import PolicyTotals, Recorded
from nacre.messages.blocks import JsonObject

COLUMNS = ("policy", "cost", "change", "cached", "requests", "peak", "compacted", "too large")
"""Costs of a policy; fits a terminal of 80 characters."""
KEPT_COLUMNS = ("still in view", "pairs", "edits", "names", "fetched again", "for")
"""How much of what later steps used was in view."""
THOUSAND = 1_000
NO_DIFFERENCE = 0.0005
"""A change of cost by a smaller share would be shown as 0.0 %."""


def as_json(sums: Mapping[str, PolicyTotals], sessions: Sequence[Recorded], terms: ReplayTerms) -> JsonObject:
    """Return one document; money is null if the model's price is unknown."""
    errors = [one.error for one in sessions if one.error is not None]
    return {
        "sessions": len(sessions),
        "window": terms.window,
        "model": terms.model,
        "with_base": terms.with_base,
        "estimate_error": round(median(errors), 4) if errors else None,
        "policies": [policy_json(name, tally, terms) for name, tally in sums.items()],
    }


def policy_json(name: str, tally: PolicyTotals, terms: ReplayTerms) -> JsonObject:
    """Return one policy's figures; `cost_usd` includes `refetch_usd` and `side_usd`, `requests` their
    requests.

    `usable_…` is what was kept in requests that fit: others are refused, and show the model nothing.
    """
    used = tally.used
    gone = tally.refused
    usage = tally.usage
    has_price = is_priced(terms.model)
    return {
        "policy": name,
        "requests": tally.requests,
        "input_tokens": usage.input,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "output_tokens": usage.output,
        "cost_usd": round(tally.cost_usd, 4) if has_price else None,
        "input_usd": round(tally.input_usd, 4) if has_price else None,
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
        "usable_pairs": share(used.pairs_kept - gone.pairs_kept, used.pairs),
        "usable_edits": share(used.edits_kept - gone.edits_kept, used.edits),
        "pairs_per_1000_tokens": share(used.pairs_kept * THOUSAND, tally.view_tokens),
        "refetches": tally.refetches,
        "refetch_usd": round(tally.refetch_usd, 4) if has_price else None,
        "side_requests": tally.sides,
        "side_usd": round(tally.side_usd, 4) if has_price else None,
        "cpu_ms_p50": _milliseconds(tally.cpu_seconds, 0.50),
        "cpu_ms_p99": _milliseconds(tally.cpu_seconds, 0.99),
    }


def rows(sums: Mapping[str, PolicyTotals], terms: ReplayTerms) -> list[list[str]]:
    """Return the costs, one row per policy; the change of the input side is relative to the first."""
    first = next(iter(sums.values()))
    has_price = is_priced(terms.model)
    before = first.input_usd if has_price else first.usage.prompt
    found: list[list[str]] = []
    for name, tally in sums.items():
        sent = tally.input_usd if has_price else tally.usage.prompt
        found.append(
            [
                name,
                f"${tally.cost_usd:,.2f}" if has_price else f"{sent:,}",
                f"{sent / before - 1:+.1%}" if before and tally is not first else "-",
                f"{tally.usage.hit_rate:.1%}" if profile(terms.model).cache != "none" else "-",
                f"{tally.requests:,}",
                f"{tally.peak_tokens:,}",
                _count(tally.compactions),
                _count(tally.overflow),
            ]
        )
    return found


def columns(terms: ReplayTerms) -> Sequence[str]:
    """Return the header of the rows: without a price, tokens replace the money."""
    return COLUMNS if is_priced(terms.model) else (COLUMNS[0], "sent", *COLUMNS[2:])


def kept_rows(sums: Mapping[str, PolicyTotals], terms: ReplayTerms) -> list[list[str]]:
    """Return what each policy kept in view of what was used later, and the cost to fetch the rest again."""
    return [
        [
            name,
            _percent(tally.used.pairs_kept, tally.used.pairs),
            _percent(tally.used.edits_kept, tally.used.edits),
            _percent(tally.used.identifiers_kept, tally.used.identifiers),
            _count(tally.refetches),
            f"${tally.refetch_usd:,.2f}" if tally.refetches and is_priced(terms.model) else "-",
        ]
        for name, tally in sums.items()
    ]


def what_if_columns(terms: ReplayTerms) -> Sequence[str]:
    """Return the header of `what_if_rows`."""
    spent = "input side" if is_priced(terms.model) else "sent"
    return ("setting", spent, "change", "pairs", "edits", "too large")


def what_if_rows(sums: Mapping[str, PolicyTotals], terms: ReplayTerms) -> list[list[str]]:
    """Return a row for the settings as they are, then one for each change with an effect, cheapest first."""
    has_price = is_priced(terms.model)
    spent = _spent(sums, terms)
    now = next(iter(sums))
    others = [name for name in sums if name != now and name not in unchanged(sums, terms)]
    return [
        [
            name,
            f"${spent[name]:,.2f}" if has_price else f"{spent[name]:,.0f}",
            f"{spent[name] / spent[now] - 1:+.1%}" if spent[now] and name != now else "-",
            _percent(sums[name].used.pairs_kept, sums[name].used.pairs),
            _percent(sums[name].used.edits_kept, sums[name].used.edits),
            _count(sums[name].overflow),
        ]
        for name in (now, *sorted(others, key=spent.__getitem__))
    ]


def unchanged(sums: Mapping[str, PolicyTotals], terms: ReplayTerms) -> list[str]:
    """Return the changes that make no difference to the cost and to what stays in view."""
    spent = _spent(sums, terms)
    now = next(iter(sums))
    return [
        name
        for name, one in sums.items()
        if name != now
        and one.used == sums[now].used
        and abs(spent[name] - spent[now]) <= NO_DIFFERENCE * spent[now]
    ]


def _spent(sums: Mapping[str, PolicyTotals], terms: ReplayTerms) -> dict[str, float]:
    if is_priced(terms.model):
        return {name: one.input_usd for name, one in sums.items()}
    return {name: float(one.usage.prompt) for name, one in sums.items()}


def what_if_sentences(sums: Mapping[str, PolicyTotals], terms: ReplayTerms) -> list[str]:
    """Return what the rows contain, and which changes have no row."""
    first = next(iter(sums.values()))
    lines = []
    if without := unchanged(sums, terms):
        lines.append(f"No difference: {', '.join(without)}.")
    lines.append(
        "The input side is prompts, side requests and hidden text that was fetched again. Pairs and edits "
        "are the share of what later steps used that was still in view."
    )
    if is_priced(terms.model):
        lines.append(f"The replies cost ${first.reply_usd:,.2f} in any case.")
    return lines


def sentences(
    sums: Mapping[str, PolicyTotals], sessions: Sequence[Recorded], terms: ReplayTerms
) -> list[str]:
    """Return what the tables mean, and the basis of their figures."""
    lines = _verdict(sums, terms)
    for name, tally in sums.items():
        if tally.overflow:
            # The provider refuses requests that do not fit; their price is hypothetical.
            requests = f"{tally.overflow:,} request{'s' * (tally.overflow != 1)}"
            usable = _percent(tally.used.pairs_kept - tally.refused.pairs_kept, tally.used.pairs)
            lines.append(
                f"{requests} of {name!r} would not have fitted the window: what it says is for a\n"
                f"window without an end. Without them it kept {usable} of the pairs."
            )
    return [*lines, *_grounds(sessions, terms)]


def _verdict(sums: Mapping[str, PolicyTotals], terms: ReplayTerms) -> list[str]:
    names = list(sums)
    if not is_priced(terms.model):
        return [f"The price of {terms.model} is not known: only tokens are compared; name another --model."]
    if len(names) == 1:
        return []
    before = sums[names[0]]
    after = sums[names[-1]]
    lines = [
        f"You would have paid ${before.cost_usd:,.2f} with {names[0]!r}; ${after.cost_usd:,.2f} with "
        f"{names[-1]!r}."
    ]
    if before.input_usd:
        lines.append(
            f"Without the replies, which cost ${before.reply_usd:,.2f} in any case, that is "
            f"{after.input_usd / before.input_usd - 1:+.1%}."
        )
    if beside := after.side_usd + after.refetch_usd:
        lines.append(
            f"Of that, ${beside:,.2f} went into {after.sides + after.refetches:,} requests beside the "
            "conversation:\nnotes, memories, summaries, cache refreshes, and hidden text fetched again."
        )
    if after.used.pairs:
        kept = _percent(after.used.pairs_kept, after.used.pairs)
        lines.append(f"Of the pairs of names that later steps used, {names[-1]!r} still had {kept} in view.")
    return lines


def _grounds(sessions: Sequence[Recorded], terms: ReplayTerms) -> list[str]:
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
    if lost := sum(one.lost_results for one in sessions):
        which = "1 result is" if lost == 1 else f"{lost:,} results are"
        lines.append(f"{which} no longer on disk; only how they began is counted.")
    timeless = sum(not one.has_times for one in sessions)
    if timeless:
        which = "1 recording holds" if timeless == 1 else f"{timeless:,} recordings hold"
        pace = PACE.total_seconds()
        lines.append(f"{which} no times; a request every {pace:g} seconds is assumed, and no pauses.")
    return lines


def is_priced(model: str) -> bool:
    return bool(profile(model).prices)


def share(kept: int, of: int) -> float | None:
    """Return the share; None if nothing could have been kept."""
    return round(kept / of, 4) if of else None


def _percent(kept: int, of: int) -> str:
    return f"{kept / of:.1%}" if of else "-"


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def _milliseconds(seconds: Sequence[float], quantile: float) -> float | None:
    ordered = sorted(seconds)
    return (
        round(ordered[min(len(ordered) - 1, int(len(ordered) * quantile))] * THOUSAND, 3) if ordered else None
    )
