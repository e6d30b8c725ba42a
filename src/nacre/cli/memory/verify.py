"""`nacre memory verify`: check what memories name against the working tree (M20, R12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import json_option, read_only, run, scope_option
from nacre.cli.options import RunOptions
from nacre.cli.output import print_error, print_json, print_table, printable
from nacre.cli.progress import progress_line
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.format.entry import Entry
    from nacre.memory.recall.base import Drift

VERIFY_SECONDS = 60.0
"""Time limit: longer than during a turn, so that a large repository can be read."""


@click.command(short_help="Check what the memories name against the working tree.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@scope_option
@json_option
@click.pass_obj
def verify(options: RunOptions, /, names: tuple[str, ...], *, scope: str, as_json: bool) -> int:
    """Check the paths, functions, flags and commands that memories name; exit code 1 if some are gone.

    Without a NAME, all memories are checked. The tree is the checkout around the working directory.
    """
    from pathlib import Path

    from nacre.memory.files.roots import checkout_root
    from nacre.memory.recall.drift.check import check_each
    from nacre.memory.recall.drift.words import WordCache

    opened = run(read_only(options, scope))
    if names:
        # Two names may refer to one memory.
        entries = list({one.file: one for one in (run(opened.find(name)) for name in names)}.values())
    else:
        entries = run(opened.list())
    root = checkout_root(Path.cwd())
    with progress_line(f"looking through {root}") as told:
        texts = ["\n\n".join((one.description, one.body)) for one in entries]
        drifts = check_each(texts, root, budget_seconds=VERIFY_SECONDS, on_progress=told)
        if opened.location.history.exists():
            WordCache(opened.location.cache, root).update()  # so that turns can look in time, too
    if as_json:
        print_json({"root": str(root), "memories": [*map(_row, entries, drifts)]})
    else:
        _print_gone(entries, drifts)
    return 1 if any(drift.gone for drift in drifts) else 0


def _row(entry: Entry, drift: Drift) -> JsonObject:
    references: list[JsonObject] = [
        {"kind": one.kind, "text": one.text, "exists": one.exists} for one in drift.references
    ]
    return {
        "file": entry.file,
        "gone": len(drift.gone),
        "broken": drift.is_broken,
        "references": [*references],
    }


def _print_gone(entries: Sequence[Entry], drifts: Sequence[Drift]) -> None:
    rows = [
        [entry.file if first else "", one.kind, one.text]
        for entry, drift in zip(entries, drifts, strict=True)
        for first, one in zip([True] + [False] * len(drift.gone), drift.gone, strict=False)
    ]
    print_table(rows, header=["file", "gone", ""] if rows else ())
    everything = [one for drift in drifts for one in drift.references]
    stale = sum(bool(drift.gone) for drift in drifts)
    unseen = sum(one.exists is None for one in everything)
    if rows:
        print()
        print(f"{_count(stale, 'memory')} of {len(drifts):,}: {_count(len(rows), 'reference')} gone")
    else:
        print(f"{_count(len(drifts), 'memory')}, {_count(len(everything), 'reference')}, none missing")
    for drift, entry in zip(drifts, entries, strict=True):
        if drift.is_broken:
            print(printable(f"nothing that {entry.file} names is left; `nacre memory forget {entry.file}`?"))
    if unseen:
        print_error(f"{_count(unseen, 'reference')} could not be checked within {VERIFY_SECONDS:.0f} s")


def _count(number: int, word: str) -> str:
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"
