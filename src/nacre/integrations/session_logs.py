"""Read session logs of Claude Code and of other programs; nothing is written.

for session in read_sessions(path):
    print(session.id, session.meter.cost_usd)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.inspect.context_usage import parts
from nacre.messages.foreign import read_foreign
from nacre.messages.records import LogProblem, Record
from nacre.messages.view import View
from nacre.session.meter import Meter


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """One session of a log."""

    id: str
    records: Sequence[Record]
    view: View
    """What the model would see if the session continued."""
    meter: Meter
    """Requests, tokens and cost."""
    problems: Sequence[LogProblem]
    """Lines that could not be read, calls without results, and the like."""

    @property
    def tokens_by_kind(self) -> Mapping[str, int]:
        """Estimated tokens of the view by kind of content."""
        return parts(self.view)


def read_sessions(path: str | os.PathLike[str]) -> Iterator[SessionReport]:
    """Yield the sessions in a log file."""
    path = Path(path)
    with path.open("rb") as lines:
        for found in read_foreign(lines, name=path.name):
            view = View.of(found.records)
            yield SessionReport(
                id=found.session_id,
                records=found.records,
                view=view,
                meter=Meter.of(found.records),
                problems=(*found.problems, *view.problems),
            )
