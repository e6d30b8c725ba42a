"""A price that is not known is shown as unknown, never as zero (P5)."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.app.open_agent import open_agent
from nacre.devtools.sim import Simulator
from nacre.messages.usage import Usage
from nacre.session.meter import Meter
from nacre.settings import load
from nacre.testing import ScriptedProvider
from tests.stories.scenes import environment, quiet

UNKNOWN = "some-local-model"
USED = Usage(input=1_000, output=10)


def test_a_sum_says_what_is_not_in_it() -> None:
    none = Meter().after(USED, UNKNOWN)
    assert (none.usd, none.price()) == (None, "cost unknown")
    some = none.after(USED, "claude-sonnet-5-5")
    assert some.usd == pytest.approx(0.0021)
    assert some.price() == "$0.0021+"
    assert Meter().price() == "$0.0000"


async def test_the_result_of_a_turn_has_no_price_where_none_is_known() -> None:
    assert (await Agent(UNKNOWN, provider=ScriptedProvider(["Hi."])).run("hello")).cost_usd is None
    known = await Agent("claude-sonnet-5-5", provider=ScriptedProvider(["Hi."])).run("hello")
    assert known.cost_usd is not None


async def test_limits_in_dollars_say_that_they_cannot_hold(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    for model, count in ((UNKNOWN, 1), ("claude-sonnet-5-5", 0)):
        given = {**environment(cwd), "NACRE_SPEND_SESSION_USD": "1"}
        settings = load(cwd, given, cli={"model": model})
        async with open_agent(settings, provider=ScriptedProvider(["Hi."])) as ready:
            lines = [one.text for one in ready.agent.session.notices()]
        assert sum("spend.sessionUsd cannot hold" in line for line in lines) == count


async def test_json_has_null_for_a_price_that_is_not_known(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")

    async def run(*arguments: str) -> Any:
        command = (sys.executable, "-m", "nacre", *arguments)
        child = await asyncio.create_subprocess_exec(*command, cwd=cwd, env=given, stdout=PIPE)
        out, _ = await child.communicate()
        assert child.returncode == 0
        return json.loads(out)

    async with Simulator(["Hi."]) as sim:
        given = {**environment(cwd), "OPENAI_BASE_URL": f"{sim.url}/v1", "NACRE_MODEL": UNKNOWN}
        assert (await run("-p", "hello", "--output-format", "json"))["cost_usd"] is None
        for command in ("context", "stats"):
            found = await run(command, "--json")
            found = found.get("cache", found)
            assert found["cost_usd"] is None
            assert found["unpriced_requests"] == 1
