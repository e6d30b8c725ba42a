"""The policies a replay compares (P7): none, truncation, the published profile, and nacre's.

Each is a value that includes its settings, so that a benchmark can sweep them; each drives a real session.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from nacre.cache.warmth import KeepWarmSettings, Lifetime
from nacre.devtools.replay.other_policies import (
    SUMMARY_TOKENS,
    TRUNCATE_TRIGGER,
    CompactionSettings,
    PlaceholderCompact,
    filler,
)
from nacre.devtools.replay.own_tools import OwnTools, with_own_tools
from nacre.devtools.replay.recorded_files import RecordedFiles
from nacre.devtools.replay.schema import (
    LayerAction,
    PolicyAnswer,
    Recorded,
    ReplayPolicy,
    ReplayStep,
    Setting,
    SideRequest,
    WireRequest,
)
from nacre.devtools.replay.side_work import RecordedClock, SideWork, SideWorkSettings
from nacre.errors import ConfigError, ContextOverflow
from nacre.layers.l1_offload.layer import Offload
from nacre.layers.l1_offload.offload import DUPLICATE, OFFLOAD, REREAD
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l2_microcompact.layer import Microcompact
from nacre.layers.l2_microcompact.policy import CLAUDE_CODE as PUBLISHED_CLEARING
from nacre.layers.l2_microcompact.policy import MicrocompactSettings
from nacre.layers.l4_compact.layer import Compact
from nacre.layers.l4_compact.overflow_files import OverflowFiles
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.layers.l4_compact.summarise import directive
from nacre.messages.blocks import JsonObject, Message
from nacre.messages.draft import Draft
from nacre.messages.events import ProviderEvent, Reply
from nacre.messages.facts import Facts
from nacre.messages.records import Compacted, Noted, Record, Replaced, ReplyFacts
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Capabilities, Request
from nacre.session.cache_warming import KeepWarm
from nacre.session.compaction import CompactionRequest
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.store.tool_results import FOLDER, ToolResultStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ByLayers:
    """Compaction by nacre's layers."""

    settings: CompactSettings = field(default_factory=CompactSettings)
    summary_tokens: int = 0
    """Tokens of a model's summary; 0: no model is called, compaction is by rule."""

    def compact_layer(self, driven: Driven, store: ToolResultStore) -> Compact:
        """Return the layer for one session."""
        tokens = self.summary_tokens

        async def summarise(view: View, request: CompactionRequest, facts: Facts) -> Draft:
            driven.summary_of(view, directive())
            return Draft(kind="full", text=filler(tokens, ratio=driven.session.calibration.ratio))

        return Compact(
            self.settings,
            summarise=summarise if tokens else None,
            restorer=RecordedFiles(driven.session, self.settings),
            overflow=OverflowFiles(folder=driven.folder, store=store),
        )


NEVER_BYTES = 1_000_000_000
"""Larger than any result: turns references to earlier results off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """What a session does about its size, layer by layer; unset layers are off."""

    name: str
    lifetime: Lifetime | Literal["auto"] = "5m"
    offload: OffloadSettings | None = None
    clearing: MicrocompactSettings | None = None
    compaction: CompactionSettings | ByLayers | None = None
    """By nacre's own layers, or as in another program."""
    compact_percent: float | None = None
    """Compaction threshold in percent of the effective window; None: as in C3."""
    warming: KeepWarmSettings | None = None
    waits_at_end: bool = True
    side_work: SideWorkSettings | None = None
    """How notes and extraction ask the model, as in a chat; None: they do not."""
    own_tools: OwnTools | None = None
    """Whether results have the form that nacre's own tools give them; None: as recorded."""

    def prepare(self, session: Recorded) -> Recorded:
        """Return the session with the results of nacre's own tools, if the policy has them."""
        return session if self.own_tools is None else with_own_tools(session, self.own_tools)

    def start(self, setting: Setting) -> ReplayPolicy:
        """Start a session of its own for one recording."""
        drive = Drive(
            lifetime=self.lifetime,
            compact_percent=self.compact_percent,
            is_endless=self.compaction is None,
            summary_tokens=self.compaction.summary_tokens if self.compaction else 0,
            warming=self.warming,
            waits_at_end=self.waits_at_end,
        )
        driven = Driven(setting, drive)
        session = driven.session
        store = ToolResultStore(driven.folder / FOLDER, sync=False)
        if self.offload is not None:
            session.add_layers(Offload(store, self.offload))
        if self.clearing is not None:
            session.add_layers(Microcompact(store, self.clearing))
        if self.side_work is not None:
            driven.side_work = SideWork(session, driven.clock, driven.folder, self.side_work, driven.add_side)
        if isinstance(self.compaction, ByLayers):
            session.add_layers(self.compaction.compact_layer(driven, store))
        elif self.compaction is not None:
            compact = PlaceholderCompact(
                self.compaction,
                clock=driven.clock,
                base_tokens=lambda: session.calibration.base_tokens,
                ratio=lambda: session.calibration.ratio,
                asked=lambda view: driven.summary_of(view, QUESTION),
            )
            session.add_layers(compact)
        return driven


NONE = Ladder(name="none")
"""Append only, as with an unlimited window; requests that would not fit are counted."""
TRUNCATE = Ladder(name="truncate", compaction=CompactionSettings(summary_tokens=0, tail_tokens=80_000))
"""When it no longer fits, the oldest rounds are dropped, down to about half the window."""
CLAUDE_CODE = Ladder(
    name="claude-code",
    offload=OffloadSettings(max_chars=50_000, min_duplicate_bytes=NEVER_BYTES, rereads=False),
    clearing=PUBLISHED_CLEARING,
    compaction=CompactionSettings(tail_tokens=0, restores_files=True),
)
"""The published numbers, with a text of fixed size for its summary."""
NACRE = Ladder(
    name="nacre",
    offload=OffloadSettings(),
    clearing=MicrocompactSettings(),
    compaction=ByLayers(),
    warming=KeepWarmSettings(),
)
"""nacre without a model's summaries: the only side requests keep the cache warm."""
NACRE_MODEL = replace(NACRE, name="nacre-model", compaction=ByLayers(summary_tokens=SUMMARY_TOKENS))
"""The same with a model's summaries, of which nothing counts as kept."""
NACRE_CHAT = replace(NACRE_MODEL, name="nacre-chat", side_work=SideWorkSettings())
"""A chat with default settings: also notes and extraction by the model, charged as they are sent."""
NACRE_TOOLS = replace(NACRE_CHAT, name="nacre-tools", own_tools=OwnTools())
"""The same chat with nacre's own tools: large files as pages, shorter results, and what that adds charged."""
POLICIES = {
    one.name: one for one in (NONE, TRUNCATE, CLAUDE_CODE, NACRE, NACRE_MODEL, NACRE_CHAT, NACRE_TOOLS)
}


def policy(name: str, *, lifetime: Lifetime | Literal["auto"] | None = None) -> Ladder:
    """Return a policy by its name, with another lifetime if one is given."""
    found = POLICIES.get(name)
    if found is None:
        raise ConfigError(f"there is no policy {name!r}; choose from {', '.join(POLICIES)}")
    return found if lifetime is None else replace(found, lifetime=lifetime)


QUESTION = "Sum up this conversation so that the work can go on from it."
"""Replaces other programs' summary prompts; a real one is a little longer."""


class DrivenSession(Session):
    """A session whose turns are started by a recording, not by a user."""

    def begin_turn(self) -> None:
        self._starts_turn = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """Settings of a session in a replay."""

    lifetime: Lifetime | Literal["auto"] = "5m"
    compact_percent: float | None = None
    """Compaction threshold in percent of the effective window; None: as in C3. It can only lower it."""
    is_endless: bool = False
    """Whether any size is sent, up to the model's own window."""
    summary_tokens: int = 0
    """Output tokens of a request for a summary."""
    warming: KeepWarmSettings | None = None
    """How the cache is kept warm during pauses of the user or a tool; None: it is not."""
    waits_at_end: bool = True
    """Whether a session waits after its last reply as in any pause: no log records that it was closed."""


class Driven:
    """A policy that is a real session."""

    def __init__(self, setting: Setting, drive: Drive) -> None:
        self.clock = RecordedClock()
        self.drive = drive
        self._folder = tempfile.TemporaryDirectory(prefix="nacre-replay-")
        self._loop = asyncio.new_event_loop()
        self.session = DrivenSession(
            Base(setting.model, instructions=setting.base),
            settings=SessionSettings(
                cache_ttl=drive.lifetime,
                window_ceiling=None if drive.is_endless else setting.window,
                compact_percent=drive.compact_percent,
            ),
            clock=self.clock,
        )
        self._warmer: RecordedWarmer | None = None
        if drive.warming and setting.has_times:
            self._warmer = RecordedWarmer(self.session, self.clock, drive.warming, self._refreshed)
        self.side_work: SideWork | None = None
        self._sides: list[SideRequest] = []
        """Side requests since the last step."""
        self._last: WireRequest | None = None
        self._actions: list[LayerAction] = []
        self._epochs = 0

    @property
    def folder(self) -> Path:
        """Directory of offloaded results until the replay is over."""
        return Path(self._folder.name)

    def ask(self, step: ReplayStep) -> PolicyAnswer:
        return self._loop.run_until_complete(self._ask(step))

    def hear(self, step: ReplayStep, usage: Usage) -> None:
        self._loop.run_until_complete(self._hear(step, usage))

    def close(self) -> tuple[SideRequest, ...]:
        waits = self.drive.waits_at_end
        if self.side_work is not None and self._last is not None:
            self._loop.run_until_complete(self.side_work.end(waits_for_pause=waits))
        if self._warmer is not None and waits and self._last is not None:
            self._loop.run_until_complete(self._warmer.wait(None))
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self._folder.cleanup()
        return tuple(self._sides)

    def add_side(self, side: SideRequest) -> None:
        """Add a side request to the bill of the next step."""
        self._sides.append(side)

    def _refreshed(self, at: datetime) -> None:
        assert self._last is not None, "only what was sent is refreshed"
        self._sides.append(SideRequest(kind="refresh", sent=replace(self._last, at=at)))
        self._actions.append(LayerAction("refresh"))

    async def _ask(self, step: ReplayStep) -> PolicyAnswer:
        if self.side_work is not None and self._last is not None:
            await self.side_work.pause(step.at)
        if self._warmer is not None and self._last is not None:
            await self._warmer.wait(step.at)
        self.clock.at = step.at
        # CPU time, not wall time: other processes on the machine are not the policy's work.
        began = time.process_time()
        await self._take(step)
        records: Sequence[Record] = ()
        # Where nothing helps it is sent unchanged, and counted as too large.
        with suppress(ContextOverflow):
            records = await self.session.fit(self.session.view, None)
            await self.session.transcript.append(*records)
        request = self.session.start_request(self.session.view)
        cpu = time.process_time() - began
        self._actions += [action for record in records if (action := _action(record))]
        self._last = WireRequest(
            at=step.at, system=request.system, tools=request.tools, messages=request.messages
        )
        epochs = self.session.view.epochs
        asked = PolicyAnswer(
            sent=self._last,
            sides=tuple(self._sides),
            actions=tuple(self._actions),
            rewrites=epochs[self._epochs :],
            cpu_seconds=cpu,
        )
        self._sides, self._actions, self._epochs = [], [], len(epochs)
        return asked

    async def _take(self, step: ReplayStep) -> None:
        if step.starts_turn:
            self.session.begin_turn()
            if self.side_work is not None:
                await self.side_work.begin_turn()
        for said in step.heard:
            kept = await self.session.message_records(said)
            self._actions += [action for record in kept if (action := _action(record))]
            await self.session.transcript.append(*kept)

    async def _hear(self, step: ReplayStep, usage: Usage) -> None:
        facts = step.reply.reply or ReplyFacts()
        said = replace(step.reply, reply=replace(facts, usage=usage, model=self.session.base.model))
        await self.session.transcript.append(said)
        message = Message("assistant", step.reply.blocks)
        self.session.on_reply(Reply(message=message, usage=usage, id=facts.id, model=self.session.base.model))
        if self.side_work is not None:
            await self.side_work.replied(message)
        self.session.notices()

    def summary_of(self, view: View, question: str) -> None:
        """Request a summary of a view: a fork that begins with the same bytes."""
        request = self.session.request(view)
        asked: JsonObject = {"role": "user", "content": [{"type": "text", "text": question}]}
        sent = WireRequest(
            at=self.clock.at,
            system=request.system,
            tools=request.tools,
            messages=[*request.messages, asked],
        )
        self._sides.append(SideRequest(kind="summary", sent=sent, output_tokens=self.drive.summary_tokens))


def _action(record: Record) -> LayerAction | None:
    match record:
        case Compacted():
            return LayerAction("truncate" if record.trigger == TRUNCATE_TRIGGER else "compact")
        case Replaced(reason="clear"):
            return LayerAction("clear", len(record.changes))
        case Noted() if record.kind in {OFFLOAD, DUPLICATE, REREAD}:
            return LayerAction("offload")
        case _:
            return None


NO_END = timedelta(days=1)
"""Length of the pause after the last reply: longer than any series of refreshes."""


class RecordedWarmer(KeepWarm):
    """A warmer whose sleep moves the recording's clock, up to the user's next message."""

    def __init__(
        self,
        session: Session,
        clock: RecordedClock,
        settings: KeepWarmSettings,
        refreshed: Callable[[datetime], None],
    ) -> None:
        """`refreshed` is called for each refresh that is sent."""
        super().__init__(session, _Refreshing(session, refreshed), settings=settings, sleep=self._pass_time)
        session.keep_warm = settings
        self._clock = clock
        self._until = clock.at
        self._is_back = asyncio.Event()

    async def wait(self, until: datetime | None) -> None:
        """Let the pause pass until this time; None if the user did not return."""
        self._until = until or self._clock.at + NO_END
        self._is_back = asyncio.Event()
        self.begin()
        if self._task is not None:
            back = asyncio.create_task(self._is_back.wait())
            await asyncio.wait({self._task, back}, return_when=asyncio.FIRST_COMPLETED)
            back.cancel()
        await self.rest()

    async def _pass_time(self, seconds: float) -> None:
        then = self._clock.at + timedelta(seconds=seconds)
        if then >= self._until:
            self._is_back.set()
            await asyncio.Event().wait()
        self._clock.at = then


class _Refreshing:
    """A provider whose requests only read what is cached."""

    name = "replay"

    def __init__(self, session: Session, refreshed: Callable[[datetime], None]) -> None:
        self._session = session
        self._refreshed = refreshed

    def capabilities(self, model: str) -> Capabilities:
        return Capabilities(refreshes=self._session.profile.refreshes)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        answered = self._session.answered
        before = answered.usage if answered else Usage()
        usage = Usage(input=before.input, cache_read=before.cache_read + before.cache_write)
        self._refreshed(self._session.clock.now())
        yield Reply(message=Message("assistant", ()), usage=usage, model=request.model)

    async def count_tokens(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        return None
