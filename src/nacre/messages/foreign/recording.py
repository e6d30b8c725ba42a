"""A session recorded by another program, built record by record with reproducible ids and times."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from nacre.messages.blocks import Block, Json, JsonObject, Role
from nacre.messages.jsonl_encode import derived_id
from nacre.messages.jsonl_parse import parse_time
from nacre.messages.records import LogProblem, Noted, Record, ReplyFacts, Said

MADE_UP_START = datetime(2000, 1, 1, tzinfo=UTC)
"""Start of a recording without times: a date that is clearly not real."""
MADE_UP_STEP = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSession:
    """One session of a foreign file."""

    session_id: str
    records: list[Record]
    problems: list[LogProblem]
    cwd: str | None = None
    started: datetime | None = None
    """None if the file holds no times and those of the records are made up."""


@dataclass(slots=True)
class Recording:
    """Collects the records of a foreign file; `name` and `number` make its ids the same on every reading."""

    name: str
    number: int = 0
    cwd: str | None = None
    records: list[Record] = field(default_factory=list)
    problems: list[LogProblem] = field(default_factory=list)
    started: datetime | None = None

    @property
    def session_id(self) -> str:
        return derived_id("session", self.name, str(self.number))

    def say(
        self,
        role: Role,
        blocks: tuple[Block, ...],
        *,
        source: JsonObject,
        meta: bool = False,
        extra: JsonObject,
    ) -> None:
        """Add a message; `source` is the object it was read from, which may hold its time and model."""
        model = source.get("model")
        reply = ReplyFacts(model=model if isinstance(model, str) else None) if role == "assistant" else None
        record_id, at = self._next(source)
        self.records.append(
            Said(id=record_id, at=at, role=role, blocks=blocks, reply=reply, meta=meta, extra=extra)
        )

    def note(self, kind: str, facts: JsonObject) -> None:
        if facts:
            record_id, at = self._next({})
            self.records.append(Noted(id=record_id, at=at, kind=kind, facts=facts))

    def system_prompt(self, text: str) -> None:
        """Note the system prompt, which belongs to the base and not to the conversation."""
        self.note("system_prompt", {"text": text})

    def report(self, kind: str, where: str, message: str) -> None:
        self.problems.append(LogProblem(kind, where, message))

    def done(self) -> ForeignSession:
        if self.started is None:
            self.report(
                "made_up_times", "", "the file holds no times; the records are dated one second apart"
            )
        return ForeignSession(
            session_id=self.session_id,
            records=self.records,
            problems=self.problems,
            cwd=self.cwd,
            started=self.started,
        )

    def _next(self, source: JsonObject) -> tuple[str, datetime]:
        place = len(self.records)
        known = parse_time(source.get("timestamp")) or parse_time(source.get("created_at"))
        self.started = self.started or known
        before = self.records[-1].at if self.records else None
        made_up = MADE_UP_START if before is None else before + MADE_UP_STEP
        return derived_id("record", self.name, str(self.number), str(place)), known or made_up


def objects(value: Json) -> list[JsonObject]:
    """Return the objects of a list; empty for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: Json) -> str:
    return value if isinstance(value, str) else ""


def rest(value: JsonObject, *known: str) -> JsonObject:
    """Return the fields that a reader does not know and that are not null."""
    return {key: one for key, one in value.items() if key not in known and one is not None}


def messages_of(value: Json) -> list[JsonObject] | None:
    """Return the messages in a value: a bare list, or under one of the usual keys; None if there are none."""
    listed = value
    if isinstance(value, dict):
        listed = next((value[name] for name in ("messages", "traj") if name in value), None)
    found = objects(listed)
    is_list = isinstance(listed, list) and len(found) == len(listed)
    return found if found and is_list and all("role" in one for one in found) else None
