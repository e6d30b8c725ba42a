"""Find credentials in logs, tool results and notes, by kind and line, never by value (M27)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import TranscriptError
from nacre.inspect.sources import Progress
from nacre.memory.secrets import find_secrets, redact
from nacre.messages.literals import StringLiteral, read_literal, strings_in, write_literal
from nacre.store.lines import whole_lines

LOG = ".jsonl"
MIN_CHARS = 12
"""Minimum length: no rule matches less, and most strings of a log are shorter."""
BASE64_FIELDS = frozenset({"signature", "data"})
"""Fields with images and signatures, which match rules by chance."""
DOCTOR_SECONDS = 2.0
"""Time limit for the search in `nacre doctor`, newest sessions first: about 10 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flagged:
    """Text that looks like a credential."""

    path: Path
    line: int
    """Line number, from 1."""
    kind: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Credentials found, and how much of all bytes was searched."""

    found: tuple[Flagged, ...] = ()
    looked: int = 0
    total: int = 0


def flagged_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Yield line number and kind of every credential in lines of JSON."""
    for number, line in enumerate(lines, 1):
        texts = [text for _, text in _strings(line)] or [line.decode(errors="replace")]
        yield from ((number, kind) for kind in _kinds("\n".join(texts)))


def flagged_in(path: Path) -> Iterator[Flagged]:
    """Return every credential in one file of a session."""
    before = 0
    for _, block in whole_lines(path):
        if path.suffix == LOG:
            for number, kind in flagged_lines(block.splitlines()):
                yield Flagged(path=path, line=before + number, kind=kind)
        else:
            for one in find_secrets(block.decode(errors="replace")):
                yield Flagged(path=path, line=before + one.line, kind=one.kind)
        before += block.count(b"\n")


def files_of(log: Path) -> list[Path]:
    """Return a session's log, if it exists, and the files beside it."""
    folder = log.with_suffix("")
    found = [Path(base) / name for base, _, names in os.walk(folder) for name in names]
    return [path for path in (log, *sorted(found)) if path.is_file() and not path.is_symlink()]


def survey(
    home: Path,
    *,
    seconds: float = DOCTOR_SECONDS,
    progress: Progress | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Survey:
    """Search the sessions of a home, newest first, until the time limit."""
    sizes = {path: path.stat() for log in _logs(home) for path in files_of(log)}
    newest = sorted(sizes, key=lambda path: sizes[path].st_mtime_ns, reverse=True)
    total = sum(each.st_size for each in sizes.values())
    looked = 0
    found: list[Flagged] = []
    until = clock.seconds() + seconds
    for path in newest:
        if clock.seconds() >= until:
            break
        with contextlib.suppress(TranscriptError, OSError):
            found += flagged_in(path)
        looked += sizes[path].st_size
        if progress:
            progress(looked, total)
    return Survey(found=tuple(found), looked=looked, total=total)


def redacted_line(line: bytes) -> bytes:
    """Return a log line with each credential replaced by the name of its kind."""
    strings = list(_strings(line))
    if not strings:
        return redact(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    for literal, text in reversed(strings):
        clean = redact(text)
        if clean != text:
            raw = line[literal.start : literal.end]
            line = line[: literal.start] + write_literal(clean, like=raw) + line[literal.end :]
    return line


def _strings(line: bytes) -> Iterator[tuple[StringLiteral, str]]:
    for literal in strings_in(line):
        if literal.end - literal.start < MIN_CHARS or (literal.path and literal.path[-1] in BASE64_FIELDS):
            continue
        text = read_literal(line[literal.start : literal.end])
        if text:
            yield literal, text


def _kinds(text: str) -> list[str]:
    return [one.kind for one in find_secrets(text)]


def _logs(home: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for folder in sorted((home / "projects").iterdir()):
            with contextlib.suppress(OSError):
                yield from sorted(folder.glob(f"*{LOG}"))
