"""Repositories inside a repository, read off its index: git goes into them, also when it only looks."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 256 * 1024 * 1024
"""A larger index is that of a million files and more; nobody can wait for it to be read."""
LINK = 0o160000
"""The mode of an entry that is a repository of its own."""
_HEADER = struct.Struct(">4sII")
_MODE_AT, _FLAGS_AT, _NAME_AT = 24, 60, 62
_EXTENDED = 0x4000
_PLAIN = (2, 3)
"""Versions of the format in which every name stands in full."""


def inner_repositories(root: Path, git_folder: Path) -> list[Path] | None:
    """The roots of repositories that the one at this root links to; None where that cannot be told."""
    try:
        with (git_folder / "index").open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError:
        return None
    # In nearly every repository there is none, and this is all that it costs.
    if len(data) <= MAX_BYTES and LINK.to_bytes(4, "big") not in data:
        return None if any(git_folder.glob("sharedindex.*")) else []
    try:
        return [root / name for name in _links(data)] if len(data) <= MAX_BYTES else None
    except (struct.error, ValueError):
        return None


def _links(data: bytes) -> Iterator[str]:
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in _PLAIN:
        raise ValueError("an index of another kind")
    at = _HEADER.size
    for _ in range(count):
        (mode,) = struct.unpack_from(">I", data, at + _MODE_AT)
        (flags,) = struct.unpack_from(">H", data, at + _FLAGS_AT)
        start = at + _NAME_AT + (2 if flags & _EXTENDED else 0)
        end = data.index(b"\0", start)
        if mode == LINK:
            yield data[start:end].decode(errors="surrogateescape")
        # Entries are filled up with one to eight NULs, to a multiple of eight.
        at += (end - at + 8) // 8 * 8
