"""Notes as a summary: when they can be one, and what stays beside them."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nacre.layers.l3_notes.notes import kept_from, notes_draft
from nacre.layers.l3_notes.policy import NotesSettings
from nacre.layers.l3_notes.template import TEMPLATE
from nacre.messages.blocks import Text
from nacre.messages.draft import Draft
from nacre.messages.records import Compacted
from nacre.messages.rounds import cuts
from nacre.messages.view import View
from tests.layers.l3_notes.scenes import START, said, work

NOTES = TEMPLATE.text + "\n- a step\n"


def test_notes_with_content_are_a_draft_and_anything_else_is_none() -> None:
    """C16."""
    assert notes_draft(NOTES, TEMPLATE, "e1") == Draft(
        kind="notes", text="# Worklog\n- a step", covers="e1", metadata={"tokens": 5}
    )
    assert notes_draft(NOTES, TEMPLATE, None) is None
    assert notes_draft("", TEMPLATE, "e1") is None
    assert notes_draft(TEMPLATE.text, TEMPLATE, "e1") is None


def place(view: View, covers: str) -> str:
    where = kept_from(view, covers)
    return view.items[where].record_id if where < len(view.items) else "end"


def test_the_tail_goes_back_until_there_are_enough_tokens_and_words() -> None:
    """C16: at least 10,000 tokens and 5 messages with text, at most 40,000."""
    assert place(View.of(work(40)), "e39") == "a30"
    few_words = [said("u", "user", "go"), *work(3, tokens=8_000)]
    assert place(View.of(few_words), "e2") == "a1"
    assert place(View.of(work(60, tokens=30_000)), "e59") == "e58"


def test_what_the_notes_do_not_cover_stays_even_beyond_the_cap() -> None:
    """C16."""
    assert place(View.of(work(20, tokens=5_000)), "e9") == "u10"
    assert place(View.of(work(40)), "e35") == "a30"


def test_a_call_is_never_parted_from_its_result() -> None:
    """C16: notes that were written in mid-turn cover a call whose result came later; the cap gives way."""
    huge = View.of(work(2, tokens=90_000))
    assert place(huge, "a1") == "a1"


def test_an_unknown_anchor_keeps_everything() -> None:
    assert kept_from(View.of(work(3)), "nowhere") == 0


def test_what_an_earlier_compaction_put_there_is_not_kept_once_more() -> None:
    """C16: otherwise a short tail would reach back to it, and nothing would be compacted."""
    records = work(8)
    boundary = Compacted(
        id="k", at=START + timedelta(hours=1), summary=(Text("s" * 40_000),), keeps_from="u4"
    )
    view = View.of([*records, boundary, *(said(f"n{n}", "user", "more") for n in range(2))])
    assert view.items[0].record_id == "k"
    assert kept_from(view, "n1") == 1


@given(
    count=st.integers(1, 12),
    tokens=st.integers(0, 8_000),
    covered=st.integers(0, 47),
    least=st.integers(0, 20_000),
)
def test_the_tail_begins_at_a_safe_place_and_is_as_long_as_it_must_and_may_be(
    count: int, tokens: int, covered: int, least: int
) -> None:
    """C16."""
    view = View.of(work(count, tokens=tokens))
    items = view.items
    covered %= len(items)
    settings = NotesSettings(min_tail_tokens=least, max_tail_tokens=24_000)
    where = kept_from(view, items[covered].record_id, settings)
    safe = [cut for cut in cuts(items) if cut <= covered + 1]
    assert where in safe
    size = sum(item.tokens for item in items[where:])
    if where != safe[-1]:
        assert size <= settings.max_tail_tokens, "only what must stay goes beyond the cap"
    for earlier, later in pairwise(safe):
        if later == where:
            more = sum(item.tokens for item in items[earlier:])
            texts = sum(any(isinstance(p.block, Text) for p in item.parts) for item in items[where:])
            is_enough = size >= least and texts >= settings.min_tail_texts
            assert is_enough or more > settings.max_tail_tokens
