"""Layer 5 in a session: after a turn, extract memories from its messages in the background (E1 to E8).

One run at a time; of requests that come meanwhile, the newest waits. The cursor moves when a run has ended
well, and is recorded in the log at the next boundary.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from nacre.errors import NacreError, StoreError, VersionConflict
from nacre.layers.l5_extract.by_rule import stated_facts
from nacre.layers.l5_extract.extract import (
    ExtractResult,
    Hidden,
    SavedMemories,
    changes_by_rule,
    extract_with_model,
    has_only_invalid_calls,
    memory_manifest,
    nothing_hidden,
    save_changes,
)
from nacre.layers.l5_extract.judge import Judge, NewMessages, has_news, messages_since
from nacre.layers.l5_extract.policy import EXTRACT, ExtractConditions, ExtractSettings, due
from nacre.loop.fork import FORK, SOURCE, Fork
from nacre.memory.checks.statements import Statements, lost_sentences
from nacre.memory.files.transaction import pick_up
from nacre.memory.format.entry import read_entry
from nacre.memory.memory import Memory
from nacre.memory.tools import BY_AGENT, OriginJudge
from nacre.messages.blocks import JsonObject
from nacre.messages.records import Noted
from nacre.messages.view import View
from nacre.session.background import EXTRACTION_GRACE_SECONDS, Background
from nacre.session.layer import Layer
from nacre.session.session import Session
from nacre.store.history import History
from nacre.tools.rules import EDITORS, READERS
from nacre.tools.shell import explain

CURSOR = "extract_cursor"
"""The kind of log note with the last record that was extracted from; a compaction carries it."""
EXTRACTION = "extraction"
"""The kind of log note with the result of a run."""
WORK = "extract"
"""The name of the background task."""
PROGRESS = "remembering what was said"
RESTING = (
    "Memories are no longer drawn from this session, because {failures} attempts in a row failed ({why}); "
    "what you ask to be remembered still is."
)
WRITTEN_MEANWHILE = (
    "another session changed the same memories meanwhile; what was said here is extracted once more"
)
NOT_SAVED = "what was said last is not saved to memory: {why}"
ASKED = re.compile(
    r"\b(?:remember|memori[sz]e|don['’]t forget|do not forget|keep (?:(?:that|this|it) )?in mind"
    r"|for the record|note (?:that|this)|(?:note|write|jot) it down"
    r"|(?:write|jot) (?:that|this) down|(?:make|take) a note"
    r"|(?:in|to) (?:your )?memory|merk dir|notier dir|vergiss das nicht|recuérdalo|anótalo)\b"
    r"|记住|记得|记一下|记下|别忘|不要忘|请记|覚えて|メモして",
    re.IGNORECASE,
)
"""How people ask for a memory outright."""
WRITTEN_BY_AGENT = "the agent wrote memories itself"
MAX_COMMITS = 200
"""The newest commits that are searched for changes of the agent; one turn does not make more."""
_MEMORY_TOOLS = frozenset({"correct", "forget", "remember"})
_READ_ONLY = READERS | {"Pin", "TaskList", "WebFetch", "recall", "search_sessions"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractConfig:
    """The memories to write, and how."""

    memories: Sequence[Memory]
    """The memories to write: the team's, if there is one, before the project's, which it lies in."""
    others: Sequence[Memory] = ()
    """Memories that only the agent writes to."""
    fork: Fork | None = None
    """None: extract by rule."""
    origins: OriginJudge = BY_AGENT
    hidden: Hidden = nothing_hidden
    grounds: bool = True
    """Whether claims are checked against the messages."""


class Extract(Layer):
    """Extracts memories from one session."""

    log_kinds = {CURSOR: "last", EXTRACTION: "drop"}  # without the cursor everything would be read again (E2)

    def __init__(
        self,
        background: Background,
        config: ExtractConfig,
        settings: ExtractSettings = EXTRACT,
    ) -> None:
        self.settings = settings
        self.last: SavedMemories | None = None
        """The result of the last run that found something."""
        self._background = background
        self._config = config
        self._turns = 0
        self._waiting: View | None = None
        self._is_resting = False

    def open(self, session: Session) -> None:
        super().open(session)
        note = session.view.last_noted(CURSOR)
        self._cursor = str(note.fact("covers")) if note else None
        commits = note.fact("commits") if note else None
        noted = commits if isinstance(commits, dict) else {}
        self._heads = {
            one: str(noted.get(str(one.location.directory)) or _newest_commit(one))
            for one in (*self._config.memories, *self._config.others)
        }
        """The newest commit of each memory when the cursor was set."""

    async def after_turn(self) -> None:
        """Start a run if one is due (E1)."""
        view = self.session.view
        reply = view.last_reply
        if SOURCE.get() != "main" or view.last_noted(FORK) or reply is None or reply.tool_calls:
            return
        failures = self._background.failures(WORK)
        if failures >= self.settings.max_failures:
            self._rest(failures)
            return
        news = has_news(view.records, self._cursor)
        self._turns += news
        conditions = ExtractConditions(is_answered=True, has_news=news, turns=self._turns, failures=failures)
        is_begun = self._background.is_running(WORK) and not self._background.is_deferred(WORK)
        if news and is_begun:
            # The newest request includes the others, and its run does not wait for more turns (E4).
            self._waiting = view
            self._turns = 0
        elif news:
            is_due = due(conditions, self.settings)
            background = self._background
            waits = background.yields or (background.pause_seconds > 0 and not is_due)
            if waits and self._config.fork is not None and self.settings.mode == "auto":
                # Now, by rule: the model is asked later, perhaps not before the session ends.
                with suppress(NacreError):
                    await self._save_requested(messages_since(view, self._cursor))
            background.defer(
                WORK,
                partial(self._work, view),
                can_wait=self._config.fork is not None and not is_due,
                grace=EXTRACTION_GRACE_SECONDS,
                label=PROGRESS,
                in_haste=partial(self._run, view, by_rule=True),
            )

    async def run_now(self) -> SavedMemories:
        """Extract from the messages since the cursor, and wait for it."""
        before = self.last
        await self._run(self.session.view)
        return self.last if self.last is not None and self.last is not before else SavedMemories()

    async def _work(self, view: View) -> None:
        """Run once, and again for the messages that came meanwhile."""
        # A run that was interrupted begins again with the newest messages.
        following: View | None = self._waiting or view
        self._waiting = None
        self._turns = 0
        while following is not None:
            try:
                await self._run(following)
            except NacreError:
                if self._waiting is None:
                    raise
            following = self._waiting
            self._waiting = None

    async def _run(self, view: View, *, by_rule: bool = False) -> None:
        begun = self.session.clock.seconds()
        messages = messages_since(view, self._cursor)
        if not messages.quotes:
            self._advance(messages)
            return
        if await self._has_agent_written(messages):
            self._report(messages, begun, skipped=WRITTEN_BY_AGENT)
            self._advance(messages)
            return
        try:
            result, saved = await self._extract_and_save(view, messages, by_rule=by_rule)
        except NacreError as error:
            self._report(messages, begun, failed=type(error).__name__)
            raise
        if saved.files or saved.removed:
            self.last = saved
            self.session.notify(saved.line)
        for change in () if saved.is_proposed else result.changes:
            self._config.origins.saved(read_entry(change.file, change.after))
        self._report(messages, begun, result=result, saved=saved)
        places = [one.location.directory for one in self._config.memories]
        if not saved.files and has_only_invalid_calls(result, places):
            # Not done: the next run looks at these messages again.
            raise StoreError("the model made no valid call")
        if not by_rule:
            self._advance(messages)

    async def _extract_and_save(
        self, view: View, messages: NewMessages, *, by_rule: bool
    ) -> tuple[ExtractResult, SavedMemories]:
        """Extract and save; once more if another process changed the same files meanwhile."""
        for is_last in (False, True):
            result = await self._extract(view, messages, by_rule=by_rule)
            try:
                return result, await save_changes(
                    result.changes,
                    removed=result.removed,
                    mode=self.settings.mode,
                    session=self.session.id,
                )
            except VersionConflict as error:
                self.session.notify(NOT_SAVED.format(why=error) if is_last else WRITTEN_MEANWHILE)
                if is_last:
                    raise
        raise AssertionError("unreachable")

    async def _save_requested(self, messages: NewMessages) -> None:
        """Save what the person asked to be remembered, unless the agent did; a later run sees it saved."""
        asked = [one for one in messages.quotes if ASKED.search(one.text)]
        if not asked or await self._has_agent_written(messages):
            return
        _, names = await memory_manifest(self._config.memories, self._config.hidden)
        judge = self._judge(messages, names)
        facts = await asyncio.to_thread(stated_facts, asked, zone=judge.zone)
        memory = self._config.memories[-1]
        found = await changes_by_rule(memory, facts, judge, session=self.session.id)
        saved = await save_changes(found.changes, mode=self.settings.mode, session=self.session.id)
        if saved.files:
            self.last = saved
            self.session.notify(saved.line)
        for change in found.changes:
            self._config.origins.saved(read_entry(change.file, change.after))

    async def _has_agent_written(self, messages: NewMessages) -> bool:
        """Whether a tool call in these messages changed a memory."""
        writers = [
            name
            for name, command in messages.calls
            if name not in _READ_ONLY and not (name == "Bash" and explain(command).read_only)
        ]
        if not writers:
            return False
        # A shell leaves no name in the history; an unconfirmed change while it ran may be its work.
        has_shell = any(name not in EDITORS | _MEMORY_TOOLS for name in writers)
        for memory, head in self._heads.items():
            if not memory.location.directory.is_dir():
                continue
            await pick_up(memory.location, clock=memory.clock)
            for commit in await memory.log(limit=MAX_COMMITS):
                if commit.id == head:
                    break
                if commit.author == "agent" and commit.session == self.session.id:
                    return True
                if commit.author == "unconfirmed" and has_shell:
                    return True
        return False

    async def _extract(self, view: View, messages: NewMessages, *, by_rule: bool) -> ExtractResult:
        config = self._config
        memory = config.memories[-1]
        manifest, names = await memory_manifest(config.memories, config.hidden)
        judge = self._judge(messages, names)
        zone = judge.zone
        if config.fork is None or by_rule:
            facts = await asyncio.to_thread(stated_facts, messages.quotes, zone=zone)
            found = await changes_by_rule(memory, facts, judge, session=self.session.id)
            return ExtractResult(changes=found.changes, removed=found.removed, refusals=judge.refusals)
        result = await extract_with_model(
            view,
            config.memories,
            manifest=manifest,
            fork=config.fork,
            judge=judge,
            settings=self.settings,
        )
        # What the person asked to be remembered is not lost because a model saved nothing of it.
        asked = [one for one in messages.quotes if ASKED.search(one.text)]
        facts = await asyncio.to_thread(stated_facts, asked, zone=zone) if asked else []
        written = Statements(one.after.decode(errors="replace") for one in result.changes)
        missed = [one for one in facts if one.text and lost_sentences(one.text, now=written)]
        if not missed:
            return result
        found = await changes_by_rule(memory, missed, judge, session=self.session.id)
        files = {one.file for one in result.changes}
        more = [one for one in found.changes if one.file not in files]
        removed = [one for one in found.removed if one.file not in files]
        return replace(result, changes=[*result.changes, *more], removed=removed)

    def _judge(self, messages: NewMessages, names: tuple[str, ...]) -> Judge:
        now = self.session.clock.now()
        zone = now.astimezone().tzinfo
        assert zone is not None, "a local time has a zone"
        return Judge(
            messages=messages,
            session=self.session.id,
            now=now,
            zone=zone,
            origins=self._config.origins,
            names=names,
            grounds=self._config.grounds,
        )

    def _advance(self, messages: NewMessages) -> None:
        """Move the cursor behind these messages."""
        self._cursor = messages.last
        self._heads = {one: _newest_commit(one) for one in self._heads}
        commits: JsonObject = {str(one.location.directory): at for one, at in self._heads.items()}
        facts: JsonObject = {"covers": messages.last, "commits": commits}
        clock = self.session.clock
        self._background.record(Noted(id=clock.new_id(), at=clock.now(), kind=CURSOR, facts=facts))

    def _report(
        self,
        messages: NewMessages,
        begun: float,
        *,
        result: ExtractResult | None = None,
        saved: SavedMemories | None = None,
        skipped: str = "",
        failed: str = "",
    ) -> None:
        """Record the result of a run in the log, for statistics (E6)."""
        facts: JsonObject = {
            "messages": messages.count,
            "seconds": round(self.session.clock.seconds() - begun, 3),
            "by": "model" if self._config.fork and (result is None or result.forked) else "rule",
            "mode": self.settings.mode,
        }
        if skipped:
            facts["skipped"] = skipped
        if failed:
            facts["failed"] = failed
        if result is not None and result.forked is not None:
            facts["usage"] = result.forked.usage.as_json()
            facts["rounds"] = len(result.forked.replies)
            facts["denials"] = result.forked.denials
            facts["denied_writes"] = result.forked.denied_writes
        if result is not None and saved is not None:
            facts |= {
                "files": [*saved.files],
                "saved": 0 if saved.is_proposed else len(saved.files),
                "proposed": len(saved.files) if saved.is_proposed else 0,
                "team_saved": 0 if saved.is_proposed else saved.team,
                "commits": [commit for _, commit in saved.commits],
                "rejected": [*result.rejected],
                "refused": {**result.refusals},
            }
        clock = self.session.clock
        self._background.record(Noted(id=clock.new_id(), at=clock.now(), kind=EXTRACTION, facts=facts))

    def _rest(self, failures: int) -> None:
        if not self._is_resting:
            self._is_resting = True
            why = next((one.error for one in reversed(self._background.outcomes) if one.name == WORK), "")
            self.session.notify(RESTING.format(failures=failures, why=why))


def _newest_commit(memory: Memory) -> str:
    try:
        return History(memory.location.history).newest
    except StoreError:
        return ""
