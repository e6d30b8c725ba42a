"""Notes and extraction in a replay: one request in a pause, billed as it is sent (P7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nacre.devtools.replay.policies import NACRE_CHAT, Ladder
from nacre.devtools.replay.run import ReplayTerms, Study, replay_one
from nacre.devtools.replay.schema import PolicyTotals, Recorded, Setting
from nacre.devtools.replay.side_work import SideWorkSettings
from nacre.messages.blocks import Text
from nacre.messages.usage import Usage
from tests.devtools.replay.made_up import asked

TERMS = ReplayTerms(model="claude-opus-5-5", window=200_000)
QUIET = replace(NACRE_CHAT, warming=None)
WORDS = "There is a lot to say about this part of the work. " * 1_200
"""About 15,000 tokens: a conversation with one of them is long enough for notes."""


def conversation(*pauses: float) -> Recorded:
    """One turn before each pause, and one after the last."""
    at = 0.0
    steps = [asked(0, [Text(WORDS)], [Text("I see.")], at=at)]
    for number, pause in enumerate(pauses, 1):
        at += pause
        steps.append(asked(number, [Text(f"Go on with {number}. {WORDS}")], [Text("Done.")], at=at))
    return Recorded(name="pauses", steps=tuple(steps), base_tokens=4_000)


def tally(maker: Ladder, session: Recorded) -> PolicyTotals:
    return replay_one(Study(session), maker, TERMS).tally


@pytest.mark.parametrize(
    ("pauses", "requests"),
    [((60.0, 60.0), 1), ((250.0, 60.0), 2), ((250.0, 250.0), 3), ((30.0,) * 8, 1), ((30.0,) * 9, 2)],
)
def test_there_is_one_request_for_each_long_pause_and_one_at_the_end(
    pauses: tuple[float, ...], requests: int
) -> None:
    """E1, E4, C14: after ten turns without a pause an extraction does not wait any longer."""
    assert tally(QUIET, conversation(*pauses)).sides == requests


def test_a_program_that_is_closed_extracts_before_it_ends() -> None:
    assert tally(replace(QUIET, waits_at_end=False), conversation(60.0)).sides == 1


def test_the_request_replaces_the_first_refresh_of_a_pause() -> None:
    """C8b: the cache lives on from it."""
    session = conversation(*(500.0,) * 12)
    without = tally(replace(NACRE_CHAT, side_work=None), session)
    chat = tally(replace(NACRE_CHAT, side_work=SideWorkSettings(small_model="none")), session)
    assert without.sides > 12, "otherwise nothing was refreshed"
    assert chat.sides - 13 < without.sides - 8, "thirteen of them are notes and memories"
    assert chat.usage.hit_rate >= without.usage.hit_rate


def test_what_it_costs_is_on_the_bill() -> None:
    session = conversation(250.0, 250.0)
    chat = tally(QUIET, session)
    none = tally(replace(QUIET, side_work=None), session)
    assert chat.side_usd > 0 == none.side_usd
    assert chat.cost_usd == pytest.approx(none.cost_usd + chat.side_usd, rel=0.05)
    assert chat.unannounced == chat.invalid == 0


def models(maker: Ladder, model: str) -> set[str | None]:
    """Return which models do the work in the pauses of a session; None is a fork of it."""
    policy = maker.start(Setting(model=model, window=200_000))
    sides = []
    for number, step in enumerate(conversation(*(500.0,) * 4).steps):
        sides += policy.ask(step).sides
        policy.hear(step, Usage(cache_read=80_000 + number))
    return {one.model for one in (*sides, *policy.close()) if one.kind == "other"}


@pytest.mark.parametrize(
    ("maker", "model", "expected"),
    [
        (NACRE_CHAT, "claude-opus-5-5", "claude-haiku-5-5"),
        (NACRE_CHAT, "claude-haiku-5-5", None),
        (NACRE_CHAT, "gpt-6.1-sol", None),
        (NACRE_CHAT, "somebody-elses", None),
        (QUIET, "claude-opus-5-5", None),
    ],
    ids=["opus", "the small one", "openai, never refreshed", "no price", "no refreshes"],
)
def test_the_small_model_of_the_vendor_does_it_where_that_costs_less(
    maker: Ladder, model: str, expected: str | None
) -> None:
    """F7: where the cache is not refreshed, the fork that renews it is cheaper."""
    assert models(maker, model) == {expected}
