"""Reasoning that is billed and then discarded takes no room in the window, over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.devtools.sim import Simulator
from nacre.messages.blocks import JsonObject
from nacre.messages.records import Compacted
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.session.read_session import read_view
from nacre.session.session_log import SessionLogWriter
from nacre.settings import load
from tests.stories.scenes import GPT, environment, quiet, say

REASONED: JsonObject = {"thinking": "Hm. " * 200, "text": "Yes.", "output_tokens": 25_000}


async def test_a_small_conversation_goes_on_after_a_reply_of_nearly_all_reasoning(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    async with Simulator(["Hello.", REASONED, "Three.", "Four."]) as sim:
        provider = OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1")
        given = environment(cwd) | {"NACRE_MAX_CONTEXT_TOKENS": "40000"}
        async with open_agent(load(cwd, given, cli={"model": GPT}), provider=provider) as ready:
            session = ready.agent.session
            assert session.thresholds.window == 40_000
            await say(ready.agent, "one", "two")
            assert session.tokens == pytest.approx(sim.log[1].usage.prompt, rel=0.02)
            await say(ready.agent, "three", "four")
            assert not [one for one in session.transcript.records if isinstance(one, Compacted)]
            bill = sum(one.cost_usd or 0.0 for one in sim.log)
            assert session.meter.usage.output == sum(one.usage.output for one in sim.log) > 25_000
            assert session.meter.cost_usd == pytest.approx(bill)
            writer = session.writer
            assert isinstance(writer, SessionLogWriter)
            read = read_view(writer.path)
            assert read is not None
            assert read.view.count() == session.view.count(), "the log says so, too"
        await provider.close()
    assert len(sim.log) == 4, "no summary was asked for"
