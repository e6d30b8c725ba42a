"""Ask the session's own model for a summary, in a fork that reads the conversation from its cache (C18, C19).

What comes back is checked before anybody may use it: a summary that is none, or that puts words into a
person's mouth, never reaches a conversation (C20, C23c).
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nacre import prompts
from nacre.errors import PromptTooLong, SummaryRejected
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.layers.l4_compact.quotes import Checked, checked
from nacre.layers.l4_compact.sections import USER_MESSAGES, Parsed, parse
from nacre.loop.fork import Fork, ForkResult, ForkTask
from nacre.messages.blocks import JsonObject, Text
from nacre.messages.draft import Draft
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Replaced
from nacre.messages.rewrite import without_thinking
from nacre.messages.rounds import rounds
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View

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
"""All of a view, what begins with a pivot, or what stands before it (C23)."""


@dataclass(frozen=True, slots=True)
class Part:
    """How much of a view is summarised."""

    side: Side = "all"
    pivot: str | None = None
    """A record's id; with `up_to` it is the first that stays."""


WHOLE = Part()

PIVOT_CHARS = 300
"""Enough of a message to find it by."""
CUT_OFF = frozenset({"max_tokens", "length", "model_context_window_exceeded"})
REFUSED = frozenset({"refusal", "content_filter"})
_REFUSAL = re.compile(
    r"\W*(?:i['’]?m (?:very )?sorry|i (?:cannot|can['’]?t|am unable|won['’]?t|am not able)|unfortunately, i"
    r"|抱歉|对不起|我无法|我不能)",
    re.IGNORECASE,
)
REASON_CHARS = 120
"""Of a reply that is quoted in a reason."""


async def summarise(
    view: View,
    fork: Fork,
    *,
    focus: str = "",
    words: Sequence[str] = (),
    settings: CompactSettings,
    part: Part = WHOLE,
) -> Draft:
    """A checked summary of a view or a part of it; raises `SummaryRejected`, or what the provider raises.

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
    told: JsonObject = {"tries": tries, "left_out_rounds": dropped}
    covers = view.items[place - 1].record_id if side == "up_to" else None
    size = sum(item.tokens for item in replaced)
    # Beside the loop: to look everything up that a long reply quotes takes a while.
    return await asyncio.to_thread(accepted, forked.text, words, replaced=size, covers=covers, told=told)


def accepted(
    reply: str,
    words: Sequence[str],
    *,
    replaced: int,
    covers: str | None = None,
    told: JsonObject | None = None,
) -> Draft:
    """The reply as a draft, or `SummaryRejected` with the reason (C23c)."""
    if not reply.strip():
        raise SummaryRejected("the summary is empty")
    parsed = parse(reply)
    if not parsed.sections and _REFUSAL.match(reply):
        raise SummaryRejected(f"the model would not summarise: {_line(reply)}")
    if missing := parsed.missing:
        raise SummaryRejected(f"the summary lacks {', '.join(missing)}")
    sifted, looked_up = _sifted(parsed, words)
    # What was dropped may have been all that a section said.
    if emptied := sifted.missing:
        raise SummaryRejected(f"without words the person never said, the summary lacks {', '.join(emptied)}")
    text = sifted.render()
    size = estimate_text(text)
    if size >= replaced:
        raise SummaryRejected(f"the summary has {size:,} tokens and would stand for {replaced:,}")
    dropped = [one for done in looked_up for one in done.dropped]
    facts: JsonObject = {
        **(told or {}),
        "quotations": sum(done.kept for done in looked_up),
        "dropped": [*dropped],
    }
    return Draft(kind="full", text=text, covers=covers, told=facts)


def directive(side: Side = "all", *, focus: str = "", pivot: str = "") -> str:
    """The one message at the end of the conversation."""
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
    """Why what a fork brought back is no summary whatever it says; empty where nothing speaks against it."""
    if any(reply.tool_calls for reply in forked.replies):
        return "the model called a tool instead of writing a summary"
    if forked.stop_reason in CUT_OFF:
        return "the summary was cut off at the output limit"
    if forked.stop_reason in REFUSED:
        return "the model would not summarise"
    return "" if forked.text.strip() else "the summary is empty"


def before_pivot(view: View, place: int) -> View:
    """The view as it was before an item: the same bytes, so that they are read from the cache."""
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


def _sifted(parsed: Parsed, words: Sequence[str]) -> tuple[Parsed, list[Checked]]:
    kept = [one for one in parsed.sections if one.number != USER_MESSAGES]
    done = [checked(one.body, words) for one in kept]
    return Parsed(tuple(replace(one, body=new.text) for one, new in zip(kept, done, strict=True))), done


async def _asked(
    whole: View, fork: Fork, said: str, settings: CompactSettings
) -> tuple[ForkResult, int, int]:
    """What the fork brought back, at which try, and how many rounds it did not see (C24)."""
    now = Shortened(whole)
    for tries in range(1, settings.max_retries + 2):
        errand = ForkTask(
            source="compact", directive=said, max_rounds=1, max_output=settings.summary_tokens, view=now.view
        )
        try:
            return await fork(errand), tries, now.dropped
        except PromptTooLong as error:
            shorter = shorten(whole, now, error, settings=settings)
            if shorter is None or tries > settings.max_retries:
                raise
            now = shorter
    raise AssertionError("the last try returns or raises")


def _place(view: View, part: Part) -> int:
    if part.side == "all":
        return 0
    is_earlier = part.side == "up_to"
    found = [place for place, item in enumerate(view.items) if item.record_id == part.pivot]
    if not found or (is_earlier and found[0] == 0):
        side = "before" if is_earlier else "from"
        raise SummaryRejected(f"there is nothing to summarise {side} {part.pivot}")
    return found[0]


def _excerpt(view: View, place: int) -> str:
    """The pivot's words, or those nearest behind it that can be told."""
    for item in view.items[place:]:
        texts = [one.block.text for one in item.parts if isinstance(one.block, Text)]
        if joined := "\n".join(texts).strip():
            return f"{'The person' if item.role == 'user' else 'You'}: {joined[:PIVOT_CHARS]}"
    return "(the last round of tool calls)"


def _line(text: str) -> str:
    return " ".join(text.split())[:REASON_CHARS]


MIN_GROUPS = 1
"""Of the rounds, so many are always left: a summary of nothing is of no use."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A view without its oldest rounds; always made from the whole one."""

    view: View
    dropped: int = 0
    """Rounds that were left out."""


def shorten(
    whole: View, before: Shortened, error: PromptTooLong, *, settings: CompactSettings
) -> Shortened | None:
    """What to try after this error; none where nothing more can be left out.

    It begins again from the whole view, so that what stands in for a lost beginning never piles up. A summary
    that opens the view is the only memory of all before it, and stays.
    """
    items = whole.items
    groups = rounds(items)
    if len(groups) > MIN_GROUPS + 1 and _opens_with_summary(whole):
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
    # Some models refuse thinking whose past changed, and a summary does not need it.
    changes = tuple(without_thinking(shorter.items))
    bare = Replaced(id=f"{first.record_id}-thinking", at=cut.at, changes=changes, reason="thinking")
    return Shortened(shorter.after(bare) if changes else shorter, dropped)


def _wanted(sizes: Sequence[int], dropped: int, error: PromptTooLong, settings: CompactSettings) -> int:
    """How many of the oldest go now, those that went before among them."""
    if error.tokens is None or error.limit is None or error.tokens <= error.limit:
        return dropped + max(1, math.floor(len(sizes) * settings.drop_share))
    gap = error.tokens - error.limit
    for count in range(dropped + 1, len(sizes) + 1):
        if sum(sizes[dropped:count]) >= gap:
            return count
    return len(sizes)


def _tokens(items: Sequence[Item], span: tuple[int, int]) -> int:
    return sum(item.tokens for item in items[span[0] : span[1]])


def _opens_with_summary(view: View) -> bool:
    first = view.items[0].record_id
    return any(isinstance(one, Compacted) and (one.summary_id or one.id) == first for one in view.records)
