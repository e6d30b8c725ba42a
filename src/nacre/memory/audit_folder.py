"""What is wrong with a memory folder as a folder: its index, pointers, frontmatter and odd files (M8-M14)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nacre.memory.audit_findings import AuditFinding, AuditKind, Level
from nacre.memory.audit_items import Item
from nacre.memory.audit_text import unsafe_in
from nacre.memory.entry import Entry
from nacre.memory.index import MAX_BYTES, MAX_LINES, Index
from nacre.memory.lint import LintProblem, ProblemKind, lint
from nacre.memory.pointers import INDEX_FILE

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
"""What each problem of a lint is to an audit; a date is judged with the whole memory in view, so not here."""
MAX_OTHER_LINES = 25
"""So many lines of an index may be an introduction; more are facts, which belong into topic files (M8)."""
_LINK = re.compile(r"\[\[[^\[\]\n]+\]\]|(?<=\()[^()\s]+(?=\))|[\w./-]+\.md")
_FIELD = re.compile(r"`([\w-]+)`")


def folder_findings(directory: Path, items: Sequence[Item]) -> Iterator[AuditFinding]:
    """Everything a lint finds, with its line and its advice."""
    texts = {item.file: item for item in items}
    indexes: dict[str, str] = {}
    room = MAX_LINES - _read(directory / INDEX_FILE).rstrip().count("\n") - 1
    for problem in lint(directory):
        room -= problem.kind == "unlisted"
        # With more memories than fit, the rest are rightly unlisted (M8).
        if problem.kind not in _KINDS or (problem.kind == "unlisted" and room < 0):
            continue
        kind, level, advice = _KINDS[problem.kind]
        if problem.file.rpartition("/")[2] == INDEX_FILE and problem.file not in indexes:
            indexes[problem.file] = _read(directory / problem.file)
        text = indexes.get(problem.file) or (texts[problem.file].text if problem.file in texts else "")
        if problem.kind == "long-index" and _is_over(text):
            kind, level = "index-over-budget", "error"
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
    """What the index itself says that it should not: it is read in every conversation."""
    text = _read(directory / INDEX_FILE)
    index = Item(Entry(file=INDEX_FILE, body=text), text)
    yield from unsafe_in(index)
    lines = Index.parse(text.encode()).lines
    others = [n for n, line in enumerate(lines, start=1) if line.kind == "text" and line.raw.strip()]
    if len(others) > MAX_OTHER_LINES:
        yield AuditFinding(
            file=INDEX_FILE, line=others[0], kind="index-holds-facts", level="warning",
            message=f"{len(others):,} lines are no pointers: every conversation pays for them",
            advice="move them into topic files and leave one line for each",
        )  # fmt: skip


def _others(problem: LintProblem, texts: Mapping[str, Item]) -> tuple[str, ...]:
    """The memories a problem is about beside its own file: mending there must not cost soundness either."""
    if problem.kind not in {"duplicate-name", "untrusted-listed"}:
        return ()
    return tuple(one for one in re.findall(r"[^\s,]+\.md", problem.message) if one in texts)


def _line(problem: LintProblem, text: str) -> int:
    """Where the thing that the message names stands; the first line when it names none."""
    fields = [f"{key}:" for key in _FIELD.findall(problem.message)] if problem.kind == "frontmatter" else []
    for words in (*fields, *_LINK.findall(problem.message)):
        place = text.find(words)
        if place >= 0:
            return 1 + text.count("\n", 0, place)
    return 1


def _is_over(text: str) -> bool:
    return text.rstrip().count("\n") + 1 > MAX_LINES or len(text.rstrip().encode()) > MAX_BYTES


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
