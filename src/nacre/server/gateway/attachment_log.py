"""What was attached to the person's messages, so that later requests hold the same bytes (G4).

One file per conversation below `cache/` of the home: a purge of a memory deletes the files that quote it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from nacre.clock import Clock
from nacre.messages.blocks import Json, JsonObject
from nacre.server.gateway.records import append
from nacre.store import disk

FOLDER = Path("cache") / "gateway"
KEPT = timedelta(days=30)
"""As long as Claude Code keeps its sessions; counted from the last use."""
MAX_OPEN = 200
MAX_FILE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class AttachedText:
    """A text behind one message; empty if a later look found nothing any more."""

    text: str
    files: Mapping[str, int]
    """The size in bytes of each memory in it."""
    at: float
    """Seconds since 1970."""


@dataclass(slots=True)
class AttachedConversation:
    """What was attached in one conversation, by the digest of the message."""

    path: Path
    texts: dict[bytes, AttachedText] = field(default_factory=dict)
    extracted: set[bytes] = field(default_factory=set)
    """Messages that memories were extracted from."""
    continued: dict[bytes, float] = field(default_factory=dict)
    """When a history that goes on behind a message was sent last, in seconds since 1970."""
    attaching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A client may repeat a request while it is on its way."""
    stamp: tuple[int, int] | None = None
    """Size and time of the file as it was read or written last."""


class AttachmentLog:
    """Reads and appends to the files; what cannot be written is not attached."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self._folder = home / FOLDER
        self._clock = clock
        self._open: OrderedDict[bytes, AttachedConversation] = OrderedDict()
        self._forget_old()

    def conversation(self, first: bytes) -> AttachedConversation:
        """Return the conversation that begins with this message, as its file says now."""
        found = self._open.get(first)
        path = self._folder / f"{first.hex()}.jsonl"
        if found is None or found.stamp != _stamp(path):
            found = self._open[first] = _read(path)
            with suppress(OSError):
                os.utime(path)
                found.stamp = _stamp(path)
        self._open.move_to_end(first)
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        return found

    def attach(self, conversation: AttachedConversation, link: bytes, attached: AttachedText) -> None:
        """Write down what a message gets, before it is sent; raises `StoreError`."""
        facts: JsonObject = {"text": attached.text, "files": dict(attached.files), "at": attached.at}
        line: JsonObject = {"link": link.hex(), **facts}
        self._append(conversation, line)
        conversation.texts[link] = attached

    def mark_extracted(self, conversation: AttachedConversation, link: bytes) -> None:
        """Write down that this message and those before it were extracted from; raises `StoreError`."""
        self._append(conversation, {"link": link.hex(), "extracted": True})
        conversation.extracted.add(link)

    def _append(self, conversation: AttachedConversation, line: JsonObject) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        append(conversation.path, data)
        conversation.stamp = _stamp(conversation.path)

    def _forget_old(self) -> None:
        oldest = (self._clock.now() - KEPT).timestamp()
        for path in self._folder.glob("*.jsonl"):
            with suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _read(path: Path) -> AttachedConversation:
    conversation = AttachedConversation(path, stamp=_stamp(path))
    try:
        descriptor = disk.open_regular(path, os.O_RDONLY)
    except OSError:
        return conversation
    with os.fdopen(descriptor, "rb") as file:
        for line in file.read(MAX_FILE_BYTES).splitlines():
            try:
                record: Json = json.loads(line)
            except ValueError:  # torn by a crash: its message was not sent
                continue
            _take(conversation, record)
    return conversation


def _take(conversation: AttachedConversation, record: Json) -> None:
    match record:
        case {"link": str(link), "text": str(text), "files": dict(files), "at": int(at) | float(at)}:
            with suppress(ValueError):
                sizes = {name: size for name, size in files.items() if isinstance(size, int)}
                conversation.texts[bytes.fromhex(link)] = AttachedText(text, sizes, at)
        case {"link": str(link), "extracted": True}:
            with suppress(ValueError):
                conversation.extracted.add(bytes.fromhex(link))
