"""Check a transcript: its lines, the chain of parents, and calls without results (T5, T6).

Only structure and the beginnings of texts are kept, so that memory use grows with the number of records, not
with the size of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.inspect.sources import DEFAULT_LIMITS, Progress, SourceLimits, open_source
from nacre.messages.blocks import ToolCall, ToolResult
from nacre.messages.foreign import read_foreign
from nacre.messages.records import Compacted, LogProblem, Record, Said
from nacre.messages.view import View
from nacre.session.read_session import SlimReader


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCheck:
    """Counts and problems of one session in a file."""

    session: str | None
    records: int
    messages: int
    problems: list[LogProblem]


def check_file(
    path: Path,
    *,
    session: str | None = None,
    limits: SourceLimits = DEFAULT_LIMITS,
    progress: Progress | None = None,
) -> tuple[str, list[SessionCheck]]:
    """Return the format of a transcript file and a check of each of its sessions."""
    with open_source(path, limits=limits, progress=progress) as source:
        if source.form == "claude-code":
            reader = SlimReader(session_id=session, subagent=source.stem.startswith("agent-"))
            for line in source.lines:
                reader.line(line)
            loaded = reader.done()
            return source.form, [findings(loaded.session_id, loaded.records, loaded.problems)]
        sessions = read_foreign(source.lines, name=path.name.removesuffix(".gz"))
    return source.form, [findings(one.session_id, one.records, one.problems) for one in sessions]


def findings(session: str | None, records: Sequence[Record], problems: Sequence[LogProblem]) -> SessionCheck:
    """Return problems from reading, from folding, and calls and results without a counterpart."""
    view = View.of(records)
    return SessionCheck(
        session=session,
        records=len(records),
        messages=count_messages(records),
        problems=[*problems, *view.problems, *_unanswered(records, still_open=view.open_calls)],
    )


def count_messages(records: Iterable[Record]) -> int:
    """Count user and assistant records, summaries included, as the session list does."""
    return sum(
        record.role != "system" if isinstance(record, Said) else isinstance(record, Compacted)
        for record in records
    )


def _unanswered(records: Sequence[Record], *, still_open: Sequence[str]) -> list[LogProblem]:
    said = [record for record in records if isinstance(record, Said) and record.aside is None]
    blocks = [block for record in said for block in record.blocks]
    answered = {block.call_id for block in blocks if isinstance(block, ToolResult)}
    waiting = frozenset(still_open)
    return [
        LogProblem("open_call", block.id, f"{block.name} has no result yet")
        if block.id in waiting
        else LogProblem(
            "call_without_result", block.id, f"{block.name} never got a result; taken as interrupted"
        )
        for block in blocks
        if isinstance(block, ToolCall) and block.id not in answered
    ]
