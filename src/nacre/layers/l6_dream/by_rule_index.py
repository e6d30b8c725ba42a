"""Repairs index files: no broken, duplicate or forbidden lines, the most useful first (D8)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

from nacre.layers.l6_dream.copy import DirectoryCopy, Topic, is_index, is_log, is_text, is_topic
from nacre.layers.l6_dream.policy import DREAM
from nacre.memory.checks.faithful import Sources
from nacre.memory.checks.grounding import lost_claims
from nacre.memory.checks.lint import MAX_LINE_CHARS
from nacre.memory.checks.statements import Statements, lost_sentences
from nacre.memory.daily_log import day_of
from nacre.memory.format.entry import Entry, description_of
from nacre.memory.format.index import (
    INDEX_FILE,
    MAX_BYTES,
    MAX_LINES,
    MIN_HOOK_CHARS,
    NEAR,
    IndexLine,
    MemoryIndex,
    index_usage,
    is_listable,
    is_usual_heading,
    pointer_line,
    within_budget,
)
from nacre.memory.similarity import terms

REPAIRED = "put the index in order"
MAX_LOG_LINES = 14
"""Daily logs that the index of a daily memory links to: two weeks; memories link to the rest."""
LOG_HEADING = "Logs"
MIN_TOLD_TERMS = 2
"""A hook with fewer terms says nothing that could be lost with its line."""
MAX_HEADING_WORDS = 4
"""Limit for a heading that a model adds to an index: it names a group of memories and is not a sentence."""
_WORD = re.compile(r"[^\W_]+")
_CLAUSE_END = re.compile(r"[;。；]|\.\s|\s[—–-]\s")
_JOINING = frozenset({"and", "of", "for", "the", "in", "about"})


def index_all(
    copy: DirectoryCopy,
    *,
    useful: Mapping[str, float] | None = None,
    with_logs: bool = False,
    max_dropped_share: float = DREAM.max_removed_share,
) -> None:
    """Repair every index; `with_logs` if memory is one log per day and only dreams write the index.

    If more than a share of the lines point to files that are gone, such lines stay: the files may come back.
    """
    folders = {file.removesuffix(INDEX_FILE) for file in copy.now if is_index(file)}
    if any(map(is_topic, copy.now)) or with_logs:
        folders.add("")
    for folder in sorted(folders):
        before = copy.now.get(folder + INDEX_FILE, b"")
        repair = _IndexRepair(copy, folder, folders, useful or {})
        after = repair.repaired(before, with_logs=with_logs, max_dropped_share=max_dropped_share)
        if after != before:
            copy.write(folder + INDEX_FILE, after, "; ".join([REPAIRED, *repair.dropped]))


class _IndexRepair:
    """One index and the memories that it lists."""

    def __init__(
        self, copy: DirectoryCopy, folder: str, folders: set[str], useful: Mapping[str, float]
    ) -> None:
        self.copy = copy
        self.folder = folder
        self.useful = useful
        self.dropped: list[str] = []
        """What the report says about each line that goes."""
        self.topics = {
            topic.entry.file.removeprefix(folder): topic
            for topic in copy.topics()
            if topic.entry.file.startswith(folder)
        }
        self.own = {
            file for file, topic in self.topics.items() if _nearest(topic.entry.file, folders) == folder
        }

    def repaired(self, data: bytes, *, with_logs: bool, max_dropped_share: float) -> bytes:
        index = MemoryIndex.parse(data)
        dead = self._droppable(index, max_dropped_share)
        gone: set[int] = set()
        seen: set[str] = set()
        for number, line in enumerate(index.lines):
            why = self._objection(line.file, seen, dead) if line.kind == "pointer" else ""
            if why:
                self._keep_hook(line)
                self.dropped.append(f"dropped the line [{line.title}]({line.file}): {why}")
                gone.add(number)
            seen.add(line.file)
        index = _without(index.lines, gone)
        # With room in the index, lines stay as they are: a longer hook says more, and order does not matter.
        is_full = index_usage(index.data).share > NEAR
        index = self._with_missing(self._shortened(index) if is_full else index)
        if with_logs and not self.folder:
            index = self._with_logs(index)
        return self._within_budget(self._ordered(index) if is_full else index).data

    def _droppable(self, index: MemoryIndex, max_share: float) -> frozenset[str]:
        """Return the targets that are gone and whose lines may go: few of them, and they say nothing else."""
        gone = [line for line in index.pointers if not self._exists(line.file)]
        if len(gone) > max(1, int(max_share * len(index.pointers))):
            return frozenset()
        said = [topic.text for topic in self.topics.values()]
        return frozenset(
            line.file
            for line in gone
            if len(set(terms(line.hook))) < MIN_TOLD_TERMS
            or not (lost_claims(line.hook, now=said) or lost_sentences(line.hook, now=Statements(said)))
        )

    def _exists(self, file: str) -> bool:
        """Whether a file exists, or is the team's, which this directory does not contain."""
        whole = self.folder + file
        return whole in self.copy.now or whole.startswith("team/")

    def _objection(self, file: str, seen: set[str], dead: frozenset[str]) -> str:
        """Return why a line may not stay; empty if it may."""
        if file in seen:
            return "a second one for the same file"
        if file in dead:
            return "the file is gone"
        topic = self.topics.get(file)
        # A line for a memory with `indexed: false` was added by hand and stays.
        return "no index may list it" if topic is not None and _is_unlistable(topic) else ""

    def _shortened(self, index: MemoryIndex) -> MemoryIndex:
        """Cut lines that are too long after a clause; details that only the line had move into the memory."""
        lines = list(index.lines)
        for number, line in enumerate(lines):
            topic = self.topics.get(line.file)
            if line.kind != "pointer" or len(line.raw) <= MAX_LINE_CHARS or topic is None:
                continue
            if not self._keep_hook(line):
                continue
            first = _CLAUSE_END.split(line.hook, maxsplit=1)[0]
            hook = first if MIN_HOOK_CHARS // 2 <= len(first) <= MAX_LINE_CHARS // 2 else line.hook
            short = pointer_line(line.file, line.title, hook) + "\n"
            if len(short) < len(line.raw):
                lines[number] = replace(line, raw=short, hook=hook)
        return MemoryIndex.parse("".join(line.raw for line in lines).encode(errors="surrogateescape"))

    def _with_missing(self, index: MemoryIndex) -> MemoryIndex:
        """Add lines for memories that are not listed, at most a full index of them."""
        listed = index.mentions
        missing = [self.topics[file] for file in sorted(self.own) if file not in listed]
        # Pinned first, then the most useful, then the newest; `_within_budget` removes what does not fit.
        order = sorted(
            sorted(missing, key=_written, reverse=True),
            key=lambda one: (not one.entry.pinned, -self.useful.get(one.entry.file, 0.0)),
        )
        for topic in [one for one in order if is_listable(one.entry) and is_text(one)][:MAX_LINES]:
            entry = topic.entry
            hook = entry.description or description_of(entry.body, entry.title)
            file = entry.file.removeprefix(self.folder)
            index = MemoryIndex.parse(index.with_pointer(file, entry.title, hook, kind=entry.kind))
        return index

    def _with_logs(self, index: MemoryIndex) -> MemoryIndex:
        """List the newest daily logs, each on its own line."""
        days = {day: file for file in self.copy.now if is_log(file) and (day := day_of(file))}
        listed = index.mentions
        rows = [
            f"- [{day.isoformat()}]({days[day]})\n"
            for day in sorted(days, reverse=True)[:MAX_LOG_LINES]
            if days[day] not in listed
        ]
        old = {days[day] for day in sorted(days, reverse=True)[MAX_LOG_LINES:]}
        lines = [line for line in index.lines if line.file not in old or line.kind != "pointer"]
        if not rows and len(lines) == len(index.lines):
            return index
        at = next((n for n, line in enumerate(lines) if line.title == LOG_HEADING), None)
        raws = [line.raw for line in lines]
        if at is None:
            if raws and not raws[-1].endswith("\n"):
                raws[-1] += "\n"
            raws += [*(["\n"] if raws else ["# Memory\n", "\n"]), f"## {LOG_HEADING}\n", "\n", *rows]
        else:
            blank = at + 1 < len(raws) and not raws[at + 1].strip()
            raws[at + 1 + blank : at + 1 + blank] = rows
        return MemoryIndex.parse("".join(raws).encode(errors="surrogateescape"))

    def _ordered(self, index: MemoryIndex) -> MemoryIndex:
        """Sort each run of pointer lines: pinned first, then the most useful, otherwise unchanged."""

        def sort_key(line: IndexLine) -> tuple[bool, float]:
            topic = self.topics.get(line.file)
            is_pinned = topic is not None and topic.entry.pinned
            return not is_pinned, -self.useful.get(self.folder + line.file, 0.0)

        lines = list(index.lines)
        start = 0
        while start < len(lines):
            end = start
            while end < len(lines) and lines[end].kind == "pointer" and lines[end].raw[:1] not in " \t":
                end += 1
            if end - start > 1 and all(line.raw.endswith("\n") for line in lines[start:end]):
                lines[start:end] = sorted(lines[start:end], key=sort_key)
            start = max(end, start + 1)
        return MemoryIndex(tuple(lines))

    def _within_budget(self, index: MemoryIndex) -> MemoryIndex:
        """If there are too many lines, list pinned, newest and most useful memories, as a save does (M8)."""
        if index_usage(index.data).share <= 1:
            return index
        entries = [
            replace(topic.entry, file=file) for file, topic in self.topics.items() if file in index.mentions
        ]
        useful = {file: self.useful.get(self.folder + file, 0.0) for file in self.topics}
        _, gone = within_budget(index.data, entries, useful=useful)
        numbers = {n for n, line in enumerate(index.lines) if line.kind == "pointer" and line.file in gone}
        for number in sorted(numbers):
            self._keep_hook(index.lines[number])
        return _without(index.lines, numbers)

    def _keep_hook(self, line: IndexLine) -> bool:
        """Move details that only the line has into its memory; False if that may not be changed."""
        topic = self.topics.get(line.file)
        if topic is None or not is_text(topic):
            return topic is None
        if not line.hook or set(terms(line.hook)) <= set(terms(topic.text)):
            return True
        if not self.copy.is_free(topic.entry.file):
            return False
        body = f"{topic.entry.body.rstrip()}\n\n{line.hook}\n".lstrip("\n")
        self.copy.write(topic.entry.file, topic.document.with_body(body), "took over detail from the index")
        self.topics[line.file] = self.copy.topic(topic.entry.file)
        return True


def _without(lines: Sequence[IndexLine], dropped: set[int]) -> MemoryIndex:
    """Return an index without the lines of these numbers, and without headings that they leave empty."""
    starts = [number for number, line in enumerate(lines) if line.kind == "heading"]
    for start, end in pairwise([*starts, len(lines)]):
        section = range(start + 1, end)
        has_more = any(lines[number].raw.strip() for number in section if number not in dropped)
        is_parent = end < len(lines) and _depth(lines[end]) > _depth(lines[start])
        if not dropped.isdisjoint(section) and not has_more and not is_parent:
            dropped = dropped | {start, *section}
    return MemoryIndex(tuple(line for number, line in enumerate(lines) if number not in dropped))


def _depth(heading: IndexLine) -> int:
    bare = heading.raw.lstrip("\ufeff")
    return len(bare) - len(bare.lstrip("#"))


def supported_index(copy: DirectoryCopy, file: str, data: bytes) -> tuple[bytes, list[str]]:
    """Return an index as a model wrote it, without text that no memory supports, and a list of corrections.

    Existing lines stay. A new line is a heading or points to an existing file; a title or hook that has words
    which its memory does not have, or turns what it says, is replaced by the memory's own.
    """
    folder = file.removesuffix(INDEX_FILE)
    old = MemoryIndex.parse(copy.now.get(file, b"")).lines
    known = {(line.kind, line.raw.strip()) for line in old}
    raws: list[str] = []
    dropped = replaced = 0
    for line in MemoryIndex.parse(data).lines:
        raw = line.raw
        if (line.kind, raw.strip()) not in known:
            if line.kind == "pointer" and folder + line.file in copy.now:
                raw = _supported_pointer(copy, folder, line, old)
            elif line.kind != "heading" or not _is_supported_heading(copy, line.title):
                dropped += 1
                continue
        replaced += raw != line.raw
        raws.append(raw)
    corrections = []
    if dropped:
        lines = f"{dropped} line{'' if dropped == 1 else 's'}"
        corrections.append(f"left out {lines} with text that is in no memory")
    if replaced:
        which = "title, hook or link" if replaced == 1 else "titles, hooks or links"
        corrections.append(f"replaced {replaced} {which} that the memory does not support")
    return "".join(raws).encode(errors="surrogateescape"), corrections


def _supported_pointer(copy: DirectoryCopy, folder: str, line: IndexLine, old: Sequence[IndexLine]) -> str:
    """Return the line, with title and hook replaced by the memory's own where it does not support them."""
    whole = folder + line.file
    before = " ".join(f"{one.title} {one.hook}" for one in old if one.file == line.file)
    entry = copy.topic(whole).entry if is_topic(whole) else Entry(file=whole)
    known = (line.file, before, entry.title, entry.description, entry.body)
    allowed = set(terms(" ".join(known)))
    sources = Sources(known)
    title = line.title
    hook = line.hook
    if not set(terms(title)) <= allowed or sources.altered(title, new_words="any"):
        title = entry.title
    if not set(terms(hook)) <= allowed or sources.altered(hook, new_words="any"):
        hook = entry.description or description_of(entry.body, entry.title)
    if (title, hook) == (line.title, line.hook) and ".md#" not in line.raw:
        return line.raw
    return pointer_line(line.file, title, hook) + "\n"


def _is_supported_heading(copy: DirectoryCopy, title: str) -> bool:
    """Whether a heading is a few words, each from the titles and types of memories."""
    if is_usual_heading(title):
        return True
    words = _WORD.findall(title)
    known = {term for one in copy.topics() for term in terms(f"{one.entry.title} {one.entry.kind or ''}")}
    return 0 < len(words) <= MAX_HEADING_WORDS and all(
        set(terms(word)) <= known if terms(word) else word.casefold() in _JOINING for word in words
    )


def index_problems(copy: DirectoryCopy) -> list[str]:
    """Return what is wrong with the indexes: over budget, broken lines, forbidden lines."""
    problems: list[str] = []
    for file in sorted(filter(is_index, copy.now)):
        index = MemoryIndex.parse(copy.now[file])
        before = {line.raw.strip() for line in MemoryIndex.parse(copy.base.get(file, b"")).pointers}
        folder = file.removesuffix(INDEX_FILE)
        if index_usage(copy.now[file]).share > 1 and copy.now[file] != copy.base.get(file):
            problems.append(f"{file} is over its budget of {MAX_LINES} lines and {MAX_BYTES:,} bytes")
        for line in index.pointers:
            whole = folder + line.file
            is_old = line.raw.strip() in before
            if whole not in copy.now and not whole.startswith("team/") and not is_old:
                problems.append(f"{file} points to {line.file}, which is not there")
            elif is_topic(whole) and whole in copy.now and _is_unlistable(copy.topic(whole)):
                problems.append(f"{file} lists {line.file}, which no index may name")
    return problems


def _written(topic: Topic) -> datetime:
    return topic.entry.modified or topic.entry.written or datetime.min.replace(tzinfo=UTC)


def _is_unlistable(topic: Topic) -> bool:
    return not topic.entry.is_trusted or topic.entry.local_only


def _nearest(file: str, folders: set[str]) -> str:
    """Return the innermost folder with an index around a file."""
    folder = file.rpartition("/")[0]
    folder = folder + "/" if folder else ""
    while folder and folder not in folders:
        folder = folder.rstrip("/").rpartition("/")[0]
        folder = folder + "/" if folder else ""
    return folder
