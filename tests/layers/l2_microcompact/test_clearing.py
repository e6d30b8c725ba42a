"""Layer 2 in a session: what goes, what the person hears, what it costs, what a resume finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.cache.models import thresholds
from nacre.cache.warmth import Warmth
from nacre.errors import ContextOverflow
from nacre.layers.l2_microcompact.layer import Microcompact, pointer_tokens
from nacre.layers.l2_microcompact.policy import MicrocompactSettings
from nacre.layers.l4_compact.layer import Compact
from nacre.messages.events import Event, Notice
from nacre.messages.records import Noted, Record
from nacre.messages.view import View
from nacre.session.agent import SessionAgent
from nacre.session.fit import WindowState
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.settings import load
from nacre.store.tool_results import ToolResultStore
from nacre.testing import FrozenClock, ScriptedProvider, call, say, think, together
from nacre.tools.base import tool
from tests.layers.l2_microcompact.scenes import BINDING, FREE, START, noted, view_of, words

TWENTY = MicrocompactSettings(keep=20)
MOVES = pytest.mark.moves_prefix(reason="old results are cleared on a cold cache")


@tool(name="Bash", read_only=True)
async def bash(n: int) -> str:
    """Answers at length."""
    return words(n)


def opened(
    provider: ScriptedProvider,
    clock: FrozenClock,
    folder: Path,
    *,
    model: str = FREE,
    records: Sequence[Record] = (),
    settings: MicrocompactSettings = TWENTY,
) -> SessionAgent:
    base = Base(model, "s", [bash])
    session = Session(base, records, settings=SessionSettings(strict_prefix=True), clock=clock)
    rung = Microcompact(ToolResultStore(folder), settings)
    session.add_layers(rung)
    return SessionAgent(session, provider, [bash])


async def played(agent: SessionAgent, text: str) -> list[Event]:
    return [event async for event in agent.stream(text)]


def script_of(provider: ScriptedProvider, rounds: int, *, thinking: bool = False) -> None:
    """So many calls, ten seconds apart, then a closing word."""
    before = [think("hm")] if thinking else []
    provider.script(*(together(*before, call("Bash", n=n)) for n in range(rounds)), say("done"))


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def clears(agent: SessionAgent) -> list[Noted]:
    return agent.session.view.noted("clear")


@MOVES
async def test_after_a_pause_old_results_go_and_the_person_is_told(
    provider: ScriptedProvider, clock: FrozenClock, tmp_path: Path
) -> None:
    """C9: the request after the pause is smaller, and where the originals are is said."""
    agent = opened(provider, clock, tmp_path / "tool-results")
    script_of(provider, 51)
    await played(agent, "go")
    clock.advance(7_200)
    provider.script(say("still here"))
    told = notices(await played(agent, "and now?"))
    freed = clears(agent)[-1].fact("tokens")
    assert told == [
        f"Cleared 31 old tool results (about {freed:,} tokens) after a pause of 2 h; "
        f"originals in {tmp_path / 'tool-results'}."
    ]
    assert len(list((tmp_path / "tool-results").iterdir())) == 31
    sizes = [len(json.dumps(request.messages)) for request in provider.requests]
    assert sizes[-1] < 0.5 * sizes[-2]
    assert agent.session.tokens < 60_000


@MOVES
async def test_every_gap_is_cleared_once_and_only_gaps_are(
    provider: ScriptedProvider, clock: FrozenClock, tmp_path: Path
) -> None:
    """C9: not on every later turn; but a later gap again."""
    agent = opened(provider, clock, tmp_path)
    script_of(provider, 25)
    await played(agent, "go")
    clock.advance(301)
    script_of(provider, 3)
    await played(agent, "more")
    clock.advance(299)
    script_of(provider, 3)
    await played(agent, "more, without a pause")
    assert [note.fact("calls") for note in clears(agent)] == [[f"call_{n}" for n in range(1, 6)]]
    clock.advance(301)
    provider.script(say("yes"))
    await played(agent, "after a second pause")
    assert [len(note.facts["calls"]) for note in clears(agent)] == [5, 6]  # type: ignore[arg-type]


@MOVES
async def test_a_session_resumed_after_a_day_is_cold_and_clears_once(
    provider: ScriptedProvider, clock: FrozenClock, tmp_path: Path
) -> None:
    """C9, T3: judged from the log alone; and what is resumed after that makes the same bytes."""
    first = opened(provider, clock, tmp_path)
    script_of(provider, 25)
    await played(first, "go")
    clock.advance(86_400)
    second = opened(provider, clock, tmp_path, records=first.session.transcript.records)
    provider.script(say("good morning"), say("yes"))
    await played(second, "next day")
    third = opened(provider, clock, tmp_path, records=second.session.transcript.records)
    await played(third, "go on")
    assert len(clears(third)) == 1
    resumed = View.of(second.session.transcript.records)
    assert third.session.view.messages[: len(resumed.messages)][:-1] == resumed.messages[:-1]


@MOVES
@pytest.mark.parametrize("model", [BINDING, FREE])
async def test_thinking_goes_only_where_it_is_bound(
    model: str, provider: ScriptedProvider, clock: FrozenClock, tmp_path: Path
) -> None:
    """C12b: only on a model that binds it, and only behind the first result that was cleared."""
    agent = opened(provider, clock, tmp_path, model=model)
    script_of(provider, 25, thinking=True)
    await played(agent, "go")
    clock.advance(301)
    provider.script(say("yes"))
    await played(agent, "and now?")
    assert len(clears(agent)) == 1
    messages = [json.dumps(one) for one in provider.requests[-1].messages]
    thoughts = [place for place, text in enumerate(messages) if '"type": "thinking"' in text]
    replies = list(range(1, 51, 2))
    first_cleared = next(place for place, text in enumerate(messages) if "was cleared to save room" in text)
    assert first_cleared == 2
    assert thoughts == (replies if model == FREE else [one for one in replies if one < first_cleared])


async def test_a_long_call_in_mid_turn_is_no_reason_to_unbind_thinking(
    provider: ScriptedProvider, clock: FrozenClock, tmp_path: Path
) -> None:
    """C12b: rewriting only at the start of a turn."""
    agent = opened(provider, clock, tmp_path, model=BINDING)

    def late(_: object) -> object:
        clock.advance(400)
        return together(call("Bash", n=99))

    provider.script(*(call("Bash", n=n) for n in range(25)), late, say("done"))  # type: ignore[arg-type]
    await played(agent, "go")
    assert not clears(agent)


@MOVES
async def test_a_conversation_that_no_longer_fits_is_cleared_before_it_is_refused(
    provider: ScriptedProvider, clock: FrozenClock, tmp_path: Path
) -> None:
    """The layers, cheapest first; warm or not."""
    agent = opened(provider, clock, tmp_path)
    agent.session.settings = SessionSettings(strict_prefix=True, window_ceiling=100_000)
    script_of(provider, 70)
    told = notices(await played(agent, "go"))
    assert told and all("to make room" in line for line in told)
    assert agent.session.tokens < agent.session.thresholds.autocompact


@MOVES
async def test_a_conversation_that_no_longer_fits_is_compacted_at_once_where_that_is_automatic(
    provider: ScriptedProvider, clock: FrozenClock, tmp_path: Path
) -> None:
    """C9: a clear would only delay the compaction, and the prefix would be written twice."""
    agent = opened(provider, clock, tmp_path)
    agent.session.settings = SessionSettings(strict_prefix=True, window_ceiling=100_000)
    compact = Compact(is_automatic=False)
    agent.session.add_layers(compact)
    script_of(provider, 25)
    await played(agent, "go")
    full = replace(agent.session.window_state(agent.session.view), tokens=84_000)
    clearing = agent.session.layer(Microcompact)
    assert clearing is not None and clearing.can_shrink(agent.session.view, full)
    compact.is_automatic = True
    assert not clearing.can_shrink(agent.session.view, full)
    assert compact.can_shrink(agent.session.view, full)


@MOVES
async def test_after_a_clear_that_made_room_a_marker_stands_before_the_oldest_result_kept(
    provider: ScriptedProvider, clock: FrozenClock, tmp_path: Path
) -> None:
    """C31c: what was cleared on a warm cache stays readable from it."""
    agent = opened(provider, clock, tmp_path)
    agent.session.settings = SessionSettings(strict_prefix=True, window_ceiling=100_000)
    script_of(provider, 70)
    await played(agent, "go")
    first = clears(agent)[0]
    assert first.fact("reason") == "full"
    after = next(one for one in provider.requests if "was cleared to save room" in json.dumps(one.messages))
    answered = next(
        place
        for place, message in enumerate(after.messages)
        if f'"{first.fact("keeps_from")}"' in results_in(message)
    )
    assert "cache_control" in json.dumps(after.messages[answered - 1])
    assert "cache_control" not in json.dumps(after.messages[answered])


def results_in(message: object) -> str:
    """The results of a message, without the calls that have the same ids."""
    content = message["content"] if isinstance(message, dict) else []
    return json.dumps([one for one in content if one.get("type") == "tool_result"])


async def test_a_clear_that_could_not_bring_it_below_the_threshold_is_left_to_a_dearer_layer(
    clock: FrozenClock, tmp_path: Path
) -> None:
    """C12: two rewrites in a row would lose the cache twice."""
    rung, view = Microcompact(ToolResultStore(tmp_path)), view_of(45)
    session = Session(Base(FREE, "s", [bash]), layers=[rung], clock=clock)
    limits = thresholds(100_000, max_output=8_000)
    warmth = Warmth(now=START, touched_at=START)

    def can_shrink(tokens: int) -> bool:
        given = WindowState(tokens=tokens, thresholds=limits, profile=session.profile, warmth=warmth)
        return rung.can_shrink(view, given)

    # What 44 of the 45 results take, less what stands in their place.
    most = 44 * (1_000 - pointer_tokens(ToolResultStore(tmp_path)))
    assert can_shrink(limits.autocompact + most)
    assert not can_shrink(limits.autocompact + most + 1)


async def test_nobody_is_told_of_a_clear_that_was_not_enough_and_is_not_recorded(
    provider: ScriptedProvider, clock: FrozenClock, tmp_path: Path
) -> None:
    """C26: what does not fit even so is refused, and everything stays as it was."""
    agent = opened(provider, clock, tmp_path)
    script_of(provider, 30)
    await played(agent, "go")
    agent.session.settings = SessionSettings(strict_prefix=True, window_ceiling=12_000)
    with pytest.raises(ContextOverflow):
        await played(agent, "and now?")
    assert not clears(agent)
    assert agent.session.notices() == []


async def test_without_a_clear_nothing_is_said_or_written(
    provider: ScriptedProvider, clock: FrozenClock, tmp_path: Path
) -> None:
    agent = opened(provider, clock, tmp_path / "none")
    script_of(provider, 25)
    assert notices(await played(agent, "go")) == []
    assert not (tmp_path / "none").exists()


@MOVES
async def test_a_tool_of_ones_own_takes_part_only_when_it_says_so(
    clock: FrozenClock, tmp_path: Path, home: Path
) -> None:
    """Layer 2: and the switch turns it off for all."""

    @tool(read_only=True)
    async def look_up(n: int) -> str:
        """Answers at length."""
        return words(n)

    cleared: list[int] = []
    for clearable, switch in ((True, "true"), (False, "true"), (True, "false")):
        provider = ScriptedProvider()
        provider.script(*(call("look_up", n=n) for n in range(25)), say("done"), say("yes"))
        settings = load(tmp_path, {"NACRE_HOME": str(home), "NACRE_CLEAR_IDLE": switch}, cli={"model": FREE})
        own = [replace(look_up, clearable=clearable)]
        async with open_agent(settings, provider=provider, tools=own, clock=clock) as ready:
            await played(ready.agent, "go")
            clock.advance(301)
            await played(ready.agent, "and now?")
            cleared.append(len(clears(ready.agent)))
    assert cleared == [1, 0, 0]


@pytest.mark.slow
@MOVES
async def test_the_model_pins_only_where_that_is_asked_for(
    clock: FrozenClock, tmp_path: Path, home: Path
) -> None:
    """Layer 2: what is pinned outlives the pause; nobody is asked before a pin."""
    (tmp_path / "spec.txt").write_text(words(7), encoding="utf-8")
    for wanted in ("true", "false"):
        provider = ScriptedProvider()
        pins = [call("Pin", about="spec.txt")] if wanted == "true" else []
        read = call("Read", file_path=str(tmp_path / "spec.txt"))
        more = [call("Grep", pattern=f"result {n}") for n in range(25)]
        provider.script(read, *pins, *more, say("done"), say("yes"))
        given = {"NACRE_HOME": str(home), "NACRE_MICROCOMPACT_PIN_TOOL": wanted, "NACRE_NOTES": "0"}
        settings = load(tmp_path, given, cli={"model": FREE})
        async with open_agent(settings, provider=provider, clock=clock) as ready:
            await played(ready.agent, "go")
            clock.advance(301)
            await played(ready.agent, "and now?")
        offered = [str(one["name"]) for one in provider.requests[0].tools]
        assert ("Pin" in offered) == (wanted == "true")
        assert (words(7)[:200] in json.dumps(provider.requests[-1].messages)) == (wanted == "true")


async def test_a_log_from_elsewhere_opens_no_folder_outside_the_home(tmp_path: Path, home: Path) -> None:
    """What a log names as the place of originals is read without a question only where ours are kept."""
    ours = home / "projects" / "p" / "old" / "tool-results"
    others = [tmp_path / "tool-results", ours / "../../../../tool-results", ours.parent / "subagents"]
    settings = load(tmp_path, {"NACRE_HOME": str(home)}, cli={"model": FREE})
    async with open_agent(settings, provider=ScriptedProvider([say("yes")])) as ready:
        await played(ready.agent, "go")
        await ready.agent.session.transcript.append(
            *(noted("clear", n, folder=str(place)) for n, place in enumerate([ours, *others]))
        )
    async with open_agent(settings, provider=ScriptedProvider(), session="latest") as ready:
        opened = set(ready.toolset.guard.policy.directories)
        assert ours.resolve() in opened
        assert opened.isdisjoint(place.resolve() for place in others)
