"""Layer 3: keeps running notes of a session, written by a fork or by rule (C14, C17).

Model-written notes know the last record they cover. That is noted in the log, and a compaction must carry it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from nacre.errors import StoreError
from nacre.layers.l3_notes.by_rule import by_rule
from nacre.layers.l3_notes.notes import (
    NotesFile,
    is_by_rule,
    kept_from,
    marked,
    notes_draft,
    records_after,
    update,
)
from nacre.layers.l3_notes.policy import NACRE, NotesInputs, NotesSettings, due, fitted
from nacre.layers.l3_notes.template import NotesForm, is_bare
from nacre.loop.fork import Fork
from nacre.messages.blocks import JsonObject, ToolCall
from nacre.messages.draft import Draft
from nacre.messages.events import Reply
from nacre.messages.facts import Facts
from nacre.messages.records import Compacted, Noted, Said, Undone
from nacre.messages.view import View
from nacre.session.background import Background
from nacre.session.layer import Attachment, Layer
from nacre.session.session import Session
from nacre.tools.tasks import TASKS, restored

NOTES = "notes"
"""Kind of the log note that says what the notes cover: covers, tokens, by, cut. A compaction carries it."""


WORK = "notes"
"""Name of an update among background tasks."""


RESTING = (
    "Session notes are no longer brought up to date, because {failures} updates in a row failed; "
    "a compaction will be made without them."
)


CUT = (
    "Session notes grew beyond their limits, because the model did not condense them; the oldest lines of "
    "their longest sections are removed. The conversation itself is in the log."
)


UNWRITABLE = "Session notes cannot be kept: {why}"


class Notes(Layer):
    """The notes of one session."""

    log_kinds = {NOTES: "last"}  # the next update of the notes goes on from there

    def __init__(
        self,
        file: NotesFile | None = None,
        *,
        background: Background | None = None,
        fork: Fork | None = None,
        form: NotesForm | None = None,
        settings: NotesSettings = NACRE,
    ) -> None:
        """Write notes to a file; without one, to the session's folder, or none if it is not on disk.

        A fork writes them with a model, in the background; without one, rules write them.
        """
        if fork is not None and background is None:
            raise TypeError("Notes with a fork needs background= to run it")
        self.gives_drafts = True
        """Whether compactions use the notes."""
        self.file = file
        self.settings = settings
        self._background = background
        self._fork = fork
        self._form = form or NotesForm()
        self._facts = Facts()
        self._folded = 0
        self._notified: set[str] = set()
        self._begun: float | None = None
        self._is_pause = True
        self._covers: str | None = None
        """Id of the last record that model-written notes cover."""
        self._since_tokens: int | None = None
        self._calls = 0

    def open(self, session: Session) -> None:
        super().open(session)
        if self.file is None and session.folder is not None:
            self.file = NotesFile.of(session.folder)
        last = session.view.last_noted(NOTES)
        if last is None:
            return
        self._covers = str(last.fact("covers"))
        behind = (one for one in records_after(session.view, self._covers) if isinstance(one, Said))
        self._calls = sum(isinstance(block, ToolCall) for one in behind for block in one.blocks)
        # The context size when the notes were written, or after a later compaction.
        compacted = next((one for one in reversed(session.view.records) if isinstance(one, Compacted)), None)
        left = compacted.post_tokens if compacted is not None and compacted.at >= last.at else None
        sizes = [one for one in (last.fact("tokens"), left) if isinstance(one, int)]
        self._since_tokens = min(sizes) if sizes else None

    def on_reply(self, reply: Reply) -> None:
        """Let an update begin in the next pause if one is due; called after every reply (C14)."""
        calls = len(reply.message.tool_calls)
        self._calls = self._calls + calls
        self._is_pause = not calls
        if not (self._fork and self._background and self.file):
            return
        is_begun = self.is_under_way and not self._background.is_deferred(WORK)
        if self._is_due(is_running=is_begun):
            work = partial(self._follow, self._fork, self._background, self.file)
            self._background.defer(WORK, work, can_wait=True, label="finishing the session's notes")

    @property
    def is_under_way(self) -> bool:
        """Whether an update by a model is running or about to start."""
        return self._background is not None and self._background.is_running(WORK)

    @property
    def under_way_seconds(self) -> float:
        """Seconds since the running update began; 0 without one."""
        return 0.0 if self._begun is None else self.session.clock.seconds() - self._begun

    async def wait(self, seconds: float | None = None) -> None:
        """Wait for a running update, up to the limit; never for one that hangs."""
        if self._background is None or self._background.is_deferred(WORK):
            return
        if self.under_way_seconds < self.settings.stale_seconds:
            await self._background.wait(WORK, self.settings.wait_seconds if seconds is None else seconds)

    def draft(self, view: View) -> Draft | None:
        """Return model-written notes as a draft; None if the view does not contain what they cover.

        Notes by rule say no more than what every compaction adds from the log.
        """
        file = self.file
        is_covered = self._covers is not None and view.has_record(self._covers)
        if not self.gives_drafts or file is None or self._covers is None or not is_covered:
            return None
        try:
            text = file.read()
        except StoreError:
            return None
        if is_by_rule(text):
            return None
        where = str(file.path)
        draft = notes_draft(text, self._form.template, self._covers, self._fitted_settings, where=where)
        if draft is None or draft.covers is None:
            return draft
        return replace(draft, place=kept_from(view, draft.covers, self.settings))

    async def finish_draft(self) -> None:
        if self.gives_drafts:
            await self.wait()

    async def before_stop(self, answer: str, *, continued: bool) -> Attachment | None:
        """At the end of a turn, update notes that only rules have written; never continues the turn."""
        is_begun = self.is_under_way and not (self._background and self._background.is_deferred(WORK))
        if self.file is not None and self._covers is None and not is_begun:
            try:
                await asyncio.to_thread(self._write_by_rule, self.file, self.session.view)
            except StoreError as error:
                self._notify_once(UNWRITABLE.format(why=error))
        return None

    def _write_by_rule(self, file: NotesFile, view: View) -> None:
        there = file.read()
        template = self._form.template
        if not (is_by_rule(there) or is_bare(there, template)):
            return
        records = view.records[self._folded :]
        if self._folded and not any(isinstance(one, Undone) for one in records):
            self._facts = self._facts.after(*records)
        else:
            self._facts = Facts.of(view.records)
        self._folded = len(view.records)
        note = view.last_noted(TASKS)
        tasks = restored(note.fact("tasks")).tasks if note else ()
        text = by_rule(self._facts, tasks, template=template, settings=self.settings)
        if text and (text := marked(text)) != there:
            file.write(text)

    def _is_due(self, *, is_running: bool) -> bool:
        if self._is_pause and self.session.is_one_shot:
            return False
        tokens = self.session.tokens
        failures = self._background.failures(WORK) if self._background else 0
        if self._since_tokens is not None:
            # Tokens that replace compacted or cleared ones are not growth.
            self._since_tokens = min(self._since_tokens, tokens)
        if failures >= self.settings.max_failures:
            self._notify_once(RESTING.format(failures=failures))
        moment = NotesInputs(
            tokens=tokens,
            head_tokens=self.session.calibration.base_tokens,
            limit_tokens=self.session.thresholds.autocompact,
            since_tokens=self._since_tokens,
            calls=self._calls,
            is_pause=self._is_pause,
            is_running=is_running,
            failures=failures,
            has_price=self.session.profile.tier(tokens) is not None,
        )
        return due(moment, self.settings)

    async def _follow(self, fork: Fork, background: Background, file: NotesFile) -> None:
        """Run an update, and others while a new one is due and none has to wait for a pause."""
        background.record(await self._update(fork, file))
        while self._is_due(is_running=False) and not background.pause_seconds:
            background.record(await self._update(fork, file))

    async def _update(self, fork: Fork, file: NotesFile) -> Noted:
        """Run one update and return the note about what it covers."""
        session = self.session
        view = self.session.view
        # Count from the request, so that a failed update is not repeated with the next reply.
        self._since_tokens = session.tokens
        self._calls = 0
        self._begun = session.clock.seconds()
        tokens = self._since_tokens
        try:
            done = await update(
                view,
                file,
                fork=fork,
                form=self._form,
                covers=self._covers,
                settings=self._fitted_settings,
            )
        finally:
            self._begun = None
        self._covers = done.covers
        clock = session.clock
        facts: JsonObject = {"covers": done.covers, "tokens": tokens, "by": "model"}
        if done.cut:
            facts["cut"] = [heading.lstrip("# ") for heading in done.cut]
            self._notify_once(CUT)
        return Noted(id=clock.new_id(), at=clock.now(), kind=NOTES, facts=facts)

    @property
    def _fitted_settings(self) -> NotesSettings:
        base = self.session.calibration.base_tokens
        return fitted(self.settings, room=self.session.thresholds.autocompact - base)

    def _notify_once(self, line: str) -> None:
        if line not in self._notified:
            self._notified.add(line)
            self.session.notify(line)
