"""One dream, from the lock to the commit: look, put in order on a copy, check, take over or drop (D6)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import NacreError, StoreError, VersionConflict
from nacre.layers.l6_dream import state as states
from nacre.layers.l6_dream.by_rule import Rules, by_rule
from nacre.layers.l6_dream.by_rule_index import index_all
from nacre.layers.l6_dream.check import Terms, problems
from nacre.layers.l6_dream.copy import Copy, Step, is_index
from nacre.layers.l6_dream.lock import Held, Lock
from nacre.layers.l6_dream.policy import DREAM, DreamSettings
from nacre.layers.l6_dream.snapshot import snapshot
from nacre.layers.l6_dream.state import Board, State
from nacre.layers.l6_dream.with_model import Dreamer, Order, dropped, with_model
from nacre.memory.checks.review import Proposal, propose
from nacre.memory.files.location import Location
from nacre.memory.files.transaction import Transaction, in_thread, transact
from nacre.memory.files.undo import reversed_text
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import Change
from nacre.memory.format.index import INDEX_FILE, Index
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Reply

POLL_SECONDS = 0.2
"""Between two looks at whether somebody wants the dream to end."""
MAX_PROPOSALS = 100
"""More than anybody reads through at once."""
LOCKED = "another process consolidates this memory right now; `nacre dream status` says which"


class DreamRejectedError(NacreError):
    """What a dream did may not be kept; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamConfig:
    """Everything a dream works with."""

    location: Location
    rules: Rules
    settings: DreamSettings = DREAM
    dreamer: Dreamer | None = None
    """None: by rule."""
    sessions: tuple[str, ...] = ()
    """Worked in since the last dream."""
    session: str = ""
    """Which one began it."""
    clock: Clock = SYSTEM_CLOCK
    watch: Watch | None = None
    on_state: Callable[[State], None] = field(default=lambda state: None)
    """Told whenever something is new, for whoever shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamOptions:
    """What whoever asks for a dream wants of it."""

    is_dry: bool = False
    """Change nothing: only say what would be changed."""
    is_unbraked: bool = False
    refuse: Callable[[Copy], frozenset[str]] | None = None
    """Shows the person what would be done; the files they want left as they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamResult:
    """What came of it."""

    state: State
    copy: Copy | None = None
    """What was done, with the files before and after."""

    def as_json(self) -> JsonObject:
        state = self.state
        return {
            "status": state.status,
            "phase": state.phase,
            "sessions": [*state.sessions],
            "changes": [*state.changes],
            "proposed": [*state.proposed],
            "commit": state.commit or None,
            "by": state.by,
            "error": state.error or None,
            "tokens": state.tokens,
        }


async def dream(night: DreamConfig, wish: DreamOptions | None = None) -> DreamResult:
    """Consolidate a memory directory once; every ending is a state, and only a cancel is raised."""
    return await _Run(night, wish or DreamOptions()).run()


class _Run:
    """A dream under way."""

    def __init__(self, night: DreamConfig, wish: DreamOptions) -> None:
        self.night = night
        self.wish = wish
        self.board = Board(night.location.cache)
        self.lock = Lock(night.location.directory, night.location.cache, clock=night.clock)
        by = night.dreamer.model if night.dreamer else "rules"
        self.state = states.begun(
            night.clock.new_id(), self.board.read(), at=night.clock.now(), by=by, sessions=night.sessions
        )
        # Real, because that is what tools are held to.
        self.folder = Path(os.path.realpath(self.board.folder)) / "work" / self.state.run / "memory"
        self.copy: Copy | None = None
        self.is_killed = False

    async def run(self) -> DreamResult:
        if self.wish.is_dry:
            await self._ended(self._worked(None))
            return self._dreamt()
        try:
            held = await asyncio.to_thread(self.lock.acquire)
        except StoreError as error:
            return DreamResult(state=self._failed(str(error), "failed"))
        if held is None:
            return DreamResult(state=self._failed(LOCKED, "skipped"))
        try:
            self._clean_up()
            self._tell(self.state)
            await self._ended(self._worked(held))
        finally:
            # What was done is done by now: what is left to do is small, and done whatever happens.
            self._settle(held)
        return self._dreamt()

    async def _ended(self, work: Coroutine[Any, Any, None]) -> None:
        """Run to the end, to the deadline, or to somebody's wish that it stop; says in the state which."""
        task: asyncio.Task[None] = asyncio.create_task(work, name="dream")
        until = self.night.clock.seconds() + self.night.settings.max_seconds
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=POLL_SECONDS)
                if not task.done() and self.board.is_to_stop(self.state.run):
                    self.is_killed = True
                    task.cancel()
                elif not task.done() and self.night.clock.seconds() >= until:
                    task.cancel()
            self._end(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            self.is_killed = True
            self._end(task)
            if self.state.status != "completed":
                self.state = self._failed("stopped before its end", "killed")
            raise

    def _end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() and self.state.commit:
            self.state = self._completed()
            return
        if task.cancelled():
            why = "killed" if self.is_killed else f"took longer than {self.night.settings.max_seconds:g} s"
            self.state = self._failed(why, "killed" if self.is_killed else "failed")
            return
        match task.exception():
            case None:
                self.state = self._completed()
            case VersionConflict() as error:
                self.state = self._failed(str(error), "put off")
            case NacreError() as error:
                self.state = self._failed(str(error), "failed")
            case error:
                # A background task's last word: a fault of ours must not look like a dream that never was.
                self.state = self._failed(f"{type(error).__name__}: {error}", "failed")

    async def _worked(self, held: Held | None) -> None:
        night = self.night
        wish = self.wish
        copy = await snapshot(night.location, is_look=wish.is_dry, clock=night.clock)
        self.copy = copy
        rules = replace(night.rules, is_unbraked=wish.is_unbraked)
        await asyncio.to_thread(by_rule, copy, rules)
        if night.dreamer is not None:
            await self._by_model(copy, night.dreamer, rules)
        else:
            await self._check(copy, None)
        if wish.refuse is not None:
            refused = await asyncio.to_thread(wish.refuse, copy)
            copy.revert(refused | set(filter(is_index, copy.now)))
            if rules.has_index:
                await asyncio.to_thread(index_all, copy, useful=rules.useful, with_logs=rules.is_daily)
            await self._check(copy, None)
        self._touch(copy)
        if wish.is_dry:
            return
        commit = await apply(
            night.location, copy, held=held, session=night.session, clock=night.clock, watch=night.watch
        )
        self.state = replace(self.state, commit=commit)
        await asyncio.to_thread(self._propose, copy)

    async def _by_model(self, copy: Copy, dreamer: Dreamer, rules: Rules) -> None:
        """The model's turn, and one more where something speaks against what it did."""
        terms = replace(
            self._terms(await asyncio.to_thread(dreamer.said)),
            outside=await asyncio.to_thread(dreamer.outside),
            before=dict(copy.now),
        )
        order = Order(
            folder=self.folder,
            today=self.night.clock.now().astimezone(rules.zone).date(),
            sessions=self.night.sessions,
            settings=self.night.settings,
            wrote=self._wrote,
            heard=self._heard,
        )
        wrong: list[str] = []
        for _ in range(2):
            forked = await with_model(copy, dreamer, order, wrong=wrong)
            terms = replace(terms, dropped=[*terms.dropped, *dropped(forked)])
            if rules.has_index:
                await asyncio.to_thread(index_all, copy, useful=rules.useful, with_logs=rules.is_daily)
            wrong = await asyncio.to_thread(problems, copy, terms)
            if not wrong:
                return
        raise DreamRejectedError(_listed(wrong))

    async def _check(self, copy: Copy, said: Sequence[str] | None) -> None:
        if wrong := await asyncio.to_thread(problems, copy, self._terms(said)):
            raise DreamRejectedError(_listed(wrong))

    def _terms(self, said: Sequence[str] | None) -> Terms:
        night = self.night
        return Terms(
            root=night.location.directory,
            today=night.clock.now().astimezone(night.rules.zone).date(),
            settings=night.settings,
            is_unbraked=self.wish.is_unbraked,
            said=said,
            has_index=night.rules.has_index,
        )

    def _touch(self, copy: Copy) -> None:
        steps = copy.told()
        for step in steps:
            self.state = states.touched(self.state, step.file)
        changes: list[JsonObject] = [
            {"file": step.file, "action": step.action, "reason": step.reason} for step in steps
        ]
        proposed: list[JsonObject] = [
            {"file": one.file, "action": "proposed", "reason": one.reason} for one in copy.proposals
        ]
        self._tell(replace(self.state, changes=tuple(changes), proposed=tuple(proposed[:MAX_PROPOSALS])))

    def _propose(self, copy: Copy) -> None:
        night = self.night
        for one in copy.proposals[:MAX_PROPOSALS]:
            made = Proposal(
                file=one.file,
                before=one.before,
                after=one.after,
                author="dream",
                reason=one.reason,
                session=night.session,
            )
            propose(night.location, made, clock=night.clock)

    def _wrote(self, file: str) -> None:
        self._tell(states.touched(self.state, file))

    def _heard(self, reply: Reply) -> None:
        tools = Counter(call.name for call in reply.message.tool_calls)
        used = reply.usage
        self._tell(states.heard(self.state, reply.message.text, tools, used.total))
        if self.state.tokens > self.night.settings.max_tokens:
            raise DreamRejectedError(
                f"the dream used {self.state.tokens:,} tokens, more than its budget "
                f"of {self.night.settings.max_tokens:,}"
            )

    def _tell(self, state: State) -> None:
        self.state = state
        if not self.wish.is_dry:
            self.board.write(state)
        self.night.on_state(state)

    def _settle(self, held: Held) -> None:
        try:
            held.finish() if self.state.status == "completed" else held.give_back()
        finally:
            if self.state.status == "running":
                self.state = self._failed("stopped before its end", "killed")
            self._clean_up()
            self._tell(self.state)

    def _clean_up(self) -> None:
        """Also what a killed process left: whoever holds the lock is alone here."""
        shutil.rmtree(self.board.folder / "work", ignore_errors=True)
        with contextlib.suppress(OSError):
            (self.board.folder / states.KILL).unlink(missing_ok=True)

    def _completed(self) -> State:
        at = self.night.clock.now().isoformat()
        return replace(self.state, status="completed", ended=at, failures=0, failed_on="")

    def _failed(self, why: str, status: states.Status) -> State:
        return states.failed(self.state, why, at=self.night.clock.now(), status=status)

    def _dreamt(self) -> DreamResult:
        return DreamResult(state=self.state, copy=self.copy)


def recover(location: Location, *, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Settle what a process left that died in mid-dream: its lock, and what its state says."""
    board = Board(location.cache)
    lock = Lock(location.directory, location.cache, clock=clock)
    state = board.read()
    is_recovered = lock.recover()
    if state.is_abandoned:
        found = lock.read()
        is_done = found is not None and (found[0].pid, found[0].start) == (state.pid, state.start)
        ended = replace(state, status="completed", failures=0, failed_on="")
        board.write(ended if is_done else states.failed(state, "its process is gone", at=clock.now()))
    return is_recovered


def _listed(wrong: Sequence[str]) -> str:
    return "; ".join(wrong)


MAX_REASONS = 200
"""Steps told in the commit, which `git log` shows whole; the rest is counted."""


async def apply(
    location: Location,
    copy: Copy,
    *,
    held: Held | None,
    session: str = "",
    clock: Clock = SYSTEM_CLOCK,
    watch: Watch | None = None,
) -> str:
    """Make it so, and return the commit; `VersionConflict` where somebody else's edits stand in the way."""
    changed = copy.changed
    if not changed:
        return ""
    change = Change(author="dream", reason=reason_of(copy.told()), session=session)
    tx: Transaction | None = None
    try:
        async with transact(location, change, clock=clock, watch=watch) as tx:
            if held is not None and not held.is_ours:
                raise VersionConflict("another process took this dream for abandoned and began its own")
            await in_thread(_write, tx, copy, changed)
    except asyncio.CancelledError:
        # A commit that was under way is completed: who stops us then comes too late, and must be told so.
        if tx is None or not tx.commit:
            raise
    return tx.commit


def reason_of(steps: tuple[Step, ...]) -> str:
    """What a commit says of a dream: a line to list, and every step with its reason."""
    counts = {name: sum(step.action == name for step in steps) for name in ("added", "changed", "removed")}
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    lines = [f"- {step.file}: {step.action}: {step.reason}" for step in steps[:MAX_REASONS]]
    more = [f"- and {len(steps) - MAX_REASONS} more"] if len(steps) > MAX_REASONS else []
    return "\n".join([f"consolidated memory: {said}", "", *lines, *more])


def _write(tx: Transaction, copy: Copy, changed: Mapping[str, bytes | None]) -> None:
    _check_heirs(tx, copy, changed)
    indexes = []
    for file, data in changed.items():
        present, version = tx.read(file)
        wanted = data if present == copy.base.get(file) else _merged(file, copy.base.get(file), data, present)
        if wanted is None:
            tx.delete(file, if_version=version)
        elif wanted != present:
            tx.write(file, wanted, if_version=version, keep_time=file not in copy.by_model)
        if wanted is not None and is_index(file):
            indexes.append(file)
    for file in indexes:
        _drop_dangling(tx, file)


def _merged(file: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes | None:
    """What a file becomes that both changed: theirs on top of ours, where that can be had."""
    if ours == theirs:
        return ours
    if base is not None and ours is not None and theirs is not None:
        # The way from theirs back to what both began with, taken back: that is what they changed.
        both = reversed_text(ours, after=base, before=theirs)
        if both is not None:
            return both
    raise VersionConflict(f"{file} was changed by someone else meanwhile; the dream is put off")


def _check_heirs(tx: Transaction, copy: Copy, changed: Mapping[str, bytes | None]) -> None:
    """What a removed memory said must still be where it was said to be."""
    for step in copy.steps:
        if step.action != "removed" or step.into in changed or step.into not in copy.now:
            continue
        if tx.read(step.into)[0] != copy.base.get(step.into):
            raise VersionConflict(
                f"{step.into} was changed by someone else meanwhile, and {step.file} was to go in favour "
                "of it; the dream is put off"
            )


def _drop_dangling(tx: Transaction, file: str) -> None:
    """A memory that somebody forgot meanwhile loses its line here, too."""
    data, _ = tx.read(file)
    folder = file.removesuffix(INDEX_FILE)
    index = Index.parse(data or b"")
    for line in index.pointers:
        whole = folder + line.file
        if not whole.startswith("team/") and tx.read(whole)[0] is None:
            index = Index.parse(index.without(line.file))
    if index.data != data:
        tx.write(file, index.data)
