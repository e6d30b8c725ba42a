"""Layer 5 in a session: when a turn has ended, what it taught is drawn into memory (E1 to E8).

One run at a time, and only the newest request waits. The cursor says how far it came; it moves when a run
has ended well, and stands in the log from the next boundary on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import TypeAlias

from nacre.errors import NacreError, StoreError
from nacre.layers.l5_extract.by_rule import Found, found
from nacre.layers.l5_extract.conversation import has_news, heard_since
from nacre.layers.l5_extract.extract import Extracted, Stock, extract
from nacre.layers.l5_extract.judging import Heard, Judge
from nacre.layers.l5_extract.policy import NACRE, ExtractSettings, Moment, due
from nacre.layers.l5_extract.rule_changes import ruled
from nacre.layers.l5_extract.saving import Hidden, Kept, kept, manifest_of, nothing_hidden
from nacre.loop.fork import FORK, SOURCE, Fork
from nacre.memory.files.transaction import pick_up
from nacre.memory.memory import Memory
from nacre.memory.tools import OriginOf, by_agent
from nacre.messages.blocks import JsonObject
from nacre.messages.facts import UserQuote
from nacre.messages.records import Noted
from nacre.messages.view import View
from nacre.session.background import EXTRACTION_GRACE_SECONDS, Background
from nacre.session.layer import Layer
from nacre.session.session import Session
from nacre.store.history import History
from nacre.tools.rules import EDITORS, READERS
from nacre.tools.shell import explain

CURSOR = "extract_cursor"
"""The kind of note that says up to which record memories were drawn; a compaction carries it."""
EXTRACTION = "extraction"
"""The kind of note that says what a run came to."""
WORK = "extract"
"""Its name among what runs in the background."""
TOLD = "remembering what was said"
RESTING = (
    "Memories are no longer drawn from this session, because {failures} attempts in a row failed ({why}); "
    "what you ask to be remembered still is."
)
OWN = "the agent wrote memories itself"

Find = Callable[[Sequence[UserQuote], tzinfo], list[Found]]


def by_rules(words: Sequence[UserQuote], zone: tzinfo) -> list[Found]:
    return found(words, zone=zone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What memories are drawn with, and into."""

    memories: Sequence[Memory]
    """What is written: the team's, if there is one, before the project's, which it lies in."""
    others: Sequence[Memory] = ()
    """What the agent may write to, but nobody does by himself."""
    fork: Fork | None = None
    """None: there is no model, and rules do it."""
    find: Find = by_rules
    origin_of: OriginOf = by_agent
    hidden: Hidden = nothing_hidden
    grounds: bool = True


class Extract(Layer):
    """Draws memories from one session."""

    log_kinds = {CURSOR: "last", "extraction": "drop"}  # else all that is kept would be looked at again (E2)

    def __init__(
        self, session: Session, background: Background, means: Means, settings: ExtractSettings = NACRE
    ) -> None:
        self.settings = settings
        self.last: Kept | None = None
        """What the last run that found something left behind."""
        self._session = session
        self._background = background
        self._means = means
        self._turns = 0
        self._waiting: View | None = None
        self._is_resting = False
        note = session.view.last_noted(CURSOR)
        self._cursor = str(note.fact("covers")) if note else None
        self._heads: Heads = heads_of([*means.memories, *means.others], note)

    async def after_turn(self) -> None:
        """A turn has ended by itself, stop hooks included: begin a run where one is due (E1)."""
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
        moment = Moment(is_answered=True, has_news=news, turns=self._turns, failures=failures)
        if news and self._background.is_running(WORK):
            # The newest request holds the others, and its run does not wait for more turns (E4).
            self._waiting = view
            self._turns = 0
        elif due(moment, self.settings):
            self._turns = 0
            self._background.start(WORK, self._work(view), grace=EXTRACTION_GRACE_SECONDS, told=TOLD)

    async def _work(self, view: View) -> None:
        """One run, and a trailing one for what was said meanwhile."""
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
        heard = heard_since(view, self._cursor)
        if not heard.words:
            self._advance(heard)
            return
        if await wrote_itself(heard, self._heads, session=self._session.id):
            self._report(heard, begun, skipped=OWN)
            self._advance(heard)
            return
        done = await self._extracted(view, heard)
        left = await kept(done.changes, mode=self.settings.mode, session=self._session.id)
        if left.files:
            self.last = left
            self._session.notify(left.line)
        self._report(heard, begun, done=done, left=left)
        self._advance(heard)

    async def _extracted(self, view: View, heard: Heard) -> Extracted:
        means = self._means
        clock = self._session.clock
        memory = means.memories[-1]
        manifest, names = await manifest_of(means.memories, means.hidden)
        zone = clock.now().astimezone().tzinfo
        assert zone is not None, "a local time has a zone"
        judge = Judge(
            heard=heard,
            session=self._session.id,
            now=clock.now(),
            zone=zone,
            origin_of=means.origin_of,
            names=names,
            grounds=means.grounds,
        )
        if means.fork is None:
            new = await asyncio.to_thread(means.find, heard.words, zone)
            return Extracted(changes=await ruled(memory, new, judge, session=self._session.id))
        scratch = memory.location.cache / WORK / self._session.id
        stock = Stock(memories=means.memories, manifest=manifest, scratch=scratch)
        return await extract(view, stock, fork=means.fork, judge=judge, settings=self.settings)

    def _advance(self, heard: Heard) -> None:
        """From here on only what comes after counts as new."""
        self._cursor = heard.last
        self._heads = heads_of(list(self._heads))
        commits: JsonObject = {str(one.location.directory): at for one, at in self._heads.items()}
        facts: JsonObject = {"covers": heard.last, "commits": commits}
        clock = self._session.clock
        self._background.record(Noted(id=clock.new_id(), at=clock.now(), kind=CURSOR, facts=facts))

    def _report(
        self,
        heard: Heard,
        begun: float,
        *,
        done: Extracted | None = None,
        left: Kept | None = None,
        skipped: str = "",
    ) -> None:
        """What a run came to, for the log and for statistics (E6)."""
        facts: JsonObject = {
            "messages": heard.count,
            "seconds": round(self._session.clock.seconds() - begun, 3),
            "by": "model" if self._means.fork else "rule",
            "mode": self.settings.mode,
        }
        if skipped:
            facts["skipped"] = skipped
        if done is not None and done.forked is not None:
            facts["usage"] = done.forked.usage.as_json()
            facts["rounds"] = len(done.forked.replies)
            facts["denials"] = done.forked.denials
        if done is not None and left is not None:
            facts |= {
                "files": [*left.files],
                "saved": 0 if left.is_proposed else len(left.files),
                "team_saved": 0 if left.is_proposed else left.team,
                "commits": [commit for _, commit in left.where],
                "rejected": [*done.rejected],
            }
        clock = self._session.clock
        self._background.record(Noted(id=clock.new_id(), at=clock.now(), kind=EXTRACTION, facts=facts))

    def _rest(self, failures: int) -> None:
        if not self._is_resting:
            self._is_resting = True
            why = next((one.error for one in reversed(self._background.outcomes) if one.name == WORK), "")
            self._session.notify(RESTING.format(failures=failures, why=why))


Heads: TypeAlias = "dict[Memory, str]"
"""The newest commit of each memory when the cursor was set."""
MAX_COMMITS = 200
"""So many changes are looked through: one turn does not make more, and a strange history must not hold us."""
_MEMORY = frozenset({"correct", "forget", "remember"})
_HARMLESS = READERS | {"Pin", "TaskList", "WebFetch", "recall"}


def heads_of(memories: Sequence[Memory], note: Noted | None = None) -> Heads:
    """Where the histories stand now, or stood when the note was written."""
    noted = note.fact("commits") if note else None
    known = noted if isinstance(noted, dict) else {}
    return {one: str(known.get(str(one.location.directory)) or _newest(one)) for one in memories}


async def wrote_itself(heard: Heard, heads: Heads, *, session: str) -> bool:
    """Whether one of the calls that were heard changed a memory."""
    suspects = [name for name, command in heard.calls if not _only_reads(name, command)]
    if not suspects:
        return False
    # A shell leaves no name in the history; what changed beside it while it ran may be its doing.
    has_shell = any(name not in EDITORS | _MEMORY for name in suspects)
    for memory, head in heads.items():
        is_there = memory.location.directory.is_dir()
        if is_there and await _has_written(memory, head, session=session, has_shell=has_shell):
            return True
    return False


async def _has_written(memory: Memory, head: str, *, session: str, has_shell: bool) -> bool:
    await pick_up(memory.location, clock=memory.clock)
    for commit in await memory.log(limit=MAX_COMMITS):
        if commit.id == head:
            return False
        if commit.author == "agent" and commit.session == session:
            return True
        if commit.author == "unconfirmed" and has_shell:
            return True
    return False


def _only_reads(name: str, command: str) -> bool:
    return name in _HARMLESS or (name == "Bash" and explain(command).read_only)


def _newest(memory: Memory) -> str:
    try:
        return History(memory.location.history).newest
    except StoreError:
        return ""
