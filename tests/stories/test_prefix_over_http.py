"""Long conversations through the official SDKs: each request is read from the cache almost whole (C32)."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from nacre.devtools.sim import Exchange, Simulator
from nacre.messages.blocks import Json
from nacre.messages.events import Event, TextDelta, ToolResultEvent
from nacre.messages.wire import canonical
from nacre.providers import openai_responses
from nacre.providers.openai_translate import translate_messages, translate_tools
from nacre.session.agent import SessionAgent
from nacre.session.session import Session
from tests.stories.scenes import (
    BAR,
    CLAUDE,
    GPT,
    OLDER_CLAUDE,
    RESPONSES,
    bare,
    call,
    calls,
    chain_of,
    quiet,
    results,
    say,
    shares_read,
    talking_to,
)

MODELS = [CLAUDE, OLDER_CLAUDE, GPT, RESPONSES]
TURNS: list[tuple[str, list[Json]]] = [
    (
        "What is in here — and is it tidy?",
        [
            calls(call("Glob", pattern="*.py"), call("Read", file_path="README.md"), text="Let me look."),
            calls(call("Read", file_path="module_0.py"), call("Grep", pattern="TODO", output_mode="count")),
            calls(call("Bash", command="wc -l *.py; echo 'ünïcode ✓'")),
            {"thinking": "One more.", **calls(call("Read", file_path="module_1.py", limit=40, offset=3))},
            "Four modules, none of them tidy.",
        ],
    ),
    (
        "Tidy the first one, please.",
        [
            calls(call("Bash", command="sed -i 's/  # TODO tidy//' module_0.py && git --version")),
            calls(call("Read", file_path="module_0.py"), call("Read", file_path="no such file.py")),
            calls(call("Bash", command="exit 3"), call("Grep", pattern="function_0_14[0-9]")),
            "Done.",
        ],
    ),
    ("thanks", ["You are welcome."]),
    (
        "And the others?",
        [
            *(calls(call("Read", file_path=f"module_{n}.py"), text=f"Number {n}.") for n in (1, 2, 3)),
            calls(call("Bash", command="seq 1 3000")),
            "They are alike.",
        ],
    ),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
async def test_each_request_reads_what_the_one_before_it_left_in_the_cache(
    model: str, tmp_path: Path
) -> None:
    """C31, C32, P6: several turns of several rounds, through the SDK, under the provider's real rules."""
    script = [reply for _, replies in TURNS for reply in replies]
    async with Simulator(script) as sim, talking_to(sim, model, quiet(tmp_path / "work")) as ready:
        events = await say(ready.agent, *(text for text, _ in TURNS))
    assert [one.status for one in sim.log] == [200] * len(script)
    assert len(results(events)) == 15
    assert_cached(sim.log, at_least=15)
    assert_received_as_folded(sim.log, ready.agent.session, model)
    assert not ready.agent.session.notices()


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
async def test_one_reply_with_thirty_calls_loses_nothing(model: str, tmp_path: Path) -> None:
    """C31: more blocks in one round than the provider walks back."""
    wide = calls(*(call("Read", file_path=f"module_{n % 4}.py", offset=n, limit=9) for n in range(30)))
    script: list[Json] = [wide, wide, "read", wide, "read again"]
    async with Simulator(script) as sim, talking_to(sim, model, quiet(tmp_path / "work")) as ready:
        events = await say(ready.agent, "read everything", "and again")
    assert len(results(events)) == 90
    assert_cached(sim.log, at_least=5)
    assert_received_as_folded(sim.log, ready.agent.session, model)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
async def test_a_reply_of_more_blocks_than_the_provider_walks_back_loses_nothing(
    model: str, tmp_path: Path
) -> None:
    """C31: words between the calls keep them from counting as one position, so sixty stand in the way."""
    talkative: list[Json] = []
    for n in range(30):
        talkative.append({"type": "text", "text": f"Now number {n}."})
        talkative.append({"type": "tool_use", "name": "Glob", "input": {"pattern": f"module_{n % 4}.*"}})
    script: list[Json] = [{"content": talkative}, {"content": talkative}, "done", "really"]
    async with Simulator(script) as sim, talking_to(sim, model, quiet(tmp_path / "work")) as ready:
        await say(ready.agent, "look at each", "done?")
    assert_cached(sim.log, at_least=4)
    assert_received_as_folded(sim.log, ready.agent.session, model)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
async def test_twenty_five_rounds_in_one_turn_lose_nothing(model: str, tmp_path: Path) -> None:
    """C31: the tail moves on with every round, and each round finds the one before."""
    rounds = [
        calls(call("Bash", command=f"seq {n} {n + 200}"), call("Read", file_path="README.md"))
        for n in range(25)
    ]
    script: list[Json] = [*rounds, "done", "again"]
    async with Simulator(script) as sim, talking_to(sim, model, quiet(tmp_path / "work")) as ready:
        await say(ready.agent, "work", "once more")
    assert_cached(sim.log, at_least=27)
    assert_received_as_folded(sim.log, ready.agent.session, model)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
async def test_a_resumed_session_reads_the_cache_of_the_one_it_goes_on_with(
    model: str, tmp_path: Path
) -> None:
    """T3, T4, C6: folded from disk, the same bytes go over the wire as from the live session."""
    cwd = quiet(tmp_path / "work")
    script = [reply for _, replies in TURNS for reply in replies]
    async with Simulator(script) as sim:
        for number, (text, _) in enumerate(TURNS):
            async with talking_to(sim, model, cwd, session="latest" if number else "new") as ready:
                await say(ready.agent, text)
    assert_cached(sim.log, at_least=15)
    assert_received_as_folded(sim.log, ready.agent.session, model)


@pytest.mark.parametrize("model", MODELS)
async def test_a_turn_that_is_stopped_does_not_cost_the_prefix(model: str, tmp_path: Path) -> None:
    """Q2, C32: what a cancel leaves behind is appended, never rewritten."""
    hanging: Json = calls(call("Read", file_path="module_1.py"), call("Bash", command="sleep 1000"))
    script: list[Json] = [
        calls(call("Read", file_path="module_0.py")), "seen", hanging,
        "so far", {"text": "a reply that stops in the middle of it", "fault": {"kind": "hang", "after": 5}},
        "on we go",
    ]  # fmt: skip
    async with Simulator(script) as sim, talking_to(sim, model, quiet(tmp_path / "work")) as ready:
        agent = ready.agent
        await say(agent, "read")
        await stopped_at(agent, "wait", ToolResultEvent)
        await say(agent, "where are we?")
        await stopped_at(agent, "tell me more", TextDelta)
        await say(agent, "go on")
    assert_cached(sim.log, at_least=6)
    assert_received_as_folded(sim.log, agent.session, model)


def assert_cached(log: list[Exchange], *, at_least: int) -> None:
    """Nothing was refused, and each request read what the one before had left behind."""
    assert len(log) >= at_least
    assert not [one.refusal for one in log if one.refusal]
    shares = shares_read(log)
    assert all(read >= BAR for read in shares), shares
    # Markers stand at the very end, so that "what the one before left behind" is all that it sent.
    assert [one.usage.input for one in log] == [0] * len(log)


def assert_received_as_folded(log: list[Exchange], session: Session, model: str) -> None:
    """C32, the wire test: block by block, what arrived is what the ledger has hashed."""
    view, base = session.view, session.base
    for one in log:
        if model == GPT:
            whole = translate_messages(base.system, view.messages)
            received = one.body["messages"]
            assert isinstance(received, list)
            assert [canonical(m) for m in received] == [canonical(m) for m in whole[: len(received)]]
            assert canonical(one.body["tools"]) == canonical([*translate_tools(base.tools)])
        elif model == RESPONSES:
            items = [
                item for message in view.messages for item in openai_responses.translate_message(message)
            ]
            received = one.body["input"]
            assert isinstance(received, list)
            assert [canonical(item) for item in received] == [
                canonical(item) for item in items[: len(received)]
            ]
            assert canonical(one.body["tools"]) == canonical([*openai_responses.translate_tools(base.tools)])
            assert one.body["instructions"] == "\n\n".join(str(block["text"]) for block in base.system)
            assert one.body["prompt_cache_key"] == session.id
        else:
            links = chain_of(one.body["messages"])
            assert links == view.chain[: len(links)]
            assert canonical(bare(one.body["system"])) == canonical([*base.system])
            assert canonical(bare(one.body["tools"])) == canonical([*base.tools])


async def stopped_at(agent: SessionAgent, text: str, kind: type[Event]) -> None:
    """Begin a turn and walk away from it when this happens."""
    async with aclosing(agent.stream(text)) as events:
        async for event in events:
            if isinstance(event, kind):
                break
