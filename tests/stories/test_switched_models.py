"""What a session says that another model will cost is what the provider then charges, over HTTP."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.devtools.sim import Simulator
from nacre.settings import load
from tests.stories.scenes import call, calls, environment, quiet, say

CODEX = "gpt-5.3-codex"


@pytest.mark.slow
@pytest.mark.moves_prefix(reason="another model drops thinking")
@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("claude-opus-5-5", CODEX),
        (CODEX, "claude-opus-5-5"),
        ("gpt-6.1-terra", CODEX),
        ("claude-opus-5-5", "claude-sonnet-5-5"),
    ],
)
async def test_the_announced_cost_of_another_model_is_what_it_costs(
    tmp_path: Path, first: str, second: str, thinks: bool
) -> None:
    """Its tools may be other ones, and thinking of the first model is not sent to it."""
    cwd = quiet(tmp_path / "work")
    reply = {"thinking": "Hm. " * 2_000, "text": "Yes."} if thinks else "Yes."
    look = calls(call("Read", file_path="module_1.py"))
    async with Simulator([look, reply, reply, "Three."]) as sim:
        environ = {
            **environment(cwd),
            "NACRE_TOOLS_DEFERRED": "1",
            "ANTHROPIC_BASE_URL": sim.url, "ANTHROPIC_API_KEY": "k",
            "OPENAI_BASE_URL": f"{sim.url}/v1", "OPENAI_API_KEY": "k",
        }  # fmt: skip
        async with open_agent(load(cwd, environ, cli={"model": first})) as ready:
            await say(ready.agent, "one", "two")
        async with open_agent(load(cwd, environ, cli={"model": second}), session="latest") as ready:
            (line,) = [one for one in ready.notices if "continues a conversation" in one]
            await say(ready.agent, "three")
            session = ready.agent.session
        found = re.search(r"about ([\d,]+) tokens .* about \$([\d.]+)\.$", line)
        assert found is not None, line
        last = sim.log[-1]
        assert int(found[1].replace(",", "")) == pytest.approx(last.usage.prompt, rel=0.1)
        assert float(found[2]) == pytest.approx(last.cost_usd, rel=0.1)
        assert session.meter.cost_usd == pytest.approx(sum(one.cost_usd or 0.0 for one in sim.log))
