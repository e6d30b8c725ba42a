"""The log of an agent that works beside a session: in the session's folder, as sub-agents' logs are (F2, T2).

Every line is marked as another agent's; `decode(…, subagent=True)` reads it as a conversation of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from nacre.agents.kept import LogKeeper
from nacre.agents.session import Session
from nacre.errors import TranscriptError
from nacre.messages.jsonl import Envelope, chained_id, decode, encode
from nacre.messages.records import Record, Said
from nacre.store import disk
from nacre.store.lines import read_lines
from nacre.store.tail import repair_tail

FOLDER = "subagents"
PREFIX = "agent-"
AGENT = "agentId"
"""What a line says about whose it is."""


def side_log_path(folder: Path, agent: str) -> Path:
    """Where the log of an agent lies, in the folder of its session."""
    return folder / FOLDER / f"{PREFIX}{agent}.jsonl"


def side_log(session: Session, agent: str) -> SideLog | None:
    """The log of an agent of this session, begun or gone on with; none where the session is not kept."""
    keeper = session.keeper
    if not isinstance(keeper, LogKeeper):
        return None
    return SideLog(side_log_path(keeper.folder, agent), keeper.envelope, agent=agent)


class SideLog:
    """Appends records to one file; its `write` is what a transcript takes."""

    def __init__(self, path: Path, envelope: Envelope, *, agent: str) -> None:
        """Opens the file, whose end is mended where a crash tore it."""
        self.path = path
        self._envelope = envelope
        self._agent = agent
        try:
            disk.make_folder(path.parent)
            descriptor = disk.open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise TranscriptError(disk.explain(error, path)) from error
        self._file: BinaryIO = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            repair_tail(self._file, path.parent)
            self._parent = decode(read_lines(path), subagent=True).leaf
        except OSError as error:
            self._file.close()
            raise TranscriptError(disk.explain(error, path)) from error
        except BaseException:
            self._file.close()
            raise

    async def write(self, records: Sequence[Record]) -> None:
        """Append all of them or none."""
        parent, lines = self._parent, []
        for record in records:
            lines.append(encode(marked(record, self._agent), envelope=self._envelope, parent=parent))
            parent = chained_id(record) or parent
        try:
            # One write into the page cache: a thread would cost more than it saves.
            disk.append_whole(self._file.fileno(), b"".join(lines))
        except OSError as error:
            raise TranscriptError(disk.explain(error, self.path)) from error
        self._parent = parent

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def marked(record: Record, agent: str) -> Record:
    """A record as it stands in such a log: said by another agent."""
    if not isinstance(record, Said) or record.aside is not None:
        return record
    return replace(record, aside="sidechain", extra={**record.extra, AGENT: agent})
