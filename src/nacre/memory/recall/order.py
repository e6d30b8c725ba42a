"""Of two picks on one subject the newer stands first, and the older says so (R14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nacre.memory.recall.base import Ranked
from nacre.memory.recall.local import order


def newer_first(picks: Sequence[Ranked]) -> list[Ranked]:
    """The picks in the order to attach them; the ranking that chose them is not touched."""
    subjects = [one.subject for one in picks if one.subject is not None]
    if len(subjects) < len(picks) or len(picks) < 2:
        return list(picks)
    by_path = {str(one.path): one for one in picks}
    placed = [replace(one.placed, id=path) for one, path in zip(subjects, by_path, strict=True)]
    ordered = order.newer_first(placed, subjects[0].rarity)
    return [
        replace(by_path[one.id], superseded_by=by_path[one.superseded_by].entry.file)
        if one.superseded_by
        else by_path[one.id]
        for one in ordered
    ]
