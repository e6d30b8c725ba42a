"""What is about to happen to a memory directory, written down first, so that a crash leaves all or nothing.

One flush of this file is the moment a change is made for good. It also holds every object that the history
got since it was last packed: those are not flushed one by one, and come back from here after a power cut.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nacre.errors import StoreError
from nacre.messages.blocks import Json
from nacre.store import disk
from nacre.store.history_objects import Loose

MAX_BYTES = 16_777_216
"""From here on the next change packs the history first, whatever that costs: reading more is slow."""

_MAGIC = b"nacre journal 1 "
_HEADER_BYTES = 64
_INTENT = b"\n[nacre intent]\n"
_SETTLED = b"\n[nacre settled\n"
_MARK_BYTES = 16
_LENGTHS = struct.Struct(">QQ")
"""How long the whole is, and how long the part that says what is meant."""
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class Step:
    """One file that gets another version."""

    file: str
    old: str
    """The version that must be there; empty for none."""
    new: str
    """Empty when the file goes."""
    aside: str
    """Where the new content waits, and where the old one is afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One change: files and the commit that records them."""

    commit: str
    parent: str
    steps: tuple[Step, ...]
    objects: tuple[Loose, ...]


class Journal:
    """A file that is appended to while the lock is held."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def is_settled(self) -> bool:
        """Whether everything in it happened, during this run of the machine."""
        with self._opened(os.O_RDONLY) as descriptor:
            if descriptor is None or not (size := os.fstat(descriptor).st_size):
                return True
            tail = os.pread(descriptor, _MARK_BYTES, max(0, size - _MARK_BYTES))
            return tail == _SETTLED and self._is_of_this_run(os.pread(descriptor, _HEADER_BYTES, 0))

    def is_of_this_run(self) -> bool:
        """Whether no power cut can lie between its writing and now."""
        with self._opened(os.O_RDONLY) as descriptor:
            return descriptor is None or self._is_of_this_run(os.pread(descriptor, _HEADER_BYTES, 0))

    def append(self, intent: Intent) -> int:
        """Write an intent and flush it; returns what to give to `withdraw`."""
        disk.make_folder(self.path.parent)
        with self._opened(os.O_RDWR | os.O_CREAT) as descriptor:
            assert descriptor is not None
            before = os.fstat(descriptor).st_size
            head = b"" if before else _header()
            try:
                os.lseek(descriptor, before, os.SEEK_SET)
                disk.write_all(descriptor, head + _encoded(intent))
                os.fsync(descriptor)
                if not before:
                    disk.sync_folder(self.path.parent)
            except BaseException:
                os.ftruncate(descriptor, before)
                raise
            return before

    def withdraw(self, size: int) -> None:
        """Take back the last intent, flushed: no power cut may bring back what was told to have failed."""
        with self._opened(os.O_WRONLY) as descriptor:
            if descriptor is not None:
                os.ftruncate(descriptor, size)
                # A disk that fails at this, too, has still forgotten it for every process.
                with contextlib.suppress(OSError):
                    os.fsync(descriptor)

    def settle(self) -> None:
        """Say that everything written here happened."""
        with self._opened(os.O_WRONLY | os.O_APPEND) as descriptor:
            if descriptor is not None:
                disk.write_all(descriptor, _SETTLED)

    def clear(self) -> None:
        """Forget everything; the caller flushed what it was about."""
        with self._opened(os.O_WRONLY) as descriptor:
            if descriptor is not None:
                os.ftruncate(descriptor, 0)

    def intents(self) -> tuple[list[Intent], bool]:
        """All of them, oldest first, and whether the last is known to have happened."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return [], True
        if data and not _MAGIC.startswith(data[: len(_MAGIC)]):
            raise StoreError(
                f"{self.path} was written by a newer nacre; update nacre to write to this memory"
            )
        found: list[Intent] = []
        is_settled, at = True, _HEADER_BYTES
        while at < len(data):
            if data.startswith(_SETTLED, at):
                is_settled, at = True, at + _MARK_BYTES
                continue
            body, end = _body(data, at)
            if body is None:  # torn: it was not yet flushed, so nothing had begun
                break
            found.append(_decoded(body))
            is_settled, at = False, end
        return found, is_settled

    @contextlib.contextmanager
    def _opened(self, flags: int) -> Iterator[int | None]:
        try:
            descriptor = disk.open_regular(self.path, flags | os.O_NOFOLLOW)
        except FileNotFoundError:
            yield None
            return
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @staticmethod
    def _is_of_this_run(header: bytes) -> bool:
        return header == _header() and bool(run_of_machine())


@cache
def run_of_machine() -> str:
    """Differs after every start of the machine.

    Empty where there is no such thing: then a power cut may lie before every opening, and all is put back.
    """
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _header() -> bytes:
    return (_MAGIC + run_of_machine().encode()).ljust(_HEADER_BYTES - 1)[: _HEADER_BYTES - 1] + b"\n"


def _encoded(intent: Intent) -> bytes:
    meant: Json = {
        "commit": intent.commit,
        "parent": intent.parent,
        "steps": [[step.file, step.old, step.new, step.aside] for step in intent.steps],
        "objects": [[one.id, len(one.file)] for one in intent.objects],
    }
    text = json.dumps(meant).encode()
    # The point at the end: no object's last bytes can then be taken for the mark that all is settled.
    body = b"".join([text, *(one.file for one in intent.objects), b"."])
    digest = hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
    return _INTENT + _LENGTHS.pack(len(body), len(text)) + digest + body


def _body(data: bytes, at: int) -> tuple[tuple[bytes, bytes] | None, int]:
    """What is meant and the objects' bytes, and where the next record begins; none when it is torn."""
    start = at + _MARK_BYTES + _LENGTHS.size + _DIGEST_BYTES
    if not data.startswith(_INTENT, at) or len(data) < start:
        return None, at
    length, text = _LENGTHS.unpack_from(data, at + _MARK_BYTES)
    body = data[start : start + length]
    if hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() != data[start - _DIGEST_BYTES : start]:
        return None, at
    return (body[:text], body[text:]), start + length


def _decoded(body: tuple[bytes, bytes]) -> Intent:
    meant = json.loads(body[0])
    objects, at = [], 0
    for name, length in meant["objects"]:
        objects.append(Loose(name, body[1][at : at + length]))
        at += length
    return Intent(
        commit=meant["commit"],
        parent=meant["parent"],
        steps=tuple(Step(*step) for step in meant["steps"]),
        objects=tuple(objects),
    )
