"""Compaction when other things happen at the same time, or nothing works: what is counted, kept and said."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.errors import ContextOverflow, NothingToCompact, ProviderError, SpendCapReached
from nacre.layers.l4_compact.layer import BLOCK_BETA, undo_compaction
from nacre.layers.l4_compact.overflow_files import ACTIONS_FILE, FOLDER, OverflowFiles
from nacre.layers.l4_compact.policy import CompactSettings, compaction_history
from nacre.layers.l4_compact.prefetch_summary import SummaryPrefetch
from nacre.messages.blocks import Message, Opaque, Text, Thinking
from nacre.messages.draft import Draft, ItemSpan
from nacre.messages.events import Reply
from nacre.messages.facts import Action, Facts
from nacre.messages.records import Compacted, Noted
from nacre.messages.tokens import estimate_json
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.background import Background
from nacre.session.compaction import Compaction, CompactionRequest
from nacre.session.layer import Layer
from nacre.session.meter import SIDE_QUERY, Meter
from tests.layers.l4_compact.test_layer import (
    SUMMARY,
    Forbids,
    Notes,
    a_round,
    answers,
    compacting,
    fill,
    notice_text,
    session_of,
)


def ahead(background: Background, *drafts: Draft | Exception) -> tuple[SummaryPrefetch, list[View]]:
    """Summaries made at once, each for the view it was begun with, and those views."""
    begun: list[View] = []

    async def make(view: View) -> Draft:
        draft = drafts[min(len(begun), len(drafts) - 1)]
        begun.append(view)
        if isinstance(draft, Exception):
            raise draft
        return replace(draft, covers=view.items[-1].record_id)

    return SummaryPrefetch(background, make, failed=lambda error: None), begun


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_background_work_cost_before_a_compaction_is_in_the_meter_it_carries() -> None:
    """F4, F5, C21: it is recorded at the boundary that begins with the compaction."""
    session = session_of()
    background = Background(session)
    clock = session.clock
    compacting(session, background)
    while session.tokens < session.thresholds.autocompact:
        await session.add_user("go on")
        await a_round(session, 1)
    facts = {"purpose": "compact", "model": session.base.model, "usage": Usage(input=70).as_json()}
    background.record(Noted(id=clock.new_id(), at=clock.now(), kind=SIDE_QUERY, facts=facts))
    request = await session.prepare()
    assert request.messages
    assert any(isinstance(one, Compacted) for one in session.view.records)
    assert Meter.of(session.view.records).usage.input == 70


async def test_a_summary_made_for_a_view_that_was_compacted_since_gives_way_to_another() -> None:
    """C28: it neither stands in the way of the next one nor for a view it hardly covers."""
    session = session_of()
    background = Background(session)
    preparation, begun = ahead(background, SUMMARY)
    rung = compacting(session, summarise=answers(SUMMARY)[0], preparation=preparation)
    await fill(session, 8)
    preparation.begin(session.view)
    await settled()
    assert preparation.is_ready(session.view)
    await rung.compact(CompactionRequest(span=ItemSpan(keeps_from=len(session.view.items) - 2)))
    assert preparation.is_ready(session.view)
    await fill(session, 8)
    assert not preparation.is_ready(session.view)
    preparation.begin(session.view)
    await settled()
    assert len(begun) == 2
    assert preparation.is_ready(session.view)
    await undo_compaction(session)
    assert preparation.is_ready(session.view)


async def test_a_draft_at_hand_that_leaves_too_much_gives_way() -> None:
    """C16, C21: notes nobody brought up to date for long know too little, though it would fit."""
    session = session_of()
    summarise, asked = answers(SUMMARY)
    notes = Draft(kind="notes", text="# Session Title\n\nThe parser")

    class OldNotes(Layer):
        def draft(self, view: View) -> Draft:
            return replace(notes, covers=view.items[len(view.items) // 4].record_id)

    compacting(session, OldNotes(), summarise=summarise)
    (record,) = await fill(session)
    assert (record.extra["by"], len(asked)) == ("full", 1)
    assert (record.post_tokens or 0) < session.thresholds.autocompact * 0.6


async def test_a_person_may_ask_as_often_as_they_like() -> None:
    """C25: that says nothing about how fast the window fills up."""
    session = session_of()
    rung = compacting(session, summarise=answers(SUMMARY)[0])
    for _ in range(5):
        await fill(session, 3)
        await rung.compact(CompactionRequest())
    assert compaction_history(session.view).refills == 0


async def test_a_compaction_that_was_undone_counts_no_longer() -> None:
    """C25, C23."""
    session = session_of()
    rung = compacting(session)
    await fill(session, 6)
    await rung.compact(CompactionRequest())
    await undo_compaction(session)
    assert compaction_history(session.view).turns is None


async def test_a_failed_summary_counts_also_where_nothing_could_be_compacted() -> None:
    """C25: for a view that rules cannot make smaller a model is asked once."""
    session = session_of()
    summarise, asked = answers(ProviderError("overloaded"))
    compacting(session, summarise=summarise)
    await session.add_user("hello")
    await a_round(session, 0, 60)
    while session.tokens < session.thresholds.autocompact:
        await session.add_user("word " * int(session.thresholds.autocompact * 0.8))
    for _ in range(6):
        assert not [one for one in await session.fit(session.view, None) if isinstance(one, Compacted)]
    assert len(asked) == 1, "not again before a reply"
    assert compaction_history(session.view).failures == 1


async def test_a_spend_cap_is_no_failure_of_the_summary() -> None:
    """C25, F5."""
    failures: list[Exception] = []

    async def make(view: View) -> Draft:
        raise SpendCapReached("enough for today")

    session = session_of()
    preparation = SummaryPrefetch(Background(session), make, failed=failures.append)
    await session.add_user("hello")
    preparation.begin(session.view)
    await settled()
    assert failures == []


async def test_commands_at_the_beginning_are_asked_once_and_what_they_say_takes_its_room() -> None:
    """C18, C21: however many drafts were tried."""
    session, asked = session_of(), []

    class Begins(Layer):
        async def restart_context(self) -> str:
            asked.append(1)
            return "remember the style guide. " * 200

    huge = Notes(Draft(kind="notes", text="word " * 30_000))
    tasks = "1. [ ] a task of the list\n" * 100
    compacting(session, huge, Begins(), summarise=answers(SUMMARY)[0], tasks=lambda: tasks)
    (record,) = await fill(session)
    assert len(asked) == 1
    assert (record.post_tokens or 0) < session.thresholds.autocompact * 0.6


async def test_what_was_said_while_a_person_s_compaction_was_made_is_not_swallowed() -> None:
    """C23: the draft does not know it."""
    session = session_of()

    async def slow(view: View, wish: CompactionRequest, facts: Facts) -> Draft:
        await session.add_user("and one more thing")
        return SUMMARY

    rung = compacting(session, summarise=slow)
    await fill(session, 8)
    with pytest.raises(NothingToCompact, match="went on meanwhile"):
        await rung.compact(CompactionRequest())
    assert "and one more thing" in str(session.view.messages[-1])


async def test_a_part_is_summarised_once_however_much_stands_beside_it() -> None:
    """C23: what stays may be too much; that is no reason to throw a good summary away."""
    session = session_of()
    rung = compacting(session, summarise=answers(SUMMARY)[0], is_automatic=False)
    while session.tokens < session.thresholds.blocking - 900:
        await session.add_user("go on")
        await a_round(session, 1)
    done = await rung.compact(CompactionRequest(span=ItemSpan(keeps_from=3)))
    assert done.after > session.thresholds.autocompact
    assert done.kind == "full"


async def test_a_full_window_names_the_command_that_forbids_a_compaction() -> None:
    """C18: else nobody knows what to change."""
    session = session_of()
    compacting(session, Forbids())
    with pytest.raises(ContextOverflow, match="PreCompact hook"):
        await fill(session)


async def test_nobody_is_sent_to_a_file_that_could_not_be_written(tmp_path: Path) -> None:
    """C20: a pointer is true or it is not there."""
    session = session_of()
    (tmp_path / FOLDER).write_text("a file where the folder should be")
    settings = CompactSettings(words_tokens=300, past_tokens=600, tail_tokens=2_000)
    compacting(session, overflow=OverflowFiles(folder=tmp_path), settings=settings)
    assert await fill(session)
    sent = str(session.view.messages)
    assert "are not shown here" in sent
    assert FOLDER not in sent


async def test_calls_whose_ids_begin_alike_are_all_written_down(tmp_path: Path) -> None:
    """C20: some providers number their calls."""
    actions = tuple(Action(f"call_{n}", "Bash", f"ran step {n}") for n in (10, 1))
    overflow = OverflowFiles(folder=tmp_path)
    for one in actions:
        assert await overflow.keep_left(Facts(actions=(one,)), Facts(), ())
    assert (tmp_path / FOLDER / ACTIONS_FILE).read_text().count("ran step") == 2


async def test_little_is_enough_where_the_session_could_not_go_on_without_it() -> None:
    """C26: only base and last message beyond the window are an overflow."""
    session = session_of()
    compacting(session)
    await session.add_user("old " * 1_200)
    await a_round(session, 0, 60)
    await session.add_user("new " * (session.thresholds.blocking - session.tokens + 1))
    assert session.tokens >= session.thresholds.blocking
    assert (await session.prepare()).messages
    assert session.tokens < session.thresholds.blocking
    assert "by rule" in notice_text(session)


async def test_no_summary_is_made_ahead_where_commands_say_what_it_should_dwell_on() -> None:
    """C18, C28: it would be paid for and thrown away."""
    session = session_of()
    preparation, begun = ahead(Background(session), SUMMARY)

    class Focuses(Layer):
        async def before_compact(self, request: CompactionRequest) -> CompactionRequest:
            return replace(request, focus="the parser")

    summarise, asked = answers(SUMMARY)
    compacting(session, Focuses(), summarise=summarise, preparation=preparation)
    for n in range(3):
        while not await fill(session, 1):
            await settled()
        assert [one.focus for one in asked] == ["the parser"] * (n + 1)
    assert len(begun) <= 1


async def test_nobody_hears_of_a_compaction_that_was_not_recorded() -> None:
    """C18, C26: where even that leaves too much, files read stay read and PostCompact is not told."""
    session, heard = session_of(), list[Compaction]()

    class Hears(Layer):
        def after_compact(self, done: Compaction) -> None:
            heard.append(done)

    compacting(session, Hears())
    await fill(session, 8)
    await session.add_user("word " * 40_000)
    with pytest.raises(ContextOverflow):
        await session.prepare()
    assert not any(isinstance(one, Compacted) for one in session.view.records)
    assert heard == []


@pytest.mark.moves_prefix(reason="a provider's block stands for the conversation")
async def test_a_provider_s_block_of_an_older_log_is_sent_first_and_with_its_beta() -> None:
    """C23b: nothing asks for such a block any more, and a session that has one goes on."""
    session = session_of()
    compacting(session)
    await session.add_user("hello")
    assert session.request(session.view).betas == ()
    block = Opaque("compaction", {"type": "compaction", "content": "in short", "signature": "s"})
    clock = session.clock
    await session.transcript.append(
        Compacted(id=clock.new_id(), at=clock.now(), summary=(block, Text("words")), kind="provider")
    )
    request = session.request(session.view)
    assert request.betas == (BLOCK_BETA,)
    assert request.messages[0] == {"role": "assistant", "content": [block.wire]}


@pytest.mark.parametrize("span", [ItemSpan(), ItemSpan(first=20)], ids=["all of it", "its end"])
@pytest.mark.parametrize("factor", [0.2, 0.6, 1.0, 2.5, 5.0])
async def test_the_sizes_before_and_after_are_of_one_kind(factor: float, span: ItemSpan) -> None:
    """C22: a provider's count and an estimate are not compared, or a compaction would seem to grow it."""
    session = session_of(base=40_000, window=200_000)
    summarise, _ = answers(SUMMARY)
    layer = compacting(session, summarise=summarise)
    for n in range(20):
        await session.add_user(f"say {n}")
        request = session.start_request(session.view)
        # This provider counts no system prompt.
        counted = int(factor * estimate_json([*request.messages]))
        message = Message("assistant", (Text(f"{n} " + "word " * 60),))
        await session.record(Reply(message=message, usage=Usage(input=counted, output=80), id=f"m{n}"))
    before = session.view
    done = await layer.compact(CompactionRequest(span=span))
    record = done.record
    assert (record.pre_tokens, record.post_tokens) == (done.before, done.after)
    assert done.after < done.before
    freed = (before.estimate - session.view.estimate) * session.calibration.ratio
    assert done.before - done.after == pytest.approx(freed, abs=2)
    assert f"about {done.before:,} tokens became {done.after:,}" in done.line


async def test_thinking_that_is_not_sent_is_no_room_for_a_summary() -> None:
    """C23c: a summary must be smaller than what the model is shown, not than what the log holds."""
    session = session_of(model="claude-haiku-4-5")
    assert session.profile.strips_old_thinking
    summarise, _ = answers(replace(SUMMARY, text="so far " * 400))
    layer = compacting(session, summarise=summarise)
    for n in range(4):
        await session.add_user(f"say {n}")
        blocks = (Thinking("hm " * 2_000, "signed"), Text(f"{n}"))
        await session.record(Reply(message=Message("assistant", blocks), usage=Usage(), id=f"m{n}"))
    await session.add_user("and?")
    with pytest.raises(NothingToCompact, match="much smaller"):
        await layer.compact(CompactionRequest())
