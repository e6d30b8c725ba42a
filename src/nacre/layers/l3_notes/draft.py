"""Notes as what stands for a conversation, and how much of it stays beside them (C16)."""

from __future__ import annotations

from nacre.layers.l3_notes.budget import injected
from nacre.layers.l3_notes.file import unmarked
from nacre.layers.l3_notes.policy import NACRE, NotesSettings
from nacre.layers.l3_notes.template import Template, is_bare
from nacre.messages.blocks import Text
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted
from nacre.messages.rounds import cuts
from nacre.messages.summary import Draft
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View


def notes_draft(
    text: str,
    template: Template,
    covers: str | None,
    settings: NotesSettings = NACRE,
    *,
    where: str = "",
) -> Draft | None:
    """The notes as a draft; none where nothing was written, or nobody knows what it covers."""
    text = unmarked(text)
    if covers is None or is_bare(text, template):
        return None
    shown = injected(text, template, settings, where=where)
    return Draft(kind="notes", text=shown, covers=covers, told={"tokens": estimate_text(shown)})


def kept_from(view: View, covers: str, settings: NotesSettings = NACRE) -> int:
    """The place among the view's items at which the kept tail begins; 0 if what is covered is not in view.

    Everything the notes do not know stays. Before it, whole rounds stay until there are enough tokens and
    words, or the cap is reached; a pair of call and result is never split, even if that goes beyond the cap.
    """
    items = view.items
    covered = next((n for n in range(len(items) - 1, -1, -1) if items[n].record_id == covers), None)
    if covered is None:
        return 0
    floor = _behind_summaries(view)
    places = [place for place in cuts(items) if floor <= place <= covered + 1]
    place = places.pop() if places else floor
    tokens = sum(item.tokens for item in items[place:])
    texts = sum(map(_has_text, items[place:]))
    while places and (tokens < settings.min_tail_tokens or texts < settings.min_tail_texts):
        more = items[places[-1] : place]
        tokens += sum(item.tokens for item in more)
        if tokens > settings.max_tail_tokens:
            break
        texts += sum(map(_has_text, more))
        place = places.pop()
    return place


def _behind_summaries(view: View) -> int:
    """Where what an earlier compaction put there ends: to keep that would compact nothing."""
    summaries = {one.summary_id or one.id for one in view.records if isinstance(one, Compacted)}
    return 1 + max((n for n, item in enumerate(view.items) if item.record_id in summaries), default=-1)


def _has_text(item: Item) -> bool:
    return any(isinstance(part.block, Text) and part.block.text.strip() for part in item.parts)
