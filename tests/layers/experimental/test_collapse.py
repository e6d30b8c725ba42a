"""Collapse as records: which spans there are, what is rejected, and that any commits leave a valid view."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import SummaryRejected
from nacre.layers.experimental.collapse import (
    HEAD,
    Staged,
    by_rule,
    checked,
    commit,
    spent,
    staged_note,
    staged_of,
    summarise_span,
)
from nacre.layers.experimental.collapse_policy import (
    CollapseSettings,
    FinishedSpan,
    finished_spans,
    place_of,
    urgency,
)
from nacre.layers.experimental.snip import choose, snip
from nacre.loop.fork import ForkResult, ForkTask
from nacre.messages.blocks import Block, Message, Text, ToolCall
from nacre.messages.records import Compacted, Noted, Record, Undone
from nacre.messages.transcript import Transcript
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.testing import FrozenClock
from tests.layers.l4_compact.turns import START, is_valid, on_disk, talk, turn
from tests.messages.strategies import logs

EFFECTIVE = 10_000
SMALL = CollapseSettings(tail_tokens=500, span_tokens=1_000, min_tokens=100)


def spans_of(view: View, **given: object) -> list[FinishedSpan]:
    return finished_spans(view, EFFECTIVE, settings=SMALL, **given)  # type: ignore[arg-type]


def staged(span: FinishedSpan, n: int = 0, text: str = "read two files; all is well") -> Staged:
    return Staged(id=f"staged-{n}", span=span, text=text)


def forked(*blocks: Block, stop_reason: str | None = "end_turn") -> ForkResult:
    replies = [Message("assistant", blocks)]
    return ForkResult(
        source="compact", replies=replies, usage=Usage(), first=Usage(), stop_reason=stop_reason
    )


def people_in(view: View) -> list[str]:
    """The person's words in the order they stand."""
    texts = [
        str(block["text"])
        for message in view.messages
        for block in message["content"]  # type: ignore[union-attr]
        if isinstance(block, dict) and block.get("type") == "text"
    ]
    return [text for text in texts if text.startswith(("question", "and now"))]


def test_a_span_runs_from_behind_a_persons_words_to_the_next() -> None:
    """C30: an assistant's turn with its calls and results; the newest stay."""
    view = View.of(talk(4))
    assert [(one.first, one.keeps_from) for one in spans_of(view)] == [
        ("a0.0", "u1"),
        ("a1.0", "u2"),
        ("a2.0", "u3"),
    ]
    assert spans_of(view)[0].records == ("a0.0", "r0.0", "r0.0-tag", "a0.1", "r0.1", "r0.1-tag", "end0")


def test_a_long_turn_is_cut_between_rounds_and_what_may_grow_is_left() -> None:
    """C30: one question and hours of work is collapsed, too; its newest part only when nothing else helps."""
    view = View.of(turn(0, 1, rounds=12))
    assert [(one.first, one.keeps_from) for one in spans_of(view)] == [
        ("a0.0", "a0.4"),
        ("a0.4", "a0.8"),
    ]
    last = spans_of(view, to_the_last=True)[-1]
    assert (last.first, last.keeps_from) == ("a0.8", "a0.10")


def test_held_results_and_taken_records_stay_outside() -> None:
    """C30: a pinned result stays whole, with its round; what has a summary needs no second one."""
    view = View.of(talk(4))
    held = spans_of(view, held=frozenset({"c0.0"}))
    assert held[0].records[0] == "a0.1"
    taken = spans_of(view, taken=frozenset(spans_of(view)[0].records))
    assert [one.first for one in taken] == ["a1.0", "a2.0"]


def test_pressure_says_how_pressing_it_is() -> None:
    """C30: from 90 %, waiting at 95 %, everything on a refusal."""
    levels = [urgency(n, 100, is_refused=False) for n in (89, 90, 94, 95, 120)]
    assert levels == ["none", "commit", "commit", "wait", "wait"]
    assert urgency(10, 100, is_refused=True) == "all"


def test_a_commit_puts_the_summary_in_place_and_keeps_the_persons_words() -> None:
    """C30, C20: one record a span; what stands around it does not change."""
    view = View.of(talk(4))
    records = commit(view, [staged(one, n) for n, one in enumerate(spans_of(view))], FrozenClock())
    after = view.after(*records)
    assert [type(record) for record in records] == [Compacted] * 3
    assert people_in(after) == ["question 0", "question 1", "question 2", "question 3", "and now?"]
    assert str(after.messages).count(HEAD) == 3
    assert after.estimate < view.estimate - 1_500
    assert after.epochs == ("compact",) * 3
    assert is_valid(after.messages)
    assert spans_of(after) == []


def test_a_span_that_changed_meanwhile_is_not_committed() -> None:
    """C30: snipped or compacted since, its summary would say what nobody sees any more."""
    view = View.of(talk(4))
    first, second, _ = spans_of(view)
    cut = view.after(*snip(view, choose(view, [2]), FrozenClock()).records)
    assert place_of(cut, first) is None
    assert place_of(cut, second) is not None
    folded = view.after(Compacted(id="k", at=START, summary=(Text("all"),), keeps_from="u2", summary_id="s"))
    assert commit(folded, [staged(first), staged(second)], FrozenClock()) == []
    assert place_of(view, second, frozenset({"c1.1"})) is None


def test_what_was_undone_is_known_to_have_been_committed() -> None:
    """C30: a person who wants the original gets it for good."""
    view = View.of(talk(4))
    (record,) = commit(view, [staged(spans_of(view)[0])], FrozenClock())
    back = view.after(record, Undone(id="x", at=START, target=record.id))
    assert back.messages == view.messages
    assert spent(back) == frozenset(spans_of(view)[0].records)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (forked(Text("")), "is empty"),
        (forked(Text("I did this and that.")), "holds no summary"),
        (forked(Text("<summary> \n</summary>")), "is empty"),
        (forked(Text("<summary>ok</summary>"), ToolCall("c", "Read", {})), "called a tool"),
        (forked(Text("<summary>sorry</summary>"), stop_reason="refusal"), "would not"),
        (forked(Text("<summary>no</summary>"), stop_reason="content_filter"), "would not"),
        (forked(Text("<summary>so f</summary>"), stop_reason="max_tokens"), "cut off"),
        (forked(Text(f"<summary>{'word ' * 2_000}</summary>")), "no shorter"),
    ],
)
def test_a_summary_that_cannot_stand_for_its_span_is_rejected(reply: ForkResult, why: str) -> None:
    """C23c."""
    with pytest.raises(SummaryRejected, match=why):
        checked(reply, spans_of(View.of(talk(4)))[0])


async def test_the_model_sees_the_span_and_the_question_before_it_and_no_thinking() -> None:
    """C30: cheaper than the whole conversation, and never too long."""
    sent: list[ForkTask] = []

    async def fork(errand: ForkTask) -> ForkResult:
        sent.append(errand)
        return forked(Text("Here it is.\n<summary>\nread both\n</summary>"))

    view = View.of(talk(4, thinking=True))
    assert await summarise_span(view, spans_of(view)[1], fork) == "read both"
    (errand,) = sent
    assert errand.source == "compact"
    assert errand.may is None
    assert errand.view is not None
    seen = str(errand.view.messages)
    assert "question 1" in seen
    assert "result 1.1" in seen
    assert not any(word in seen for word in ("question 0", "result 0", "question 2", "signed"))
    assert is_valid(errand.view.messages)


def test_rules_tell_every_call_in_a_line() -> None:
    """C30, C17: without a model a span still gets smaller."""
    view = View.of(talk(4))
    span = spans_of(view)[0]
    text = by_rule(view, span)
    assert text.count("Bash") == 2
    assert "answer 0" in text
    tiny = FinishedSpan(first="end0", keeps_from="u1", records=("end0",), tokens=3)
    with pytest.raises(SummaryRejected):
        by_rule(view, tiny)


def test_a_staged_summary_comes_back_from_its_note() -> None:
    """C30: a resumed session has it; a note of another shape is none."""
    one = staged(spans_of(View.of(talk(4)))[0])
    assert staged_of(staged_note(one, FrozenClock())) == one
    assert staged_of(Noted(id="n", at=START, kind="collapse_staged", facts={"first": 1})) is None


def test_thinking_goes_in_the_same_decision_where_it_is_bound() -> None:
    """C12b."""
    view = View.of(talk(4, thinking=True))
    after = view.after(*commit(view, [staged(spans_of(view)[0])], FrozenClock(), drops_thinking=True))
    assert "signed" not in str(after.messages)
    assert after.epochs == ("thinking", "compact")


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.lists(st.sampled_from(["commit", "snip", "undo"]), max_size=6),
    st.data(),
)
def test_any_commits_and_snips_leave_a_valid_conversation_that_replays(
    sizes: Sequence[int], acts: Sequence[str], data: st.DataObject
) -> None:
    """C30, C29, T6, T3: pairs whole, roles in turn, every word of the person raw, and the same from disk."""
    clock, number, records = FrozenClock(), 1, list[Record]()
    for n, rounds in enumerate(sizes):
        records += turn(n, number, rounds=rounds)
        number += rounds + 1
    view = View.of(records)
    said = people_in(view)
    done: list[str] = []
    for act in acts:
        before = view.estimate
        if act == "commit":
            found = spans_of(view, taken=spent(view), to_the_last=data.draw(st.booleans()))
            wanted = [one for one in found if data.draw(st.booleans())]
            new = commit(view, [staged(one) for one in wanted], clock)
            view = view.after(*new)
            done += [record.id for record in new]
            assert view.estimate < before or not new
        elif act == "snip":
            results = {one for one in range(number) if data.draw(st.booleans())} - _words(sizes)
            new = list(snip(view, choose(view, results), clock).records)
            view = view.after(*new)
            assert view.estimate <= before
        elif done:
            target = data.draw(st.sampled_from(done))
            view = view.after(Undone(id=clock.new_id(), at=START, target=target))
        assert people_in(view) == said
        assert is_valid(view.messages)
    assert Transcript(view.records).view == view
    assert View.of(on_disk(view.records)) == view


def _words(sizes: Sequence[int]) -> set[int]:
    """The numbers of the person's own messages."""
    numbers, number = set[int](), 1
    for rounds in sizes:
        numbers.add(number)
        number += rounds + 1
    return numbers


@given(logs(), st.booleans())
def test_spans_of_any_log_hold_no_persons_word_and_commit_to_a_valid_view(
    log: list[Record], to_the_last: bool
) -> None:
    """C30, T6: whatever the log says."""
    view = View.of(log)
    settings = CollapseSettings(tail_tokens=1, span_tokens=1, min_tokens=1)
    spans = finished_spans(view, EFFECTIVE, to_the_last=to_the_last, settings=settings)
    texts = [part.block for item in view.items for part in item.parts if item.role == "user"]
    after = view.after(*commit(view, [staged(one, n) for n, one in enumerate(spans)], FrozenClock()))
    left = [part.block for item in after.items for part in item.parts if item.role == "user"]
    assert [one for one in texts if isinstance(one, Text)] == [
        one for one in left if isinstance(one, Text) and not one.text.startswith(HEAD)
    ]
    assert Transcript(after.records).view == after
    if not after.has_system_messages and after.messages:
        assert is_valid(after.messages)
