"""A summary is asked for in a fork, checked, and rejected when it is none (C18, C20, C23 to C24)."""

from __future__ import annotations

import pytest

from nacre.errors import PromptTooLong, SummaryRejected
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.layers.l4_compact.summarise import SummaryPart, accepted, directive, summarise
from nacre.loop.fork import ForkResult
from nacre.messages.blocks import Text, Thinking, ToolCall
from nacre.messages.pairing import OPENING
from nacre.messages.records import Compacted
from nacre.messages.view import View
from tests.layers.l4_compact.model_scenes import START, ScriptedFork, forked, reply_text, said, talk

SETTINGS = CompactSettings()
LONG = PromptTooLong("prompt is too long")


async def test_a_good_reply_becomes_a_draft_without_its_draft_and_without_section_six() -> None:
    """C18, C19: one request, no tools, bounded output, on the view it was given."""
    view, fork = talk(5), ScriptedFork(reply_text())
    draft = await summarise(view, fork, settings=SETTINGS)
    assert (draft.kind, draft.covers) == ("full", None)
    assert draft.text.startswith("## Primary request and intent\n\nParse the ledger")
    assert "first this" not in draft.text and "All user messages" not in draft.text
    assert draft.metadata == {"tries": 1, "left_out_rounds": 0, "quotations": 0, "dropped": []}
    (errand,) = fork.errands
    assert (errand.source, errand.access, errand.max_rounds, errand.max_output) == (
        "compact",
        None,
        1,
        20_000,
    )
    assert errand.view is view
    assert errand.directive == directive()


async def test_words_the_person_never_said_are_taken_out_and_told() -> None:
    """C20."""
    first = 'Read the ledger. The user said "drop all tables". The user said "look at the ledger".'
    draft = await summarise(
        talk(5), ScriptedFork(reply_text(first)), words=["Please look at the ledger."], settings=SETTINGS
    )
    assert "drop all" not in draft.text
    assert 'Read the ledger. The user said "look at the ledger".' in draft.text
    assert (draft.metadata["quotations"], draft.metadata["dropped"]) == (1, ["drop all tables"])


CALL = ToolCall("x", "Read", {})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (forked(CALL, stop_reason="tool_use", denials=1), "called a tool"),
        (forked(Text(reply_text()), CALL, stop_reason="tool_use"), "called a tool"),
        (forked(stop_reason="end_turn"), "is empty"),
        (forked(Text("  \n")), "is empty"),
        (forked(Thinking("hm")), "is empty"),
        (forked(Text(reply_text()), stop_reason="max_tokens"), "cut off"),
        (forked(Text(reply_text()), stop_reason="model_context_window_exceeded"), "cut off"),
        (forked(Text("no"), stop_reason="refusal"), "would not summarise"),
        (forked(Text("I'm sorry, but I can't help with that.")), "would not summarise: I'm sorry"),
        (forked(Text("All is well.")), "lacks Primary request"),
        (forked(Text("<analysis>" + "1. Primary request and intent: x" * 9)), "lacks Primary request"),
        (forked(Text(reply_text("x" * 50_000))), "tokens and would stand for"),
        (forked(Text(reply_text('The user said "delete it all".'))), "never said"),
    ],
)  # fmt: skip
async def test_what_is_no_summary_is_rejected_with_one_line(answer: ForkResult, reason: str) -> None:
    """C23c."""
    with pytest.raises(SummaryRejected, match=reason) as told:
        await summarise(talk(5), ScriptedFork(answer), settings=SETTINGS)
    assert "\n" not in str(told.value)


async def test_prose_without_tags_but_with_all_sections_is_accepted() -> None:
    bare = reply_text().split("<summary>")[1].removesuffix("</summary>")
    assert (await summarise(talk(5), ScriptedFork(bare), settings=SETTINGS)).text


async def test_a_request_that_is_too_long_loses_its_oldest_rounds_by_fifths() -> None:
    """C24: at least one, three retries at most, each from the whole view."""
    view, fork = talk(20), ScriptedFork(LONG, LONG, LONG, reply_text())
    draft = await summarise(view, fork, settings=SETTINGS)
    lengths = [sum(bool(item.parts) for item in one.view.items) for one in fork.errands if one.view]
    assert lengths == [42, 35, 27, 19]
    assert (draft.metadata["tries"], draft.metadata["left_out_rounds"]) == (4, 12)
    last = fork.errands[-1].view
    assert last is not None
    firsts = [str(message["content"]) for message in last.messages if OPENING in str(message["content"])]
    assert len(firsts) == 1, "one synthetic marker, however often it was tried"


async def test_after_three_retries_the_error_is_the_callers() -> None:
    fork = ScriptedFork(LONG, LONG, LONG, LONG)
    with pytest.raises(PromptTooLong):
        await summarise(talk(20), fork, settings=SETTINGS)
    assert len(fork.errands) == 4


async def test_a_reported_gap_is_covered_at_once() -> None:
    error = PromptTooLong("too long", tokens=12_000, limit=10_500)
    view = talk(20)
    fork = ScriptedFork(error, reply_text())
    await summarise(view, fork, settings=SETTINGS)
    shorter = fork.errands[1].view
    assert shorter is not None
    assert 1_500 <= view.estimate - shorter.estimate < 2_100


async def test_at_least_one_round_goes_and_at_least_one_stays() -> None:
    fork = ScriptedFork(LONG, LONG)
    with pytest.raises(PromptTooLong):
        await summarise(
            View.of([said("u", "user", Text("hi" * 500)), said("a", "assistant", Text("ho"))]),
            fork,
            settings=SETTINGS,
        )
    assert len(fork.errands) == 2
    alone = ScriptedFork(LONG)
    with pytest.raises(PromptTooLong):
        await summarise(View.of([said("u", "user", Text("hi"))]), alone, settings=SETTINGS)
    assert len(alone.errands) == 1


async def test_an_earlier_summary_outlives_the_rounds_behind_it() -> None:
    """C24: it is the only memory of all that it stands for."""
    first = Compacted(id="k", at=START, summary=(Text("what was before"),), keeps_from="a3")
    view, fork = talk(20).after(first), ScriptedFork(LONG, LONG, LONG, reply_text())
    await summarise(view, fork, settings=SETTINGS)
    kept = [errand.view.items[0].record_id for errand in fork.errands if errand.view]
    assert kept == ["k"] * 4


async def test_up_to_a_pivot_the_fork_sees_the_same_bytes_and_nothing_newer() -> None:
    """C23: the prefix is the parent's, so that it is read from the cache."""
    view, fork = talk(10), ScriptedFork(reply_text())
    draft = await summarise(view, fork, settings=SETTINGS, part=SummaryPart("up_to", "a4"))
    assert draft.covers == "r3"
    shorter = fork.errands[0].view
    assert shorter is not None
    assert shorter.chain == view.chain[: len(shorter.chain)]
    assert [item.record_id for item in shorter.items if item.parts][-1] == "r3"
    assert "Work completed" in fork.errands[0].directive and "Current work" not in fork.errands[0].directive


async def test_from_a_pivot_the_fork_sees_all_and_is_told_where_to_begin() -> None:
    """C23."""
    view = talk(10).after(
        said("u2", "user", Text("Now the {{ report }}.")), said("a", "assistant", Text("x" * 9_000))
    )
    fork = ScriptedFork(reply_text())
    draft = await summarise(view, fork, settings=SETTINGS, part=SummaryPart("from", "u2"))
    assert draft.covers is None and fork.errands[0].view is view
    assert "The person: Now the {{ report }}." in fork.errands[0].directive
    small = ScriptedFork(reply_text("y" * 4_000))
    with pytest.raises(SummaryRejected, match="would stand for"):
        await summarise(talk(10), small, settings=SETTINGS, part=SummaryPart("from", "end"))


@pytest.mark.parametrize(
    "part",
    [
        SummaryPart("up_to", "u"),
        SummaryPart("up_to", "gone"),
        SummaryPart("from", "gone"),
        SummaryPart("from"),
    ],
)
async def test_where_nothing_stands_nothing_is_asked(part: SummaryPart) -> None:
    fork = ScriptedFork()
    with pytest.raises(SummaryRejected, match="nothing to summarise"):
        await summarise(talk(3), fork, settings=SETTINGS, part=part)
    assert not fork.errands


def test_the_directive_forbids_tools_first_and_last_and_carries_the_focus() -> None:
    """C19."""
    said = directive(focus="  the parser {{ scope }} ")
    first, *_, last = said.split("\n")
    assert "Do not call any tool" in first and "no tool calls" in last
    assert "the parser {{ scope }}" in said
    assert "above all" not in directive()


@pytest.mark.parametrize(
    "reply",
    [
        "Sorry, but I can't assist with that.",
        "I'm sorry, but I cannot help.",
        "I am unable to summarise this.",
        "I'm not able to do that.",
        "My apologies, I can't.",
        "I apologize, but no.",
        "抱歉，我不能。",
    ],
)
def test_refusals_of_small_models_are_named_as_refusals(reply: str) -> None:
    with pytest.raises(SummaryRejected, match="would not summarise"):
        accepted(reply, [], replaced=5_000)
