"""One long conversation, five questions about it at once: forks share the prefix, and the bill shows it.

The simulator bills by the provider's cache rules; nothing leaves this machine.
Run it: python examples/fan_out.py
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from nacre import Agent, open_agent
from nacre.cache.models import cost, profile
from nacre.devtools.sim import Exchange, Simulator
from nacre.messages.blocks import Json
from nacre.messages.usage import Usage
from nacre.providers.anthropic import AnthropicProvider
from nacre.settings import load

MODEL = "claude-sonnet-5-5"
PAGES = 6
PAGE = "The log says: the worker stopped at 03:12 and nobody restarted it. " * 250
QUESTIONS = [f"Which of the pages speaks of cause {letter}?" for letter in "ABCDE"]


def script() -> list[Json]:
    """What the model says: a word to each page, five forks in one reply, an answer to each, and the end."""
    forks: list[Json] = [
        {"name": "Agent", "input": {"description": "one cause", "subagent_type": "fork", "prompt": question}}
        for question in QUESTIONS
    ]
    pages: list[Json] = ["Read."] * PAGES
    return [*pages, {"text": "Five at once.", "tool_calls": forks}, *["Page 3."] * 6, "All say page 3."]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environ = {"NACRE_HOME": f"{folder}/home", "NACRE_NOTES": "false", "NACRE_EXTRACT": "false"}
        settings = load(Path(folder), environ, cli={"model": MODEL})
        async with Simulator(script()) as sim:
            provider = AnthropicProvider(api_key="none", base_url=sim.url)
            async with open_agent(settings, provider=provider) as ready:
                for page in range(PAGES):
                    await say(ready.agent, f"Page {page}: {PAGE}")
                await say(ready.agent, "Look into all five causes.")
                for name in ready.background.running():
                    await ready.background.wait(name)
                await say(ready.agent, "What did they find?")
            await provider.close()
            show([one for one in sim.log if any(question in last_words(one) for question in QUESTIONS)])


async def say(agent: Agent, text: str) -> None:
    async for _ in agent.stream(text):
        pass  # only the bill is looked at here


def last_words(exchange: Exchange) -> str:
    """The end of a request, as it was received."""
    return json.dumps(exchange.body["messages"])[-400:]


def show(forks: list[Exchange]) -> None:
    """What each fork read and wrote, and what all would have cost alone."""
    rules = profile(MODEL)
    print("fork   input  written    read  hit rate        USD")
    paid = alone = 0.0
    for number, fork in enumerate(forks, start=1):
        used = fork.usage
        price = cost(rules, used) or 0.0
        paid += price
        alone += cost(rules, Usage(input=used.prompt, output=used.output)) or 0.0
        print(
            f"{number:>4} {used.input:>7} {used.cache_write:>8} {used.cache_read:>7}"
            f" {used.hit_rate:>9.1%} {price:>10.6f}"
        )
    print(f"\nfive forks ${paid:.4f}; with nothing shared ${alone:.4f}: {alone / paid:.0f} times the price")


if __name__ == "__main__":
    asyncio.run(main())
