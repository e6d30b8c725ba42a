"""One long conversation and five questions about it at once: the forks share its cached prefix.

The simulator bills by the provider's cache rules; nothing leaves this machine.
Run it: python examples/fan_out.py
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from typing import Any

from nacre import open_agent
from nacre.testing import Simulator

MODEL = "claude-sonnet-5-5"
INPUT_USD, OUTPUT_USD = 2.0, 10.0
"""Prices of a million tokens without a cache."""
PAGES = 6
PAGE = "The log says: the worker stopped at 03:12 and nobody restarted it. " * 250
QUESTIONS = [f"Which of the pages speaks of cause {letter}?" for letter in "ABCDE"]


def script() -> list[Any]:
    """What the model says: a word to each page, five forks in one reply, an answer to each, and the end."""
    forks: list[Any] = [
        {"name": "Agent", "input": {"description": "one cause", "subagent_type": "fork", "prompt": question}}
        for question in QUESTIONS
    ]
    pages: list[Any] = ["Read."] * PAGES
    return [*pages, {"text": "Five at once.", "tool_calls": forks}, *["Page 3."] * 6, "All say page 3."]


async def main() -> None:
    settings = {"model": f"anthropic:{MODEL}", "switches.notes": False, "extract.mode": "off"}
    async with Simulator(script()) as sim:
        os.environ.update(ANTHROPIC_API_KEY="none", ANTHROPIC_BASE_URL=sim.url)
        async with open_agent(settings) as opened:
            for page in range(PAGES):
                await opened.agent.run(f"Page {page}: {PAGE}")
            await opened.agent.run("Look into all five causes.")
            for name in opened.background.running():
                await opened.background.wait(name)
            await opened.agent.run("What did they find?")
        show([one for one in sim.log if any(question in last_words(one) for question in QUESTIONS)])


def last_words(exchange: Any) -> str:
    """The end of a request, as it was received."""
    return json.dumps(exchange.body["messages"])[-400:]


def show(forks: list[Any]) -> None:
    """Print what each fork read and wrote, and what all would cost if they shared nothing."""
    print("fork   input  written    read  hit rate        USD")
    paid = alone = 0.0
    for number, fork in enumerate(forks, start=1):
        used = fork.usage
        paid += fork.cost_usd
        alone += (used.prompt * INPUT_USD + used.output * OUTPUT_USD) / 1_000_000
        print(
            f"{number:>4} {used.input:>7} {used.cache_write:>8} {used.cache_read:>7}"
            f" {used.hit_rate:>9.1%} {fork.cost_usd:>10.6f}"
        )
    print(f"\nfive forks ${paid:.4f}; with nothing shared ${alone:.4f}: {alone / paid:.0f} times the price")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["NACRE_HOME"] = f"{folder}/home"
        asyncio.run(main())
