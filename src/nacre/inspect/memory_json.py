"""The stable JSON forms of memories, changes and recall results; fields may be added."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:  # quick commands import this, and start-up is measured
    from nacre.memory.format.entry import Entry
    from nacre.memory.recall.base import LeftOut, RankedMemory, Recalled
    from nacre.store.history import Commit

DECIMALS = 4
"""Decimals of a score."""
NO_PROJECTS: Mapping[Path, str] = {}
UNCONFIRMED = "unconfirmed"


def entry_json(entry: Entry) -> JsonObject:
    """Return an entry in its stable JSON form."""
    when = entry.changed
    return {
        "file": entry.file,
        "name": entry.title,
        "description": entry.description,
        "type": entry.kind,
        "origin": entry.origin,
        "modified": when.isoformat() if when else None,
        "bytes": entry.bytes,
        "indexed": entry.indexed,
        "pinned": entry.pinned,
    }


def commit_json(each: Commit, confirmed: Collection[str]) -> JsonObject:
    """Return a commit in its stable JSON form; `confirmed` is null if no confirmation is needed."""
    return {
        "commit": each.id,
        "author": each.author,
        "reason": each.reason,
        "session": each.session,
        "at": each.at.isoformat(),
        "files": [*each.files],
        "confirmed": each.id in confirmed if each.author == UNCONFIRMED else None,
    }


def recalled_json(
    recalled: Recalled, *, limit: int | None = None, projects: Mapping[Path, str] = NO_PROJECTS
) -> JsonObject:
    """Return the result in its stable JSON form; fields may be added.

    `projects` names the project of each memory directory, if several were searched.
    """
    from nacre.memory.recall.base import LeftOut  # noqa: PLC0415 - lists of memories need none of it

    picks: list[JsonObject] = []
    for one in recalled.picks[:limit]:
        ranked = one.ranked
        drift: JsonObject | None = (
            None
            if one.drift is None
            else {
                "broken": one.drift.is_broken,
                "gone": [each.text for each in one.drift.gone],
                "references": [
                    {"kind": each.kind, "text": each.text, "exists": each.exists}
                    for each in one.drift.references
                ],
            }
        )
        picks.append({
            "file": ranked.entry.file,
            "score": _number(ranked.score),
            "parts": {name: _number(value) for name, value in ranked.parts.items()},
            "age_days": one.age_days,
            "bytes": one.bytes,
            "drift": drift,
            "confidence": _number(ranked.confidence),
            "superseded_by": ranked.superseded_by or None,
            "name": ranked.entry.title,
            "path": str(ranked.path),
            **({"project": projects[ranked.directory]} if projects else {}),
        })  # fmt: skip
    return {
        "query": recalled.query,
        "picks": [*picks],
        "left_out": [
            {"file": left.file, "why": left.why, "score": _number(left.score)}
            for left in recalled.left_out[:limit]
        ],
        "took_ms": _number(recalled.took_ms),
        "ranked": [
            {
                "file": one.file,
                "path": str(one.path),
                "score": _number(one.score),
                "confidence": _number(one.confidence),
                "attached": not isinstance(one, LeftOut),
                "why": one.why if isinstance(one, LeftOut) else None,
                **({"project": project_of(one, projects)} if projects else {}),
            }
            for one in recalled.ranked[:limit]
        ],
        "skipped": recalled.skipped,
        "problem": recalled.problem,
    }


def project_of(one: RankedMemory | LeftOut, projects: Mapping[Path, str]) -> str:
    """Return the name of the project that a memory belongs to."""
    return next(name for directory, name in projects.items() if directory / one.file == one.path)


def _number(value: float) -> float:
    """JSON has neither infinity nor NaN."""
    return round(value, DECIMALS) if math.isfinite(value) else 0.0
