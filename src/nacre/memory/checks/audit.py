"""Audit of a memory store of any program: findings and a score (M8-M16c).

Reads a memory folder, an archive of one, a note, or a mem0 export; changes nothing. Blocking.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.checks.audit_text import (
    LEVELS,
    AuditedMemory,
    AuditFinding,
    AuditKind,
    Level,
    junk_in,
    memories_in,
    text_findings,
    unsafe_in,
)
from nacre.memory.checks.lint import LintProblem, ProblemKind, lint
from nacre.memory.format.entry import Entry
from nacre.memory.format.index import INDEX_FILE, MAX_BYTES, MAX_LINES, MemoryIndex
from nacre.memory.recall.base import Drift
from nacre.memory.recall.drift.check import check_each
from nacre.memory.similarity import terms
from nacre.memory.transfer.import_sources import read_batch

DRIFT_SECONDS = 2.0
"""Time limit for drift checks of all memories together; the rest are not checked."""
WEIGHTS: Mapping[Level, float] = {"error": 3.0, "warning": 1.0, "info": 0.25}
"""Weight of a finding in the score, relative to a sound memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The findings of an audit."""

    path: str
    memories: int
    findings: tuple[AuditFinding, ...]
    """By file and line."""
    sound: int
    """Memories without a finding."""
    tree: str = ""
    """The working tree in which references were checked; empty for none."""

    @property
    def score(self) -> int:
        """0 to 100: sound memories against weighted findings; fixing one never lowers the score.

        100 x (sound + 1) / (sound + 1 + weights), rounded down. A memory that is fixed or removed takes its
        weight away, and no other memory becomes less sound. 100 means no findings.
        """
        sound = self.sound + 1
        return int(100 * sound / (sound + sum(WEIGHTS[one.level] for one in self.findings)))

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of findings by kind, most frequent first."""
        return dict(Counter(one.kind for one in self.findings).most_common())

    def at_least(self, level: Level) -> tuple[AuditFinding, ...]:
        """Return the findings of this level or a worse one."""
        return tuple(one for one in self.findings if LEVELS.index(one.level) <= LEVELS.index(level))


def audit(path: Path, *, tree: Path | None = None, clock: Clock = SYSTEM_CLOCK) -> Audit:
    """Audit a store; references are checked in the working tree, if one is given."""
    if path.is_dir():
        return _audited(path, memories_in(path), path, tree=tree, clock=clock)
    batch = read_batch(path)
    if batch.facts or path.suffix == ".md":
        return _audited(path, memories_in(batch), None, tree=tree, clock=clock)
    with tempfile.TemporaryDirectory(prefix="nacre-audit-") as scratch:
        folder = Path(scratch)
        # The file names were validated when the archive was read.
        files = {one.file: one.data for one in batch.files}
        if batch.index is not None:
            files[INDEX_FILE] = batch.index
        for file, data in files.items():
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return _audited(path, memories_in(folder), folder, tree=tree, clock=clock)


def _audited(
    path: Path, items: Sequence[AuditedMemory], folder: Path | None, *, tree: Path | None, clock: Clock
) -> Audit:
    found: list[AuditFinding] = []
    if folder:
        found += [*folder_findings(folder, items), *index_findings(folder)]
    drifts: Sequence[Drift] = [Drift()] * len(items)
    if tree is not None:
        bodies = [item.entry.body for item in items]
        drifts = check_each(bodies, tree, budget_seconds=DRIFT_SECONDS, clock=clock)
    for item, drift in zip(items, drifts, strict=True):
        found += [*text_findings(item, drift), *junk_in(item)]
    found += repeated(items)
    blamed = {file for one in found for file in (one.file, *one.others)}
    return Audit(
        path=str(path),
        memories=len(items),
        findings=tuple(sorted(set(found), key=lambda one: (one.file, one.line, one.kind, one.message))),
        sound=sum(item.file not in blamed for item in items),
        tree=str(tree) if tree else "",
    )


FIX = "`nacre memory lint --fix` does it"
_KINDS: Mapping[ProblemKind, tuple[AuditKind, Level, str]] = {
    "dangling-pointer": ("broken-pointer", "error", f"remove the line or bring the file back; {FIX}"),
    "untrusted-listed": ("untrusted-listed", "error", f"take the line out; {FIX}"),
    "odd-file": ("unreadable", "error", "make it a small UTF-8 text, or move it out of the folder"),
    "long-index": ("index-near-budget", "info", "shorten hooks, move detail into topic files"),
    "duplicate-pointer": ("index-untidy", "info", "keep one of the lines"),
    "index-frontmatter": ("index-untidy", "info", "remove the frontmatter"),
    "long-line": ("index-line-long", "info", "keep the hook under 150 characters, the rest is in the file"),
    "unlisted": ("unlisted", "warning", f"add a line; {FIX}"),
    "untyped": ("untyped", "info", "set `type:` to user, feedback, project or reference"),
    "no-description": ("no-description", "warning", "add one specific line as `description:`"),
    "vague-description": ("vague-description", "info", "say in one line when it is worth knowing"),
    "frontmatter": ("frontmatter", "info", "quote the value"),
    "duplicate-name": ("duplicate", "warning", "merge them, or give each a name of its own"),
    "broken-link": ("broken-link", "info", "correct the link or save what it means"),
}  # fmt: skip
"""Audit kind, level and advice by lint kind; relative dates are checked with the whole memory instead."""
MAX_OTHER_LINES = 25
"""An index may have this many lines of other text, such as an introduction (M8)."""
_LINK = re.compile(r"\[\[[^\[\]\n]+\]\]|(?<=\()[^()\s]+(?=\))|[\w./-]+\.md")
_FIELD = re.compile(r"`([\w-]+)`")


def folder_findings(directory: Path, items: Sequence[AuditedMemory]) -> Iterator[AuditFinding]:
    """Yield all lint problems of a folder, with line and advice."""
    texts = {item.file: item for item in items}
    indexes: dict[str, str] = {}
    room = MAX_LINES - _read(directory / INDEX_FILE).rstrip().count("\n") - 1
    for problem in lint(directory):
        room -= problem.kind == "unlisted"
        # With more memories than fit into the index, the rest are correctly unlisted (M8).
        if problem.kind not in _KINDS or (problem.kind == "unlisted" and room < 0):
            continue
        kind, level, advice = _KINDS[problem.kind]
        if problem.file.rpartition("/")[2] == INDEX_FILE and problem.file not in indexes:
            indexes[problem.file] = _read(directory / problem.file)
        text = indexes.get(problem.file) or (texts[problem.file].text if problem.file in texts else "")
        if problem.kind == "long-index" and (
            text.rstrip().count("\n") >= MAX_LINES or len(text.rstrip().encode()) > MAX_BYTES
        ):
            kind = "index-over-budget"
            level = "error"
        yield AuditFinding(
            file=problem.file,
            line=1 if problem.kind == "long-index" else _line(problem, text),
            kind=kind,
            level=level,
            message=problem.message,
            advice=advice,
            others=_others(problem, texts),
        )


def index_findings(directory: Path) -> Iterator[AuditFinding]:
    """Yield findings on the text of the index, which is part of every conversation."""
    text = _read(directory / INDEX_FILE)
    index = AuditedMemory(Entry(file=INDEX_FILE, body=text), text)
    yield from unsafe_in(index)
    lines = MemoryIndex.parse(text.encode()).lines
    others = [n for n, line in enumerate(lines, start=1) if line.kind == "text" and line.raw.strip()]
    if len(others) > MAX_OTHER_LINES:
        message = f"{len(others):,} lines are no pointers: every conversation pays for them"
        advice = "move them into topic files and leave one line for each"
        yield index.finding("index-holds-facts", "warning", message, advice, line=others[0])


def _others(problem: LintProblem, texts: Mapping[str, AuditedMemory]) -> tuple[str, ...]:
    """Return the other memories that a problem is about."""
    if problem.kind not in {"duplicate-name", "untrusted-listed"}:
        return ()
    return tuple(one for one in re.findall(r"[^\s,]+\.md", problem.message) if one in texts)


def _line(problem: LintProblem, text: str) -> int:
    """Return the line of the text that a message names, else the first line."""
    fields = [f"{key}:" for key in _FIELD.findall(problem.message)] if problem.kind == "frontmatter" else []
    for words in (*fields, *_LINK.findall(problem.message)):
        place = text.find(words)
        if place >= 0:
            return 1 + text.count("\n", 0, place)
    return 1


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


RUN = 3
"""Consecutive words that are compared: single words are shared within a project."""
SAME_RUNS = 0.5
"""From this share of common runs on, one text is a changed copy of the other."""
SAME_TERMS = 0.8
"""The same for terms of short texts, which have few runs."""
SHORT_TERMS = 25
"""Up to this many terms a text is short."""
MAX_SHARED_BY = 40
"""A run that more memories share is a common phrase; comparing all its pairs would take too long."""

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def repeated(items: Sequence[AuditedMemory]) -> Iterator[AuditFinding]:
    """Yield a finding for each memory that repeats an earlier one."""
    exact: dict[str, list[AuditedMemory]] = defaultdict(list)
    for item in items:
        if said := " ".join(item.entry.body.split()).casefold():
            exact[said].append(item)
    for first, *copies in exact.values():
        message = f"says word for word what {first.file} says"
        for item in copies:
            yield item.finding(
                "duplicate", "warning", message, "forget one of them", line=item.first, other=first.file
            )
    yield from _alike([group[0] for group in exact.values()])


def _alike(items: Sequence[AuditedMemory]) -> Iterator[AuditFinding]:
    words = [terms(item.entry.body) for item in items]
    runs = [_runs(one) for one in words]
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, each in enumerate(runs):
        for run in each:
            holders[run].append(number)
    near: dict[int, Counter[int]] = defaultdict(Counter)
    for numbers in holders.values():
        if 1 < len(numbers) <= MAX_SHARED_BY:
            for place, later in enumerate(numbers):
                near[later].update(numbers[:place])
    for later, earlier in sorted(near.items()):
        for first, shared in sorted(earlier.items(), key=lambda one: (-one[1], one[0])):
            share = shared / len(runs[first] | runs[later])
            if not _is_same(share, words[first], words[later]):
                continue
            ours, theirs = (set(_NUMBER.findall(items[one].entry.body)) for one in (later, first))
            if ours - theirs and theirs - ours:
                continue  # each has a number that the other has not: two facts of one form
            other = items[first].file
            message = f"says nearly what {other} says"
            advice = "merge them into one, or correct the one that is out of date"
            item = items[later]
            yield item.finding("near-duplicate", "warning", message, advice, line=item.first, other=other)
            break


def _runs(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    size = min(RUN, len(words)) or 1
    return frozenset(tuple(words[at : at + size]) for at in range(len(words) - size + 1))


def _is_same(share: float, first: Sequence[str], later: Sequence[str]) -> bool:
    if share >= SAME_RUNS:
        return True
    one = set(first)
    other = set(later)
    is_short = max(len(one), len(other)) <= SHORT_TERMS
    return is_short and len(one & other) >= SAME_TERMS * len(one | other)
