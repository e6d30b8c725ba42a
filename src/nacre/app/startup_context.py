"""What a session starts with: memory, the manual for it, and the instructions files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from nacre.app.memory_locations import MemoryPlaces, instruction_paths, memory_places
from nacre.clock import Clock
from nacre.context.privacy import LocalOnlyFilter, OriginTracker
from nacre.errors import NacreError, StoreError, ToolError
from nacre.memory.agent_memory import open_live
from nacre.memory.files.location import Location
from nacre.memory.format.entry import MemoryChange, read_entry
from nacre.memory.instructions.load import Instructions, load_instructions
from nacre.memory.memory import Memory
from nacre.memory.past_sessions import NAME as SEARCH_SESSIONS
from nacre.memory.past_sessions import search_sessions_tool
from nacre.memory.startup_text import ManualMode, MemoryFacts, form_of, manual, render_context
from nacre.memory.tools import daily_tools, memory_tools
from nacre.session.log_writer import RecordWriter
from nacre.settings import Settings
from nacre.settings.values import MemorySettings
from nacre.store.home import canonical, slug
from nacre.tools.base import Tool
from nacre.tools.workspace import Workspace

SAVING_BY_HAND = frozenset({"Edit", "Write"})
"""Tools that can edit memory files directly, as the manual describes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupContext:
    """Memories, tools and texts of a session before its first message."""

    memory: Memory | None = None
    team: Memory | None = None
    users: Memory | None = None
    """The memory that applies to every project (M7b), if there is one."""
    tools: list[Tool] = field(default_factory=list)
    manual: str = ""
    """Static text for the system prompt."""
    context: str = ""
    """Text for the first message; it differs between projects (M25)."""
    instructions: Instructions | None = None
    notices: tuple[str, ...] = ()
    session: str = ""
    is_for_reading: bool = False
    """The model has no tool that saves, so the prompt says that memory is read-only."""
    searches_past: bool = False
    """The model has the tool that searches earlier sessions, and the manual says so."""
    origin_tracker: OriginTracker = field(default_factory=OriginTracker)
    local_only: LocalOnlyFilter = field(default_factory=LocalOnlyFilter)
    """Covers every memory directory: `local-only` entries must not leave this machine (M27)."""

    @property
    def is_read_only(self) -> bool:
        """Whether the model cannot save: the session is ephemeral, or there is no tool for it."""
        return self.is_for_reading or not self.session

    @property
    def memories(self) -> tuple[Memory, ...]:
        """Every memory that this session can read."""
        return tuple(one for one in (self.memory, self.team, self.users) if one is not None)

    def own(self, workspace: Workspace) -> None:
        """Turn edits in the memory directories, by any tool, into transactions of these memories."""
        # The team's folder is inside the other, so it must be asked first.
        for memory in (self.team, self.memory):
            if memory is not None:
                workspace.owned[memory.location.directory] = self._writer(memory)

    def _writer(self, memory: Memory) -> Callable[[Path, bytes], Awaitable[None]]:
        async def write(path: Path, content: bytes) -> None:
            change = MemoryChange(author="agent", reason="edited by a tool", session=self.session)
            file = path.relative_to(memory.location.directory).as_posix()
            try:
                marked = await asyncio.to_thread(self.origin_tracker.marked, memory, file, content)
                await memory.put(file, marked, change)
                self.origin_tracker.saved(read_entry(file, marked))
            except StoreError as error:
                raise ToolError(str(error)) from error

        return write


async def load_startup_context(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    writer: RecordWriter | None,
    clock: Clock,
    is_remote: bool = True,
) -> StartupContext:
    """Open the memories and load the instructions; without a writer, memory is only read.

    If memory cannot be opened, the session starts without it and a notice says why. If requests
    leave this machine (`is_remote`), local-only entries are left out (M27).
    """
    places = _places(settings)
    startup = _instructed(settings, places, session=writer.session_id if writer else "")
    if places is None or not settings.memory.is_on:
        return startup
    if writer is None and not places.project.directory.is_dir():
        return startup
    try:
        async with AsyncExitStack() as opening:
            with_memories = await _with_memories(startup, places, settings, opening, clock)
            complete = await _with_texts(with_memories, settings, clock, is_remote=is_remote)
            # Only a complete set stays open: otherwise a failure would leave marks and watches behind.
            stack.push_async_exit(opening.pop_all())
            return complete
    except StoreError as error:
        return replace(startup, notices=(*startup.notices, f"memory is off: {error}"))


async def preview_startup_context(settings: Settings, *, clock: Clock) -> StartupContext:
    """Return what a session that starts now would get; nothing is created or changed (C32)."""
    places = _places(settings)
    startup = _instructed(settings, places)
    if places is None or not settings.memory.is_on:
        return startup
    try:
        async with AsyncExitStack() as stack:
            seen = await _with_memories(startup, places, settings, stack, clock)
            # As for a session on disk, which may write: it gets the manual and the tools for that.
            return await _with_texts(replace(seen, session=clock.new_id()), settings, clock, is_remote=True)
    except StoreError:
        return startup


def instructions_context(settings: Settings, *, session: str = "") -> StartupContext:
    """Return the instructions files alone, without memory."""
    return _instructed(settings, _places(settings), session=session)


def _instructed(settings: Settings, places: MemoryPlaces | None, *, session: str = "") -> StartupContext:
    """Return the part of the context that comes from the instructions files."""
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
        local_only=LocalOnlyFilter(*(places.all if places else ())),
    )


def _places(settings: Settings) -> MemoryPlaces | None:
    """Return the memory locations; None if they are invalid and memory is switched off anyway."""
    try:
        return memory_places(settings)
    except NacreError:
        if settings.memory.is_on:
            raise
        return None


async def _with_memories(
    startup: StartupContext, places: MemoryPlaces, settings: Settings, stack: AsyncExitStack, clock: Clock
) -> StartupContext:
    """Add the memories of project, user and team; an ephemeral session opens them read-only."""
    given = settings.memory
    keeps = bool(startup.session)

    async def opened(place: Location) -> Memory:
        if not keeps:
            return Memory(place, clock=clock, keeps_index=given.keeps_index)
        return await open_live(place, settings.cwd, stack, clock=clock, keeps_index=given.keeps_index)

    memory = await opened(places.project)
    team = await opened(places.team) if places.has_team else None
    notices = await _synced(memory, team, places, given, stack, clock=clock) if keeps else ()
    return replace(
        startup,
        memory=memory,
        team=team,
        users=Memory(places.user, clock=clock) if places.user.directory.is_dir() else None,
        notices=(*startup.notices, *notices),
    )


async def _synced(
    memory: Memory,
    team: Memory | None,
    places: MemoryPlaces,
    given: MemorySettings,
    stack: AsyncExitStack,
    *,
    clock: Clock,
) -> tuple[str, ...]:
    """Synchronise memories with the team and with the person's other machines; returns notices."""
    notices: list[str] = []
    if team is not None and not given.team_remote:
        notices.append("team memory stays on this machine: memory.teamRemote names no place to share it")
    wanted = [(team, given.team_remote)] if team is not None else []
    if given.sync_remote:
        users = await Memory.at(places.user, Path.home(), clock=clock)
        wanted += [(users, given.sync_remote), (memory, given.sync_remote)]
    for one, remote in wanted:
        if remote:
            from nacre.app.sync_memory import sync_during  # noqa: PLC0415 - few people share a memory

            notices += await sync_during(one, remote, stack, clock=clock)
    return tuple(notices)


async def _with_texts(
    startup: StartupContext, settings: Settings, clock: Clock, *, is_remote: bool
) -> StartupContext:
    """Add the memory tools, the manual and the text for the first message."""
    memory = startup.memory
    team = startup.team
    given = settings.memory
    assert memory is not None, "there is a memory to tell about"
    tools = (
        daily_tools(memory, session=startup.session, clock=clock, origins=startup.origin_tracker)
        if given.mode == "daily"
        else memory_tools(memory, session=startup.session, team=team, origins=startup.origin_tracker)
    )
    if settings.switches.search_past and settings.profile != "small":
        local_only = startup.local_only if is_remote else LocalOnlyFilter()
        search = search_sessions_tool(
            memory.location,
            settings.home,
            session=startup.session,
            refusal=settings.reading_refusal,
            hidden=local_only.now,
        )
        tools.append(search)
        startup = replace(startup, searches_past=True)
    return replace(
        startup,
        tools=[one for one in tools if one.read_only or not startup.is_read_only],
        manual=_manual(startup, settings),
        context=await render_startup_text(startup, settings, is_remote=is_remote),
    )


async def adapt_to_tools(
    startup: StartupContext, tools: Sequence[Tool], settings: Settings, *, is_remote: bool
) -> StartupContext:
    """Return the context for a model with these tools; without one that saves, memory is read-only."""
    names = {one.name for one in tools}
    saving = {one.name for one in startup.tools if not one.read_only} | SAVING_BY_HAND
    adapted = replace(
        startup,
        is_for_reading=startup.is_for_reading or not (startup.is_read_only or names & saving),
        searches_past=startup.searches_past and SEARCH_SESSIONS in names,
    )
    if startup.memory is None or adapted == startup:
        return startup
    return replace(
        adapted,
        manual=_manual(adapted, settings),
        context=await render_startup_text(adapted, settings, is_remote=is_remote),
    )


def _manual(startup: StartupContext, settings: Settings) -> str:
    given = settings.memory
    mode = ManualMode(
        form=form_of(is_daily=given.mode == "daily", has_team=startup.team is not None),
        has_index=given.index,
        is_small=settings.profile == "small",
        is_read_only=startup.is_read_only,
        search_tool=SEARCH_SESSIONS if startup.searches_past else "",
        extra_guidelines=given.extra_guidelines or "",
    )
    return manual(mode)


async def render_startup_text(startup: StartupContext, settings: Settings, *, is_remote: bool) -> str:
    """Return the text on instructions and memory, with the current indexes (M25, C21)."""
    memory = startup.memory
    team = startup.team
    users = startup.users
    if memory is None:
        return render_context(startup.instructions)
    facts = MemoryFacts(
        directory=memory.location.directory,
        is_read_only=startup.is_read_only,
        has_index=settings.memory.index and settings.profile != "small",
        user_directory=users.location.directory if users else None,
        team_directory=team.location.directory if team else None,
        transcripts=settings.home / "projects" / slug(canonical(settings.cwd))
        if startup.searches_past
        else None,
    )
    stays = startup.local_only if is_remote else LocalOnlyFilter()
    indexes = [await _index(one, stays) for one in (memory, team, users)]
    return render_context(startup.instructions, indexes[0], indexes[1], facts, user_index_text=indexes[2])


async def _index(memory: Memory | None, stays: LocalOnlyFilter) -> str:
    if memory is None:
        return ""
    return (await memory.index(without=await stays.files_of(memory.location))).text
