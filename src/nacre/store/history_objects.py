"""A bare git repository on disk: loose objects, packs, one branch (M15).

Written and read without a git binary and without a library: dulwich takes 130 ms to import, brings urllib3
and flushes as it likes, where a save may cost four flushes in all. What we need of the format is little.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import StoreError
from nacre.store import disk
from nacre.store.history_packs import COMPRESSION, Pack, write_pack

BRANCH = "refs/heads/main"
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = false\n\tbare = true\n[gc]\n\tauto = 0\n"
_TEMP = "tmp_obj_nacre"
"""git's own clean-up removes files of such names. One is enough: the caller holds a lock."""
ID_CHARS = 40


@dataclass(frozen=True, slots=True)
class Loose:
    """One object as its file on disk."""

    id: str
    file: bytes


def blob_id(data: bytes) -> str:
    """The id git gives a file of this content."""
    return _digest("blob", data)


def loose(kind: str, data: bytes) -> Loose:
    return Loose(
        _digest(kind, data), zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, COMPRESSION)
    )


def _digest(kind: str, data: bytes) -> str:
    digest = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


class Repository:
    """Objects by id, and the branch that says which commit is the newest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._packs: dict[Path, Pack] = {}

    def make(self) -> None:
        """Create what is missing of an empty repository; `HEAD` comes last, it is what makes one."""
        if (self.path / "HEAD").exists():
            return
        disk.make_folder(self.path / "objects" / "pack")
        disk.make_folder(self.path / "refs" / "heads")
        for name, content in (("config", _CONFIG), ("HEAD", f"ref: {BRANCH}\n".encode())):
            disk.replace_file(self.path / name, content, temp_name=f"{name}.lock")
        disk.sync_folder(self.path.parent)

    def head(self) -> str:
        """The newest commit; empty before the first."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / BRANCH).read_text(encoding="ascii").strip()
        with contextlib.suppress(FileNotFoundError):
            # Where `git gc` and `git pack-refs` put it.
            for line in (self.path / "packed-refs").read_text(encoding="utf-8").splitlines():
                if line.endswith(f" {BRANCH}"):
                    return line[:ID_CHARS]
        return ""

    def move_head(self, commit: str) -> None:
        """Let a commit be the newest.

        One write of 41 bytes over 41 bytes: whole or not at all, and it needs no room on the disk.
        """
        self.stage_head()
        branch = self.path / BRANCH
        if not branch.exists():
            disk.replace_file(branch, commit.encode() + b"\n", temp_name=f"{branch.name}.lock", sync=False)
            return
        descriptor = disk.open_regular(branch, os.O_WRONLY | os.O_NOFOLLOW)
        try:
            disk.write_all(descriptor, commit.encode() + b"\n")
        finally:
            os.close(descriptor)

    def stage_head(self) -> None:
        """Give the branch a file of its own again after `git gc` moved it to the packed ones."""
        branch = self.path / BRANCH
        if not branch.exists() and (newest := self.head()):
            disk.make_folder(branch.parent)
            disk.replace_file(branch, newest.encode() + b"\n", temp_name=f"{branch.name}.lock")

    def read(self, name: str) -> tuple[str, bytes]:
        """The kind and content of an object."""
        with contextlib.suppress(FileNotFoundError):
            return self._read_loose(name)
        for refreshed in (False, True):  # somebody may have run `git gc` since the packs were listed
            for pack in self._known_packs(refresh=refreshed):
                if name in pack:
                    return pack.read(name, self.read)
        with contextlib.suppress(FileNotFoundError):
            return self._read_loose(name)
        raise StoreError(f"the history lacks object {name}; run `git fsck` in {self.path}")

    def content(self, name: str, kind: str) -> bytes:
        found, data = self.read(name)
        if found != kind:
            raise StoreError(f"{name} is a {found}, not a {kind}; name a commit of {self.path}")
        return data

    def has(self, name: str) -> bool:
        """Whether it is there and whole."""
        try:
            kind, data = self.read(name)
        except (StoreError, zlib.error, ValueError):
            return False
        return _digest(kind, data) == name

    def write(self, objects: Iterable[Loose], *, sync: bool = False) -> list[Path]:
        """Add objects and return the files that are new; an object that is there already stays."""
        written = []
        try:
            for one in objects:
                path = self._loose_path(one.id)
                if self._is_there(one, path):
                    continue
                disk.make_folder(path.parent)
                temp = path.parent / _TEMP
                _write(temp, one.file, sync=sync)
                temp.replace(path)
                written.append(path)
        except OSError:
            self.unwrite(written)
            raise
        return written

    def restore(self, one: Loose) -> None:
        """Put an object back that a power cut may have torn."""
        if not self.has(one.id):
            self._loose_path(one.id).unlink(missing_ok=True)
            self.write([one])

    @staticmethod
    def unwrite(paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    def names(self) -> set[str]:
        """Every object, whether anything points to it or not."""
        found = {name for pack in self._known_packs(refresh=True) for name in pack.names()}
        for folder in (self.path / "objects").glob("[0-9a-f][0-9a-f]"):
            found |= {folder.name + file.name for file in folder.iterdir() if _is_rest_of_id(file.name)}
        return found

    def pack(self, names: Iterable[str]) -> None:
        """Move these loose objects into one flushed pack, and flush the branch."""
        files = [(name, path) for name in dict.fromkeys(names) if (path := self._loose_path(name)).exists()]
        if files:
            objects = ((name, *self._read_loose(name)) for name, _ in files)
            write_pack(self.path / "objects" / "pack", objects, count=len(files))
            self.unwrite(path for _, path in files)
        branch = self.path / BRANCH
        if branch.exists():
            descriptor = disk.open_regular(branch, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            disk.sync_folder(branch.parent)

    def _is_there(self, one: Loose, path: Path) -> bool:
        """A file of the length we would write is taken as it is; another may be what a power cut left."""
        try:
            return path.stat().st_size == len(one.file) or self.has(one.id)
        except FileNotFoundError:
            return False

    def _loose_path(self, name: str) -> Path:
        return self.path / "objects" / name[:2] / name[2:]

    def _read_loose(self, name: str) -> tuple[str, bytes]:
        try:
            whole = zlib.decompress(self._loose_path(name).read_bytes())
        except zlib.error as error:
            raise StoreError(f"object {name} is damaged; run `git fsck` in {self.path}") from error
        head, _, data = whole.partition(b"\0")
        return head.split(b" ")[0].decode(), data

    def _known_packs(self, *, refresh: bool) -> list[Pack]:
        if refresh or not self._packs:
            found = (self.path / "objects" / "pack").glob("pack-*.idx")
            self._packs = {path: self._packs.get(path) or Pack(path) for path in sorted(found)}
        return list(self._packs.values())


def _is_rest_of_id(name: str) -> bool:
    return len(name) == ID_CHARS - 2 and all(char in "0123456789abcdef" for char in name)


def _write(path: Path, data: bytes, *, sync: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, disk.FILE_MODE)
    try:
        disk.write_all(descriptor, data)
        if sync:
            os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
