"""Writes docs/why/leaderboard.md from bench/public/results; `make docs` runs it, and a test compares."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "why" / "leaderboard.md"
RESULTS = ROOT / "bench" / "public" / "results"
Figures = dict[str, Any]
HEAD = """\
# Leaderboard

`make docs` generates this page from the files in `bench/public/results`. [What is measured, and its
limits](public-benchmark.md). Programs that are not in a table cannot do its task without a language model, or
not at all. Each table is sorted by its first figure. F1 is the harmonic mean of how much of what is needed is
found and how much of what is found is right.
"""
TABLES: tuple[tuple[str, str, bool, Sequence[tuple[str, Callable[[Figures], str]]]], ...] = (
    (
        "Everyday recall", "recall", True,
        (
            ("F1", lambda one: f"{_recall_f1(one):.2f}"),
            ("of attached, helpful", lambda one: f"{one['precision']:.0%}"),
            ("attached in vain", lambda one: f"{one['in_vain']:.0%}"),
            ("needed one attached", lambda one: f"{one['attached']:.0%}"),
            ("English, Chinese", lambda one: f"{one['attached_en']:.0%}, {one['attached_zh']:.0%}"),
            ("direct, in other text", lambda one: f"{one['wrapped']:.0%}"),
            ("outdated first", lambda one: f"{one['stale_first']} of {one['stale_pairs']}"),
            ("saves refused", lambda one: str(one["saves_refused"])),
        ),
    ),
    (
        "Everyday extraction", "extraction", True,
        (
            ("F1", lambda one: f"{_extraction_f1(one):.2f}"),
            ("facts kept", lambda one: f"{one['kept']} of {one['facts']}"),
            ("with the right type", lambda one: str(one["right_type"])),
            ("noise", lambda one: f"{one['noise']} of {one['saved']}"),
            ("replaced values still told", lambda one: str(one["old_values"])),
            ("secrets kept", lambda one: str(one["secrets"])),
        ),
    ),
    (
        "Lying writers", "writers", False,
        (
            ("false statements kept", lambda one: f"{one['false_kept']:.1%} of {one['false']:,}"),
            ("true statements kept", lambda one: f"{one['true_kept']:.1%} of {one['true']:,}"),
        ),
    ),
    (
        "Staleness", "staleness", False,
        (
            ("stale shown as true", lambda one: f"{one['stale_shown_as_true']:.0%} of {one['stale']}"),
            ("warnings in vain", lambda one: f"{one['warned_in_vain']:.0%}"),
            ("found", lambda one: f"{one['found']} of {one['memories']}"),
        ),
    ),
    (
        "Long sessions", "sessions", False,
        (
            ("cost of the input, of sending everything", lambda one: f"{one['of_append_only']:.2f}"),
            ("identifiers still in context", lambda one: f"{one['usable_pairs']:.0f}%"),
            ("of those from long ago", lambda one: f"{one['usable_old']:.0f}%"),
            ("cache hits", lambda one: f"{one['hit_rate']:.0%}"),
            ("compactions", lambda one: str(one["compactions"])),
        ),
    ),
)  # fmt: skip


def text() -> str:
    """Return the page for the current results."""
    programs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    asked = [one for one in programs if "answers" in one]
    programs = [one for one in programs if "tasks" in one]
    parts = [HEAD.rstrip()]
    for title, task, is_more_better, columns in TABLES:
        rows = [(one["program"], one["tasks"][task]) for one in programs if one["tasks"].get(task)]
        head = ["program", *(name for name, _ in columns), "measured"]
        cells = [[name, *(show(one) for _, show in columns), one["date"]] for name, one in rows]
        cells.sort(key=lambda row: _first_number(row[1]), reverse=is_more_better)
        parts += [f"## {title}", _table(head, cells)]
    parts += ["## Answers", *_answers(asked)]
    how = [[one["program"], one["version"], one["how"]] for one in programs]
    parts += ["## How each was run", _table(["program", "version", "how"], how)]
    machine = programs[0]["machine"]
    parts.append(f"Machine: {machine['cpu']}, {machine['cores']} cores, Python {machine['python']}.")
    return "\n\n".join(parts) + "\n"


def _f1(found: float, right: float) -> float:
    return 2 * found * right / (found + right) if found + right else 0.0


def _recall_f1(one: Figures) -> float:
    return _f1(one["attached"], one["precision"])


def _extraction_f1(one: Figures) -> float:
    return _f1(one["kept"] / one["facts"], 1 - one["noise"] / max(1, one["saved"]))


def _first_number(cell: str) -> float:
    return float(re.match(r"[\d.]+", cell)[0])  # type: ignore[index]


def _answers(asked: Sequence[Figures]) -> list[str]:
    if not asked:
        return ["No results yet: `bench.public.answers` needs the key of a model."]
    rows = [
        [one["program"], one["data"], one["model"], f"{one['right']} of {one['questions']}", one["date"]]
        for one in asked
    ]
    return [_table(["program", "data", "model", "right", "measured"], rows)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8", newline="\n")
