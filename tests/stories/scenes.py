"""What the stories share: a project to work in and an agent that really talks to a scripted simulator."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.devtools.sim import Exchange, Simulator
from nacre.messages.blocks import Json, JsonObject, ToolResult
from nacre.messages.events import Event, ToolResultEvent
from nacre.messages.pairing import DIGEST_BYTES
from nacre.messages.wire import canonical
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Provider
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.session.agent import SessionAgent
from nacre.settings import load

CLAUDE, OLDER_CLAUDE, GPT = "claude-opus-5-5", "claude-sonnet-4-6", "gpt-6.1-terra"
RESPONSES = "gpt-6-sol"
"""A model that the stories ask through OpenAI's Responses API."""
BAR = 0.99
"""Of what the previous request left in the cache, so much is read by the next one (C32)."""


def call(name: str, **arguments: Json) -> JsonObject:
    """A tool call as a script writes it."""
    return {"name": name, "input": arguments}


def calls(*made: JsonObject, text: str = "") -> JsonObject:
    """A reply that calls tools, perhaps with words before."""
    return {"text": text, "tool_calls": list(made)} if text else {"tool_calls": list(made)}


def project(folder: Path) -> Path:
    """A directory with something to read and search in."""
    folder.mkdir(exist_ok=True)
    for number in range(4):
        lines = (f"def function_{number}_{line}(): return {line}  # TODO tidy" for line in range(150))
        (folder / f"module_{number}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "README.md").write_text("# A project\n\nNothing to see — really.\n" * 20, encoding="utf-8")
    return folder


def quiet(folder: Path) -> Path:
    """The same, where nothing forks by itself: every reply of a script is for whom the story means it."""
    home = project(folder) / "home"
    home.mkdir(exist_ok=True)
    off = dict.fromkeys(("notes", "compact_prepare", "extract", "dream"), False)
    (home / "settings.json").write_text(json.dumps({"switches": off}), encoding="utf-8")
    return folder


@asynccontextmanager
async def talking_to(
    sim: Simulator, model: str, cwd: Path, *, notes: bool = False, **given: object
) -> AsyncIterator[OpenedAgent]:
    """An agent with the default tools in a directory, whose provider is the official SDK on the simulator."""
    provider: Provider = (
        OpenAICompatibleProvider(
            api_key="k", base_url=f"{sim.url}/v1", api="responses" if model == RESPONSES else None
        )
        if model.startswith("gpt")
        else AnthropicProvider(api_key="k", base_url=sim.url)
    )
    try:
        environ = {**environment(cwd), "NACRE_NOTES": str(notes).lower()}
        settings = load(cwd, environ, cli={"model": model})
        async with open_agent(settings, provider=provider, **given) as ready:  # type: ignore[arg-type]
            yield ready
    finally:
        await provider.close()


def environment(cwd: Path) -> Mapping[str, str]:
    return {
        "HOME": str(cwd),
        "NACRE_HOME": str(cwd / "home"),
        "PATH": "/usr/bin:/bin",
        # These stories are about other things than who may call what.
        "NACRE_PERMISSIONS_DEFAULT_MODE": "bypassPermissions",
        # Nor are they about requests beside the conversation's own, which would take replies of the script.
        "NACRE_NOTES": "false",
        "NACRE_RECALL_SELECTOR": "false",
        # Where a story is about such requests, they come at once, not in a pause of minutes.
        "NACRE_BACKGROUND_IDLE_SECONDS": "0",
    }


async def say(agent: SessionAgent, *texts: str) -> list[Event]:
    """A turn for every text; what happened in all of them."""
    return [event for text in texts async for event in agent.stream(text)]


def results(events: list[Event]) -> list[ToolResult]:
    return [event.result for event in events if isinstance(event, ToolResultEvent)]


def bare(blocks: Json) -> list[Json]:
    """Blocks without their cache markers."""
    assert isinstance(blocks, list)
    return [
        {key: value for key, value in block.items() if key != "cache_control"}
        for block in blocks
        if isinstance(block, dict)
    ]


def chain_of(messages: Json) -> list[bytes]:
    """The digests a view would have, worked out from nothing but the messages as they were received."""
    assert isinstance(messages, list)
    links: list[bytes] = []
    link = b""
    for message in messages:
        assert isinstance(message, dict)
        for block in bare(message["content"]):
            digest = blake2b(canonical(block), digest_size=DIGEST_BYTES).digest()
            role = str(message["role"]).encode()
            link = blake2b(link + role + digest, digest_size=DIGEST_BYTES).digest()
            links.append(link)
    return links


def shares_read(log: list[Exchange]) -> list[float]:
    """For every request after the first: how much of what the one before left in the cache was read."""
    return [
        now.usage.cache_read / (before.usage.cache_read + before.usage.cache_write)
        for before, now in pairwise(log)
    ]
