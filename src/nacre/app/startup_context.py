"""What an agent knows when a session begins: its memory, the manual for it, and the instructions files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from nacre.app.instruction_paths import instruction_paths
from nacre.app.memory_locations import MemoryPlaces, memory_places
from nacre.clock import Clock
from nacre.context.privacy import LocalOnlyFilter, OriginTracker
from nacre.errors import NacreError, StoreError, ToolError
from nacre.memory.agent_memory import open_live
from nacre.memory.files.location import Location
from nacre.memory.format.entry import MemoryChange
from nacre.memory.instructions.load import Instructions, load_instructions
from nacre.memory.memory import Memory
from nacre.memory.startup_text import ManualMode, MemoryFacts, form_of, manual, render_context
from nacre.memory.team.choice import remote_of
from nacre.memory.team.sync import SyncReport, sync
from nacre.memory.tools import daily_tools, memory_tools
from nacre.session.session_log import RecordWriter
from nacre.settings import Settings
from nacre.tools.base import Tool
from nacre.tools.workspace import Workspace

SAVING_BY_HAND = frozenset({"Edit", "Write"})
"""Tools that change a memory's file as any other, as the manual tells how to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupContext:
    """What goes into a session ahead of the conversation, and what keeps it up to date."""

    memory: Memory | None = None
    team: Memory | None = None
    users: Memory | None = None
    """What holds in every project (M7b), if there is any of it."""
    tools: list[Tool] = field(default_factory=list)
    manual: str = ""
    """Static text for the system prompt."""
    context: str = ""
    """What varies by project, for the first message (M25)."""
    instructions: Instructions | None = None
    notices: tuple[str, ...] = ()
    session: str = ""
    is_for_reading: bool = False
    """The model has nothing to save with: it is told of memory as of one that it can only read."""
    witness: OriginTracker = field(default_factory=OriginTracker)
    stays: LocalOnlyFilter = field(default_factory=LocalOnlyFilter)
    """Over every memory directory, read or not: what says `local-only` there must not leave (M27)."""

    @property
    def is_read_only(self) -> bool:
        """Whether the model can save nothing: the session leaves nothing behind, or it has no tool for it."""
        return self.is_for_reading or not self.session

    @property
    def memories(self) -> tuple[Memory, ...]:
        """Every memory that may be read in this session."""
        return tuple(one for one in (self.memory, self.team, self.users) if one is not None)

    def own(self, workspace: Workspace) -> None:
        """Let edits in the memory directories, by whatever tool, be transactions of these memories."""
        # The team's folder is inside the other, so it must be asked first.
        for memory in (self.team, self.memory):
            if memory is not None:
                workspace.owned[memory.location.directory] = self._writer(memory)

    def _writer(self, memory: Memory) -> Callable[[Path, bytes], Awaitable[None]]:
        async def write(path: Path, content: bytes) -> None:
            change = MemoryChange(author="agent", reason="edited by a tool", session=self.session)
            file = path.relative_to(memory.location.directory).as_posix()
            try:
                marked = await asyncio.to_thread(self.witness.marked, memory, file, content)
                await memory.put(file, marked, change)
            except StoreError as error:
                raise ToolError(str(error)) from error

        return write


async def load_startup_context(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    writer: RecordWriter | None,
    clock: Clock,
    leaves: bool = True,
) -> StartupContext:
    """Open what is known; without a writer nothing may be written, and memory is only read.

    Memory that cannot be opened is a notice, never a session that does not begin. `leaves` says that what the
    model is told leaves the machine: local-only memories are not told then (M27).
    """
    places = _places(settings)
    known = _instructed(settings, places, session=writer.session_id if writer else "")
    if places is None or not settings.memory.is_on:
        return known
    if writer is None and not places.project.directory.is_dir():
        return known
    try:
        async with AsyncExitStack() as opening:
            with_memories = await _with_memories(known, places, settings, opening, clock)
            told = await _told(with_memories, settings, clock, leaves=leaves)
            # Only what opened whole stays open: else a failure would leave marks and watches behind.
            stack.push_async_exit(opening.pop_all())
            return told
    except StoreError as error:
        return replace(known, notices=(*known.notices, f"memory is off: {error}"))


async def preview_startup_context(settings: Settings, *, clock: Clock) -> StartupContext:
    """What a session that begins now would be told; nothing is opened, made or changed for it (C32)."""
    places = _places(settings)
    known = _instructed(settings, places)
    if places is None or not settings.memory.is_on:
        return known
    try:
        async with AsyncExitStack() as stack:
            seen = await _with_memories(known, places, settings, stack, clock)
            # As to a session that is kept: it may write, so it is told how, and gets the tools for it.
            return await _told(replace(seen, session=clock.new_id()), settings, clock, leaves=True)
    except StoreError:
        return known


def instructions_context(settings: Settings, *, session: str = "") -> StartupContext:
    """What the instructions files say, for somebody who is told nothing of the project's memory."""
    return _instructed(settings, _places(settings), session=session)


def _instructed(settings: Settings, places: MemoryPlaces | None, *, session: str = "") -> StartupContext:
    """What the instructions files say; memory comes on top of it."""
    instructions = load_instructions(instruction_paths(settings))
    asks = (
        f"{path} is outside the project and not loaded; `nacre instructions allow` loads it from now on"
        for path in instructions.outside
    )
    return StartupContext(
        instructions=instructions,
        notices=(*instructions.warnings, *asks),
        context=render_context(instructions),
        session=session,
        stays=LocalOnlyFilter(*(places.all if places else ())),
    )


def _places(settings: Settings) -> MemoryPlaces | None:
    """Where memories lie; where that cannot be worked out, a session that does without them still begins."""
    try:
        return memory_places(settings)
    except NacreError:
        if settings.memory.is_on:
            raise
        return None


async def _with_memories(
    known: StartupContext, places: MemoryPlaces, settings: Settings, stack: AsyncExitStack, clock: Clock
) -> StartupContext:
    """The project's, the person's and the team's memory; without a session to keep them for, only to look."""
    given = settings.memory
    keeps = bool(known.session)

    async def opened(place: Location) -> Memory:
        if not keeps:
            return Memory(place, clock=clock, keeps_index=given.keeps_index)
        return await open_live(place, settings.cwd, stack, clock=clock, keeps_index=given.keeps_index)

    memory = await opened(places.project)
    team = await opened(places.team) if places.has_team else None
    told = await share(team, given.team_remote, stack, clock=clock) if team and keeps else ()
    return replace(
        known,
        memory=memory,
        team=team,
        users=Memory(places.user, clock=clock) if places.user.directory.is_dir() else None,
        notices=(*known.notices, *told),
    )


async def _told(known: StartupContext, settings: Settings, clock: Clock, *, leaves: bool) -> StartupContext:
    """What the model is told of the memories, and what it may do with them."""
    memory = known.memory
    team = known.team
    given = settings.memory
    assert memory is not None, "there is a memory to tell about"
    tools = (
        daily_tools(memory, session=known.session, clock=clock, origin_of=known.witness.origin_of)
        if given.mode == "daily"
        else memory_tools(memory, session=known.session, team=team, origin_of=known.witness.origin_of)
    )
    return replace(
        known,
        tools=[one for one in tools if one.read_only or not known.is_read_only],
        manual=_manual(known, settings),
        context=await context_of(known, settings, leaves=leaves),
    )


async def for_tools(
    known: StartupContext, tools: Sequence[Tool], settings: Settings, *, leaves: bool
) -> StartupContext:
    """What is known, told to a model with these tools: without one that saves, memory is only read."""
    names = {one.name for one in tools}
    saving = {one.name for one in known.tools if not one.read_only} | SAVING_BY_HAND
    if known.memory is None or known.is_read_only or names & saving:
        return known
    reading = replace(known, is_for_reading=True)
    return replace(
        reading,
        manual=_manual(reading, settings),
        context=await context_of(reading, settings, leaves=leaves),
    )


def _manual(known: StartupContext, settings: Settings) -> str:
    given = settings.memory
    mode = ManualMode(
        form=form_of(is_on=True, is_daily=given.mode == "daily", has_team=known.team is not None),
        has_index=given.index,
        is_read_only=known.is_read_only,
        extra_guidelines=given.extra_guidelines or "",
    )
    return manual(mode)


async def context_of(known: StartupContext, settings: Settings, *, leaves: bool) -> str:
    """What the model is told of instructions and memory, with the indexes as they are now (M25, C21)."""
    memory = known.memory
    team = known.team
    users = known.users
    if memory is None:
        return render_context(known.instructions)
    facts = MemoryFacts(
        directory=memory.location.directory,
        is_read_only=known.is_read_only,
        has_index=settings.memory.index,
        user_directory=users.location.directory if users else None,
        team_directory=team.location.directory if team else None,
    )
    stays = known.stays if leaves else LocalOnlyFilter()
    indexes = [await _index(one, stays) for one in (memory, team, users)]
    return render_context(known.instructions, indexes[0], indexes[1], facts, user_index_text=indexes[2])


async def _index(memory: Memory | None, stays: LocalOnlyFilter) -> str:
    if memory is None:
        return ""
    return (await memory.index(without=await stays.files_of(memory.location))).text


MAX_SECONDS = 5.0
"""A session neither begins nor ends later than this for a place that does not answer."""


async def share(team: Memory, remote: str | None, stack: AsyncExitStack, *, clock: Clock) -> tuple[str, ...]:
    """Sync now, and once more when the stack is left; returns what the person should know."""
    if not remote:
        return ("team memory stays on this machine: memory.teamRemote names no place to share it",)
    stack.push_async_callback(_synced, team, remote, clock)
    return await _synced(team, remote, clock)


async def _synced(team: Memory, remote: str, clock: Clock) -> tuple[str, ...]:
    try:
        async with asyncio.timeout(MAX_SECONDS):
            place = await remote_of(remote, team.location, clock=clock, seconds=MAX_SECONDS)
            return _told_sharing(await sync(team.location, place, clock=clock, watch=team.watch))
    except TimeoutError:
        return (f"team memory was not synced: no answer in {MAX_SECONDS:.0f} seconds",)
    except NacreError as error:
        return (f"team memory was not synced: {error}",)


def _told_sharing(report: SyncReport) -> tuple[str, ...]:
    kept = [f"team memory: two people changed {one.file}; both texts are kept" for one in report.conflicts]
    refused = [f"team memory: {one.file} is not shared: {one.why}" for one in report.refused]
    return (*kept, *refused)
