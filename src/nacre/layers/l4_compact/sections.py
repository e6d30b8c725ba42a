"""A reply that should be a summary, taken apart: the draft goes, nine sections are found, six is left out.

Headings may be numbered, bold, of any case or in another language; what must be there is the substance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

TITLES = (
    "Primary request and intent",
    "Key technical concepts",
    "Files and code",
    "Errors and fixes",
    "Problem solving",
    "All user messages",
    "Pending tasks",
    "Current work",
    "Optional next step",
)
USER_MESSAGES = 6
"""This section is the log's, never a model's (C20)."""
MAY_BE_MISSING = frozenset({USER_MESSAGES, 9})
"""Of the nine: one is written by the program, the other is called optional."""
MUST_SAY = (1, 8)
"""What was asked and where things stand: a summary that says nothing there is none."""
MIN_LETTERS = 8
"""Less than this under a heading says nothing."""
MAX_TITLE_CHARS = 90
"""A longer line is a sentence, not a heading."""

_KNOWN = (
    r"primary requests?|(?:main|user'?s?) requests?\b.*\bintent|request and intent",
    r"(?:key )?(?:technical )?concepts",
    r"(?:key |relevant )?files?\b.*\bcode|code sections",
    r"errors?\b.*\bfix(?:es)?|errors encountered",
    r"problem[- ]solving",
    r"(?:all )?user(?:'?s)? messages",
    r"pending (?:tasks?|work|items)|(?:open|remaining) tasks",
    r"current (?:work|state|task)|work completed",
    r"(?:optional )?next steps?|context for continuing",
)
_TITLES = tuple(re.compile(rf"(?:{known})\b", re.IGNORECASE) for known in _KNOWN)
_HEADING = re.compile(
    r"^(?P<hashes>\#{1,6}[ \t]+)?(?P<bold>\*\*|__)?[ \t]*(?:(?P<number>[1-9])[.):、．][ \t]*)?"
    r"(?P<bold_title>\*\*|__)?(?P<rest>\S.*)$"
)
_TAG = re.compile(r"</?\s*(analysis|summary)\b[^>\n]*>", re.IGNORECASE)
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_NOTHING = re.compile(r"[\W_]*(?:none|nothing|n/?a|not applicable|无|没有)?[\W_]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Section:
    """One of the nine, under the title the reply gave it."""

    number: int
    title: str
    body: str

    @property
    def is_empty(self) -> bool:
        return _NOTHING.fullmatch(self.body) is not None


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a reply holds."""

    sections: tuple[Section, ...]

    @property
    def missing(self) -> list[str]:
        """The required sections that are not there, or say nothing where something must be said."""
        bodies = {one.number: one for one in self.sections}
        absent = [n for n in range(1, len(TITLES) + 1) if n not in bodies and n not in MAY_BE_MISSING]
        silent = [n for n in MUST_SAY if n in bodies and _is_silent(bodies[n])]
        return [TITLES[n - 1] for n in sorted({*absent, *silent})]

    def render(self) -> str:
        """The summary as it is installed: what a person said comes from the log instead."""
        said = [one for one in self.sections if one.number != USER_MESSAGES]
        return "\n\n".join(f"## {one.title}\n\n{one.body or 'None.'}" for one in said)


def parse(reply: str) -> Parsed:
    """The sections of a reply; none at all where it is no summary."""
    text = _answer(reply.replace("\r\n", "\n"))
    lines = text.split("\n")
    found = _headings(lines)
    ends = [*(place for _, place, _, _ in found), len(lines)][1:]
    return Parsed(
        tuple(
            Section(number, title, "\n".join([*([rest] if rest else []), *lines[place + 1 : end]]).strip())
            for (number, place, title, rest), end in zip(found, ends, strict=True)
        )
    )


def _answer(reply: str) -> str:
    """What stands in the summary tags, or everything behind the draft where there are none."""
    text = _without_draft(reply)
    tags = [tag for tag in _TAG.finditer(text) if tag[1].lower() == "summary"]
    opening = next((tag for tag in tags if _opens(tag)), None)
    if opening is None:
        return text
    closing = next((tag for tag in reversed(tags) if not _opens(tag) and tag.start() > opening.start()), None)
    inside = text[opening.end() : closing.start() if closing else len(text)]
    return _without_draft(inside) if inside.lstrip()[:9].lower() == "<analysis" else inside


def _without_draft(text: str) -> str:
    """The text without the draft it begins with; one that was never closed ends where the summary begins."""
    tags = list(_TAG.finditer(text))
    if not tags or tags[0][1].lower() != "analysis" or not _opens(tags[0]):
        return text
    depth = 0
    for tag in tags:
        if tag[1].lower() == "analysis":
            depth += 1 if _opens(tag) else -1
            if depth == 0:
                # A draft may go on behind a tag it only talks about; another one may follow it.
                return text[: tags[0].start()] + _without_draft(text[tag.end() :])
    at = next((tag for tag in tags if tag[1].lower() == "summary" and _begins_line(tag)), None)
    return text[at.start() :] if at else ""


def _opens(tag: re.Match[str]) -> bool:
    return not tag[0].startswith("</")


def _begins_line(tag: re.Match[str]) -> bool:
    return not tag.string[: tag.start()].rpartition("\n")[2].strip() and _opens(tag)


_Heading = tuple[int, int, str, str]
"""Number, line, title, and what stands behind the title on its line."""


def _headings(lines: Sequence[str]) -> list[_Heading]:
    """The nine in order: by their titles, or by number alone where they are in another language."""
    candidates = list(_candidates(lines))
    known = _in_order([one for one in candidates if _TITLES[one.number - 1].match(one.title)])
    if len(known) > len(TITLES) // 2:
        return [one.heading for one in known]
    first = next((one for one in candidates if one.number == 1 and one.is_numbered), None)
    if first is None:
        return [one.heading for one in known]
    # Lists inside a section count from one, too: headings are those written as the first one is.
    alike = [one for one in candidates if one.is_numbered and one.style == first.style]
    return [one.heading for one in _in_order(alike)]


@dataclass(frozen=True, slots=True)
class _Candidate:
    number: int
    line: int
    title: str
    rest: str
    is_numbered: bool
    style: tuple[int, bool, bool]

    @property
    def heading(self) -> _Heading:
        return (self.number, self.line, self.title, self.rest)


def _candidates(lines: Sequence[str]) -> list[_Candidate]:
    found: list[_Candidate] = []
    is_code = False
    indent = _outer_indent(lines)
    for place, line in enumerate(lines):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and len(line) - len(line.lstrip()) <= indent:
            found += _read(place, line.strip())
    return found


def _outer_indent(lines: Sequence[str]) -> int:
    numbered = [line for line in lines if re.match(r"\s*(?:#+ )?(?:\*\*)?1[.):、．]", line)]
    return len(numbered[0]) - len(numbered[0].lstrip()) if numbered else 0


def _read(place: int, line: str) -> list[_Candidate]:
    match = _HEADING.match(line)
    if match is None:
        return []
    is_bold = bool(match["bold"] or match["bold_title"])
    title, colon, rest = _split_title(match["rest"], is_bold=is_bold)
    style = (len((match["hashes"] or "").strip()), is_bold, colon)
    if match["number"]:
        return [_Candidate(int(match["number"]), place, title, rest, is_numbered=True, style=style)]
    if not (match["hashes"] or is_bold or colon):
        return []
    numbers = [n for n, known in enumerate(_TITLES, 1) if known.match(title)]
    return [_Candidate(n, place, title, rest, is_numbered=False, style=style) for n in numbers[:1]]


def _split_title(text: str, *, is_bold: bool) -> tuple[str, bool, str]:
    """The title, whether a colon ends it, and the words behind it."""
    end = re.search(r"\s*[:：]\s*(?:\*\*|__)?|(?:\*\*|__)\s*[:：]?" if is_bold else r"\s*[:：]", text)
    if end is None or end.start() > MAX_TITLE_CHARS:
        return text.strip(" *_#"), False, ""
    has_colon = ":" in end[0] or "：" in end[0]
    return text[: end.start()].strip(" *_#"), has_colon, text[end.end() :].lstrip(" :：").strip()


def _in_order(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """One for each number, rising; the first of each that stands behind the one before."""
    kept: list[_Candidate] = []
    for one in candidates:
        if not kept or one.number > kept[-1].number:
            kept.append(one)
    return kept


def _is_silent(section: Section) -> bool:
    letters = sum(char.isalnum() for char in section.body)
    # An ideograph says as much as a short word.
    wide = sum(char.isalnum() and ord(char) > 0x2E80 for char in section.body)
    return section.is_empty or letters + 2 * wide < MIN_LETTERS
