"""The git history of a directory: commit, log, read, compare, purge (M14b, M15).

Files are passed as names and bytes; the directory itself is never read. The caller holds a lock, so that one
process at a time commits. No git library: see `git_objects`. Any git can read it: `git log`, `git show`, `git
log -- '*name.md'`.
"""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from nacre.errors import StoreError
from nacre.store import disk
from nacre.store.disk import is_swapped
from nacre.store.git_objects import (
    ID_CHARS,
    REMEMBERED,
    GitRepository,
    GitTrees,
    LooseObject,
    is_reserved,
    loose_object,
)

_SESSION = "\n\nSession: "
"""Ends every message; the text before the last one is the reason."""
_NO_SESSION = "-"
_AUTHOR = re.compile(r"^author (.*) <[^<>]*> (\d+) [+-]\d{4}$", re.MULTILINE)
_TREE = re.compile(r"^tree ([0-9a-f]{40})$", re.MULTILINE)
_PARENT = re.compile(r"^parent ([0-9a-f]{40})$", re.MULTILINE)
_ID = re.compile(r"[0-9a-f]{4,40}")
_NOT_IN_A_NAME = re.compile(r"[<>\n\0]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit of the history."""

    id: str
    author: str
    reason: str
    session: str
    at: datetime
    """In whole seconds, as git stores it."""
    files: tuple[str, ...]
    """The files it changed, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """The difference of one file between two commits."""

    file: str
    before: str | None
    """Id of its content; None if there was no file."""
    after: str | None
    text: str
    """A unified diff."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Author, reason, session and time of a commit."""

    author: str
    reason: str
    session: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommit:
    """A commit whose objects are not written yet."""

    id: str
    parent: str
    objects: tuple[LooseObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHeader:
    """The parsed fields of a commit object."""

    tree: str
    parent: str
    signature: Signature


class History:
    """The commits of a directory, in a bare repository that need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.repository = GitRepository(path)
        self._trees = GitTrees(self.repository)
        self._heads: dict[str, CommitHeader] = {}

    @property
    def newest(self) -> str:
        """Return the id of the newest commit; empty before the first."""
        return self.repository.head()

    def prepare(
        self, files: Mapping[str, bytes | None], signature: Signature, *, on: str = ""
    ) -> PreparedCommit:
        """Build a commit on the newest one (or on `on`) without writing anything."""
        parent = on or self.newest
        for file in files:
            if is_reserved(disk.check_key(file)):
                raise StoreError(f"{file!r} cannot be kept in the history; choose another name")
        blobs = {file: loose_object("blob", data) for file, data in files.items() if data is not None}
        ids = {file: blobs[file].id if file in blobs else None for file in files}
        tree, trees = self._trees.changed(self._tree(parent), ids)
        commit = loose_object("commit", commit_object(tree, parent, signature))
        return PreparedCommit(id=commit.id, parent=parent, objects=(*blobs.values(), *trees, commit))

    def log(self, limit: int, *, file: str | None = None) -> list[Commit]:
        """Return commits, newest first; with a file, only those that changed it."""
        found: list[Commit] = []
        at = self.newest
        while at and len(found) < limit:
            head = self.head(at)
            before = self._tree(head.parent)
            if file is None or self._trees.lookup(head.tree, file) != self._trees.lookup(before, file):
                found.append(self._commit(at, head))
            at = head.parent
        return found

    def read(self, commit: str, file: str) -> bytes | None:
        """Return the content of a file after a commit, or None."""
        name = self._trees.lookup(self._tree(commit), file)
        return None if name is None else self.repository.content(name, "blob")

    def version(self, commit: str, file: str) -> str:
        """Return the id of a file's content after a commit; empty if there was no file."""
        return self._trees.lookup(self._tree(commit), file) or ""

    def tree(self, commit: str) -> Mapping[str, str]:
        """Return every file after a commit with the id of its content."""
        return self._trees.listed(self._tree(commit))

    def changes(self, before: str, after: str) -> dict[str, tuple[str | None, str | None]]:
        """Return the files that differ between two commits; the empty string means before the first."""
        return self._trees.compared(self._tree(before), self._tree(after))

    def diff(self, commit: str) -> list[FileDiff]:
        """Return what a commit changed."""
        before = self.head(self.resolve(commit)).parent
        return [
            FileDiff(file=file, before=old, after=new, text=self._unified(file, old, new))
            for file, (old, new) in sorted(self.changes(before, commit).items())
        ]

    def one(self, commit: str) -> Commit:
        """Return a commit by its id or a prefix of it."""
        found = self.resolve(commit)
        return self._commit(found, self.head(found))

    def resolve(self, commit: str) -> str:
        """Return the full id for a prefix."""
        if len(commit) == ID_CHARS or not commit:
            return commit
        if not _ID.fullmatch(commit):
            raise StoreError(f"{commit!r} is not a commit; `nacre memory log` lists them")
        at = self.newest
        found = []
        while at:
            found += [at] if at.startswith(commit) else []
            at = self.head(at).parent
        if len(found) != 1:
            raise StoreError(
                f"{commit} is {'ambiguous' if found else 'not in the history'}; `nacre memory log` lists them"
            )
        return found[0]

    def head(self, commit: str) -> CommitHeader:
        """Return the parsed fields of a commit object."""
        if commit not in self._heads:
            if len(self._heads) >= REMEMBERED:
                self._heads.clear()
            text = self.repository.content(commit, "commit").decode("utf-8", "replace")
            head, _, message = text.partition("\n\n")
            tree = _TREE.search(head)
            parent = _PARENT.search(head)
            author = _AUTHOR.search(head)
            if tree is None or author is None:
                raise StoreError(f"commit {commit} cannot be read; run `git fsck` in {self.repository.path}")
            reason, _, session = message.rpartition(_SESSION)
            session = session.strip() if reason else ""
            signature = Signature(
                author=author[1],
                # A commit made with git itself names no session.
                reason=(reason or message).strip("\n"),
                session="" if session == _NO_SESSION else session,
                at=datetime.fromtimestamp(int(author[2]), UTC),
            )
            parent_id = parent[1] if parent else ""
            self._heads[commit] = CommitHeader(tree=tree[1], parent=parent_id, signature=signature)
        return self._heads[commit]

    def _commit(self, commit: str, head: CommitHeader) -> Commit:
        signed = head.signature
        return Commit(
            id=commit,
            author=signed.author,
            reason=signed.reason,
            session=signed.session,
            at=signed.at,
            files=tuple(sorted(self._trees.compared(self._tree(head.parent), head.tree))),
        )

    def _tree(self, commit: str) -> str:
        return self.head(self.resolve(commit)).tree if commit else ""

    def _unified(self, file: str, old: str | None, new: str | None) -> str:
        texts = [
            self.repository.content(name, "blob").decode("utf-8", "replace") if name else ""
            for name in (old, new)
        ]
        before, after = (text.splitlines(keepends=True) for text in texts)
        names = (f"a/{file}" if old else "/dev/null"), (f"b/{file}" if new else "/dev/null")
        lines = difflib.unified_diff(before, after, *names)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )


def commit_object(tree: str, parent: str, signature: Signature) -> bytes:
    """Return the bytes of a commit object."""
    author = _NOT_IN_A_NAME.sub("", signature.author).strip() or "unknown"
    when = f"{int(signature.at.timestamp())} +0000"
    session = " ".join(signature.session.split())
    reason = signature.reason.replace("\0", "").strip("\n") or "no reason given"
    return "".join([
        f"tree {tree}\n",
        f"parent {parent}\n" if parent else "",
        f"author {author} <{author.replace(' ', '-')}@nacre.invalid> {when}\n",
        f"committer nacre <nacre@nacre.invalid> {when}\n\n",
        f"{reason}{_SESSION}{session or _NO_SESSION}\n",
    ]).encode("utf-8", "replace")  # fmt: skip


_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")

Scrub = Callable[[bytes], bytes]
"""Returns a text without what is purged; applied to its own result, it changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedHistory:
    """Where the purged text was, and where it still is."""

    commits: int
    """Number of commits that held some of it, in a file, a name or a reason."""
    files: tuple[str, ...]
    """The files that ever contained it, sorted."""
    left: tuple[str, ...]
    """Objects that still hold some of it; always empty unless something is wrong."""


def purge(history: History, files: Collection[str] = (), *, scrub: Scrub = bytes) -> PurgedHistory:
    """Remove files from every commit, and text from every other file and reason.

    The caller holds the lock. Commits that changed nothing else are removed, too.
    """
    path = history.repository.path
    finish_purge(path)
    if not history.newest:
        return PurgedHistory(commits=0, files=(), left=())
    try:
        fresh = _HistoryRewrite(history, GitRepository(_aside(path)), frozenset(files), scrub)
        fresh.run()
        fresh.into.pack()
        if not is_swapped(_aside(path), path):
            # Two renames; `finish_purge` handles what a kill between them left.
            path.rename(_old(path))
            _aside(path).rename(path)
            shutil.rmtree(_old(path))
        disk.sync_folder(path.parent)
    except OSError as error:
        shutil.rmtree(_aside(path), ignore_errors=True)
        raise StoreError(disk.explain(error, path)) from error
    shutil.rmtree(_aside(path), ignore_errors=True)
    left = holding(History(path), files, scrub=scrub)
    return PurgedHistory(commits=fresh.commits, files=tuple(sorted(fresh.files)), left=left)


def holding(history: History, files: Collection[str] = (), *, scrub: Scrub = bytes) -> tuple[str, ...]:
    """Return every object, reachable or not, that has one of these files or some of this text."""
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


def finish_purge(path: Path) -> None:
    """Finish or remove what a killed purge left next to the history."""
    aside = _aside(path)
    old = _old(path)
    if aside.exists() and not path.exists():
        aside.rename(path)
    for leftover in (aside, old):
        if leftover.exists():
            shutil.rmtree(leftover)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.purging")


def _old(path: Path) -> Path:
    return path.with_name(f".{path.name}.purged")


class _HistoryRewrite:
    """One pass over all commits, oldest first."""

    def __init__(self, history: History, into: GitRepository, files: frozenset[str], scrub: Scrub) -> None:
        self.into = into
        self.commits = 0
        self.files: set[str] = set()
        self._history = history
        self._before = GitTrees(history.repository)
        self._after = GitTrees(into)
        self._dropped = files
        self._scrub = scrub
        self._names: dict[str, str] = {}
        """The new id of each commit."""

    def run(self) -> None:
        self.into.make()
        tree = ""
        parent = ""
        before = ""
        heads = list[tuple[str, CommitHeader]]()
        at = self._history.newest
        while at:
            heads.append((at, self._history.head(at)))
            at = heads[-1][1].parent
        for name, head in reversed(heads):
            after, has_hit = self._tree(tree, before, head.tree)
            signed, has_hit_reason = self._signature(head.signature)
            self.commits += has_hit or has_hit_reason
            before = head.tree
            if after == tree and (has_hit or has_hit_reason):
                continue
            commit = loose_object("commit", commit_object(after, parent, signed))
            self.into.write([commit])
            tree = after
            parent = commit.id
            self._names[name] = commit.id
        if parent:
            self.into.move_head(parent)

    def _tree(self, tree: str, before: str, after: str) -> tuple[str, bool]:
        """Return the new tree with the commit's change, and whether any of it was purged."""
        has_hit = False
        files: dict[str, str | None] = {}
        for file, (old, new) in self._before.compared(before, after).items():
            if file in self._dropped:
                self.files.add(file)
                has_hit = True
                continue
            files[file] = None
            for name in filter(None, (old, new)):
                data = self._history.repository.content(name, "blob")
                kept = self._scrub(data)
                # A commit that only removes the text held it too, in the removed lines.
                has_hit |= kept != data
                if name == new:
                    blob = loose_object("blob", kept)
                    self.into.write([blob])
                    files[file] = blob.id
                    self.files |= {file} if kept != data else set()
        result, trees = self._after.changed(tree, files)
        self.into.write(trees)
        return result, has_hit

    def _signature(self, signed: Signature) -> tuple[Signature, bool]:
        reason = self._scrub(signed.reason.encode()).decode("utf-8", "replace").strip("\n")
        # A reason that names a commit, as a confirmation does, must still name the same one.
        named = _COMMIT.sub(lambda found: self._names.get(found[0], found[0]), reason)
        return replace(signed, reason=named or "purged"), reason != signed.reason
