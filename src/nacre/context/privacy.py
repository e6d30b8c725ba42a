"""Tracks the origin of texts, and keeps local-only memories on this machine (M16b, M27)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from nacre.context.mcp_instructions import MCP_INSTRUCTIONS
from nacre.errors import StoreError
from nacre.memory.checks.local_only import LocalOnly, LocalOnlyEntries, merge_local_only
from nacre.memory.daily_log import with_marks
from nacre.memory.files.folder import Folder
from nacre.memory.files.location import Location
from nacre.memory.files.scan import LOGS
from nacre.memory.format.entry import (
    DOUBTFUL,
    Entry,
    Origin,
    clipped,
    derived_file_name,
    description_of,
    file_subject,
    one_line,
    read_entry,
    title_of,
    whole_text,
)
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import INDEX_FILE, MemoryIndex, is_usual_heading, pointer_line
from nacre.memory.memory import Memory
from nacre.memory.tools import DOUBT, OriginJudge
from nacre.messages.blocks import Block, Document, Image, Opaque, Text, ToolCall, ToolResult
from nacre.messages.facts import carried
from nacre.messages.records import Compacted, Noted, Record, Said
from nacre.messages.tool_references import TOOL_REFERENCE
from nacre.messages.transcript import Transcript
from nacre.session.layer import INSIDE, RECORD, Attachment, digest

TRUSTED_TOOLS = frozenset({"correct", "forget", "recall", "remember", "TaskList"})
"""Tools whose results repeat what nacre itself stores; all other results come from outside."""
BY_OTHERS = frozenset({"agent", "hook", "mail", MCP_INSTRUCTIONS})
"""Kinds of notes about text of agents, MCP servers and hooks: neither the user's nor the program's."""

SHOWN_SECRET = "the text repeats a credential that a tool result shows, and secrets do not belong into memory"


UNVERIFIED = (
    "saved {file} as unverified, because nothing you typed says so: {text} (/confirm or "
    "`nacre memory confirm {file}` keeps it, else it is never attached)"
)
INDEX_REFUSED = (
    "MEMORY.md has headings and one line for each memory, and every conversation reads it: leave out "
    "{line!r}, and save what matters with `remember`"
)
NAME_REFUSED = "the name {file} says what its text does not say; name the file {better}"
MAX_NOTICE_CHARS = 100
_OWN_LINES = frozenset({"heading", "pointer"})


def _turns(hook: str, text: str) -> bool:
    """Whether a hook denies, exchanges or counts differently what the text of its memory says."""
    from nacre.memory.checks.faithful import Sources  # noqa: PLC0415 - only an edit of an index needs it

    return bool(Sources([text]).altered(hook, new_words="any"))


class OriginTracker(OriginJudge):
    """Finds the origin of a text from all records of a session."""

    def __init__(self) -> None:
        self._transcript: Transcript | None = None
        self._is_resumed = False
        self._shown: dict[str, frozenset[str]] = {}
        """Values of credentials by the tool result that shows them."""
        self.above: OriginTracker | None = None
        """Tracker of the agent that wrote the prompts here; None: a user did."""
        self.has_outside_context: Callable[[], bool] = lambda: False
        """Whether the prompt contains text of an untrusted repository, an MCP server or a team."""
        self.notify: Callable[[str], None] = lambda text: None
        """Called with a line for the person when something is saved as unverified."""

    def attend(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._is_resumed = any(isinstance(one, Said | Compacted) for one in transcript.records)

    def origin_of(self, text: str, *, trusted: tuple[str, ...] = (), home: Path | None = None) -> Origin:
        """Return the origin of a text; only typed text counts as the user's, attachments do not (M16b).

        Once the session has read anything from outside, a text is `unverified` unless the user's words
        support it. `trusted` texts count as the user's own; results that show trusted files of `home` do
        not count. Raises `StoreError` for a text that repeats a credential which a result shows (M16).
        """
        from nacre.memory.checks.origins import origin_of  # noqa: PLC0415 - only a save needs its patterns

        if self._transcript is None:
            return "agent"
        typed, _ = self._typed()
        outside = self._outside(home)
        self._refuse_shown_secrets(text, outside)
        if origin_of(text, by_user=(*typed, *trusted), by_tools=outside) == "untrusted":
            return "untrusted"
        origin = origin_of(text, by_user=typed, by_tools=())
        is_doubted = self.has_contact(home) and not self.supports(text, trusted=trusted, home=home)
        return "unverified" if is_doubted else origin

    def has_contact(self, home: Path | None = None) -> bool:
        """Return whether the session has had contact with text from outside.

        A resumed session counts as if it had: results before a compaction are not loaded again, and the
        conversation may contain instructions, skills or a team's memories whose files are gone.
        """
        return bool(self._outside(home)) or any(
            one._is_resumed or one._has_media() or one.has_outside_context() for one in self._chain()
        )

    def _has_media(self) -> bool:
        """Whether the session has pictures, documents or results of a provider's own tools."""
        records = self._transcript.records if self._transcript is not None else ()
        said = (one for one in records if isinstance(one, Said) and one.aside is None)
        return any(_is_media(block) for one in said for block in one.blocks)

    def supports(self, text: str, *, trusted: tuple[str, ...] = (), home: Path | None = None) -> bool:
        """Return whether the user's words, or trusted ones, support a text; also without any contact."""
        from nacre.memory.checks.origins import plain_words  # noqa: PLC0415 - only a save needs its patterns
        from nacre.memory.checks.support import is_supported_by  # noqa: PLC0415 - see above

        typed, at = self._typed()
        agreed, answered = self._agreed()
        outside = self._outside(home)

        def is_from_outside(word: str) -> bool:
            return any(word in plain_words(one) for one in outside)

        said = (*typed, *agreed)
        return is_supported_by(
            text, said, old=trusted, answered=answered, is_from_outside=is_from_outside, at=at
        )

    def _outside(self, home: Path | None) -> list[str]:
        return [one for tracker in self._chain() for one in tracker.outside_texts(home) if one.strip()]

    def _index(self, directory: Path, file: str, before: bytes, content: bytes) -> bytes:
        """Return an index whose new lines are headings or pointers with a hook from the text of their file.

        A pointer to a memory that is not trusted is left out, and another hook is replaced by the description
        of the memory. Raises `StoreError` for another line; before the session has had contact, any heading
        and pointers to files that are still to be written are fine.
        """
        old = set(before.splitlines(keepends=True))
        folder = Folder(directory)
        lines: list[str] = []
        has_contact = self.has_contact(directory)
        for line in MemoryIndex.parse(content).lines:
            raw = line.raw.encode(errors="surrogateescape")
            data = None
            if line.kind == "pointer":
                with suppress(StoreError):
                    data = folder.read(file.removesuffix(INDEX_FILE) + line.file)
            entry = read_entry(line.file, data or b"")
            if data is not None and not entry.is_trusted:
                continue
            is_fine = raw in old or not raw.strip() or (not has_contact and line.kind in _OWN_LINES)
            if data is not None and raw not in old:
                known = f"{entry.title}. {entry.description}\n{entry.body}"
                is_grounded = (
                    self.supported_title(line.title, known)
                    and (not line.hook or self.supported_title(line.hook, known))
                    and not _turns(line.hook, known)
                )
                eol = line.raw[len(line.raw.rstrip("\r\n")) :]
                shown = pointer_line(line.file, entry.title, entry.description) + eol
                lines.append(line.raw if is_grounded else shown)
            elif is_fine or (line.kind == "heading" and is_usual_heading(line.title)):
                lines.append(line.raw)
            else:
                raise StoreError(INDEX_REFUSED.format(line=clipped(one_line(line.raw), MAX_NOTICE_CHARS)))
        return "".join(lines).encode(errors="surrogateescape")

    def supported_title(self, title: str, body: str) -> str:
        """Return a title or description; empty if its body does not support it after contact.

        The body alone: words of the user about something else would say in the title what no text says.
        """
        from nacre.memory.checks.support import (  # noqa: PLC0415 - only a save needs it
            has_content,
            is_title_of,
            without_labels,
        )

        bare = without_labels(title)
        if not self.has_contact() or not has_content(bare) or is_title_of(bare, body):
            return title
        return ""

    def saved(self, entry: Entry) -> None:
        """Report an unverified entry to the person, with the way to confirm it."""
        if entry.origin == "unverified":
            *_, top = self._chain()
            text = clipped(one_line(entry.body), MAX_NOTICE_CHARS)
            top.notify(UNVERIFIED.format(file=entry.file, text=text))

    def outside_texts(self, home: Path | None) -> Iterator[str]:
        """Return the texts from outside in this session: results of tools, and what others wrote."""
        records = self._transcript.records if self._transcript is not None else ()
        said = [one for one in records if isinstance(one, Said) and one.aside is None]
        yield from by_tools(said, digests_inside_results(records), home=home)
        yield from texts_by_others(records)

    def _chain(self) -> Iterator[OriginTracker]:
        """Return this tracker and those of the agents above it, whose prompts may repeat what they read."""
        tracker: OriginTracker | None = self
        while tracker is not None:
            yield tracker
            tracker = tracker.above

    def _messages(self) -> list[Said]:
        """Return what the user typed and what agents answered, in the session that a user talks to."""
        *_, top = self._chain()
        records = top._transcript.records if top._transcript is not None else ()
        said = (one for one in records if isinstance(one, Said) and one.aside is None and not one.meta)
        return [one for one in said if any(isinstance(block, Text) for block in one.blocks)]

    def _typed(self) -> tuple[list[str], datetime | None]:
        """Return what the user typed, and the time of the last message.

        A resumed session knows what was typed before a compaction from the quotations that it carries.
        """
        *_, top = self._chain()
        records = top._transcript.records if top._transcript is not None else ()
        compactions = (carried(one) for one in records if isinstance(one, Compacted))
        quoted = [quote.text for facts in compactions if facts for quote in facts.words]
        prompts = [one for one in self._messages() if one.role == "user"]
        typed = [block.text for one in prompts for block in one.blocks if isinstance(block, Text)]
        return [*quoted, *typed], prompts[-1].at if prompts else None

    def _agreed(self) -> tuple[list[str], list[tuple[str, str]]]:
        """Return what an agent proposed and the user agreed to, and short answers with their questions."""
        from nacre.memory.checks.support_answers import (  # noqa: PLC0415 - only a save needs it
            agreed_text,
            answered_text,
        )

        pairs = [
            (_text_of(before), _text_of(answer))
            for before, answer in pairwise(self._messages())
            if before.role == "assistant" and answer.role == "user"
        ]
        return [agreed_text(*one) for one in pairs], [(answered_text(*one), one[1]) for one in pairs]

    def _refuse_shown_secrets(self, text: str, outside: Sequence[str]) -> None:
        from nacre.memory.secrets import (  # noqa: PLC0415 - as above
            assigned_values,
            pointer_advice,
            repeats_value,
        )

        for one in outside:
            if one not in self._shown:
                self._shown[one] = assigned_values(one)
        values = frozenset[str]().union(*(self._shown[one] for one in outside))
        if repeats_value(text, values):
            raise StoreError(f"{SHOWN_SECRET}; {pointer_advice(text, values)}")

    def marked(self, memory: Memory, file: str, content: bytes) -> bytes:
        """Return what a tool writes into a memory, with a mark if its origin is not trusted (M16b).

        Text in trusted files of that memory is not from outside, even if a tool showed it. The index has no
        field for a mark and is part of every prompt, so such text is refused there.
        """
        directory = memory.location.directory
        before = Folder(directory).read(file) or b""

        def origin_of(text: str, *known: bytes) -> Origin:
            trusted = tuple(one.decode(errors="replace") for one in known)
            return self.origin_of(text, trusted=trusted, home=directory)

        if file.rpartition("/")[2] == INDEX_FILE:
            return self._index(directory, file, before, content)
        if file.startswith(f"{LOGS}/"):
            return with_marks(file, before, content, origin_of=origin_of)
        entry = read_entry(file, content)
        was = read_entry(file, before)
        known = (whole_text(was).encode(),) if was.is_trusted else ()
        origin = origin_of(whole_text(entry), *known)
        if origin in DOUBTFUL:
            # A title that nothing supports does not make the text doubtful: another one is derived.
            origin = origin_of(entry.body, *known)
        if self.has_contact(directory):
            if not before:
                self._check_name(file, entry)
            kept = "" if origin in DOUBTFUL else entry.body
            own = f"{kept}\n{whole_text(was) if was.is_trusted else ''}"
            name = self.supported_title(entry.name, own) or title_of(entry.body)
            said = self.supported_title(entry.description, own) or description_of(entry.body, name)
            content = MarkdownFile.parse(content).with_fields(name=name, description=said)
        if origin in DOUBTFUL:
            return MarkdownFile.parse(content).with_fields(origin=origin)
        if was.is_trusted:
            return content
        # Only the user's words raise what was doubted, also in a session without contact.
        is_raised = was.origin == "unverified" and self.supports(entry.body, home=directory)
        return MarkdownFile.parse(content).with_fields(origin="agent" if is_raised else was.origin)

    def _check_name(self, file: str, entry: Entry) -> None:
        """Raise `StoreError` if the name of a new file, which an index shows, says what its text does not."""
        if not self.supported_title(file_subject(file), entry.body):
            better = derived_file_name(entry)
            if file.rpartition("/")[2] != better:
                raise StoreError(NAME_REFUSED.format(file=file, better=better))


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
        return replace(said, blocks=tuple(_without(one, staying) for one in said.blocks))

    async def attachments(self, extras: Sequence[Attachment]) -> Sequence[Attachment]:
        """Remove that text from letters and reports of agents, whose models may see more than this one."""
        if not any(one.kind in BY_OTHERS and one.text for one in extras):
            return extras
        staying = await self.now()
        return [
            replace(one, text=staying.without(one.text)) if one.kind in BY_OTHERS else one for one in extras
        ]

    async def over(self, records: Iterable[Record]) -> list[Record]:
        """Remove that text from a log, which may have been written with a model on this machine."""
        staying = await self.now()
        if not staying.entries:
            return list(records)
        return [_redacted(one, staying) if isinstance(one, Said) else one for one in records]

    async def now(self) -> LocalOnlyEntries:
        """Return the local-only entries of all places; a place is read again only if one of its files
        changed."""
        return await asyncio.to_thread(lambda: merge_local_only(one.now() for one in self._places.values()))

    async def files_of(self, place: Location) -> frozenset[str]:
        """Return the local-only files of one place; empty for a place that is not covered."""
        known = self._places.get(place.directory)
        return (await asyncio.to_thread(known.now)).files if known else frozenset()


def _text_of(said: Said) -> str:
    return "\n".join(block.text for block in said.blocks if isinstance(block, Text))


def _is_media(block: Block) -> bool:
    """Whether a block may contain words of others that are not in its text."""
    match block:
        case Image() | Document():
            return True
        case Opaque(kind):
            return kind.endswith("_tool_result")
        case ToolResult(content=parts):
            others = (part for part in parts if not isinstance(part, Text))
            return any(not (isinstance(one, Opaque) and one.kind == TOOL_REFERENCE) for one in others)
        case _:
            return False


def digests_inside_results(records: Sequence[Record]) -> set[str]:
    """Return digests of the attachments inside results, except those with text of others."""
    notes = (one for one in records if isinstance(one, Noted) and one.kind not in BY_OTHERS)
    return {str(one.fact(INSIDE)) for one in notes if one.fact(INSIDE)}


def texts_by_others(records: Sequence[Record]) -> Iterator[str]:
    """Return letters, reports, instructions of MCP servers and output of hooks in messages of their own."""
    notes = (one for one in records if isinstance(one, Noted) and one.kind in BY_OTHERS)
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
        return read_entry(file, path.read_bytes()).is_trusted
    except (OSError, ValueError):
        return False


def _redacted(said: Said, staying: LocalOnlyEntries) -> Said:
    """Remove that text from all but a user's own prompt."""
    if said.role == "user" and not said.meta and not any(isinstance(one, ToolResult) for one in said.blocks):
        return said
    blocks = (
        replace(one, text=staying.without(one.text)) if isinstance(one, Text) else _without(one, staying)
        for one in said.blocks
    )
    return replace(said, blocks=tuple(blocks))


def _without(block: Block, staying: LocalOnlyEntries) -> Block:
    """Remove that text from a tool result; another block stays as it is."""
    if not isinstance(block, ToolResult):
        return block
    parts = (
        replace(part, text=staying.without(part.text)) if isinstance(part, Text) else part
        for part in block.content
    )
    return replace(block, content=tuple(parts))
