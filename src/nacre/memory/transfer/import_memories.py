"""Import memories: files in nacre's format stay byte for byte, others are converted.

Nothing is overwritten: the same memory is skipped, and another one of the same name gets a new name.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from datetime import datetime

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import OutsideStore
from nacre.memory.daily_log import day_of
from nacre.memory.files.folder import TEAM, Folder, version_of
from nacre.memory.files.location import Location
from nacre.memory.files.scan import LOGS, SkippedFile, is_topic, moment_of
from nacre.memory.files.transaction import transact
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import (
    KINDS,
    MemoryChange,
    MemoryDraft,
    Origin,
    compose,
    file_name,
    file_title,
    read_entry,
    title_of,
)
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import INDEX_FILE, MemoryIndex, index_usage, is_listable, within_budget
from nacre.memory.secrets import find_in_name, find_secrets
from nacre.memory.transfer.import_sources import ImportBatch, ImportedFact, ImportFile

ROOM_FOR_A_LINE = 151
"""Bytes of one more pointer at most; with more memories than fit, the rest are unlisted (M8)."""

INDEX_COPY = "imported_index.md"
"""File for the text of an index that cannot be adopted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of an import."""

    origin: Origin = "untrusted"
    """Origin of memories of another program; files keep the origin in their frontmatter."""
    allow_secret: bool = False
    keeps_index: bool = True
    """Off: nothing is listed, because no index is loaded (M19) or only the dream writes it (M17)."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A memory that was renamed because its name was taken."""

    was: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """The result of an import or its preview."""

    files: tuple[str, ...] = ()
    has_index: bool = False
    """Whether the index changes."""
    same: tuple[str, ...] = ()
    """Memories that existed already."""
    renamed: tuple[Renamed, ...] = ()
    refused: tuple[SkippedFile, ...] = ()
    """Files with a credential or an invalid name, and why."""
    skipped: tuple[SkippedFile, ...] = ()
    """Files that could not be read as a memory."""
    commit: str = ""
    feedback: str = ""
    """A warning when the index is nearly full (M16c)."""


async def import_batch(
    location: Location,
    batch: ImportBatch,
    *,
    options: ImportOptions,
    change: MemoryChange,
    clock: Clock = SYSTEM_CLOCK,
    watch: Watch | None = None,
) -> ImportResult:
    """Import everything new in one commit."""
    async with transact(location, change, clock=clock, watch=watch) as tx:
        present = {file: tx.read(file)[0] or b"" for file in tx.files()}
        plan = await asyncio.to_thread(_planned, batch, location, present, options, clock.now())
        for file, data in plan.writes.items():
            tx.write(file, data, if_version=version_of(present.get(file)), written=plan.written.get(file))
    return replace(plan.result(batch), commit=tx.commit)


def preview_import(
    location: Location, batch: ImportBatch, *, options: ImportOptions, clock: Clock = SYSTEM_CLOCK
) -> ImportResult:
    """Return what `import_batch` would do, without doing it."""
    folder = Folder(location.directory)
    present = {file: folder.read(file) or b"" for file in folder.scan()}
    return _planned(batch, location, present, options, clock.now()).result(batch)


@dataclass(slots=True)
class _Plan:
    """The planned writes of an import."""

    folder: Folder
    present: dict[str, bytes]
    options: ImportOptions
    writes: dict[str, bytes] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    """Modification times of files that stay byte for byte, in nanoseconds."""
    landed: dict[str, str] = field(default_factory=dict)
    """The new name of each source file."""
    same: list[str] = field(default_factory=list)
    renamed: list[Renamed] = field(default_factory=list)
    refused: list[SkippedFile] = field(default_factory=list)
    feedback: str = ""
    names: set[str] = field(default_factory=set)
    """All names that are taken, of any folder, in lower case."""
    places: dict[bytes, str] = field(default_factory=dict)
    """Existing files by content."""

    def result(self, batch: ImportBatch) -> ImportResult:
        return ImportResult(
            files=tuple(sorted(file for file in self.writes if file != INDEX_FILE)),
            has_index=INDEX_FILE in self.writes,
            same=tuple(self.same),
            renamed=tuple(self.renamed),
            refused=tuple(self.refused),
            skipped=batch.skipped,
            feedback=self.feedback,
        )

    def add(self, file: str, data: bytes, *, called: str = "") -> None:
        """Plan one file under a free name, or record why it is refused."""
        if objection := self.objection(file, data):
            self.refused.append(SkippedFile(called or file, objection))
            return
        there = self.present.get(file, self.writes.get(file))
        if there == data:
            self.same.append(called or file)
            self.landed[file] = file
            return
        place = file
        if there is not None:
            folder, slash, last = file.rpartition("/")
            place = folder + slash + self.free(last.removesuffix(".md"))
            self.renamed.append(Renamed(file, place))
        self.landed[file] = place
        self.writes[place] = data
        self.names.add(_last(place))

    def free(self, title: str) -> str:
        """Return a file name that is not taken, and reserve it."""
        name = file_name(title)
        if name in self.names:
            # Only a taken name needs all the others: there may be thousands.
            name = file_name(title, taken=self.names)
        self.names.add(name)
        return name

    def objection(self, file: str, data: bytes) -> str:
        """Return why a file cannot be imported; empty if it can."""
        if file.startswith(f"{TEAM}/"):
            return "is the team's memory, which is shared in its own way"
        if problem := self.encoding_problem(data) or self.secret_in(data.decode(), file):
            return problem
        try:
            self.folder.key(file)
        except OutsideStore as error:
            return f"cannot be kept under this name: {error}"
        return ""

    def encoding_problem(self, data: bytes) -> str:
        try:
            data.decode()
        except UnicodeDecodeError:
            return "is not UTF-8; save it as UTF-8"
        return ""

    def secret_in(self, text: str, file: str = "") -> str:
        if self.options.allow_secret or not (findings := [*find_secrets(text), *find_in_name(file)]):
            return ""
        return f"holds {', '.join(map(str, findings))}; take it out, or say --allow-secret"


def _planned(
    batch: ImportBatch, location: Location, present: dict[str, bytes], options: ImportOptions, now: datetime
) -> _Plan:
    plan = _Plan(Folder(location.directory), present, options)
    plan.names |= {_last(file) for file in present}
    plan.places |= {data: file for file, data in present.items()}
    bodies = {
        read_entry(file, data).body.strip(): file for file, data in present.items() if file != INDEX_FILE
    }
    for source in batch.files:
        is_log = day_of(source.file) is not None
        if batch.index is not None or is_log or MarkdownFile.parse(source.data).has_frontmatter:
            _keep(plan, source, now)
        else:
            _note(plan, source, bodies, now)
    for fact in batch.facts:
        _fact(plan, fact, bodies, now)
    theirs = batch.index
    if theirs is not None and (objection := plan.objection(INDEX_FILE, theirs)):
        plan.refused.append(SkippedFile(INDEX_FILE, objection))
        theirs = None
    if theirs is not None and not _takes_over(plan):
        _save_text(plan, theirs, bodies, now)
    if options.keeps_index:
        _list(plan, theirs)
    return plan


def _keep(plan: _Plan, source: ImportFile, now: datetime) -> None:
    """Plan a file in the format of a memory, which keeps its bytes and time."""
    elsewhere = plan.places.get(source.data)
    if elsewhere is not None and source.file not in plan.present:
        plan.same.append(source.file)
        plan.landed[source.file] = elsewhere
        return
    plan.add(source.file, source.data)
    place = plan.landed.get(source.file, "")
    if place in plan.writes and source.written and moment_of(source.written) <= now:
        plan.written[place] = source.written


def _note(plan: _Plan, source: ImportFile, bodies: dict[str, str], now: datetime) -> None:
    """Plan a plain note as an entry under the name of its file."""
    text = source.data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.strip():
        plan.refused.append(SkippedFile(source.file, "is empty"))
    elif text.strip() in bodies:
        plan.same.append(source.file)
    else:
        stem = source.file.rpartition("/")[2].removesuffix(".md")
        name = title_of(text) or stem
        file = plan.free(stem)
        # Checked here, because the line numbers are those of the note, not of the entry.
        if findings := plan.secret_in(text, source.file) or plan.encoding_problem(source.data):
            plan.refused.append(SkippedFile(source.file, findings))
            return
        draft = MemoryDraft(body=text, name=name, file=file)
        plan.add(file, compose(draft, file=file, now=now), called=source.file)
        bodies[text.strip()] = file


def _fact(plan: _Plan, fact: ImportedFact, bodies: dict[str, str], now: datetime) -> None:
    called = f"memory {fact.id}" if fact.id else f"memory {title_of(fact.text)!r}"
    if fact.text.strip() in bodies:
        plan.same.append(called)
        return
    if findings := plan.secret_in(f"{fact.text}\n{json.dumps(fact.rest, ensure_ascii=False)}"):
        plan.refused.append(SkippedFile(called, findings))
        return
    kind = next((kind for kind in KINDS if kind == fact.kind.lower()), None)
    file = plan.free(file_title(kind, title_of(fact.text)))
    draft = MemoryDraft(
        body=fact.text,
        kind=kind,
        origin=plan.options.origin,
        sources=(f"mem0 {fact.id}",) if fact.id else ("mem0",),
    )
    document = MarkdownFile.parse(compose(draft, file=file, now=fact.created or now))
    if fact.modified:
        document = MarkdownFile.parse(document.with_fields(modified=fact.modified))
    if fact.rest:
        about = json.dumps(fact.rest, ensure_ascii=False, sort_keys=True)
        document = MarkdownFile.parse(document.with_fields(mem0=about))
    plan.add(file, document.data, called=called)
    bodies[fact.text.strip()] = file


def _takes_over(plan: _Plan) -> bool:
    """Return whether the imported index can be used as it is: there is none here, and no file was renamed."""
    return plan.options.keeps_index and INDEX_FILE not in plan.present and not plan.renamed


def _save_text(plan: _Plan, theirs: bytes, bodies: dict[str, str], now: datetime) -> None:
    """Plan a memory for the text of an imported index beyond its pointers, so that no fact is lost."""
    known = {line.raw.strip() for line in MemoryIndex.parse(plan.present.get(INDEX_FILE, b"")).lines}
    lines = [line for line in MemoryIndex.parse(theirs).lines if line.kind not in {"pointer", "heading"}]
    if {line.raw.strip() for line in lines} - known - {""}:
        before = set(plan.writes)
        _note(plan, ImportFile(INDEX_COPY, theirs), bodies, now)
        plan.renamed += [Renamed(INDEX_FILE, file) for file in plan.writes.keys() - before]


def _list(plan: _Plan, theirs: bytes | None) -> None:
    """Plan the index: the imported one where there was none, else a line for each listable memory."""
    before = plan.present.get(INDEX_FILE)
    if theirs is not None and _takes_over(plan):
        new = theirs
        untrusted = {file for file, data in plan.writes.items() if not read_entry(file, data).is_trusted}
        for file in {one.file for one in plan.refused} | untrusted:
            new = MemoryIndex.parse(new).without(file)
    else:
        new = _merged(plan, MemoryIndex.parse(before or b""), theirs)
    if new != before and (new or before):
        files = {**plan.present, **plan.writes}
        listed = [line.file for line in MemoryIndex.parse(new).pointers if is_topic(line.file)]
        new, _ = within_budget(new, [read_entry(file, files[file]) for file in listed if file in files])
        plan.writes[INDEX_FILE] = new
    plan.feedback = index_usage(new).feedback


def _merged(plan: _Plan, index: MemoryIndex, theirs: bytes | None) -> bytes:
    hooks = {line.file: line for line in MemoryIndex.parse(theirs or b"").pointers}
    words = {one.file for one in plan.renamed if one.was == INDEX_FILE}
    for was, file in sorted(plan.landed.items()):
        data = plan.writes.get(file)
        if data is None or file.rpartition("/")[2] == INDEX_FILE or file.startswith(f"{LOGS}/"):
            continue
        entry = read_entry(file, data)
        is_new = theirs is None or was in hooks or file in words
        if not is_new or not is_listable(entry):
            continue
        if index_usage(index.data + b"x" * ROOM_FOR_A_LINE).share > 1:
            break
        line = hooks.get(was)
        title, hook = (line.title, line.hook) if line else (entry.title, entry.description)
        index = MemoryIndex.parse(index.with_pointer(file, title, hook, kind=entry.kind))
    return index.data


def _last(file: str) -> str:
    return file.rpartition("/")[2].casefold()
