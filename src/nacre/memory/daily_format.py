"""The log of a day as text: its name, its bullets read tolerantly, a line added or taken out (M17).

- 14:05 feedback: each test file builds its own data

Pure: what stands in a file is never rewritten or put in another order; see `daily` for files.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, time

from nacre.memory.files.scan import LOGS
from nacre.memory.format.entry import KINDS, Kind

_DAY = re.compile(r"(\d{4})[-_](\d{2})[-_](\d{2})(?!\d)")
_ITEM = re.compile(r"([ \t]*)(?:[-*+•]|\d{1,3}[.)])(?:[ \t]+(.*)|$)")
_MARKUP = re.compile(r"#{1,6}(?:\s|$)|(?:[-*_=][ \t]*){3,}$|<!--.*-->$")
_MARKS = r"[*_`\[(]{0,3}"
_ENDS = r"[*_`\])]{0,3}"
_TIME = re.compile(
    rf"{_MARKS}(?:\d{{4}}-\d\d-\d\d[T ])?(\d{{1,2}}):(\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    rf"([ap]m)?{_ENDS}(?:[ \t]*[-–—:])?(?:[ \t]+|$)",
    re.IGNORECASE,
)
_KINDS = "|".join(KINDS)
_KIND = re.compile(
    rf"(?:\[({_KINDS})\]:?|\(({_KINDS})\):?|[*_`]{{0,3}}({_KINDS})[*_`]{{0,3}}:[*_`]{{0,3}})(?:[ \t]+|$)",
    re.IGNORECASE,
)
_LEADING = re.compile(r"(?:[-*+•–—:]\s+)+")
UNTRUSTED = "[untrusted]"
"""Ends a line that repeats what a tool said (M16b): no dream may take it for the person's word."""
NOON = 12
HOURS = 24
MINUTES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One fact of a log."""

    file: str
    line: int
    """Where it begins, counted from one."""
    end: int
    """Its last line; a person may have wrapped it."""
    text: str
    at: time | None = None
    """Local time of day."""
    kind: Kind | None = None

    @property
    def place(self) -> str:
        """What to call it: the file and the line."""
        return f"{self.file}:{self.line}"

    @property
    def day(self) -> date | None:
        return day_of(self.file)


def log_file(day: date) -> str:
    """The file of a day's log in a memory directory."""
    return f"{LOGS}/{day.year:04}/{day.month:02}/{day.isoformat()}.md"


def day_of(file: str) -> date | None:
    """The day a log is of, by its name; none for a name that holds no date."""
    found = _DAY.search(file.rpartition("/")[2]) if file.startswith(f"{LOGS}/") else None
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:
        return None


def folded(text: str) -> str:
    """A fact on one line: breaks become blanks, what no line may hold is left out."""
    shown = (" " if char.isspace() else char for char in text if char.isspace() or _is_shown(char))
    return _LEADING.sub("", " ".join("".join(shown).split()), count=1) if text.strip() else ""


def bullet(text: str, *, at: time, kind: Kind | None = None) -> str:
    """A fact as the log has it."""
    return f"- {at:%H:%M} {f'{kind}: ' if kind else ''}{folded(text)}"


def appended(data: bytes, line: str) -> bytes:
    """The log with one more line: every byte before it stays, and line ends are what they were."""
    ending = b"\r\n" if data.rpartition(b"\n")[0].endswith(b"\r") else b"\n"
    gap = b"" if not data or data.endswith(b"\n") else b"\n" if data.endswith(b"\r") else ending
    return data + gap + line.encode() + ending


def without(data: bytes, gone: Iterable[LogLine]) -> bytes:
    """The log without some lines; all others stay byte for byte."""
    numbers = {number for one in gone for number in range(one.line, one.end + 1)}
    *lines, rest = data.split(b"\n")
    whole = [*(line + b"\n" for line in lines), rest]
    return b"".join(line for number, line in enumerate(whole, 1) if number not in numbers)


def with_marks(file: str, before: bytes, after: bytes, *, is_untrusted: Callable[[str], bool]) -> bytes:
    """The log as it is to be, with a mark behind each new line that is from outside (M16b)."""
    known = {one.text for one in read_log(file, before)}
    new = [one for one in read_log(file, after) if one.text not in known]
    ends = {one.end for one in new if not one.text.endswith(UNTRUSTED) and is_untrusted(one.text)}
    lines = after.split(b"\n")
    for number in ends:
        line = lines[number - 1]
        bare = line.rstrip()
        lines[number - 1] = bare + f" {UNTRUSTED}".encode() + line[len(bare) :]
    return b"\n".join(lines)


def read_log(file: str, data: bytes) -> tuple[LogLine, ...]:
    """Every fact of a log, oldest first, however people wrote it down: what is no heading says something."""
    reading = _Reading(file)
    text = data.decode(errors="replace").removeprefix("\ufeff")
    for number, raw in enumerate(text.split("\n"), 1):
        reading.take(number, raw.rstrip())
    return tuple(line for item in reading.items if (line := item.told(file)).text)


@dataclass(slots=True)
class _Item:
    """A bullet or a paragraph, as it grows line by line."""

    line: int
    end: int
    indent: int
    words: list[str]

    def told(self, file: str) -> LogLine:
        text = " ".join(" ".join(self.words).split())
        at, text = _timed(text)
        found = _KIND.match(text)
        kind = next((one for one in KINDS if found and found[found.lastindex or 1].lower() == one), None)
        said = text[found.end() :] if found else text
        return LogLine(file=file, line=self.line, end=self.end, text=said, at=at, kind=kind)


class _Reading:
    """One pass over the lines of a log."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.items: list[_Item] = []
        self._open: _Item | None = None
        self._is_after_blank = False

    def take(self, number: int, line: str) -> None:
        if not line:
            self._is_after_blank = True
            return
        indent = len(line) - len(line.lstrip())
        found = _ITEM.match(line)
        if _MARKUP.match(line.lstrip()):
            self._open = None
        elif found and (self._open is None or indent <= self._open.indent):
            self._begin(_Item(number, number, indent, [found[2] or ""]))
        elif self._open is not None and (indent > self._open.indent or not self._is_after_blank):
            self._open.words.append((found[2] or "") if found else line)
            self._open.end = number
        else:
            self._begin(_Item(number, number, indent, [line]))
        self._is_after_blank = False

    def _begin(self, item: _Item) -> None:
        self.items.append(item)
        self._open = item


def _timed(text: str) -> tuple[time | None, str]:
    found = _TIME.match(text)
    if not found:
        return None, text
    hour = int(found[1])
    minute = int(found[2])
    half = (found[3] or "").lower()
    if half:
        hour = hour % NOON + NOON * (half == "pm") if 0 < hour <= NOON else HOURS
    return (time(hour, minute), text[found.end() :]) if hour < HOURS and minute < MINUTES else (None, text)


def _is_shown(char: str) -> bool:
    """Whether a line of UTF-8 may hold it: no control character, no half of a character."""
    return unicodedata.category(char) not in {"Cc", "Cs"}
