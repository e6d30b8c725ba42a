"""A real session driven by a recording: its own ladder, filters and markers, with the recording's clock.

Nothing is asked of any model; what the recorded one answered is taken as the reply.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from nacre.agents.session import Base, Session, SessionSettings
from nacre.cache.breakpoints import Lifetime
from nacre.clock import SYSTEM_CLOCK
from nacre.errors import ContextOverflow
from nacre.messages.blocks import JsonObject, Message
from nacre.messages.events import Reply
from nacre.messages.records import Compacted, Record, Replaced, ReplyFacts, Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.replay.schema import Action, Asked, Sent, Setting, Side, Step

QUESTION: JsonObject = {
    "role": "user",
    "content": [{"type": "text", "text": "Sum up this conversation so that the work can go on from it."}],
}
"""Stands for what a summary is asked for with; a real prompt is longer by little."""


class RecordedClock:
    """A clock that shows what it is set to, with ids that count up."""

    def __init__(self) -> None:
        self.at = datetime(2000, 1, 1, tzinfo=UTC)
        self._count = 0

    def now(self) -> datetime:
        return self.at

    def seconds(self) -> float:
        return self.at.timestamp()

    def new_id(self) -> str:
        self._count += 1
        return f"replay-{self._count}"

    def chance(self) -> float:
        return 0.5


class DrivenSession(Session):
    """A session that is told by a recording, not by a person, that a turn begins."""

    def begin_turn(self) -> None:
        self._starts_turn = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """How a session is set up for a replay."""

    lifetime: Lifetime = "5m"
    compact_percent: float | None = None
    """Where in the effective window compaction begins, in percent; None: as C3 says. It can only lower."""
    fits: bool = True
    """False: whatever it grows to is sent."""
    summary_tokens: int = 0
    """Output tokens of a request for a summary."""
    join: Callable[[Driven], None] | None = None
    """Adds rungs and filters, once the session is there."""


class Driven:
    """A policy that is a real session."""

    def __init__(self, setting: Setting, drive: Drive) -> None:
        self.clock = RecordedClock()
        self.drive = drive
        self._folder = tempfile.TemporaryDirectory(prefix="nacre-replay-")
        self._loop = asyncio.new_event_loop()
        self.session = DrivenSession(
            Base(model=setting.model, system=setting.base),
            settings=SessionSettings(
                cache_ttl=drive.lifetime,
                window_ceiling=setting.window,
                compact_percent=drive.compact_percent,
            ),
            clock=self.clock,
        )
        self.sides: list[Side] = []
        """Asked beside the conversation since the last step."""
        self.last: Sent | None = None
        self._actions: list[Action] = []
        self._epochs = 0
        self._base = setting.base
        if drive.join is not None:
            drive.join(self)

    @property
    def folder(self) -> Path:
        """Where results that leave the conversation are kept until the replay is over."""
        return Path(self._folder.name)

    def ask(self, step: Step) -> Asked:
        return self._loop.run_until_complete(self._ask(step))

    def hear(self, step: Step, usage: Usage) -> None:
        self._loop.run_until_complete(self._hear(step, usage))

    def close(self) -> tuple[Side, ...]:
        self._loop.close()
        self._folder.cleanup()
        return ()

    def act(self, kind: Action) -> None:
        """Remember what was done, for the next answer."""
        self._actions.append(kind)

    async def _ask(self, step: Step) -> Asked:
        self.clock.at = step.at
        began = SYSTEM_CLOCK.seconds()
        await self._take(step)
        records = await self._fitted()
        request = self.session.send(self.session.view)
        cpu = SYSTEM_CLOCK.seconds() - began
        self._actions += [action for record in records if (action := _action(record))]
        self.last = Sent(at=step.at, system=request.system, tools=request.tools, messages=request.messages)
        epochs = self.session.view.epochs
        asked = Asked(
            sent=self.last,
            sides=tuple(self.sides),
            actions=tuple(self._actions),
            rewrites=epochs[self._epochs :],
            cpu_seconds=cpu,
        )
        self.sides, self._actions, self._epochs = [], [], len(epochs)
        return asked

    async def _take(self, step: Step) -> None:
        if step.starts_turn:
            self.session.begin_turn()
        for said in step.heard:
            kept = await self.session.keep(said)
            changed = sum(_shrunk(said, record) for record in kept)
            if changed:
                self._actions.append(Action("offload", changed))
            await self.session.transcript.append(*kept)

    async def _fitted(self) -> Sequence[Record]:
        if not self.drive.fits:
            return ()
        try:
            records = await self.session.fit(self.session.view, None)
        except ContextOverflow:
            # Nothing helps: it is sent as it is, and counted as too large.
            return ()
        await self.session.transcript.append(*records)
        return records

    async def _hear(self, step: Step, usage: Usage) -> None:
        facts = step.reply.reply or ReplyFacts()
        said = replace(step.reply, reply=replace(facts, usage=usage, model=self.session.base.model))
        await self.session.transcript.append(said)
        message = Message("assistant", step.reply.blocks)
        self.session.heard(Reply(message=message, usage=usage, id=facts.id, model=self.session.base.model))
        self.session.notices()

    def summary_of(self, view: View) -> None:
        """A summary of a view is asked for: a fork that begins with the same bytes."""
        request = self.session.request(view)
        sent = Sent(
            at=self.clock.at,
            system=request.system,
            tools=request.tools,
            messages=[*request.messages, QUESTION],
        )
        self.sides.append(Side(kind="summary", sent=sent, output_tokens=self.drive.summary_tokens))


def _action(record: Record) -> Action | None:
    match record:
        case Compacted():
            return Action("compact")
        case Replaced(reason="clear"):
            return Action("clear", len(record.changes))
        case _:
            return None


def _shrunk(said: Said, record: Record) -> int:
    if not isinstance(record, Said) or record.id != said.id:
        return 0
    return sum(before is not now for before, now in zip(said.blocks, record.blocks, strict=False))
