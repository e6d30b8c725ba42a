"""A child agent's conversation on disk: a side log of its session, leased and mended like a session's own."""

from __future__ import annotations

from pathlib import Path

from nacre.agents.kept import MAX_RESUME_BYTES, LogKeeper, Opened, mend
from nacre.agents.side_log import marked
from nacre.clock import Clock
from nacre.errors import SessionNotFound, TranscriptError
from nacre.messages.jsonl import Envelope, decode
from nacre.messages.records import Record
from nacre.store.log import SessionLog


class SideKeeper(LogKeeper):
    """Writes a child's records to its log; every line says that it is another agent's."""

    def __init__(self, log: SessionLog, envelope: Envelope, *, agent: str, parent: str | None = None) -> None:
        super().__init__(log, envelope, parent=parent)
        self._agent = agent

    def _as_written(self, record: Record) -> Record:
        return marked(record, self._agent)


async def open_side(path: Path, envelope: Envelope, *, agent: str, home: Path, clock: Clock) -> Opened:
    """Begin the log of a child, or go on with it; calls that were cut off are answered then (T8)."""
    try:
        log = SessionLog.open(path, home=home)
    except SessionNotFound:
        log = SessionLog.create_at(path, home=home)
    try:
        return await mend(_load(log, envelope, agent), clock)
    except BaseException:
        log.close()
        raise


def _load(log: SessionLog, envelope: Envelope, agent: str) -> Opened:
    where = log.resume_offset()
    if where.bytes_to_read > MAX_RESUME_BYTES:
        raise TranscriptError(f"the log of agent {agent} is too long to go on with; start another agent")
    loaded = decode(log.read(where.offset), session_id=envelope.session_id, subagent=True)
    keeper = SideKeeper(log, envelope, agent=agent, parent=loaded.leaf)
    return Opened(keeper, loaded.records, loaded.problems, [])
