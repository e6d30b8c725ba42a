"""What is no memory at all: what the code or its history shows, and the chatter of a task at hand (M13).

A memory is judged by the share of its text: a status line under a decision is no junk, a status report is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nacre.memory.audit_findings import AuditFinding, AuditKind, Level
from nacre.memory.audit_items import Item

MOSTLY = 0.5
"""From this share of its text on, a memory is junk."""
PARTLY = 0.25
"""From this share on, it is worth taking the junk out."""
MIN_LISTED = 3
"""Fewer paths or signatures than this are no listing."""

_STATEMENT_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])")
_FENCE = re.compile(r"[ \t]*(?:```|~~~)[ \t]*([\w+-]*)")
_SHELLS = frozenset({"", "bash", "console", "sh", "shell", "zsh", "text", "txt"})
"""Blocks that hold commands or quotations, which are worth knowing, rather than code."""


def _any(*forms: str) -> re.Pattern[str]:
    return re.compile("|".join(forms), re.IGNORECASE)


_MARK = r"^[\s>*_#\-+\d.)\[\]x✅☑✓✔️]*"
"""What a line of a list may begin with."""
_ENDINGS = "py|pyi|tsx?|jsx?|mjs|rs|go|java|kt|rb|php|cs?|cpp|h|erl|ex|sql|vue|svelte|css|scss|html|sh"
_PATH = rf"[\w.@-]*(?:/[\w.@*-]+)+/?|[\w-]+\.(?:{_ENDINGS})"
_BULLET = r"^\s*(?:[-*+]|\d+[.)])?\s*"
_LISTED = re.compile(rf"{_BULLET}(?:\*\*)?`?(?:{_PATH})(?::\d+)?`?(?:\*\*)?\s*(?:$|[—–:(,→|-])")
_TREE = re.compile(r"[├└]──|│\s{2,}\S")
_MODIFIERS = "(?:export |public |private |static |async |pub )*"
_SIGNATURE = _any(
    rf"{_BULLET}`?{_MODIFIERS}(?:def|fn|func|function|class|interface|struct|enum|trait) \w+",
    rf"{_BULLET}`\w[\w.]*\([^`)]*\)(?: ?(?:->|→|=>|:) ?[^`]+)?`",
)
_LASTING = _any(
    r"\b(?:always|never|don'?t|do not|must|should|prefers?|preferred|because|rule|from now on|whenever)\b",
    r"\b(?:instead of|avoid|rather than|so that|decided|decision|gotcha|careful|beware|trap)\b",
    "以后|总是|永远|不要|必须|因为|偏好|决定",
)
"""What makes a rule or a reason of a sentence, whatever else it reports."""
_STATE = (
    "status|next(?: steps?| task| up| session)?|to-?do|wip|in progress|progress|remaining|pending|blocked"
)
_STAGES = "phases?|iter(?:ation)?s?|steps?|milestones?|plans?|sprints?|batch(?:es)?|tasks?"
_DID = (
    "fixed|implemented|added|refactored|updated|completed|created|renamed|removed|migrated|wired|verified"
    "|tested|ran|built"
)
_TASK = _any(
    rf"{_MARK}(?:{_STATE}|done|completed|finished|left to do)\b[^:：\w]{{0,4}}[:：—]",
    "(?:当前进度|进度|状态|下一步|待办|已完成)[^:：\\w]{0,4}[:：—]",
    r"\b\d[\d,]* (?:unit |new |e2e |more )?tests? (?:are |all )?(?:green|pass(?:ed|ing)?)\b",
    r"\btests? (?:are |now )?(?:all )?(?:green|pass(?:ed|ing)?)\b",
    rf"\b(?:{_STAGES}) ?\d[\d–.-]*[^.\n]{{0,40}}\b(?:done|completed?|finished|shipped|merged|pending)\b",
    rf"{_MARK}(?:(?:i|we|agent|claude) )?(?:have |has |just |successfully )*"
    rf"(?:{_DID}) (?:the|a|an|all|some|new|both|\d+|up)\b",
    r"\b(?:the )?user (?:has )?(?:asked|requested|instructed|told)(?: me| us| claude)? (?:to|for|that)\b",
    "(?:已|刚刚?)(?:完成|修复|实现|添加|更新|删除)|修复了|用户(?:要求|让我|请求|叫我)|测试(?:全部|都)?通过|进行中",
)
_REPORT = _any(
    rf"{_MARK}(?:{_STATE})\b[^:：\w]{{0,4}}[:：—]",
    rf"{_MARK}(?:\w+ \()?(?:{_STAGES}) ?\d[^.\n]{{0,30}}\b(?:done|completed?|finished|shipped)\b",
    rf"{_MARK}(?:{_STATE}|done|completed)\b[^:：\w]{{0,4}}[:：—]?\s*(?:{_STAGES}) ?\d",
)
"""A paragraph that begins like this is a report as a whole."""
_HEADING = re.compile(r"\s*#{1,6}\s+(.*)|\s*\*\*([^*\n]{1,80})\*\*[:：]?\s*$")
"""A heading, or a line that is nothing but bold."""
_REPORT_HEADING = _any(
    r"^\W*(?:what(?:'s| was| is)? (?:built|done|missing|left|changed))\b",
    r"^\W*(?:done|completed|remaining|in progress|to-?do)\b",
    r"^\W*(?:(?:current |build |project )?(?:status|progress|state)|next(?: steps?)?|blocking|open tasks?)\b",
    "^\\W*(?:进度|状态|已完成|待办|下一步)",
)
"""What stands below such a heading is a report, too."""
_HASH = "(?=[0-9a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]"
_BRANCHES = "origin|main|master|develop|dev|trunk"
_HISTORY = _any(
    rf"\bcommit(?:s|ted)?\b[^.\n]{{0,40}}\b{_HASH}{{7,40}}\b",
    rf"\b{_HASH}{{40}}\b",
    rf"{_MARK}`?{_HASH}{{7,12}}`?[\s:—–-]",
    r"\b(?:merged|landed|pushed|rebased|cherry-picked)\b[^.\n]{0,30}"
    rf"(?:\b(?:to|into|onto|on|in) `?(?:{_BRANCHES})\b|#\d+)",
    r"\bPR #?\d+ (?:was |is |has been )?(?:merged|opened|closed|landed)",
    "(?:合并|推送)(?:到|至)",
)
_WORDS: Mapping[AuditKind, tuple[str, str]] = {
    "junk-task": (
        "notes on the progress of a task",
        "keep what was decided and why; the rest belongs into the session",
    ),
    "junk-history": ("what `git log` knows", "keep the reason that no commit tells, if there is one"),
    "junk-code": (
        "what the code shows (paths, signatures)",
        "keep what is surprising about it, or forget it",
    ),
}


@dataclass(frozen=True, slots=True)
class Junk:
    """How much of a memory is of one kind of junk."""

    kind: AuditKind
    share: float
    """Of the characters of the body."""
    line: int
    """Where it begins."""


def junk_in(item: Item) -> Iterator[AuditFinding]:
    """What is mostly or partly junk, by kind; the lesser kinds of one that is junk anyway are not told."""
    found = sorted(shares(item), key=lambda one: -one.share)
    if not found or sum(one.share for one in found) < PARTLY:
        return
    total = sum(one.share for one in found)
    worst = found[0]
    what, advice = _WORDS[worst.kind]
    level: Level = "warning" if total >= MOSTLY else "info"
    how = "is mostly" if total >= MOSTLY else "is in part"
    yield AuditFinding(
        file=item.file, line=worst.line, kind=worst.kind, level=level, advice=advice,
        message=f"{how} {what}: {total:.0%} of the text is no memory",
    )  # fmt: skip


def shares(item: Item) -> list[Junk]:
    """Every kind of junk in a memory, with its share."""
    sizes: dict[AuditKind, int] = {}
    begins: dict[AuditKind, int] = {}
    listed: list[tuple[int, int]] = []
    total = 0
    for number, statement, is_code, is_report in _statements(item):
        size = len(statement)
        total += size
        if is_code or _LISTED.match(statement) or _TREE.search(statement) or _SIGNATURE.match(statement):
            if is_code or not _LASTING.search(statement):
                listed.append((number, size))
            continue
        kind = _kind_of(statement, is_report=is_report)
        if kind:
            sizes[kind] = sizes.get(kind, 0) + size
            begins.setdefault(kind, number)
    if len(listed) >= MIN_LISTED:
        sizes["junk-code"], begins["junk-code"] = sum(size for _, size in listed), listed[0][0]
    return [Junk(kind, size / total, begins[kind]) for kind, size in sizes.items()]


def _kind_of(statement: str, *, is_report: bool) -> AuditKind | None:
    if _REPORT.match(statement):
        return "junk-task"
    if _LASTING.search(statement):
        return None
    if _HISTORY.search(statement):
        return "junk-history"
    return "junk-task" if is_report or _TASK.search(statement) else None


def _statements(item: Item) -> Iterator[tuple[int, str, bool, bool]]:
    """Sentences and lines of a body, by line: whether they are code, whether below a heading of a report."""
    fence: str | None = None
    is_report = False
    for number, line in item.lines():
        found = _FENCE.match(line)
        if found:
            fence = found[1].lower() if fence is None else None
        elif fence is not None:
            yield number, line.strip(), fence not in _SHELLS, False
        elif heading := _HEADING.match(line):
            is_report = bool(_REPORT_HEADING.search(heading[1] or heading[2] or ""))
        elif line.strip():
            parts = [line] if _REPORT.match(line) else _STATEMENT_END.split(line)
            yield from ((number, part, False, is_report) for part in parts if part.strip())
