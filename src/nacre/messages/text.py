"""Renders a conversation as text for another model, which shares no cache.

Images become a word, and what a compaction restores by itself is left out: opening and recalled memories
(C19). The text is bounded; the oldest parts are left out first.
"""

from __future__ import annotations

import json

from nacre.messages.blocks import Block, Document, Image, Opaque, Text, Thinking, ToolCall, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Said
from nacre.messages.rounds import rounds
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View

ASIDE_TOKENS = 100_000
"""Tokens of conversation if the other model is unknown: fits every window together with a summary."""
RESULT_CHARS = 2_000
"""Maximum characters of one result."""
CALL_CHARS = 600
"""Maximum characters of the arguments of one call."""
SUMMARY = "Summary of what came before"
LEFT_OUT = "[The oldest part of the conversation had no room here.]"
SEEN = "[The earlier part of the conversation is left out: it was dealt with before.]"


def as_text(view: View, *, tokens: int = ASIDE_TOKENS, after: str | None = None) -> str:
    """Return the conversation as text of at most about `tokens`: whole rounds, newest first.

    With `after`, only what follows that record, or everything if the view does not contain it.
    """
    meta = {one.id for one in view.records if isinstance(one, Said) and one.meta}
    summaries = {one.summary_id or one.id for one in view.records if isinstance(one, Compacted)}
    parts: list[str] = []
    room = tokens
    items = view.items
    first = next((n for n in range(len(items), 0, -1) if items[n - 1].record_id == after), 0)
    spans = [(max(start, first), end) for start, end in rounds(items) if end > first]
    for start, end in reversed(spans):
        text = "\n\n".join(filter(None, (_item(item, meta, summaries) for item in items[start:end])))
        size = estimate_text(text)
        if size > room:
            # The end of the newest round is always included.
            parts.append(LEFT_OUT if parts else f"{LEFT_OUT}\n\n{_end_of(text, room)}")
            room = -1
            break
        room -= size
        parts.append(text)
    if first and room >= 0:
        parts.append(SEEN)
    return "\n\n".join(filter(None, reversed(parts)))


def _item(item: Item, meta: set[str], summaries: set[str]) -> str:
    if item.record_id in meta:
        return ""
    parts = [text for one in item.parts if (text := _block(one.block))]
    if not parts:
        return ""
    if item.record_id in summaries:  # not a user message (C20)
        speaker = SUMMARY
    elif item.role == "assistant":
        speaker = "Assistant"
    else:
        speaker = "Person" if any(isinstance(one.block, Text) for one in item.parts) else "Tools"
    return f"{speaker}:\n" + "\n".join(parts)


def _block(block: Block) -> str:
    match block:
        case Text(text):
            return text.strip()
        case ToolCall(_, name, arguments):
            return f"[calls {name} {_cut(json.dumps(arguments, ensure_ascii=False), CALL_CHARS)}]"
        case ToolResult(_, content, is_error):
            said = "\n".join(filter(None, (_block(part) for part in content)))
            return f"[{'error' if is_error else 'result'}: {_cut(said, RESULT_CHARS)}]"
        case Image():
            return "[image]"
        case Document():
            return "[document]"
        case Thinking():
            return ""
        case Opaque("tool_reference", wire):
            return f"[tool {wire.get('tool_name')}]"
        case Opaque(kind, wire):
            summary = wire.get("content")
            return summary if kind == "compaction" and isinstance(summary, str) else ""


def _cut(text: str, chars: int) -> str:
    """Return the start and end of a long text."""
    if len(text) <= chars:
        return text
    half = chars // 2
    return f"{text[:half]} [… {len(text) - chars:,} characters …] {text[-half:]}"


def _end_of(text: str, tokens: int) -> str:
    while estimate_text(text) > tokens:
        text = text[max(1, len(text) // 10) :]
    return text
