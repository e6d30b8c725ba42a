"""What is wrong with what one memory says: secrets, hidden text, days without a date, length, stale names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from nacre.memory.audit_findings import AuditFinding
from nacre.memory.audit_items import Item
from nacre.memory.likeness import terms
from nacre.memory.neutral import neutralise
from nacre.memory.recall.attach import MAX_BODY_BYTES
from nacre.memory.recall.base import Drift, Reference
from nacre.memory.secrets import find_secrets
from nacre.memory.wording import clipped

MIN_TERMS = 3
"""Fewer words of content than this say nothing that a reader could use in a year."""
MAX_TOLD = 4
"""References named in one message; the rest is counted."""
MAX_TOLD_CHARS = 60

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
"""A rule about days ("not later than tomorrow, every time") is as true in a year."""
_HIDDEN = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]|(?<=\\w)[\u200b\u2060\ufeff](?=\\w)")
"""Signs that reorder a line, speak to a model unseen, or cut a word apart."""


def text_findings(item: Item, drift: Drift) -> Iterator[AuditFinding]:
    """Everything about one memory that can be told from its own words."""
    yield from unsafe_in(item)
    yield from _dates(item)
    yield from _size(item)
    yield from _stale(item, drift)
    if item.entry.origin == "untrusted":
        yield AuditFinding(
            file=item.file, kind="untrusted", level="info",
            message="came from outside, and nobody vouches for it",
            advice="`nacre memory edit` it to vouch for it, or forget it",
        )  # fmt: skip


def unsafe_in(item: Item) -> Iterator[AuditFinding]:
    """What must not stand in any file of a memory, the index included."""
    yield from _secrets(item)
    yield from _hidden(item)


def _secrets(item: Item) -> Iterator[AuditFinding]:
    for one in find_secrets(item.text):
        yield AuditFinding(
            file=item.file, line=one.line, kind="secret", level="error",
            message=f"seems to hold a credential: {one.kind}",
            advice="change it where it is used, then `nacre memory forget --purge` or take it out",
        )  # fmt: skip


def _hidden(item: Item) -> Iterator[AuditFinding]:
    """At most one a line: what only a machine reads, or what would pass for a program's own words."""
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
        yield AuditFinding(
            file=item.file, line=number, kind="hidden-text", level="error", message=message, advice=advice
        )


def _dates(item: Item) -> Iterator[AuditFinding]:
    """The first day that only the day of writing explains; a dated memory can at least be worked out."""
    is_code = False
    for number, line in item.lines():
        if _FENCE.match(line):
            is_code = not is_code
            continue
        # A row of a table holds titles and names, not sentences.
        said = "" if is_code or line.lstrip().startswith("|") else _CODE.sub(" ", line)
        found = _RELATIVE.search(said)
        if not found or _ABSOLUTE.search(said) or _GENERAL.search(said):
            continue
        told = "the memory has a date to count from" if item.is_dated else "and the memory has no date itself"
        yield AuditFinding(
            file=item.file, line=number, kind="relative-date", level="info" if item.is_dated else "warning",
            message=f"`{found[0]}` means another day to every reader; {told}",
            advice="write the date instead",
        )  # fmt: skip
        return


def _size(item: Item) -> Iterator[AuditFinding]:
    size = len(item.entry.body.strip().encode())
    if size > MAX_BODY_BYTES:
        yield AuditFinding(
            file=item.file, line=item.first, kind="too-long", level="warning",
            message=f"{size:,} bytes; recall attaches the first {MAX_BODY_BYTES:,} at most",
            advice="keep one fact a memory: split it, or point to the document",
        )  # fmt: skip
    said = f"{item.entry.body} {item.entry.description}"
    if len(set(terms(said))) < MIN_TERMS:
        what = "says too little to be of use" if said.strip() else "says nothing"
        yield AuditFinding(
            file=item.file, line=item.first, kind="too-vague", level="warning", message=what,
            advice="say what, of what, and why; or forget it",
        )  # fmt: skip


def _stale(item: Item, drift: Drift) -> Iterator[AuditFinding]:
    if not drift.gone:
        return
    rest = "nothing else that it names is left" if drift.is_broken else "the rest is still there"
    yield AuditFinding(
        file=item.file, line=item.line_of(drift.gone[0].text), kind="stale",
        level="warning" if drift.is_broken else "info",
        message=f"no longer in the working tree: {_listed(drift.gone)}; {rest}",
        advice="correct it, or forget it if it no longer holds",
    )  # fmt: skip


def _listed(gone: tuple[Reference, ...]) -> str:
    names = [f"`{clipped(one.text, MAX_TOLD_CHARS)}`" for one in gone[:MAX_TOLD]]
    more = len(gone) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")
