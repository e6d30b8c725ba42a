"""What an agent works with, put together from settings: guard, task list, rewind, notices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nacre.app.build_toolset import FILE
from nacre.app.open_agent import NEW, OpenedAgent, open_agent
from nacre.messages.blocks import JsonObject, ToolCall, ToolResult
from nacre.messages.events import Event, Notice, ToolResultEvent
from nacre.settings import load
from nacre.testing import ScriptedProvider, call, say
from nacre.tools.base import Tool
from nacre.tools.guard import Ask, Guard, PermissionAnswer, PermissionQuestion, preview
from nacre.tools.policy import PermissionPolicy
from nacre.tools.run import run_all
from nacre.tools.tasks import TASKS, Task
from nacre.tools.workspace import Workspace


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@asynccontextmanager
async def at_work(
    project: Path,
    home: Path,
    provider: ScriptedProvider,
    *,
    session: str = NEW,
    ephemeral: bool = False,
    ask: Ask | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[OpenedAgent]:
    settings = load(project, {"NACRE_HOME": str(home), **(environ or {})}, policy_path=home / "none")
    async with open_agent(
        settings, provider=provider, session=session, ephemeral=ephemeral, ask=ask
    ) as ready:
        yield ready


async def played(ready: OpenedAgent, text: str) -> list[Event]:
    return [event async for event in ready.agent.stream(text)]


def results(events: list[Event]) -> list[ToolResult]:
    return [event.result for event in events if isinstance(event, ToolResultEvent)]


def answering(*answers: PermissionAnswer) -> tuple[Ask, list[PermissionQuestion]]:
    asked: list[PermissionQuestion] = []
    left = list(answers)

    async def ask(question: PermissionQuestion) -> PermissionAnswer:
        asked.append(question)
        return left.pop(0)

    return ask, asked


async def test_the_task_list_is_there_again_when_the_session_is_resumed(
    project: Path, home: Path, provider: ScriptedProvider
) -> None:
    """TaskList: kept with the session, the newest version, and another session has its own."""
    first = [{"title": "look", "state": "in_progress"}, {"title": "mend", "state": "pending"}]
    second = [{"title": "look", "state": "done"}, {"title": "mend", "state": "in_progress"}]
    provider.script(call("TaskList", tasks=first), call("TaskList", tasks=second), say("noted"))
    async with at_work(project, home, provider) as ready:
        await played(ready, "plan")
        session = ready.agent.session.id
        assert len(ready.agent.session.view.noted(TASKS)) == 2
    async with at_work(project, home, ScriptedProvider(), session=session) as ready:
        assert ready.toolset.board.tasks == (Task("look", "done"), Task("mend", "in_progress"))
        assert str(ready.toolset.board) == "1. [x] look\n2. [>] mend"
    async with at_work(project, home, ScriptedProvider()) as ready:
        assert ready.toolset.board.tasks == ()


async def test_files_changed_before_the_session_was_resumed_can_still_be_rewound(
    project: Path, home: Path, provider: ScriptedProvider
) -> None:
    provider.script(call("Write", file_path="a/b.txt", content="new"), say("written"))
    environ = {"NACRE_PERMISSIONS_DEFAULT_MODE": "acceptEdits"}
    async with at_work(project, home, provider, environ=environ) as ready:
        await played(ready, "write it")
        session = ready.agent.session.id
    assert (project / "a" / "b.txt").read_text() == "new"
    async with at_work(project, home, ScriptedProvider(), session=session) as ready:
        (point,) = ready.rewind.points()
        assert await ready.rewind.restore(point) == [project / "a" / "b.txt"]
    assert list(project.iterdir()) == []


async def test_an_always_holds_at_once_and_in_the_next_session(
    project: Path, home: Path, provider: ScriptedProvider
) -> None:
    provider.script(*[call("Bash", command="touch made")] * 2, say("done"))
    ask, asked = answering("always")
    async with at_work(project, home, provider, ask=ask) as ready:
        assert [one.is_error for one in results(await played(ready, "go"))] == [False, False]
    assert [question.rule.text for question in asked] == ["Bash(touch made)"]
    again = ScriptedProvider([call("Bash", command="touch made"), say("done")])
    async with at_work(project, home, again) as ready:
        assert [one.is_error for one in results(await played(ready, "go"))] == [False]
    assert [path.name for path in project.iterdir()] == ["made"]


async def test_an_always_that_cannot_be_kept_holds_for_the_session_and_the_person_is_told(
    project: Path, home: Path, provider: ScriptedProvider
) -> None:
    """Somebody broke the file meanwhile: the call goes ahead, one line says so, the file stays as it is."""
    provider.script(*[call("Bash", command="touch made")] * 2, say("done"))

    async def ask(question: PermissionQuestion) -> PermissionAnswer:
        (home / FILE).write_text("{ my notes")
        return "always"

    async with at_work(project, home, provider, ask=ask) as ready:
        events = await played(ready, "go")
    assert [one.is_error for one in results(events)] == [False, False]
    (told,) = [event.text for event in events if isinstance(event, Notice)]
    assert told.startswith("Bash(touch made) is allowed in this session only: ")
    assert str(home / FILE) in told
    assert (home / FILE).read_text() == "{ my notes"


async def test_an_incognito_session_learns_nothing_for_good(
    project: Path, home: Path, provider: ScriptedProvider
) -> None:
    provider.script(*[call("Bash", command="touch made")] * 2, say("done"))
    ask, asked = answering("always")
    async with at_work(project, home, provider, ephemeral=True, ask=ask) as ready:
        await played(ready, "go")
    assert len(asked) == 1
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(("switch", "is_offered"), [("true", True), ("false", False)])
async def test_web_pages_are_offered_only_behind_their_switch(
    switch: str, is_offered: bool, project: Path, home: Path, provider: ScriptedProvider
) -> None:
    async with at_work(project, home, provider, environ={"NACRE_WEB_FETCH": switch}) as ready:
        assert ("WebFetch" in ready.agent.tools) == is_offered


@pytest.mark.slow
async def test_the_persons_time_to_answer_is_not_the_tools(tmp_path: Path) -> None:
    """They may fetch a coffee first; but a tool that hangs is still stopped."""
    workspace = Workspace(tmp_path)

    async def nap(arguments: JsonObject) -> str:
        seconds = arguments["seconds"]
        assert isinstance(seconds, int)
        await asyncio.sleep(seconds)
        return "slept"

    async def ask(question: PermissionQuestion) -> PermissionAnswer:
        await asyncio.sleep(0.3)
        return "once"

    tool = Tool(name="nap", description="", input_schema={}, call=nap, max_seconds=0.2)
    tools = {one.name: one for one in Guard(PermissionPolicy(root=tmp_path), workspace, ask=ask).wrap([tool])}
    quick, hung = await run_all(
        [ToolCall("a", "nap", {"seconds": 0}), ToolCall("b", "nap", {"seconds": 1000})], tools
    )
    assert (quick.text, quick.is_error) == ("slept", False)
    assert (hung.text, hung.is_error) == ("nap was stopped after 0.2 s.", True)


async def test_a_call_without_a_shape_of_its_own_is_shown_argument_by_argument(tmp_path: Path) -> None:
    """One line each, whatever a value holds: nothing can pass for another argument."""
    shown = await preview("mcp__x__y", {"b": "one\na: two", "a": [1, "ü"]}, Workspace(tmp_path))
    assert shown == 'a: [1,"ü"]\nb: "one\\na: two"'
    assert await preview("mcp__x__y", {}, Workspace(tmp_path)) == "(no arguments)"


@pytest.mark.moves_prefix(reason="the conversation is rewound")
async def test_rewinding_is_announced_and_what_follows_begins_where_it_was(
    project: Path, home: Path, provider: ScriptedProvider
) -> None:
    """T2, C32: no warning about a lost prefix, and the request after it starts with the bytes of before."""
    provider.script(say("one"), say("two"), say("three"))
    async with at_work(project, home, provider) as ready:
        await played(ready, "a")
        before = ready.agent.session.view.messages
        await played(ready, "b")
        await ready.rewind.forget(ready.rewind.points()[1])
        assert ready.agent.session.view.messages == before
        events = await played(ready, "c")
        assert not [event for event in events if isinstance(event, Notice)]
        said = before[:-1]  # at its end a view that ends with a reply asks to go on
        assert ready.agent.session.view.messages[: len(said)] == said
        assert ready.agent.session.view.epochs == ("undo",) * 2
    sent = [json.dumps(request.messages) for request in provider.requests]
    assert '"b"' in sent[1] and '"b"' not in sent[2]
