from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from nacre.cli.main import main
from nacre.devtools.replay.recorded import read_recorded
from nacre.devtools.sim.simulator import Simulator
from nacre.messages.blocks import ToolCall, ToolResult
from tests.server.gateway.proxying import gateway
from tests.server.gateway.test_clients import SCRIPT, chat, claude, responses

KEY = {"x-api-key": "sk-ant-api-secret", "anthropic-version": "2023-06-01"}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("talk", [claude, chat, responses])
async def test_a_recording_is_a_session_that_replay_reads(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    talk: Callable[..., Awaitable[list[Any]]],
    stream: bool,
) -> None:
    async with Simulator(SCRIPT) as sim, gateway(sim.url, record=tmp_path / "rec") as proxy:
        await talk(proxy.url, stream=stream)
        [session] = await proxy.sessions(2)
        billed = [line.usage for line in sim.log]
    [path] = (tmp_path / "rec").iterdir()
    [read] = read_recorded(path)
    first, second = read.steps
    assert [step.starts_turn for step in read.steps] == [True, False]
    assert isinstance(first.reply.blocks[-1], ToolCall)
    [result] = [block for said in second.heard for block in said.blocks]
    assert isinstance(result, ToolResult)
    assert result.call_id == first.reply.blocks[-1].id
    assert [step.reply.reply and step.reply.reply.usage for step in read.steps] == billed
    assert read.model == session.model
    assert b"secret" not in path.read_bytes()
    command = ["replay", str(tmp_path / "rec"), "--policy", "none", "--json"]
    assert await asyncio.to_thread(main, command) == 0
    assert json.loads(capsys.readouterr().out)["sessions"]


async def test_a_changed_history_goes_on_in_a_new_file_and_a_repeated_request_is_recorded_once(
    tmp_path: Path,
) -> None:
    def asked(*texts: str) -> dict[str, Any]:
        roles = ("user", "assistant")
        messages = [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]
        return {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": messages}

    busy = {"x-sim-fault": "overloaded"}
    async with (
        Simulator(["one", "two", "three"]) as sim,
        gateway(sim.url, record=tmp_path) as proxy,
        proxy.client(KEY) as client,
    ):
        requests = (["hi"], ["hi", "one", "a"], ["hi", "one", "A", "two", "b"])
        for number, texts in enumerate(requests, 1):
            await client.post("/v1/messages", json=asked(*texts), headers=busy)
            await proxy.sessions(2 * number - 1)
            await client.post("/v1/messages", json=asked(*texts))
            await proxy.sessions(2 * number)
    first, changed = sorted(tmp_path.iterdir(), key=lambda path: len(path.name))
    texts = [[str(said.blocks[0].text) for said in step.heard] for step in read_recorded(first)[0].steps]  # type: ignore[union-attr]
    assert texts == [["hi"], ["a"]]
    assert [len(one.steps) for one in read_recorded(changed)] == [3]
