"""How long notes may be: which sections must be condensed, and what is shown of those that were not (C15)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from nacre.layers.l3_notes.policy import NotesSettings
from nacre.layers.l3_notes.template import Section, Template, sections
from nacre.messages.tokens import BYTES_PER_TOKEN, estimate_text

LEFT_OUT = "[Cut here: {lines} more line{s}{where}.]"
NOTE_TOKENS = 40
"""What the note about a cut takes at most, a long path included."""


def sizes(text: str, template: Template) -> dict[str, int]:
    """Estimated tokens of what stands in each section, by its heading."""
    return {one.heading: estimate_text(one.body) for one in sections(text, template)}


def too_long(text: str, template: Template, settings: NotesSettings) -> dict[str, int]:
    """The sections to condense with their tokens, largest first: those over their budget.

    Where only all together are over theirs, the larger half of them is to give.
    """
    found = sizes(text, template)
    over = {heading: tokens for heading, tokens in found.items() if tokens > settings.section_tokens}
    if not over and sum(found.values()) > settings.total_tokens:
        fair = settings.total_tokens / max(1, len(found))
        over = {heading: tokens for heading, tokens in found.items() if tokens > fair}
    return dict(sorted(over.items(), key=lambda one: -one[1]))


def injected(text: str, template: Template, settings: NotesSettings, *, where: str = "") -> str:
    """The notes as they stand in a conversation: what says nothing is left out, what is too long is cut.

    `where` names the file, for those who want the rest.
    """
    said = [one for one in sections(text, template) if one.body]
    budget = _fair_share(said, settings)
    return "\n\n".join(f"{one.heading}\n{_cut(one.body, budget, where)}" for one in said)


def _fair_share(said: Sequence[Section], settings: NotesSettings) -> int:
    """The most a section may have so that all of them fit: the long ones give, the short ones keep theirs."""
    heads = sum(estimate_text(one.heading) + 1 for one in said)
    left, waiting = settings.total_tokens - heads, sorted(estimate_text(one.body) for one in said)
    while waiting and waiting[0] * len(waiting) <= left:
        left -= waiting.pop(0)
    fair = left // len(waiting) if waiting else settings.section_tokens
    return max(0, min(settings.section_tokens, fair))


def _cut(body: str, budget: int, where: str) -> str:
    """A section's text up to a line end within its budget; one longer line alone is cut, too."""
    if estimate_text(body) <= budget:
        return body
    room = max(0, budget - NOTE_TOKENS) * BYTES_PER_TOKEN
    lines = body.split("\n")
    ends = accumulate(len(line.encode(errors="replace")) + 1 for line in lines)
    kept = sum(end <= room for end in ends)
    shown = lines[:kept] or [lines[0].encode(errors="replace")[:room].decode(errors="ignore")]
    more = len(lines) - kept
    note = LEFT_OUT.format(lines=more, s="s" * (more != 1), where=f" in {where}" if where else "")
    return "\n".join([*shown, note])
