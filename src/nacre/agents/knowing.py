"""What an agent knows when a session begins: its memory, the manual for it, and the instructions files."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from nacre.agents.memory_places import memory_paths as memory_paths
from nacre.agents.session import Keeper
from nacre.clock import Clock
from nacre.errors import StoreError, ToolError
from nacre.memory.directory import Memory
from nacre.memory.entry import Change
from nacre.memory.instructions import InstructionPaths, Instructions, load_instructions
from nacre.memory.live import agent_live
from nacre.memory.location import Location, locate, memory_base, user_location
from nacre.memory.manual import ManualMode, manual
from nacre.memory.opening import MemoryFacts, render_context
from nacre.memory.tools import memory_tools
from nacre.memory.watch import Watch
from nacre.settings import Settings
from nacre.tools.base import Tool
from nacre.tools.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What goes into a session ahead of the conversation, and what keeps it up to date."""

    memory: Memory | None = None
    tools: list[Tool] = field(default_factory=list)
    manual: str = ""
    """Static text for the system prompt."""
    context: str = ""
    """What varies by project, for the first message (M25)."""
    instructions: Instructions | None = None
    notices: tuple[str, ...] = ()
    session: str = ""

    def own(self, workspace: Workspace) -> None:
        """Let edits in the memory directory, by whatever tool, be transactions of this memory."""
        memory = self.memory
        if memory is None:
            return
        directory = memory.location.directory

        async def write(path: Path, content: bytes) -> None:
            change = Change(author="agent", reason="edited by a tool", session=self.session)
            try:
                await memory.put(path.relative_to(directory).as_posix(), content, change)
            except StoreError as error:
                raise ToolError(str(error)) from error

        workspace.owned[directory] = write


async def recollect(
    settings: Settings, stack: AsyncExitStack, *, keeper: Keeper | None, clock: Clock
) -> Known:
    """Open what is known; without a keeper nothing may be written, and memory is only read.

    Memory that cannot be opened is a notice, never a session that does not begin.
    """
    keeps, session = keeper is not None, keeper.session_id if keeper else ""
    instructions = load_instructions(
        InstructionPaths(home=settings.home, cwd=settings.cwd, root=settings.project_root)
    )
    outside = (f"{path} is outside the project and is not loaded" for path in instructions.outside)
    notices = (*instructions.warnings, *outside)
    location = locate(memory_paths(settings)) if settings.memory.is_on else None
    if location is None or not (keeps or location.directory.is_dir()):
        return Known(context=render_context(instructions), instructions=instructions, notices=notices)
    try:
        memory = (
            await _opened(location, settings.cwd, stack, clock) if keeps else Memory(location, clock=clock)
        )
        index = await memory.index()
        own = await _persons(settings, clock)
    except StoreError as error:
        return Known(
            context=render_context(instructions),
            instructions=instructions,
            notices=(*notices, f"memory is off: {error}"),
        )
    tools = memory_tools(memory, session=session)
    guidelines = settings.memory.extra_guidelines or ""
    facts = MemoryFacts(
        directory=memory.location.directory, is_read_only=not keeps, user_directory=own.directory
    )
    return Known(
        memory=memory,
        tools=tools if keeps else [one for one in tools if one.read_only],
        manual=manual(ManualMode(is_read_only=not keeps, extra_guidelines=guidelines)),
        context=render_context(instructions, index.text, "", facts, user_index_text=own.index),
        instructions=instructions,
        notices=notices,
        session=session,
    )


@dataclass(frozen=True, slots=True)
class _Persons:
    """What holds in every project (M7b), if there is any of it."""

    directory: Path | None = None
    index: str = ""


async def _persons(settings: Settings, clock: Clock) -> _Persons:
    location = user_location(memory_base(memory_paths(settings)))
    if not location.directory.is_dir():
        return _Persons()
    return _Persons(location.directory, (await Memory(location, clock=clock).index()).text)


async def _opened(location: Location, cwd: Path, stack: AsyncExitStack, clock: Clock) -> Memory:
    watch = Watch(location.directory)
    stack.callback(watch.close)
    memory = await Memory.at(location, cwd, clock=clock, watch=watch)
    await stack.enter_async_context(agent_live(location, clock=clock))
    return memory
