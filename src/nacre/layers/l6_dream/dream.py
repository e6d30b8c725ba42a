"""One dream, from the lock to the commit: change a copy, check it, commit all of it or nothing (D6)."""

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
from nacre.layers.l6_dream.by_rule import DreamRules, by_rule, repair_indexes
from nacre.layers.l6_dream.check import CheckContext, problems_by_kind
from nacre.layers.l6_dream.copy import DirectoryCopy, DreamStep, is_index, snapshot
from nacre.layers.l6_dream.lock import DreamLease, DreamLock
from nacre.layers.l6_dream.policy import DREAM, DreamSettings
from nacre.layers.l6_dream.state import DreamState, DreamStateFile
from nacre.layers.l6_dream.with_model import DreamModel, DreamTask, dropped, with_model
from nacre.memory.checks.review import Proposal, propose
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import in_thread
from nacre.memory.files.transaction import Transaction, transact
from nacre.memory.files.undo import reversed_text
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import MemoryChange
from nacre.memory.format.index import INDEX_FILE, MemoryIndex
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Reply

POLL_SECONDS = 0.2
"""Interval between checks for a request to stop."""
MAX_PROPOSALS = 100
"""More than a person reviews at once."""
LOCKED = "another process consolidates this memory right now; `nacre dream status` says which"


class DreamRejectedError(NacreError):
    """Raised when the changes of a dream are not acceptable; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamConfig:
    """Everything that one dream needs."""

    location: Location
    rules: DreamRules
    settings: DreamSettings = DREAM
    model: DreamModel | None = None
    """None: consolidate by rule."""
    sessions: tuple[str, ...] = ()
    """The sessions since the last dream."""
    session: str = ""
    """The session that started this dream."""
    clock: Clock = SYSTEM_CLOCK
    watch: Watch | None = None
    on_state: Callable[[DreamState], None] = field(default=lambda state: None)
    """Called on each change of the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamOptions:
    """Options of a dream that is started by hand."""

    is_dry: bool = False
    """Report what would be changed, and change nothing."""
    is_unlimited: bool = False
    """Allow the removal of more than the usual share of memories."""
    refuse: Callable[[DirectoryCopy], frozenset[str]] | None = None
    """Shows the changes to the person and returns the files that must stay as they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamResult:
    """The final state of a dream, and its changes."""

    state: DreamState
    copy: DirectoryCopy | None = None
    """The files before and after, and the steps between."""

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


async def dream(config: DreamConfig, options: DreamOptions | None = None) -> DreamResult:
    """Consolidate a memory directory once; failures are returned as a state, only cancellation is raised."""
    options = options or DreamOptions()
    if not options.is_dry:
        # A dream whose process was killed counts as a failure, also if no session has started since.
        with contextlib.suppress(StoreError, OSError):
            await asyncio.to_thread(states.recover, config.location, clock=config.clock)
    return await _DreamRun(config, options).run()


class _DreamRun:
    """One run of a dream."""

    def __init__(self, config: DreamConfig, options: DreamOptions) -> None:
        self.config = config
        self.options = options
        self.state_file = DreamStateFile(config.location.cache)
        self.lock = DreamLock(config.location.directory, config.location.cache, clock=config.clock)
        by = config.model.name if config.model else "rules"
        self.state = states.begun(
            config.clock.new_id(),
            self.state_file.read(),
            at=config.clock.now(),
            by=by,
            sessions=config.sessions,
        )
        # The real path, because the guard compares real paths.
        self.folder = Path(os.path.realpath(self.state_file.folder)) / "work" / self.state.run / "memory"
        self.copy: DirectoryCopy | None = None
        self.was_killed = False

    async def run(self) -> DreamResult:
        if self.options.is_dry:
            await self._supervise(self._work(None))
            return self._result()
        try:
            lease = await asyncio.to_thread(self.lock.acquire)
        except StoreError as error:
            return DreamResult(state=self._failed(str(error), "failed"))
        if lease is None:
            return DreamResult(state=self._failed(LOCKED, "skipped"))
        try:
            self._clean_up()
            self._publish(self.state)
            await self._supervise(self._work(lease))
        finally:
            self._settle(lease)
        return self._result()

    async def _supervise(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work until it ends, is asked to stop or exceeds its time; set the state accordingly."""
        task: asyncio.Task[None] = asyncio.create_task(work, name="dream")
        until = self.config.clock.seconds() + self.config.settings.max_seconds
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=POLL_SECONDS)
                if not task.done() and self.state_file.is_to_stop(self.state.run):
                    self.was_killed = True
                    task.cancel()
                elif not task.done() and self.config.clock.seconds() >= until:
                    task.cancel()
            self._end(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            self.was_killed = True
            self._end(task)
            if self.state.status != "completed":
                self.state = self._failed("stopped before its end", "killed")
            raise

    def _end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() and self.state.commit:
            self.state = self._completed()
            return
        if task.cancelled():
            why = "killed" if self.was_killed else f"took longer than {self.config.settings.max_seconds:g} s"
            self.state = self._failed(why, "killed" if self.was_killed else "failed")
            return
        match task.exception():
            case None:
                self.state = self._completed()
            case VersionConflict() as error:
                self.state = self._failed(str(error), "put off")
            case NacreError() as error:
                self.state = self._failed(str(error), "failed")
            case error:
                # A bug must be visible as a failed dream.
                self.state = self._failed(f"{type(error).__name__}: {error}", "failed")

    async def _work(self, lease: DreamLease | None) -> None:
        config = self.config
        options = self.options
        copy = await snapshot(config.location, is_read_only=options.is_dry, clock=config.clock)
        self.copy = copy
        rules = replace(config.rules, is_unlimited=options.is_unlimited)
        await asyncio.to_thread(by_rule, copy, rules)
        if config.model is not None:
            await self._by_model(copy, config.model, rules)
        else:
            await self._check(copy)
        if options.refuse is not None:
            refused = await asyncio.to_thread(options.refuse, copy)
            copy.revert(refused | set(filter(is_index, copy.now)))
            if rules.has_index:
                await asyncio.to_thread(repair_indexes, copy, rules)
            await self._check(copy)
        steps = copy.final_steps()
        for step in steps:
            self.state = states.touched(self.state, step.file)
        changes: tuple[JsonObject, ...] = tuple(
            {"file": step.file, "action": step.action, "reason": step.reason} for step in steps
        )
        proposed: tuple[JsonObject, ...] = tuple(
            {"file": one.file, "action": "proposed", "reason": one.reason}
            for one in copy.proposals[:MAX_PROPOSALS]
        )
        self._publish(replace(self.state, changes=changes, proposed=proposed))
        if options.is_dry:
            return
        commit = await apply(
            config.location, copy, lease=lease, session=config.session, clock=config.clock, watch=config.watch
        )
        # Published at once: after a crash, the commit shows that the dream was complete.
        self._publish(replace(self.state, commit=commit))
        for one in copy.proposals[:MAX_PROPOSALS]:
            proposal = Proposal(
                file=one.file,
                before=one.before,
                after=one.after,
                author="dream",
                reason=one.reason,
                session=config.session,
            )
            await asyncio.to_thread(propose, config.location, proposal, clock=config.clock)

    async def _by_model(self, copy: DirectoryCopy, model: DreamModel, rules: DreamRules) -> None:
        """Let the model work on the copy; if there are problems, let it correct them once."""
        context = replace(
            self._context(await asyncio.to_thread(model.user_texts)),
            tool_texts=await asyncio.to_thread(model.tool_texts),
            before=dict(copy.now),
        )
        task = DreamTask(
            folder=self.folder,
            today=self.config.clock.now().astimezone(rules.zone).date(),
            sessions=self.config.sessions,
            settings=self.config.settings,
            on_write=lambda file: self._publish(states.touched(self.state, file)),
            on_reply=self._on_reply,
        )
        found: list[str] = []
        for _ in range(2):
            result = await with_model(copy, model, task, problems=found)
            denied = self.state.denied_writes + result.denied_writes
            self._publish(replace(self.state, denied_writes=denied))
            if result.replies and result.replies[-1].tool_calls:
                raise DreamRejectedError(
                    f"the model did not come to an end within {self.config.settings.max_rounds} requests"
                )
            context = replace(context, dropped={**context.dropped, **dropped(result)})
            if rules.has_index:
                await asyncio.to_thread(repair_indexes, copy, rules)
            found = await self._problems(copy, context)
            if not found:
                return
        raise DreamRejectedError("; ".join(found))

    async def _check(self, copy: DirectoryCopy) -> None:
        if found := await self._problems(copy, self._context(None)):
            raise DreamRejectedError("; ".join(found))

    async def _problems(self, copy: DirectoryCopy, context: CheckContext) -> list[str]:
        """Return what is wrong with the changes, and count it in the state."""
        kinds = await asyncio.to_thread(problems_by_kind, copy, context)
        refused = Counter(self.state.refused)
        refused.update({kind: len(several) for kind, several in kinds.items() if several})
        self._publish(replace(self.state, refused=dict(refused)))
        return [one for several in kinds.values() for one in several]

    def _context(self, user_texts: Sequence[str] | None) -> CheckContext:
        config = self.config
        return CheckContext(
            root=config.location.directory,
            today=config.clock.now().astimezone(config.rules.zone).date(),
            settings=config.settings,
            is_unlimited=self.options.is_unlimited,
            user_texts=user_texts,
            has_index=config.rules.has_index,
        )

    def _on_reply(self, reply: Reply) -> None:
        tools = Counter(call.name for call in reply.message.tool_calls)
        self._publish(states.replied(self.state, reply.message.text, tools, reply.usage.total))
        if self.state.tokens > self.config.settings.max_tokens:
            raise DreamRejectedError(
                f"the dream used {self.state.tokens:,} tokens, more than its budget "
                f"of {self.config.settings.max_tokens:,}"
            )

    def _publish(self, state: DreamState) -> None:
        self.state = state
        if not self.options.is_dry:
            self.state_file.write(state)
        self.config.on_state(state)

    def _settle(self, lease: DreamLease) -> None:
        is_completed = self.state.status == "completed"
        try:
            # A dream by rule must not delay one with a model: the lock keeps the time before.
            lease.finish() if is_completed and self.config.model is not None else lease.give_back()
            if is_completed:
                self.state_file.mark(states.BY_RULE_FILE, self.config.clock.now())
        finally:
            if self.state.status == "running":
                self.state = self._failed("stopped before its end", "killed")
            self._clean_up()
            self._publish(self.state)

    def _clean_up(self) -> None:
        """Remove working files, also those of a killed process: only the holder of the lock gets here."""
        shutil.rmtree(self.state_file.folder / "work", ignore_errors=True)
        with contextlib.suppress(OSError):
            (self.state_file.folder / states.KILL).unlink(missing_ok=True)

    def _completed(self) -> DreamState:
        at = self.config.clock.now().isoformat()
        return replace(self.state, status="completed", ended=at, failures=0, failed_on="")

    def _failed(self, why: str, status: states.Status) -> DreamState:
        return states.failed(self.state, why, at=self.config.clock.now(), status=status)

    def _result(self) -> DreamResult:
        return DreamResult(state=self.state, copy=self.copy)


MAX_REASONS = 200
"""Steps listed in the commit message; the rest is counted."""


async def apply(
    location: Location,
    copy: DirectoryCopy,
    *,
    lease: DreamLease | None,
    session: str = "",
    clock: Clock = SYSTEM_CLOCK,
    watch: Watch | None = None,
) -> str:
    """Write the changes of a copy to the directory and return the commit.

    Raises `VersionConflict` if a file was changed meanwhile and both changes cannot be merged.
    """
    changed = copy.changed
    if not changed:
        return ""
    change = MemoryChange(author="dream", reason=reason_of(copy.final_steps()), session=session)
    tx: Transaction | None = None
    try:
        async with transact(location, change, clock=clock, watch=watch) as tx:
            if lease is not None and not lease.is_ours:
                raise VersionConflict("another process took this dream for abandoned and began its own")
            await in_thread(_write, tx, copy, changed)
    except asyncio.CancelledError:
        # A commit that has begun is completed: the dream then counts as completed, not as cancelled.
        if tx is None or not tx.commit:
            raise
    return tx.commit


def reason_of(steps: tuple[DreamStep, ...]) -> str:
    """Return the commit message of a dream: a summary line, and every step with its reason."""
    counts = {name: sum(step.action == name for step in steps) for name in ("added", "changed", "removed")}
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    lines = [f"- {step.file}: {step.action}: {step.reason}" for step in steps[:MAX_REASONS]]
    more = [f"- and {len(steps) - MAX_REASONS} more"] if len(steps) > MAX_REASONS else []
    return "\n".join([f"consolidated memory: {said}", "", *lines, *more])


def _write(tx: Transaction, copy: DirectoryCopy, changed: Mapping[str, bytes | None]) -> None:
    for step in copy.steps:
        if step.action != "removed" or step.into in changed or step.into not in copy.now:
            continue
        # The memory that replaces a removed one must still say what it said.
        if tx.read(step.into)[0] != copy.base.get(step.into):
            raise VersionConflict(
                f"{step.into} was changed by someone else meanwhile, and {step.file} was to go in favour "
                "of it; the dream is put off"
            )
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
        _drop_forgotten(tx, file, copy)


def _drop_forgotten(tx: Transaction, file: str, copy: DirectoryCopy) -> None:
    """Remove the lines of memories that were deleted meanwhile from an index.

    Lines of files that were gone before stay if the dream kept them: it says in its report which it drops.
    """
    data, _ = tx.read(file)
    index = MemoryIndex.parse(data or b"")
    for line in index.pointers:
        whole = file.removesuffix(INDEX_FILE) + line.file
        if whole in copy.now and tx.read(whole)[0] is None:
            index = MemoryIndex.parse(index.without(line.file))
    if index.data != data:
        tx.write(file, index.data)


def _merged(file: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes | None:
    """Return a file that both sides changed with both changes; raises `VersionConflict` if they overlap."""
    if ours == theirs:
        return ours
    if base is not None and ours is not None and theirs is not None:
        # Reversing the change from theirs to the base applies their change to ours.
        both = reversed_text(ours, after=base, before=theirs)
        if both is not None:
            return both
    raise VersionConflict(f"{file} was changed by someone else meanwhile; the dream is put off")
