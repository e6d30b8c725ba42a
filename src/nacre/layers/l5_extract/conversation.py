"""What was said since memories were last drawn from a conversation, by whose words it is (E2, M16b)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from nacre.context.privacy import TRUSTED_TOOLS, by_tools
from nacre.layers.l5_extract.judging import Heard
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.facts import Facts
from nacre.messages.records import Compacted, Noted, Record, Said
from nacre.messages.view import View
from nacre.session.attachments import INSIDE, digest


def heard_since(view: View, cursor: str | None) -> Heard:
    """What stands in view behind the cursor; all that is kept, where its message is gone (E2)."""
    items = view.items
    start = next((n for n in range(len(items), 0, -1) if items[n - 1].record_id == cursor), 0)
    new = {item.record_id for item in items[start:]}
    records = view.records
    ours = {str(one.fact(INSIDE)) for one in records if isinstance(one, Noted) and one.fact(INSIDE)}
    said = [one for one in records if isinstance(one, Said) and one.aside is None]
    behind = [one for one in said if one.id in new]
    return Heard(
        words=Facts.of(behind).words,
        replies=tuple(_by_agent(behind)),
        outside=tuple(text for text in by_tools(behind, ours) if text.strip()),
        attached=tuple(_attached(records, ours)),
        count=sum(1 for _ in groupby(items[start:], key=lambda item: item.role)),
        last=items[-1].record_id if items else "",
        calls=tuple(_calls(behind)),
    )


def has_news(records: Sequence[Record], cursor: str | None) -> bool:
    """Whether a person said something behind the cursor; looks no further back than it must."""
    for place in range(len(records) - 1, -1, -1):
        one = records[place]
        if one.id == cursor:
            return False
        if isinstance(one, Said) and _is_persons(one):
            return True
    return False


def _is_persons(said: Said) -> bool:
    is_user = said.role == "user" and not said.meta and said.aside is None
    return is_user and any(isinstance(block, Text) for block in said.blocks)


def _by_agent(records: Sequence[Said]) -> Iterator[str]:
    """Its replies, and what it put into its calls."""
    for block in _blocks(records, role="assistant"):
        if isinstance(block, Text):
            yield block.text
        elif isinstance(block, ToolCall):
            yield json.dumps(block.input, ensure_ascii=False)


def _attached(records: Sequence[Record], ours: set[str]) -> Iterator[str]:
    """What nacre told the model: beside words, inside results, as a summary, or by its own tools."""
    trusted: set[str] = set()
    for one in records:
        if isinstance(one, Compacted):
            yield from (block.text for block in one.summary if isinstance(block, Text))
        if not isinstance(one, Said) or one.aside is not None:
            continue
        for block in one.blocks:
            if isinstance(block, Text) and one.meta:
                yield block.text
            elif isinstance(block, ToolCall) and block.name in TRUSTED_TOOLS:
                trusted.add(block.id)
            elif isinstance(block, ToolResult):
                texts = (part.text for part in block.content if isinstance(part, Text))
                yield from (text for text in texts if block.call_id in trusted or digest(text) in ours)


def _calls(records: Sequence[Said]) -> Iterator[tuple[str, str]]:
    for block in _blocks(records, role="assistant"):
        if isinstance(block, ToolCall):
            yield block.name, str(block.input.get("command", ""))


def _blocks(records: Sequence[Said], *, role: str) -> Iterator[object]:
    return (block for one in records if one.role == role for block in one.blocks)
