"""What the summary of an earlier compaction said: rules cannot tell it anew, so it is handed on (C26)."""

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
"""Where other programs' summaries begin, behind the thoughts that led to them."""
SHARE = 0.4
"""Of the room: it stands for all that came before, but it is older than what else needs a place."""


def by_rule(view: View, span: ItemSpan, room: int) -> Draft:
    """A draft without a model: empty, or what was summarised before in words that facts do not have."""
    replaced = {item.record_id for item in view.items[span.first : span.keeps_from]}
    texts = [
        _said(record)
        for record in view.records
        if isinstance(record, Compacted) and (record.summary_id or record.id) in replaced
    ]
    text = _cut("\n\n".join(filter(None, texts)), int(room * SHARE))
    return Draft(kind="rules", text=prompts.render(EARLIER, text=text) if text else "")


def _said(record: Compacted) -> str:
    """The draft's own words, without what facts carry anyway; of another program's summary, all of it."""
    texts = [block.text for block in record.summary if isinstance(block, Text)]
    ours = [text.removeprefix(STANDING).strip() for text in texts if text.startswith(STANDING)]
    if ours:
        # A provider's block can be read, too, and nobody else knows what it says.
        blocks = [block.wire.get("content") for block in record.summary if isinstance(block, Opaque)]
        signed = [text for text in blocks if isinstance(text, str)]
        return "\n\n".join([*signed, *(text.removeprefix(HEAD).strip() for text in ours)]).strip()
    # A span that was put in other words keeps its facts, and they are told anyway.
    if record.kind == "span" or carried(record) is not None:
        return ""
    whole = "\n\n".join(texts).strip()
    return whole.partition(ANSWER)[2].strip() or whole


def _cut(text: str, tokens: int) -> str:
    """As many whole lines from its beginning as there is room for."""
    if estimate_text(text) <= tokens:
        return text
    lines = text.split("\n")
    room = tokens * BYTES_PER_TOKEN - len(CUT) - len(str(len(lines)))
    ends = accumulate(len(line.encode(errors="replace")) + 1 for line in lines)
    kept = sum(end <= room for end in ends)
    return "\n".join([*lines[:kept], CUT.format(lines=len(lines) - kept)]) if kept else ""
