"""What layers spent and saved: the arithmetic, request by request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.cache.models import cost, profile
from nacre.inspect.savings import LAYERS, Account, booked, savings
from nacre.messages.blocks import Json, Text
from nacre.messages.jsonl import Envelope, encode
from nacre.messages.records import Compacted, Noted, Record, Replaced, ReplyFacts, Said, Undone
from nacre.messages.usage import Usage
from tests.cli.recorded import compacted, conversation, written

MODEL = "claude-opus-5-5"
W, R = 5.0 / 1e6, 0.2 / 1e6
"""What a token costs to write and to read."""
START = datetime(2026, 1, 1, tzinfo=UTC)


def asked(n: int, prompt: int, *, read: int, minutes: float = 0.0, model: str = MODEL, **more: int) -> Said:
    usage = Usage(cache_read=read, cache_write=prompt - read, output=10, **more)
    facts = ReplyFacts(id=f"m{n}", model=model, usage=usage)
    at = START + timedelta(minutes=minutes)
    return Said(id=f"r{n}", at=at, role="assistant", blocks=(Text("x"),), reply=facts)


def note(record_id: str, kind: str, **facts: Json) -> Noted:
    return Noted(id=record_id, at=START, kind=kind, facts=facts)


def refresh(tokens: int, purpose: str = "keep_warm", model: str = MODEL) -> Noted:
    usage = Usage(cache_read=tokens)
    return note("k", "side_query", purpose=purpose, model=model, usage=usage.as_json())


def test_a_result_that_was_left_out_is_paid_once_in_full_then_read_by_every_request() -> None:
    """C34: X·w once, X·r later; what a cold cache makes dearer, it makes dearer for these, too."""
    records: list[Record] = [
        asked(1, 10_000, read=0),
        note("o", "offload", tokens_kept_out=4_000, path="p"),
        asked(2, 12_000, read=10_000),
        asked(3, 14_000, read=12_000),
        asked(4, 16_000, read=0, minutes=60),
    ]
    found = savings(records)["offload"]
    assert (found.times, found.tokens, found.spent_usd) == (1, 4_000, 0.0)
    assert found.saved_usd == pytest.approx(4_000 * (W + R + W))


def test_what_was_left_out_counts_until_a_compaction() -> None:
    records: list[Record] = [
        note("o", "duplicate", tokens_kept_out=4_000),
        asked(1, 10_000, read=0),
        Compacted(id="c", at=START, summary=(Text("s"),)),
        asked(2, 3_000, read=0),
    ]
    assert savings(records)["offload"].saved_usd == pytest.approx(4_000 * W)


def test_what_was_undone_saves_nothing_more() -> None:
    """A rewind takes back the notes of the words it takes back, and the rewrite of a clear."""
    records: list[Record] = [
        note("o", "offload", tokens_kept_out=4_000),
        Replaced(id="x", at=START, changes=(), reason="clear"),
        note("n", "clear", tokens=1_000, reason="idle"),
        asked(1, 10_000, read=0),
        Undone(id="u", at=START, target="o"),
        Undone(id="v", at=START, target="x"),
        asked(2, 10_000, read=10_000),
    ]
    found = savings(records)
    assert found["offload"].saved_usd == pytest.approx(4_000 * W)
    assert found["microcompact"].saved_usd == pytest.approx(1_000 * W)


def test_a_clear_on_a_cold_cache_saves_the_write_and_costs_nothing() -> None:
    """C9, C12."""
    records: list[Record] = [
        asked(1, 50_000, read=0),
        Replaced(id="x", at=START, changes=(), reason="clear"),
        note("n", "clear", tokens=30_000, reason="idle", calls=["a"], idle_seconds=4_000),
        asked(2, 21_000, read=0, minutes=70),
        asked(3, 22_000, read=21_000, minutes=71),
    ]
    found = savings(records)["microcompact"]
    assert found == Account(times=1, tokens=30_000, saved_usd=pytest.approx(30_000 * (W + R)))


def test_a_clear_on_a_warm_cache_pays_for_what_stands_behind_it() -> None:
    """C12: T(w - r) is spent; the cleared tokens would only have been read."""
    records: list[Record] = [
        asked(1, 50_000, read=0),
        note("n", "clear", tokens=30_000, reason="economic"),
        asked(2, 21_000, read=5_000, minutes=1),
        asked(3, 22_000, read=21_000, minutes=2),
    ]
    found = savings(records)["microcompact"]
    assert found.spent_usd == pytest.approx((50_000 - 30_000 - 5_000) * (W - R))
    assert found.saved_usd == pytest.approx(30_000 * 2 * R)


def test_a_clear_before_a_long_pause_lost_nothing_that_was_still_cached() -> None:
    """C12: decided on a warm cache, sent on a cold one: it costs nothing and saves the whole write."""
    records: list[Record] = [
        asked(1, 50_000, read=0),
        note("n", "clear", tokens=30_000, reason="economic"),
        asked(2, 21_000, read=0, minutes=60),
    ]
    found = savings(records)["microcompact"]
    assert (found.spent_usd, found.saved_usd) == (0.0, pytest.approx(30_000 * W))


@pytest.mark.parametrize(("minutes", "is_warm"), [(30, True), (61, False)])
def test_what_is_written_for_an_hour_is_warm_for_an_hour(minutes: float, is_warm: bool) -> None:
    """C31c: a clear within it breaks what was still there."""
    records: list[Record] = [
        asked(1, 50_000, read=0, cache_write_1h=50_000),
        note("n", "clear", tokens=30_000, reason="economic"),
        asked(2, 21_000, read=5_000, minutes=minutes, cache_write_1h=16_000),
    ]
    assert (savings(records)["microcompact"].spent_usd > 0) == is_warm


def test_what_was_kept_warm_and_then_compacted_away_was_kept_for_nothing() -> None:
    records = [asked(1, 50_000, read=0), refresh(50_000), Compacted(id="c", at=START, summary=(Text("s"),))]
    found = savings([*records, asked(2, 51_000, read=50_000, minutes=8)])["keep_warm"]
    assert (found.times, found.saved_usd) == (1, 0.0)


def test_a_refresh_saves_only_where_the_cache_would_have_expired_and_did_not() -> None:
    """C8b: spent is what its requests cost."""
    spent = 50_000 * R
    short = [asked(1, 50_000, read=0), refresh(50_000), asked(2, 51_000, read=50_000, minutes=4)]
    long = [asked(1, 50_000, read=0), refresh(50_000), asked(2, 51_000, read=50_000, minutes=8)]
    in_vain = [asked(1, 50_000, read=0), refresh(50_000), asked(2, 51_000, read=0, minutes=60)]
    assert savings(short)["keep_warm"] == Account(times=1, tokens=50_000, spent_usd=pytest.approx(spent))
    assert savings(in_vain)["keep_warm"] == Account(times=1, tokens=50_000, spent_usd=pytest.approx(spent))
    assert savings(long)["keep_warm"].saved_usd == pytest.approx(50_000 * (W - R))
    assert savings(long)["offload"] == Account()


def test_recall_is_what_its_questions_cost() -> None:
    usage = Usage(input=900, output=20)
    side = note("s", "side_query", purpose="memdir_relevance", model=MODEL, usage=usage.as_json())
    other = note("t", "side_query", purpose="something", model=MODEL, usage=usage.as_json())
    price = cost(profile(MODEL), usage)
    assert savings([side, other])["recall"] == Account(times=1, tokens=920, spent_usd=pytest.approx(price))


def test_notes_are_what_their_forks_cost_each_fork_once() -> None:
    """C34: a fork makes several requests; what notes save is in no log."""
    usage = Usage(cache_read=10_000, output=100)
    asked_twice = [
        note(f"n{n}", "side_query", purpose="session_memory", model=MODEL, usage=usage.as_json(), request=n)
        for n in (1, 2)
    ]
    price = cost(profile(MODEL), usage)
    assert price is not None
    found = savings(asked_twice)["notes"]
    assert found == Account(times=1, tokens=20_200, spent_usd=pytest.approx(2 * price))


def test_another_model_than_the_conversations_is_named() -> None:
    """C34, F7."""
    usage = Usage(input=900, output=20)
    sides = [
        note(f"n{n}", "side_query", purpose=purpose, model=model, usage=usage.as_json(), request=1)
        for n, (purpose, model) in enumerate(
            [("session_memory", "claude-haiku-5-5"), ("extract_memories", MODEL), ("session_memory", MODEL)]
        )
    ]
    found = savings([asked(1, 50_000, read=0), *sides])
    assert (found["notes"].models, found["notes"].times) == (("claude-haiku-5-5",), 2)
    assert (found["extract"].models, found["extract"].times) == ((), 1)


def test_a_compaction_is_what_it_took_out_and_what_its_summaries_cost() -> None:
    """C34: also those in vain; an undone one takes nothing out, another program's is not ours."""
    usage = Usage(cache_read=90_000, output=900)
    side = note("q", "side_query", purpose="compact", model=MODEL, usage=usage.as_json(), request=1)
    ours = Compacted(id="c", at=START, summary=(Text("s"),), pre_tokens=90_000, post_tokens=20_000)
    theirs = Compacted(id="d", at=START, summary=(Text("s"),), pre_tokens=150_000)
    span = Compacted(id="e", at=START, summary=(Text("s"),), kind="span", pre_tokens=9, post_tokens=1)
    price = pytest.approx(cost(profile(MODEL), usage))
    done = savings([side, ours, theirs, span])["compact"]
    assert done == Account(times=1, tokens=70_000, spent_usd=price)
    undone = savings([side, ours, Undone(id="u", at=START, target="c")])["compact"]
    assert undone == Account(times=1, tokens=0, spent_usd=price)
    assert savings([side])["compact"] == Account(spent_usd=price)


def test_hours_are_paid_as_hours_and_no_cache_as_plain_input() -> None:
    left_out = note("o", "offload", tokens_kept_out=1_000)
    hour = savings([left_out, asked(1, 10_000, read=0, cache_write_1h=10_000)])["offload"]
    assert hour.saved_usd == pytest.approx(1_000 * 8 / 1e6)
    plain = Said(
        id="r", at=START, role="assistant", blocks=(), reply=ReplyFacts(model=MODEL, usage=Usage(input=500))
    )
    assert savings([left_out, plain])["offload"].saved_usd == pytest.approx(1_000 * 4 / 1e6)


def test_a_model_without_a_price_leaves_the_tokens() -> None:
    records = [
        note("o", "offload", tokens_kept_out=1_000),
        asked(1, 10_000, read=0, model="some-model"),
        refresh(500, model="some-model"),
    ]
    found = savings(records)
    assert found["offload"] == Account(times=1, tokens=1_000, unpriced=1)
    assert found["keep_warm"] == Account(times=1, tokens=500, unpriced=1)
    assert not found["offload"].has_price


def test_estimates_are_corrected_by_what_the_session_has_learnt() -> None:
    """C2."""
    assert savings([note("o", "offload", tokens_kept_out=1_000)], ratio=1.5)["offload"].tokens == 1_500


def test_a_reply_split_over_records_and_another_agents_replies_count_once_or_not_at_all() -> None:
    part = asked(1, 10_000, read=0)
    records: list[Record] = [
        note("o", "offload", tokens_kept_out=1_000),
        Said(id="s", at=START, role="assistant", blocks=(), reply=part.reply, aside="sidechain"),
        part,
        asked(1, 10_000, read=0),
    ]
    assert savings(records)["offload"].saved_usd == pytest.approx(1_000 * W)


def test_a_log_of_another_program_saved_nothing_by_us(tmp_path: Path) -> None:
    for lines in (conversation(), compacted()):
        found = savings(booked(written(tmp_path / "log.jsonl", lines)))
        assert dict(found) == {name: Account() for name in LAYERS}


def test_the_log_on_disk_tells_the_same_as_the_records(tmp_path: Path) -> None:
    """Only lines that matter are parsed; what they say is not lost."""
    said = Said(id="w", at=START, role="user", blocks=(Text("a" * 5_000),))
    records: list[Record] = [
        said,
        note("o", "offload", tokens_kept_out=4_000),
        asked(1, 10_000, read=0),
        note("p", "offload", tokens_kept_out=70),
        Undone(id="u", at=START, target="o"),
        Replaced(id="x", at=START, changes=(), reason="clear"),
        note("n", "clear", tokens=1_000, reason="idle"),
        refresh(10_000),
        asked(2, 11_000, read=10_000, minutes=9),
        Compacted(id="c", at=START, summary=(Text("s"),), summary_id="cs"),
        asked(3, 2_000, read=0, minutes=10),
    ]
    envelope, parent = Envelope(session_id="s", cwd="/"), None
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(encode(one, envelope=envelope, parent=parent) for one in records))
    assert savings(booked(path)) == savings(records)
    assert all(savings(records)[name].times for name in ("offload", "microcompact", "keep_warm"))


FACTS = st.dictionaries(
    st.sampled_from(["tokens", "tokens_kept_out", "reason", "purpose", "model", "usage"]),
    st.one_of(st.none(), st.integers(-5, 10**6), st.sampled_from(["idle", "keep_warm", MODEL, ""])),
)
RECORDS = st.one_of(
    st.builds(
        lambda n, prompt, read, minutes: asked(n, prompt, read=min(read, prompt), minutes=minutes),
        st.integers(0, 9), st.integers(0, 10**6), st.integers(0, 10**6), st.floats(-90, 90),
    ),
    st.builds(
        lambda kind, facts: Noted(id=kind, at=START, kind=kind, facts=facts),
        st.sampled_from(["offload", "duplicate", "clear", "side_query", "day"]), FACTS,
    ),
    st.builds(lambda target: Undone(id="u", at=START, target=target), st.sampled_from(["offload", "x"])),
    st.just(Compacted(id="c", at=START, summary=())),
    st.just(Replaced(id="x", at=START, changes=(), reason="clear")),
)  # fmt: skip


@given(st.lists(RECORDS, max_size=30))
def test_whatever_a_log_says_the_accounts_are_no_less_than_nothing(records: list[Record]) -> None:
    """Odd notes and odd figures are no reason to fail; nor can a sum grow negative."""
    for account in savings(records).values():
        assert min(account.times, account.tokens, account.spent_usd, account.saved_usd) >= 0
