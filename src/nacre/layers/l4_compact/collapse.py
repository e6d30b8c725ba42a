"""Finished spans told in few words: by a model in a fork, or by rule; staged as notes, then committed (C30).

What a person said is never in a span and so never told by a model. Every summary is checked before it is
kept: one that is empty, refused, a call, or no shorter than its span is rejected (C23c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from nacre import prompts
from nacre.clock import Clock
from nacre.errors import SummaryRejected
from nacre.layers.l4_compact.collapse_policy import DEFAULT, CollapseSettings, FinishedSpan, place_of
from nacre.layers.l4_compact.summarise import refused
from nacre.loop.fork import Errand, Fork, Forked
from nacre.messages.blocks import Block, Json, JsonObject, Opaque, Text, Thinking, ToolResult
from nacre.messages.facts import Facts
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Noted, Record, Replaced, ReplyFacts, Said
from nacre.messages.rewrite import without_thinking
from nacre.messages.skeleton import show_deeds
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View

COLLAPSE = prompts.load(__package__, "collapse")
STAGED = "collapse_staged"
"""The kind of note that holds a summary until it is committed."""
HEAD = "[What you did here, in summary; the whole of it is in the session's log.]"
SUMMARY = re.compile(r"<summary>(.*)</summary>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A summary that waits to be committed."""

    id: str
    span: FinishedSpan
    text: str
    by: Literal["model", "rule"] = "model"

    @property
    def gain(self) -> int:
        """Estimated tokens that committing it frees."""
        return self.span.tokens - estimate_text(shown(self.text))


def shown(text: str) -> str:
    """A summary as the model reads it."""
    return f"{HEAD}\n\n{text.strip()}"


async def summarise_span(
    view: View, span: FinishedSpan, fork: Fork, *, settings: CollapseSettings = DEFAULT
) -> str:
    """Ask a model about one span; raises `SummaryRejected`, or what the provider raises."""
    # Only the span and the words before it: cheaper than the whole conversation, and never too long for it.
    errand = Errand(
        source="compact",
        directive=COLLAPSE,
        max_output=settings.summary_tokens,
        view=_alone(view, span),
    )
    return checked(await fork(errand), span)


def checked(forked: Forked, span: FinishedSpan) -> str:
    """The summary in a fork's reply, if it can stand for the span (C23c)."""
    if reason := refused(forked):
        raise SummaryRejected(reason)
    found = SUMMARY.search(forked.text)
    if found is None:
        raise SummaryRejected("the reply holds no summary")
    return _fitting(found[1].strip(), span)


def by_rule(view: View, span: FinishedSpan, *, settings: CollapseSettings = DEFAULT) -> str:
    """A span told without a model: one line a call; raises `SummaryRejected` where that is no shorter."""
    inside = set(span.records)
    facts = Facts.of(one for one in view.records if isinstance(one, Said) and one.id in inside)
    text = show_deeds(facts, round(span.tokens * settings.rule_share)).text
    return _fitting(text.strip(), span)


def staged_note(staged: Staged, clock: Clock) -> Noted:
    """For the log, so that a resumed session has it, too."""
    span = staged.span
    facts: JsonObject = {
        "first": span.first,
        "keeps_from": span.keeps_from,
        "records": list[Json](span.records),
        "tokens": span.tokens,
        "text": staged.text,
        "by": staged.by,
    }
    return Noted(id=staged.id, at=clock.now(), kind=STAGED, facts=facts)


def staged_of(note: Noted) -> Staged | None:
    """What a note holds; none where it has another shape."""
    match note.facts:
        case {
            "first": str(first),
            "keeps_from": str(behind),
            "records": list(records),
            "tokens": int(tokens),
            "text": str(text),
        } if text.strip():
            inside = tuple(one for one in records if isinstance(one, str))
            span = FinishedSpan(first=first, keeps_from=behind, records=inside, tokens=tokens)
            by: Literal["model", "rule"] = "rule" if note.fact("by") == "rule" else "model"
            return Staged(id=note.id, span=span, text=text, by=by)
        case _:
            return None


def spent(view: View) -> frozenset[str]:
    """Records whose span was committed once; where that was undone, a person wants the original."""
    return frozenset(
        str(name)
        for record in view.records
        if isinstance(record, Compacted) and record.kind == "span"
        for name in _listed(record.extra.get("records"))
    )


def commit(
    view: View, chosen: Sequence[Staged], clock: Clock, *, drops_thinking: bool = False
) -> list[Record]:
    """The records by which summaries take the place of their spans; spans that do not stand are left out."""
    standing = [one for one in chosen if place_of(view, one.span) is not None]
    records: list[Record] = []
    if drops_thinking and standing and (thinking := tuple(without_thinking(view.items))):
        records.append(Replaced(id=clock.new_id(), at=clock.now(), changes=thinking, reason="thinking"))
    return [*records, *(_committed(one, clock) for one in standing)]


def _committed(staged: Staged, clock: Clock) -> Compacted:
    text, span = shown(staged.text), staged.span
    return Compacted(
        id=clock.new_id(),
        at=clock.now(),
        summary=(Text(text),),
        first=span.first,
        keeps_from=span.keeps_from,
        summary_id=clock.new_id(),
        kind="span",
        pre_tokens=span.tokens,
        post_tokens=estimate_text(text),
        extra={"by": staged.by, "records": list[Json](span.records)},
    )


def _fitting(text: str, span: FinishedSpan) -> str:
    if not text:
        raise SummaryRejected("the summary is empty")
    if estimate_text(shown(text)) >= span.tokens:
        raise SummaryRejected("the summary is no shorter than what it is about")
    return text


def _alone(view: View, span: FinishedSpan) -> View:
    """A span with the person's words before it, without thinking, which is bound to what is not here."""
    inside = set(span.records)
    asked: Said | None = None
    by_id = {one.id: one for one in view.records if isinstance(one, Said)}
    items: list[Item] = []
    for item in view.items:
        said = by_id.get(item.record_id)
        if item.record_id == span.keeps_from:
            break
        if item.record_id in inside:
            items.append(item)
        elif not items and said is not None and item.role == "user" and not said.meta and _speaks(item):
            asked = said
    spoken = [asked] if asked is not None else []
    return View.of([*spoken, *(_said(item, by_id[item.record_id]) for item in items)])


def _said(item: Item, said: Said) -> Said:
    reply = ReplyFacts(id=item.reply_id) if item.role == "assistant" else None
    blocks = tuple(_without_thoughts(part.block for part in item.parts))
    return Said(id=item.record_id, at=said.at, role=item.role, blocks=blocks, reply=reply, meta=said.meta)


def _without_thoughts(blocks: Iterable[Block]) -> Iterable[Block]:
    for block in blocks:
        match block:
            case Thinking() | Opaque(kind="redacted_thinking"):
                pass
            case _:
                yield block


def _speaks(item: Item) -> bool:
    return any(not isinstance(part.block, ToolResult) for part in item.parts)


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
