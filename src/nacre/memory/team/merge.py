"""Decide what a sync does with each file: three versions in, one verdict out; pure (M18).

`mine` is the local version, `theirs` the remote one, `base` the one both had at their last sync. The empty
version means no file.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.errors import StoreError
from nacre.memory.files.folder import ABSENT, Folder, version_of
from nacre.memory.format.entry import read_entry
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import INDEX_FILE, MemoryIndex, is_listable, within_budget
from nacre.memory.team.remote import RefusedFile, RemoteSnapshot, TeamSyncState, size_objection
from nacre.memory.team.rules import LOCAL_ONLY, content_objection, is_index, name_objection, sharing_objection
from nacre.store import disk

Verdict: TypeAlias = Literal["same", "take", "drop", "give", "withdraw", "keep_mine", "keep_theirs", "both"]
"""`take` and `drop` change this side, `give` and `withdraw` the other; the last three are conflicts, in which
nothing is lost: a changed text survives its deletion, and of two changed texts both are kept."""

Had: TypeAlias = Callable[[str, str], bool]
"""Whether this side once had a file in a version."""


def verdict(mine: str, theirs: str, base: str) -> Verdict:
    """Return the verdict for one file."""
    if mine == theirs:
        return "same"
    if mine == base:
        return "take" if theirs else "drop"
    if theirs == base:
        return "give" if mine else "withdraw"
    if not mine:
        return "keep_theirs"
    return "both" if theirs else "keep_mine"


def base_of(
    file: str,
    *,
    mine: str,
    theirs: str,
    last: Mapping[str, str] | None,
    known: Mapping[str, Collection[str]],
    had: Had,
) -> str:
    """Return the version of the last sync; derived if it is not on record.

    `last` is the record, None if it is lost. `known` are all versions the others ever had, so that a file
    neither present nor named in it was not forgotten: the remote was lost, or is a new one.
    """
    if last is not None and file in last:
        return ABSENT if not theirs and file not in known else last[file]
    if mine and mine in known.get(file, ()):
        return mine  # an old copy: newer texts and deletions win
    if last is None and theirs and had(file, theirs):
        return theirs  # changed or forgotten here since, before the record was lost
    return ABSENT


THEIRS = "_theirs_"
"""Part of the name of the second of two texts."""
DIGEST_CHARS = 8
"""Characters of a version in that name."""
MAX_STEM_CHARS = 120
"""Characters kept of a long name when the second text is named after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A memory that both sides changed; nothing of it is lost."""

    file: str
    why: str
    copy: str = ""
    """File with the others' text, if both are kept."""


@dataclass(frozen=True, slots=True)
class LocalTeamFiles:
    """The files of the directory."""

    directory: Path
    files: Mapping[str, bytes]
    odd: tuple[RefusedFile, ...]
    """Files that are left alone."""

    @classmethod
    def read(cls, directory: Path) -> LocalTeamFiles:
        folder = Folder(directory)
        files: dict[str, bytes] = {}
        odd: list[RefusedFile] = []
        for file, stamp in sorted(folder.scan().items()):
            if why := size_objection(stamp[2]):
                odd.append(RefusedFile(file, why))
                continue
            # Gone or no longer a file: the next sync handles it.
            with contextlib.suppress(StoreError, disk.NotRegularError):
                data = folder.read(file)
                if data is not None:
                    files[file] = data
        return cls(directory, files, tuple(odd))


@dataclass(slots=True)
class Merge:
    """What a sync must do; built by `merge`, then only read."""

    writes: dict[str, bytes | None] = field(default_factory=dict)
    """Local writes; None removes."""
    bases: dict[str, str] = field(default_factory=dict)
    """The versions that the writes replace."""
    gives: dict[str, bytes | None] = field(default_factory=dict)
    """Remote writes; None forgets."""
    conflicts: list[Conflict] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)
    stayed: list[str] = field(default_factory=list)
    """Files that must stay on this machine."""
    missing: set[str] = field(default_factory=set)
    """Remote files whose content is needed and was not given."""
    last: dict[str, str] = field(default_factory=dict)
    """What both sides have, once the writes are made."""
    indexes: dict[str, str] = field(default_factory=dict)


def merge(
    here: LocalTeamFiles,
    shared: RemoteSnapshot,
    contents: Mapping[str, bytes],
    *,
    state: TeamSyncState,
    had: Had,
    with_team: bool = True,
) -> Merge:
    """Decide on every file; an index comes last, because it lists the others."""
    done = Merge(last=dict(state.files or {}), indexes=dict(state.indexes))
    done.refused += [*here.odd, *shared.refused]
    left_alone = {one.file for one in done.refused}
    work = _MergeWork(here, shared, contents, state, had, with_team, done)
    names = {*here.files, *shared.files, *(state.files or ())} - left_alone
    # Of two names that some file system confuses, the local one stays.
    taken = {unicodedata.normalize("NFKC", file).casefold(): file for file in here.files}
    for file in sorted(shared.files.keys() - here.files.keys()):
        other = taken.setdefault(unicodedata.normalize("NFKC", file).casefold(), file)
        if other != file:
            why = f"is spelled almost like {other}; it is not taken over"
            done.refused.append(RefusedFile(file, why))
            names.discard(file)
    for file in sorted(names):
        if not is_index(file):
            work.topic(file)
    for file in sorted(filter(is_index, names)):
        work.index(file)
    done.bases = {file: version_of(here.files.get(file)) for file in done.writes}
    return done


@dataclass(frozen=True, slots=True)
class _MergeWork:
    here: LocalTeamFiles
    shared: RemoteSnapshot
    contents: Mapping[str, bytes]
    state: TeamSyncState
    had: Had
    with_team: bool
    done: Merge

    def topic(self, file: str) -> None:
        mine = version_of(self.here.files.get(file))
        theirs = self.shared.files.get(file, ABSENT)
        base = base_of(
            file, mine=mine, theirs=theirs, last=self.state.files, known=self.shared.known, had=self.had
        )
        found = verdict(mine, theirs, base)
        if found in {"take", "keep_theirs", "both"} and not self._may_come(file):
            return
        if found in {"give", "keep_mine", "both"} and not self._may_go(file):
            return
        self._act(file, found)
        if theirs or mine or file in self.done.last:
            self.done.last[file] = theirs

    def _act(self, file: str, found: Verdict) -> None:
        done = self.done
        match found:
            case "take" | "keep_theirs":
                done.writes[file] = self.contents[file]
            case "drop":
                done.writes[file] = None
            case "give" | "keep_mine":
                done.gives[file] = self.here.files[file]
            case "withdraw":
                done.gives[file] = None
            case "both":
                self._keep_both(file)
            case "same":
                pass
        if found == "keep_theirs":
            done.conflicts.append(Conflict(file=file, why="forgotten here and changed there; it is back"))
        elif found == "keep_mine":
            done.conflicts.append(Conflict(file=file, why="changed here and forgotten there; it stays"))

    def _keep_both(self, file: str) -> None:
        mine = self.here.files[file]
        theirs = self.contents[file]
        if _undated(mine) == _undated(theirs):
            self.done.writes[file] = theirs
            return
        copy = self._copy_name(file)
        if self.here.files.get(copy) != theirs:
            self.done.writes[copy] = theirs
        self.done.gives |= {file: mine, copy: theirs}
        why = f"changed on both sides; yours keeps the name, theirs is {copy}"
        self.done.conflicts.append(Conflict(file=file, copy=copy, why=why))

    def _copy_name(self, file: str) -> str:
        """Return a name made from the content, so that the same conflict gives the same file again."""
        folder, slash, name = file.rpartition("/")
        version = self.shared.files[file]
        stem = f"{folder}{slash}{name.removesuffix('.md')[:MAX_STEM_CHARS]}{THEIRS}{version[:DIGEST_CHARS]}"
        names = (f"{stem}.md", *(f"{stem}_{number}.md" for number in range(2, len(self.here.files) + 3)))
        return next(
            one
            for one in names
            if self.here.files.get(one, self.contents[file]) == self.contents[file]
            and self.shared.files.get(one, version) == version
        )

    def _may_come(self, file: str) -> bool:
        """Return whether the others' text may be written here; otherwise both sides stay unchanged."""
        why = name_objection(self.here.directory, file)
        if not why and file not in self.contents:
            self.done.missing.add(file)
            return False
        why = why or content_objection(self.contents[file])
        if why:
            self.done.refused.append(RefusedFile(file, f"{why}; it is not taken over"))
        return not why

    def _may_go(self, file: str) -> bool:
        why = sharing_objection(file, self.here.files[file], with_team=self.with_team)
        why = why or name_objection(self.here.directory, file)
        if why == LOCAL_ONLY:
            self.done.stayed.append(file)
        elif why:
            self.done.refused.append(RefusedFile(file, f"{why}; it is not shared"))
        return not why

    def index(self, file: str) -> None:
        """Merge an index: if it is missing on one side, that is no statement about its lines."""
        done = self.done
        base = self.state.indexes.get(file, "").encode(errors="surrogateescape")
        theirs = base
        if file in self.shared.files:
            if not self._may_come(file):
                return
            theirs = self.contents[file]
        mine = self.here.files.get(file, base)
        merged = filtered_index(merged_index(mine, theirs, base), self._is_listed(file))
        merged = self._within_budget(file, self._with_kept(file, merged))
        if merged != self.here.files.get(file, b""):
            done.writes[file] = merged
        prefix = _prefix(file)
        there = {*self.shared.files, *done.gives} - {
            name for name, data in done.gives.items() if data is None
        }
        public = filtered_index(merged, lambda one: prefix + one in there)
        done.last[file] = self.shared.files.get(file, ABSENT)
        done.indexes[file] = theirs.decode(errors="surrogateescape")
        if public == (self.contents[file] if file in self.shared.files else b""):
            return
        if why := content_objection(public):
            done.refused.append(RefusedFile(file, f"{why}; it is not shared"))
        else:
            done.gives[file] = public

    def _is_listed(self, index: str) -> Callable[[str], bool]:
        """Return whether the index may have a line for a file: it exists afterwards, and is not untrusted
        (M16b)."""
        prefix = _prefix(index)
        writes = self.done.writes
        kept = {*self.here.files, *(one.file for one in self.here.odd)}

        def is_listed(file: str) -> bool:
            new = writes.get(prefix + file)
            if new is not None:
                return is_listable(read_entry(file, new))
            return prefix + file in kept and prefix + file not in writes

        return is_listed

    def _with_kept(self, index: str, data: bytes) -> bytes:
        """Return the index with a line for what a conflict kept here, whatever either side did to it."""
        kept = {name for one in self.done.conflicts for name in (one.file, one.copy) if name}
        for file in sorted(kept):
            text = self.done.writes.get(file) or self.here.files.get(file)
            entry = read_entry(file, text) if text else None
            name = file.removeprefix(_prefix(index))
            # The index in the nearest folder above lists the file.
            folder = _prefix(file)
            while folder and f"{folder}{INDEX_FILE}" not in {*self.here.files, *self.shared.files}:
                folder = _prefix(folder.rstrip("/"))
            if entry is None or f"{folder}{INDEX_FILE}" != index or not is_listable(entry):
                continue
            if name not in MemoryIndex.parse(data).mentions:
                title = f"{entry.title} (theirs)" if THEIRS in name else entry.title
                data = MemoryIndex.parse(data).with_pointer(name, title, entry.description, kind=entry.kind)
        return data

    def _within_budget(self, index: str, data: bytes) -> bytes:
        """Return the merged index without the pointers that do not fit; their files are shared anyway."""
        prefix = _prefix(index)
        entries = []
        for line in MemoryIndex.parse(data).pointers:
            file = prefix + line.file
            text = self.done.writes.get(file) or self.here.files.get(file)
            if text and line.file.rpartition("/")[2] != INDEX_FILE:
                entries.append(read_entry(line.file, text))
        return within_budget(data, entries)[0]


def _prefix(index: str) -> str:
    folder, slash, _ = index.rpartition("/")
    return folder + slash


def _undated(data: bytes) -> bytes:
    """Return a memory without dates, because the same text saved by two people differs only in them."""
    return MarkdownFile.parse(data).with_fields(created=None, modified=None)


def filtered_index(data: bytes, keeps: Callable[[str], bool]) -> bytes:
    """Return the index without lines of files that it must not list: a line discloses, too."""
    for file in {line.file for line in MemoryIndex.parse(data).pointers}:
        if not keeps(file):
            data = MemoryIndex.parse(data).without(file)
    return data


def merged_index(mine: bytes, theirs: bytes, base: bytes) -> bytes:
    """Return the merged index, with lines of files that may not exist here."""
    ours = _single(mine)
    others = _single(theirs)
    old = _single(base)
    if mine in {theirs, base}:
        return others.data
    if theirs == base:
        return ours.data
    # The side that changed headings or text around the pointers keeps them, with the other side's pointers.
    if _prose(ours) == _prose(old):
        return _with_changes(others, ours, old, has_last_word=True)
    merged = _with_changes(ours, others, old)
    # What only the other side wrote around the pointers is added at the end.
    present = {*_prose(MemoryIndex.parse(merged)), *_prose(old)}
    new = [line for line in _prose(others) if line not in present]
    if not new:
        return merged
    gap = b"" if not merged or merged.endswith(b"\n\n") else b"\n" if merged.endswith(b"\n") else b"\n\n"
    return merged + gap + "".join(f"{line}\n" for line in new).encode(errors="surrogateescape")


def _with_changes(
    start: MemoryIndex, other: MemoryIndex, old: MemoryIndex, *, has_last_word: bool = False
) -> bytes:
    """Apply the other side's changes of pointers since `old` to `start`; the later change wins ties."""
    data = start.data
    mine = _lines(start)
    was = _lines(old)
    kept = _lines(other)
    for line in other.pointers:
        here = mine.get(line.file)
        before = was.get(line.file)
        if (line.title, line.hook) != before and (here in {before, None} or has_last_word):
            data = MemoryIndex.parse(data).with_pointer(line.file, line.title, line.hook)
    for file, words in was.items():
        # A line that was reworded on one side and removed on the other stays, if its file does.
        if file not in kept and mine.get(file) == words:
            data = MemoryIndex.parse(data).without(file)
    return data


def _single(data: bytes) -> MemoryIndex:
    """Keep the first of several pointers to one file: a merge has one line per file."""
    index = MemoryIndex.parse(data)
    seen = set[str]()
    raws = []
    for line in index.lines:
        if line.kind == "pointer" and line.file in seen:
            continue
        seen.add(line.file)
        raws.append(line.raw)
    return MemoryIndex.parse("".join(raws).encode(errors="surrogateescape"))


def _prose(index: MemoryIndex) -> list[str]:
    """Return the text around the pointers, without blank lines."""
    return [line.raw.rstrip() for line in index.lines if line.kind != "pointer" and line.raw.strip()]


def _lines(index: MemoryIndex) -> dict[str, tuple[str, str]]:
    return {line.file: (line.title, line.hook) for line in index.pointers}
