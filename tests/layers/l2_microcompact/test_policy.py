"""When old results are cleared, and which: a pure function of the view, the clock and the settings."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.layers.l2_microcompact.policy import CLAUDE_CODE, NACRE, ClearInputs, due
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.records import Change, Replaced, ResultOf, Said
from nacre.messages.results import answered_calls
from nacre.messages.view import View
from nacre.store.tool_results import CLEARED
from tests.layers.l2_microcompact.scenes import BINDING, FREE, START, moment, noted, view_of, words, work_on


def calls(view: View, now: ClearInputs, settings: object = NACRE) -> list[str]:
    decision = due(view, now, settings)  # type: ignore[arg-type]
    return list(decision.calls) if decision else []


@pytest.mark.parametrize(("idle", "expected"), [(299.9, 0), (300.0, 20), (86_400.0, 20), (-5_000.0, 0)])
def test_results_go_once_the_cache_is_cold_and_not_before(idle: float, expected: int) -> None:
    """C9: judged by the clock just before the request; one that was set back says nothing."""
    assert len(calls(view_of(30), moment(idle))) == expected


def test_the_newest_ten_stay() -> None:
    """C9: of thirty results the ten oldest go."""
    decision = due(view_of(30), moment())
    assert decision is not None
    assert decision.calls == tuple(f"c{n}" for n in range(20))
    assert decision.reason == "idle"
    assert decision.keeps_from == "c20"
    assert decision.tokens == 20 * (1_000 - 40)


def test_the_published_numbers_wait_an_hour_and_keep_five() -> None:
    assert calls(view_of(30), moment(3_599.0), CLAUDE_CODE) == []
    assert calls(view_of(30), moment(3_600.0), CLAUDE_CODE) == [f"c{n}" for n in range(25)]


@pytest.mark.parametrize("keep", [0, -3, 1])
def test_one_result_stays_whatever_the_setting_says(keep: int) -> None:
    """C9: floor 1."""
    assert calls(view_of(5), moment(), replace(NACRE, keep=keep)) == ["c0", "c1", "c2", "c3"]


def test_a_first_request_has_nothing_to_clear() -> None:
    never = moment()
    never = replace(never, warmth=replace(never.warmth, touched_at=None))
    assert calls(view_of(30), never) == []


def test_a_gap_is_cleared_once() -> None:
    """C9: once per gap, not on every later turn."""
    few = replace(NACRE, keep=2)
    before_the_gap, in_the_gap = noted(CLEARED, 1_800), noted(CLEARED, 1_801)
    assert calls(view_of(5, before_the_gap), moment(), few) == ["c0", "c1", "c2"]
    assert calls(view_of(5, in_the_gap), moment(), few) == []


def test_what_is_pinned_stays_until_it_is_let_go() -> None:
    few = replace(NACRE, keep=1)
    on, off = noted("pin", 1, call="c1", on=True), noted("pin", 2, call="c1", on=False)
    assert calls(view_of(4, on), moment(), few) == ["c0", "c2"]
    assert calls(view_of(4, on, off), moment(), few) == ["c0", "c1", "c2"]


def test_the_newest_read_of_a_file_that_was_edited_stays() -> None:
    """C9: the next edit needs its exact text; a read before it and one of an unchanged file go."""
    one = replace(NACRE, keep=1)
    view = work_on(("Read", "a"), ("Read", "b"), ("Read", "a"), ("Edit", "a"), ("Bash", ""), ("Bash", ""))
    assert calls(view, moment(), one) == ["c0", "c1", "c3", "c4"]
    assert calls(view, moment(), replace(one, edited_tokens=0)) == ["c0", "c1", "c2", "c3", "c4"]


def test_of_edited_files_the_one_edited_last_stays_first() -> None:
    """C9: within `edited_tokens`, a thousand tokens each."""
    view = work_on(("Read", "a"), ("Read", "b"), ("Edit", "b"), ("Write", "a"), ("Bash", ""))
    assert calls(view, moment(), replace(NACRE, keep=1, edited_tokens=1_500)) == ["c1", "c2", "c3"]


def test_a_read_or_an_edit_that_failed_protects_nothing() -> None:
    """C9."""
    view = work_on(("Read", "a"), ("Edit", "a"), ("Bash", ""))
    failed = [
        replace(one, blocks=tuple(replace(b, is_error=True) for b in one.blocks if isinstance(b, ToolResult)))
        if isinstance(one, Said) and one.id == "r1"
        else one
        for one in view.records
    ]
    assert calls(View.of(failed), moment(), replace(NACRE, keep=1)) == ["c0", "c1"]


def test_tools_of_others_are_left_alone_unless_they_opt_in() -> None:
    """Layer 2: MCP and custom tools only when they say so."""
    view = view_of(30, tool="mcp__tracker__issues")
    assert calls(view, moment()) == []
    assert len(calls(view, moment(), replace(NACRE, tools=frozenset({"mcp__tracker__issues"})))) == 20


def test_a_result_smaller_than_what_would_stand_for_it_stays() -> None:
    """C9: clearing must save tokens."""
    assert calls(view_of(30, chars=160), moment()) == []
    assert len(calls(view_of(30, chars=164), moment())) == 20


def test_what_is_cleared_or_offloaded_already_is_not_touched_again() -> None:
    few = replace(NACRE, keep=1)
    gone = Replaced(
        id="x",
        at=START,
        changes=(Change(ResultOf("c0"), (ToolResult("c0", (Text(words(0)),)),)),),
        reason="clear",
    )
    preview = ToolResult("c1", (Text("<persisted-output>\n" + words(1)),))
    offloaded = Replaced(id="y", at=START, changes=(Change(ResultOf("c1"), (preview,)),), reason="offload")
    assert calls(view_of(4, gone, offloaded), moment(), few) == ["c2"]


@pytest.mark.parametrize("kind", ["duplicate", "reread"])
def test_a_reference_and_its_target_go_together_or_stay_together(kind: str) -> None:
    """C7: the target is kept as long as the reference, or both are cleared."""
    linked = noted(kind, 1, call="c4", of="c0")
    assert calls(view_of(8, linked), moment(), replace(NACRE, keep=4)) == ["c1", "c2", "c3"]
    assert calls(view_of(8, linked), moment(), replace(NACRE, keep=3)) == ["c0", "c1", "c2", "c3", "c4"]
    pinned = noted("pin", 2, call="c4", on=True)
    assert calls(view_of(8, linked, pinned), moment(), replace(NACRE, keep=3)) == ["c1", "c2", "c3"]


def test_on_a_model_that_binds_thinking_results_go_only_when_a_turn_starts() -> None:
    """C12b: and all thinking goes with them."""
    view = view_of(30, thinking=True)
    assert calls(view, moment(model=BINDING, starts_turn=False)) == []
    decision = due(view, moment(model=BINDING))
    assert decision is not None and decision.drops_thinking
    elsewhere = due(view, moment(model=FREE, starts_turn=False))
    assert elsewhere is not None and not elsewhere.drops_thinking


def test_when_nothing_fits_a_clear_comes_before_a_dearer_layer() -> None:
    """C31c: warm or not; as few results as free enough, and none where even all but one would not."""
    full = moment(10.0, fits=False, tokens=100_000)
    for results, cleared in ((45, 25), (35, 25), (25, 22)):
        decision = due(view_of(results), full)
        assert decision is not None and decision.reason == "full" and len(decision.calls) == cleared
    assert due(view_of(15), full) is None
    assert due(view_of(45), full, CLAUDE_CODE) is None


@pytest.mark.parametrize(("too_many", "cleared"), [(24_000, 25), (24_001, 35), (42_240, 44), (42_241, 0)])
def test_a_clear_that_would_not_be_enough_is_not_done(too_many: int, cleared: int) -> None:
    """C12, C31c: the dearer layer that had to come after it would lose the cache once more."""
    full = moment(10.0, fits=False, tokens=100_000, too_many=too_many)
    assert len(calls(view_of(45), full)) == cleared


def test_what_does_not_fit_cannot_wait_for_the_next_turn() -> None:
    """C12b: the thinking goes with the results, as it would with a dearer layer."""
    full = moment(10.0, fits=False, tokens=100_000, model=BINDING, starts_turn=False)
    decision = due(view_of(45, thinking=True), full)
    assert decision is not None and decision.reason == "full" and decision.drops_thinking


def test_nothing_is_cleared_when_it_is_switched_off() -> None:
    assert calls(view_of(30), moment(), replace(NACRE, idle=False)) == []


def test_on_a_warm_cache_the_view_is_not_even_looked_at() -> None:
    """Own time per request does not grow with the conversation."""

    class Unread(View):
        @property
        def items(self) -> list[object]:  # type: ignore[override]
            raise AssertionError("read")

        def noted(self, kind: str) -> list[object]:  # type: ignore[override]
            raise AssertionError("read")

    assert due(Unread(), moment(10.0)) is None


@given(
    count=st.integers(0, 12),
    keep=st.integers(1, 6),
    pins=st.sets(st.integers(0, 11)),
    links=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=4),
)
def test_whatever_the_log_says_pins_and_the_newest_stay(
    count: int, keep: int, pins: set[int], links: list[tuple[int, int]]
) -> None:
    """C7, C9: and no reference is ever parted from its target."""
    notes = [noted("pin", n, call=f"c{n}", on=True) for n in pins]
    pairs = [(a, b) for a, b in links if a != b]
    notes += [noted("duplicate", n, call=f"c{a}", of=f"c{b}") for n, (a, b) in enumerate(pairs)]
    view = view_of(count, *notes)
    gone = set(calls(view, moment(), replace(NACRE, keep=keep)))
    there = [one.id for one in answered_calls(view.items)]
    assert gone <= set(there[:-keep])
    assert not gone & {f"c{n}" for n in pins}
    last = {f"c{a}": f"c{b}" for a, b in pairs}
    for call, of in last.items():
        if call in there and of in there:
            assert (call in gone) == (of in gone)


def test_a_round_of_parallel_calls_is_cleared_one_by_one(tmp_path: Path) -> None:
    wide = [ToolCall(f"p{n}", "Read", {}) for n in range(6)]
    answers = tuple(ToolResult(f"p{n}", (Text(words(n)),)) for n in range(6))
    view = view_of(
        1,
        Said(id="wide", at=START + timedelta(seconds=90), role="assistant", blocks=tuple(wide)),
        Said(id="answers", at=START + timedelta(seconds=91), role="user", blocks=answers),
    )
    assert calls(view, moment(), replace(NACRE, keep=4)) == ["c0", "p0", "p1"]
