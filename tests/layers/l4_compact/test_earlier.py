"""What an earlier summary said outlives a compaction by rule."""

from __future__ import annotations

from datetime import UTC, datetime

from nacre.layers.l4_compact.by_rule import HEAD, by_rule
from nacre.layers.l4_compact.install import STANDING, CompactionLimits, SummaryMaterial, divide_room, install
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.messages.blocks import Opaque, Text
from nacre.messages.draft import WHOLE, Draft, ItemSpan
from nacre.messages.facts import Facts
from nacre.messages.records import Compacted, Record, Said
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from nacre.testing import FrozenClock

AT = datetime(2026, 1, 2, tzinfo=UTC)
CLOCK = FrozenClock()
ROOM = 4_000


def said(n: int) -> Said:
    return Said(id=f"u{n}", at=AT, role="user", blocks=(Text(f"wish {n} " * 20),))


def foreign(text: str) -> Compacted:
    return Compacted(id="c", at=AT, summary=(Text(text),), keeps_from=None, summary_id="s")


def put(records: list[Record], draft: Draft) -> list[Record]:
    """The records with this draft installed behind them."""
    view = View.of(records)
    facts = Facts.of(records)
    shares = divide_room(
        view, draft, facts, CompactionLimits(room=ROOM, settings=CompactSettings(tail_tokens=50))
    )
    return [
        *records,
        *install(view, draft, shares, SummaryMaterial(), summary_id=f"s{len(records)}", clock=CLOCK),
    ]


def test_another_program_s_summary_is_handed_on_whole() -> None:
    """C26: what stands for everything before it is known from nowhere else."""
    view = View.of([said(1), foreign("the tests must run as dev2"), said(2)])
    assert by_rule(view, WHOLE, ROOM).text == f"{HEAD}the tests must run as dev2"


def test_the_thoughts_ahead_of_another_program_s_summary_take_no_room() -> None:
    """C19: a draft's analysis is nobody's business but its writer's."""
    view = View.of([foreign("Continued.\n\nAnalysis:\nLet me see.\n\nSummary:\n1. Intent: fix it")])
    assert by_rule(view, WHOLE, ROOM).text == f"{HEAD}1. Intent: fix it"


def test_of_our_own_summary_only_the_draft_is_handed_on_however_often() -> None:
    """C26: words and actions are told anew, so that nothing stands twice."""
    records = put([said(1), said(2)], Draft(kind="full", text="## Current work\n\nhalf done"))
    for n in range(3, 6):
        records = put([*records, said(n)], by_rule(View.of(records), WHOLE, ROOM))
    texts = [block.text for block in records[-1].summary if isinstance(block, Text)]  # type: ignore[union-attr]
    whole = "\n".join(texts)
    assert whole.count("## Current work\n\nhalf done") == 1
    assert whole.count(HEAD.splitlines()[0]) == 1
    assert whole.count("wish 1 wish 1") <= 20


def test_a_summary_that_stays_where_it_is_is_not_told_twice() -> None:
    """C23: a part behind it is compacted, and it stands before."""
    view = View.of([foreign("old"), said(1), said(2)])
    assert by_rule(view, ItemSpan(first=1), ROOM) == Draft(kind="rules")


def test_a_long_one_is_cut_at_a_line_and_says_so() -> None:
    """C21: it may not take the room of what is newer."""
    text = "\n".join(f"line {n}" for n in range(5_000))
    draft = by_rule(View.of([foreign(text)]), WHOLE, 1_000)
    assert estimate_text(draft.text) <= 400 + estimate_text(HEAD)
    assert draft.text.startswith(f"{HEAD}line 0\nline 1\n")
    assert draft.text.endswith(" more lines.]")


def test_without_any_summary_rules_say_nothing() -> None:
    """C26: facts alone."""
    assert by_rule(View.of([said(1), said(2)]), WHOLE, ROOM) == Draft(kind="rules")


def test_what_a_provider_s_block_says_is_handed_on() -> None:
    """C23b, C26: rules cannot read it out of anything else."""
    block = Opaque("compaction", {"type": "compaction", "content": "half done", "signature": "x"})
    compacted = Compacted(id="k", at=AT, summary=(block, Text(STANDING)), kind="provider")
    assert by_rule(View.of([said(1), said(2), compacted, said(3)]), WHOLE, ROOM).text == f"{HEAD}half done"
