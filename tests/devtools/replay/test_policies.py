"""Policies over whole made-up sessions: what each does, what it costs, and that it stays a valid prefix."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from nacre.cache.warmth import KeepWarmSettings
from nacre.devtools.replay.other_policies import CompactionSettings, filler
from nacre.devtools.replay.policies import (
    CLAUDE_CODE,
    NACRE,
    NACRE_MODEL,
    NONE,
    POLICIES,
    TRUNCATE,
    Driven,
    Ladder,
    policy,
)
from nacre.devtools.replay.run import Replayed, ReplayTerms, Study, replay, replay_one, totals
from nacre.devtools.replay.schema import (
    PolicyAnswer,
    PolicyTotals,
    Recorded,
    ReplayStep,
    Setting,
    SideRequest,
    WireRequest,
)
from nacre.errors import ConfigError
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.tokens import estimate_text
from nacre.messages.usage import Usage
from nacre.messages.wire import render_block
from tests.devtools.replay.made_up import asked, output, rounds

TERMS = ReplayTerms(model="claude-opus-5-5", window=60_000)
LONG = rounds(80, chars=6_000)


def under(maker: Ladder, session: Recorded = LONG, terms: ReplayTerms = TERMS) -> Replayed:
    return replay_one(Study(session), maker, terms)


def actions(done: Replayed) -> dict[str, int]:
    counts: dict[str, int] = {}
    for point in done.points:
        for action in point.actions:
            counts[action.kind] = counts.get(action.kind, 0) + action.count
    return counts


def test_none_forgets_nothing_breaks_nothing_and_counts_what_would_not_fit() -> None:
    """P7: the yardstick."""
    tally = under(NONE).tally
    assert tally.requests == len(LONG.steps)
    assert tally.prefix_breaks == tally.unannounced == tally.invalid == 0
    assert tally.used.pairs_kept == tally.used.pairs
    assert tally.refetch_usd == 0
    assert tally.overflow > 0
    assert tally.peak_tokens > TERMS.window
    assert tally.usage.hit_rate > 0.9


SHORT = [
    replace(TRUNCATE, compaction=CompactionSettings(summary_tokens=0, tail_tokens=8_000)),
    replace(CLAUDE_CODE, compaction=CompactionSettings(tail_tokens=8_000)),
    NACRE,
    NACRE_MODEL,
]


@pytest.mark.slow
@pytest.mark.parametrize("maker", SHORT, ids=lambda maker: maker.name)
@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-4-5", "gpt-6"])
@pytest.mark.parametrize("thinks", [False, True])
def test_a_policy_fits_the_window_with_valid_requests_and_no_unannounced_break(
    maker: Ladder, model: str, thinks: bool
) -> None:
    """C12b, C32: thinking that is bound goes with what stood before it."""
    session = rounds(80, chars=6_000, thinks=thinks)
    tally = under(maker, session, replace(TERMS, model=model)).tally
    assert tally.overflow == 0
    assert tally.invalid == 0
    assert tally.unannounced == 0
    assert tally.prefix_breaks > 0
    assert tally.peak_tokens < 60_000


def test_a_summary_is_charged_as_a_fork_that_reads_the_cached_prefix() -> None:
    maker = replace(
        CLAUDE_CODE, clearing=None, compaction=CompactionSettings(tail_tokens=0, summary_tokens=2_000)
    )
    done = under(maker).tally
    assert done.compactions == done.sides > 0
    # Two thousand tokens of output each, and the prefix mostly at the price of reading.
    least = done.sides * 2_000 * 20 / 1e6
    assert least < done.side_usd < least + done.sides * 60_000 * 1.5 / 1e6


def test_truncation_asks_for_no_summary_and_is_no_compaction() -> None:
    done = under(replace(TRUNCATE, compaction=CompactionSettings(summary_tokens=0, tail_tokens=20_000)))
    assert done.tally.sides == done.tally.compactions == 0
    assert actions(done)["truncate"] > 0


def test_a_kept_tail_keeps_more_of_what_is_used_next() -> None:
    """Retention ranks them: the same cut with and without its newest rounds."""
    steps = []
    for number in range(60):
        call = ToolCall(
            f"call-{number}", "Bash", {"command": f"use value_{number:04d} in src/part_{number:04d}.py"}
        )
        heard = (
            [Text("Go.")]
            if number == 0
            else [ToolResult(f"call-{number - 1}", (Text(output(number, 6_000)),))]
        )
        steps.append(asked(number, heard, [call], at=number * 5.0))
    session = Recorded(name="uses", steps=tuple(steps), base_tokens=2_000)
    bare = under(
        replace(CLAUDE_CODE, name="bare", compaction=CompactionSettings(tail_tokens=0)), session
    ).tally
    kept = under(
        replace(CLAUDE_CODE, name="kept", compaction=CompactionSettings(tail_tokens=20_000)), session
    ).tally
    assert bare.compactions > 0
    assert bare.used.pairs_kept < bare.used.pairs
    assert kept.used.pairs_kept > bare.used.pairs_kept
    assert bare.refetches > 0
    assert bare.refetch_usd > 0


def test_large_results_are_offloaded_before_they_are_ever_sent() -> None:
    """C4: nothing that was sent changes, so that the prefix holds."""
    session = rounds(8, chars=30_000)
    done = under(NACRE, session, replace(TERMS, window=200_000))
    assert actions(done)["offload"] == 6
    assert done.tally.prefix_breaks == 0
    assert done.tally.peak_tokens < under(NONE, session).tally.peak_tokens / 3


def test_an_idle_hour_clears_old_results_under_the_published_profile() -> None:
    """C9: all but the newest five."""
    session = rounds(24, chars=3_000, pause=4_000.0, turn=12)
    done = under(CLAUDE_CODE, session, replace(TERMS, window=200_000))
    assert actions(done)["clear"] >= 5
    assert done.tally.prefix_breaks == 1
    assert done.tally.unannounced == 0


def test_keeping_warm_reads_instead_of_writing_when_the_person_comes_back() -> None:
    """C8b: the same session with and without, and its refreshes are charged."""
    session = rounds(40, chars=3_000, pause=400.0)
    cold = under(NONE, session).tally
    warm = under(replace(NONE, warming=KeepWarmSettings(max_share=1.0), waits_at_end=False), session)
    assert actions(warm)["refresh"] == warm.tally.sides > 0
    assert 0 < warm.tally.side_usd < cold.cost_usd
    assert warm.tally.usage.cache_write < cold.usage.cache_write
    assert warm.tally.cost_usd < cold.cost_usd
    assert warm.tally.used == cold.used


def test_a_session_waits_after_its_last_reply_as_in_any_pause() -> None:
    """No log tells that a program was closed, so that the refreshes nobody needed are charged, too."""
    session = rounds(40, chars=3_000, pause=400.0)
    warming = KeepWarmSettings(max_share=1.0)
    closed = under(replace(NONE, warming=warming, waits_at_end=False), session).tally
    left = under(replace(NONE, warming=warming), session).tally
    assert left.sides > closed.sides
    timeless = replace(session, has_times=False)
    assert under(replace(NONE, warming=warming), timeless).tally.sides == 0


def test_a_long_wait_inside_a_turn_is_kept_warm_too() -> None:
    """C8b: a question to the person or a tool that takes long is a pause like any other."""
    steps = rounds(12, chars=9_000, turn=50).steps
    slow = tuple(
        replace(step, at=step.at + timedelta(seconds=400 * (i // 6))) for i, step in enumerate(steps)
    )
    session = Recorded(name="slow", steps=slow, base_tokens=20_000)
    maker = replace(NONE, warming=KeepWarmSettings(max_share=1.0), waits_at_end=False)
    assert under(maker, session).tally.sides == 1
    assert under(replace(maker, warming=None), session).tally.sides == 0


def test_a_longer_lifetime_is_written_at_its_own_price() -> None:
    session = rounds(20, chars=3_000, pause=1_000.0)
    hour = under(policy("none", lifetime="1h"), session).tally
    assert hour.usage.cache_write_1h == hour.usage.cache_write > 0
    assert under(policy("none", lifetime="mixed"), session).tally.usage.cache_write_1h > 0
    assert under(NONE, session).tally.usage.cache_write_1h == 0


def test_one_recording_gives_the_same_figures_every_time() -> None:
    once, again = (replace(under(NACRE).tally, cpu_seconds=()) for _ in range(2))
    assert once == again


def test_the_base_counts_unless_it_is_left_out() -> None:
    with_it, without = (under(NONE, terms=replace(TERMS, with_base=has)).tally for has in (True, False))
    assert with_it.peak_tokens - without.peak_tokens == pytest.approx(LONG.base_tokens, abs=5)


def test_another_librarys_policy_takes_part_with_plain_wire_messages() -> None:
    """The protocol asks for nothing of ours; a broken prefix and an unpaired result are counted."""

    class Window:
        def __init__(self) -> None:
            self.messages: list[JsonObject] = []

        def ask(self, step: ReplayStep) -> PolicyAnswer:
            for said in step.heard:
                self.messages.append({"role": "user", "content": [render_block(one) for one in said.blocks]})
            return PolicyAnswer(sent=WireRequest(at=step.at, messages=self.messages[-5:]))

        def hear(self, step: ReplayStep, usage: Usage) -> None:
            self.messages.append(
                {"role": "assistant", "content": [render_block(one) for one in step.reply.blocks]}
            )

        def close(self) -> tuple[SideRequest, ...]:
            return ()

    class Windows:
        name = "sliding window"

        def prepare(self, session: Recorded) -> Recorded:
            return session

        def start(self, setting: Setting) -> Window:
            return Window()

    tally = replay_one(Study(rounds(12)), Windows(), TERMS).tally
    assert tally.prefix_breaks == tally.unannounced > 0
    assert tally.invalid > 0
    assert tally.usage.cache_read == 0


def test_sums_add_up_over_sessions_and_keep_the_order_of_policies() -> None:
    sessions = [rounds(8), rounds(12)]
    seen: list[tuple[int, int]] = []
    done = replay(sessions, [NACRE, NONE], TERMS, progress=lambda *told: seen.append(told))
    sums = totals(done)
    assert list(sums) == ["nacre", "none"]
    assert sums["none"].requests == 20
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert sums["none"] == sum((one.tally for one in done if one.policy == "none"), PolicyTotals())


def test_files_of_a_replay_are_gone_when_it_is_over() -> None:
    driven = NACRE.start(Setting(model="claude-opus-5-5", window=60_000))
    assert isinstance(driven, Driven)
    folder = driven.folder
    assert folder.is_dir()
    driven.close()
    assert not folder.exists()


def test_a_stand_in_is_as_large_as_asked_and_names_nothing() -> None:
    assert estimate_text(filler(2_000)) == 2_000
    assert estimate_text(filler(2_000, ratio=1.25)) == 1_600


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match=", ".join(POLICIES)):
        policy("all")
