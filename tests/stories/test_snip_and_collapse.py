"""Snip and collapse as a person meets them: switched on, on disk, resumed; off they change nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.layers.experimental.collapse import HEAD
from nacre.messages.events import Notice, ProviderEvent
from nacre.messages.records import Compacted
from nacre.messages.view import View
from nacre.providers.base import Capabilities, Provider, Request
from nacre.settings import load
from nacre.testing import FrozenClock, ScriptedProvider, call, say
from tests.layers.l4_compact.turns import is_valid
from tests.stories.scenes import environment, project
from tests.stories.scenes import say as spoken

MODEL = "claude-sonnet-4-6"
BIG = {"file_path": "module_0.py"}
QUIET = {"NACRE_NOTES": "0", "NACRE_COMPACT_PREPARE": "0"}
"""Nobody else asks the model for anything."""


@asynccontextmanager
async def opened(
    provider: Provider, cwd: Path, variables: Mapping[str, str], session: str = "new"
) -> AsyncIterator[OpenedAgent]:
    settings = load(cwd, {**environment(cwd), **QUIET, **variables}, cli={"model": MODEL})
    async with open_agent(settings, provider=provider, session=session, clock=FrozenClock()) as ready:
        yield ready


class TwoVoices:
    """A scripted provider, and another one for whoever asks for the summary of a piece of work."""

    name = "scripted"

    def __init__(self, main: ScriptedProvider, aside: ScriptedProvider) -> None:
        self.main, self.aside = main, aside

    def _voice(self, request: Request) -> ScriptedProvider:
        return self.aside if "<summary>" in str(request.messages[-1]) else self.main

    def capabilities(self, model: str) -> Capabilities:
        return self.main.capabilities(model)

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        return self._voice(request).stream(request)

    async def count_tokens(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        return None


@pytest.mark.moves_prefix(reason="the model takes messages out of its view")
async def test_what_the_model_snips_is_gone_for_it_and_for_a_resumed_session_but_not_from_the_log(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    """C29, T2: tool, numbers, boundary on disk, the same view again."""
    cwd = project(tmp_path / "work")
    provider.script(call("Read", **BIG), say("read it"), call("Snip", messages=[2], reason="seen"), say("ok"))
    async with opened(provider, cwd, {"NACRE_SNIP": "1"}) as ready:
        events = await spoken(ready.agent, "look at the module", "tidy up")
        told = [event.text for event in events if isinstance(event, Notice)]
        assert any(line.startswith("Snipped 2 messages (about ") for line in told), told
        before = ready.agent.session.view
    assert "function_0_149" in str(provider.requests[1].messages)
    assert "function_0_149" not in str(provider.requests[-1].messages)
    (log,) = (cwd / "home" / "projects").rglob("*.jsonl")
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    (boundary,) = (line for line in lines if line.get("subtype") == "snip_boundary")
    messages = {line["uuid"]: line for line in lines if line.get("type") in {"user", "assistant"}}
    gone = [messages[name]["type"] for name in boundary["snipMetadata"]["removedUuids"]]
    assert gone == ["assistant", "user", "user"]
    assert "function_0_149" in log.read_text(encoding="utf-8")
    async with opened(provider, cwd, {"NACRE_SNIP": "1"}, session="latest") as ready:
        assert ready.agent.session.view.messages == before.messages


@pytest.mark.moves_prefix(reason="finished work is collapsed; summaries are asked for aside")
async def test_finished_work_is_collapsed_near_the_windows_end_and_the_questions_stay(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    """C30: summaries in the background, commits at 90 %, the same view after a resume."""
    cwd = project(tmp_path / "work")
    aside = ScriptedProvider()
    aside.script(*[say(f"<summary>read module {n}, all tidy</summary>") for n in range(40)])
    cheaper = {"NACRE_OFFLOAD": "0", "NACRE_CLEAR_IDLE": "0"}
    switched = {"NACRE_COLLAPSE": "1", "NACRE_MAX_CONTEXT_TOKENS": "40000", **cheaper}
    async with opened(TwoVoices(provider, aside), cwd, switched) as ready:
        for n in range(16):
            provider.script(call("Bash", command=f"cat module_{n % 4}.py # {n}"), say(f"that was {n}"))
            await spoken(ready.agent, f"please read number {n}")
            await ready.background.wait("collapse", 10)
        session = ready.agent.session
        commits = [one for one in session.transcript.records if isinstance(one, Compacted)]
        assert {one.kind for one in commits} == {"span"}
        assert {one.extra["by"] for one in commits} == {"model"}
        shown = str(session.view.messages)
        assert shown.count(HEAD) == len(commits) >= 2
        assert all(f"please read number {n}" in shown for n in range(16))
        assert is_valid(session.view.messages)
        assert session.tokens < session.thresholds.blocking
        before = session.view
    async with opened(TwoVoices(provider, aside), cwd, switched, session="latest") as ready:
        assert ready.agent.session.view.messages == before.messages
        assert View.of(ready.agent.session.transcript.records).messages == before.messages


async def test_switched_off_nothing_is_numbered_and_no_tool_is_offered(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    """C29, C30: off unless asked for."""
    cwd = project(tmp_path / "work")
    provider.script(say("hello"))
    async with opened(provider, cwd, {}) as ready:
        await spoken(ready.agent, "hi")
    (request,) = provider.requests
    assert "Snip" not in [tool["name"] for tool in request.tools]
    assert "[message 1]" not in str(request.messages)
