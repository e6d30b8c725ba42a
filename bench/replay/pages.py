"""The figures as a page of tables."""

from __future__ import annotations

from typing import Any

from bench.replay.goals import beaten_by
from nacre.messages.blocks import JsonObject

COLUMNS = (
    ("policy", "policy", "{}"),
    ("cost", "cost_usd", "${:,.2f}"),
    ("of append-only", "of_append_only", "{:.3f}"),
    ("pairs", "usable_pairs", "{:.1f}"),
    ("edits", "usable_edits", "{:.1f}"),
    ("old", "usable_old", "{:.1f}"),
    ("pairs, all", "pairs", "{:.1f}"),
    ("edits, all", "edits", "{:.1f}"),
    ("old, all", "old", "{:.1f}"),
    ("too large", "overflow", "{:,}"),
    ("refused", "refused", "{:,}"),
    ("hit rate", "hit_rate", "{:.3f}"),
    ("peak", "peak_tokens", "{:,}"),
    ("mean", "mean_tokens", "{:,}"),
    ("pairs/1,000 tokens", "pairs_per_1000_tokens", "{:.2f}"),
    ("compactions", "compactions", "{:,}"),
    ("breaks", "prefix_breaks", "{:,}"),
    ("re-fetch", "refetch_usd", "${:,.2f}"),
    ("beside", "side_usd", "${:,.2f}"),
    ("CPU p50 / p99 ms", "cpu_ms_p50", "{:.2f}"),
)
HEAD = """# Recorded sessions, replayed

`of append-only`: the input side, which is everything but the recorded replies, relative to `none`. `pairs`,
`edits`, `old`: percent of what a later step used and had seen that was in view, in a request that fits the
window; beside them (`all`) the same with requests counted that do not fit. `too large`: requests over the
window. `refused`: requests the provider would not take for their form (tool calls without results, bound
thinking behind a changed past). `re-fetch` (in the cost): what it takes to have hidden text again. `beside`
(in the cost): notes, memories, summaries and refreshes. Summaries are 2,000 tokens without content for
every policy that asks for one; real ones are about twice as long. nacre compacts with its own layers: a
person's words, what was done, names, and the newest rounds. `nacre-chat` is a chat with default settings;
`nacre-tools` adds the results of nacre's own tools, with 200 lines of every page read in any case.
`claude-code` and `truncate` are stand-ins. Files that are read again after a compaction (five, by
`claude-code` and by nacre) have the text that the recording shows; tasks are left out. Settings were chosen
on the other half of the recordings; how long people usually stay away, the defaults of offloading and
clearing, and what actions say, were taken from all of them. Five-minute cache. In windows below 200K at
most 15,000 tokens of the recorded system prompt and tools count, for every policy.
"""


def page(figures: JsonObject) -> str:
    """All of it."""
    found: Any = figures
    parts = [HEAD, _sessions(found)]
    for cell in found["cells"]:
        parts.append(f"## {cell['title']}\n\n{_table(cell['policies'])}")
    if found["bound"]:
        parts.append(_pauses(found["pauses"]))
        parts.append(_bound(found["bound"]))
    if any(cell["sessions"] == "recorded" for cell in found["cells"]):
        parts.append(_beaten(found))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _beaten(found: Any) -> str:
    """Return a table of the setting that keeps most of those that cost no more than each library."""
    cells = [cell for cell in found["cells"] if cell["sessions"] == "recorded"]
    lines = [
        "| library | " + " | ".join(cell["title"].removeprefix("recorded, ") for cell in cells) + " |",
        "|" + "---|" * (len(cells) + 1),
    ]
    for peer in found["peers"]:
        best = []
        for cell in cells:
            rows = {row["policy"]: row for row in cell["policies"]}
            names = beaten_by(cell, peer, [name for name in rows if name.startswith("nacre")])
            name = max(names, key=lambda one: rows[one]["usable_edits"], default="")
            best.append(f"{name}: {_kept(rows[name])}; {_kept(rows[peer])}" if name else "none")
        lines.append("| " + " | ".join([peer, *best]) + " |")
    text = (
        "For each library the setting of nacre that costs no more and keeps more, in pairs and in edits; of "
        "several the one that keeps most edits. Its cost / pairs / edits, then those of the library."
    )
    return "\n".join(["## A setting for each library", "", text, "", *lines])


def _kept(row: Any) -> str:
    return f"{row['of_append_only']:.3f} / {row['usable_pairs']:.1f} / {row['usable_edits']:.1f}"


def _sessions(found: Any) -> str:
    sets = ", ".join(f"{count} {name}" for name, count in found["sessions"].items())
    text = f"Sessions: {sets}. Libraries: {', '.join(sorted(set(found['peers'].values()))) or 'none'}."
    dates: dict[str, list[str]] = {}
    for name, date in found.get("measured_before", {}).items():
        dates.setdefault(date[:10], []).append(name)
    earlier = (f" Measured on {date}: {', '.join(names)}." for date, names in sorted(dates.items()))
    return text + "".join(earlier)


def _table(rows: Any) -> str:
    lines = [
        "| " + " | ".join(title for title, _, _ in COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
    ]
    for row in rows:
        cells = [_worded(row, key, form) for _, key, form in COLUMNS]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _worded(row: Any, key: str, form: str) -> str:
    if key == "cpu_ms_p50":
        return f"{row['cpu_ms_p50']:.2f} / {row['cpu_ms_p99']:.2f}"
    return "" if row[key] is None else form.format(row[key])


def _pauses(pauses: Any) -> str:
    none = pauses["input_usd"]["none"]
    lines = [f"| {name} | ${usd:,.2f} | {usd / none:.3f} |" for name, usd in pauses["input_usd"].items()]
    head = f"## Only the {pauses['sessions']} sessions with a pause of more than five minutes (200K)"
    return "\n".join([head, "", "| policy | cost | of append-only |", "|---|---|---|", *lines])


def _bound(bound: Any) -> str:
    return (
        "## A bound\n\nWith the whole session known beforehand the best clearing would have cost "
        f"${bound['clairvoyant_usd']:,.2f} ({bound['of_append_only']:.3f} of append-only) with no window; "
        f"nacre, which also offloads and compacts, costs {bound['nacre_over_it']:.2f} times that. What the "
        "bound assumes stands in `bench/replay/bound.py`."
    )
