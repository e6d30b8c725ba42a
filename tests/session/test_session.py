"""A session's requests: what stands in them, how large they may get, and what was learnt from the figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.cache.models import SHIPPED_TABLE, profile, use_model_table
from nacre.errors import ContextOverflow, InvalidRequest, PromptTooLong
from nacre.messages.blocks import Message, Text
from nacre.messages.events import Notice, Reply
from nacre.messages.media import UNSEEN_TOKENS, as_image, media_facts
from nacre.messages.records import Record, Said
from nacre.messages.tokens import RequestCalibration
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.session.fit import WindowState
from nacre.session.layer import Layer
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.settings import load
from nacre.testing import FrozenClock, ScriptedProvider
from nacre.tools.base import tool
from tests.pictures import png

UNKNOWN = "a-model-of-ones-own"


@tool
async def beta(x: int) -> str:
    """Second by name."""
    return str(x)


@tool
async def alpha(x: int) -> str:
    """First by name."""
    return str(x)


def answer(text: str, usage: Usage) -> Reply:
    return Reply(message=Message("assistant", (Text(text),)), usage=usage)


def test_tools_stand_in_one_order_however_they_were_found() -> None:
    """C31b, rule 11: no order of discovery reaches a request."""
    assert Base("m", "s", [beta, alpha]) == Base("m", "s", [alpha, beta])
    assert [one["name"] for one in Base("m", "s", [beta, alpha]).tools] == ["alpha", "beta"]


async def test_the_opening_rides_once_in_the_first_message(clock: FrozenClock) -> None:
    """Rule 11: what varies touches neither system nor tools, and never comes again."""
    one = Session(Base("claude-opus-5-5", "s", [], opening="It is Sunday."), clock=clock)
    for text in ("hello", "again"):
        await one.add_user(text)
        await one.prepare()
        await one.record(answer("yes", Usage(input=5)))
    spoken = [record for record in one.transcript.records if isinstance(record, Said)]
    assert [(said.message.text, said.meta) for said in spoken] == [
        ("It is Sunday.", True), ("hello", False), ("yes", False), ("again", False), ("yes", False),
    ]  # fmt: skip
    resumed = Session(one.base, one.transcript.records, clock=clock)
    await resumed.add_user("third")
    assert json.dumps(resumed.request(resumed.view).messages).count("It is Sunday.") == 1


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-opus-5-5", 2765),
        ("claude-sonnet-4-5", 1568),
        ("gpt-6.1-terra", 2040),
        ("gpt-5", 910),
        ("gemini-2.5-pro", 1548),
        (UNKNOWN, UNSEEN_TOKENS),  # a line of text replaces it
        ("o3-mini", UNSEEN_TOKENS),
    ],
)
async def test_a_picture_counts_by_the_vendor_until_the_provider_has_counted_it(
    model: str, tokens: int, clock: FrozenClock
) -> None:
    picture = as_image(png(1_920, 1_080))
    session = Session(Base(model, "s", []), clock=clock)
    await session.add_user("hello")
    before = session.tokens
    await session.add_user("look", images=[picture])
    assert session.tokens - before == tokens + 1
    assert session.text_tokens(session.view) == 3 + tokens
    await session.record(answer("yes", Usage(input=5_000)))
    assert session.tokens == 5_000
    await session.add_user("again", images=[picture])
    ratio = session.calibration.ratio
    assert session.tokens == 5_000 + round(
        (session.view.estimate - session.view.counted_estimate) * ratio
    ) - (round((media_facts(picture).tokens - tokens) * ratio))


async def test_a_picture_behind_the_last_reply_does_not_distort_what_a_resumed_session_learns(
    clock: FrozenClock,
) -> None:
    base = Base("gpt-5", "s" * 8_000, [])
    first = Session(base, clock=clock)
    await first.add_user("hello")
    await first.prepare()
    await first.record(answer("yes", Usage(input=2_100, output=5)))
    learnt = []
    for images in ([], [as_image(png(1_920, 1_080))]):
        resumed = Session(base, first.transcript.records, clock=clock)
        await resumed.add_user("look", images=images)
        await resumed.prepare()
        learnt.append(resumed.calibration)
    assert learnt[0].is_measured
    assert learnt[0] == learnt[1]


async def test_there_is_nothing_to_send_before_somebody_spoke(clock: FrozenClock) -> None:
    with pytest.raises(InvalidRequest, match="add a user's message first"):
        await Session(Base("claude-opus-5-5", "s", []), clock=clock).prepare()


@pytest.mark.parametrize(
    ("model", "settings", "window", "autocompact", "blocking"),
    [
        (UNKNOWN, SessionSettings(), 200_000, None, None),
        (UNKNOWN, SessionSettings(window_ceiling=60_000), 60_000, None, None),
        ("claude-opus-5-5", SessionSettings(), 1_000_000, 967_000, 977_000),
        ("claude-opus-5-5", SessionSettings(window_ceiling=200_000), 200_000, 167_000, 177_000),
        ("claude-opus-5-5", SessionSettings(window_ceiling=9_000_000), 1_000_000, 967_000, 977_000),
        ("claude-opus-5-5", SessionSettings(compact_window=200_000), 1_000_000, 167_000, 977_000),
        ("claude-opus-5-5", SessionSettings(compact_percent=50), 1_000_000, 490_000, 977_000),
        ("claude-opus-5-5", SessionSettings(compact_percent=100), 1_000_000, 967_000, 977_000),
        ("claude-haiku-4-5[1m]", SessionSettings(), 1_000_000, 967_000, 977_000),
    ],
)
def test_the_settings_decide_where_in_the_window_something_happens(
    model: str, settings: SessionSettings, window: int, autocompact: int | None, blocking: int | None
) -> None:
    """C3: they lower, they never raise."""
    limits = Session(Base(model, "s", []), settings=settings).thresholds
    assert limits.window == window
    assert autocompact in (None, limits.autocompact)
    assert blocking in (None, limits.blocking)
    assert limits.warning < limits.autocompact <= limits.blocking <= limits.effective < window


async def test_a_conversation_that_cannot_fit_says_what_fills_it(clock: FrozenClock) -> None:
    """C26: said with what fills it, before anything is sent."""
    settings = SessionSettings(window_ceiling=10_000)
    one = Session(Base("claude-opus-5-5", "s", []), settings=settings, clock=clock)
    await one.add_user("x" * 60_000)
    with pytest.raises(
        ContextOverflow, match=r"about 15,0\d\d tokens .*user text about 15,0.*/clear"
    ) as caught:
        await one.prepare()
    assert "\n" not in str(caught.value)
    assert "/compact" not in str(caught.value), "one message cannot be compacted"


async def test_a_conversation_that_nothing_shortens_by_itself_says_that_compact_would(
    clock: FrozenClock,
) -> None:
    settings = SessionSettings(window_ceiling=10_000)
    one = Session(Base("claude-opus-5-5", "s", []), settings=settings, clock=clock)
    await one.add_user("hello")
    message = Message("assistant", (Text("x" * 60_000),))
    await one.record(Reply(message=message, usage=Usage(input=10, output=15_000)))
    await one.add_user("go on")
    with pytest.raises(ContextOverflow, match=r"shorten it with /compact, start a new session with /clear"):
        await one.prepare()


async def test_the_estimate_is_calibrated_against_what_the_provider_reports(clock: FrozenClock) -> None:
    """C2: keep the ratio, report the error."""
    one = Session(Base("claude-opus-5-5", "s" * 400, []), clock=clock)
    assert one.calibration.ratio == 1.0
    await one.add_user("x" * 4_000)
    estimated = one.tokens
    await one.prepare()
    await one.record(answer("ok", Usage(input=100, cache_write=estimated * 2 - 100, output=3)))
    assert one.calibration.ratio == pytest.approx(2.0)
    assert one.calibration.error == pytest.approx(1.0)
    assert one.tokens == estimated * 2 + 3, "the provider's figure stands (C1)"


async def test_a_dry_run_teaches_nothing(clock: FrozenClock) -> None:
    """C2: only what was sent can be compared with what was billed."""
    one = Session(Base("claude-opus-5-5", "s", []), clock=clock)
    await one.add_user("x" * 4_000)
    await one.prepare()
    asked = one.tokens
    one.request(one.view)
    await one.record(answer("ok", Usage(input=asked)))
    assert one.calibration.ratio == pytest.approx(1.0)


@pytest.mark.parametrize(("asked", "granted"), [(None, 8_192), (64_000, 64_000), (9_000_000, 128_000)])
async def test_a_reply_may_be_as_long_as_asked_for_and_as_the_model_can(
    asked: int | None, granted: int, clock: FrozenClock
) -> None:
    one = Session(Base("claude-opus-5-5", "s", []), clock=clock)
    await one.add_user("hello")
    assert one.request(one.view, asked).max_tokens == granted


async def test_a_persons_own_rows_decide_about_prices_and_windows(tmp_path: Path) -> None:
    """P5: the table is overridable; what is not named stays as shipped."""
    environ = {
        "NACRE_HOME": str(tmp_path / "home"),
        "NACRE_MODELS": '{"claude-opus-5-5": {"window": 70000}}',
    }
    settings = load(tmp_path, environ, cli={"model": "claude-opus-5-5"})
    try:
        async with open_agent(settings, provider=ScriptedProvider(), ephemeral=True) as ready:
            assert ready.agent.session.thresholds.window == 70_000
            assert ready.agent.session.profile.prices
    finally:
        use_model_table(SHIPPED_TABLE)
    assert profile("claude-opus-5-5").window == 1_000_000


def test_what_a_session_learns_corrects_what_it_only_estimates() -> None:
    """C2: the ratio of real to estimated tokens goes into every count."""
    session = Session(Base("claude-opus-5-5", "x" * 400, []))
    session.calibration = RequestCalibration(base=100).after(text=0, real=130)
    assert session.tokens == 130


async def test_the_window_that_a_refusal_names_holds_from_then_on(clock: FrozenClock) -> None:
    """A server on this machine has the window that it was started with, and no table knows it."""
    one = Session(Base("some-local-model", "s", []), clock=clock)
    await one.add_user("hello")
    assert one.window == 200_000
    await one.fit(one.view, PromptTooLong("too long", tokens=9_000, limit=8_192))
    assert one.window == 8_192
    assert ["maxContextTokens" in notice.text for notice in one.notices()] == [True]
    await one.fit(one.view, PromptTooLong("too long", tokens=9_000, limit=100_000))
    assert one.window == 8_192


@pytest.mark.parametrize(("system", "is_measured"), [("s" * 4_000, True), ("t" * 4_000, False)])
async def test_a_resumed_session_learns_sizes_from_its_log_if_its_base_is_the_same(
    system: str, is_measured: bool, clock: FrozenClock
) -> None:
    """C2: what the provider has counted is known after a compaction, too, also to another process."""
    one = Session(Base("claude-opus-5-5", "s" * 4_000, []), clock=clock)
    await one.add_user("x" * 4_000)
    await one.prepare()
    await one.record(answer("y" * 4_000, Usage(input=2_800, output=1_400)))
    resumed = Session(Base("claude-opus-5-5", system, []), one.transcript.records, clock=clock)
    await resumed.add_user("z" * 40_000)
    # A first request that is never answered leaves the note of its base in the log.
    for _ in range(2):
        await resumed.prepare()
        assert resumed.calibration.is_measured == is_measured
        assert resumed.calibration.ratio == pytest.approx(1.4 if is_measured else 1.0)
        assert resumed.calibration.base_tokens == (1_400 if is_measured else 1_000)


async def test_a_request_that_seems_too_large_is_counted_by_the_provider_first(clock: FrozenClock) -> None:
    """C2: where the provider counts, nothing is refused because of an estimate."""
    one = Session(
        Base("claude-opus-5-5", "s", []), settings=SessionSettings(window_ceiling=10_000), clock=clock
    )
    counted: list[Request] = []

    async def count(request: Request) -> int:
        counted.append(request)
        return 7_000

    one.count_request = count
    await one.add_user("x" * 60_000)
    await one.prepare()
    assert (len(counted), one.tokens) == (1, 7_500), "a ratio below 0.5 counts as 0.5"
    await one.prepare()
    assert len(counted) == 1


class Watches(Layer):
    """Records what it is asked, and shrinks nothing."""

    def __init__(self) -> None:
        self.saw: list[bool] = []

    def can_shrink(self, view: View, state: WindowState) -> bool:
        self.saw.append(state.starts_turn)
        return False

    async def shrink(self, view: View, state: WindowState) -> list[Record]:
        raise AssertionError


async def test_a_turn_has_only_started_until_its_first_reply_is_heard(
    clock: FrozenClock,
) -> None:
    """C12b, C27: what is refused as too long at the start of a turn may still be rewritten."""
    rung = Watches()
    one = Session(Base(UNKNOWN, "s", []), layers=[rung], clock=clock)
    await one.add_user("go")
    await one.prepare()
    await one.fit(one.view, PromptTooLong("prompt is too long"))
    await one.record(answer("yes", Usage()))
    await one.fit(one.view, None)
    await one.add_user("and now?")
    await one.fit(one.view, None)
    assert rung.saw == [True, True, False, True]


async def test_of_what_layers_did_in_vain_only_warnings_are_shown(clock: FrozenClock) -> None:
    """C26: nothing of it is recorded, but a command that failed meanwhile has failed all the same."""

    class Shrinks(Layer):
        def can_shrink(self, view: View, state: WindowState) -> bool:
            return True

        async def shrink(self, view: View, state: WindowState) -> list[Record]:
            one.notify("made smaller")
            one.notify("a hook failed", "warning")
            return []

    settings = SessionSettings(window_ceiling=10_000)
    one = Session(Base(UNKNOWN, "s", []), layers=[Shrinks()], settings=settings, clock=clock)
    await one.add_user("word " * 20_000)
    with pytest.raises(ContextOverflow):
        await one.prepare()
    assert one.notices() == [Notice("a hook failed", "warning")]


def test_two_sessions_are_two_however_alike_they_are() -> None:
    """Who takes part is no part of what a session is: it can stand in a set, and prints no list of them."""
    one, other = (Session(Base(UNKNOWN), clock=FrozenClock()) for _ in range(2))
    assert one != other and len({one, other, one}) == 2
    assert "layers" not in repr(one)
