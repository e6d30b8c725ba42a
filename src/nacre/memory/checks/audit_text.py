"""Audit of the text of one memory: secrets, hidden text, relative dates, length, stale names, junk."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.errors import StoreError
from nacre.memory.checks.lint import Level as Level
from nacre.memory.files.scan import NotAMemory, read_head, scan
from nacre.memory.format.entry import Entry, clipped, read_entry
from nacre.memory.recall.base import Drift
from nacre.memory.recall.excerpt import MAX_BODY_BYTES
from nacre.memory.secrets import find_secrets
from nacre.memory.similarity import terms
from nacre.memory.transfer.import_sources import ImportBatch
from nacre.messages.untrusted_text import neutralise

MIN_TERMS = 3
"""A memory with fewer different terms is too vague."""
MAX_NAMES = 4
"""References named in one message; the rest are counted."""
MAX_NAME_CHARS = 60

_CODE = re.compile(r"`[^`\n]*`|\"[^\"\n]{0,200}\"|“[^”\n]{0,200}”|「[^」\n]{0,200}」")
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_RELATIVE = re.compile(
    r"\b(?:yesterday|tonight|tomorrow|(?:earlier|later|as of|since|until|by|due|done|fixed|shipped) today"
    r"|today(?='s (?:session|work|meeting|call|deploy|release))"
    r"|(?:a few|several|\w+|\d+) (?:days|weeks|months) ago"
    rf"|(?<!the )(?<!= )(?:last|next) (?:week|month|quarter|year|{_DAY})(?! of)"
    rf"|this (?:week|month|quarter|{_DAY})|in (?:two|three|\d+) (?:days|weeks))\b"
    r"|昨天|昨晚|前天|今天|今晚|明天|后天|上周|下周|本周|这周|上个月|下个月|上月|下月|去年|明年"
    r"|\d+ ?(?:天|周|个月)前",
    re.IGNORECASE,
)
"""`today` alone is left out: it mostly means nowadays."""
_ABSOLUTE = re.compile(
    r"\b(?:19|20)\d\d\b|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}月\d{1,2}[日号]"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* \d{1,2}\b|\b\d{1,2}(?:st|nd|rd|th)? "
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b",
    re.IGNORECASE,
)
_GENERAL = re.compile(
    r"\b(?:every|each|always|never|any|e\.g\.|such as|like|say|says|whether)\b|每|例如", re.IGNORECASE
)
"""A sentence with such a word is a rule about days, which does not become outdated."""
_HIDDEN = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]|(?<=\\w)[\u200b\u2060\ufeff](?=\\w)")
"""Characters that reorder a line, are invisible instructions, or split a word."""


def text_findings(item: AuditedMemory, drift: Drift) -> Iterator[AuditFinding]:
    """Yield every finding that the text of one memory gives."""
    yield from unsafe_in(item)
    yield from _dates(item)
    size = len(item.entry.body.strip().encode())
    if size > MAX_BODY_BYTES:
        message = f"{size:,} bytes; recall attaches {MAX_BODY_BYTES:,} at most"
        advice = "keep one fact a memory: split it, or point to the document"
        yield item.finding("too-long", "warning", message, advice, line=item.first)
    said = f"{item.entry.body} {item.entry.description}"
    if len(set(terms(said))) < MIN_TERMS:
        message = "says too little to be of use" if said.strip() else "says nothing"
        advice = "say what, of what, and why; or forget it"
        yield item.finding("too-vague", "warning", message, advice, line=item.first)
    if drift.gone:
        names = [f"`{clipped(one.text, MAX_NAME_CHARS)}`" for one in drift.gone[:MAX_NAMES]]
        more = len(drift.gone) - len(names)
        listed = ", ".join(names) + (f" and {more:,} more" if more else "")
        rest = "nothing else that it names is left" if drift.is_broken else "the rest is still there"
        level: Level = "warning" if drift.is_broken else "info"
        message = f"no longer in the working tree: {listed}; {rest}"
        advice = "correct it, or forget it if it no longer holds"
        yield item.finding("stale", level, message, advice, line=item.line_of(drift.gone[0].text))
    if not item.entry.is_trusted:
        advice = f"`nacre memory confirm {item.entry.file}` if it is true, or forget it"
        message = "came from outside and is not confirmed"
        if item.entry.origin == "unverified":
            message = "was saved by an agent after it had read text from outside, and you never said so"
        yield item.finding("untrusted", "info", message, advice)


def unsafe_in(item: AuditedMemory) -> Iterator[AuditFinding]:
    """Yield findings that apply to every memory file, the index included: secrets and hidden text.

    Hidden are invisible characters and tags that imitate a program; at most one finding per line.
    """
    for one in find_secrets(item.text):
        message = f"seems to hold a credential: {one.kind}"
        advice = "change it where it is used, then `nacre memory forget --purge` or take it out"
        yield item.finding("secret", "error", message, advice, line=one.line)
    for number, line in enumerate(item.text.split("\n"), start=1):
        sign = _HIDDEN.search(line)
        if sign:
            what = unicodedata.name(sign[0], f"U+{ord(sign[0]):04X}").lower()
            message = f"holds a character that a reader does not see: {what}"
        elif "<" in line and "`" not in line and neutralise(line) != line:
            message = "holds a tag by which programs speak to a model"
        else:
            continue
        advice = "take it out unless you know who put it there and why"
        yield item.finding("hidden-text", "error", message, advice, line=number)


def _dates(item: AuditedMemory) -> Iterator[AuditFinding]:
    """Yield a finding for the first relative date; it is only informational in a dated memory."""
    is_code = False
    for number, line in item.lines():
        if _FENCE.match(line):
            is_code = not is_code
            continue
        # Rows of tables contain titles and names, not sentences.
        said = "" if is_code or line.lstrip().startswith("|") else _CODE.sub(" ", line)
        found = _RELATIVE.search(said)
        if not found or _ABSOLUTE.search(said) or _GENERAL.search(said):
            continue
        # The time of a file is lost with every copy: only the frontmatter dates a memory.
        is_dated = (item.entry.created or item.entry.modified) is not None
        base = "the memory has a date to count from" if is_dated else "and the memory has no date itself"
        message = f"`{found[0]}` means another day to every reader; {base}"
        level: Level = "info" if is_dated else "warning"
        yield item.finding("relative-date", level, message, "write the date instead", line=number)
        return


MOSTLY = 0.5
"""From this share of its text on, a memory is mostly junk."""
PARTLY = 0.25
"""From this share on, it is partly junk."""
MIN_LISTED = 3
"""Fewer paths or signatures are no listing."""

_STATEMENT_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])")
_FENCE_LANGUAGE = re.compile(r"[ \t]*(?:```|~~~)[ \t]*([\w+-]*)")
_SHELLS = frozenset({"", "bash", "console", "sh", "shell", "zsh", "text", "txt"})
"""Languages of code blocks that contain commands or quotations rather than code."""


def _any(*forms: str) -> re.Pattern[str]:
    return re.compile("|".join(forms), re.IGNORECASE)


_MARK = r"^[\s>*_#\-+\d.)\[\]x✅☑✓✔️]*"
"""Markers at the start of a list item."""
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
"""Words that make a sentence a rule or a reason."""
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
"""A line that starts like this is a report as a whole."""
_HEADING = re.compile(r"\s*#{1,6}\s+(.*)|\s*\*\*([^*\n]{1,80})\*\*[:：]?\s*$")
"""A heading, or a line that is only bold text."""
_REPORT_HEADING = _any(
    r"^\W*(?:what(?:'s| was| is)? (?:built|done|missing|left|changed))\b",
    r"^\W*(?:done|completed|remaining|in progress|to-?do)\b",
    r"^\W*(?:(?:current |build |project )?(?:status|progress|state)|next(?: steps?)?|blocking|open tasks?)\b",
    "^\\W*(?:进度|状态|已完成|待办|下一步)",
)
"""Text below such a heading is a report."""
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


def junk_in(item: AuditedMemory) -> Iterator[AuditFinding]:
    """Yield a finding for the most frequent kind of junk, if there is enough junk in total."""
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
        sizes["junk-code"] = sum(size for _, size in listed)
        begins["junk-code"] = listed[0][0]
    shares = sorted(((kind, size / total) for kind, size in sizes.items()), key=lambda one: -one[1])
    share = sum(one for _, one in shares)
    if not shares or share < PARTLY:
        return
    worst = shares[0][0]
    what, advice = _WORDS[worst]
    how = "is mostly" if share >= MOSTLY else "is in part"
    message = f"{how} {what}: {share:.0%} of the text is no memory"
    level: Level = "warning" if share >= MOSTLY else "info"
    yield item.finding(worst, level, message, advice, line=begins[worst])


def _kind_of(statement: str, *, is_report: bool) -> AuditKind | None:
    if _REPORT.match(statement):
        return "junk-task"
    if _LASTING.search(statement):
        return None
    if _HISTORY.search(statement):
        return "junk-history"
    return "junk-task" if is_report or _TASK.search(statement) else None


def _statements(item: AuditedMemory) -> Iterator[tuple[int, str, bool, bool]]:
    """Yield line number, sentence, whether it is code, and whether it is below a report heading."""
    fence: str | None = None
    is_report = False
    for number, line in item.lines():
        found = _FENCE_LANGUAGE.match(line)
        if found:
            fence = found[1].lower() if fence is None else None
        elif fence is not None:
            yield number, line.strip(), fence not in _SHELLS, False
        elif heading := _HEADING.match(line):
            is_report = bool(_REPORT_HEADING.search(heading[1] or heading[2] or ""))
        elif line.strip():
            parts = [line] if _REPORT.match(line) else _STATEMENT_END.split(line)
            yield from ((number, part, False, is_report) for part in parts if part.strip())


@dataclass(frozen=True, slots=True)
class AuditedMemory:
    """One memory of an audited store."""

    entry: Entry
    """With its body."""
    text: str
    """The whole file; for a memory without a file, its text."""
    first: int = 1
    """First line of the body."""

    @property
    def file(self) -> str:
        return self.entry.file

    def finding(
        self, kind: AuditKind, level: Level, message: str, advice: str, *, line: int = 1, other: str = ""
    ) -> AuditFinding:
        return AuditFinding(
            file=self.file,
            line=line,
            kind=kind,
            level=level,
            message=message,
            advice=advice,
            others=(other,) if other else (),
        )

    def lines(self) -> Iterator[tuple[int, str]]:
        """Return the lines of the body, numbered as in the file."""
        return enumerate(self.entry.body.split("\n"), start=self.first)

    def line_of(self, words: str) -> int:
        """Return the line of the first occurrence of a text, else the first line of the body."""
        place = self.entry.body.find(words)
        return self.first + (self.entry.body.count("\n", 0, place) if place >= 0 else 0)


def memories_in(source: Path | ImportBatch) -> list[AuditedMemory]:
    """Return every memory of a folder, by name, or of an import batch."""
    if isinstance(source, ImportBatch):
        memories = [_audited(read_entry(one.file, one.data), one.data) for one in source.files]
        for number, fact in enumerate(source.facts, start=1):
            file = f"mem0:{fact.id or number}"
            entry = Entry(file=file, body=fact.text, created=fact.created, modified=fact.modified)
            memories.append(AuditedMemory(entry, fact.text))
        return memories
    found = scan(source)
    if not (found.entries or found.skipped or (source / "MEMORY.md").exists()):
        raise StoreError(f"there are no memories in {source}: no .md files; name the memory folder itself")
    memories = []
    for scanned in sorted(found.entries, key=lambda one: one.file):
        try:
            data = read_head(str(source / scanned.file), whole=True).data
        except (OSError, NotAMemory):
            continue  # reported by the checks of the folder
        entry = read_entry(scanned.file, data, written=scanned.written, indexed=scanned.indexed)
        memories.append(_audited(entry, data))
    return memories


def _audited(entry: Entry, data: bytes) -> AuditedMemory:
    text = data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    body = entry.body.replace("\r\n", "\n")
    start = text.rfind(body) if body else len(text)
    return AuditedMemory(replace(entry, body=body), text, first=1 + text.count("\n", 0, max(start, 0)))


AuditKind: TypeAlias = Literal[
    "secret", "hidden-text", "broken-pointer", "broken-link", "unreadable", "untrusted-listed", "untrusted",
    "stale", "relative-date", "duplicate", "near-duplicate", "junk-task", "junk-history", "junk-code",
    "too-long", "too-vague", "no-description", "vague-description", "frontmatter", "untyped", "unlisted",
    "index-over-budget", "index-near-budget", "index-line-long", "index-untidy", "index-holds-facts",
]  # fmt: skip
LEVELS: tuple[Level, ...] = ("error", "warning", "info")
"""Worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One finding; a memory of another program without files is named by its id."""

    file: str
    line: int = 1
    """In the file or the text of the memory, counted from one."""
    kind: AuditKind
    level: Level
    message: str
    """The problem in one line; never the value of a credential."""
    advice: str
    """How to fix it."""
    others: tuple[str, ...] = ()
    """Other memories that the finding is about."""
