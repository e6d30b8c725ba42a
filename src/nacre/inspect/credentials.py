"""Find credentials in logs, tool results and notes, by kind and line, never by value (M27)."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import TranscriptError
from nacre.inspect.sources import Progress
from nacre.memory.secrets import find_secrets, redact
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
        yield from ((number, one.kind) for one in find_secrets("\n".join(texts)))


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


def _logs(home: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for folder in sorted((home / "projects").iterdir()):
            with contextlib.suppress(OSError):
                yield from sorted(folder.glob(f"*{LOG}"))


KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from the outermost value inwards."""

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]', re.DOTALL)
_OPENING = b"{["
_CLOSING = b"}]"


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """One string of a line, with its quotes."""

    path: KeyPath
    """KeyPath of the string; for a key, that of its value."""
    start: int
    end: int
    is_key: bool = False


@dataclass(slots=True)
class _Inside:
    """An open object or list."""

    is_object: bool
    at: str | int
    wants_key: bool


def strings_in(line: bytes) -> Iterator[StringLiteral]:
    """Yield every string of a line in order; of a line that is not JSON, what looks like strings."""
    inside: list[_Inside] = []
    for token in _TOKEN.finditer(line):
        mark = token[0]
        top = inside[-1] if inside else None
        if mark in _CLOSING:
            if inside:
                inside.pop()
        elif mark in _OPENING:
            inside.append(_Inside(mark == b"{", "" if mark == b"{" else 0, mark == b"{"))
        elif mark == b"," and top:
            top.at = top.at + 1 if isinstance(top.at, int) else ""
            top.wants_key = top.is_object
        elif mark[:1] == b'"':
            is_key = bool(top and top.wants_key)
            if top and is_key:
                top.at = read_literal(mark) or ""
                top.wants_key = False
            yield StringLiteral(tuple(each.at for each in inside), token.start(), token.end(), is_key)


def read_literal(literal: bytes) -> str | None:
    """Return the value of a string literal; None if it is invalid."""
    try:
        value = json.loads(literal.decode("utf-8", "surrogateescape"), strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def write_literal(text: str, *, like: bytes) -> bytes:
    """Return a string literal, escaped like the one it replaces."""
    written = json.dumps(text, ensure_ascii=like.isascii())
    try:
        return written.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return json.dumps(text).encode()
