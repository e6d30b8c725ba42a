"""What is odd about a transcript: its lines, its chain, its calls and results, told all at once (T5, T6).

Reads structure and keeps only the beginnings of texts, so that a log of any size is checked in memory that
grows with its records and not with its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from nacre.agents.sources import DEFAULT_LIMITS, Progress, SourceLimits, open_source
from nacre.messages.blocks import Json, JsonObject, ToolCall, ToolResult
from nacre.messages.foreign import read_foreign
from nacre.messages.jsonl import Loaded, Reader
from nacre.messages.jsonl_parse import METADATA_TYPES
from nacre.messages.records import Compacted, Problem, Record, Said
from nacre.messages.view import View
from nacre.messages.wire import canonical

KEPT_CHARS = 200
"""Of a longer text only the beginning is kept: no finding depends on more."""
MAX_DEPTH = 40
"""Deeper than this nothing is shortened; real lines nest a fifth as deep."""

PLACE_FIELDS = (
    "type", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "timestamp", "cwd", "isSidechain",
)  # fmt: skip
"""What a line says about where it belongs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """One session of a file, counted and checked."""

    session: str | None
    records: int
    messages: int
    problems: list[Problem]


def check_file(
    path: Path,
    *,
    session: str | None = None,
    limits: SourceLimits = DEFAULT_LIMITS,
    progress: Progress | None = None,
) -> tuple[str, list[Findings]]:
    """The form of a transcript file, and what is odd in each of its sessions."""
    with open_source(path, limits=limits, progress=progress) as source:
        if source.form == "claude-code":
            reader = SlimReader(session_id=session, subagent=source.stem.startswith("agent-"))
            for line in source.lines:
                reader.line(line)
            loaded = reader.done()
            return source.form, [findings(loaded.session_id, loaded.records, loaded.problems)]
        sessions = read_foreign(source.lines, name=path.name.removesuffix(".gz"))
    return source.form, [findings(one.session_id, one.records, one.problems) for one in sessions]


def findings(session: str | None, records: Sequence[Record], problems: Sequence[Problem]) -> Findings:
    """What reading found, what folding had to leave out, and which calls and results have no partner."""
    view = View.of(records)
    return Findings(
        session=session,
        records=len(records),
        messages=count_messages(records),
        problems=[*problems, *view.problems, *_unanswered(records, still_open=view.open_calls)],
    )


def count_messages(records: Iterable[Record]) -> int:
    """User and assistant records, summaries included, as a listing of sessions counts them."""
    return sum(
        record.role != "system" if isinstance(record, Said) else isinstance(record, Compacted)
        for record in records
    )


def _unanswered(records: Sequence[Record], *, still_open: Sequence[str]) -> list[Problem]:
    said = [record for record in records if isinstance(record, Said) and record.aside is None]
    blocks = [block for record in said for block in record.blocks]
    answered = {block.call_id for block in blocks if isinstance(block, ToolResult)}
    waiting = frozenset(still_open)
    return [
        Problem("open_call", block.id, f"{block.name} has no result yet")
        if block.id in waiting
        else Problem(
            "call_without_result", block.id, f"{block.name} never got a result; taken as interrupted"
        )
        for block in blocks
        if isinstance(block, ToolCall) and block.id not in answered
    ]


class SlimReader(Reader):
    """Reads a log like any reader, but remembers only the beginnings of its texts."""

    def take(self, line: JsonObject) -> None:
        if line.get("type") in METADATA_TYPES:
            # Nothing is read off these but their place; the digest stands for the rest, which may be long.
            rest = blake2b(canonical(line), digest_size=8).hexdigest()
            super().take({name: line[name] for name in PLACE_FIELDS if name in line} | {"rest": rest})
        else:
            super().take({name: _slim(value) for name, value in line.items() if name != "toolUseResult"})

    def finished(self, stem: str) -> Loaded:
        """What was read; a log named after one of the sessions in it is that session's."""
        if stem in self.sessions:
            self.session_id = stem
        return self.done()


def _slim(value: Json, depth: int = 0) -> Json:
    match value:
        case str() if len(value) > KEPT_CHARS:
            if value.isspace():
                return value[:KEPT_CHARS]
            # The digest keeps texts apart that only begin alike.
            return (
                value[:KEPT_CHARS] + blake2b(value.encode(errors="surrogatepass"), digest_size=8).hexdigest()
            )
        case list() if depth < MAX_DEPTH:
            return [_slim(item, depth + 1) for item in value]
        case dict() if depth < MAX_DEPTH:
            return {name: _slim(item, depth + 1) for name, item in value.items()}
        case _:
            return value
