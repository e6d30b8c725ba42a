"""What of a conversation may be believed, and what of memory may leave the machine (M16b, M27)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from nacre.memory.entry import Origin
from nacre.memory.origins import origin_of
from nacre.memory.staying import Staying, staying_in
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.records import Said
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
        records = [one for one in self._transcript.records if isinstance(one, Said) and one.aside is None]
        return origin_of(text, by_user=_by_user(records), by_tools=_by_tools(records))


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


def _by_tools(records: list[Said]) -> Iterator[str]:
    trusted: set[str] = set()
    for said in records:
        for block in said.blocks:
            if isinstance(block, ToolCall) and block.name in TRUSTED_TOOLS:
                trusted.add(block.id)
            elif isinstance(block, ToolResult) and block.call_id not in trusted:
                yield block.text


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
