"""Notes and extraction in a replay: nacre's own rules say when, a placeholder stands for the model's words.

An update of the notes and an extraction are one request each, or one for both, of the session's own bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from nacre.devtools.replay.other_policies import filler
from nacre.devtools.replay.schema import SideRequest, WireRequest
from nacre.layers.l3_notes.layer import Notes
from nacre.layers.l3_notes.notes import NotesFile
from nacre.layers.l3_notes.policy import NotesSettings
from nacre.layers.l5_extract.extract import SOURCE, TOOLS, directive
from nacre.layers.l5_extract.policy import ExtractConditions, ExtractSettings, due
from nacre.loop.fork import PARTICIPANT, ForkResult, ForkTask, branch
from nacre.messages.blocks import JsonObject, Message
from nacre.messages.usage import Usage
from nacre.providers.choose import small_model_beside
from nacre.session.background import EXTRACTION_GRACE_SECONDS, Background
from nacre.session.forks import is_cheaper_aside, side_text
from nacre.session.session import Session
from nacre.tools.policy import Narrowing

NOTES_OUTPUT = 670
"""Output tokens of an update of the notes, in its edits."""
EXTRACT_OUTPUT = 150
"""Output tokens of an extraction: most find nothing, some write a memory."""
DEFINITIONS_TOKENS = 1_500
"""Definitions of the tools that a small model gets, which shares no cache."""
WORK = "extract"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideWorkSettings:
    """Which background work a replayed session does, and when."""

    notes: NotesSettings | None = field(default_factory=NotesSettings)
    """None: the model keeps no notes."""
    extract: ExtractSettings | None = field(default_factory=ExtractSettings)
    """None: the model extracts nothing."""
    small_model: str | Literal["vendor", "none"] = "vendor"
    """Another model that does it where that costs less, on what is new only; by default the vendor's."""
    idle_seconds: float | None = None


class RecordedClock:
    """Shows a fixed time until it is set; its ids count up."""

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


class RecordedBackground(Background):
    """Background tasks that begin when the recording's clock says so."""

    async def _run_deferred(self) -> None:
        """Do nothing: `SideWork.pause` starts what waits."""


class SideWork:
    """The notes and extractions of one replayed session."""

    def __init__(
        self,
        session: Session,
        clock: RecordedClock,
        folder: Path,
        settings: SideWorkSettings,
        add: Callable[[SideRequest], None],
    ) -> None:
        """`add` is called with each request."""
        self._session = session
        self._settings = settings
        self._clock = clock
        self._add = add
        self._file = NotesFile.of(folder)
        self._memory = folder / "memory"
        self._background = RecordedBackground(session)
        self._background.idle_seconds = settings.idle_seconds
        self._is_turn = False
        self._turns = 0
        self._messages = 0
        self._seen_to: str | None = None
        """Id of the last record that an extraction saw."""
        session.add_layers(self._background)
        if settings.notes is not None:
            notes = Notes(self._file, background=self._background, fork=self._fork, settings=settings.notes)
            session.add_layers(notes)

    async def begin_turn(self) -> None:
        await self._background.before_turn()
        self._is_turn = True
        self._messages += 1

    async def replied(self, message: Message) -> None:
        """Follow a reply: notes near a compaction, and after the last reply of a turn an extraction."""
        self._messages += 1
        if not message.tool_calls:
            await self._background.after_turn()
            self._is_turn = False
            self._turns += 1
            if self._settings.extract is not None:
                conditions = ExtractConditions(is_answered=True, has_news=True, turns=self._turns)
                work = partial(self._extract, self._messages)
                can_wait = not due(conditions, self._settings.extract)
                self._background.defer(WORK, work, can_wait=can_wait, grace=EXTRACTION_GRACE_SECONDS)
        await self._settle()

    async def pause(self, until: datetime) -> None:
        """Start what waits if the pause until then is long enough."""
        touched_at = self._session.warmth.touched_at
        if touched_at is None or self._is_turn:
            return
        begins = touched_at + timedelta(seconds=self._background.pause_seconds)
        if begins < until:
            self._clock.at = max(self._clock.at, begins)
            self._background.start_deferred()
            await self._settle()

    async def end(self, *, waits_for_pause: bool) -> None:
        """End the session: after a pause, or at once with what is worth a wait."""
        if waits_for_pause:
            await self.pause(self._clock.at + timedelta(days=1))
        await self._background.drain()

    async def _settle(self) -> None:
        for name in self._background.running():
            await self._background.wait(name)
        await self._background.flush()

    async def _extract(self, messages: int) -> None:
        self._turns = 0
        self._messages -= messages
        seen_to = self._seen_to
        self._seen_to = self._session.view.items[-1].record_id
        access = Narrowing(tools=TOOLS, writes_in=(self._memory,))
        await self._fork(
            ForkTask(
                source=SOURCE,
                directive=directive(self._memory, "", count=messages),
                access=access,
                ends_with_edits=True,
                view=self._session.view,
                seen_to=seen_to,
            )
        )

    async def _fork(self, task: ForkTask) -> ForkResult:
        participant = PARTICIPANT.get()
        if participant is not None:
            return await participant.run(task, self._send)
        return await self._send(task)

    def _small_model(self, task: ForkTask) -> str | None:
        """Return the small model that does a task; None if a fork does it."""
        named = self._settings.small_model
        model = self._session.base.model
        found = small_model_beside(model) if named == "vendor" else named
        if found in {None, "none", model} or not is_cheaper_aside(self._session, task, found):
            return None
        return found

    async def _send(self, task: ForkTask) -> ForkResult:
        """Add the request of a fork to the bill, and write what it would have written."""
        session = self._session
        view = task.view or session.view
        small = self._small_model(task)
        inside = session.profile.strips_old_thinking
        transcript = await branch(view, task, clock=self._clock, inside_results=inside)
        shared = len(session.request(transcript.view).messages) - 1
        request = session.request(transcript.view, branch_at=shared)
        is_notes = self._file.path in task.shown_files
        is_extract = isinstance(task.access, Narrowing) and self._memory in task.access.writes_in
        sent = WireRequest(
            at=self._clock.at, system=request.system, tools=request.tools, messages=request.messages
        )
        if small is not None:
            text = f"{filler(DEFINITIONS_TOKENS)}\n\n{side_text(task, view, small)}"
            asked: JsonObject = {"role": "user", "content": [{"type": "text", "text": text}]}
            sent = WireRequest(at=self._clock.at, messages=[asked])
        output = NOTES_OUTPUT * is_notes + EXTRACT_OUTPUT * is_extract
        self._add(SideRequest(kind="other", sent=sent, output_tokens=output, model=small))
        if small is None:
            session.touch_cache(self._clock.at)
        if is_notes:
            words = filler(NOTES_OUTPUT, ratio=session.calibration.ratio)
            self._file.write(f"{self._file.read().rstrip()}\n- {words}\n")
        return ForkResult(source=task.source, replies=(), usage=Usage(), first=Usage(), view=transcript.view)
