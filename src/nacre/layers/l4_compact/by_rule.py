"""Drafts a compaction without a model; the text of an earlier summary is taken over (C26)."""

from __future__ import annotations

from itertools import accumulate

from nacre import prompts
from nacre.layers.l4_compact.install import STANDING
from nacre.messages.blocks import Opaque, Text
from nacre.messages.draft import Draft, ItemSpan
from nacre.messages.facts import carried
from nacre.messages.records import Compacted
from nacre.messages.tokens import BYTES_PER_TOKEN, estimate_text
from nacre.messages.view import View

EARLIER = prompts.load(__package__, "earlier")
HEAD = EARLIER.partition("{{")[0]
CUT = "[Cut here: {lines} more lines.]"
ANSWER = "\nSummary:\n"
"""Marks the start of the summary in other programs' texts, after the analysis."""
SHARE = 0.4
"""Share of the room for earlier summaries, which are older than the rest."""


def by_rule(view: View, span: ItemSpan, room: int) -> Draft:
    """Return a draft without a model: the text of earlier summaries, or empty."""
    replaced = {item.record_id for item in view.items[span.first : span.keeps_from]}
    texts = [
        _said(record)
        for record in view.records
        if isinstance(record, Compacted) and (record.summary_id or record.id) in replaced
    ]
    text = _cut("\n\n".join(filter(None, texts)), int(room * SHARE))
    return Draft(kind="rules", text=prompts.render(EARLIER, text=text) if text else "")


def _said(record: Compacted) -> str:
    """Return the text of a summary without what facts carry; all of another program's summary."""
    texts = [block.text for block in record.summary if isinstance(block, Text)]
    ours = [text.removeprefix(STANDING).strip() for text in texts if text.startswith(STANDING)]
    if ours:
        # The text of a provider's block exists nowhere else.
        blocks = [block.wire.get("content") for block in record.summary if isinstance(block, Opaque)]
        signed = [text for text in blocks if isinstance(text, str)]
        return "\n\n".join([*signed, *(text.removeprefix(HEAD).strip() for text in ours)]).strip()
    # A collapsed span keeps its facts, and those are shown anyway.
    if record.kind == "span" or carried(record) is not None:
        return ""
    whole = "\n\n".join(texts).strip()
    return whole.partition(ANSWER)[2].strip() or whole


def _cut(text: str, tokens: int) -> str:
    """Return the first whole lines that fit."""
    if estimate_text(text) <= tokens:
        return text
    lines = text.split("\n")
    room = tokens * BYTES_PER_TOKEN - len(CUT) - len(str(len(lines)))
    ends = accumulate(len(line.encode(errors="replace")) + 1 for line in lines)
    kept = sum(end <= room for end in ends)
    return "\n".join([*lines[:kept], CUT.format(lines=len(lines) - kept)]) if kept else ""
