"""Which of nacre's layers work inside a framework, and a session with them; none of them asks a model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from nacre.agents.clearing import Clearing
from nacre.agents.compacting import Compacting
from nacre.agents.layer import Layer
from nacre.agents.offloading import Offloader
from nacre.agents.recalled import RECALLED, bytes_in_view, in_view, noted
from nacre.agents.riding import Extra
from nacre.agents.session import Base, InMemory, Keeper, Session, SessionSettings
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ToolError
from nacre.layers.l1_offload.pointer import LONG_LINE_CHARS, Advice
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l2_microcompact.tuning import CLEARABLE, MicrocompactSettings
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.memory.directory import Memory
from nacre.memory.recall.attach import attachment
from nacre.memory.recall.base import Query, Recalled
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import Already, recall
from nacre.memory.recall.skip import why_skip
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.records import Record, Said
from nacre.messages.view import View
from nacre.store.results import Shelf
from nacre.tools.base import Tool
from nacre.tools.read import ReadSettings, read_tool
from nacre.tools.workspace import Workspace

BY_READ_ALONE = Advice(
    "Read it with Read: offset and limit choose the lines.",
    f" Of lines with more than {LONG_LINE_CHARS:,} characters every piece of that length counts as one.",
)
"""A framework's agent has neither Grep nor a shell, as far as anybody knows."""


def _to_nobody(_: str) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Layers:
    """What shrinks a conversation, and what is added to it."""

    results: Path | None = None
    """Where tool results go that are too long or too old; without a place they stay where they are."""
    memory: Memory | None = None
    """What is recalled with a person's words."""
    window: int | None = None
    """Tokens, where the model's own window is not known or too large for your purse."""
    clearable: frozenset[str] = frozenset()
    """Tools whose old results may be cleared, because they can be had again."""
    compacts: bool = True
    """By rule: a summary without a model stands for the older messages when nothing else helps."""
    offload: OffloadSettings = field(default_factory=OffloadSettings)
    microcompact: MicrocompactSettings = field(default_factory=MicrocompactSettings)
    compact: CompactSettings = field(default_factory=CompactSettings)
    conversations: int = 64
    """Remembered at a time; one that comes back later is read again from its beginning."""
    tell: Callable[[str], None] = _to_nobody
    """Told one line for whatever was taken out of the conversation or added to it."""
    clock: Clock = SYSTEM_CLOCK

    @cached_property
    def _recollection(self) -> Recollection | None:
        """One for all conversations: its index is a file that stays open, and takes a while to open."""
        return None if self.memory is None else Recollection(self.memory)


def opened(
    base: Base, layers: Layers, *, records: Sequence[Record] = (), keeper: Keeper | None = None
) -> Session:
    """A session with these layers, cheapest first."""
    session = Session(
        base,
        records,
        keeper=keeper or InMemory(layers.clock.new_id()),
        settings=SessionSettings(window_ceiling=layers.window),
        clock=layers.clock,
    )
    if layers.results is not None:
        shelf = Shelf(layers.results.resolve())
        session.layers.append(Offloader(shelf, layers.offload, advice=BY_READ_ALONE))
        tools = layers.microcompact.tools | CLEARABLE | layers.clearable
        session.layers.append(Clearing(session, shelf, replace(layers.microcompact, tools=tools)))
    if layers.compacts:
        session.layers.append(Compacting(session, settings=layers.compact))
    if layers._recollection is not None:
        session.layers.append(layers._recollection)
    return session


class Recollection(Layer):
    """Brings memories along with a person's words; looked up at once, by words alone."""

    def __init__(self, memory: Memory) -> None:
        place = memory.location
        self._index = LocalIndex(place.directory, place.cache, clock=memory.clock)
        self._clock = memory.clock

    async def attach(self, said: Said, view: View) -> Sequence[Extra]:
        """Memories the model does not see yet; what must not leave the machine is not among them (M27)."""
        if said.meta or any(isinstance(block, ToolResult) for block in said.blocks):
            return ()
        text = "\n".join(block.text for block in said.blocks if isinstance(block, Text))
        size = bytes_in_view(view)
        if why_skip(text, is_on=True, attached_bytes=size, has_files=True):
            return ()
        seen = frozenset(str(path) for path in in_view(view))
        already = Already(paths=seen, attached_bytes=size, hides_local=True)
        query = Query(text=text, now=self._clock.now())
        picks = (await asyncio.to_thread(self._looked_up, query, already)).picks
        if not picks:
            return ()
        facts: JsonObject = noted((one.ranked.path for one in picks), size=sum(one.bytes for one in picks))
        names = ", ".join(one.ranked.entry.file for one in picks)
        return [Extra(kind=RECALLED, text=attachment(picks), facts=facts, notice=f"recalled {names}")]

    def _looked_up(self, query: Query, already: Already) -> Recalled:
        self._index.refresh()
        return recall(query, [self._index], already=already, clock=self._clock)


def read_back(folder: Path) -> Tool:
    """The tool that pointers name, Read, for the files of this folder and no others."""
    root = folder.resolve()
    read = read_tool(Workspace(root), ReadSettings(wraps=True))

    async def inside(arguments: JsonObject) -> ToolResult | str:
        if not await asyncio.to_thread(_is_inside, root, str(arguments.get("file_path"))):
            raise ToolError(f"Only files in {root} can be read with this tool.")
        return await read.call(arguments)

    return replace(read, call=inside, description=f"Reads a long tool result again, from {root}.")


def _is_inside(root: Path, asked: str) -> bool:
    return Path(os.path.realpath(root / asked)).is_relative_to(os.path.realpath(root))
