"""Erase a memory from its directory, every commit and every session, and report where it was (M14b)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nacre.errors import StoreError
from nacre.memory.daily_log import LogLine, forget_line, read_log, read_logs, without
from nacre.memory.files.folder import Folder
from nacre.memory.files.scan import LOGS
from nacre.memory.files.undo import purge
from nacre.memory.format.entry import MemoryChange, read_entry
from nacre.memory.format.index import INDEX_FILE, MemoryIndex
from nacre.memory.memory import Memory
from nacre.memory.purge.home import HomePurge, PurgeOptions, QuotedPlace, forget_derived
from nacre.memory.purge.traces import Traces
from nacre.memory.recall.usage import forget_usage
from nacre.memory.team.state import forget_copies
from nacre.memory.transfer.move import MOVED
from nacre.store.history import History, Scrub

ALL_CHANGES = 1_000_000
"""More commits than any history has: a memory may have been moved long ago."""
SAYS_SO_TOO = "another memory says the same; forget that one, too, if it shall go"


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What was erased, where it was, and what is left."""

    file: str
    commits: int
    files: tuple[str, ...]
    left: tuple[str, ...]
    """Objects of the history and files of the directory that still name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeTarget:
    """All texts that one memory ever had, read before it is erased."""

    file: str
    folder: str
    texts: tuple[str, ...] = field(repr=False)
    copies: frozenset[str] = field(repr=False)
    """SHA-256 of every content its file had."""
    commits: int
    shared: tuple[QuotedPlace, ...] = ()
    """Other memories that say the same in the same words."""
    others: tuple[str, ...] = field(default=(), repr=False)
    """What is not this memory's alone: texts that say the same, and the names of other memories."""

    @property
    def traces(self) -> Traces:
        """What is searched for."""
        return Traces(self.file, self.texts, folder=self.folder, others=self.others)

    def sweep(self, home: Path, *, wishes: PurgeOptions, is_shared: bool = False) -> HomePurge:
        """What finds and erases it in the sessions of a home.

        `is_shared` says that the home is another program's as well, whose logs are changed only when asked.
        """
        return HomePurge(
            home=home, traces=self.traces, copies=self.copies, is_shared=is_shared, wishes=wishes
        )


def purge_target(memory: Memory, file: str, *, others: Sequence[Memory] = ()) -> PurgeTarget:
    """What a memory says and said, here and where it was moved from or to."""
    contents: dict[bytes, None] = {}
    pointers: dict[str, None] = {}
    commits = 0
    for one in (memory, *[other for other in others if _had(other, file)]):
        versions = list(versions_of(one, file))
        commits += len(versions)
        for content, index in versions:
            contents.update({content: None} if content else {})
            pointers.update(dict.fromkeys(_pointers(index, file)))
    texts = [text for content in contents for text in _texts(file, content)]
    beside = {path: text for one in (memory, *others) for path, text in said_beside(one, file)}
    same, known = say_the_same(beside, file, [*texts, *pointers])
    return PurgeTarget(
        file=file,
        folder=memory.location.directory.name,
        texts=(*texts, *pointers),
        copies=frozenset(hashlib.sha256(content).hexdigest() for content in contents),
        commits=commits,
        shared=same,
        others=known,
    )


def say_the_same(
    beside: Mapping[Path, str], file: str, texts: Iterable[str]
) -> tuple[tuple[QuotedPlace, ...], tuple[str, ...]]:
    """Where other memories say the same, and what is therefore not this memory's alone."""
    names = "\n".join(path.stem for path in beside)
    whole = Traces(file, texts, others=[names])
    same = {path: text for path, text in beside.items() if whole.are_in(text)}
    return tuple(QuotedPlace(path=path, why=SAYS_SO_TOO) for path in same), (names, *same.values())


def said_beside(memory: Memory, file: str) -> Iterator[tuple[Path, str]]:
    """The other memories of a directory, and the lines of its index that are not about the file."""
    directory = memory.location.directory
    folder = Folder(directory)
    for name in sorted(folder.scan()):
        if name not in {file, INDEX_FILE}:
            yield directory / name, (folder.read(name) or b"").decode(errors="replace")
    if index := folder.read(INDEX_FILE):
        yield directory / INDEX_FILE, MemoryIndex.parse(index).without(file).decode(errors="replace")


async def erase(memory: Memory, file: str, change: MemoryChange, *, others: Sequence[Memory] = ()) -> Erased:
    """Forget a file if it is there, then take it and its lines out of the whole history.

    `others` are the memories it may have been moved from or to: where that is on record, their history loses
    it too.
    """
    traces = purge_target(memory, file, others=others).traces
    if Folder(memory.location.directory).read(file) is not None:
        await memory.forget(file, change)
    concerned = [memory, *[other for other in others if _had(other, file)]]
    found = [await _purged(one, file, traces) for one in concerned]
    for one in concerned:
        forget_derived(one.location.cache)
        forget_copies(one.location.cache, file)
        forget_usage(one.location.cache, file)
    return Erased(
        file=file,
        commits=sum(one.commits for one in found),
        files=tuple(sorted({name for one in found for name in one.files})),
        left=tuple(name for one in found for name in one.left),
    )


async def _purged(memory: Memory, file: str, traces: Traces) -> Erased:
    scrub = and_rare_words(without_pointers(file), traces)
    purged = await purge(memory.location, [file], scrub=scrub)
    folder = Folder(memory.location.directory)
    naming = [name for name in sorted(folder.scan()) if scrub(data := folder.read(name) or b"") != data]
    return Erased(file=file, commits=purged.commits, files=purged.files, left=(*purged.left, *naming))


def _had(other: Memory, file: str) -> bool:
    """Whether this very memory went through another directory; one that merely has its name did not."""
    if Folder(other.location.directory).read(file) is not None:
        return False
    changes = History(other.location.history).log(ALL_CHANGES, file=file)
    return any(one.reason.startswith(MOVED) for one in changes)


def versions_of(memory: Memory, file: str) -> Iterator[tuple[bytes, bytes]]:
    """What the file and the index held after each change of the file, and hold now."""
    history = History(memory.location.history)
    for commit in history.log(ALL_CHANGES, file=file):
        yield history.read(commit.id, file) or b"", history.read(commit.id, INDEX_FILE) or b""
    folder = Folder(memory.location.directory)
    now = folder.read(file)
    if now is not None:
        yield now, folder.read(INDEX_FILE) or b""


def _texts(file: str, content: bytes) -> Iterable[str]:
    entry = read_entry(file, content)
    return [text for text in (entry.body, entry.description, entry.title) if text.strip()]


def _pointers(index: bytes, file: str) -> Iterator[str]:
    for line in MemoryIndex.parse(index).lines:
        if line.file == file:
            yield from (text for text in (line.title, line.hook) if text)


def and_rare_words(scrub: Scrub, traces: Traces) -> Scrub:
    """Leave out what another scrub does, and put a mark in place of the memory's rare words."""

    def both(data: bytes) -> bytes:
        text = scrub(data).decode(errors="surrogateescape")
        return traces.without_rare_words(text).encode(errors="surrogateescape")

    return both


def without_pointers(file: str) -> Scrub:
    """Leave out the lines of an index that point to a file, and the reasons that name it.

    Other memories' own words stay: a line of theirs that vanished from the history would come back with the
    next edit.
    """
    reasons = re.compile(
        rf"^(?:undo \w+: )*edited by other means: {re.escape(file)}(?= |$).*\n?", re.MULTILINE
    )

    def scrub(data: bytes) -> bytes:
        text = MemoryIndex.parse(data).without(file).decode(errors="surrogateescape")
        return reasons.sub("", text).encode(errors="surrogateescape")

    return scrub


ALL_LOGS = 1_000_000
"""More days than any log has: what is erased may be old."""


def line_named(memory: Memory, name: str) -> LogLine | None:
    """The line at exactly this place, or that says exactly this; what cannot be undone is never guessed."""
    lines = read_logs(memory.location, newest=ALL_LOGS)
    if name.startswith(f"{LOGS}/"):
        return next((one for one in lines if one.place == name), None)
    same = [one for one in lines if one.text.casefold() == name.casefold()]
    if len(same) > 1:
        places = ", ".join(one.place for one in same)
        raise StoreError(
            f"{name!r} stands in several places: {places}; name one, because this cannot be undone"
        )
    return same[0] if same else None


def purge_target_of_line(memory: Memory, line: LogLine) -> PurgeTarget:
    """What a line says, and where else it is said; read before it is erased."""
    directory = memory.location.directory
    folder = Folder(directory)
    left = without(folder.read(line.file) or b"", [line]).decode(errors="replace")
    beside = {**dict(said_beside(memory, line.file)), directory / line.file: left}
    same, known = say_the_same(beside, line.place, [line.text])
    return PurgeTarget(
        file=line.place,
        folder=directory.name,
        texts=(line.text,),
        copies=frozenset(),
        commits=sum(bool(_forms(line, content)) for content, _ in versions_of(memory, line.file)),
        shared=same,
        others=known,
    )


async def erase_line(memory: Memory, line: LogLine, change: MemoryChange) -> Erased:
    """Take a line out of its log, then out of every version of it that the history has."""
    forms = {form for content, _ in versions_of(memory, line.file) for form in _forms(line, content)}
    scrub = and_rare_words(without_forms(forms), purge_target_of_line(memory, line).traces)
    await forget_line(memory, line, change)
    purged = await purge(memory.location, [], scrub=scrub)
    forget_derived(memory.location.cache)
    folder = Folder(memory.location.directory)
    still = [name for name in sorted(folder.scan()) if scrub(data := folder.read(name) or b"") != data]
    return Erased(file=line.place, commits=purged.commits, files=purged.files, left=(*purged.left, *still))


def without_forms(forms: Iterable[tuple[bytes, ...]]) -> Scrub:
    """Leave out every run of whole lines that is one of these; line ends do not matter."""
    wanted = sorted(forms, key=lambda form: (-len(form), form))

    def scrub(data: bytes) -> bytes:
        lines = data.split(b"\n")
        before = -1
        while len(lines) != before:  # what moved together may be one of them, too
            before = len(lines)
            for form in wanted:
                lines = _without_run(lines, form)
        return b"\n".join(lines)

    return scrub


def _without_run(lines: list[bytes], form: tuple[bytes, ...]) -> list[bytes]:
    at = 0
    bare = [line.rstrip() for line in lines]
    while at <= len(lines) - len(form):
        if tuple(bare[at : at + len(form)]) == form:
            del lines[at : at + len(form)], bare[at : at + len(form)]
        else:
            at += 1
    return lines


def _forms(line: LogLine, content: bytes) -> list[tuple[bytes, ...]]:
    """How a version of the log wrote this fact down: its lines, without what ends them."""
    lines = content.split(b"\n")
    facts = (one for one in read_log(line.file, content) if _is_same(one, line))
    return [tuple(each.rstrip() for each in lines[one.line - 1 : one.end]) for one in facts]


def _is_same(one: LogLine, line: LogLine) -> bool:
    """Said at the same time in the same words, wherever in the log."""
    return replace(one, line=0, end=0) == replace(line, line=0, end=0)
