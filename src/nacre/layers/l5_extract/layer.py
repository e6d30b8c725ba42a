"""Layer 5 in a session: after a turn, extract memories from its messages in the background (E1 to E8).

One run at a time; of requests that come meanwhile, the newest waits. The cursor moves when a run has ended
well, and is recorded in the log at the next boundary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from nacre.errors import NacreError, StoreError
from nacre.layers.l5_extract.by_rule import stated_facts
from nacre.layers.l5_extract.extract import (
    ExtractResult,
    Hidden,
    SavedMemories,
    changes_by_rule,
    extract_with_model,
    memory_manifest,
    nothing_hidden,
    save_changes,
)
from nacre.layers.l5_extract.judge import Judge, NewMessages, has_news, messages_since
from nacre.layers.l5_extract.policy import EXTRACT, ExtractConditions, ExtractSettings, due
from nacre.loop.fork import FORK, SOURCE, Fork
from nacre.memory.files.transaction import pick_up
from nacre.memory.memory import Memory
from nacre.memory.tools import OriginOf, by_agent
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
WRITTEN_BY_AGENT = "the agent wrote memories itself"
MAX_COMMITS = 200
"""The newest commits that are searched for changes of the agent; one turn does not make more."""
_MEMORY_TOOLS = frozenset({"correct", "forget", "remember"})
_READ_ONLY = READERS | {"Pin", "TaskList", "WebFetch", "recall"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractConfig:
    """The memories to write, and how."""

    memories: Sequence[Memory]
    """The memories to write: the team's, if there is one, before the project's, which it lies in."""
    others: Sequence[Memory] = ()
    """Memories that only the agent writes to."""
    fork: Fork | None = None
    """None: extract by rule."""
    origin_of: OriginOf = by_agent
    hidden: Hidden = nothing_hidden
    grounds: bool = True
    """Whether claims are checked against the messages."""


class Extract(Layer):
    """Extracts memories from one session."""

    log_kinds = {CURSOR: "last", EXTRACTION: "drop"}  # without the cursor everything would be read again (E2)

    def __init__(
        self,
        session: Session,
        background: Background,
        config: ExtractConfig,
        settings: ExtractSettings = EXTRACT,
    ) -> None:
        self.settings = settings
        self.last: SavedMemories | None = None
        """The result of the last run that found something."""
        self._session = session
        self._background = background
        self._config = config
        self._turns = 0
        self._waiting: View | None = None
        self._is_resting = False
        note = session.view.last_noted(CURSOR)
        self._cursor = str(note.fact("covers")) if note else None
        commits = note.fact("commits") if note else None
        noted = commits if isinstance(commits, dict) else {}
        self._heads = {
            one: str(noted.get(str(one.location.directory)) or _newest_commit(one))
            for one in (*config.memories, *config.others)
        }
        """The newest commit of each memory when the cursor was set."""

    async def after_turn(self) -> None:
        """Start a run if one is due (E1)."""
        view = self._session.view
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
        if news and self._background.is_running(WORK):
            # The newest request includes the others, and its run does not wait for more turns (E4).
            self._waiting = view
            self._turns = 0
        elif due(conditions, self.settings):
            self._turns = 0
            self._background.start(WORK, self._work(view), grace=EXTRACTION_GRACE_SECONDS, label=PROGRESS)

    async def _work(self, view: View) -> None:
        """Run once, and again for the messages that came meanwhile."""
        self._waiting = None
        following: View | None = view
        while following is not None:
            try:
                await self._run(following)
            except NacreError:
                if self._waiting is None:
                    raise
            following = self._waiting
            self._waiting = None

    async def _run(self, view: View) -> None:
        begun = self._session.clock.seconds()
        messages = messages_since(view, self._cursor)
        if not messages.quotes:
            self._advance(messages)
            return
        if await self._has_agent_written(messages):
            self._report(messages, begun, skipped=WRITTEN_BY_AGENT)
            self._advance(messages)
            return
        result = await self._extract(view, messages)
        saved = await save_changes(result.changes, mode=self.settings.mode, session=self._session.id)
        if saved.files:
            self.last = saved
            self._session.notify(saved.line)
        self._report(messages, begun, result=result, saved=saved)
        self._advance(messages)

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
                if commit.author == "agent" and commit.session == self._session.id:
                    return True
                if commit.author == "unconfirmed" and has_shell:
                    return True
        return False

    async def _extract(self, view: View, messages: NewMessages) -> ExtractResult:
        config = self._config
        clock = self._session.clock
        memory = config.memories[-1]
        manifest, names = await memory_manifest(config.memories, config.hidden)
        zone = clock.now().astimezone().tzinfo
        assert zone is not None, "a local time has a zone"
        judge = Judge(
            messages=messages,
            session=self._session.id,
            now=clock.now(),
            zone=zone,
            origin_of=config.origin_of,
            names=names,
            grounds=config.grounds,
        )
        if config.fork is None:
            facts = await asyncio.to_thread(stated_facts, messages.quotes, zone=zone)
            return ExtractResult(
                changes=await changes_by_rule(memory, facts, judge, session=self._session.id)
            )
        return await extract_with_model(
            view,
            config.memories,
            manifest=manifest,
            fork=config.fork,
            judge=judge,
            max_rounds=self.settings.max_rounds,
        )

    def _advance(self, messages: NewMessages) -> None:
        """Move the cursor behind these messages."""
        self._cursor = messages.last
        self._heads = {one: _newest_commit(one) for one in self._heads}
        commits: JsonObject = {str(one.location.directory): at for one, at in self._heads.items()}
        facts: JsonObject = {"covers": messages.last, "commits": commits}
        clock = self._session.clock
        self._background.record(Noted(id=clock.new_id(), at=clock.now(), kind=CURSOR, facts=facts))

    def _report(
        self,
        messages: NewMessages,
        begun: float,
        *,
        result: ExtractResult | None = None,
        saved: SavedMemories | None = None,
        skipped: str = "",
    ) -> None:
        """Record the result of a run in the log, for statistics (E6)."""
        facts: JsonObject = {
            "messages": messages.count,
            "seconds": round(self._session.clock.seconds() - begun, 3),
            "by": "model" if self._config.fork else "rule",
            "mode": self.settings.mode,
        }
        if skipped:
            facts["skipped"] = skipped
        if result is not None and result.forked is not None:
            facts["usage"] = result.forked.usage.as_json()
            facts["rounds"] = len(result.forked.replies)
            facts["denials"] = result.forked.denials
        if result is not None and saved is not None:
            facts |= {
                "files": [*saved.files],
                "saved": 0 if saved.is_proposed else len(saved.files),
                "team_saved": 0 if saved.is_proposed else saved.team,
                "commits": [commit for _, commit in saved.commits],
                "rejected": [*result.rejected],
            }
        clock = self._session.clock
        self._background.record(Noted(id=clock.new_id(), at=clock.now(), kind=EXTRACTION, facts=facts))

    def _rest(self, failures: int) -> None:
        if not self._is_resting:
            self._is_resting = True
            why = next((one.error for one in reversed(self._background.outcomes) if one.name == WORK), "")
            self._session.notify(RESTING.format(failures=failures, why=why))


def _newest_commit(memory: Memory) -> str:
    try:
        return History(memory.location.history).newest
    except StoreError:
        return ""
