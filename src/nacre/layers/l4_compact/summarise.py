"""Asks a model for a summary, parses the reply into its nine sections and checks it (C18 to C20, C23c).

Headings may be numbered, bold, of any case or in another language; the content of a section must be there.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from nacre import prompts
from nacre.errors import PromptTooLong, SummaryRejected
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.loop.fork import Fork, ForkResult, ForkTask
from nacre.messages.blocks import JsonObject, Text
from nacre.messages.draft import Draft
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Replaced
from nacre.messages.rewrite import unbound_thinking
from nacre.messages.rounds import rounds
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View

if TYPE_CHECKING:
    from nacre.layers.l4_compact.quotes import CheckedSummary

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
"""This section comes from the log, never from a model (C20)."""
MAY_BE_MISSING = frozenset({USER_MESSAGES, 9})
"""One is written by the program, the other is optional."""
MUST_SAY = (1, 8)
"""Request and current work; a summary without these is rejected."""
MIN_LETTERS = 8
"""A section with fewer letters counts as empty."""
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
class SummarySection:
    """One of the nine sections, under the title in the reply."""

    number: int
    title: str
    body: str

    @property
    def is_empty(self) -> bool:
        return _NOTHING.fullmatch(self.body) is not None


@dataclass(frozen=True, slots=True)
class ParsedSummary:
    """The sections of a reply."""

    sections: tuple[SummarySection, ...]

    @property
    def missing(self) -> list[str]:
        """Return the required sections that are missing or empty."""
        bodies = {one.number: one for one in self.sections}
        absent = [n for n in range(1, len(TITLES) + 1) if n not in bodies and n not in MAY_BE_MISSING]
        silent = [n for n in MUST_SAY if n in bodies and _is_silent(bodies[n])]
        return [TITLES[n - 1] for n in sorted({*absent, *silent})]

    def render(self) -> str:
        """The summary to install, without the section of user messages."""
        said = [one for one in self.sections if one.number != USER_MESSAGES]
        return "\n\n".join(f"## {one.title}\n\n{one.body or 'None.'}" for one in said)


def parse(reply: str) -> ParsedSummary:
    """Parse the sections of a reply; none if it is not a summary."""
    text = _answer(reply.replace("\r\n", "\n"))
    lines = text.split("\n")
    found = _headings(lines)
    ends = [*(place for _, place, _, _ in found), len(lines)][1:]
    return ParsedSummary(
        tuple(
            SummarySection(
                number, title, "\n".join([*([rest] if rest else []), *lines[place + 1 : end]]).strip()
            )
            for (number, place, title, rest), end in zip(found, ends, strict=True)
        )
    )


def _answer(reply: str) -> str:
    """Return the content of the summary tags, or without them everything after the draft."""
    text = _without_draft(reply)
    tags = [tag for tag in _TAG.finditer(text) if tag[1].lower() == "summary"]
    opening = next((tag for tag in tags if _opens(tag)), None)
    if opening is None:
        return text
    closing = next((tag for tag in reversed(tags) if not _opens(tag) and tag.start() > opening.start()), None)
    inside = text[opening.end() : closing.start() if closing else len(text)]
    return _without_draft(inside) if inside.lstrip()[:9].lower() == "<analysis" else inside


def _without_draft(text: str) -> str:
    """Return the text without its leading draft; an unclosed one ends where the summary begins."""
    tags = list(_TAG.finditer(text))
    if not tags or tags[0][1].lower() != "analysis" or not _opens(tags[0]):
        return text
    depth = 0
    for tag in tags:
        if tag[1].lower() == "analysis":
            depth += 1 if _opens(tag) else -1
            if depth == 0:
                # A draft may mention a tag and go on; another draft may follow.
                return text[: tags[0].start()] + _without_draft(text[tag.end() :])
    for tag in tags:
        begins_line = not text[: tag.start()].rpartition("\n")[2].strip()
        if tag[1].lower() == "summary" and _opens(tag) and begins_line:
            return text[tag.start() :]
    return ""


def _opens(tag: re.Match[str]) -> bool:
    return not tag[0].startswith("</")


_Heading = tuple[int, int, str, str]
"""Number, line, title, and the rest of the line."""


def _headings(lines: Sequence[str]) -> list[_Heading]:
    """Return the nine headings in order: by title, or by number in another language."""
    candidates = list(_candidates(lines))
    known = _in_order([one for one in candidates if _TITLES[one.number - 1].match(one.title)])
    if len(known) > len(TITLES) // 2:
        return [one.heading for one in known]
    first = next((one for one in candidates if one.number == 1 and one.is_numbered), None)
    if first is None:
        return [one.heading for one in known]
    # Lists inside a section are numbered, too; headings look like the first one.
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
    numbered = [line for line in lines if re.match(r"\s*(?:#+ )?(?:\*\*)?1[.):、．]", line)]
    indent = len(numbered[0]) - len(numbered[0].lstrip()) if numbered else 0
    for place, line in enumerate(lines):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and len(line) - len(line.lstrip()) <= indent:
            found += _read(place, line.strip())
    return found


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
    """Return the title, whether a colon ends it, and the rest of the line."""
    end = re.search(r"\s*[:：]\s*(?:\*\*|__)?|(?:\*\*|__)\s*[:：]?" if is_bold else r"\s*[:：]", text)
    if end is None or end.start() > MAX_TITLE_CHARS:
        return text.strip(" *_#"), False, ""
    has_colon = ":" in end[0] or "：" in end[0]
    return text[: end.start()].strip(" *_#"), has_colon, text[end.end() :].lstrip(" :：").strip()


def _in_order(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Return the first candidate for each number, in rising order."""
    kept: list[_Candidate] = []
    for one in candidates:
        if not kept or one.number > kept[-1].number:
            kept.append(one)
    return kept


def _is_silent(section: SummarySection) -> bool:
    letters = sum(char.isalnum() for char in section.body)
    # An ideograph counts as a short word.
    wide = sum(char.isalnum() and ord(char) > 0x2E80 for char in section.body)
    return section.is_empty or letters + 2 * wide < MIN_LETTERS


SUMMARY = prompts.load(__package__, "summary")
SCOPE_ALL = prompts.load(__package__, "scope_all")
PARTIAL_FROM = prompts.load(__package__, "partial_from")
PARTIAL_UP_TO = prompts.load(__package__, "partial_up_to")
CURRENT_WORK = prompts.load(__package__, "current_work")
NEXT_STEP = prompts.load(__package__, "next_step")
WORK_COMPLETED = prompts.load(__package__, "work_completed")
CONTEXT_FOR_CONTINUING = prompts.load(__package__, "context_for_continuing")
FOCUS = prompts.load(__package__, "focus")

Side = Literal["all", "from", "up_to"]
"""The whole view, what follows a pivot, or what precedes it (C23)."""


@dataclass(frozen=True, slots=True)
class SummaryPart:
    """The part of a view to summarise."""

    side: Side = "all"
    pivot: str | None = None
    """Record id of the pivot; with `up_to` the first record that stays."""


WHOLE = SummaryPart()

PIVOT_CHARS = 300
"""Characters of the pivot that the prompt quotes."""
CUT_OFF = frozenset({"max_tokens", "length", "model_context_window_exceeded"})
REFUSED = frozenset({"refusal", "content_filter"})
_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m |i am )?(?:very |so |really )?sorry\b|(?:my )?apolog(?:ies|ise|ize)\b|i apologi[sz]e\b"
    r"|(?:as an ai\b[^.\n]{0,40}, )?i(?: (?:cannot|can(?:no|['’]?)t|am unable|will not|won['’]?t|am not able"
    r"|do not feel|must decline)|['’]m (?:unable|not able))|unfortunately, i"
    r"|抱歉|对不起|很抱歉|我无法|我不能)",
    re.IGNORECASE,
)
REASON_CHARS = 120
"""Characters of a reply quoted in an error."""


async def summarise(
    view: View,
    fork: Fork,
    *,
    focus: str = "",
    words: Sequence[str] = (),
    settings: CompactSettings,
    part: SummaryPart = WHOLE,
) -> Draft:
    """Return a checked summary of a view or a part; raises `SummaryRejected` or a provider error.

    `words` is what the person said, message by message: what a summary quotes must stand there.
    """
    place = _place(view, part)
    side = part.side
    whole = before_pivot(view, place) if side == "up_to" else view
    said = directive(side, focus=focus, pivot=_excerpt(view, place) if side == "from" else "")
    forked, tries, dropped = await _asked(whole, fork, said, settings)
    if reason := refused(forked):
        raise SummaryRejected(reason)
    replaced = view.items[place:] if side == "from" else whole.items
    metadata: JsonObject = {"tries": tries, "left_out_rounds": dropped}
    covers = view.items[place - 1].record_id if side == "up_to" else None
    size = sum(item.tokens for item in replaced)
    # In a thread: checking all quotations of a long reply takes a while.
    return await asyncio.to_thread(
        accepted, forked.text, words, replaced=size, covers=covers, metadata=metadata
    )


def accepted(
    reply: str,
    words: Sequence[str],
    *,
    replaced: int,
    covers: str | None = None,
    metadata: JsonObject | None = None,
) -> Draft:
    """Return the reply as a draft; raises `SummaryRejected` with the reason (C23c)."""
    if not reply.strip():
        raise SummaryRejected("the summary is empty")
    parsed = parse(reply)
    if not parsed.sections and _REFUSAL.match(reply):
        raise SummaryRejected(f"the model would not summarise: {_line(reply)}")
    if missing := parsed.missing:
        raise SummaryRejected(f"the summary lacks {', '.join(missing)}")
    sifted, looked_up = _sifted(parsed, words)
    # A dropped quotation may have been the whole section.
    if emptied := sifted.missing:
        raise SummaryRejected(f"without words the person never said, the summary lacks {', '.join(emptied)}")
    text = sifted.render()
    size = estimate_text(text)
    if size >= replaced:
        raise SummaryRejected(f"the summary has {size:,} tokens and would stand for {replaced:,}")
    dropped = [one for done in looked_up for one in done.dropped]
    facts: JsonObject = {
        **(metadata or {}),
        "quotations": sum(done.kept for done in looked_up),
        "dropped": [*dropped],
    }
    return Draft(kind="full", text=text, covers=covers, metadata=facts)


def directive(side: Side = "all", *, focus: str = "", pivot: str = "") -> str:
    """Return the message that asks for the summary."""
    scope = {"all": SCOPE_ALL, "from": PARTIAL_FROM, "up_to": PARTIAL_UP_TO}[side]
    is_earlier = side == "up_to"
    return prompts.render(
        SUMMARY,
        scope=prompts.render(scope, pivot=pivot) if side == "from" else scope,
        eighth=WORK_COMPLETED if is_earlier else CURRENT_WORK,
        ninth=CONTEXT_FOR_CONTINUING if is_earlier else NEXT_STEP,
        focus="\n\n" + prompts.render(FOCUS, focus=focus.strip()) if focus.strip() else "",
    )


def refused(forked: ForkResult) -> str:
    """Return why a fork's result cannot be a summary; empty if it can."""
    if any(reply.tool_calls for reply in forked.replies):
        return "the model called a tool instead of writing a summary"
    if forked.stop_reason in CUT_OFF:
        return "the summary was cut off at the output limit"
    if forked.stop_reason in REFUSED:
        return "the model would not summarise"
    return "" if forked.text.strip() else "the summary is empty"


def before_pivot(view: View, place: int) -> View:
    """Return the view before an item, byte for byte, so that it is read from the cache."""
    if place >= len(view.items):
        return view
    cut = Compacted(
        id=f"{view.items[place].record_id}-later",
        at=view.records[-1].at,
        summary=(),
        first=view.items[place].record_id,
        kind="span",
    )
    return view.after(cut)


def _sifted(parsed: ParsedSummary, words: Sequence[str]) -> tuple[ParsedSummary, list[CheckedSummary]]:
    from nacre.layers.l4_compact.quotes import checked  # noqa: PLC0415 - its expressions take 60 ms to compile

    kept = [one for one in parsed.sections if one.number != USER_MESSAGES]
    done = [checked(one.body, words) for one in kept]
    return ParsedSummary(
        tuple(replace(one, body=new.text) for one, new in zip(kept, done, strict=True))
    ), done


async def _asked(
    whole: View, fork: Fork, said: str, settings: CompactSettings
) -> tuple[ForkResult, int, int]:
    """Return the fork's result, the number of tries and of rounds left out (C24)."""
    now = ShortenedView(whole)
    for tries in range(1, settings.max_retries + 2):
        task = ForkTask(
            source="compact", directive=said, max_rounds=1, max_output=settings.summary_tokens, view=now.view
        )
        try:
            return await fork(task), tries, now.dropped
        except PromptTooLong as error:
            shorter = shorten(whole, now, error, settings=settings)
            if shorter is None or tries > settings.max_retries:
                raise
            now = shorter
    raise AssertionError("the last try returns or raises")


def _place(view: View, part: SummaryPart) -> int:
    if part.side == "all":
        return 0
    is_earlier = part.side == "up_to"
    found = [place for place, item in enumerate(view.items) if item.record_id == part.pivot]
    if not found or (is_earlier and found[0] == 0):
        side = "before" if is_earlier else "from"
        raise SummaryRejected(f"there is nothing to summarise {side} {part.pivot}")
    return found[0]


def _excerpt(view: View, place: int) -> str:
    """Return the text of the pivot, or the nearest text after it."""
    for item in view.items[place:]:
        texts = [one.block.text for one in item.parts if isinstance(one.block, Text)]
        if joined := "\n".join(texts).strip():
            return f"{'The person' if item.role == 'user' else 'You'}: {joined[:PIVOT_CHARS]}"
    return "(the last round of tool calls)"


def _line(text: str) -> str:
    return " ".join(text.split())[:REASON_CHARS]


MIN_GROUPS = 1
"""Rounds that always stay."""


@dataclass(frozen=True, slots=True)
class ShortenedView:
    """A view without its oldest rounds, always made from the whole view."""

    view: View
    dropped: int = 0
    """Rounds left out."""


def shorten(
    whole: View, before: ShortenedView, error: PromptTooLong, *, settings: CompactSettings
) -> ShortenedView | None:
    """Return the view to try after this error; None if nothing more can be left out.

    It begins again from the whole view, so that replacements of a lost beginning never accumulate. A summary
    that opens the view is the only memory of all before it, and stays.
    """
    items = whole.items
    groups = rounds(items)
    first_id = whole.items[0].record_id if whole.items else None
    summaries = {one.summary_id or one.id for one in whole.records if isinstance(one, Compacted)}
    if len(groups) > MIN_GROUPS + 1 and first_id in summaries:
        groups = groups[1:]
    wanted = _wanted([_tokens(items, group) for group in groups], before.dropped, error, settings)
    dropped = min(wanted, len(groups) - MIN_GROUPS)
    if dropped <= before.dropped:
        return None
    first = items[groups[0][0]]
    kept = items[groups[dropped][0]]
    cut = Compacted(
        id=f"{first.record_id}-left-out",
        at=whole.records[-1].at,
        summary=(),
        first=first.record_id,
        keeps_from=kept.record_id,
        kind="span",
    )
    shorter = whole.after(cut)
    # Some models refuse thinking after changed messages, and a summary does not need it.
    changes = tuple(unbound_thinking(shorter.items, items))
    bare = Replaced(id=f"{first.record_id}-thinking", at=cut.at, changes=changes, reason="thinking")
    return ShortenedView(shorter.after(bare) if changes else shorter, dropped)


def _wanted(sizes: Sequence[int], dropped: int, error: PromptTooLong, settings: CompactSettings) -> int:
    """Return how many of the oldest rounds to leave out in all."""
    if error.tokens is None or error.limit is None or error.tokens <= error.limit:
        return dropped + max(1, math.floor(len(sizes) * settings.drop_share))
    gap = error.tokens - error.limit
    for count in range(dropped + 1, len(sizes) + 1):
        if sum(sizes[dropped:count]) >= gap:
            return count
    return len(sizes)


def _tokens(items: Sequence[Item], span: tuple[int, int]) -> int:
    return sum(item.tokens for item in items[span[0] : span[1]])
