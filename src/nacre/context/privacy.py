"""Tracks the origin of texts, and keeps local-only memories on this machine (M16b, M27)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nacre.errors import StoreError
from nacre.memory.checks.local_only import LocalOnly, LocalOnlyEntries, merge_local_only
from nacre.memory.checks.origins import origin_of
from nacre.memory.daily_log import with_marks
from nacre.memory.files.folder import Folder
from nacre.memory.files.location import Location
from nacre.memory.files.scan import LOGS
from nacre.memory.format.entry import Origin, read_entry
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import INDEX_FILE, MemoryIndex
from nacre.memory.memory import Memory
from nacre.memory.tools import DOUBT
from nacre.messages.blocks import Block, Text, ToolCall, ToolResult
from nacre.messages.records import Noted, Record, Said
from nacre.messages.transcript import Transcript
from nacre.session.attachments import INSIDE, RECORD, Attachment, digest

TRUSTED_TOOLS = frozenset({"correct", "forget", "recall", "remember", "TaskList"})
"""Tools whose results repeat what nacre itself stores; all other results come from outside."""
BY_AGENTS = frozenset({"agent", "mail"})
"""Kinds of notes about text from other agents: neither the user's nor the program's."""

INDEX_REFUSED = (
    "the new lines of MEMORY.md repeat what came from outside, and every conversation reads them: "
    "leave them out, and save what matters with `remember`"
)


class OriginTracker:
    """Finds the origin of a text from all records of a session."""

    def __init__(self) -> None:
        self._transcript: Transcript | None = None
        self.above: OriginTracker | None = None
        """Tracker of the agent that wrote the prompts here; None: a user did."""

    def attend(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def origin_of(self, text: str) -> Origin:
        """Return the origin of a text; only typed text counts as the user's, attachments do not (M16b)."""
        return self._judged(text)

    def marked(self, memory: Memory, file: str, content: bytes) -> bytes:
        """Return what a tool writes into a memory, marked if it repeats text from outside (M16b).

        Text in trusted files of that memory is not from outside, even if a tool showed it. The index has no
        field for a mark and is part of every prompt, so such text is refused there.
        """
        directory = memory.location.directory
        before = Folder(directory).read(file) or b""

        def is_outside(text: str, *known: bytes) -> bool:
            trusted = tuple(one.decode(errors="replace") for one in known)
            return self._judged(text, trusted=trusted, home=directory) == "untrusted"

        if file.rpartition("/")[2] == INDEX_FILE:
            new = _new_lines(before, content)
            if is_outside(new, before, *_pointed_to(directory, file, content)):
                raise StoreError(INDEX_REFUSED)
            return content
        if file.startswith(f"{LOGS}/"):
            return with_marks(file, before, content, is_untrusted=is_outside)
        known = () if read_entry(file, before).origin == "untrusted" else (before,)
        if is_outside(content.decode(errors="replace"), *known):
            return MarkdownFile.parse(content).with_fields(origin="untrusted")
        return content

    def _judged(self, text: str, *, trusted: tuple[str, ...] = (), home: Path | None = None) -> Origin:
        if self._transcript is None:
            return "agent"
        records = self._transcript.records
        said = [one for one in records if isinstance(one, Said) and one.aside is None]
        prompts = [one for one in said if one.role == "user" and not one.meta] if self.above is None else []
        typed = (block.text for one in prompts for block in one.blocks if isinstance(block, Text))
        by_user = (*typed, *trusted)
        ours = digests_inside_results(records)
        outside = (*by_tools(said, ours, home=home), *agent_texts(records))
        origin = origin_of(text, by_user=by_user, by_tools=outside)
        if origin == "untrusted" or self.above is None:
            return origin
        return self.above._judged(text, trusted=trusted, home=home)


class LocalOnlyFilter:
    """Removes the text of local-only memories from what is sent to a remote provider; of one session."""

    def __init__(self, *places: Location) -> None:
        self._places = {place.directory: LocalOnly(place) for place in places}

    async def filter(self, said: Said) -> Said:
        """Remove that text from tool results; users may send what they type."""
        if not any(isinstance(block, ToolResult) for block in said.blocks):
            return said
        staying = await self.now()
        if not staying.entries:
            return said
        blocks = (_without(one, staying) if isinstance(one, ToolResult) else one for one in said.blocks)
        return replace(said, blocks=tuple(blocks))

    async def attachments(self, extras: Sequence[Attachment]) -> Sequence[Attachment]:
        """Remove that text from letters and reports of agents, whose models may see more than this one."""
        if not any(one.kind in BY_AGENTS and one.text for one in extras):
            return extras
        staying = await self.now()
        return [
            replace(one, text=staying.without(one.text)) if one.kind in BY_AGENTS else one for one in extras
        ]

    async def over(self, records: Iterable[Record]) -> list[Record]:
        """Remove that text from a log, which may have been written with a model on this machine."""
        staying = await self.now()
        return [_redacted(one, staying) if isinstance(one, Said) else one for one in records]

    async def now(self) -> LocalOnlyEntries:
        """Return the local-only entries of all places; a place is read again only if one of its files
        changed."""
        return await asyncio.to_thread(lambda: merge_local_only(one.now() for one in self._places.values()))

    async def files_of(self, place: Location) -> frozenset[str]:
        """Return the local-only files of one place; empty for a place that is not covered."""
        known = self._places.get(place.directory)
        return (await asyncio.to_thread(known.now)).files if known else frozenset()


def digests_inside_results(records: Sequence[Record]) -> set[str]:
    """Return digests of the attachments inside results, except those with text of other agents."""
    notes = (one for one in records if isinstance(one, Noted) and one.kind not in BY_AGENTS)
    return {str(one.fact(INSIDE)) for one in notes if one.fact(INSIDE)}


def agent_texts(records: Sequence[Record]) -> Iterator[str]:
    """Return letters and reports in messages of their own; they may repeat what the agents have read."""
    notes = (one for one in records if isinstance(one, Noted) and one.kind in BY_AGENTS)
    theirs = {str(one.fact(RECORD)) for one in notes if not one.fact(INSIDE)}
    for said in records:
        if isinstance(said, Said) and said.meta and said.id in theirs:
            yield from (block.text for block in said.blocks if isinstance(block, Text))


def by_tools(records: Sequence[Said], ours: Collection[str], *, home: Path | None = None) -> Iterator[str]:
    """Return tool results without attachments inside them and without trusted files of a memory."""
    trusted: set[str] = set()
    for said in records:
        for block in said.blocks:
            if isinstance(block, ToolCall) and (block.name in TRUSTED_TOOLS or _reads_trusted(block, home)):
                trusted.add(block.id)
            elif isinstance(block, ToolResult):
                texts = (part.text for part in block.content if isinstance(part, Text))
                result = "\n".join(text for text in texts if digest(text) not in ours)
                # After the first mark nothing is trusted: an untrusted memory could imitate two.
                yield result.partition(DOUBT)[2] if block.call_id in trusted else result


def _reads_trusted(block: ToolCall, home: Path | None) -> bool:
    """Whether a call reads a memory's own trusted file, or its index."""
    if home is None or block.name != "Read":
        return False
    path = Path(str(block.input.get("file_path", "")))
    try:
        file = path.resolve().relative_to(home.resolve()).as_posix()
        return read_entry(file, path.read_bytes()).origin != "untrusted"
    except (OSError, ValueError):
        return False


def _new_lines(before: bytes, after: bytes) -> str:
    known = set(before.splitlines())
    return "\n".join(line.decode(errors="replace") for line in after.splitlines() if line not in known)


def _pointed_to(directory: Path, index: str, content: bytes) -> Iterator[bytes]:
    """Return the trusted files an index points to: it may contain their text."""
    folder = Folder(directory)
    for line in MemoryIndex.parse(content).pointers:
        with suppress(StoreError):
            data = folder.read(index.removesuffix(INDEX_FILE) + line.file) or b""
            if read_entry(line.file, data).origin != "untrusted":
                yield data


def _redacted(said: Said, staying: LocalOnlyEntries) -> Said:
    if not staying.entries or (said.role == "user" and not said.meta and not _has_results(said)):
        return said
    return replace(said, blocks=tuple(_block_without(one, staying) for one in said.blocks))


def _has_results(said: Said) -> bool:
    return any(isinstance(block, ToolResult) for block in said.blocks)


def _block_without(block: Block, staying: LocalOnlyEntries) -> Block:
    if isinstance(block, Text):
        return replace(block, text=staying.without(block.text))
    return _without(block, staying) if isinstance(block, ToolResult) else block


def _without(result: ToolResult, staying: LocalOnlyEntries) -> ToolResult:
    parts = (
        replace(part, text=staying.without(part.text)) if isinstance(part, Text) else part
        for part in result.content
    )
    return replace(result, content=tuple(parts))
