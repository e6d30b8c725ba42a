"""Follows the conversations that pass: records, recordings, refreshes in pauses, changes (G2 to G5)."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from http import HTTPStatus

from nacre.cache.models import cost, profile
from nacre.clock import Clock
from nacre.errors import StoreError
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Reply
from nacre.server.gateway.changes import ChangedRequest, RequestChanges
from nacre.server.gateway.client_sessions import (
    Arrival,
    ClientSession,
    SessionTracker,
    saved_by_refreshes,
    settle,
)
from nacre.server.gateway.conversation import Conversation, changed_conversation, parse_conversation
from nacre.server.gateway.keep_warm import CacheRefresher
from nacre.server.gateway.memory import ClientTurn
from nacre.server.gateway.person_messages import listed_messages
from nacre.server.gateway.proxy import ClientRequest
from nacre.server.gateway.recording import SessionRecorder
from nacre.server.gateway.records import RecordFile
from nacre.server.gateway.reply_reader import ReplyReader, decoded_body
from nacre.server.gateway.upstream import Api, Headers

_LOG = logging.getLogger("nacre.gateway")

PARSED_HERE_BYTES = 65_536
"""A larger body is parsed in a thread, so that other streams go on."""
CLIENT_CHARS = 60
CAUSE_CHARS = 120


class SessionObserver:
    """Sees every conversation request of the gateway."""

    def __init__(self, records: RecordFile, *, clock: Clock) -> None:
        self._records = records
        self.clock = clock
        self.tracker = SessionTracker(clock)
        self.refresher: CacheRefresher | None = None
        self.recorder: SessionRecorder | None = None
        self.changes: RequestChanges | None = None
        self._secret = secrets.token_bytes(32)
        """Makes the digests of keys worthless outside this process."""
        self._has_warned = False

    async def begin(self, call: ClientRequest, body: bytes) -> ObservedRequest:
        """Identify the session of a request; with keep-warm or changes before the request is sent on."""
        observed = ObservedRequest(self, call, body, self.clock.now())
        if self.refresher is not None or self.changes is not None:
            await asyncio.shield(observed.identified())
        return observed

    async def close(self) -> None:
        if self.refresher is not None:
            await self.refresher.close()
        if self.changes is not None:
            await self.changes.close()

    @property
    def builds_replies(self) -> bool:
        """Whether whole replies are read, not only their usage."""
        return self.recorder is not None or (self.changes is not None and self.changes.memory is not None)

    def key_digest(self, headers: Headers) -> bytes:
        keys = [value for name, value in headers if name in {b"authorization", b"x-api-key", b"api-key"}]
        return blake2b(b"\0".join(keys), key=self._secret, digest_size=16).digest()

    def record(self, session: ClientSession, facts: JsonObject, at: datetime | None = None) -> None:
        """Append a record; one that cannot be written costs no request."""
        when = (at or self.clock.now()).isoformat()
        with self._warning_once():
            self._records.append({"at": when, "session": session.id, **facts})

    def record_text(self, arrival: Arrival, said: Conversation, reply: Reply | None) -> None:
        """Append to the recording of the session, where one was asked for."""
        if self.recorder is not None:
            with self._warning_once():
                self.recorder.add(arrival, said, reply)

    def answered(self, facts: _Facts, reader: ReplyReader) -> None:
        """Tell the features that change requests what came back."""
        if self.changes is None or reader.status != HTTPStatus.OK or not reader.ended:
            return
        session = facts.arrival.session
        turn = ClientTurn(
            api=facts.said.api,
            messages=listed_messages(facts.said.api, facts.said.body),
            reply=reader.reply,
            response_id=reader.response_id,
            session=session.id,
            on_saved=lambda count: self.record(session, {"kind": "saved", "memories": count}),
        )
        facts.changed.answered(turn, reader.usage, self.changes.memory)

    @contextmanager
    def _warning_once(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            if not self._has_warned:
                _LOG.warning("what passes is not recorded: %s", error)
            self._has_warned = True


@dataclass(slots=True)
class _Facts:
    arrival: Arrival
    said: Conversation
    """What the client sent."""
    sent: Conversation
    """What was sent on."""
    changed: ChangedRequest


class ObservedRequest:
    """One request and its reply."""

    def __init__(self, observer: SessionObserver, call: ClientRequest, body: bytes, at: datetime) -> None:
        self._observer = observer
        self._call = call
        self._at = at
        self._reader = ReplyReader(call.api, whole=observer.builds_replies)
        self._body = body
        self._size = len(body)
        self.body: bytes | None = None
        """What is sent on instead of the client's body."""
        self._identified: asyncio.Task[_Facts | None] | None = None

    def identified(self) -> asyncio.Task[_Facts | None]:
        """Return the task that finds the session; without keep-warm it begins when the reply has begun."""
        if self._identified is None:
            self._identified = asyncio.create_task(self._identify(), name="gateway session")
        return self._identified

    async def _identify(self) -> _Facts | None:
        """Return the session of the request; None for a body that is no conversation."""
        body, self._body = self._body, b""
        api = self._call.api
        encoding = _header(self._call.headers, b"content-encoding").strip().lower()
        try:
            if len(body) > PARSED_HERE_BYTES:
                said = await asyncio.to_thread(_parsed, api, body, encoding)
            else:
                said = _parsed(api, body, encoding)
        except Exception as error:  # noqa: BLE001  an observer: the request passes whatever it holds
            _LOG.warning("a request cannot be read: %s", type(error).__name__)
            return None
        if said is None:
            return None
        changed = ChangedRequest()
        sent = said
        if self._observer.changes is not None:
            changed = await self._observer.changes.apply(self._call, said.body)
            self.body = changed.data
            if changed.body is not None:
                sent = await asyncio.to_thread(changed_conversation, said, changed.body)
        key = self._observer.key_digest(self._call.headers)
        arrival = self._observer.tracker.arrive(key, said, self._at, sent=sent.sent)
        arrival.session.in_flight += 1
        if self._observer.refresher is not None:
            await self._observer.refresher.stop(arrival.session.id)
        return _Facts(arrival, said, sent, changed)

    def start(self, status: int, headers: Headers) -> None:
        self._reader.start(status, headers)
        self.identified()

    def feed(self, chunk: bytes) -> None:
        self._reader.feed(chunk)

    async def finish(self, ending: str) -> None:
        """Record the request; refreshes begin once no request of the session is on its way."""
        facts = await self.identified()
        if facts is None:
            return
        session = facts.arrival.session
        session.in_flight -= 1
        reader = self._reader
        reader.finish()
        usage = reader.usage
        model = reader.model if profile(reader.model).known else facts.said.model
        line: JsonObject = {
            "kind": "request",
            "client": _client(self._call.headers),
            "api": self._call.api,
            "model": model[:CAUSE_CHARS],
            "status": reader.status,
            "ending": ending
            if ending != "complete" or reader.ended or reader.status != 200
            else "unfinished",
            "seconds": round((self._observer.clock.now() - self._at).total_seconds(), 3),
            "idle_seconds": facts.arrival.idle_seconds,
            "usage": None if usage is None else usage.as_json(),
            "cost_usd": None if usage is None else cost(profile(model), usage),
        }
        if usage is not None:
            line["saved_usd"] = saved_by_refreshes(facts.arrival, usage, model)
            if (loss := settle(facts.arrival, usage, model)) is not None:
                line["lost"] = {"tokens": loss.tokens, "usd": loss.usd, "cause": loss.cause[:CAUSE_CHARS]}
        for name, said in (("error", reader.error), ("problem", reader.problem)):
            line |= {name: said[:CAUSE_CHARS]} if said else {}
        line |= facts.changed.facts(self._size)
        self._observer.tracker.answered(session, reader.response_id)
        self._observer.record(session, line, self._at)
        self._observer.record_text(facts.arrival, facts.said, reader.reply)
        self._observer.answered(facts, reader)
        if self._observer.refresher is not None and usage is not None and reader.ended:
            await self._observer.refresher.begin(session, self._call, facts.sent)


def _parsed(api: Api, body: bytes, encoding: str) -> Conversation | None:
    return parse_conversation(api, decoded_body(body, encoding) if encoding else body)


def _header(headers: Headers, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in headers if key == name), "")


def _client(headers: Headers) -> str:
    """Return the first product that the client names itself by."""
    named = _header(headers, b"user-agent").split(" ", 1)[0]
    return "".join(char for char in named if char.isprintable())[:CLIENT_CHARS] or "unknown"
