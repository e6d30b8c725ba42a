"""One setting for thinking, in the form of each API and model (P8)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.app.open_agent import open_agent
from nacre.cache.models import SHIPPED_TABLE, ThinkingLevel, check_thinking, profile
from nacre.cli.main import main
from nacre.devtools.sim import Simulator
from nacre.errors import ConfigError
from nacre.messages.blocks import JsonObject, Thinking
from nacre.messages.events import Notice
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Request, complete
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.settings import load
from nacre.testing import ScriptedProvider
from tests.stories.scenes import environment, quiet, say

HELLO: list[JsonObject] = [{"role": "user", "content": "hello"}]


def sent(model: str, level: ThinkingLevel | None, **more: Any) -> tuple[object, object]:
    body = Request(model=model, messages=HELLO, thinking=level, **more).body()
    output = body.get("output_config")
    return body.get("thinking"), output.get("effort") if isinstance(output, dict) else None


@pytest.mark.parametrize(
    ("model", "level", "thinking", "effort"),
    [
        ("claude-sonnet-5-5", None, None, None),
        ("claude-sonnet-5-5", "high", {"type": "adaptive"}, "high"),
        ("claude-sonnet-5-5", "off", {"type": "between_tools"}, None),
        ("claude-haiku-5-5", "off", {"type": "disabled"}, None),
        ("claude-opus-4-8", "off", None, None),
        ("claude-opus-4-6", "low", {"type": "adaptive"}, "low"),
        ("claude-haiku-4-5", "low", {"type": "enabled", "budget_tokens": 4_096}, None),
        ("claude-haiku-4-5", "off", None, None),
        ("claude-3-5-haiku", "off", None, None),
    ],
)
def test_claude_is_asked_in_the_form_of_its_generation(
    model: str, level: ThinkingLevel | None, thinking: object, effort: object
) -> None:
    assert sent(model, level) == (thinking, effort)


def test_a_budget_leaves_the_reply_its_own_limit() -> None:
    asked = Request(model="claude-haiku-4-5", messages=HELLO, thinking="medium", max_tokens=8_192)
    assert asked.body()["max_tokens"] == 8_192 + 10_240
    assert replace(asked, max_tokens=64_000).body()["max_tokens"] == 64_000
    assert replace(asked, max_tokens=0).body()["max_tokens"] == 0


def test_an_effort_does_not_displace_a_schema() -> None:
    asked = Request(model="claude-opus-5", messages=HELLO, thinking="low", output_schema={"type": "object"})
    output = asked.body()["output_config"]
    assert isinstance(output, dict)
    assert set(output) == {"effort", "format"}


def test_a_budget_waits_until_a_tool_round_without_thinking_is_over() -> None:
    """The API refuses thinking in the middle of a round that began without it."""
    call: JsonObject = {"type": "tool_use", "id": "c", "name": "read", "input": {}}
    result: JsonObject = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
    thought: JsonObject = {"type": "thinking", "thinking": "hm", "signature": "s"}
    ends: JsonObject = {"role": "user", "content": [result]}
    without: list[JsonObject] = [*HELLO, {"role": "assistant", "content": [call]}, ends]
    within: list[JsonObject] = [*HELLO, {"role": "assistant", "content": [thought, call]}, ends]
    ask = Request(model="claude-haiku-4-5", messages=without, thinking="high")
    assert ask.thinking_config is None
    assert replace(ask, messages=within).thinking_config is not None


LEVELS: tuple[ThinkingLevel, ...] = ("off", "low", "medium", "high")


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_every_model_takes_the_levels_that_the_table_names(provider: str) -> None:
    """Over HTTP: the simulator refuses forms that a model does not have."""
    names = [name for name in SHIPPED_TABLE.models if profile(name).provider == provider]
    async with Simulator(source=None) as sim:
        adapter: Any = (
            AnthropicProvider(api_key="k", base_url=sim.url)
            if provider == "anthropic"
            else OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1")
        )
        for name in names:
            for level in (None, *profile(name).thinking_levels):
                sim.extend(["Hello."])
                await complete(adapter, Request(model=name, messages=HELLO, thinking=level))
        await adapter.close()
    assert not [one.refusal for one in sim.log if one.refusal is not None]


@pytest.mark.parametrize(
    ("model", "level", "advice"),
    [
        ("claude-opus-5-5", "off", "set thinking to low or medium or high"),
        ("claude-3-5-haiku", "high", "set thinking to off"),
        ("o3", "off", "low or medium or high"),
        ("gpt-5-pro", "low", "set thinking to high"),
        ("gemini-2.5-pro", "off", "low or medium or high"),
    ],
)
def test_a_level_that_a_model_does_not_have_is_one_line_of_advice(
    model: str, level: ThinkingLevel, advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        check_thinking(model, level)
    check_thinking(model, None)


def test_a_model_that_no_table_knows_takes_every_level() -> None:
    for level in LEVELS:
        check_thinking("some-new-model", level)


async def asked(sim: Simulator, model: str, level: ThinkingLevel, api: Any = None) -> JsonObject:
    sim.extend(["Hello."])
    adapter = OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1", api=api)
    await complete(adapter, Request(model=model, messages=HELLO, thinking=level))
    await adapter.close()
    return sim.log[-1].body


async def test_openai_gets_an_effort_in_both_dialects() -> None:
    async with Simulator() as sim:
        assert (await asked(sim, "gpt-6-sol", "low"))["reasoning_effort"] == "low"
        assert (await asked(sim, "gpt-6-sol", "off"))["reasoning_effort"] == "none"
        assert (await asked(sim, "gpt-5", "off"))["reasoning_effort"] == "minimal"
        assert (await asked(sim, "o3", "high"))["reasoning"] == {"effort": "high"}


async def test_a_changed_level_loses_the_cache_once_says_so_and_keeps_thinking(tmp_path: Path) -> None:
    """C32: thinking blocks stay valid; what the provider has cached does not."""
    cwd = quiet(tmp_path / "work")
    script: list[Any] = [{"thinking": "Hm.", "text": "One."}, "Two.", "Three.", "Four."]
    given = environment(cwd)
    async with Simulator(script) as sim:
        provider = AnthropicProvider(api_key="k", base_url=sim.url)
        settings = load(cwd, given, cli={"model": "claude-opus-5-5"})
        async with open_agent(settings, provider=provider) as ready:
            await say(ready.agent, "one", "two")
            session = ready.agent.session.id
        changed = load(cwd, given, cli={"model": "claude-opus-5-5", "thinking": "high"})
        async with open_agent(changed, provider=provider, session=session) as ready:
            events = await say(ready.agent, "three", "four")
            thoughts = [
                b
                for m in ready.agent.session.view.items
                for p in m.parts
                if isinstance(b := p.block, Thinking)
            ]
        await provider.close()
    reads = [one.usage.cache_read for one in sim.log]
    assert reads[1] > 0
    assert reads[2] < reads[1] < reads[3], "tools and system are still read, messages are not"
    assert [one.refusal for one in sim.log] == [None] * 4
    assert len(thoughts) == 1
    assert [e for e in events if isinstance(e, Notice) and e.level == "warning"] == []
    assert any("level of thinking changed" in line for line in ready.notices)


def test_an_agent_takes_a_level() -> None:
    agent = Agent("claude-sonnet-5-5", provider=ScriptedProvider([]), thinking="low")
    assert agent.session.settings.thinking == "low"
    with pytest.raises(ConfigError, match="claude-opus-5-5 cannot be asked with thinking=off"):
        Agent("claude-opus-5-5", provider=ScriptedProvider([]), thinking="off")


def test_the_command_line_refuses_a_level_that_the_model_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NACRE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert main(["--model", "opus", "--thinking", "off", "-p", "hello"]) != 0
    assert "set thinking to low or medium or high" in capsys.readouterr().err


def test_the_variable_sets_the_level(tmp_path: Path) -> None:
    settings = load(tmp_path, {"NACRE_HOME": str(tmp_path / "h"), "NACRE_THINKING": "medium"})
    assert settings.thinking == "medium"


async def test_a_million_tokens_need_a_header_on_older_models_only() -> None:
    long = "word " * 230_000
    async with Simulator(["Hello."]) as sim:
        for name in ("claude-sonnet-4-5[1m]", "claude-sonnet-5-5[1m]"):
            provider = AnthropicProvider(api_key="k", base_url=sim.url)
            agent = Agent(name, provider=provider)
            sim.extend(["Hello."])
            await agent.run(long)
            await provider.close()
    assert [one.refusal for one in sim.log] == [None, None]
    assert [one.usage.prompt > 200_000 for one in sim.log] == [True, True]
    old = sim.log[0]
    assert (old.cost_usd or 0) > 6e-6 * old.usage.prompt * 0.99, (
        "above 200K tokens the price is twice as high"
    )
