"""`nacre verify-provider`: what holds and what differs, over HTTP against the simulator (P10)."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from nacre.devtools.cache_models.anthropic_state import AnthropicSwitches
from nacre.devtools.sim import ScriptedReply, Simulator
from nacre.devtools.verify import QUESTION, Finding, Probe, open_probe, verify
from nacre.errors import AuthError, ConfigError, Unreachable
from nacre.messages.blocks import JsonObject
from nacre.providers.anthropic import parse_reply
from nacre.providers.choose import choose

KEY = "sk-ant-very-secret-0001"


async def thoughtful(body: JsonObject) -> ScriptedReply:
    """Think about the question, as models do that think by default."""
    thinking: tuple[JsonObject, ...] = ({"type": "thinking", "thinking": "Nine, eighteen, twenty-seven."},)
    text: JsonObject = {"type": "text", "text": "Two."}
    return ScriptedReply(content=(*thinking, text) if QUESTION in str(body["messages"]) else (text,))


async def thoughtless(body: JsonObject) -> ScriptedReply:
    return ScriptedReply(content=({"type": "text", "text": "Two."},))


def environ(sim: Simulator) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": sim.url,
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{sim.url}/v1",
    }


async def findings(sim: Simulator, model: str, **more: Any) -> tuple[Probe, dict[str, Finding]]:
    wait = more.pop("wait", False)
    probe = open_probe(choose(model, environ(sim)), environ(sim), **more)

    async def sleep(seconds: float) -> None:
        sim.clock.advance(seconds)

    probe.sleep = sleep
    found = {one.name: one async for one in verify(probe, wait=wait)}
    await probe.client.close()
    return probe, found


@pytest.mark.parametrize(
    "model",
    ["claude-sonnet-5-5", "claude-haiku-5-5", "claude-opus-5", "gpt-6.1-terra", "gpt-5.5", "gpt-5.3-codex"],
)
async def test_every_assumption_holds_on_the_simulator_and_costs_less_than_the_limit(model: str) -> None:
    async with Simulator(source=thoughtful) as sim:
        probe, found = await findings(sim, model, wait=True)
        bill = sum(one.cost_usd or 0.0 for one in sim.log)
    assert {one.name: one for one in found.values() if one.state != "holds"} == {}
    assert len(found) >= (4 if model.startswith("gpt") else 7)
    assert probe.spent_usd == pytest.approx(bill)
    assert bill < 0.10


async def test_a_model_that_thinks_only_if_asked_has_nothing_to_replay() -> None:
    async with Simulator(source=thoughtless) as sim:
        _, found = await findings(sim, "claude-haiku-4-5")
    states = {name: one.state for name, one in found.items()}
    assert states.pop("bound thinking") == states.pop("cache refresh") == "not checked"
    assert set(states.values()) == {"holds"}


async def test_what_differs_is_reported() -> None:
    lost = AnthropicSwitches(binding=False, eviction=1.0)
    async with Simulator(source=thoughtful, switches=lost) as sim:
        _, found = await findings(sim, "claude-sonnet-5-5", wait=True)
    differing = {name for name, one in found.items() if one.state == "differs"}
    assert differing == {"cache read", "max_tokens 0", "bound thinking", "cache refresh"}
    async with Simulator(source=thoughtless) as sim:
        _, found = await findings(sim, "claude-sonnet-5-5")
    assert found["default thinking"].state == "differs"
    assert "did not think" in found["default thinking"].found


async def test_a_request_that_could_exceed_the_limit_is_not_sent() -> None:
    async with Simulator(source=thoughtful) as sim:
        probe, found = await findings(sim, "claude-sonnet-5-5", limit_usd=0.02)
        bill = sum(one.cost_usd or 0.0 for one in sim.log)
    assert bill == pytest.approx(probe.spent_usd)
    assert bill <= 0.02
    assert found["default thinking"].state == "not checked"
    assert "could cost" in found["default thinking"].found
    assert found["cache read"].state == "holds"
    async with Simulator(source=thoughtful) as sim:
        _, found = await findings(sim, "claude-sonnet-5-5", limit_usd=0.000_001)
    assert sim.log == []
    assert {one.state for one in found.values()} == {"not checked"}


async def test_recorded_shapes_hold_no_key_and_can_be_read_again(tmp_path: Path) -> None:
    async with Simulator(source=thoughtful) as sim:
        probe, _ = await findings(sim, "claude-sonnet-5-5", record=tmp_path / "shapes")
    files = sorted((tmp_path / "shapes").iterdir())
    assert len(files) == probe.requests
    assert not [file for file in files if KEY in file.read_text()]
    shapes = {file.stem[3:]: json.loads(file.read_text()) for file in files}
    reply = parse_reply(shapes["default-thinking"]["response"]["body"])
    assert reply.message.text == "Two."
    assert shapes["bound-thinking"]["response"]["status"] == 400
    assert shapes["cache-write"]["request"]["path"] == "/v1/messages"


@pytest.mark.parametrize("key", [KEY, "to"])
async def test_the_key_is_replaced_in_what_is_said_and_nothing_else_is(tmp_path: Path, key: str) -> None:
    """The simulator takes any key, also a short one that is part of other words."""

    async def tells(body: JsonObject) -> ScriptedReply:
        return ScriptedReply(content=({"type": "text", "text": f"The key today is\n{key}."},))

    async with Simulator(source=tells) as sim:
        given = {**environ(sim), "ANTHROPIC_API_KEY": key}
        probe = open_probe(choose("claude-haiku-5-5", given), given, record=tmp_path)
        [one async for one in verify(probe)]
        await probe.client.close()
    shape = json.loads((tmp_path / "02-cache-write.json").read_text())
    assert parse_reply(shape["response"]["body"]).message.text == "The key today is\nKEY."
    assert shape["request"]["body"] == sim.log[0].body


async def test_a_refused_key_and_an_unreachable_address_end_it_with_one_line() -> None:
    async with Simulator([{"fault": "auth"}]) as sim:
        sim.extend([{"fault": "auth"}])
        probe = open_probe(choose("gpt-6-luna", environ(sim)), environ(sim))
        with pytest.raises(AuthError, match="check OPENAI_API_KEY"):
            [one async for one in verify(probe)]
        await probe.client.close()
    with pytest.raises(Unreachable, match="cannot reach anthropic"):
        await findings(sim, "claude-sonnet-5-5")


@pytest.mark.parametrize(
    ("model", "given", "advice"),
    [
        (None, {}, "set ANTHROPIC_API_KEY or OPENAI_API_KEY"),
        ("claude-sonnet-5-5", {}, "set ANTHROPIC_API_KEY"),
        ("ollama:qwen3", {}, "checks the APIs of Anthropic and OpenAI, and not qwen3 at ollama; name"),
        ("gemini-3.8-flash", {"GEMINI_API_KEY": "k"}, "and not gemini-3.8-flash at gemini; name"),
        ("claude-fable-5", {"ANTHROPIC_API_KEY": "k"}, "no price of claude-fable-5 is known"),
    ],
)
def test_what_is_missing_is_one_line_of_advice(model: str | None, given: dict[str, str], advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        open_probe(choose(model, given), given)


@pytest.mark.slow
async def test_the_command_prints_a_table_or_json_and_says_by_its_code_whether_something_differs(
    tmp_path: Path,
) -> None:
    async def run(*arguments: str) -> tuple[int | None, str]:
        command = (sys.executable, "-m", "nacre", "verify-provider", "--model", "haiku", *arguments)
        child = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, env=given, stdout=PIPE)
        out, _ = await child.communicate()
        return child.returncode, out.decode()

    async with Simulator(source=thoughtful) as sim:
        given = {**environ(sim), "NACRE_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
        code, text = await run()
        assert code == 0, text
        assert "claude-haiku-5-5: nothing differs, 1 not checked; 8 requests, $0.0" in text
    async with Simulator(source=thoughtless) as sim:
        given |= environ(sim)
        code, text = await run()
        assert code == 1 and "claude-haiku-5-5: 1 assumption differs, 2 not checked; 7 requests" in text
        code, text = await run("--json")
    assert code == 1
    found = json.loads(text)
    assert found["differs"] == 1
    assert found["spent_usd"] <= found["limit_usd"] == 0.1
