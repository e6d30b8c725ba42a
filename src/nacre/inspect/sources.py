"""Open transcript files of any origin, plain or gzip, line by line and with limits (T7, T9).

A file that cannot be read raises one error that names the file and says what to do.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from nacre.errors import ForeignTranscript, TranscriptError
from nacre.messages.foreign import HEAD_BYTES, recognise
from nacre.store import disk

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes in total."""
PROGRESS_STEP = 4_194_304
"""Bytes between two calls of `Progress`."""
SUFFIXES = (".jsonl", ".json", ".traj")
"""Suffixes of transcript files in a folder."""

_ARCHIVES = {
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"7z\xbc\xaf": "7z",
}
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLimits:
    """Limits against compressed files that would fill memory or disk."""

    max_line: int = 268_435_456
    """Bytes per line; the longest real one, with images, had a tenth of this."""
    max_unpacked: int = 4_294_967_296
    """Uncompressed bytes; eight times the largest supported log."""
    ratio_from: int = 16_777_216
    """Uncompressed bytes from which the ratio is checked."""
    max_ratio: int = 200
    """Maximum compression ratio. Recorded sessions reach 7; a decompression bomb about 1,000."""
    max_whole: int = 268_435_456
    """Bytes of a file in a format that must be held in memory whole."""


DEFAULT_LIMITS = SourceLimits()


@dataclass(frozen=True, slots=True)
class TranscriptSource:
    """A transcript file, open for reading."""

    path: Path
    form: str
    """One of `nacre.messages.foreign.FORMATS`."""
    lines: Iterator[bytes]
    """Lines with their line ends."""

    @property
    def stem(self) -> str:
        """The file name without suffixes."""
        return self.path.name.removesuffix(".gz").removesuffix(".jsonl")


@contextmanager
def open_source(
    path: Path, *, limits: SourceLimits = DEFAULT_LIMITS, progress: Progress | None = None
) -> Iterator[TranscriptSource]:
    """Open a transcript and detect its format; raises `TranscriptError` for anything else."""
    with _plain(path) as raw, _explained(path):
        is_packed = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        # The first bytes of a compressed file are read twice; the rewind is cheap there.
        file = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if is_packed else raw
        head = file.read(HEAD_BYTES)
        form = _form(head, path)
        file.seek(0)
        yield TranscriptSource(path, form, _lines(file, raw, path, (limits, form, is_packed), progress))


def files_in(folder: Path) -> list[Path]:
    """Return the possible transcripts in a folder and below it, in a fixed order."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.name.removesuffix(".gz").endswith(SUFFIXES) and path.is_file()
    )


def _plain(path: Path) -> BinaryIO:
    try:
        return os.fdopen(disk.open_regular(path, os.O_RDONLY), "rb")
    except FileNotFoundError:
        raise TranscriptError(f"there is no file {path}; check the name") from None
    except disk.NotRegularError:
        what = "a directory; name a file in it" if path.is_dir() else "not a regular file; save it to one"
        raise TranscriptError(f"{path} is {what}") from None
    except OSError as error:
        raise TranscriptError(disk.explain(error, path)) from error


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except EOFError:
        raise TranscriptError(f"{path} is compressed and truncated; copy it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TranscriptError(f"{path} is compressed and damaged ({error}); copy it again") from None


def _form(head: bytes, path: Path) -> str:
    if not head.strip():
        raise ForeignTranscript(f"{path} is empty: there is nothing in it to read")
    for magic, name in _ARCHIVES.items():
        if head.startswith(magic):
            raise ForeignTranscript(
                f"{path} is a {name} archive; unpack it first (only gzip is read as it is)"
            )
    # A crash can leave zero bytes in a log; the reader reports them.
    text = b"\n".join(line for line in head.split(b"\n") if b"\0" not in line)
    if not text.strip():
        raise ForeignTranscript(f"{path} is a binary file, not a transcript")
    try:
        return recognise(text)
    except ForeignTranscript:
        raise ForeignTranscript(
            f"{path} is not a transcript that nacre knows: neither a Claude Code log nor a list of "
            "Anthropic or OpenAI messages nor an agent's recorded run"
        ) from None


def _lines(
    file: BinaryIO,
    raw: BinaryIO,
    path: Path,
    rules: tuple[SourceLimits, str, bool],
    progress: Progress | None,
) -> Iterator[bytes]:
    limits, form, is_packed = rules
    most = limits.max_whole if form != "claude-code" else limits.max_unpacked if is_packed else None
    total = os.fstat(raw.fileno()).st_size
    seen = 0
    reported = 0
    buffered = io.BufferedReader(cast("io.RawIOBase", file), PROGRESS_STEP) if is_packed else file
    while line := buffered.readline(limits.max_line + 1):
        seen += len(line)
        if len(line) > limits.max_line:
            raise TranscriptError(f"{path} holds a line of more than {limits.max_line:,} bytes; split it up")
        if most is not None and seen > most:
            grown = "unpacks to" if is_packed else "has"
            raise TranscriptError(f"{path} {grown} more than {most:,} bytes; split it up")
        if is_packed and seen > limits.ratio_from and seen > raw.tell() * limits.max_ratio:
            raise TranscriptError(
                f"{path} unpacks to more than {limits.max_ratio} times its size; unpack it first"
            )
        yield line
        if progress is not None and seen - reported >= PROGRESS_STEP:
            reported = seen
            progress(raw.tell(), total)
