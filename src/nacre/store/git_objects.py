"""A bare git repository on disk: loose objects, packs, trees, one branch (M15).

Written and read without a git binary and without a library: dulwich takes 40 ms to import, adds 11 MB with
urllib3 and flushes without control, while a save may cost four flushes in all. Little of the format is
needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.errors import StoreError
from nacre.store import disk

if TYPE_CHECKING:
    from nacre.store.git_packs import GitPack

BRANCH = "refs/heads/main"
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = false\n\tbare = true\n[gc]\n\tauto = 0\n"
_TEMP = "tmp_obj_nacre"
"""git's own clean-up removes files with this name. One is enough: the caller holds a lock."""
ID_CHARS = 40
_FANOUT_CHARS = 2
_OBJECT_ID = re.compile(r"[0-9a-f]{40}")
SMALL_PACK = 262_144
"""Bytes. Larger packs are never rewritten: that would cost more than one more pack."""
MERGE_FROM = 3
"""Number of small packs that are merged: each is two files, and is searched for every object."""


@dataclass(frozen=True, slots=True)
class LooseObject:
    """One object as its file on disk."""

    id: str
    file: bytes


def blob_id(data: bytes) -> str:
    """Return git's id of a file with this content."""
    return _digest("blob", data)


def loose_object(kind: str, data: bytes) -> LooseObject:
    return LooseObject(
        _digest(kind, data), zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, zlib.Z_BEST_SPEED)
    )


def _digest(kind: str, data: bytes) -> str:
    digest = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


class GitRepository:
    """Objects by id, and the branch that points to the newest commit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._packs: dict[Path, GitPack] = {}

    def make(self) -> None:
        """Create what is missing of an empty repository; `HEAD` last, because it marks a repository."""
        if (self.path / "HEAD").exists():
            return
        disk.make_folder(self.path / "objects" / "pack")
        disk.make_folder(self.path / "refs" / "heads")
        for name, content in (("config", _CONFIG), ("HEAD", f"ref: {BRANCH}\n".encode())):
            disk.replace_file(self.path / name, content, temp_name=f"{name}.lock")
        disk.sync_folder(self.path.parent)

    def head(self) -> str:
        """Return the newest commit; empty before the first."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / BRANCH).read_text(encoding="ascii").strip()
        with contextlib.suppress(FileNotFoundError):
            # `git gc` and `git pack-refs` put it there.
            for line in (self.path / "packed-refs").read_text(encoding="utf-8").splitlines():
                if line.endswith(f" {BRANCH}"):
                    return line[:ID_CHARS]
        return ""

    def move_head(self, commit: str) -> None:
        """Point the branch to a commit.

        One write of 41 bytes over 41 bytes: whole or not at all, and it needs no disk space.
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

    def restore_head(self, commit: str) -> None:
        """Point the branch to a commit again, or to none, after `move_head` failed."""
        if self.head() == commit:
            return
        if commit:
            self.move_head(commit)
        else:
            (self.path / BRANCH).unlink(missing_ok=True)

    def stage_head(self) -> None:
        """Create the branch's own file again after `git gc` moved it to the packed ones."""
        branch = self.path / BRANCH
        if not branch.exists() and (newest := self.head()):
            disk.make_folder(branch.parent)
            disk.replace_file(branch, newest.encode() + b"\n", temp_name=f"{branch.name}.lock")

    def read(self, name: str) -> tuple[str, bytes]:
        """Return the kind and content of an object."""
        with contextlib.suppress(FileNotFoundError):
            return self._read_loose(name)
        # `git gc` or another process may pack or merge after the packs are listed.
        for refreshed in (False, True, True):
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
        """Return whether the object exists and is whole."""
        try:
            kind, data = self.read(name)
        except StoreError:
            return False
        return _digest(kind, data) == name

    def write(self, objects: Iterable[LooseObject]) -> list[Path]:
        """Add objects and return the files that are new; existing objects stay."""
        written = []
        try:
            for one in objects:
                path = self._loose_path(one.id)
                if self._is_there(one, path):
                    continue
                disk.make_folder(path.parent)
                disk.replace_file(path, one.file, temp_name=_TEMP, sync=False)
                written.append(path)
        except OSError:
            self.unwrite(written)
            raise
        return written

    def restore(self, one: LooseObject) -> None:
        """Restore an object that a power cut may have torn."""
        if not self.has(one.id):
            self._loose_path(one.id).unlink(missing_ok=True)
            self.write([one])

    @staticmethod
    def unwrite(paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    def names(self) -> set[str]:
        """Return the id of every object, reachable or not."""
        packed = {name for pack in self._known_packs(refresh=True) for name in pack.names()}
        return packed | self._loose_files().keys()

    def count_loose_folders(self) -> int:
        """Return the number of folders with loose objects; up to about a hundred, the number of objects."""
        try:
            return sum(len(each.name) == _FANOUT_CHARS for each in (self.path / "objects").iterdir())
        except FileNotFoundError:
            return 0

    def pack(self) -> None:
        """Move loose objects into one flushed pack, with small packs if there are many; flush the branch."""
        loose = self._loose_files()
        small = [pack for pack in self._known_packs(refresh=True) if pack.size <= SMALL_PACK]
        merged = small if len(small) >= MERGE_FROM else []
        # The journal of the directory restored what a power cut tore; any other object must not be lost.
        # In the order in which they were written, so that what is alike is close together.
        names = [name for pack in merged for name in pack.names() if name not in loose]
        names += sorted((name for name in loose if self.has(name)), key=lambda one: _time_of(loose[one]))
        names = list(dict.fromkeys(names))
        if names:
            from nacre.store.git_packs import write_pack  # noqa: PLC0415 - see _known_packs

            objects = ((name, *self.read(name)) for name in names)
            written = write_pack(self.path / "objects" / "pack", objects, count=len(names))
            self.unwrite(loose[name] for name in names if name in loose)
            for folder in {path.parent for path in loose.values()}:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            for pack in merged:
                if pack.index != written.with_suffix(".idx"):
                    # git searches indexes: without its index a pack does not exist.
                    pack.index.unlink(missing_ok=True)
                    pack.index.with_suffix(".pack").unlink(missing_ok=True)
        branch = self.path / BRANCH
        if branch.exists():
            descriptor = disk.open_regular(branch, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            disk.sync_folder(branch.parent)

    def _is_there(self, one: LooseObject, path: Path) -> bool:
        """Return whether a file of the expected length exists; another length may be left by a power cut."""
        try:
            return path.stat().st_size == len(one.file) or self.has(one.id)
        except FileNotFoundError:
            return False

    def _loose_path(self, name: str) -> Path:
        return self.path / "objects" / name[:2] / name[2:]

    def _read_loose(self, name: str) -> tuple[str, bytes]:
        try:
            whole = zlib.decompress(self._loose_path(name).read_bytes())
            head, _, data = whole.partition(b"\0")
            return head.split(b" ")[0].decode(), data
        except (zlib.error, UnicodeDecodeError) as error:
            raise StoreError(f"object {name} is damaged; run `git fsck` in {self.path}") from error

    def _loose_files(self) -> dict[str, Path]:
        return {
            name: file
            for folder in (self.path / "objects").glob("[0-9a-f][0-9a-f]")
            for file in folder.iterdir()
            if _OBJECT_ID.fullmatch(name := folder.name + file.name)
        }

    def _known_packs(self, *, refresh: bool) -> list[GitPack]:
        if refresh or not self._packs:
            found: dict[Path, GitPack] = {}
            for path in sorted((self.path / "objects" / "pack").glob("pack-*.idx")):
                from nacre.store.git_packs import GitPack  # noqa: PLC0415 - a new history has no packs

                with contextlib.suppress(FileNotFoundError):  # merged into another since it was listed
                    found[path] = self._packs.get(path) or GitPack(path)
            self._packs = found
        return list(self._packs.values())


SPLIT_ABOVE = 256
"""Maximum files of an unsplit folder; up to here its tree is about 10 KB, cheaper than two trees."""
SHARDS = 64
"""About the square root of the number of files of a large memory, so that both trees are small."""
REMEMBERED = 512
"""Maximum number of cached parsed trees, a few megabytes at most."""
_SHARD = re.compile(rb"~[0-3][0-9a-f]")
_LINE = re.compile(rb"(\d+) ([^\0]+)\0(.{20})", re.DOTALL)
_FILE_MODE = b"100644"
_FOLDER_MODE = b"40000"


@dataclass(slots=True)
class _TreeFolder:
    """One folder as parsed from its tree: ids of files, folders, and trees its files are split over."""

    files: dict[bytes, bytes] = field(default_factory=dict)
    folders: dict[bytes, bytes] = field(default_factory=dict)
    shards: dict[bytes, bytes] = field(default_factory=dict)

    def copy(self) -> _TreeFolder:
        return _TreeFolder(dict(self.files), dict(self.folders), dict(self.shards))


_Pair = tuple[bytes | None, bytes | None]
_Path = tuple[bytes, ...]
_NOTHING = b""
"""The tree of an empty folder, which git does not store."""


class GitTrees:
    """Files as the trees of one repository: look up, change, list and compare.

    A folder of up to 256 files is one tree, as in git. A larger one keeps its files in 64 trees named `~00`
    to `~3f` by a digest of the file's name, permanently: a save then writes two trees of about 150 lines and
    not one of 10,000. `git log -- '*name.md'` finds a file in either.
    """

    def __init__(self, repository: GitRepository) -> None:
        self._repository = repository
        self._parsed: dict[bytes, _TreeFolder] = {}

    def lookup(self, tree: str, file: str) -> str | None:
        """Return the id of a file's content."""
        *folders, name = _encoded(file).split(b"/")
        at = bytes.fromhex(tree)
        for part in folders:
            at = self._folder(at).folders.get(part, _NOTHING)
        folder = self._folder(at)
        shard = folder.shards.get(_shard_of(name)) if folder.shards else None
        found = (self._folder(shard) if shard else folder).files.get(name)
        return None if found is None else found.hex()

    def listed(self, tree: str) -> dict[str, str]:
        """Return every file and the id of its content."""
        return {_decoded(path): name.hex() for path, name in self._walked(bytes.fromhex(tree), b"")}

    def compared(self, old: str, new: str) -> dict[str, tuple[str | None, str | None]]:
        """Return every file that differs, with its content before and after; an empty tree is the empty
        string."""
        pairs = self._differing(bytes.fromhex(old), bytes.fromhex(new), b"")
        return {
            _decoded(path): (one.hex() if one else None, other.hex() if other else None)
            for path, (one, other) in pairs
        }

    def changed(self, tree: str, files: Mapping[str, str | None]) -> tuple[str, list[LooseObject]]:
        """Return the tree with changed or removed files, and the trees that must be written for it."""
        written: list[LooseObject] = []

        def keep(one: LooseObject) -> bytes:
            written.append(one)
            return bytes.fromhex(one.id)

        by_path = {
            tuple(_encoded(file).split(b"/")): bytes.fromhex(name) if name else None
            for file, name in files.items()
        }
        found = self._applied(bytes.fromhex(tree), by_path, keep) or keep(loose_object("tree", b""))
        return found.hex(), written

    def _applied(
        self, tree: bytes, files: Mapping[_Path, bytes | None], keep: Callable[[LooseObject], bytes]
    ) -> bytes:
        folder = self._folder(tree).copy()
        below: dict[bytes, dict[_Path, bytes | None]] = {}
        here: dict[bytes, bytes | None] = {}
        for path, name in files.items():
            if len(path) > 1:
                below.setdefault(path[0], {})[path[1:]] = name
            else:
                here[path[0]] = name
        for part, inner in below.items():
            _put(folder.folders, part, self._applied(folder.folders.get(part, _NOTHING), inner, keep))
        if not folder.shards:
            for part, name in here.items():
                _put(folder.files, part, name)
            here = {}
            if len(folder.files) > SPLIT_ABOVE:
                here = dict(folder.files)
                folder.files = {}
        by_shard: dict[bytes, dict[bytes, bytes | None]] = {}
        for part, name in here.items():
            by_shard.setdefault(_shard_of(part), {})[part] = name
        for shard, changed in by_shard.items():
            leaf = self._folder(folder.shards.get(shard, _NOTHING)).copy()
            for part, name in changed.items():
                _put(leaf.files, part, name)
            _put(folder.shards, shard, _written(leaf, keep))
        return _written(folder, keep)

    def _walked(self, tree: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        folder = self._folder(tree)
        for part, name in self._all_files(folder).items():
            yield prefix + part, name
        for part, name in folder.folders.items():
            yield from self._walked(name, prefix + part + b"/")

    def _differing(self, old: bytes, new: bytes, prefix: bytes) -> Iterator[tuple[bytes, _Pair]]:
        if old == new:
            return
        before = self._folder(old)
        after = self._folder(new)
        if before.shards and after.shards:
            shards = _unlike(before.shards, after.shards).values()
            pairs = [
                (self._folder(one or _NOTHING).files, self._folder(other or _NOTHING).files)
                for one, other in shards
            ]
        else:
            pairs = [(self._all_files(before), self._all_files(after))]
        for one_files, other_files in pairs:
            for part, ids in _unlike(one_files, other_files).items():
                yield prefix + part, ids
        for part, (one, other) in _unlike(before.folders, after.folders).items():
            yield from self._differing(one or _NOTHING, other or _NOTHING, prefix + part + b"/")

    def _all_files(self, folder: _TreeFolder) -> dict[bytes, bytes]:
        files = dict(folder.files)
        for shard in folder.shards.values():
            files |= self._folder(shard).files
        return files

    def _folder(self, tree: bytes) -> _TreeFolder:
        """Return a parsed tree; must not be changed."""
        if tree not in self._parsed:
            if len(self._parsed) >= REMEMBERED:
                self._parsed.clear()
            self._parsed[tree] = _parsed(self._repository.content(tree.hex(), "tree") if tree else b"")
        return self._parsed[tree]


def is_reserved(file: str) -> bool:
    """Return whether a part of the path looks like one of nacre's own trees."""
    return "~" in file and any(_SHARD.fullmatch(part) for part in _encoded(file).split(b"/"))


def _parsed(data: bytes) -> _TreeFolder:
    folder = _TreeFolder()
    for mode, part, name in _LINE.findall(data):
        if mode != _FOLDER_MODE:
            folder.files[part] = name
        elif _SHARD.fullmatch(part):
            folder.shards[part] = name
        else:
            folder.folders[part] = name
    return folder


def _put(names: dict[bytes, bytes], part: bytes, name: bytes | None) -> None:
    if name:
        names[part] = name
    else:
        names.pop(part, None)


def _written(folder: _TreeFolder, keep: Callable[[LooseObject], bytes]) -> bytes:
    """Return the id of the tree; empty for an empty one, as git has no empty folders."""
    lines = [(part, _FILE_MODE, part, name) for part, name in folder.files.items()]
    for names in (folder.folders, folder.shards):
        # git sorts a folder as if its name ended with a slash.
        lines += [(part + b"/", _FOLDER_MODE, part, name) for part, name in names.items()]
    if not lines:
        return _NOTHING
    lines.sort()
    return keep(
        loose_object("tree", b"".join([b"%s %s\0%s" % (mode, part, name) for _, mode, part, name in lines]))
    )


def _unlike(before: Mapping[bytes, bytes], after: Mapping[bytes, bytes]) -> dict[bytes, _Pair]:
    parts = {part for part, _ in before.items() ^ after.items()}
    return {part: (before.get(part), after.get(part)) for part in sorted(parts)}


def _shard_of(part: bytes) -> bytes:
    return b"~%02x" % (hashlib.sha1(part, usedforsecurity=False).digest()[0] % SHARDS)


def _encoded(file: str) -> bytes:
    return file.encode("utf-8", "surrogateescape")


def _decoded(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _time_of(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
