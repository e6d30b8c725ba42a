"""`nacre recall`: show what a message would get from memory, and why (R10)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import json_option, run
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import human_count, print_json, printable
from nacre.memory.recall.recall import has_enough_words
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.recall.base import AttachedMemory, Drift, LeftOut, Recalled, Reference


@click.command(short_help="Show which memories a message would get, and why.")
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Show at most N memories and N omitted ones.",
)
@json_option
@click.pass_obj
def recall(options: RunOptions, /, query: tuple[str, ...], *, limit: int | None, as_json: bool) -> None:
    """Show which memories QUERY would get in a new conversation, and why the others would not.

    Nothing is sent and nothing is attached; no memory is a valid answer.
    """
    from nacre.app.recall_once import recall_once

    recalled = run(recall_once(load_settings(options), " ".join(query)))
    if as_json:
        print_json(recalled_json(recalled, limit=limit))
    else:
        print("\n".join(recalled_lines(recalled, limit=limit)))


SHOWN_LEFT_OUT = 10
"""Omitted memories named in text output; `--json` has all."""
SHOWN_REFERENCES = 5
"""References of a memory that are listed."""
QUERY_CHARS = 60
"""Characters of the query in the heading."""
DECIMALS = 4
"""Decimals of a score."""


def recalled_json(recalled: Recalled, *, limit: int | None = None) -> JsonObject:
    """Return the result in its stable JSON form; fields may be added."""
    return {
        "query": recalled.query,
        "picks": [_pick_json(one) for one in recalled.picks[:limit]],
        "left_out": [
            {"file": one.file, "why": one.why, "score": _number(one.score)}
            for one in recalled.left_out[:limit]
        ],
        "took_ms": _number(recalled.took_ms),
        "skipped": recalled.skipped,
        "problem": recalled.problem,
    }


def recalled_lines(recalled: Recalled, *, limit: int | None = None) -> list[str]:
    """Return the result as text: the memories with reasons for and against, then the omitted ones."""
    lines = [_headline(recalled)]
    if recalled.picks and not has_enough_words(recalled.query):
        lines.append("  (sent as a message, one word alone gets none: it says too little)")
    for one in recalled.picks[:limit]:
        lines += _pick_lines(one)
    if recalled.problem:
        lines.append(f"problem: {recalled.problem}")
    lines += _left_lines(recalled.left_out, SHOWN_LEFT_OUT if limit is None else limit)
    if not recalled.skipped:
        lines.append(f"took {recalled.took_ms:.1f} ms")
    return [printable(line) for line in lines]


def _headline(recalled: Recalled) -> str:
    flat = " ".join(recalled.query.split())
    query = flat if len(flat) <= QUERY_CHARS else flat[: QUERY_CHARS - 1] + "…"
    if recalled.skipped:
        return f"nothing was looked for: {recalled.skipped}"
    if not recalled.picks:
        return f"no memory is relevant enough for: {query}"
    count = len(recalled.picks)
    return f"{count} {'memory' if count == 1 else 'memories'} for: {query}"


def _pick_lines(one: AttachedMemory) -> list[str]:
    ranked = one.ranked
    age = ("today", "yesterday")[one.age_days] if one.age_days in {0, 1} else f"{one.age_days:,} days old"
    score = f"score {ranked.score:.2f}{_parts(ranked.parts)}"
    facts = (score, f"{ranked.confidence:.0%} sure", age, f"{human_count(one.bytes)} bytes")
    lines = [f"  {ranked.entry.file}  {', '.join(facts)}"]
    if ranked.superseded_by:
        lines.append(f"    a newer one speaks of this, too: {ranked.superseded_by}")
    return lines + [f"    {line}" for line in _drift_lines(one.drift)]


def _parts(parts: Mapping[str, float]) -> str:
    told = ", ".join(f"{name} {value:.2f}" for name, value in parts.items() if value)
    return f" ({told})" if told else ""


def _drift_lines(drift: Drift | None) -> list[str]:
    if drift is None or not drift.references:
        return []
    here = [one for one in drift.references if one.exists]
    unknown = [one for one in drift.references if one.exists is None]
    told = (("gone", drift.gone), ("still there", here), ("not looked up", unknown))
    return [f"{word}: {_names(found)}" for word, found in told if found]


def _names(found: tuple[Reference, ...] | list[Reference]) -> str:
    more = len(found) - SHOWN_REFERENCES
    return ", ".join([one.text for one in found[:SHOWN_REFERENCES]] + [f"{more:,} more"] * (more > 0))


def _left_lines(left_out: tuple[LeftOut, ...], most: int) -> list[str]:
    if not left_out:
        return []
    more = len(left_out) - most
    lines = [f"  {one.file}  {one.why}, score {one.score:.2f}" for one in left_out[:most]]
    return ["left out:", *lines, *[f"  and {more:,} more; --json lists them"] * (more > 0)]


def _pick_json(one: AttachedMemory) -> JsonObject:
    ranked = one.ranked
    return {
        "file": ranked.entry.file,
        "score": _number(ranked.score),
        "parts": {name: _number(value) for name, value in ranked.parts.items()},
        "age_days": one.age_days,
        "bytes": one.bytes,
        "drift": None if one.drift is None else _drift_json(one.drift),
        "confidence": _number(ranked.confidence),
        "superseded_by": ranked.superseded_by or None,
        "name": ranked.entry.title,
        "path": str(ranked.path),
    }


def _drift_json(drift: Drift) -> JsonObject:
    return {
        "broken": drift.is_broken,
        "gone": [one.text for one in drift.gone],
        "references": [
            {"kind": one.kind, "text": one.text, "exists": one.exists} for one in drift.references
        ],
    }


def _number(value: float) -> float:
    """JSON has neither infinity nor NaN."""
    return round(value, DECIMALS) if math.isfinite(value) else 0.0
