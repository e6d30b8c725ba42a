"""Rewrite a history as if some text had never been in it (M14b).

Every commit is made anew in a second repository, which then takes the place of the first in one rename; the
first is deleted with everything in it, reachable or not. A kill leaves the old history or the new one, whole.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nacre.errors import StoreError
from nacre.store import disk
from nacre.store.disk import is_swapped
from nacre.store.history import Head, History, Signature, commit_object
from nacre.store.history_objects import Repository, loose
from nacre.store.history_trees import Trees

_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")

Scrub = Callable[[bytes], bytes]
"""What is left of a text; applied to what it returned, it changes nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """Where the text had been, and where it still is."""

    commits: int
    """How many commits held some of it, in a file, a name or a reason."""
    files: tuple[str, ...]
    """The files it stood in at some time, sorted."""
    left: tuple[str, ...]
    """Objects that still hold some of it; always empty unless something is wrong."""


def without_lines(*texts: str) -> Scrub:
    """Leave out every line that holds one of these texts, upper or lower case."""
    needles = [text.casefold() for text in texts if text]

    def scrub(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        kept = [line for line in lines if not _holds(line, needles)]
        return data if len(kept) == len(lines) else b"".join(kept)

    return scrub


def _holds(line: bytes, needles: Sequence[str]) -> bool:
    plain = line.decode("utf-8", "replace").casefold()
    return any(needle in plain for needle in needles)


def purge(history: History, files: Collection[str] = (), *, scrub: Scrub = bytes) -> Purged:
    """Take files out of every commit, and text out of every file and reason that is left.

    The caller holds the lock. Commits that changed nothing else go too.
    """
    path = history.repository.path
    settle(path)
    if not history.newest:
        return Purged(commits=0, files=(), left=())
    try:
        fresh = _Rewriting(history, Repository(_aside(path)), frozenset(files), scrub)
        fresh.run()
        fresh.into.pack(fresh.into.names())
        _put_in_place(path)
    except OSError as error:
        shutil.rmtree(_aside(path), ignore_errors=True)
        raise StoreError(disk.explain(error, path)) from error
    shutil.rmtree(_aside(path), ignore_errors=True)
    left = holding(History(path), files, scrub=scrub)
    return Purged(commits=fresh.commits, files=tuple(sorted(fresh.files)), left=left)


def holding(history: History, files: Collection[str] = (), *, scrub: Scrub = bytes) -> tuple[str, ...]:
    """Every object, reachable or not, loose or packed, that holds one of these files or some of this text."""
    repository = history.repository
    contents = {name: repository.read(name) for name in sorted(repository.names())}
    found: set[str] = set()
    others: set[bytes] = set()
    for name in (name for name, (kind, _) in contents.items() if kind == "commit"):
        head = history.head(name)
        touched = history.changes(head.parent, name)
        others |= {_last_part(file) for file in touched if file not in files}
        if scrub(head.signature.reason.encode()) != head.signature.reason.encode() or touched.keys() & set(
            files
        ):
            found.add(name)
    # A tree knows only the last part of a path, which another file may have as well.
    names = {_last_part(file) for file in files} - others
    for name, (kind, data) in contents.items():
        if kind == "blob" and scrub(data) != data:
            found.add(name)
        if kind == "tree" and any(b" %s\0" % each in data for each in names):
            found.add(name)
    return tuple(sorted(found))


def _last_part(file: str) -> bytes:
    return file.rpartition("/")[2].encode("utf-8", "surrogateescape")


def settle(path: Path) -> None:
    """Finish or drop what a killed purge left beside the history."""
    aside = _aside(path)
    old = _old(path)
    if aside.exists() and not path.exists():
        aside.rename(path)
    for leftover in (aside, old):
        if leftover.exists():
            shutil.rmtree(leftover)


def _put_in_place(path: Path) -> None:
    aside = _aside(path)
    if not is_swapped(aside, path):
        # Two renames; `settle` knows what a kill between them left.
        path.rename(_old(path))
        aside.rename(path)
        shutil.rmtree(_old(path))
    disk.sync_folder(path.parent)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.purging")


def _old(path: Path) -> Path:
    return path.with_name(f".{path.name}.purged")


class _Rewriting:
    """One pass over all commits, oldest first."""

    def __init__(self, history: History, into: Repository, files: frozenset[str], scrub: Scrub) -> None:
        self.into = into
        self.commits = 0
        self.files: set[str] = set()
        self._history = history
        self._before = Trees(history.repository)
        self._after = Trees(into)
        self._dropped = files
        self._scrub = scrub
        self._names: dict[str, str] = {}
        """What each commit is called now."""

    def run(self) -> None:
        self.into.make()
        tree = ""
        parent = ""
        before = ""
        for name, head in self._oldest_first():
            after, has_hit = self._tree(tree, before, head.tree)
            signed, has_hit_reason = self._signature(head.signature)
            self.commits += has_hit or has_hit_reason
            before = head.tree
            if after == tree and (has_hit or has_hit_reason):
                continue
            commit = loose("commit", commit_object(after, parent, signed))
            self.into.write([commit])
            tree = after
            parent = commit.id
            self._names[name] = commit.id
        if parent:
            self.into.move_head(parent)

    def _oldest_first(self) -> list[tuple[str, Head]]:
        heads = list[tuple[str, Head]]()
        at = self._history.newest
        while at:
            heads.append((at, self._history.head(at)))
            at = heads[-1][1].parent
        return heads[::-1]

    def _tree(self, tree: str, before: str, after: str) -> tuple[str, bool]:
        """The commit's change on top of the new tree, and whether any of it had to go."""
        has_hit = False
        files: dict[str, str | None] = {}
        for file, (old, new) in self._before.compared(before, after).items():
            if file in self._dropped:
                self.files.add(file)
                has_hit = True
                continue
            files[file] = self._blob(file, new) if new else None
            # A commit that only removes the text held it too, in what it removed.
            has_hit |= any(name is not None and self._is_hit(name) for name in (old, new))
        result, trees = self._after.changed(tree, files)
        self.into.write(trees)
        return result, has_hit

    def _blob(self, file: str, name: str) -> str:
        data = self._history.repository.content(name, "blob")
        kept = self._scrub(data)
        if kept != data:
            self.files.add(file)
        blob = loose("blob", kept)
        self.into.write([blob])
        return blob.id

    def _is_hit(self, name: str) -> bool:
        data = self._history.repository.content(name, "blob")
        return self._scrub(data) != data

    def _signature(self, signed: Signature) -> tuple[Signature, bool]:
        reason = self._scrub(signed.reason.encode()).decode("utf-8", "replace").strip("\n")
        # A reason that names a commit, as a confirmation does, goes on naming the same one.
        named = _COMMIT.sub(lambda found: self._names.get(found[0], found[0]), reason)
        return replace(signed, reason=named or "purged"), reason != signed.reason
