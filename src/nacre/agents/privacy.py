"""What of a conversation may be believed, and what of memory may leave the machine (M16b, M27)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from nacre.agents.riding import INSIDE, digest
from nacre.memory.entry import Origin
from nacre.memory.origins import origin_of
from nacre.memory.staying import Staying, staying_in
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
        return origin_of(text, by_user=_by_user(said), by_tools=_by_tools(said, ours))


class StaysHere:
    """Takes the words of local-only memories out of what a remote provider would be sent; of one session."""

    def __init__(self, *directories: Path) -> None:
        self._directories = directories
        self._stamp: tuple[int, ...] = ()
        self._staying = Staying()

    async def __call__(self, said: Said) -> Said:
        """The same results without those words; a person's own words are theirs to send."""
        if not any(isinstance(block, ToolResult) for block in said.blocks):
            # Somebody may have edited a file in place: each turn looks once more.
            self._stamp = ()
            return said
        staying = await self.now()
        if not staying.entries:
            return said
        blocks = (_without(one, staying) if isinstance(one, ToolResult) else one for one in said.blocks)
        return replace(said, blocks=tuple(blocks))

    async def over(self, records: Iterable[Record]) -> list[Record]:
        """A log as it may leave: it may have been written with a model on this machine."""
        staying = await self.now()
        return [_said_without(one, staying) if isinstance(one, Said) else one for one in records]

    async def now(self) -> Staying:
        """What stays, looked up again whenever a file came, went or was replaced."""
        stamp = await asyncio.to_thread(_stamp, self._directories)
        if stamp != self._stamp:
            self._staying = await asyncio.to_thread(staying_in, self._directories)
            self._stamp = stamp
        return self._staying


def _by_user(records: list[Said]) -> Iterator[str]:
    for said in records:
        if said.role == "user" and not said.meta:
            yield from (block.text for block in said.blocks if isinstance(block, Text))


def _by_tools(records: list[Said], ours: set[str]) -> Iterator[str]:
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


def _stamp(directories: tuple[Path, ...]) -> tuple[int, ...]:
    """Changes when a file is made, removed or replaced, which is how memories are written."""
    return tuple(_changed(directory) for directory in directories)


def _changed(directory: Path) -> int:
    try:
        return directory.stat().st_mtime_ns
    except OSError:
        return -1
