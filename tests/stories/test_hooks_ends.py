"""The person's own commands at the edges: words that are said, agents that end, sessions that are left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.errors import HookRefused
from nacre.hooks.layer import HOOK, add_child_hooks
from nacre.messages.blocks import JsonObject
from nacre.messages.events import TurnDone
from nacre.messages.records import Noted, Said
from nacre.messages.view import View
from nacre.session.agent import SessionAgent
from nacre.session.compaction import CompactionRequest
from nacre.session.log_writer import SessionLogWriter, start
from nacre.session.session import Base, Session
from nacre.testing import ScriptedProvider, call, first_moved_block, say
from nacre.tools.base import Tool
from tests.cli.program import nacre
from tests.stories.hooked import configure, keeps, matched, notices, script, settings_of, talk, told
from tests.stories.processes import eventually, is_running, keep_alive, logs, pids
from tests.stories.terminal import CTRL_C, CTRL_D, PROMPT, terminal

NO_SECRETS = """
import json, sys
told = json.load(sys.stdin)
if "hunter2" in told["prompt"]:
    print(json.dumps({"decision": "block", "reason": "there is a password\\nin what you said"}))
else:
    print("it is", len(told["prompt"]), "characters long")
"""


async def test_words_that_a_command_blocks_are_neither_recorded_nor_sent(tmp_path: Path) -> None:
    """The session stays as it was, and the next words go through with what is added to them."""
    configure(tmp_path, UserPromptSubmit=script(tmp_path, "secrets.py", NO_SECRETS))
    provider = ScriptedProvider([say("one"), say("two")])
    async with open_agent(settings_of(tmp_path), provider=provider) as ready:
        session = ready.agent.session
        with pytest.raises(HookRefused, match="nothing was sent: there is a password in what you said"):
            _ = [each async for each in ready.agent.stream("log in with hunter2")]
        assert session.transcript.records == ()
        for text in ("hello", "again"):
            _ = [each async for each in ready.agent.stream(text)]
            with pytest.raises(HookRefused):
                _ = [each async for each in ready.agent.stream("hunter2")]
        records = session.transcript.records
        assert session.view == View().after(*records)
    assert provider.calls == 2
    assert "hunter2" not in str(provider.requests)
    assert all("hunter2" not in path.read_text() for path in logs(tmp_path))
    contents = [block["text"] for block in provider.requests[0].messages[-1]["content"]]  # type: ignore[union-attr, index, call-overload]
    place = contents.index("hello")
    assert "(UserPromptSubmit)" in str(contents[place + 1])
    assert "it is 5 characters long" in str(contents[place + 1])
    noted = [one for one in records if isinstance(one, Noted) and one.kind == HOOK]
    assert [one.fact("event") for one in noted] == ["UserPromptSubmit", "UserPromptSubmit"]
    added = {one.fact("record") for one in noted}
    assert all(one.meta for one in records if isinstance(one, Said) and one.id in added)
    assert first_moved_block(provider.requests) is None


def test_in_one_prompt_a_block_is_one_line_and_exit_code_one(tmp_path: Path) -> None:
    configure(tmp_path, UserPromptSubmit="echo 'not on a Sunday' >&2; exit 2")
    done = nacre(tmp_path, "-p", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip().splitlines() == [
        "nacre: A UserPromptSubmit hook blocked your prompt; nothing was sent: not on a Sunday"
    ]
    assert [path for path in logs(tmp_path) if "hello" in path.read_text()] == []


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[SessionLogWriter]:
    """The log of an agent."""
    opened = start(tmp_path / "agents", tmp_path)
    yield opened.writer
    asyncio.run(opened.writer.close())


def child_of(parent: Session, writer: SessionLogWriter, tools: Sequence[Tool] = ()) -> Session:
    """A session for an agent, as whoever starts one makes it."""
    return Session(Base(parent.base.model, "You help.", tools), writer=writer)


async def test_an_agent_that_ends_is_asked_about_and_its_tools_are_watched(
    tmp_path: Path, writer: SessionLogWriter
) -> None:
    """It is told apart by its id and type; its words are no person's, and it begins no session."""
    again = f"{keeps(tmp_path)}; mkdir {tmp_path}/once 2>/dev/null || exit 0; echo 'look again' >&2; exit 2"
    configure(
        tmp_path,
        SubagentStop=matched("explore", again),
        PreToolUse=keeps(tmp_path),
        SessionStart=keeps(tmp_path),
        UserPromptSubmit=keeps(tmp_path),
        Stop=keeps(tmp_path),
    )

    async def look(arguments: JsonObject) -> str:
        return "looked"

    tools = [Tool(name="look", description="", input_schema={"type": "object"}, call=look)]
    provider = ScriptedProvider([call("look"), say("It is here."), say("It is really here.")])
    async with open_agent(settings_of(tmp_path), provider=provider) as ready:
        assert ready.hooks is not None
        parent = ready.agent.session
        assert isinstance(parent.writer, SessionLogWriter)
        child = child_of(parent, writer, tools)
        add_child_hooks(child, ready.hooks, "a1", "explore")
        seen: list[object] = [each async for each in SessionAgent(child, provider, tools).stream("find it")]
        log = parent.writer.path
    done = seen[-1]
    assert isinstance(done, TurnDone)
    assert (done.outcome, done.rounds) == ("answered", 3)
    assert "look again" in str(provider.requests[2].messages[-1])
    assert "A SubagentStop hook makes the turn continue." in notices(seen)
    used, first, second = told(tmp_path)
    assert [used["hook_event_name"], first["hook_event_name"]] == ["PreToolUse", "SubagentStop"]
    assert used["tool_name"] == "look"
    for one in (used, first, second):
        assert (one["agent_id"], one["agent_type"]) == ("a1", "explore")
        assert (one["session_id"], one["transcript_path"]) == (parent.id, str(log))
        assert one["agent_transcript_path"] == str(writer.path)
    assert (first["stop_hook_active"], first["last_assistant_message"]) == (False, "It is here.")
    assert (second["stop_hook_active"], second["last_assistant_message"]) == (True, "It is really here.")


@pytest.mark.moves_prefix(reason="an agent has a conversation of its own")
async def test_what_an_agent_does_on_demand_is_told_apart_from_the_session(tmp_path: Path) -> None:
    """The call that starts it is the session's, what it calls is its own, and each has its own end."""
    note = keeps(tmp_path)
    configure(tmp_path, {"allow": ["Agent"]}, PreToolUse=note, SubagentStop=note, Stop=note)
    (tmp_path / "a.txt").write_text("one")
    started = call("Agent", description="look", prompt="Read a.txt.", subagent_type="explore")
    read = call("Read", file_path="a.txt")
    provider = ScriptedProvider([started, read, say("It says one."), say("done")])
    await talk(settings_of(tmp_path), provider, "look at it")
    assert [
        (one["hook_event_name"], one.get("tool_name"), one.get("agent_type")) for one in told(tmp_path)
    ] == [
        ("PreToolUse", "Agent", None),
        ("PreToolUse", "Read", "explore"),
        ("SubagentStop", None, "explore"),
        ("Stop", None, None),
    ]


async def test_an_agent_of_another_type_is_not_asked_about(tmp_path: Path, writer: SessionLogWriter) -> None:
    configure(tmp_path, SubagentStop=matched("explore", keeps(tmp_path)))
    provider = ScriptedProvider([say("Done.")])
    async with open_agent(settings_of(tmp_path), provider=provider) as ready:
        assert ready.hooks is not None
        child = child_of(ready.agent.session, writer)
        add_child_hooks(child, ready.hooks, "a1", "general")
        _ = [each async for each in SessionAgent(child, provider).stream("do it")]
        assert child.layers == ()
    assert told(tmp_path) == []


async def test_leaving_a_session_is_told_when_everything_else_is_done(tmp_path: Path) -> None:
    """Its log is whole by then."""
    command = (
        f'{keeps(tmp_path)}; wc -l < "$(tail -1 {tmp_path}/told | jq -r .transcript_path)" > {tmp_path}/n'
    )
    command = command.replace("jq -r .transcript_path", script(tmp_path, "path.py", PATH_OF))
    configure(tmp_path, SessionEnd=command)
    await talk(settings_of(tmp_path), ScriptedProvider([say("one")]), "hello")
    (one,) = told(tmp_path)
    assert (one["hook_event_name"], one["reason"]) == ("SessionEnd", "other")
    (log,) = logs(tmp_path)
    assert int((tmp_path / "n").read_text()) == len(log.read_text().splitlines())


PATH_OF = "import json, sys; print(json.load(sys.stdin)['transcript_path'])"


@pytest.mark.slow
async def test_who_leaves_waits_a_moment_and_no_longer_unless_told_to(tmp_path: Path, pid_file: Path) -> None:
    """1.5 seconds, more where the entry says so, never more than a minute."""
    configure(tmp_path, SessionEnd=keep_alive(pid_file))
    async with open_agent(settings_of(tmp_path), provider=ScriptedProvider()) as ready:
        session = ready.agent.session
    assert len(pids(pid_file)) == 2
    assert [pid for pid in pids(pid_file) if is_running(pid)] == []
    (notice,) = session.notices()
    assert notice.text.endswith("did not end within 1.5 s and was ended")


def test_in_a_chat_it_is_told_why_a_session_is_left(tmp_path: Path) -> None:
    configure(tmp_path, SessionEnd=keeps(tmp_path))
    with terminal(tmp_path, "chat") as person:
        person.see(PROMPT)
        person.type("hello\n")
        person.see(PROMPT)
        person.type("/clear\n")
        person.see("the old one stays: /resume ")
        person.see(PROMPT)
        eventually(lambda: len(told(tmp_path)) == 1, "the first is left")
        (first,) = told(tmp_path)
        person.type(f"/resume {str(first['session_id'])[:8]}\n")
        person.see("resumed session")
        person.see(PROMPT)
        person.type("/exit\n")
        assert person.ends() == 0
    assert [one["reason"] for one in told(tmp_path)] == ["clear", "resume", "prompt_input_exit"]
    assert told(tmp_path)[2]["session_id"] == first["session_id"]


def test_ctrl_c_does_not_wait_for_a_command_at_the_end(tmp_path: Path, pid_file: Path) -> None:
    configure(tmp_path, SessionEnd=matched("", keep_alive(pid_file), timeout=60))
    with terminal(tmp_path, "chat") as person:
        person.see(PROMPT)
        person.type(CTRL_D)
        eventually(lambda: bool(pids(pid_file)), "the command runs")
        person.type(CTRL_C)
        person.ends()
    assert [pid for pid in pids(pid_file) if is_running(pid)] == []


def test_one_prompt_that_is_interrupted_ends_in_order_and_at_once(tmp_path: Path, pid_file: Path) -> None:
    """The end is told of a session that was stopped, too; what never ends is not waited for."""
    last = tmp_path / "last"
    configure(
        tmp_path,
        UserPromptSubmit=keep_alive(pid_file),
        SessionEnd=matched("", f"{keeps(tmp_path)}; {keep_alive(last)}", timeout=60),
    )
    with terminal(tmp_path, "-p", "hello") as person:
        eventually(lambda: bool(pids(pid_file)), "the first command runs")
        person.type(CTRL_C)
        eventually(lambda: bool(pids(last)), "the last command runs")
        person.type(CTRL_C)
        assert person.ends() != 0
    assert [one["reason"] for one in told(tmp_path)] == ["other"]
    assert [pid for pid in pids(pid_file) + pids(last) if is_running(pid)] == []


def test_one_prompt_ends_for_another_reason(tmp_path: Path) -> None:
    configure(tmp_path, SessionEnd=matched("other", keeps(tmp_path)))
    done = nacre(tmp_path, "-p", "hello")
    assert (done.returncode, done.stderr) == (0, "")
    assert [one["reason"] for one in told(tmp_path)] == ["other"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "web").mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("Answer briefly. @style.md")
    (folder / "style.md").write_text("No exclamation marks.")
    (folder / "CLAUDE.local.md").write_text("My port is 8001.")
    (folder / "web" / "CLAUDE.md").write_text("No inline styles.")
    (folder / "web" / "page.html").write_text("<p>hi</p>")
    (folder / ".claude" / "rules").mkdir(parents=True)
    (folder / ".claude" / "rules" / "html.md").write_text("---\npaths: '**/*.html'\n---\nClose every tag.")
    (folder / "home").mkdir()
    (folder / "home" / "CLAUDE.md").write_text("Metric units.")
    return folder


async def test_every_file_of_instructions_that_comes_in_is_told_once(project: Path) -> None:
    """M23: with who wrote it and what made it load; nobody waits, and memory is none of them."""
    configure(project, InstructionsLoaded=keeps(project))
    read = call("Read", file_path="web/page.html")
    provider = ScriptedProvider([read, say("done"), say("again"), say("resumed")])
    await talk(settings_of(project), provider, "look at the page", "and now?")
    page = str(project / "web" / "page.html")
    assert loads(project) == {
        ("home/CLAUDE.md", "User", "session_start", None),
        ("CLAUDE.md", "Project", "session_start", None),
        ("style.md", "Project", "include", str(project / "CLAUDE.md")),
        ("CLAUDE.local.md", "Local", "session_start", None),
        ("web/CLAUDE.md", "Project", "nested_traversal", page),
        (".claude/rules/html.md", "Project", "path_glob_match", page),
    }
    assert len(told(project)) == 6
    (project / "told").unlink()
    await talk(settings_of(project), provider, "and on", session="latest")
    assert {load[2] for load in loads(project)} == {"session_start", "include"}


def loads(project: Path) -> set[tuple[str, object, object, object]]:
    return {
        (
            Path(str(one["file_path"])).relative_to(project).as_posix(),
            one["memory_type"],
            one["load_reason"],
            one.get("parent_file_path") or one.get("trigger_file_path"),
        )
        for one in told(project)
    }


@pytest.mark.moves_prefix(reason="a compaction")
async def test_what_a_compaction_has_read_again_is_told_as_such(project: Path) -> None:
    """C21; a matcher looks at what made a file load."""
    configure(project, InstructionsLoaded=matched("compact", keeps(project)))
    provider = ScriptedProvider(otherwise=lambda _: say("words " * 200))
    async with open_agent(settings_of(project), provider=provider) as ready:
        for text in ("one", "two", "three"):
            _ = [each async for each in ready.agent.stream(text)]
        assert told(project) == []
        await ready.compact.compact(CompactionRequest(by_rule=True))
    assert {load[:3] for load in loads(project)} == {
        ("home/CLAUDE.md", "User", "compact"),
        ("CLAUDE.md", "Project", "compact"),
        ("style.md", "Project", "compact"),
        ("CLAUDE.local.md", "Local", "compact"),
    }


async def test_a_slow_command_for_instructions_holds_up_no_turn(project: Path) -> None:
    """The turn is over before the command, which waits for a file that the test makes afterwards."""
    wait = f"while [ ! -e {project}/go ]; do sleep 0.01; done; {keeps(project)}"
    configure(project, InstructionsLoaded=wait)
    provider = ScriptedProvider([say("one")])
    async with open_agent(settings_of(project), provider=provider) as ready:
        _ = [each async for each in ready.agent.stream("hello")]
        assert told(project) == []
        (project / "go").touch()
    assert len(told(project)) == 4
    assert (
        json.loads((project / "told").read_text().splitlines()[0])["hook_event_name"] == "InstructionsLoaded"
    )
