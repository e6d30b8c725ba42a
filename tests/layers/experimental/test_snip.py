"""Snipping as records: what goes together, what stays, and that any snip leaves a valid conversation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.clock import Clock
from nacre.errors import ToolError
from nacre.layers.experimental.snip import Choice, Scissors, choose, last_snip, next_number, snip, snip_tool
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.records import Compacted, Noted, Undone
from nacre.messages.transcript import Transcript
from nacre.messages.view import View
from nacre.testing import FrozenClock
from tests.layers.l4_compact.turns import START, is_valid, numbered, on_disk, said, talk


def snipped(view: View, *numbers: int, clock: Clock | None = None) -> View:
    return view.after(*snip(view, choose(view, numbers), clock or FrozenClock()).records)


def test_a_named_result_goes_with_the_reply_that_asked_for_it_and_with_its_number() -> None:
    """C29, T6: a whole round, and nothing else."""
    view = View.of(talk(2))
    choice = choose(view, [2])
    assert choice == Choice(numbers=(2,), records=("a0.0", "r0.0", "r0.0-tag"), messages=2)
    after = snipped(view, 2)
    shown = str(after.messages)
    assert "result 0.0" not in shown
    assert "[message 2]" not in shown
    assert "result 0.1" in shown
    assert is_valid(after.messages)


def test_tokens_freed_are_counted_at_once() -> None:
    """C1: what the next request would hold falls by what went."""
    view = View.of(talk(2))
    outcome = snip(view, choose(view, [2, 3]), FrozenClock())
    after = view.after(*outcome.records)
    assert outcome.tokens > 500
    assert view.count() - after.count() == outcome.tokens
    assert after.epochs == ("snip",)


def test_a_turn_of_which_everything_is_named_goes_with_its_closing_reply() -> None:
    """C29: nothing of it is left over; its words alone leave the rest standing."""
    view = View.of(talk(2))
    assert "answer 0" not in str(snipped(view, 1, 2, 3).messages)
    alone = snipped(view, 1)
    assert "question 0" not in str(alone.messages)
    assert "answer 0" in str(alone.messages)
    assert is_valid(alone.messages)


def test_what_must_stay_stays_and_the_reason_is_said() -> None:
    """C29: the last message, the current turn, pinned results, what is gone or never was."""
    records = [*talk(2), said("a", "assistant", ToolCall("c", "Bash", {}))]
    records += numbered(said("r", "user", ToolResult("c", (Text("fresh"),))), 8)
    view = snipped(View.of(records), 5)
    choice = choose(view, [7, 8, 2, 5, 99, 3], held=frozenset({"c0.0"}))
    assert choice.numbers == (3,)
    assert choice.stays == {
        7: "it belongs to the current turn",
        8: "it belongs to the current turn",
        2: "it holds a pinned result",
        5: "it is not in view any more",
        99: "there is no such message",
    }


def test_a_summary_and_what_it_stands_for_cannot_be_named() -> None:
    """C29: not what a compaction's summary holds."""
    folded = Compacted(id="k", at=START, summary=(Text("so far"),), keeps_from="u1", summary_id="s")
    choice = choose(View.of([*talk(2), folded]), [1, 2, 5])
    assert choice.numbers == (5,)
    assert set(choice.stays) == {1, 2}


def test_a_result_that_another_refers_to_goes_only_together_with_it() -> None:
    """C7: both stay, or both go."""
    view = View.of(talk(2))
    leans = {"c1.0": "c0.0", "c1.1": "c1.0"}
    assert choose(view, [2], leans=leans).numbers == ()
    assert choose(view, [2, 5], leans=leans).numbers == ()
    assert choose(view, [2, 5, 6], leans=leans).numbers == (2, 5, 6)


def test_what_rides_inside_a_result_keeps_it_standing() -> None:
    """M25: instructions or memories that were put into a result are not the tool's to give up."""
    facts: JsonObject = {"record": "r0.0", "inside": "0" * 16}
    view = View.of([*talk(1), Noted(id="i", at=START, kind="instructions", facts=facts)])
    assert choose(view, [2]).stays == {2: "it holds more than a tool's answer"}


def test_thinking_goes_in_the_same_decision_where_it_is_bound() -> None:
    """C12b."""
    view = View.of(talk(2, thinking=True))
    outcome = snip(view, choose(view, [2]), FrozenClock(), drops_thinking=True)
    after = view.after(*outcome.records)
    assert "signed" not in str(after.messages)
    assert after.epochs == ("thinking", "snip")


def test_a_snip_can_be_undone() -> None:
    """C29: the originals never left the log."""
    view = View.of(talk(2))
    after = snipped(view, 2, 3)
    last = last_snip(after)
    assert last is not None
    back = after.after(Undone(id="x", at=START, target=last.id))
    assert back.messages == view.messages
    assert last_snip(back) is None


def test_numbers_go_on_where_the_log_left_off() -> None:
    """C29: no number is given twice."""
    assert next_number(View()) == 1
    assert next_number(View.of(talk(2))) == 8


async def test_the_tool_without_a_session_says_so() -> None:
    """Tools come first."""
    with pytest.raises(ToolError, match="no conversation yet"):
        await snip_tool(Scissors()).call({"messages": [1], "reason": "old"})


@given(st.lists(st.lists(st.integers(0, 17), max_size=5), max_size=5), st.booleans(), st.data())
def test_any_snips_leave_a_valid_conversation_that_replays(
    snips: list[list[int]], thinking: bool, data: st.DataObject
) -> None:
    """C29, T6, T3: pairs whole, roles in turn, the last message raw, fewer tokens, the same from disk."""
    clock = FrozenClock()
    view = View.of(talk(5, thinking=thinking))
    for numbers in snips:
        before = view.estimate
        outcome = snip(view, choose(view, numbers), clock, drops_thinking=data.draw(st.booleans()))
        view = view.after(*outcome.records)
        assert view.estimate == before - outcome.tokens <= before
        assert is_valid(view.messages)
        if (last := last_snip(view)) and data.draw(st.integers(0, 3)) == 0:
            view = view.after(Undone(id=clock.new_id(), at=START, target=last.id))
            assert is_valid(view.messages)
    assert view.messages[-1]["content"][-2:] == [  # type: ignore[index]
        {"type": "text", "text": "and now?"},
        {"type": "text", "text": "[message 16]"},
    ]
    assert Transcript(view.records).view == view
    assert View.of(on_disk(view.records)) == view
