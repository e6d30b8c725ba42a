"""Caps on what may have been paid when background work stops: by turn, session and day."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.usage import Usage
from nacre.session.session import Base, Session
from nacre.session.settings import SpendSettings
from nacre.session.spending import FILE, Spending, SpendTotal, read_shared
from nacre.settings import load
from nacre.testing import FrozenClock

MODEL = "claude-sonnet-5-5"
MILLION = Usage(output=1_000_000)


def session(clock: FrozenClock | None = None) -> Session:
    return Session(Base(MODEL), clock=clock or FrozenClock())


def limits(**given: float) -> SpendSettings:
    """Only these limits, without the default ones."""
    return SpendSettings(**{"turn_usd": None, "turn_tokens": None, **given})  # type: ignore[arg-type]


def price() -> float:
    paying = session()
    paying.add_usage(MILLION)
    return paying.meter.cost_usd


def spent(home: Path) -> dict[str, object]:
    found = json.loads((home / FILE).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_without_a_cap_nothing_is_ever_too_much() -> None:
    talk = session()
    spending = Spending(talk, limits())
    talk.add_usage(MILLION)
    assert spending.allows("auto_dream") is None


@pytest.mark.parametrize(
    ("caps", "named"),
    [
        (limits(session_tokens=1_000_000), "spend.sessionTokens (1,000,000)"),
        (limits(session_usd=price()), f"spend.sessionUsd (${price():,.2f})"),
        (limits(turn_tokens=1_000_000), "spend.turnTokens (1,000,000)"),
        (limits(turn_usd=price()), f"spend.turnUsd (${price():,.2f})"),
        (limits(day_tokens=1_000_000), "spend.dayTokens (1,000,000)"),
        (limits(day_usd=price()), f"spend.dayUsd (${price():,.2f})"),
    ],
)
def test_a_cap_that_is_reached_is_named_and_stops_all_but_the_conversation(
    caps: SpendSettings, named: str
) -> None:
    """F5: one line that says what to do."""
    talk = session()
    spending = Spending(talk, caps)
    assert spending.allows("auto_dream") is None
    talk.add_usage(Usage(output=999_999))
    assert spending.allows("auto_dream") is None
    talk.add_usage(Usage(output=1))
    assert spending.allows("auto_dream") == (
        f"agents and background work rest: {named} is used up; raise it in the settings to let them go on"
    )
    assert spending.allows("main") is None


def test_by_default_a_turn_has_a_limit_in_dollars_and_one_for_models_without_a_price() -> None:
    """F5: what runs without a word of the person ends by itself."""
    for used, named in (
        (Usage(output=1_000_000), "spend.turnUsd ($10.00)"),
        (Usage(cache_read=50_000_000), "spend.turnTokens (50,000,000)"),
    ):
        talk = Session(Base(MODEL if used.output else "some-local-model"), clock=FrozenClock())
        spending = Spending(talk, SpendSettings())
        assert spending.allows("agent") is None
        talk.add_usage(used)
        assert named in (spending.allows("agent") or "")
        assert spending.allows("main") is None
        spending.begin_turn()
        assert spending.allows("agent") is None
        assert list(talk.notices()) == [], "a limit in tokens holds where no price is known"


async def test_processes_share_the_limits_of_the_session_at_the_top(tmp_path: Path) -> None:
    """F5: each writes its own sums, so that nothing is counted twice, and a turn begins for all."""
    clock, caps = FrozenClock(), limits(session_tokens=3_000_000, turn_tokens=2_000_000)
    lead, mate = session(clock), session(clock)
    one, two = (Spending(each, caps, folder=tmp_path) for each in (lead, mate))
    assert not (tmp_path / FILE).exists(), "a session alone shares nothing"
    one.share()
    await one.settle()
    two.join(tmp_path, name="ann", owner=lead.id)
    mate.add_usage(MILLION)
    for each in (two, two, one, two):
        await each.settle()
    assert one.allows("agent") is None
    mate.add_usage(MILLION)
    for each in (two, one):
        await each.settle()
    assert "spend.turnTokens" in (one.allows("agent") or "")
    assert "spend.turnTokens" in (two.allows("agent") or "")
    two.begin_turn()
    await two.settle()
    assert "spend.turnTokens" in (two.allows("agent") or ""), "a letter to a teammate begins no turn"
    one.begin_turn()
    for each in (one, two):
        await each.settle()
        assert each.allows("agent") is None
    lead.add_usage(MILLION)
    for each in (one, two):
        await each.settle()
        assert "spend.sessionTokens" in (each.allows("agent") or "")
    again = Spending(lead, caps, folder=tmp_path)
    await again.settle()
    assert again.total.tokens == 3_000_000, "also after the session was resumed"
    spent = again.shared.processes[mate.id]
    assert (spent.name, spent.owner, spent.meter) == ("ann", lead.id, mate.meter)


def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    clock = FrozenClock()
    talks = [session(clock) for _ in range(8)]
    watching = [Spending(talk, limits(), folder=tmp_path) for talk in talks]
    for each, talk in zip(watching, talks, strict=True):
        each.join(tmp_path, name=talk.id, owner=talks[0].id)
        talk.add_usage(MILLION)
    threads = [threading.Thread(target=asyncio.run, args=(each.settle(),)) for each in watching]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_shared(tmp_path / FILE)
    assert found is not None
    assert sum(one.meter.usage.total for one in found.processes.values()) == 8_000_000


@given(
    st.one_of(
        st.binary(max_size=40),
        st.recursive(
            st.none() | st.floats() | st.text(max_size=5) | st.booleans() | st.integers(-5, 5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["sessions", "turn_from", "a", "meter", "usage", "cost_usd", "output"]),
                    inner,
                    max_size=4,
                )
            ),
        ).map(lambda value: json.dumps(value).encode()),
    )
)
async def test_garbage_in_the_shared_file_stops_nothing(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes
) -> None:
    folder = tmp_path_factory.mktemp("session")
    (folder / FILE).write_bytes(garbage)
    talk = session()
    spending = Spending(talk, limits(session_tokens=10_000_000, session_usd=100), folder=folder)
    talk.add_usage(MILLION)
    await spending.settle()
    assert spending.total.tokens >= 1_000_000
    assert 0 <= spending.total.usd < 100


def test_one_agent_has_a_limit_of_its_own() -> None:
    spending = Spending(session(), limits(agent_tokens=1_000))
    assert spending.allows_agent(SpendTotal(0.0, 999)) is None
    assert "spend.agentTokens (1,000), the limit of one agent" in (
        spending.allows_agent(SpendTotal(0.0, 1_000)) or ""
    )
    assert spending.allows("auto_dream") is None


def test_a_turns_cap_begins_anew_with_every_turn_and_a_sessions_does_not() -> None:
    """F5: what was paid before a session was resumed counts for it."""
    talk = session()
    talk.add_usage(MILLION)
    turn = Spending(talk, limits(turn_tokens=1_000_000))
    whole = Spending(talk, limits(session_tokens=1_000_000))
    assert (turn.allows("notes"), whole.allows("notes") is None) == (None, False)
    talk.add_usage(MILLION)
    assert turn.allows("notes") is not None
    turn.begin_turn()
    assert turn.allows("notes") is None


async def test_a_days_cap_is_shared_by_sessions_and_ends_with_the_day(tmp_path: Path) -> None:
    """F5: each adds what it paid itself, and only once."""
    clock, caps = FrozenClock(), limits(day_tokens=3_000_000)
    mine, other = session(clock), session(clock)
    one, two = (Spending(each, caps, home=tmp_path) for each in (mine, other))
    mine.add_usage(MILLION)
    other.add_usage(MILLION + MILLION)
    for each in (one, one, two, two, one):
        await each.settle()
    assert spent(tmp_path)["tokens"] == 3_000_000
    assert one.allows("notes") is not None
    clock.advance(36 * 3600)
    await one.settle()
    assert one.allows("notes") is None
    assert spent(tmp_path)["tokens"] == 0


@given(
    st.one_of(
        st.binary(max_size=40),
        st.recursive(
            st.none() | st.floats() | st.text(max_size=5) | st.booleans(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["day", "usd", "tokens"]), inner, max_size=3)
            ),
        ).map(lambda value: json.dumps(value).encode()),
        st.just(b'{"day": "2026-01-01", "usd": -5, "tokens": 1}'),
        st.just(b'{"day": "2026-01-01", "usd": NaN, "tokens": 1}'),
    )
)
async def test_garbage_in_the_days_file_counts_as_nothing_and_is_written_over(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes
) -> None:
    """F5: a file that anybody may have touched stops no session."""
    home = tmp_path_factory.mktemp("home")
    (home / FILE).write_bytes(garbage)
    talk = session()
    spending = Spending(talk, limits(day_tokens=10_000_000), home=home)
    talk.add_usage(MILLION)
    await spending.settle()
    assert spent(home)["tokens"] == 1_000_000
    assert spending.allows("notes") is None


async def test_a_home_that_cannot_be_written_to_costs_only_the_sharing(
    tmp_path: Path,
) -> None:
    """F5: the session still keeps its own count."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    talk = session()
    spending = Spending(talk, limits(day_tokens=1_000_000), home=blocked)
    talk.add_usage(MILLION)
    for _ in range(2):
        await spending.settle()
    assert spending.allows("notes") is not None
    told = [one.text for one in talk.notices()]
    assert [line[:43] for line in told] == ["what was spent today cannot be written down"]


def test_sessions_that_settle_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """F5: one writer at a time, in one process or several."""
    talks = [session() for _ in range(8)]
    watching = [Spending(talk, limits(day_usd=1), home=tmp_path) for talk in talks]
    for talk in talks:
        talk.add_usage(MILLION)

    def settle(spending: Spending) -> None:
        import asyncio

        asyncio.run(spending.settle())

    threads = [threading.Thread(target=settle, args=(each,)) for each in watching]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert spent(tmp_path)["tokens"] == 8_000_000


def test_caps_come_from_settings_and_variables(tmp_path: Path) -> None:
    """F5: a setting replaces the default of one limit."""
    environ = {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / "home")}
    assert load(tmp_path, environ).spend == SpendSettings()
    assert SpendSettings().turn_usd and SpendSettings().turn_tokens, (
        "agents of a turn end somewhere by default"
    )
    capped = load(tmp_path, {**environ, "NACRE_SPEND_DAY_USD": "2.5", "NACRE_SPEND_TURN_TOKENS": "0"})
    assert capped.spend == SpendSettings(day_usd=2.5, turn_tokens=0)


async def test_what_could_not_be_written_down_is_the_next_time(tmp_path: Path) -> None:
    """F5: another session must not go without it because a file was busy once."""
    talk = session()
    spending = Spending(talk, limits(day_tokens=10_000_000), home=tmp_path)
    (tmp_path / FILE).mkdir()
    talk.add_usage(MILLION)
    await spending.settle()
    (tmp_path / FILE).rmdir()
    await spending.settle()
    assert spent(tmp_path)["tokens"] == 1_000_000


def test_a_person_s_own_commands_cost_nothing_and_are_never_stopped() -> None:
    """F5, C18: PostCompact is told of a compaction whatever was spent."""
    talk = session()
    spending = Spending(talk, limits(session_tokens=1))
    talk.add_usage(MILLION)
    assert spending.allows("compact") is not None
    assert spending.allows("hooks") is None
