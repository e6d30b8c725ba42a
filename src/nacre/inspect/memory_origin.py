"""Describe the origin of a memory: author, date, reason, and whether it is confirmed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from nacre.formatting import printable

if TYPE_CHECKING:  # quick commands import this, and start-up is measured
    from nacre.memory.files.confirm import UnconfirmedChanges
    from nacre.memory.format.entry import Entry
    from nacre.store.history import Commit


SHORT_COMMIT = 10
"""Characters of a commit id in output; commands accept them."""


def origin_lines(
    entry: Entry, commits: Sequence[Commit], doubted: UnconfirmedChanges, *, is_there: bool
) -> list[str]:
    """Return the origin, the changes and the unconfirmed ones, as lines."""
    state = "untrusted: it came from outside" if entry.origin == "untrusted" else f"said by: {entry.origin}"
    lines = [f"{entry.file}  ({state if is_there else 'forgotten'})"]
    for each in commits:
        session = f", session {each.session}" if each.session else ""
        lines.append(f"  {change_line(each, doubted.confirmed)}{session}")
    if ids := doubted.files.get(entry.file):
        short = " ".join(each[:SHORT_COMMIT] for each in ids)
        lines += [
            "  unconfirmed: it changed while an agent was at work, and an agent's shell could have done it;",
            f"  `nacre memory confirm {short}` if that was you",
        ]
    if not commits:
        lines.append("  no change of it is on record: it was there before nacre")
    if entry.sources:
        lines.append(f"  from: {', '.join(entry.sources)}")
    return [printable(line) for line in lines]


def change_line(each: Commit, confirmed: Collection[str]) -> str:
    """Format one change: time, commit, author, reason."""
    when = each.at.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{when}  {each.id[:SHORT_COMMIT]}  {author_shown(each, confirmed)}: {each.reason}"


def author_shown(each: Commit, confirmed: Collection[str]) -> str:
    """Return the author of a change, or that the user confirmed it."""
    return "confirmed" if each.id in confirmed else each.author
