"""What of a conversation may be believed, and what of memory may leave the machine (M16b, M27)."""

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
"""Their results repeat what nacre itself keeps; everything else a tool says came from outside."""
BY_AGENTS = frozenset({"agent", "mail"})
"""Kinds of notes about what other agents say: neither the person's words nor the program's."""

INDEX_REFUSED = (
    "the new lines of MEMORY.md repeat what came from outside, and every conversation reads them: "
    "leave them out, and save what matters with `remember`"
)


class OriginTracker:
    """Heard everything in a session, and can tell whose words a text repeats."""

    def __init__(self) -> None:
        self._transcript: Transcript | None = None
        self.above: OriginTracker | None = None
        """Of whoever wrote what stands as a person's words here; none: a person did."""

    def attend(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def origin_of(self, text: str) -> Origin:
        """The person's words are those they typed; what nacre attached counts as nobody's (M16b)."""
        return self._judged(text)

    def marked(self, memory: Memory, file: str, content: bytes) -> bytes:
        """What a tool writes into a memory, with a mark where it repeats what came from outside (M16b).

        What stands in trusted files of that memory is not from outside, though a tool showed it. The index
        has no place for a mark and reaches every prompt, so there such words are refused.
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
        by_person = _by_user(said) if self.above is None else ()
        by_user = (*by_person, *trusted)
        ours = digests_inside_results(records)
        outside = (*by_tools(said, ours, home=home), *agent_texts(records))
        origin = origin_of(text, by_user=by_user, by_tools=outside)
        if origin == "untrusted" or self.above is None:
            return origin
        return self.above._judged(text, trusted=trusted, home=home)


class LocalOnlyFilter:
    """Takes the words of local-only memories out of what a remote provider would be sent; of one session."""

    def __init__(self, *places: Location) -> None:
        self._places = {place.directory: LocalOnly(place) for place in places}

    async def filter(self, said: Said) -> Said:
        """The same results without those words; a person's own words are theirs to send."""
        if not any(isinstance(block, ToolResult) for block in said.blocks):
            return said
        staying = await self.now()
        if not staying.entries:
            return said
        blocks = (_without(one, staying) if isinstance(one, ToolResult) else one for one in said.blocks)
        return replace(said, blocks=tuple(blocks))

    async def attachments(self, extras: Sequence[Attachment]) -> Sequence[Attachment]:
        """The same of what other agents write and report, whose models may be told more than this one."""
        if not any(one.kind in BY_AGENTS and one.text for one in extras):
            return extras
        staying = await self.now()
        return [
            replace(one, text=staying.without(one.text)) if one.kind in BY_AGENTS else one for one in extras
        ]

    async def over(self, records: Iterable[Record]) -> list[Record]:
        """A log as it may leave: it may have been written with a model on this machine."""
        staying = await self.now()
        return [_said_without(one, staying) if isinstance(one, Said) else one for one in records]

    async def now(self) -> LocalOnlyEntries:
        """What stays of all places; one is looked through again only when a file of it has changed."""
        return await asyncio.to_thread(lambda: merge_local_only(one.now() for one in self._places.values()))

    async def files_of(self, place: Location) -> frozenset[str]:
        """The files of one place that stay; nothing where this is not about it."""
        known = self._places.get(place.directory)
        return (await asyncio.to_thread(known.now)).files if known else frozenset()


def _by_user(records: list[Said]) -> Iterator[str]:
    for said in records:
        if said.role == "user" and not said.meta:
            yield from (block.text for block in said.blocks if isinstance(block, Text))


def digests_inside_results(records: Sequence[Record]) -> set[str]:
    """Digests of what nacre itself put inside results; what other agents say is not its own."""
    notes = (one for one in records if isinstance(one, Noted) and one.kind not in BY_AGENTS)
    return {str(one.fact(INSIDE)) for one in notes if one.fact(INSIDE)}


def agent_texts(records: Sequence[Record]) -> Iterator[str]:
    """Letters and reports that stand beside a message: words of somebody who may repeat what it has read."""
    notes = (one for one in records if isinstance(one, Noted) and one.kind in BY_AGENTS)
    theirs = {str(one.fact(RECORD)) for one in notes if not one.fact(INSIDE)}
    for said in records:
        if isinstance(said, Said) and said.meta and said.id in theirs:
            yield from (block.text for block in said.blocks if isinstance(block, Text))


def by_tools(records: Sequence[Said], ours: Collection[str], *, home: Path | None = None) -> Iterator[str]:
    """What tools said, without what nacre put inside their results and without trusted files of a memory."""
    trusted: set[str] = set()
    for said in records:
        for block in said.blocks:
            if isinstance(block, ToolCall) and (block.name in TRUSTED_TOOLS or _reads_trusted(block, home)):
                trusted.add(block.id)
            elif isinstance(block, ToolResult):
                texts = (part.text for part in block.content if isinstance(part, Text))
                result = "\n".join(text for text in texts if digest(text) not in ours)
                # Behind the first doubt nothing is believed: an untrusted memory could look like two.
                yield result.partition(DOUBT)[2] if block.call_id in trusted else result


def _reads_trusted(block: ToolCall, home: Path | None) -> bool:
    """Whether a call shows a memory's own file that somebody vouches for, or its index."""
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
    """The trusted files an index points to: their words may stand in it."""
    folder = Folder(directory)
    for line in MemoryIndex.parse(content).pointers:
        with suppress(StoreError):
            data = folder.read(index.removesuffix(INDEX_FILE) + line.file) or b""
            if read_entry(line.file, data).origin != "untrusted":
                yield data


def _said_without(said: Said, staying: LocalOnlyEntries) -> Said:
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
