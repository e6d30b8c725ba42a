"""The index file `MEMORY.md`: parsed and edited line by line, loaded within its limits (M8, M9, M16c)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias
from urllib.parse import unquote

from nacre.memory.format.entry import Entry, Kind, clipped, is_repetition, one_line

MAX_LINES = 200
"""Lines that are loaded (M9)."""
MAX_BYTES = 25_000
"""Bytes that are loaded: 200 lines have been seen to contain 197 KB (M9)."""
NEAR = 0.8
"""From this share of either limit on, the writer gets feedback (M16c)."""
TARGET = 0.7
"""The share that feedback asks for, so that the next few saves do not exceed the limit again."""
NEWEST_LISTED = 40
"""Pointers of the newest memories that a full index keeps, however rarely they were used so far."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedIndex:
    """The part of an index that a conversation gets."""

    text: str
    """With the warning at its end when something was cut."""
    cut: str = ""
    """The limit that the index exceeds: `lines`, `bytes`, `lines and bytes`, or empty."""
    warning: str = ""
    lines: int
    """Of the whole index, like `bytes`."""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexUsage:
    """How full an index is."""

    lines: int
    bytes: int
    share: float
    """Of the nearest limit; 1.0 is full."""
    feedback: str = ""
    """A warning for the writer; empty while there is room."""


def load_index(data: bytes, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> LoadedIndex:
    """Return as much of the index as fits: cut by lines, then by bytes at a line end, with a warning (M9)."""
    text, lines, size = _measured(data)
    over = [name for name, is_over in (("lines", lines > max_lines), ("bytes", size > max_bytes)) if is_over]
    if not over:
        return LoadedIndex(text=text, lines=lines, bytes=size)
    kept = "\n".join(text.split("\n")[:max_lines]).rstrip().encode()
    if len(kept) > max_bytes:
        end = kept.rfind(b"\n", 0, max_bytes + 1)
        kept = kept[:end] if end > 0 else kept[:max_bytes]
    sizes = {"lines": f"{lines} lines (limit {max_lines})", "bytes": f"{size:,} bytes (limit {max_bytes:,})"}
    warning = (
        f"WARNING: {INDEX_FILE} is {' and '.join(sizes[name] for name in over)}, so only its beginning "
        "is above. Keep every entry to one short line, and move detail into topic files."
    )
    shown = kept.decode(errors="ignore")
    return LoadedIndex(
        text=f"{shown}\n\n{warning}\n", cut=" and ".join(over), warning=warning, lines=lines, bytes=size
    )


def index_usage(data: bytes, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> IndexUsage:
    """Return how full the index is, with feedback for its writer (M16c)."""
    _, lines, size = _measured(data)
    share = max(lines / max_lines, size / max_bytes)
    if share <= NEAR:
        return IndexUsage(lines=lines, bytes=size, share=share)
    state = f"{INDEX_FILE} is {lines} of {max_lines} lines and {size:,} of {max_bytes:,} bytes"
    goal = f"under {int(max_lines * TARGET)} lines and {int(max_bytes * TARGET):,} bytes"
    if share <= 1:
        feedback = f"{state}, {share:.0%} of its limit. Soon shorten hooks and merge entries to get {goal}."
    else:
        feedback = (
            f"{state}: past its limit, so its end is no longer loaded. Rewrite it now to get {goal}: "
            "one line of about 150 characters per entry, detail in topic files."
        )
    return IndexUsage(lines=lines, bytes=size, share=share, feedback=feedback)


def within_budget(
    data: bytes,
    entries: Iterable[Entry],
    *,
    useful: Mapping[str, float] | None = None,
    max_lines: int = MAX_LINES,
    max_bytes: int = MAX_BYTES,
) -> tuple[bytes, tuple[str, ...]]:
    """Return an index without pointers that do not fit, and their files; recall still finds them (M8).

    Pinned, newest and most useful memories stay listed. `entries` are the memories whose pointers may go;
    `useful` gives scores by file.
    """
    _, lines, size = _measured(data)
    if lines <= max_lines and size <= max_bytes:
        return data, ()
    scores = useful or {}
    oldest_first = sorted(entries, key=lambda one: one.modified or one.written or _LONG_AGO)
    newest = {one.file for one in oldest_first[-NEWEST_LISTED:]}
    # The sort is stable, so the oldest of equals goes first.
    order = sorted(oldest_first, key=lambda one: (one.pinned, one.file in newest, scores.get(one.file, 0.0)))
    rows = MemoryIndex.parse(data).lines
    gone: dict[str, None] = {}
    for entry in order:
        if lines <= max_lines and size <= max_bytes:
            break
        for row in rows:
            if row.file == entry.file:
                gone[entry.file] = None
                lines -= 1
                size -= _bytes(row.raw)
    kept = "".join(row.raw for row in rows if row.file not in gone)
    return kept.encode(errors="surrogateescape"), tuple(gone)


def is_listable(entry: Entry) -> bool:
    """Return whether the index may list an entry: it is part of every prompt (M16b, M27)."""
    return entry.is_trusted and not entry.is_unlisted and not entry.local_only


def _measured(data: bytes) -> tuple[str, int, int]:
    """Return the text to load, and its lines and bytes without blank lines at the end."""
    text = data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    said = text.rstrip()
    return text, said.count("\n") + bool(said), len(said.encode())


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogateescape"))


INDEX_FILE = "MEMORY.md"
MAX_POINTER_CHARS = 150
"""Length of a pointer line, which every conversation reads (M8)."""
MIN_HOOK_CHARS = 60
"""Minimum space for the hook, so a long title may make the line longer."""

_POINTER = re.compile(
    r"(?P<lead>[ \t]*[-*+][ \t]+(?:\*\*|__)?)"
    r"\[(?P<title>(?:\\.|[^\[\]\\]|\[[^\[\]]*\])*)\]"
    r"\((?P<target><[^<>\n]*>|(?:\\.|[^\s()\\]|\([^\s()]*\))*)\)(?:\*\*|__)?"
    r"(?:(?P<gap>[ \t]*(?:—|–|--|-|:|：)[ \t]*|[ \t]+)(?P<hook>.*))?[ \t]*$"
)
_LINK = re.compile(
    r"\[(?:\\.|[^\[\]\\]|\[[^\[\]]*\])*\]\((<[^<>\n]*>|(?:\\.|[^\s()\\]|\([^\s()]*\))*)(?:[ \t]+[^()\n]*)?\)"
)
_FENCE = re.compile(r"[ \t]{0,3}(```+|~~~+)")
_HEADING = re.compile(r"#{1,6}[ \t]+(.*)")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_BRACKETS = re.compile(r"([\\\[\]])")
_BACKSLASHED = r"\\\1"
_ESCAPED = re.compile(r"\\([\\\[\]()<>*_`])")

_HEADINGS: dict[Kind, tuple[str, ...]] = {
    "user": ("user", "about the user", "user preferences", "preferences", "用户"),
    "feedback": ("feedback", "how to work", "behavior rules", "behaviour rules", "反馈"),
    "project": ("project", "projects", "项目"),
    "reference": ("reference", "references", "links", "参考"),
}
_ANY_HEADING = ("index", "memory index", "memories", "topics", "topic files", "memory")

CACHED_LINES = 1_024
"""An index is parsed before each change, and nearly all lines are the same as before."""

LineKind: TypeAlias = Literal["pointer", "heading", "text", "hidden"]
"""Lines in code blocks and comments are hidden: a pointer there is an example."""


@dataclass(frozen=True, slots=True)
class IndexLine:
    """One line of the index, with its line end."""

    raw: str
    kind: LineKind
    file: str = ""
    """The target of a pointer: a path below the folder of the index."""
    title: str = ""
    """Of a pointer or a heading."""
    hook: str = ""


@dataclass(frozen=True, slots=True)
class MemoryIndex:
    """An index as lines, which joined are the original bytes."""

    lines: tuple[IndexLine, ...]

    @classmethod
    def parse(cls, data: bytes) -> MemoryIndex:
        """Parse any bytes."""
        raws = data.decode(errors="surrogateescape").split("\n")
        raws = [raw + "\n" for raw in raws[:-1]] + ([raws[-1]] if raws[-1] else [])
        lines: list[IndexLine] = []
        hidden = ""
        since = 0
        for number, raw in enumerate(raws):
            since = since if hidden else number
            hidden, is_hidden = _hidden_after(raw, hidden)
            lines.append(IndexLine(raw, "hidden") if is_hidden else _line(raw))
        if hidden:
            # An unclosed block hides nothing: otherwise every line added below it would be lost.
            lines[since:] = [_line(raw) for raw in raws[since:]]
        return cls(tuple(lines))

    @property
    def mentions(self) -> frozenset[str]:
        """All files that a link names, on pointer lines and others; not those in code and comments."""
        shown = [line for line in self.lines if line.kind != "hidden"]
        links = (line.raw for line in shown if line.raw.count("](") > (line.kind == "pointer"))
        others = (_file(found[1]) for raw in links for found in _LINK.finditer(raw))
        return frozenset(file for file in (*(line.file for line in shown), *others) if file)

    @property
    def data(self) -> bytes:
        return "".join(line.raw for line in self.lines).encode(errors="surrogateescape")

    @property
    def pointers(self) -> tuple[IndexLine, ...]:
        return tuple(line for line in self.lines if line.kind == "pointer")

    def with_pointer(self, file: str, title: str, hook: str, *, kind: Kind | None = None) -> bytes:
        """Return the index with a line for this file: updated in place, or added to the section it fits."""
        for number, line in enumerate(self.lines):
            if line.file == file:
                return self._with_lines(number, number + 1, [_updated(line, title, hook)])
        eol = self._eol
        if not self.data.strip(b"\xef\xbb\xbf \t\r\n"):
            return self.data.strip() + f"# Memory{eol}{eol}{pointer_line(file, title, hook)}{eol}".encode()
        at, heading = self._place(kind)
        new = [f"{pointer_line(file, title, hook)}{eol}"]
        if heading:
            new = [eol, f"## {heading}{eol}", eol, *new]
        elif at == len(self.lines) and _is_prose(self.lines[-1]):
            new = [eol, *new]
        if at and not self.lines[at - 1].raw.endswith("\n"):
            new.insert(0, eol)
        is_before_heading = at < len(self.lines) and self.lines[at].kind == "heading"
        if is_before_heading and (self.lines[at - 1].kind == "heading" or self._has_blank_before_heading):
            new.append(eol)
        return self._with_lines(at, at, new)

    def without(self, file: str) -> bytes:
        """Return the index without the lines that point to this file."""
        return "".join(line.raw for line in self.lines if line.file != file).encode(errors="surrogateescape")

    def _with_lines(self, first: int, last: int, new: list[str]) -> bytes:
        raws = [line.raw for line in self.lines]
        raws[first:last] = new
        return "".join(raws).encode(errors="surrogateescape")

    @property
    def _has_blank_before_heading(self) -> bool:
        return any(after.kind == "heading" and not one.raw.strip() for one, after in pairwise(self.lines))

    @property
    def _eol(self) -> str:
        return "\r\n" if self.lines and self.lines[0].raw.endswith("\r\n") else "\n"

    def _place(self, kind: Kind | None) -> tuple[int, str]:
        """Return the position of a new pointer, and the heading to add before it, if any."""
        # Title, first and last line of each section; the one before the first heading has no title.
        lines = self.lines
        starts = [(0, "")] + [(n + 1, line.title) for n, line in enumerate(lines) if line.kind == "heading"]
        ends = [start - 1 for start, _ in starts[1:]] + [len(lines)]
        sections = [(title, start, end) for (start, title), end in zip(starts, ends, strict=True)]
        for wanted in (_HEADINGS[kind] if kind else ()), _ANY_HEADING:
            for title, first, last in sections:
                is_free = wanted is not _ANY_HEADING or not any(map(_is_topic_pointer, self.lines))
                if _plain(title) in wanted and is_free:
                    return _end_of(self.lines, first, last), ""
        if kind is not None:
            # The section with the most pointers to files that are named after this kind.
            named = (f"{kind}_", f"{kind}-")
            counts = [
                (sum(line.file.startswith(named) for line in lines[first:last]), -first, last)
                for _, first, last in sections
            ]
            count, first, last = max(counts)
            if count:
                return _end_of(lines, -first, last), ""
        listing = [one for one in sections if any(map(_is_topic_pointer, self.lines[one[1] : one[2]]))]
        if len(listing) > 1 and kind is not None:
            return len(self.lines), kind.capitalize()
        if listing:
            return _end_of(self.lines, *listing[-1][1:]), ""
        return len(self.lines), ""


def pointer_line(file: str, title: str, hook: str, *, lead: str = "- ", target: str = "") -> str:
    """Return `- [Title](file.md) — hook` on one line, without a hook that only repeats the title."""
    words = one_line(title) or file.removesuffix(".md")
    link = f"{lead}[{_BRACKETS.sub(_BACKSLASHED, words)}]({target or _target(file)})"
    room = max(MAX_POINTER_CHARS - len(link) - len(" — "), MIN_HOOK_CHARS)
    said = "" if is_repetition(hook, words) else clipped(one_line(hook), room)
    return f"{link} — {said}" if said else link


def _updated(line: IndexLine, title: str, hook: str) -> str:
    """Return the line with another title or hook; an empty one stays as it is."""
    bare = line.raw.rstrip("\r\n")
    found = _POINTER.match(bare.removeprefix("\ufeff"))
    mark = "\ufeff" if bare.startswith("\ufeff") else ""
    is_same_hook = hook and not line.hook and is_repetition(hook, title or line.title)
    is_same_hook = is_same_hook or not hook or one_line(hook) == line.hook
    if found is None or ((not title or one_line(title) == line.title) and is_same_hook):
        return line.raw
    lead = found["lead"]
    if not hook:
        # Only the title changes, so the hook keeps its length.
        new = pointer_line(line.file, title, "", lead=lead, target=found["target"])
        return mark + new + bare[len(mark) + found.end("target") + 1 :] + line.raw[len(bare) :]
    lead = lead.removesuffix("**").removesuffix("__")
    new = pointer_line(line.file, title or line.title, hook, lead=lead, target=found["target"])
    return mark + new + line.raw[len(bare) :]


def is_usual_heading(title: str) -> bool:
    """Return whether a heading only names a kind of memory or the index itself."""
    return _plain(title) in {*_ANY_HEADING, *(one for names in _HEADINGS.values() for one in names)}


@lru_cache(maxsize=CACHED_LINES)
def _line(raw: str) -> IndexLine:
    bare = raw.rstrip("\r\n").removeprefix("\ufeff")
    if "](" in bare and (found := _POINTER.match(bare)) and (file := _file(found["target"])):
        return IndexLine(raw, "pointer", file, _unescaped(found["title"]), (found["hook"] or "").strip())
    if bare.startswith("#") and (found := _HEADING.match(bare)):
        return IndexLine(raw, "heading", title=found[1].strip(" \t#"))
    return IndexLine(raw, "text")


def _hidden_after(raw: str, hidden: str) -> tuple[str, bool]:
    """Return what ends the hidden block around the next line, and whether this line is hidden."""
    if hidden == "-->":
        return ("" if "-->" in raw else hidden), True
    fence = _FENCE.match(raw)
    if hidden:
        return ("" if fence and fence[1].startswith(hidden) else hidden), True
    if fence:
        return fence[1], True
    if raw.lstrip().startswith("<!--"):
        return ("" if "-->" in raw else "-->"), True
    return "", False


def _file(target: str) -> str:
    """Return the file below the folder of the index that a link names; empty for other targets."""
    bare = target[1:-1] if target.startswith("<") else _unescaped(target)
    path = bare.partition("#")[0].removeprefix("./")
    if not path.endswith(".md") or _ADDRESS.match(path) or path.startswith(("/", "../", "~")):
        return ""
    try:
        plain = unquote(path, errors="strict")
    except UnicodeDecodeError:
        return path
    return plain if plain.isprintable() else path


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def _target(file: str) -> str:
    path = re.sub(r"%(?=[0-9A-Fa-f]{2})", "%25", file)
    if re.search(r"\s", path) and not re.search(r"[<>\n]", path):
        return f"<{path}>"
    return re.sub(r"[\s()<>\\]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), path)


def _end_of(lines: tuple[IndexLine, ...], first: int, last: int) -> int:
    """Return the line after the last pointer of a section, else after its last text, else its first."""
    spots = [n + 1 for n in range(first, last) if lines[n].kind == "pointer"]
    if spots:
        return spots[-1]
    said = [n + 1 for n in range(first, last) if lines[n].raw.strip()]
    if said:
        return said[-1]
    return min(first + 1, last) if last > first else first


def _is_topic_pointer(line: IndexLine) -> bool:
    return line.kind == "pointer" and not line.file.startswith("logs/")


def _is_prose(line: IndexLine) -> bool:
    bare = line.raw.strip()
    return line.kind == "text" and bool(bare) and not bare.startswith(("- ", "* ", "+ "))


def _plain(title: str) -> str:
    return re.sub(r"[^\w\s]", "", title).strip().lower()
