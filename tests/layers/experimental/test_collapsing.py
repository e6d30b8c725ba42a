"""Collapse in a session: staged in the background, committed when it gets tight, by rule without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.compaction import join_collapsing
from nacre.cache.warmth import Warmth
from nacre.errors import Overloaded, PromptTooLong
from nacre.layers.experimental.collapse import HEAD, STAGED, Collapse
from nacre.layers.experimental.collapse_policy import CollapseSettings
from nacre.loop.fork import Fork, ForkResult, ForkTask
from nacre.messages.blocks import Message, Text
from nacre.messages.events import Reply
from nacre.messages.pins import pin
from nacre.messages.records import Compacted, Record, Undone
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.background import Background
from nacre.session.ladder import Pressure, fit
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.settings import Settings, Switches
from nacre.testing import FrozenClock
from tests.layers.l2_microcompact.scenes import BINDING, FREE
from tests.layers.l4_compact.turns import is_valid, talk

SMALL = CollapseSettings(tail_tokens=500, span_tokens=1_000, min_tokens=100, wait_seconds=0.2, max_failures=2)
"""Of a conversation of some 2,900 tokens in windows of about that size."""
REPLY = Reply(message=Message("assistant", (Text("done"),)), usage=Usage(), id="r")


class Model:
    """Answers every errand in the same words, or as it is told; counts them."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[ForkTask] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, errand: ForkTask) -> ForkResult:
        self.asked.append(errand)
        await self.may_answer.wait()
        answer = self.answers.pop(0) if self.answers else "<summary>looked, all is well</summary>"
        if isinstance(answer, Exception):
            raise answer
        replies = [Message("assistant", (Text(answer),))]
        return ForkResult(
            source="compact", replies=replies, usage=Usage(), first=Usage(), stop_reason="end_turn"
        )


def opened(
    clock: FrozenClock,
    *,
    fork: Fork | None = None,
    window: int = 3_000,
    model: str = FREE,
    records: Sequence[Record] | None = None,
) -> tuple[Session, Background, Collapse]:
    """A session of five turns that all but fills its window."""
    session = Session(
        Base(model, "", []),
        talk(5, thinking=model == BINDING) if records is None else records,
        settings=SessionSettings(window_ceiling=window),
        clock=clock,
    )
    background = Background(session)
    session.layers.append(background)
    collapsing = Collapse(session, background, fork, SMALL)
    session.layers.append(collapsing)
    return session, background, collapsing


def window_for(share: float) -> int:
    """The window of which the conversation fills such a share, once what a reply may take is off."""
    tokens = View.of(talk(5)).count()
    return round(tokens / share / 0.9)


async def staged_all(background: Background, collapsing: Collapse) -> None:
    collapsing.on_reply(REPLY)
    await background.wait("collapse")


def spans(records: Sequence[Record]) -> list[Compacted]:
    return [record for record in records if isinstance(record, Compacted) and record.kind == "span"]


def shown(session: Session) -> str:
    return str(session.view.messages)


async def test_below_ninety_percent_summaries_are_made_and_nothing_moves(clock: FrozenClock) -> None:
    """C30: staged in the background, as notes that are appended at the next boundary."""
    model = Model()
    session, background, collapsing = opened(clock, fork=model, window=window_for(0.8))
    await staged_all(background, collapsing)
    assert model.asked
    assert session.view.noted(STAGED) == []
    await session.prepare()
    assert len(session.view.noted(STAGED)) == len(model.asked)
    assert session.view.epochs == ()
    assert background.failures("collapse") == 0


async def test_a_short_conversation_pays_for_no_summary(clock: FrozenClock) -> None:
    """C30."""
    model = Model()
    session, background, collapsing = opened(clock, fork=model, window=window_for(0.5))
    await staged_all(background, collapsing)
    assert model.asked == []
    await session.prepare()
    assert session.view.epochs == ()


async def test_from_ninety_percent_they_are_committed_and_the_person_is_told(clock: FrozenClock) -> None:
    """C30: enough of them to be of use, the oldest first; every word of the person stays."""
    session, background, collapsing = opened(clock, fork=Model(), window=window_for(0.92))
    before = session.tokens
    await staged_all(background, collapsing)
    await session.prepare()
    done = spans(session.transcript.records)
    assert done[0].first == "a0.0"
    assert session.tokens <= 0.75 * before
    assert all(f"question {n}" in shown(session) for n in range(5))
    (told,) = (notice.text for notice in session.notices())
    freed = sum((one.pre_tokens or 0) - (one.post_tokens or 0) for one in done)
    assert told == (
        f"Collapsed {len(done)} finished pieces of work (about {freed:,} tokens); "
        "originals: nacre sessions show --full."
    )
    await session.prepare()
    assert spans(session.transcript.records) == done


async def test_between_ninety_and_ninety_five_a_request_does_not_wait(clock: FrozenClock) -> None:
    """C30: a summary that is under way is waited for at 95 %, not before."""
    model = Model()
    model.may_answer.clear()
    session, background, collapsing = opened(clock, fork=model, window=window_for(0.92))
    collapsing.on_reply(REPLY)
    await session.prepare()
    assert session.view.epochs == ()
    assert not collapsing.is_exhausted(session.view)
    assert await background.cancel("collapse")


async def test_at_ninety_five_it_waits_and_what_is_missing_is_told_by_rule(clock: FrozenClock) -> None:
    """C30, C26: a model that does not answer in time holds nobody up for long."""
    model = Model()
    session, background, collapsing = opened(clock, fork=model, window=window_for(0.96))
    collapsing.on_reply(REPLY)
    await session.prepare()
    assert "looked, all is well" in shown(session)
    stuck = Model()
    stuck.may_answer.clear()
    session, background, collapsing = opened(clock, fork=stuck, window=window_for(0.96))
    collapsing.on_reply(REPLY)
    await session.prepare()
    done = spans(session.transcript.records)
    assert {one.extra["by"] for one in done} == {"rule"}
    await background.cancel("collapse")


async def test_without_a_model_rules_do_it_at_ninety_percent(clock: FrozenClock) -> None:
    """C30, P3: one line a call."""
    session, background, collapsing = opened(clock, window=window_for(0.92))
    before = session.tokens
    collapsing.on_reply(REPLY)
    assert background.running() == ()
    await session.prepare()
    assert session.tokens <= 0.75 * before
    assert shown(session).count(HEAD) == len(spans(session.transcript.records)) > 0
    assert is_valid(session.view.messages)


async def test_a_refusal_commits_everything_that_can_go(clock: FrozenClock) -> None:
    """C30: on "too long" all of it, staged or told by rule, before anything dearer is tried."""
    session, background, collapsing = opened(clock, fork=Model(), window=window_for(0.8))
    records = await session.fit(session.view, PromptTooLong("too long"))
    assert [one.first for one in spans(records)] == ["a0.0", "a1.0", "a2.0", "a3.0"]
    assert collapsing.is_exhausted(session.view.after(*records))
    await background.drain(0)


async def test_rejected_summaries_are_replaced_by_rules_and_end_after_a_few(clock: FrozenClock) -> None:
    """C23c, C25: no summary that is no summary; no paying for more of them."""
    model = Model(Overloaded("busy"), "<summary></summary>")
    session, background, collapsing = opened(clock, fork=model, window=window_for(0.92))
    await staged_all(background, collapsing)
    assert len(model.asked) == 2
    await session.prepare()
    assert {one.extra["by"] for one in spans(session.transcript.records)} == {"rule"}
    told = [notice.text for notice in session.notices()]
    assert told[0] == (
        "Summaries of finished work failed 2 times (the summary is empty); rules do it from now on."
    )


async def test_a_resumed_session_has_what_was_staged(clock: FrozenClock) -> None:
    """C30, T3: nothing is paid for twice."""
    model = Model()
    session, background, collapsing = opened(clock, fork=model, window=window_for(0.8))
    await staged_all(background, collapsing)
    await session.prepare()
    paid = len(model.asked)
    again, _, resumed = opened(clock, fork=model, window=window_for(0.92), records=session.transcript.records)
    assert len(resumed.staged(again.view)) == paid
    await again.prepare()
    assert "looked, all is well" in shown(again)
    assert len(model.asked) == paid


async def test_pinned_results_stay_whole(clock: FrozenClock) -> None:
    """C30: also when they were pinned after their span had been summarised."""
    session, background, collapsing = opened(clock, fork=Model(), window=window_for(0.92))
    await staged_all(background, collapsing)
    await session.transcript.append(pin("c0.1", clock))
    await session.fit(session.view, None)
    records = await session.fit(session.view, PromptTooLong("too long"))
    after = session.view.after(*records)
    assert "result 0.1" in str(after.messages)
    assert "result 1.1" not in str(after.messages)


async def test_what_a_person_took_back_is_not_collapsed_again(clock: FrozenClock) -> None:
    """C30: an undone commit stays undone, also after a resume."""
    session, _, _ = opened(clock, window=window_for(0.92))
    await session.prepare()
    done = spans(session.transcript.records)
    back = [Undone(id=clock.new_id(), at=clock.now(), target=one.id) for one in done]
    await session.transcript.append(*back)
    again, _, _ = opened(clock, window=window_for(0.92), records=session.transcript.records)
    records = await again.fit(again.view, PromptTooLong("too long"))
    first = {one.first for one in done}
    assert first.isdisjoint(one.first for one in spans(records))


async def test_where_thinking_is_bound_it_happens_at_the_start_of_a_turn(clock: FrozenClock) -> None:
    """C12b: in mid-turn collapse says that it cannot help, so that compaction may."""
    session, _, collapsing = opened(clock, model=BINDING, window=window_for(0.9))
    view = session.view
    pressure = Pressure(
        tokens=session.tokens,
        thresholds=session.thresholds,
        profile=session.profile,
        warmth=Warmth(now=clock.now(), touched_at=clock.now()),
    )
    in_turn = replace(pressure, starts_turn=False)
    assert collapsing.can_shrink(view, pressure)
    assert not collapsing.can_shrink(view, in_turn)
    assert not collapsing.is_exhausted(view)
    assert collapsing.is_exhausted(view, in_turn)
    after = view.after(*await fit(view, [collapsing], pressure, base=0))
    assert "signed" not in str(after.messages)
    assert after.epochs[:2] == ("thinking", "compact")


@pytest.mark.parametrize("is_on", [True, False])
def test_it_is_joined_only_where_it_is_switched_on(clock: FrozenClock, is_on: bool) -> None:
    """C30: behind a switch."""
    session = Session(Base(FREE, "", []), clock=clock)
    here = Path("/")
    settings = Settings(home=here, cwd=here, project_root=here, switches=Switches(collapse=is_on))
    joined = join_collapsing(session, settings, Background(session), None)
    assert session.layers == ([joined] if is_on else [])
