"""Sessions of an editor: several at once, stopped, killed, loaded again, with servers of the editor."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from acp.schema import EnvVariable, McpServerStdio, SseMcpServer, TextContentBlock

from nacre.store.sessions import Sessions
from nacre.testing import Simulator
from tests.integrations.acp.editor import SECONDS, Editor, at, begin, call, connected


async def test_a_cancelled_turn_stops_its_tool_and_the_session_goes_on(work: Path, home: Path) -> None:
    replies = [call("Bash", command="touch begun; sleep 60; touch ended"), "Well."]
    async with Simulator(replies) as sim, connected(home, **at(sim)) as agent:
        session = await begin(agent, work)
        turn = asyncio.create_task(agent.say(session, "Take your time."))
        await agent.until((work / "begun").exists)
        with pytest.raises(Exception, match="a turn of this session is running"):
            await agent.say(session, "Meanwhile?")
        await agent.agent.cancel(session_id=session)
        assert await asyncio.wait_for(turn, 10) == "cancelled"
        assert [status for _, status in agent.editor.calls(session).values()] == ["failed"]
        assert await agent.say(session, "Go on.") == "end_turn"
        assert "Well." in agent.editor.said(session)
    assert not (work / "ended").exists()


@pytest.mark.slow
async def test_a_turn_is_cancelled_while_its_question_is_open(work: Path, home: Path) -> None:
    replies = [call("Write", file_path="b.txt", content="b"), "Well."]
    async with Simulator(replies) as sim, connected(home, editor=Editor(waits=True), **at(sim)) as agent:
        session = await begin(agent, work)
        turn = asyncio.create_task(agent.say(session, "Write it."))
        await asyncio.wait_for(agent.editor.on_ask.wait(), 20)
        await agent.agent.cancel(session_id=session)
        assert await asyncio.wait_for(turn, 10) == "cancelled"
    assert not (work / "b.txt").exists()


@pytest.mark.slow
async def test_a_prompt_that_is_cancelled_at_once_reaches_no_model(work: Path, home: Path) -> None:
    async with Simulator(["Never said."]) as sim, connected(home, **at(sim)) as agent:
        session = await begin(agent, work)
        turn = asyncio.create_task(
            agent.agent.prompt(session_id=session, prompt=[TextContentBlock(type="text", text="Go.")])
        )
        await asyncio.sleep(0)  # the prompt is sent
        await agent.agent.cancel(session_id=session)
        assert (await asyncio.wait_for(turn, SECONDS)).stop_reason == "cancelled"
        assert sim.log == []


@pytest.mark.slow
async def test_two_sessions_in_two_projects_work_at_once(work: Path, home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    replies = [call("Bash", command="until [ -e go ]; do sleep 0.05; done; pwd"), "One.", "Two."]
    async with Simulator(replies[:1]) as sim, connected(home, **at(sim)) as agent:
        first = await begin(agent, work)
        second = await begin(agent, other)
        turn = asyncio.create_task(agent.say(first, "Wait."))
        await agent.until(lambda: agent.editor.asked)
        sim.extend(["Two."])
        assert await agent.say(second, "Hello") == "end_turn"
        sim.extend(["One."])
        (work / "go").touch()
        assert await turn == "end_turn"
        assert (agent.editor.said(first), agent.editor.said(second)) == ("One.", "Two.")
        assert str(work) in str(agent.editor.of(first, "tool_call_update")[-1])
        listed = await agent.agent.list_sessions(cwd=str(work))
        assert [(one.session_id, one.title) for one in listed.sessions] == [(first, "Wait.")]
        assert {one.session_id for one in (await agent.agent.list_sessions()).sessions} == {first, second}


async def test_a_session_is_loaded_after_its_agent_was_killed_in_a_call(work: Path, home: Path) -> None:
    tasks = call("TaskList", tasks=[{"title": "look", "state": "pending"}])
    replies = [
        {"thinking": "Hm.", **call("Read", file_path="app.py")},
        tasks,
        call("Edit", file_path="app.py", old_string="two = 2", new_string="two = 3"),
        call("Bash", command="touch begun; sleep 60"),
    ]
    async with Simulator(replies) as sim:
        async with connected(home, **at(sim)) as agent:
            session = await begin(agent, work)
            turn = asyncio.create_task(agent.say(session, "Do it all."))
            await agent.until((work / "begun").exists)
            os.kill(agent.process.pid, signal.SIGKILL)
            with pytest.raises(ConnectionError):
                await turn
        sim.extend(["I was interrupted."])
        async with connected(home, **at(sim)) as again:
            loaded = await again.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])
            assert loaded.modes.current_mode_id == "ask"
            editor = again.editor
            assert editor.said(session, "user_message_chunk") == "Do it all."
            assert editor.said(session, "agent_thought_chunk") == "Hm."
            assert editor.calls(session) == {
                "Read app.py": ("read", "completed"),
                "Edit app.py +1 −1": ("edit", "completed"),
                "Bash touch begun; sleep 60": ("execute", "failed"),
            }
            await again.until(lambda: editor.of(session, "plan"))
            assert await again.say(session, "Go on.") == "end_turn"
            assert "I was interrupted." in editor.said(session)
            assert "Do it all." in str(sim.log[-1].body["messages"])


@pytest.mark.slow
async def test_a_loaded_session_shows_also_what_a_compaction_replaced(work: Path, home: Path) -> None:
    async with connected(home) as agent:
        session = await begin(agent, work)
        for _ in range(3):
            await agent.say(session, "read app.py")
        await agent.say(session, "/compact")
        assert "compacted" in agent.editor.said(session)
    async with connected(home) as again:
        await again.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])
        assert len(again.editor.of(session, "user_message_chunk")) == 3
        # The same session again, in the same process.
        await again.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])
        assert len(again.editor.of(session, "user_message_chunk")) == 6
    assert len(Sessions(home).list(work)) == 1


@pytest.mark.slow
async def test_a_session_is_resumed_without_its_messages_closed_and_unknown_ones_are_refused(
    work: Path, home: Path
) -> None:
    async with connected(home) as agent:
        session = await begin(agent, work)
        await agent.say(session, "read app.py")
        await agent.agent.close_session(session_id=session)
        with pytest.raises(Exception, match=r"no session .* is open"):
            await agent.say(session, "still there?")
        await agent.agent.resume_session(cwd=str(work), session_id=session)
        before = len(agent.editor.of(session, "user_message_chunk"))
        await agent.say(session, "read app.py")
        assert before == 0
        for wanted in ("nonesuch", "../../etc/passwd", "", "new", "latest"):
            with pytest.raises(Exception, match="no session"):
                await agent.agent.load_session(cwd=str(work), session_id=wanted, mcp_servers=[])
        for cwd in ("relative", str(work / "nothing"), str(work / "app.py"), "/" + "a" * 300, "/\0"):
            with pytest.raises(Exception, match="absolute path of a directory"):
                await agent.agent.new_session(cwd=cwd, mcp_servers=[])
        with pytest.raises(Exception, match="no cursor"):
            await agent.agent.list_sessions(cwd=str(work), cursor="9" * 5000)


@pytest.mark.slow
async def test_an_open_session_is_not_loaded_for_another_directory(
    work: Path, home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with connected(home) as agent:
        session = await begin(agent, work)
        with pytest.raises(Exception, match=r"is open in .*; close it there first"):
            await agent.agent.load_session(cwd=str(other), session_id=session, mcp_servers=[])
        await agent.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])


@pytest.mark.slow
async def test_a_session_open_elsewhere_continues_as_a_branch(work: Path, home: Path) -> None:
    async with connected(home) as one, connected(home) as two:
        session = await begin(one, work)
        await one.say(session, "read app.py")
        await two.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])
        assert await two.say(session, "read app.py") == "end_turn"
        assert "Continuing as a branch" in two.editor.said(session)
        assert await one.say(session, "read app.py") == "end_turn"
    assert len(Sessions(home).list(work)) == 2


SERVER = """
from mcp.server.mcpserver import MCPServer
import os
server = MCPServer("weather")
@server.tool()
def weather(city: str) -> str:
    return f"{city}: {os.environ['FORECAST']}"
server.run("stdio")
"""


@pytest.mark.slow
async def test_the_servers_of_the_editor_are_connected_and_others_are_refused(work: Path, home: Path) -> None:
    (home / "server.py").write_text(SERVER)
    server = McpServerStdio(
        name="my weather",
        command=sys.executable,
        args=[str(home / "server.py")],
        env=[EnvVariable(name="FORECAST", value="rain")],
    )
    replies = [call("mcp__my-weather__weather", city="Bergen"), "Rain."]
    async with Simulator(replies) as sim, connected(home, **at(sim)) as agent:
        opened = await agent.agent.new_session(cwd=str(work), mcp_servers=[server])
        await agent.say(opened.session_id, "And in Bergen?")
        assert "Bergen: rain" in str(sim.log[-1].body["messages"])
        assert agent.editor.asked  # a tool that nobody knows needs a permission
        silent = McpServerStdio(name="silent", command="sleep", args=["60"], env=[])
        slow = asyncio.create_task(agent.agent.new_session(cwd=str(work), mcp_servers=[silent]))
        await asyncio.wait_for(begin(agent, work), 10)  # it does not wait for the server of another one
        assert not slow.done()
        old = SseMcpServer(type="sse", name="old", url="http://127.0.0.1:1/", headers=[])
        with pytest.raises(Exception, match="'old': only stdio and http"):
            await agent.agent.new_session(cwd=str(work), mcp_servers=[old])


@pytest.mark.slow
async def test_settings_of_the_project_are_behind_trust_and_invalid_ones_stop_the_session(
    work: Path, home: Path
) -> None:
    (work / ".git").mkdir()
    settings = work / ".nacre" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash"]}}))
    replies = [call("Bash", command="touch b.txt"), "Well."]
    async with Simulator(replies) as sim, connected(home, editor=Editor("no"), **at(sim)) as agent:
        session = await begin(agent, work)
        await agent.say(session, "Touch it.")
        assert "this directory is not trusted" in agent.editor.said(session)
        assert len(agent.editor.asked) == 1
        (home / "settings.json").write_text("{nonsense")
        with pytest.raises(Exception, match=r"settings\.json:1:2: not valid JSON"):
            await begin(agent, work)
    assert not (work / "b.txt").exists()


@pytest.mark.slow
async def test_additional_directories_need_no_question_to_be_read(
    work: Path, home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "far.txt").write_text("far away")
    replies = [call("Read", file_path=str(other / "far.txt")), "Read."]
    async with Simulator(replies) as sim, connected(home, **at(sim)) as agent:
        opened = await agent.agent.new_session(
            cwd=str(work), additional_directories=[str(other)], mcp_servers=[]
        )
        await agent.say(opened.session_id, "Read it.")
        assert agent.editor.asked == [] and "far away" in str(sim.log[-1].body["messages"])
