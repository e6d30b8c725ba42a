"""What five forks of one reply cost: read from the cache, and beside them the same requests without one.

A whole agent over HTTP, through the vendor's SDK, against the simulator, which bills by the provider's cache
rules. The conversation is made up; each fork gets one question and answers it in one reply.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.machine import bar
from bench.made_up import words
from bench.plot import chart
from nacre import Agent, open_agent
from nacre.cache.models import cost, profile
from nacre.devtools.sim import Exchange, Simulator
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.usage import Usage
from nacre.providers.anthropic import AnthropicProvider
from nacre.settings import load

FORKS = 5
QUESTIONS = [f"Which of the pages speaks of cause {letter}?" for letter in "ABCDE"]
PAGE_CHARS = 8_000
"""One message of the person; about 2,000 tokens."""
BASE_TOKENS = 9_000
"""About what nacre's own system prompt and tools take of every request."""
ANSWER = "Page 3 does, and it names the same hour as the log of the worker. " * 8
"""About 130 tokens: what a fork that only looks something up reports."""
BEHIND = 400
"""Bytes at the end of a request in which a fork's question stands."""
SHARE_READ = 0.99
"""Of the parent's last request: all of it, but for the end that no marker can reach."""
TIMES_CHEAPER = 5.0
"""Five forks together for what one of them would cost alone: else nobody would send five."""
OFF = (
    "NACRE_NOTES",
    "NACRE_EXTRACT",
    "NACRE_DREAM",
    "NACRE_KEEP_WARM",
    "NACRE_COMPACT_PREPARE",
    "NACRE_TOOLS_DEFERRED",
)
"""Everything else that would ask the model beside the conversation."""


@dataclass(frozen=True, slots=True)
class Sizes:
    models: tuple[str, ...] = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-sonnet-4-6")
    tokens: tuple[int, ...] = (20_000, 40_000, 70_000, 150_000)
    """About the size of the request that the forks are sent from."""


FULL = Sizes()
TINY = Sizes(models=("claude-opus-5-5",), tokens=(11_000,))


def measure(sizes: Sizes = FULL) -> JsonObject:
    """Every model and length, with what each fork read, wrote and cost."""
    runs: list[JsonObject] = [
        asyncio.run(_run(model, tokens)) for model in sizes.models for tokens in sizes.tokens
    ]
    least = min(_number(run, "least_share_read") for run in runs)
    # A short conversation is cheap either way; what is promised is about those that are worth a fork.
    cheapest = min(_number(run, "times_cheaper") for run in runs if run["asked_tokens"] == max(sizes.tokens))
    return {
        "forks": FORKS,
        "runs": list[Json](runs),
        "bars": [
            bar("share of its parent's request that a fork reads, least of all", least, at_least=SHARE_READ),
            bar(
                "times the price without a cache, at the longest conversation",
                cheapest,
                at_least=TIMES_CHEAPER,
            ),
        ],
    }


def plot(figures: JsonObject) -> str:
    """What five forks cost over the length of the conversation, with a cache and without, for one model."""
    runs = figures["runs"]
    assert isinstance(runs, list)
    shown = [run for run in runs if isinstance(run, dict) and run["model"] == FULL.models[0]]
    lines = {
        "no cache": {_number(run, "parent_tokens"): _cents(run, "uncached_usd") for run in shown},
        "forks": {_number(run, "parent_tokens"): _cents(run, "forks_usd") for run in shown},
    }
    return chart(
        f"Five forks of one reply, {FULL.models[0]}",
        lines,
        x="tokens of the conversation",
        y="US cents, all five together",
    )


async def _run(model: str, tokens: int) -> JsonObject:
    pages = max(1, (tokens - BASE_TOKENS) * 4 // PAGE_CHARS)
    with tempfile.TemporaryDirectory(prefix="nacre-forks-") as name:
        environ = {"HOME": name, "NACRE_HOME": f"{name}/home", **dict.fromkeys(OFF, "false")}
        settings = load(Path(name), environ, cli={"model": model})
        async with Simulator(_script(pages)) as sim:
            provider = AnthropicProvider(api_key="none", base_url=sim.url)
            async with open_agent(settings, provider=provider) as ready:
                for page in range(pages):
                    await _say(ready.agent, f"Page {page}: {words(page, PAGE_CHARS)}")
                await _say(ready.agent, "Look into all five causes.")
                for running in ready.background.running():
                    await ready.background.wait(running)
                await _say(ready.agent, "What did they find?")
            await provider.close()
            return {"model": model, "asked_tokens": tokens, **_billed(model, list(sim.log), pages)}


def _script(pages: int) -> list[Json]:
    """A word to each page, five forks in one reply, an answer to each and to the person, and the end.

    Whoever asks first gets the next reply, so that those after the forks are all the same.
    """
    sent: list[Json] = [
        {"name": "Agent", "input": {"description": "one cause", "subagent_type": "fork", "prompt": question}}
        for question in QUESTIONS
    ]
    read: list[Json] = ["Read."] * pages
    return [*read, {"text": "Five at once.", "tool_calls": sent}, *[ANSWER] * (FORKS + 2)]


async def _say(agent: Agent, text: str) -> None:
    async for _ in agent.stream(text):
        pass  # only the bill is looked at


def _billed(model: str, log: list[Exchange], pages: int) -> JsonObject:
    rules = profile(model)
    forks = [one for one in log if any(question in _end(one) for question in QUESTIONS)]
    assert len(forks) == FORKS, len(forks)
    parent = log[pages]
    assert not any(one in forks for one in log[: pages + 1])
    paid = sum(one.cost_usd or 0.0 for one in forks)
    alone = sum(cost(rules, Usage(input=one.usage.prompt, output=one.usage.output)) or 0.0 for one in forks)
    return {
        "parent_tokens": parent.usage.prompt,
        "least_share_read": round(min(one.usage.cache_read / parent.usage.prompt for one in forks), 4),
        "hit_rate": round(
            sum(one.usage.cache_read for one in forks) / sum(one.usage.prompt for one in forks), 4
        ),
        "written_tokens": [one.usage.cache_write for one in forks],
        "forks_usd": round(paid, 4),
        "uncached_usd": round(alone, 4),
        "times_cheaper": round(alone / paid, 2),
    }


def _end(exchange: Exchange) -> str:
    return json.dumps(exchange.body["messages"])[-BEHIND:]


def _number(run: JsonObject, name: str) -> float:
    found = run[name]
    assert isinstance(found, int | float)
    return found


def _cents(run: JsonObject, name: str) -> float:
    return round(_number(run, name) * 100, 3)
