"""Erase a memory from its directory, every commit and every session, and report where it was (M14b)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
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
from nacre.memory.purge.home import (
    OTHER_MEMORY,
    PURGING,
    HomePurge,
    PurgeOptions,
    QuotedPlace,
    forget_derived,
)
from nacre.memory.purge.traces import Traces
from nacre.memory.purge.values import find_values
from nacre.memory.recall.usage import forget_usage
from nacre.memory.team.remote import forget_copies
from nacre.memory.transfer.move import MOVED
from nacre.store import disk
from nacre.store.history import History, Scrub

ALL_CHANGES = 1_000_000
"""More commits than any history has: a memory may have been moved long ago."""
COMMON_FILES = 2
"""A name that so many files of the project contain is a word of the project."""
MAX_PROJECT_FILES = 20_000
MAX_PROJECT_BYTES = 1_048_576
NO_SOURCES = frozenset({"node_modules", "target", "dist", "build", "__pycache__", "venv"})
"""Folders of a project with generated files; those with a leading dot are skipped as well."""


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
    common: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    """Values that are words of the project, with files that contain them."""
    forms: tuple[tuple[bytes, ...], ...] = field(default=(), repr=False)
    """How versions of a log wrote the fact down; empty unless this is a line of a log."""
    directories: tuple[str, ...] = ()
    """The memory directories whose history has it."""

    @property
    def traces(self) -> Traces:
        """What is searched for."""
        return Traces(self.file, self.texts, folder=self.folder, others=self.others, common=self.common)

    def sweep(self, home: Path, *, wishes: PurgeOptions, is_shared: bool = False) -> HomePurge:
        """What finds and erases it in the sessions of a home.

        `is_shared` says that the home is another program's as well, whose logs are changed only when asked.
        """
        return HomePurge(
            home=home, traces=self.traces, copies=self.copies, is_shared=is_shared, wishes=wishes
        )


def purge_target(
    memory: Memory, file: str, *, others: Sequence[Memory] = (), beside: Mapping[Path, str] | None = None
) -> PurgeTarget:
    """What a memory says and said, here and where it was moved from or to.

    `beside` are the memories of other projects. An interrupted purge left a journal, which is part of it.
    """
    contents: dict[bytes, None] = {}
    pointers: dict[str, None] = {}
    commits = 0
    begun = read_journal(memory, file)
    had = [one for one in others if _had(one, file) or (begun and _directory(one) in begun.directories)]
    for one in (memory, *had):
        versions = list(versions_of(one, file))
        commits += len(versions)
        for content, index in versions:
            contents.update({content: None} if content else {})
            pointers.update(dict.fromkeys(_pointers(index, file)))
    texts = dict.fromkeys([text for content in contents for text in _texts(file, content)] + [*pointers])
    texts |= dict.fromkeys(begun.texts if begun else ())
    known_texts = {path: text for one in (memory, *others) for path, text in said_beside(one, file)}
    same, known = say_the_same({**(beside or {}), **known_texts}, file, texts)
    copies = frozenset(hashlib.sha256(content).hexdigest() for content in contents)
    return PurgeTarget(
        file=file,
        folder=memory.location.directory.name,
        texts=tuple(texts),
        copies=copies | (begun.copies if begun else frozenset()),
        commits=commits,
        shared=same,
        others=known,
        directories=tuple(_directory(one) for one in had),
    )


def _directory(memory: Memory) -> str:
    return str(memory.location.directory)


def other_memories(home: Path, *, without: Iterable[Memory]) -> dict[Path, str]:
    """Return the memories of a home that are in none of these directories."""
    known = tuple(one.location.directory for one in without)
    patterns = ("memory/**/*.md", "agent-memory/**/*.md", "projects/*/memory/**/*.md")
    found = (path for pattern in patterns for path in sorted(home.glob(pattern)))
    return {
        path: path.read_text(encoding="utf-8", errors="replace")
        for path in found
        if path.is_file() and not path.is_symlink() and not any(path.is_relative_to(one) for one in known)
    }


def project_words(past: PurgeTarget, root: Path, *, without: Iterable[Path]) -> dict[str, tuple[str, ...]]:
    """Return the names, addresses and identifiers of a memory that several files of the project contain.

    Passwords, keys and numbers are never words of a project.
    """
    values = {value.casefold(): value for value, is_word in find_values(past.texts).items() if is_word}
    found: dict[str, list[str]] = {}
    for path in _project_files(root, frozenset(without)) if values else ():
        with contextlib.suppress(OSError):
            if path.stat().st_size <= MAX_PROJECT_BYTES and not path.is_symlink():
                text = path.read_text(encoding="utf-8", errors="replace").casefold()
                for folded, value in values.items():
                    if folded in text:
                        found.setdefault(value, []).append(path.relative_to(root).as_posix())
    return {value: tuple(files) for value, files in found.items() if len(files) >= COMMON_FILES}


def _project_files(root: Path, without: frozenset[Path]) -> Iterator[Path]:
    count = 0
    for base, folders, names in os.walk(root):
        folders[:] = [
            name
            for name in sorted(folders)
            if not name.startswith(".") and name not in NO_SOURCES and Path(base, name) not in without
        ]
        yield from (Path(base, name) for name in sorted(names))
        count += len(names)
        if count > MAX_PROJECT_FILES:
            return


def write_journal(memory: Memory, past: PurgeTarget) -> Path:
    """Write down what a purge searches for, so that an interrupted one can be repeated; return the file."""
    path = memory.location.cache / PURGING / f"{hashlib.sha256(past.file.encode()).hexdigest()[:16]}.json"
    value = {
        "file": past.file,
        "texts": past.texts,
        "copies": sorted(past.copies),
        "forms": [[line.decode("utf-8", "surrogateescape") for line in form] for form in past.forms],
        "directories": past.directories,
    }
    disk.make_folder(path.parent)
    disk.replace_file(path, json.dumps(value).encode(), temp_name=f"{path.name}.tmp")
    return path


def read_journal(memory: Memory, name: str, *, is_title: bool = False) -> PurgeTarget | None:
    """Return what an interrupted purge of this file, or of a line with this place or text, searched for.

    `is_title` also finds the purge of a memory by its title, which is one of its texts.
    """
    for path in sorted((memory.location.cache / PURGING).glob("*.json")):
        with contextlib.suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
            value = json.loads(path.read_bytes())
            past = PurgeTarget(
                file=value["file"],
                folder=memory.location.directory.name,
                texts=tuple(value["texts"]),
                copies=frozenset(value["copies"]),
                commits=0,
                forms=tuple(
                    tuple(line.encode("utf-8", "surrogateescape") for line in form) for form in value["forms"]
                ),
                directories=tuple(value["directories"]),
            )
            is_text = is_title or past.file.startswith(f"{LOGS}/")
            is_same_text = is_text and name.casefold() in map(str.casefold, past.texts)
            if name in {past.file, past.file.removesuffix(".md")} or is_same_text:
                return past
    return None


def end_journal(path: Path) -> None:
    """Delete the journal of a finished purge."""
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # another purge has one there
        path.parent.rmdir()


def interrupted_purges(cache: Path) -> list[str]:
    """Return the files whose purge was interrupted; it has to be repeated."""
    found = []
    for path in sorted((cache / PURGING).glob("*.json")):
        with contextlib.suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
            found.append(str(json.loads(path.read_bytes())["file"]))
    return found


def say_the_same(
    beside: Mapping[Path, str], file: str, texts: Iterable[str]
) -> tuple[tuple[QuotedPlace, ...], tuple[str, ...]]:
    """Where other memories say the same, and what is therefore not this memory's alone."""
    names = "\n".join(path.stem for path in beside)
    whole = Traces(file, texts, others=[names])
    same = {
        path: text
        for path, text in beside.items()
        if whole.may_be_in(text.encode("utf-8", "surrogatepass")) and whole.are_in(text)
    }
    return tuple(QuotedPlace(path=path, why=OTHER_MEMORY) for path in same), (names, *same.values())


def said_beside(memory: Memory, file: str) -> Iterator[tuple[Path, str]]:
    """The other memories of a directory, and the lines of its index that are not about the file."""
    directory = memory.location.directory
    folder = Folder(directory)
    for name in sorted(folder.scan()):
        if name not in {file, INDEX_FILE}:
            yield directory / name, (folder.read(name) or b"").decode(errors="replace")
    if index := folder.read(INDEX_FILE):
        yield directory / INDEX_FILE, MemoryIndex.parse(index).without(file).decode(errors="replace")


async def erase(
    memory: Memory,
    file: str,
    change: MemoryChange,
    *,
    others: Sequence[Memory] = (),
    past: PurgeTarget | None = None,
) -> Erased:
    """Forget a file if it is there, then take it and its lines out of the whole history.

    `others` are the memories it may have been moved from or to: where that is on record, their history loses
    it too. `past` is what `purge_target` returned, if that is known.
    """
    past = past or purge_target(memory, file, others=others)
    traces = past.traces
    if Folder(memory.location.directory).read(file) is not None:
        await memory.forget(file, change)
    concerned = [memory, *[other for other in others if _directory(other) in past.directories]]
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


def purge_target_of_line(
    memory: Memory, line: LogLine, *, beside: Mapping[Path, str] | None = None
) -> PurgeTarget:
    """What a line says, and where else it is said; read before it is erased."""
    directory = memory.location.directory
    folder = Folder(directory)
    left = without(folder.read(line.file) or b"", [line]).decode(errors="replace")
    known_texts = {**(beside or {}), **dict(said_beside(memory, line.file)), directory / line.file: left}
    same, known = say_the_same(known_texts, line.place, [line.text])
    versions = [_forms(line, content) for content, _ in versions_of(memory, line.file)]
    begun = read_journal(memory, line.place)
    forms = {form for version in versions for form in version} | set(begun.forms if begun else ())
    return PurgeTarget(
        file=line.place,
        folder=directory.name,
        texts=(line.text,),
        copies=frozenset(),
        commits=sum(map(bool, versions)),
        shared=same,
        others=known,
        forms=tuple(sorted(forms)),
    )


async def erase_line(
    memory: Memory, line: LogLine, change: MemoryChange, *, past: PurgeTarget | None = None
) -> Erased:
    """Take a line out of its log, then out of every version of it that the history has."""
    past = past or purge_target_of_line(memory, line)
    await forget_line(memory, line, change)
    return await erase_forms(memory, past)


async def erase_forms(memory: Memory, past: PurgeTarget) -> Erased:
    """Take a line that its log has no more out of every version of it that the history has."""
    scrub = and_rare_words(without_forms(past.forms), past.traces)
    purged = await purge(memory.location, [], scrub=scrub)
    forget_derived(memory.location.cache)
    folder = Folder(memory.location.directory)
    still = [name for name in sorted(folder.scan()) if scrub(data := folder.read(name) or b"") != data]
    return Erased(file=past.file, commits=purged.commits, files=purged.files, left=(*purged.left, *still))


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
