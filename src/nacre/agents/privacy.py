"""What of a conversation may be believed, and what of memory may leave the machine (M16b, M27)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from nacre.agents.riding import INSIDE, Extra, digest
from nacre.memory.daily_lines import with_marks
from nacre.memory.directory import Memory
from nacre.memory.entry import Origin
from nacre.memory.folder import Folder
from nacre.memory.frontmatter import Document
from nacre.memory.location import Location
from nacre.memory.origins import origin_of
from nacre.memory.pointers import INDEX_FILE
from nacre.memory.scan import LOGS
from nacre.memory.staying import LocalOnly, Staying, together
from nacre.messages.blocks import Block, Text, ToolCall, ToolResult
from nacre.messages.records import Noted, Record, Said
from nacre.messages.transcript import Transcript

TRUSTED_TOOLS = frozenset({"correct", "forget", "recall", "remember", "TaskList"})
"""Their results repeat what nacre itself keeps; everything else a tool says came from outside."""


class Witness:
    """Heard everything in a session, and can tell whose words a text repeats."""

    def __init__(self) -> None:
        self._transcript: Transcript | None = None

    def attend(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def origin_of(self, text: str) -> Origin:
        """The person's words are those they typed; what nacre attached counts as nobody's (M16b)."""
        if self._transcript is None:
            return "agent"
        records = self._transcript.records
        said = [one for one in records if isinstance(one, Said) and one.aside is None]
        ours = {str(one.fact(INSIDE)) for one in records if isinstance(one, Noted)}
        return origin_of(text, by_user=_by_user(said), by_tools=by_tools(said, ours))

    def marked(self, memory: Memory, file: str, content: bytes) -> bytes:
        """What a tool writes into a memory, with a mark where it repeats what came from outside (M16b)."""
        if file == INDEX_FILE:
            return content
        if file.startswith(f"{LOGS}/"):
            before = Folder(memory.location.directory).read(file) or b""
            return with_marks(file, before, content, is_untrusted=self._is_from_outside)
        if self._is_from_outside(content.decode(errors="replace")):
            return Document.parse(content).with_fields(origin="untrusted")
        return content

    def _is_from_outside(self, text: str) -> bool:
        return self.origin_of(text) == "untrusted"


class StaysHere:
    """Takes the words of local-only memories out of what a remote provider would be sent; of one session."""

    def __init__(self, *places: Location) -> None:
        self._places = {place.directory: LocalOnly(place) for place in places}

    async def __call__(self, said: Said) -> tuple[Said, Sequence[Extra]]:
        """The same results without those words; a person's own words are theirs to send."""
        if not any(isinstance(block, ToolResult) for block in said.blocks):
            return said, ()
        staying = await self.now()
        if not staying.entries:
            return said, ()
        blocks = (_without(one, staying) if isinstance(one, ToolResult) else one for one in said.blocks)
        return replace(said, blocks=tuple(blocks)), ()

    async def over(self, records: Iterable[Record]) -> list[Record]:
        """A log as it may leave: it may have been written with a model on this machine."""
        staying = await self.now()
        return [_said_without(one, staying) if isinstance(one, Said) else one for one in records]

    async def now(self) -> Staying:
        """What stays of all places; one is looked through again only when a file of it has changed."""
        return await asyncio.to_thread(lambda: together(one.now() for one in self._places.values()))

    async def files_of(self, place: Location) -> frozenset[str]:
        """The files of one place that stay; nothing where this is not about it."""
        known = self._places.get(place.directory)
        return (await asyncio.to_thread(known.now)).files if known else frozenset()


def _by_user(records: list[Said]) -> Iterator[str]:
    for said in records:
        if said.role == "user" and not said.meta:
            yield from (block.text for block in said.blocks if isinstance(block, Text))


def by_tools(records: Sequence[Said], ours: Collection[str]) -> Iterator[str]:
    """What tools said, without what nacre put inside their results."""
    trusted: set[str] = set()
    for said in records:
        for block in said.blocks:
            if isinstance(block, ToolCall) and block.name in TRUSTED_TOOLS:
                trusted.add(block.id)
            elif isinstance(block, ToolResult) and block.call_id not in trusted:
                texts = (part.text for part in block.content if isinstance(part, Text))
                yield "\n".join(text for text in texts if digest(text) not in ours)


def _said_without(said: Said, staying: Staying) -> Said:
    if not staying.entries or (said.role == "user" and not said.meta and not _has_results(said)):
        return said
    return replace(said, blocks=tuple(_block_without(one, staying) for one in said.blocks))


def _has_results(said: Said) -> bool:
    return any(isinstance(block, ToolResult) for block in said.blocks)


def _block_without(block: Block, staying: Staying) -> Block:
    if isinstance(block, Text):
        return replace(block, text=staying.without(block.text))
    return _without(block, staying) if isinstance(block, ToolResult) else block


def _without(result: ToolResult, staying: Staying) -> ToolResult:
    parts = (
        replace(part, text=staying.without(part.text)) if isinstance(part, Text) else part
        for part in result.content
    )
    return replace(result, content=tuple(parts))
