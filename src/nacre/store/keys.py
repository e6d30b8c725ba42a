"""Which keys a store accepts: relative, plain, and without anything that could lead out of it (M6)."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

from nacre.errors import OutsideStore

LOCK_FOLDER = ".locks"
"""Where a store on disk keeps its lock files: out of the way of what people put there."""
TEMP_PREFIX = ".nacre-tmp-"
"""Marks a value that is still being written; such names never show up as keys."""
MAX_SEGMENT_BYTES = 200
"""Below the 255 bytes of common file systems, with room for the temporary name."""

_DRIVE = re.compile(r"[A-Za-z]:")
_DECODE_ROUNDS = 3
"""Percent-encoding nests (`%252e`); three rounds see through what a careless reader would decode."""


def check_key(key: str) -> str:
    """The key as it came, or `OutsideStore` when it is not a plain relative path."""
    reason = _objection(key)
    if reason:
        raise OutsideStore(f"{key!r} cannot be a key: {reason}; use a relative path such as notes/today.md")
    return key


def check_prefix(prefix: str) -> str:
    """A prefix is the empty string or a folder, with or without its final slash; returned without."""
    folder = prefix.removesuffix("/")
    if prefix and not folder:
        raise OutsideStore("'/' cannot be a prefix: keys are relative; use '' for everything")
    return check_key(folder) if folder else ""


def check_range(start: int, length: int | None) -> None:
    """A range counts from the first byte; there is no reading backwards."""
    if start < 0 or (length is not None and length < 0):
        raise ValueError(f"a range starts at 0 or later and has no negative length: {start}, {length}")


def _objection(key: str) -> str | None:
    """Why a key is refused, or nothing."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if not key or "\0" in key or "\\" in key or key.startswith("/") or _DRIVE.match(key):
        return "it is empty, absolute, or holds NUL or a backslash"
    segments = key.split("/")
    if any(segment in {"", ".", ".."} for segment in segments):
        return "it has an empty, '.' or '..' part"
    if segments[0].casefold() == LOCK_FOLDER or any(
        segment.casefold().startswith(TEMP_PREFIX) for segment in segments
    ):
        return "the name is reserved"
    if any(len(segment.encode()) > MAX_SEGMENT_BYTES for segment in segments):
        return f"a part is longer than {MAX_SEGMENT_BYTES} bytes"
    return _disguise(key)


def _disguise(key: str) -> str | None:
    """Separators and dots in percent-encoding or as full-width look-alikes are refused, not decoded."""
    plain = key
    for _ in range(_DECODE_ROUNDS):
        plain = unicodedata.normalize("NFKC", unquote(plain))
    if "\0" in plain or "\\" in plain or plain.count("/") != key.count("/"):
        return "it holds an encoded separator"
    if any(segment in {".", ".."} for segment in plain.split("/")):
        return "it holds an encoded '..'"
    return None
