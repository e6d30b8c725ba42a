"""`nacre recall`: show what a message would get from memory, and why (R10)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import everywhere_option, json_option, run
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import human_count, print_json, printable
from nacre.formatting import shorten
from nacre.inspect.memory_json import NO_PROJECTS, project_of, recalled_json
from nacre.memory.recall.recall import has_enough_words

if TYPE_CHECKING:
    from nacre.memory.recall.base import AttachedMemory, Recalled


@click.command(short_help="Show which memories a message would get, and why.")
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Show at most N memories and N omitted ones.",
)
@everywhere_option
@json_option
@click.pass_obj
def recall(
    options: RunOptions, /, query: tuple[str, ...], *, limit: int | None, everywhere: bool, as_json: bool
) -> None:
    """Show which memories QUERY would get in a new conversation, and why the others would not.

    Nothing is sent and nothing is attached; no memory is a valid answer.
    """
    from nacre.app.memory_locations import all_places
    from nacre.app.recall_once import recall_once

    settings = load_settings(options)
    places = all_places(settings) if everywhere else None
    recalled = run(recall_once(settings, " ".join(query), places=places))
    projects = {place.directory: name for place, name in (places or {}).items()}
    if as_json:
        print_json(recalled_json(recalled, limit=limit, projects=projects))
    else:
        print("\n".join(recalled_lines(recalled, limit=limit, projects=projects)))


SHOWN_LEFT_OUT = 10
"""Omitted memories named in text output; `--json` has all."""
SHOWN_REFERENCES = 5
"""References of a memory that are listed."""
QUERY_CHARS = 60
"""Characters of the query in the heading."""


def recalled_lines(
    recalled: Recalled, *, limit: int | None = None, projects: Mapping[Path, str] = NO_PROJECTS
) -> list[str]:
    """Return the result as text: the memories with reasons for and against, then the omitted ones."""
    query = shorten(recalled.query, QUERY_CHARS)
    count = len(recalled.picks)
    if recalled.skipped:
        lines = [f"nothing was looked for: {recalled.skipped}"]
    elif count:
        lines = [f"{count} {'memory' if count == 1 else 'memories'} for: {query}"]
    else:
        lines = [f"no memory is relevant enough for: {query}"]
    if count and not has_enough_words(recalled.query):
        lines.append("  (sent as a message, one word alone gets none: it says too little)")
    for one in recalled.picks[:limit]:
        lines += _pick_lines(one)
        if projects:
            lines.append(f"    in {projects[one.ranked.directory]}")
    if recalled.problem:
        lines.append(f"problem: {recalled.problem}")
    if recalled.left_out:
        most = SHOWN_LEFT_OUT if limit is None else limit
        more = len(recalled.left_out) - most
        lines.append("left out:")
        for each in recalled.left_out[:most]:
            place = f", in {project_of(each, projects)}" if projects else ""
            lines.append(f"  {each.file}  {each.why}, score {each.score:.2f}{place}")
        lines += [f"  and {more:,} more; --json lists them"] * (more > 0)
    if not recalled.skipped:
        lines.append(f"took {recalled.took_ms:.1f} ms")
    return [printable(line) for line in lines]


def _pick_lines(one: AttachedMemory) -> list[str]:
    ranked = one.ranked
    age = ("today", "yesterday")[one.age_days] if one.age_days in {0, 1} else f"{one.age_days:,} days old"
    parts = ", ".join(f"{name} {value:.2f}" for name, value in ranked.parts.items() if value)
    score = f"score {ranked.score:.2f}" + f" ({parts})" * bool(parts)
    facts = (score, f"{ranked.confidence:.0%} sure", age, f"{human_count(one.bytes)} bytes")
    lines = [f"  {ranked.entry.file}  {', '.join(facts)}"]
    if ranked.superseded_by:
        lines.append(f"    a newer one speaks of this, too: {ranked.superseded_by}")
    references = one.drift.references if one.drift else ()
    for word, exists in (("gone", False), ("still there", True), ("not looked up", None)):
        found = [each.text for each in references if each.exists is exists]
        more = len(found) - SHOWN_REFERENCES
        if found:
            names = ", ".join(found[:SHOWN_REFERENCES] + [f"{more:,} more"] * (more > 0))
            lines.append(f"    {word}: {names}")
    return lines
