"""Compaction in a session: which draft wins, when it waits, what becomes of failures, how it is undone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.errors import ContextOverflow, NothingToCompact, PromptTooLong, ProviderError
from nacre.layers.l4_compact.layer import Compact, Summarise, undo_compaction
from nacre.layers.l4_compact.overflow_files import OverflowFiles
from nacre.layers.l4_compact.policy import CompactSettings, compaction_history
from nacre.layers.l4_compact.prefetch_summary import SummaryPrefetch
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.draft import Draft, ItemSpan
from nacre.messages.events import Reply
from nacre.messages.facts import Facts
from nacre.messages.records import Compacted, Record, ReplyFacts, Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.background import Background
from nacre.session.compaction import CompactionRequest
from nacre.session.layer import Layer
from nacre.session.meter import ReplySpeed
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.store.tool_results import ToolResultStore
from nacre.testing import FrozenClock

MODEL = "claude-opus-4-5"
BINDING = "claude-opus-5-5"
SUMMARY = Draft(kind="full", text="## Current work\n\nThe parser is half done.", metadata={"dropped": ["x"]})
NOTES = Draft(kind="notes", text="# Session Title\n_t_\n\nThe parser")


def answers(*drafts: Draft | Exception) -> tuple[Summarise, list[CompactionRequest]]:
    """A model that gives these in turn, the last one again and again, and what it was asked."""
    asked: list[CompactionRequest] = []

    async def summarise(view: View, wish: CompactionRequest, facts: Facts) -> Draft:
        draft = drafts[min(len(asked), len(drafts) - 1)]
        asked.append(wish)
        if isinstance(draft, Exception):
            raise draft
        return draft

    return summarise, asked


def session_of(*, model: str = MODEL, window: int = 30_000, base: int = 4_000) -> Session:
    system = ({"type": "text", "text": "s" * base},)
    settings = SessionSettings(window_ceiling=window)
    return Session(Base(model, instructions=system), settings=settings, clock=FrozenClock())


def compacting(session: Session, *others: Layer, **more: object) -> Compact:
    """The last layer of a session; `others` come before it. It asks for summaries in small windows, too."""
    layer = Compact(**{"settings": CompactSettings(summary_room=0), **more})  # type: ignore[arg-type]
    session.add_layers(*others, layer)
    return layer


class Notes(Layer):
    """Always has the same draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def draft(self, view: View) -> Draft:
        return self._draft


class Forbids(Layer):
    """Allows no compaction."""

    async def before_compact(self, request: CompactionRequest) -> None:
        return None


def last_reply(session: Session) -> Reply:
    said = session.view.last_reply
    assert said is not None
    return Reply(message=said, usage=Usage(), id="last")


async def a_round(session: Session, n: int, size: int = 2_000) -> list[Record]:
    """One request, its reply and what answers it; returns what `fit` did before."""
    done = await session.fit(session.view, None)
    await session.transcript.append(*done)
    clock, call_id = session.clock, f"c{n}-{len(session.transcript.records)}"
    call = ToolCall(call_id, "Read", {"file_path": f"src/part_{n}.py"})
    reply = Said(
        id=clock.new_id(), at=clock.now(), role="assistant", blocks=(call,), reply=ReplyFacts(id=call_id)
    )
    await session.transcript.append(reply)
    await session.add_results([ToolResult(call_id, (Text("a = 1\n" * (size // 6)),))])
    return done


async def fill(session: Session, turns: int = 100, *, size: int = 2_000) -> list[Compacted]:
    """Turns of one round each, until something is compacted or there have been so many."""
    for n in range(turns):
        await session.add_user(f"rule {n}: keep out of generated/{n}")
        done = await a_round(session, n, size)
        if found := [record for record in done if isinstance(record, Compacted)]:
            return found
    return []


def notice_text(session: Session) -> str:
    return "\n".join(notice.text for notice in session.notices())


async def test_without_any_model_a_session_goes_on_by_rule() -> None:
    """C26, C21: nothing is asked for, the words are there, and it ends below 60 % of the threshold."""
    session = session_of()
    compacting(session)
    (record,) = await fill(session)
    assert session.thresholds.autocompact * 0.6 > (record.post_tokens or 0) > 0
    assert record.extra["by"] == "rules"
    assert "rule 0: keep out of generated/0" in str(session.view.messages)
    assert "by rule" in notice_text(session)
    assert View.of(session.transcript.records) == session.view


async def test_notes_are_the_summary_that_is_already_there() -> None:
    """C16: no model call."""
    session = session_of()
    summarise, asked = answers(SUMMARY)
    compacting(session, Notes(NOTES), summarise=summarise)
    (record,) = await fill(session)
    assert (record.kind, asked) == ("notes", [])
    assert "The parser" in str(session.view.messages)


async def test_notes_that_leave_too_much_give_way_to_a_summary() -> None:
    """C16: a result over the threshold is no result."""
    session = session_of()
    summarise, asked = answers(SUMMARY)
    huge = replace(NOTES, text="word " * 30_000)
    compacting(session, Notes(huge), summarise=summarise)
    (record,) = await fill(session)
    assert (record.kind, len(asked)) == ("full", 1)


async def test_a_summary_that_a_person_asked_for_stands_although_little_room_is_left() -> None:
    """C16: rules that miss the same mark do not replace it, and neither do rules that would reach it."""
    session = session_of(window=200_000, base=92_000)
    summarise, asked = answers(replace(SUMMARY, text="word " * 1_700))
    rung = compacting(session, summarise=summarise, settings=CompactSettings(words_tokens=1))
    await fill(session, 20)
    session.window = 30_000
    done = await rung.compact(CompactionRequest())
    limits = session.thresholds
    assert limits.autocompact <= done.after < limits.blocking, "otherwise this shows nothing"
    assert (done.kind, len(asked)) == ("full", 1)


async def test_rules_replace_a_summary_only_where_that_makes_room_and_say_why() -> None:
    session = session_of(window=200_000, base=92_000)
    summarise, _ = answers(replace(SUMMARY, text="word " * 1_600))
    settings = CompactSettings(words_tokens=1, summary_room=0)
    compacting(session, summarise=summarise, settings=settings)
    await fill(session, 20)
    session.window = 30_000
    records = await session.fit(session.view, None)
    (record,) = [one for one in records if isinstance(one, Compacted)]
    assert record.extra["by"] == "rules"
    assert "so the rules are used" in notice_text(session)


@pytest.mark.parametrize(("summary_room", "requests"), [(40_000, 0), (0, 1)])
async def test_where_compactions_are_frequent_a_model_is_asked_only_on_request(
    summary_room: int, requests: int
) -> None:
    """C24b: in little room its summaries would cost a third of the conversation."""
    session = session_of(window=200_000, base=92_000)
    summarise, asked = answers(SUMMARY)
    rung = compacting(session, summarise=summarise, settings=CompactSettings(summary_room=summary_room))
    await fill(session, 20)
    session.window = 30_000
    await session.transcript.append(*await session.fit(session.view, None))
    assert len(asked) == requests
    await fill(session, 9)
    await rung.compact(CompactionRequest())
    assert asked[-1].trigger == "manual"


async def test_a_person_gets_the_summary_that_is_under_way_instead_of_a_second_one() -> None:
    """A server with one slot would only answer both more slowly."""
    session = session_of()
    summarise, asked = answers(SUMMARY)
    background = Background(session)
    begun = asyncio.Event()

    async def make(view: View) -> Draft:
        begun.set()
        await asyncio.sleep(0.05)
        return replace(SUMMARY, covers=view.items[-1].record_id, text=f"{SUMMARY.text} Ahead of time.")

    preparation = SummaryPrefetch(background, make, failed=lambda error: None)
    rung = compacting(session, summarise=summarise, preparation=preparation)
    await fill(session, 9)
    preparation.begin(session.view)
    await begun.wait()
    done = await rung.compact(CompactionRequest())
    assert (done.kind, asked) == ("full", [])
    assert "Ahead of time." in str(session.view.messages)


def test_a_summary_may_take_as_long_as_the_measured_speed_needs() -> None:
    """180 s are about 700 tokens of a slow machine."""
    session = session_of()
    rung = compacting(session)
    assert rung.summary_seconds == 180.0
    session.timer.speed = ReplySpeed(prompt_rate=50.0, output_rate=5.0)
    assert rung.summary_seconds == pytest.approx(1.5 * (session.tokens / 50 + 1_500 / 5))
    session.timer.speed = ReplySpeed(prompt_rate=1.0, output_rate=0.1)
    assert rung.summary_seconds == 1_800.0


async def test_a_summary_that_takes_too_long_names_the_time_as_the_reason() -> None:
    """The text of a `TimeoutError` is empty."""
    session = session_of()
    summarise, _ = answers(TimeoutError())
    compacting(session, summarise=summarise)
    (record,) = await fill(session)
    assert record.extra["by"] == "rules"
    assert "The summary failed (no summary within 180 s)" in notice_text(session)


async def test_a_failed_summary_is_made_by_rule_and_three_in_a_row_are_enough() -> None:
    """C25: the breaker; a person can still ask, and a success closes it."""
    session = session_of()
    summarise, asked = answers(ProviderError("overloaded"), ProviderError("no"), ProviderError("no"), SUMMARY)
    rung = compacting(session, summarise=summarise, settings=CompactSettings(thrash_turns=1, summary_room=0))
    for n in range(5):
        (record,) = await fill(session)
        assert record.extra["by"] == "rules"
        assert len(asked) == min(n + 1, 3)
        said = notice_text(session)
        assert ("The summary failed" in said) == (n < 3)
        assert ("No other is asked for" in said) == (n == 2)
    assert compaction_history(session.view).failures == 3
    done = await rung.compact(CompactionRequest())
    assert (done.kind, compaction_history(session.view).failures) == ("full", 0)


async def test_a_view_that_is_full_again_at_once_three_times_running_is_said_to_be_so() -> None:
    """C25: the thrash guard asks no model any more, says what fills the window, and the session goes on."""
    session = session_of()
    summarise, asked = answers(SUMMARY)
    compacting(session, summarise=summarise)
    heard = []
    for _ in range(6):
        await fill(session, size=22_000)
        heard.append(notice_text(session))
    assert [("fills up again" in said) for said in heard] == [False, False, False, True, False, False]
    assert "about" in heard[3]
    assert len(asked) == 4
    assert View.of(session.transcript.records) == session.view


async def test_a_person_s_command_can_forbid_it() -> None:
    """C18: PreCompact."""
    session = session_of()
    rung = compacting(session, Forbids())
    with pytest.raises(ContextOverflow):
        await fill(session)
    with pytest.raises(NothingToCompact):
        await rung.compact(CompactionRequest())


def prepared(session: Session, background: Background, *, gate: asyncio.Event) -> SummaryPrefetch:
    async def make(view: View) -> Draft:
        await gate.wait()
        return replace(SUMMARY, covers=view.items[-1].record_id)

    def failed(error: Exception) -> None:
        raise AssertionError(error)

    return SummaryPrefetch(background, make, failed=failed)


async def test_a_summary_is_made_beside_the_turns_and_swapped_in_when_it_is_needed() -> None:
    """C28: no request waits for it; what was said meanwhile stays."""
    session, gate = session_of(), asyncio.Event()
    background = Background(session)
    summarise, asked = answers(ProviderError("must not be asked in a turn"))
    preparation = prepared(session, background, gate=gate)
    rung = compacting(session, summarise=summarise, preparation=preparation)
    begun_at = 0
    for n in range(120):
        await session.add_user(f"rule {n}: keep out of generated/{n}")
        done = await a_round(session, n, 1_200)
        rung.on_reply(last_reply(session))
        if background.is_running("compact") and not begun_at:
            begun_at = len(session.view.items)
        if begun_at and session.tokens >= session.thresholds.autocompact:
            gate.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if any(isinstance(record, Compacted) for record in done):
            break
    else:
        raise AssertionError("it was never swapped in")
    (record,) = (one for one in done if isinstance(one, Compacted))
    kept = len(session.view.items)
    assert begun_at
    assert (record.kind, asked) == ("full", [])
    assert kept >= 4


async def test_where_nobody_goes_on_after_the_answer_no_summary_is_begun() -> None:
    """C28: it would be paid for and thrown away."""
    session, gate = session_of(), asyncio.Event()
    background = Background(session)
    summarise, _ = answers(SUMMARY)
    preparation = prepared(session, background, gate=gate)
    rung = compacting(session, summarise=summarise, preparation=preparation)
    session.remove_layer(rung)
    while session.tokens < session.thresholds.warning:
        await session.add_user("go on")
        await a_round(session, 1)
    await session.transcript.append(*said_by_assistant(session))
    session.is_one_shot = True
    rung.on_reply(last_reply(session))
    assert not background.is_running("compact")
    session.is_one_shot = False
    rung.on_reply(last_reply(session))
    assert background.is_running("compact")
    gate.set()
    await background.wait("compact")


def said_by_assistant(session: Session) -> list[Record]:
    clock = session.clock
    return [Said(id=clock.new_id(), at=clock.now(), role="assistant", blocks=(Text("done"),))]


@pytest.mark.slow
async def test_past_the_blocking_limit_a_summary_under_way_is_waited_for_only_so_long() -> None:
    """C16, C28: then the session goes on by rule."""
    session, gate = session_of(), asyncio.Event()
    background = Background(session)
    summarise, _ = answers(ProviderError("nobody answers"))
    preparation = prepared(session, background, gate=gate)
    settings = CompactSettings(wait_seconds=0.01)
    compacting(session, summarise=summarise, preparation=preparation, settings=settings)
    found = await fill(session, size=3_000)
    assert [record.extra["by"] for record in found] == ["rules"]
    await background.drain()


async def test_between_two_rounds_bound_thinking_waits_for_the_blocking_limit() -> None:
    """C12b."""
    session = session_of(model=BINDING)
    compacting(session)
    await session.add_user("go")
    for n in range(200):
        done = await session.fit(session.view, None)
        if any(isinstance(record, Compacted) for record in done):
            break
        session._starts_turn = False
        await session.transcript.append(*done)
        await a_round(session, n, 600)
    assert session.tokens >= session.thresholds.blocking


async def test_a_provider_that_finds_it_too_long_gets_it_compacted() -> None:
    """C27: whatever the estimate says."""
    session = session_of()
    compacting(session)
    await fill(session, 6)
    assert session.tokens < session.thresholds.autocompact
    done = await session.fit(session.view, PromptTooLong("too long"))
    assert [type(record) for record in done] == [Compacted]


async def test_undoing_it_brings_the_conversation_back() -> None:
    """C23."""
    session = session_of()
    rung = compacting(session)
    await fill(session, 8)
    before = session.view.messages
    await rung.compact(CompactionRequest())
    assert session.view.messages != before
    assert await undo_compaction(session) is not None
    assert session.view.messages == before
    assert await undo_compaction(session) is None


async def test_a_part_of_it_can_be_compacted() -> None:
    """C23: from a message on, the cache before it intact; or up to one."""
    session = session_of()
    summarise, asked = answers(SUMMARY)
    rung = compacting(session, summarise=summarise)
    await fill(session, 9)
    before = session.view.messages
    done = await rung.compact(CompactionRequest(span=ItemSpan(first=12), focus="the parser"))
    assert done.record.kind == "partial"
    assert session.view.messages[:5] == before[:5]
    assert asked[0].focus == "the parser"
    await undo_compaction(session)
    done = await rung.compact(CompactionRequest(span=ItemSpan(keeps_from=12)))
    assert done.record.keeps_from == session.view.items[1].record_id


async def test_a_small_part_of_it_is_compacted_by_rule_although_it_frees_little() -> None:
    """C23: a person who names a part wants that part shorter; the room is measured by the part."""
    session = session_of(window=200_000)
    rung = compacting(session)
    await fill(session, 30)
    before = session.view.messages
    done = await rung.compact(
        CompactionRequest(span=ItemSpan(first=len(session.view.items) - 4), by_rule=True)
    )
    assert done.after < done.before
    assert session.view.messages[:40] == before[:40]


async def test_what_a_model_summarised_outlives_a_compaction_by_rule() -> None:
    """C26: no model, no network: what was known before is known still."""
    session = session_of(window=200_000)
    summarise, _ = answers(SUMMARY)
    rung = compacting(session, summarise=summarise)
    await fill(session, 9)
    await rung.compact(CompactionRequest())
    await fill(session, 9)
    done = await rung.compact(CompactionRequest(by_rule=True))
    assert done.kind == "rules"
    texts = [block.text for block in done.record.summary if isinstance(block, Text)]
    assert sum(text.count("The parser is half done.") for text in texts) == 1


async def test_a_short_conversation_is_not_made_longer() -> None:
    """C23c: a summary larger than what it replaces is none."""
    session = session_of()
    rung = compacting(session)
    await session.add_user("hello")
    with pytest.raises(NothingToCompact):
        await rung.compact(CompactionRequest())
    await a_round(session, 1, 60)
    with pytest.raises(NothingToCompact, match="already short"):
        await rung.compact(CompactionRequest())


async def test_a_result_larger_than_the_tail_goes_to_disk_and_its_round_stays(tmp_path: Path) -> None:
    """C16: integrity beats the cap."""
    session = session_of()
    compacting(
        session,
        overflow=OverflowFiles(folder=tmp_path, store=ToolResultStore(tmp_path / "tool-results", sync=False)),
    )
    await fill(session, 3)
    await session.add_user("read the large one")
    await a_round(session, 9, 100_000)
    done = await session.fit(session.view, None)
    await session.transcript.append(*done)
    (file,) = (tmp_path / "tool-results").iterdir()
    assert file.read_text().count("a = 1") == 16_666
    assert str(file) in str(session.view.messages[-1])
    assert session.tokens < session.thresholds.autocompact


async def test_a_result_that_its_tool_cut_is_said_to_be_cut_when_it_goes_to_disk(tmp_path: Path) -> None:
    clock = FrozenClock()
    call = ToolCall("c1", "Grep", {"pattern": "x"})
    text = "a.txt:1:x\n" * 1_000 + "[750 more lines; narrow the search or raise head_limit.]"
    asked = Said(id="1", at=clock.now(), role="assistant", blocks=(call,))
    answered = Said(id="2", at=clock.now(), role="user", blocks=(ToolResult("c1", (Text(text),)),))
    view = View.of([asked, answered])
    overflow = OverflowFiles(folder=tmp_path, store=ToolResultStore(tmp_path / "tool-results", sync=False))
    shown = str(view.after(*await overflow.shrink(view, 100, clock)).messages[-1])
    assert "Grep returned 1,000 of 1,750 lines" in shown and "All of it" not in shown


async def test_words_that_have_no_room_are_where_the_summary_says(tmp_path: Path) -> None:
    """C20: a working pointer for the rest, also after three compactions."""
    session = session_of()
    settings = CompactSettings(words_tokens=300, tail_tokens=2_000)
    compacting(session, overflow=OverflowFiles(folder=tmp_path), settings=settings)
    for _ in range(3):
        assert await fill(session)
    sent = str(session.view.messages)
    pointed = tmp_path / "session-memory" / "user-messages.md"
    assert str(pointed) in sent
    everything = sent + pointed.read_text()
    said = [
        record for record in session.transcript.records if isinstance(record, Said) and record.role == "user"
    ]
    rules = [record.message.text for record in said if record.message.text.startswith("rule")]
    assert len(rules) > 20
    assert [rule for rule in rules if rule not in everything] == []


async def test_only_a_base_and_a_last_message_beyond_the_window_are_an_overflow() -> None:
    """C26: said with what fills it."""
    session = session_of()
    compacting(session)
    await fill(session, 4)
    await session.add_user("word " * 40_000)
    with pytest.raises(ContextOverflow, match="user text about"):
        await session.prepare()
