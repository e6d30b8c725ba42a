"""What of a view is what: instructions, memory, words by kind, results whole, offloaded or cleared (C34)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nacre import prompts
from nacre.agents.mailing import MAIL
from nacre.agents.planning import PLAN
from nacre.agents.recalled import RECALLED
from nacre.agents.riding import DAY, INSIDE, INSTRUCTIONS, RECORD, digest
from nacre.agents.savings import kept_out
from nacre.agents.session import OPENING
from nacre.agents.skill_list import SKILLS
from nacre.agents.team_news import AGENT, AGENT_TYPES
from nacre.agents.workplace import ENVIRONMENT
from nacre.layers.l4_compact.install import STANDING
from nacre.memory.opening import AGAIN_BEGINS, memory_part
from nacre.messages.blocks import Text, Thinking, ToolCall, ToolResult
from nacre.messages.pairing import Item, Part
from nacre.messages.records import Compacted, Noted, Said
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View

KINDS = (
    "instructions",
    "memory",
    "notes",
    "surroundings",
    "skills",
    "plan",
    "agents",
    "mail",
    "summary",
    "user_text",
    "assistant_text",
    "thinking",
    "tool_calls",
    "tool_results",
    "offloaded",
    "cleared",
    "other",
)
"""In the order people read them; `notes` are those of the session, once they stand for what was said."""
_RIDING = {
    INSTRUCTIONS: "instructions",
    RECALLED: "memory",
    DAY: "surroundings",
    SKILLS: "skills",
    PLAN: "plan",
    AGENT: "agents",
    MAIL: "mail",
    AGENT_TYPES: "agents",
}
"""By the kind of note about words that ride with a message."""
RESTORED_OPENING = prompts.load(__package__, "restored_opening")
_OFFLOADED = ("offload", "duplicate", "reread")
_SURROUNDINGS = ENVIRONMENT.partition("{{")[0]
"""How what is said about the surroundings begins."""


def parts(view: View) -> dict[str, int]:
    """Estimated tokens in view by kind; a pointer counts with what it takes itself."""
    filing = _Filing.of(view)
    found = dict.fromkeys(KINDS, 0)
    for item in view.items:
        for part in item.parts:
            for kind, tokens in _filed(item, part, filing):
                found[kind] += tokens
    return found


def opening_parts(text: str) -> dict[str, int]:
    """Estimated tokens of what stands ahead of a conversation: instructions, memory, surroundings."""
    start = text.rfind(_SURROUNDINGS)
    context, around = (text[:start], text[start:]) if start >= 0 else (text, "")
    memory = estimate_text(memory_part(context))
    return {
        "instructions": max(0, estimate_text(context) - memory),
        "memory": memory,
        "surroundings": estimate_text(around),
    }


def out_of_view(view: View) -> dict[str, int]:
    """Estimated tokens that the pointers in view stand for: what is on disk, by how it came there."""
    standing = {
        part.block.call_id for item in view.items for part in item.parts if isinstance(part.block, ToolResult)
    }
    cleared = {call for call, why in view.replaced.items() if why == "clear"}
    offloads = [note for kind in _OFFLOADED for note in view.noted(kind)]
    clears = [note for note in view.noted("clear") if not standing.isdisjoint(_calls(note) & cleared)]
    return {
        "offloaded": sum(kept_out(note) for note in offloads if note.fact("call") in standing - cleared),
        "cleared": sum(kept_out(note) for note in clears),
    }


@dataclass(frozen=True, slots=True)
class _Filing:
    """What the notes of a view say about what is in it."""

    riding: Mapping[str, str]
    """Kinds by record."""
    inside: Mapping[str, str]
    """Kinds by digest of words that ride inside a result."""
    openings: frozenset[str]
    summaries: Mapping[str, str]
    """What made them, by the record that stands in view."""
    results: Mapping[str, str]
    """Kinds of results that do not stand whole, by call."""

    @staticmethod
    def of(view: View) -> _Filing:
        notes = [(kind, note) for name, kind in _RIDING.items() for note in view.noted(name)]
        # A note without words for the model names the message it came with, which is the person's own.
        ours = {one.id for one in view.records if isinstance(one, Said) and one.meta}
        offloaded = {str(note.fact("call")) for kind in _OFFLOADED for note in view.noted(kind)}
        cleared = {call for call, why in view.replaced.items() if why == "clear"}
        return _Filing(
            riding={str(note.fact(RECORD)): kind for kind, note in notes if note.fact(RECORD) in ours},
            inside={str(note.fact(INSIDE)): kind for kind, note in notes if note.fact(INSIDE)},
            openings=frozenset(str(note.fact("record")) for note in view.noted(OPENING)),
            summaries={
                one.summary_id or one.id: one.kind for one in view.records if isinstance(one, Compacted)
            },
            results=dict.fromkeys(offloaded, "offloaded") | dict.fromkeys(cleared, "cleared"),
        )


def _filed(item: Item, part: Part, filing: _Filing) -> Iterator[tuple[str, int]]:
    """A part's tokens under what it is; some hold more than one kind."""
    match part.block:
        case Text(text) if _is_opening(item, text, filing):
            yield from opening_parts(text).items()
        case Text(text):
            yield _words(item, text, filing), part.tokens
        case Thinking():
            yield "thinking", part.tokens
        case ToolCall():
            yield "tool_calls", part.tokens
        case ToolResult() as result:
            riders = _inside(result, filing.inside) if filing.inside else Counter[str]()
            yield from riders.items()
            yield filing.results.get(result.call_id, "tool_results"), part.tokens - riders.total()
        case _:
            yield "other", part.tokens


def _is_opening(item: Item, text: str, filing: _Filing) -> bool:
    """What stands ahead of the conversation; a summary holds it beside other things (C21)."""
    if item.record_id in filing.summaries:
        return text.startswith(RESTORED_OPENING)
    return item.record_id in filing.openings


def _words(item: Item, text: str, filing: _Filing) -> str:
    if item.record_id in filing.summaries:
        is_notes = filing.summaries[item.record_id] == "notes" and text.startswith(STANDING)
        return "instructions" if text.startswith(AGAIN_BEGINS) else "notes" if is_notes else "summary"
    usual = "assistant_text" if item.role == "assistant" else "user_text"
    return filing.riding.get(item.record_id, usual)


def _inside(result: ToolResult, kinds: Mapping[str, str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in result.content:
        kind = kinds.get(digest(one.text)) if isinstance(one, Text) else None
        if kind is not None and isinstance(one, Text):
            found[kind] += estimate_text(one.text)
    return found


def _calls(note: Noted) -> set[str]:
    calls = note.fact("calls")
    return {str(call) for call in calls} if isinstance(calls, list) else set()
