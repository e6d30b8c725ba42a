"""Writes the sessions of clients as logs that `nacre replay` and `nacre sessions import` read (G2).

Only with `--record`: these files hold all text. A session whose history was changed goes on in a new file.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import dropwhile
from pathlib import Path

from nacre.clock import Clock
from nacre.errors import StoreError
from nacre.messages.events import Reply
from nacre.messages.foreign.requests import request_messages
from nacre.messages.jsonl import Envelope, chained_id, encode
from nacre.messages.records import ReplyFacts, Said
from nacre.server.gateway.client_sessions import MAX_SESSIONS, Arrival
from nacre.server.gateway.conversation import Conversation, client_messages
from nacre.server.gateway.records import append
from nacre.store import disk


@dataclass(slots=True)
class _Log:
    path: Path
    session_id: str
    parent: str | None = None
    messages: int = 0
    """How many messages of the client's newest request are in the log."""
    has_reply: bool = False
    """The reply to that request is in the log, too, and comes back with the next one."""


class SessionRecorder:
    """Appends what is new in each answered request, and its reply."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._logs: OrderedDict[str, _Log] = OrderedDict()
        try:
            disk.make_folder(folder)
        except OSError as error:
            raise StoreError(disk.explain(error, folder)) from error

    def add(self, arrival: Arrival, said: Conversation, reply: Reply | None) -> None:
        """Append one request; raises `StoreError` if the file cannot be written."""
        log = self._log(arrival, said)
        records = list(self._heard(log, said, arrival.at))
        log.messages = len(said.messages)
        log.has_reply = reply is not None
        if reply is not None:
            facts = ReplyFacts(
                id=reply.id, model=reply.model or said.model, stop_reason=reply.stop_reason, usage=reply.usage
            )
            now, new_id = self._clock.now(), self._clock.new_id()
            blocks = reply.message.blocks
            records.append(Said(id=new_id, at=now, role="assistant", blocks=blocks, reply=facts))
        lines = b""
        for record in records:
            envelope = Envelope(session_id=log.session_id, cwd="")
            lines += encode(record, envelope=envelope, parent=log.parent)
            log.parent = chained_id(record) or log.parent
        append(log.path, lines)

    def _log(self, arrival: Arrival, said: Conversation) -> _Log:
        name = arrival.session.id
        log = self._logs.get(name)
        is_held = bool(said.previous_response)
        if log is None or arrival.is_rewritten or (len(said.messages) < log.messages and not is_held):
            number = 1
            while (path := self._folder / f"{name}{f'-{number}' * (number > 1)}.jsonl").exists():
                number += 1
            log = self._logs[name] = _Log(path, self._clock.new_id())
            while len(self._logs) > MAX_SESSIONS:
                self._logs.popitem(last=False)
        self._logs.move_to_end(name)
        return log

    def _heard(self, log: _Log, said: Conversation, at: datetime) -> Iterator[Said]:
        """Yield what the client says for the first time."""
        known = 0 if said.previous_response else log.messages
        fresh = list(zip(client_messages(said.api, said.body), said.messages, strict=True))[known:]
        if log.has_reply:
            fresh = list(dropwhile(lambda one: one[1].get("role") == "assistant", fresh))
        for role, content in request_messages(said.api, [raw for raw, _ in fresh]):
            yield Said(id=self._clock.new_id(), at=at, role=role, blocks=content)
