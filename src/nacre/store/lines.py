"""Lines of a log in bounded memory: one by one, or many at a time for scans that rarely parse (T9)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nacre.errors import SessionNotFound, TranscriptError
from nacre.messages.blocks import Json, JsonObject
from nacre.store import disk

CHUNK = 65_536
"""Bytes read at a time. Measured: larger buffers are returned to the system and faulted in again, which costs
more than the scan itself."""


def open_log(path: Path) -> BinaryIO:
    """Open a log for reading; a FIFO or a folder is an error and never blocks."""
    try:
        return os.fdopen(disk.open_regular(path, os.O_RDONLY), "rb", buffering=CHUNK)
    except FileNotFoundError:
        raise SessionNotFound(
            f"there is no session log at {path}; `nacre sessions list` shows what there is"
        ) from None
    except OSError as error:
        raise TranscriptError(disk.explain(error, path)) from error


def read_lines(path: Path, *, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield each line without its line end, from an offset to another or to the current end."""
    with open_log(path) as file:
        stop = os.fstat(file.fileno()).st_size if end is None else end
        file.seek(start)
        left = stop - start
        while left > 0 and (line := file.readline(left)):
            left -= len(line)
            yield line[:-1] if line.endswith(b"\n") else line


def whole_lines(path: Path, *, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield chunks that begin and end at line ends, each with its offset; an unfinished line comes last."""
    with open_log(path) as file:
        stop = os.fstat(file.fileno()).st_size if end is None else end
        file.seek(start)
        at = start
        pieces = []
        left = stop - start
        while left > 0 and (chunk := file.read(min(CHUNK, left))):
            left -= len(chunk)
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                pieces.append(chunk)  # a line longer than a chunk; joined once, when its end is found
                continue
            block = b"".join((*pieces, chunk[:cut]))
            yield at, block
            at += len(block)
            pieces = [chunk[cut:]] if cut < len(chunk) else []
        if pieces:
            yield at, b"".join(pieces)


def line_around(block: bytes, at: int) -> tuple[int, bytes]:
    """Return the line around a position in a chunk, and its start in the chunk."""
    begin = block.rfind(b"\n", 0, at) + 1
    end = block.find(b"\n", at)
    return begin, block[begin : len(block) if end < 0 else end]


def parsed(line: bytes) -> JsonObject:
    """Return the record on a line; an empty one if there is none."""
    try:
        value: Json = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
