"""A summary by another model than the session's: no cache is shared, so it gets the conversation as text.

Pictures become a word, and what a compaction restores by itself is left out: opening and recalled memories
(C19). The text is bounded; of what has no room, the oldest goes first.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence

from nacre import prompts
from nacre.errors import PromptTooLong
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.layers.l4_compact.summarise import accepted, directive
from nacre.messages.blocks import Block, Document, Image, Opaque, Text, Thinking, ToolCall, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.records import Said
from nacre.messages.rounds import rounds
from nacre.messages.summary import Draft
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View

ASIDE = prompts.load(__package__, "aside")
ASIDE_ASK = prompts.load(__package__, "aside_ask")

Ask = Callable[[str, str], Awaitable[str]]
"""Asks a model once: system and text in, its words back."""

ASIDE_TOKENS = 100_000
"""Of conversation, when nothing is known of the other model: fits every window in use beside a summary."""
RESULT_CHARS = 2_000
"""Of one result: enough to tell what it said; the other model cannot read more of it anyway."""
CALL_CHARS = 600
"""Of the arguments of one call."""
LEFT_OUT = "[The oldest part of the conversation had no room here.]"


async def summarise_aside(
    view: View,
    ask: Ask,
    *,
    focus: str = "",
    words: Sequence[str] = (),
    settings: CompactSettings,
    tokens: int = ASIDE_TOKENS,
) -> Draft:
    """A checked summary of the view; raises `SummaryRejected`, or what the provider raises (F7)."""
    said = directive(focus=focus)
    for tries in range(1, settings.max_retries + 2):
        text = prompts.render(ASIDE_ASK, conversation=fallback_text(view, tokens=tokens), directive=said)
        try:
            reply = await ask(ASIDE, text)
        except PromptTooLong:
            if tries > settings.max_retries:
                raise
            tokens = int(min(tokens, estimate_text(text)) * (1 - settings.drop_share))
        else:
            return accepted(reply, words, replaced=view.estimate, told={"tries": tries, "aside": True})
    raise AssertionError("the last try returns or raises")


def fallback_text(view: View, *, tokens: int = ASIDE_TOKENS) -> str:
    """The conversation as plain text of at most about so many tokens: whole rounds, the newest first."""
    meta = {one.id for one in view.records if isinstance(one, Said) and one.meta}
    told: list[str] = []
    room = tokens
    spans = rounds(view.items)
    for start, end in reversed(spans):
        text = "\n\n".join(filter(None, (_item(item, meta) for item in view.items[start:end])))
        size = estimate_text(text)
        if size > room:
            # Of the newest round at least its end is told, however large it is.
            told.append(LEFT_OUT if told else f"{LEFT_OUT}\n\n{_end_of(text, room)}")
            break
        room -= size
        told.append(text)
    return "\n\n".join(filter(None, reversed(told)))


def _item(item: Item, meta: set[str]) -> str:
    if item.record_id in meta:
        return ""
    parts = [text for one in item.parts if (text := _block(one.block))]
    if not parts:
        return ""
    has_words = any(isinstance(one.block, Text) for one in item.parts)
    who = "Assistant" if item.role == "assistant" else ("Person" if has_words else "Tools")
    return f"{who}:\n" + "\n".join(parts)


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
        case Opaque(kind, wire):
            summary = wire.get("content")
            return summary if kind == "compaction" and isinstance(summary, str) else ""


def _cut(text: str, chars: int) -> str:
    """Head and end of a long text."""
    if len(text) <= chars:
        return text
    half = chars // 2
    return f"{text[:half]} [… {len(text) - chars:,} characters …] {text[-half:]}"


def _end_of(text: str, tokens: int) -> str:
    while estimate_text(text) > tokens:
        text = text[max(1, len(text) // 10) :]
    return text
