"""The git history of a directory: commit, log, read, compare, purge (M14b, M15).

Files go in as names and bytes; the directory itself is never read. The caller holds a lock, so that one
process at a time commits. No git library: see `history_objects`; how files become trees: `history_trees`.
Any git reads it: `git log`, `git show`, `git log -- '*name.md'`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nacre.errors import StoreError
from nacre.store import disk
from nacre.store.history_objects import ID_CHARS, Loose, Repository, loose
from nacre.store.history_trees import REMEMBERED, Trees, is_reserved

_SESSION = "\n\nSession: "
"""Ends every message, so that what stands before it is the reason whatever that holds."""
_NO_SESSION = "-"
_AUTHOR = re.compile(r"^author (.*) <[^<>]*> (\d+) [+-]\d{4}$", re.MULTILINE)
_TREE = re.compile(r"^tree ([0-9a-f]{40})$", re.MULTILINE)
_PARENT = re.compile(r"^parent ([0-9a-f]{40})$", re.MULTILINE)
_ID = re.compile(r"[0-9a-f]{4,40}")
_NOT_IN_A_NAME = re.compile(r"[<>\n\0]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One change that stands in the history."""

    id: str
    author: str
    reason: str
    session: str
    at: datetime
    """In whole seconds, which is what git keeps."""
    files: tuple[str, ...]
    """What it changed, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """How one file differs between two commits."""

    file: str
    before: str | None
    """The id of its content; none where there was no file."""
    after: str | None
    text: str
    """A unified diff."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Who commits, why and when."""

    author: str
    reason: str
    session: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A commit that is made but not yet written."""

    id: str
    parent: str
    objects: tuple[Loose, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a commit object itself says."""

    tree: str
    parent: str
    signature: Signature


class History:
    """Every state a directory had, in a bare repository that need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.repository = Repository(path)
        self._trees = Trees(self.repository)
        self._heads: dict[str, Head] = {}

    @property
    def newest(self) -> str:
        """The id of the newest commit; empty before the first."""
        return self.repository.head()

    def commit(
        self, files: Mapping[str, bytes | None], *, author: str, reason: str, session: str = "", at: datetime
    ) -> str:
        """Record new contents (None = removed); files that are not named stay as they were."""
        signed = Signature(author=author, reason=reason, session=session, at=at)
        try:
            self.repository.make()
            prepared = self.prepare(files, signed)
            self.repository.write(prepared.objects, sync=True)
            self.repository.move_head(prepared.id)
        except OSError as error:
            raise StoreError(disk.explain(error, self.repository.path)) from error
        return prepared.id

    def prepare(self, files: Mapping[str, bytes | None], signature: Signature, *, on: str = "") -> Prepared:
        """Make a commit on the newest one (or on `on`) without writing anything."""
        parent = on or self.newest
        for file in files:
            if is_reserved(disk.check_key(file)):
                raise StoreError(f"{file!r} cannot be kept in the history; choose another name")
        blobs = {file: loose("blob", data) for file, data in files.items() if data is not None}
        ids = {file: blobs[file].id if file in blobs else None for file in files}
        tree, trees = self._trees.changed(self._tree(parent), ids)
        commit = loose("commit", commit_object(tree, parent, signature))
        return Prepared(id=commit.id, parent=parent, objects=(*blobs.values(), *trees, commit))

    def log(self, limit: int, *, file: str | None = None) -> list[Commit]:
        """The newest commits first; with a file, those that changed it."""
        found: list[Commit] = []
        at = self.newest
        while at and len(found) < limit:
            head = self.head(at)
            before = self._tree(head.parent)
            if file is None or self._id(head.tree, file) != self._id(before, file):
                found.append(self._told(at, head))
            at = head.parent
        return found

    def read(self, commit: str, file: str) -> bytes | None:
        """A file as it was after a commit."""
        name = self._id(self._tree(commit), file)
        return None if name is None else self.repository.content(name, "blob")

    def version(self, commit: str, file: str) -> str:
        """The id of a file's content after a commit; empty when it had none."""
        return self._id(self._tree(commit), file) or ""

    def tree(self, commit: str) -> Mapping[str, str]:
        """Every file after a commit, with the id of its content."""
        return self._trees.listed(self._tree(commit))

    def changes(self, before: str, after: str) -> dict[str, tuple[str | None, str | None]]:
        """The files that differ between two commits; the empty string stands for nothing yet."""
        return self._trees.compared(self._tree(before), self._tree(after))

    def diff(self, one: str, other: str | None = None) -> list[FileDiff]:
        """What a commit changed, or how another commit differs from it."""
        before, after = (self.head(self.resolve(one)).parent, one) if other is None else (one, other)
        return [
            FileDiff(file=file, before=old, after=new, text=self._unified(file, old, new))
            for file, (old, new) in sorted(self.changes(before, after).items())
        ]

    def one(self, commit: str) -> Commit:
        """One commit by its id or the beginning of it."""
        found = self.resolve(commit)
        return self._told(found, self.head(found))

    def resolve(self, commit: str) -> str:
        """The whole id that begins like this."""
        if len(commit) == ID_CHARS or not commit:
            return commit
        if not _ID.fullmatch(commit):
            raise StoreError(f"{commit!r} is no commit; `nacre memory log` lists them")
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

    def head(self, commit: str) -> Head:
        """What a commit object says of itself."""
        if commit not in self._heads:
            if len(self._heads) >= REMEMBERED:
                self._heads.clear()
            self._heads[commit] = self._head(commit)
        return self._heads[commit]

    def _head(self, commit: str) -> Head:
        text = self.repository.content(commit, "commit").decode("utf-8", "replace")
        head, _, message = text.partition("\n\n")
        tree = _TREE.search(head)
        parent = _PARENT.search(head)
        author = _AUTHOR.search(head)
        if tree is None or author is None:
            raise StoreError(f"commit {commit} cannot be read; run `git fsck` in {self.repository.path}")
        reason, _, session = message.rpartition(_SESSION)
        session = session.strip() if reason else ""
        return Head(
            tree=tree[1],
            parent=parent[1] if parent else "",
            signature=Signature(
                author=author[1],
                # Somebody may have committed here with git itself, and that says nothing of a session.
                reason=(reason or message).strip("\n"),
                session="" if session == _NO_SESSION else session,
                at=datetime.fromtimestamp(int(author[2]), UTC),
            ),
        )

    def _told(self, commit: str, head: Head) -> Commit:
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

    def _id(self, tree: str, file: str) -> str | None:
        return self._trees.lookup(tree, file)

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
    """A commit as git stores it."""
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
