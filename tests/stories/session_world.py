"""A simulated provider, a project and sessions in it, for stories that change a session in every way."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nacre.app.open_agent import NEW, OpenedAgent, open_agent
from nacre.cache.models import ApiKind
from nacre.devtools.sim import Exchange, Simulator
from nacre.devtools.sim.clock import SimClock
from nacre.devtools.sim.faults import Fault
from nacre.devtools.sim.replies import ScriptedReply, parse_script
from nacre.inspect.import_sessions import ImportDestination, import_file
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.draft import ItemSpan
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Provider
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.providers.retry import RetrySettings, with_retry
from nacre.session.meter import Meter
from nacre.session.read_session import read_view
from nacre.settings import load
from tests.cli.program import nacre
from tests.mcp_client.places import HERE as MCP_SERVERS
from tests.stories.scenes import call, environment, quiet
from tests.stories.test_compact_cli import SUMMARY

MODELS = {
    "bound": "claude-sonnet-5-5",
    "kept": "claude-sonnet-4-6",
    "stripped": "claude-haiku-4-5",
    "silent": "claude-3-5-haiku",
    "reasoning": "gpt-6.1-terra",
    "responses": "gpt-6-sol",
    "codex": "gpt-5.3-codex",
    "plain": "a-local-model",
}
"""A model of each class: what it does with thinking that is sent back."""
THINKING = ("bound", "kept", "stripped", "reasoning", "responses", "codex")
SUMMARY_REQUEST = "Answer this message in words alone."
SKILL = "---\nname: greet\ndescription: How to greet.\n---\nSay hello.\n"
WORDS = "The parser reads the module and returns the value of each line. "


class SessionWorld:
    """Replies by the kind of request: thoughts, words and tool calls to the person, a summary to a fork."""

    def __init__(self, folder: Path, *, seed: int = 0) -> None:
        self.cwd = quiet(folder)
        self.random = random.Random(seed)
        self.planned: list[ScriptedReply | Fault] = []
        """Replies and faults that come first, whatever is asked."""
        self.sim = Simulator(clock=SimClock(), source=self._reply)

    @asynccontextmanager
    async def opened(
        self, kind: str, session: str = NEW, /, *, settings: JsonObject | None = None, **environ: str
    ) -> AsyncIterator[OpenedAgent]:
        """An agent on the simulator through the official SDK, in a new session or a resumed one."""
        provider: Provider
        if MODELS[kind].startswith("claude"):
            provider = AnthropicProvider(api_key="k", base_url=self.sim.url)
        else:
            api: ApiKind | None = "responses" if kind == "responses" else None
            provider = OpenAICompatibleProvider(api_key="k", base_url=f"{self.sim.url}/v1", api=api)
        provider = with_retry(
            provider, settings=RetrySettings(tries=4), clock=self.sim.clock, sleep=self._wait
        )
        given = load(
            self.cwd,
            {**environment(self.cwd), "NACRE_MAX_CONTEXT_TOKENS": "60000", **environ},
            cli={"model": MODELS[kind], "microcompact.keep": 1, **(settings or {})},
        )
        try:
            async with open_agent(given, provider=provider, session=session, clock=self.sim.clock) as ready:
                yield ready
        finally:
            await provider.close()

    async def _wait(self, seconds: float) -> None:
        self.sim.clock.advance(seconds)

    async def _reply(self, body: JsonObject) -> ScriptedReply:
        fault = None
        if self.planned:
            first = self.planned.pop(0)
            if isinstance(first, ScriptedReply):
                return first
            fault = first
        reply = self._made_up(body)
        return reply if fault is None else ScriptedReply(content=reply.content, fault=fault)

    def _made_up(self, body: JsonObject) -> ScriptedReply:
        messages = body["messages"]
        assert isinstance(messages, list)
        last = json.dumps(messages[-1])
        if SUMMARY_REQUEST in last:
            return parse_script([SUMMARY])[0]
        item: JsonObject = {"text": WORDS * self.random.randrange(1, 40)}
        if any(MODELS[kind] == body["model"] for kind in THINKING):
            item["thinking"] = f"Thought {self.random.random()}. " + WORDS * self.random.randrange(1, 20)
        if "tool_result" not in last and self.random.random() < 0.6:
            files: list[Json] = [
                call("Read", file_path=f"module_{self.random.randrange(4)}.py", limit=150)
                for _ in range(self.random.randrange(1, 3))
            ]
            item["tool_calls"] = files
        return parse_script([item])[0]

    def add_skill(self) -> None:
        folder = self.cwd / ".claude" / "skills" / "greet"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(SKILL, encoding="utf-8")

    def set_mcp(self, behaviour: str | None) -> None:
        """Name an MCP server in the person's settings, or none."""
        path = self.cwd / "home" / "settings.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        script = str(MCP_SERVERS / "raw_server.py")
        server = {"command": sys.executable, "args": ["-S", script, str(behaviour)]}
        settings["mcpServers"] = {"raw": server} if behaviour else {}
        path.write_text(json.dumps(settings), encoding="utf-8")

    def edit_log(self, session: str) -> None:
        """Change a word of an early message in the log, as a person with an editor could."""
        path = self.log_path(session)
        text = path.read_text(encoding="utf-8")
        # In the words of the first reply: no provider compares what its own thinking says.
        edited = re.sub(r'("text": ?")The parser reads', r"\1A parser reads", text, count=1)
        path.write_text(edited, encoding="utf-8")

    def import_log(self, session: str) -> str:
        """Import a copy of the log under another id, as from another machine; return the id."""
        path = self.log_path(session)
        other = self.cwd / "other" / f"{session[:-4]}0000.jsonl"
        other.parent.mkdir()
        other.write_text(path.read_text(encoding="utf-8").replace(session, other.stem), encoding="utf-8")
        place = ImportDestination(home=self.cwd / "home", here=self.cwd)
        (imported,) = import_file(other, place)
        return imported.session

    async def other_process(self, kind: str, session: str) -> None:
        """Continue a session with `nacre -p` in a process of its own."""
        environ = {
            **environment(self.cwd),
            "NACRE_MAX_CONTEXT_TOKENS": "60000",
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": self.sim.url,
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": f"{self.sim.url}/v1",
        }
        model = {"responses": "openai-responses:", "plain": "openai:"}.get(kind, "") + MODELS[kind]
        done = await asyncio.to_thread(
            nacre, self.cwd, "-p", "in another process", "--resume", session, "--model", model, **environ
        )
        assert done.returncode == 0, done.stderr

    def log_path(self, session: str) -> Path:
        return next((self.cwd / "home").rglob(f"{session}.jsonl"))

    def logged_cost(self, session: str) -> Meter:
        """The sums over the log of a session, as a new process would read them."""
        read = read_view(self.log_path(session))
        assert read is not None
        return Meter.of(read.view.records)


def span(ready: OpenedAgent, *, first: float | None = None, keeps: float | None = None) -> ItemSpan:
    """A span that begins or ends at the prompt at this share of the conversation."""
    items = ready.agent.session.view.items
    prompts = [
        n
        for n, item in enumerate(items)
        if n and item.role == "user" and "tool_result" not in str(item.parts)
    ]
    place = prompts[int(len(prompts) * (first if first is not None else keeps or 0.0))]
    return ItemSpan(first=place) if first is not None else ItemSpan(keeps_from=place)


def refused_thinking(log: list[Exchange]) -> list[str]:
    return [one.refusal.message for one in log if one.refusal and "thinking" in one.refusal.message]
