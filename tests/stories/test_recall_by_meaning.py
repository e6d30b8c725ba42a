"""With the extra `embed` every way to recall compares vectors, from the first message on (R9)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.app.recall_once import recall_once
from nacre.integrations.claude_code.hooks import answer, work
from nacre.integrations.framework_session import Layers, opened
from nacre.integrations.mcp_server.base import ServerOptions
from nacre.integrations.mcp_server.project import Project
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.memory.recall import local_index
from nacre.memory.recall.semantic.meaning import SemanticIndex
from nacre.session.session import Base
from nacre.settings import Settings, load
from nacre.testing import ScriptedProvider, say
from tests.memory.recall.semantic.stand_in import StandIn

QUESTION = "Where is the automobile parked today?"
HAND = MemoryChange(author="user", reason="by hand")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The model of the extra; patched because its weights are an optional package of 90 MB."""
    model = StandIn()

    def semantic_index(cache: Path, *, writes: bool = True) -> SemanticIndex:
        return SemanticIndex(cache, encoder=model, writes=writes)

    monkeypatch.setattr(local_index, "_semantic_index", semantic_index)
    return model


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    project = tmp_path / "project"
    project.mkdir()
    environ = {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / ".claude")}
    settings = load(project, environ)
    memory = await Memory.open(settings.cwd, environ=environ)
    await memory.save(MemoryDraft(body="The car is parked behind the mill."), HAND)
    return settings


async def _memory(settings: Settings) -> Memory:
    return await Memory.open(settings.cwd, environ={"NACRE_HOME": str(settings.home)})


async def ask_library(settings: Settings) -> None:
    await (await _memory(settings)).recall(QUESTION)


async def ask_search(settings: Settings) -> None:
    await (await _memory(settings)).search(QUESTION)


async def ask_command(settings: Settings) -> None:
    await recall_once(settings, QUESTION)


async def ask_session(settings: Settings) -> None:
    async with open_agent(settings, provider=ScriptedProvider([say("There.")])) as ready:
        await ready.agent.run(QUESTION)


async def ask_framework(settings: Settings) -> None:
    session = opened(Base("m", "", ()), Layers(memory=await _memory(settings)))
    await session.add_user(QUESTION)


async def ask_mcp(settings: Settings) -> None:
    project = Project(settings, ServerOptions(cwd=settings.cwd))
    await project.recall(QUESTION)
    await project.close()


async def ask_hook(settings: Settings) -> None:
    environ = {"HOME": str(settings.home.parent), "CLAUDE_PROJECT_DIR": str(settings.cwd)}
    stdin = json.dumps({"session_id": "s-1", "prompt": QUESTION, "cwd": str(settings.cwd)}).encode()
    # After the client has its answer, the first hook computes the vectors that later ones use.
    work("SessionStart", stdin, environ)
    answer("UserPromptSubmit", stdin, environ)


@pytest.mark.parametrize(
    "ask", [ask_library, ask_search, ask_command, ask_session, ask_framework, ask_mcp, ask_hook]
)
async def test_the_first_question_is_compared_by_its_vector(
    ask: Callable[[Settings], Awaitable[None]], settings: Settings, model: StandIn
) -> None:
    await ask(settings)
    assert any("The car is parked" in text for text in model.encoded)
    assert QUESTION in model.encoded


async def test_a_hook_without_saved_vectors_does_not_load_the_model(
    settings: Settings, model: StandIn
) -> None:
    """The person waits for a hook; what runs after it makes the vectors."""
    environ = {"HOME": str(settings.home.parent), "CLAUDE_PROJECT_DIR": str(settings.cwd)}
    stdin = json.dumps({"session_id": "s-1", "prompt": QUESTION, "cwd": str(settings.cwd)}).encode()
    answer("UserPromptSubmit", stdin, environ)
    assert model.encoded == []
