"""Describe the origin of a memory: author, date, reason, and whether it is confirmed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from nacre.formatting import printable

if TYPE_CHECKING:  # quick commands import this, and start-up is measured
    from nacre.memory.files.undo import UnconfirmedChanges
    from nacre.memory.format.entry import Entry
    from nacre.store.history import Commit

SHORT_COMMIT = 10
"""Characters of a commit id in output; commands accept them."""


def origin_lines(
    entry: Entry, commits: Sequence[Commit], doubted: UnconfirmedChanges, *, is_there: bool
) -> list[str]:
    """Return the origin, the changes and the unconfirmed ones, as lines."""
    states = {
        "untrusted": "untrusted: it came from outside",
        "unverified": "unverified: an agent saved it after it had read text from outside",
    }
    ids = doubted.files.get(entry.file)
    plain = "unconfirmed edit: who wrote it is not known" if ids else f"said by: {entry.origin}"
    state = states.get(entry.origin, plain)
    lines = [f"{entry.file}  ({state if is_there else 'forgotten'})"]
    for each in commits:
        session = f", session {each.session}" if each.session else ""
        lines.append(f"  {change_line(each, doubted.confirmed)}{session}")
    if is_there and not entry.is_trusted:
        lines.append(f"  `nacre memory confirm {entry.file}` if you know that it is true")
    if ids:
        short = " ".join(each[:SHORT_COMMIT] for each in ids)
        lines += [
            "  unconfirmed edit: it changed while an agent was at work, whose shell could have done it;",
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
