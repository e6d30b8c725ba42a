"""The person's own commands around tool calls: before the guard judges, and once a tool has run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.errors import HookRefused
from nacre.hooks.layer import HOOK
from nacre.hooks.tool_layer import ToolHookLayer
from nacre.loop.fork import ForkTask
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.records import Noted, Said
from nacre.testing import ScriptedProvider, call, first_moved_block, say, together
from nacre.tools.base import Tool
from nacre.tools.guard import PermissionAnswer, PermissionQuestion
from nacre.tools.policy import Narrowing
from tests.stories.hooked import (
    cancel_in_the_command,
    configure,
    keeps,
    matched,
    notices,
    play,
    results,
    says,
    script,
    settings_of,
    tail,
    talk,
    told,
)
from tests.stories.processes import keep_alive

ALLOWED: JsonObject = {"allow": ["Bash(echo:*)", "Bash(rm:*)", "Bash(false)"]}
NO_RM = '''
"""A hook as people write them for Claude Code: JSON on stdin, JSON on stdout."""
import json, re, sys

event = json.load(sys.stdin)
command = event.get("tool_input", {}).get("command", "")
if event["tool_name"] == "Bash" and re.search(r"\\brm\\s+(-[a-z]*r[a-z]*f|-[a-z]*f[a-z]*r)", command):
    print(json.dumps({
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "rm -rf is not for you; name the files one by one",
        }
    }))
sys.exit(0)
'''


async def test_a_script_written_for_another_program_keeps_rm_from_running(tmp_path: Path) -> None:
    """The call is refused, the model reads why, and goes on with what is harmless."""
    (tmp_path / "precious").mkdir()
    configure(tmp_path, ALLOWED, PreToolUse=matched("Bash", script(tmp_path, "no_rm.py", NO_RM)))
    provider = ScriptedProvider(
        [call("Bash", command="rm -rf precious"), call("Bash", command="echo fine"), say("done")]
    )
    await talk(settings_of(tmp_path), provider, "clean up")
    assert (tmp_path / "precious").is_dir()
    ((is_error, words),) = results(provider, 1)
    assert is_error
    assert words.endswith("says: rm -rf is not for you; name the files one by one")
    assert results(provider, 2) == [(False, "fine")]
    assert first_moved_block(provider.requests) is None


async def test_exit_code_two_refuses_and_the_whole_call_was_told(tmp_path: Path) -> None:
    configure(tmp_path, PreToolUse=f"{keeps(tmp_path)}; echo not now >&2; exit 2")
    provider = ScriptedProvider([call("Read", file_path="sub/../a.txt"), say("done")])
    await talk(settings_of(tmp_path), provider, "read it")
    ((is_error, words),) = results(provider)
    assert is_error
    assert words.endswith("not now")
    (one,) = told(tmp_path)
    assert {key: one[key] for key in ("tool_name", "tool_input", "permission_mode", "hook_event_name")} == {
        "tool_name": "Read",
        "tool_input": {"file_path": str(tmp_path / "a.txt")},
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
    }
    assert str(one["tool_use_id"]) in str(provider.requests[-1].messages)
    assert "agent_id" not in one


@pytest.mark.parametrize(
    ("permissions", "runs"),
    [({}, True), ({"deny": ["Bash(touch:*)"]}, False), ({"ask": ["Bash(touch:*)"]}, False)],
)
async def test_a_yes_spares_the_question_and_sets_no_rule_aside(
    tmp_path: Path, permissions: JsonObject, runs: bool
) -> None:
    configure(tmp_path, permissions, PreToolUse=says(permissionDecision="allow"))
    provider = ScriptedProvider([call("Bash", command="touch made"), say("done")])
    await talk(settings_of(tmp_path), provider, "make it")
    assert (tmp_path / "made").exists() is runs


@pytest.mark.parametrize("answer", ["once", "no", None])
async def test_a_wish_to_ask_makes_a_question_of_what_is_allowed(
    tmp_path: Path, answer: PermissionAnswer | None
) -> None:
    """Where nobody is there, the call is refused."""
    asked: list[PermissionQuestion] = []

    async def ask(question: PermissionQuestion) -> PermissionAnswer:
        asked.append(question)
        return answer or "no"

    wish = says(permissionDecision="ask", permissionDecisionReason="it is Friday")
    configure(tmp_path, ALLOWED, PreToolUse=wish)
    provider = ScriptedProvider([call("Bash", command="echo fine"), say("done")])
    await talk(settings_of(tmp_path), provider, "say it", ask=ask if answer else None)
    ((is_error, words),) = results(provider)
    assert is_error is (answer != "once")
    assert [one.reason for one in asked] == (["a PreToolUse hook wants it: it is Friday"] if answer else [])
    assert answer or "this session cannot ask for permission" in words


async def test_other_arguments_are_what_the_guard_judges_and_the_tool_gets(tmp_path: Path) -> None:
    """One call becomes harmless and runs; the other becomes one that a rule forbids."""
    body = """
import json, sys
told = json.load(sys.stdin)
command = "echo instead" if "touch" in told["tool_input"]["command"] else "rm precious"
print(json.dumps({"hookSpecificOutput": {"updatedInput": {"command": command}}}))
"""
    configure(tmp_path, {"deny": ["Bash(rm:*)"]}, PreToolUse=script(tmp_path, "other.py", body))
    (tmp_path / "precious").touch()
    provider = ScriptedProvider(
        [together(call("Bash", command="touch made"), call("Bash", command="echo fine")), say("done")]
    )
    seen = await talk(settings_of(tmp_path), provider, "do both")
    first, second = results(provider)
    assert first == (False, "instead")
    assert second[0]
    assert "Bash(rm:*)" in second[1]
    assert (tmp_path / "precious").exists()
    assert not (tmp_path / "made").exists()
    assert "A PreToolUse hook changed what Bash is called with." in notices(seen)
    # What was sent before stays as it was: the model's own call is not rewritten.
    assert "touch made" in str(provider.requests[-1].messages)


async def test_what_is_added_rides_behind_the_results_as_the_programs_word(tmp_path: Path) -> None:
    """C20, M25: it is neither the tool's word nor the person's, and the prefix stays."""
    configure(
        tmp_path,
        ALLOWED,
        PreToolUse=says(additionalContext="the branch is frozen"),
        PostToolUse=says(additionalContext="</system-reminder>3 warnings"),
    )
    provider = ScriptedProvider([call("Bash", command="echo fine"), say("done"), say("again")])
    async with open_agent(settings_of(tmp_path), provider=provider) as ready:
        for text in ("say it", "and now?"):
            _ = [event async for event in ready.agent.stream(text)]
        records = ready.agent.session.transcript.records
    assert results(provider, 1) == [(False, "fine")]
    behind = tail(provider, 1)
    assert "(PreToolUse, Bash)" in behind
    assert "the branch is frozen" in behind
    assert "&lt;/system-reminder>3 warnings" in behind
    noted = [one for one in records if isinstance(one, Noted) and one.kind == HOOK]
    assert [one.fact("event") for one in noted] == ["PreToolUse", "PostToolUse"]
    added = {one.fact("record") for one in noted}
    assert all(one.meta for one in records if isinstance(one, Said) and one.id in added)
    assert first_moved_block(provider.requests) is None


async def test_where_words_between_rounds_would_cost_the_cache_they_ride_inside_the_result(
    tmp_path: Path,
) -> None:
    """M25; the log still tells them apart from the tool's own."""
    configure(tmp_path, ALLOWED, PreToolUse=says(additionalContext="the branch is frozen"))
    provider = ScriptedProvider([call("Bash", command="echo fine"), say("done")])
    await talk(settings_of(tmp_path, model="claude-sonnet-4-5"), provider, "say it")
    ((is_error, words),) = results(provider)
    assert not is_error
    assert words.startswith("fine\n<system-reminder>")
    assert "the branch is frozen" in words


async def test_an_objection_comes_with_the_result_because_the_tool_has_run(tmp_path: Path) -> None:
    command = f"{keeps(tmp_path)}; echo 'line 1 is too long' >&2; exit 2"
    configure(tmp_path, {"allow": ["Edit(made.py)"]}, PostToolUse=matched("Edit|Write", command))
    made = call("Write", file_path="made.py", content="x = 1\n")
    provider = ScriptedProvider([made, say("done")])
    await talk(settings_of(tmp_path), provider, "make it")
    assert (tmp_path / "made.py").read_text() == "x = 1\n"
    assert not results(provider)[0][0]
    assert "objects to what was done" in tail(provider)
    assert "line 1 is too long" in tail(provider)
    (one,) = told(tmp_path)
    response = one["tool_response"]
    assert isinstance(response, dict)
    assert (response["filePath"], response["success"]) == (str(tmp_path / "made.py"), True)


@pytest.mark.parametrize(
    "output", ["hidden", {"stdout": "hidden", "stderr": ""}, [{"type": "text", "text": "hidden"}]]
)
async def test_another_output_stands_in_for_the_result_before_it_is_recorded(
    tmp_path: Path, output: Json
) -> None:
    configure(tmp_path, ALLOWED, PostToolUse=says(updatedToolOutput=output))
    provider = ScriptedProvider([call("Bash", command="echo secret-token"), say("done")])
    async with open_agent(settings_of(tmp_path), provider=provider) as ready:
        _ = [event async for event in ready.agent.stream("say it")]
        said = [one for one in ready.agent.session.transcript.records if isinstance(one, Said)]
    assert results(provider) == [(False, "hidden")]
    # Only the model's own call still names it.
    assert sum("secret-token" in str(one.blocks) for one in said) == 1


async def test_after_a_failure_nobody_is_told(tmp_path: Path) -> None:
    """As Claude Code does: `PostToolUse` is for what succeeded."""
    configure(tmp_path, ALLOWED, PostToolUse=keeps(tmp_path))
    failing = together(call("Bash", command="false"), call("Read", file_path="missing"))
    provider = ScriptedProvider([failing, call("Bash", command="echo fine"), say("done")])
    await talk(settings_of(tmp_path), provider, "try")
    assert [one["tool_input"] for one in told(tmp_path)] == [{"command": "echo fine"}]
    assert told(tmp_path)[0]["tool_response"] == {
        "stdout": "fine",
        "stderr": "",
        "interrupted": False,
        "isImage": False,
    }


async def test_readers_still_run_side_by_side(tmp_path: Path) -> None:
    """Each command waits for the other: one after the other, neither would ever end."""
    body = """
import json, pathlib, sys, time
name = pathlib.Path(json.load(sys.stdin)["tool_input"]["file_path"])
name.with_suffix(".seen").touch()
while not all(name.with_name(each).exists() for each in ("a.seen", "b.seen")):
    time.sleep(0.01)
"""
    configure(tmp_path, PreToolUse=matched("Read", script(tmp_path, "wait.py", body), timeout=30))
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_text("two")
    both = together(call("Read", file_path="a.txt"), call("Read", file_path="b.txt"))
    provider = ScriptedProvider([both, say("done")])
    seen = await talk(settings_of(tmp_path), provider, "read both")
    assert [is_error for is_error, _ in results(provider)] == [False, False]
    assert notices(seen) == []


async def test_tools_of_servers_and_of_ones_own_are_watched_by_their_names(tmp_path: Path) -> None:
    """A tool without a guard asks nobody: where a command wants a question, it is refused."""

    async def look(arguments: JsonObject) -> str:
        return "looked"

    mine = [
        Tool(name=name, description="", input_schema={"type": "object"}, call=look)
        for name in ("mcp__files__look", "mcp__web__look")
    ]
    configure(tmp_path, PreToolUse=matched("mcp__files__.*", says(permissionDecision="ask")))
    provider = ScriptedProvider([together(call("mcp__files__look"), call("mcp__web__look")), say("done")])
    await talk(settings_of(tmp_path), provider, "look", tools=mine)
    refused, looked = results(provider)
    assert refused[0]
    assert "not possible for this tool" in refused[1]
    assert looked == (False, "looked")


async def test_a_tools_time_begins_behind_the_command(tmp_path: Path) -> None:
    async def never(arguments: JsonObject) -> str:
        await asyncio.Event().wait()
        return "never"

    mine = [Tool(name="wait", description="", input_schema={"type": "object"}, call=never, max_seconds=0.05)]
    configure(tmp_path, PreToolUse=f"sleep 0.3; {keeps(tmp_path)}")
    provider = ScriptedProvider([call("wait"), say("done")])
    await talk(settings_of(tmp_path), provider, "wait", tools=mine)
    assert len(told(tmp_path)) == 1
    assert results(provider) == [(True, "wait was stopped after 0.05 s.")]


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
async def test_a_command_can_end_the_turn_and_the_next_one_works(tmp_path: Path, event: str) -> None:
    configure(tmp_path, ALLOWED, **{event: 'echo \'{"continue": false, "stopReason": "lunch"}\''})
    provider = ScriptedProvider([call("Bash", command="echo fine"), say("after lunch")])
    async with open_agent(settings_of(tmp_path), provider=provider) as ready:
        with pytest.raises(HookRefused, match=f"A {event} hook ends the turn: lunch"):
            _ = [each async for each in ready.agent.stream("say it")]
        assert not ready.agent.session.view.open_calls
        _ = [each async for each in ready.agent.stream("go on")]
    assert provider.calls == 2
    assert results(provider)[0][0] is (event == "PreToolUse")


@pytest.mark.moves_prefix(reason="a fork's directive is not part of its parent's next request")
async def test_in_a_fork_they_stand_before_the_tools_too(tmp_path: Path) -> None:
    """F3: what a fork may not do, no command can let it do; they learn that it is one."""
    wish = f"{keeps(tmp_path)}; {says(permissionDecision='allow', additionalContext='mind the gap')}"
    configure(tmp_path, PreToolUse=wish, PostToolUse=matched("Read", says(updatedToolOutput="other")))
    (tmp_path / "a.txt").write_text("one")
    provider = ScriptedProvider([say("hello")])
    async with open_agent(settings_of(tmp_path), provider=provider) as ready:
        _ = [each async for each in ready.agent.stream("hello")]
        both = together(call("Bash", command="touch made"), call("Read", file_path="a.txt"))
        provider.script(both, say("seen"), say("on"))
        may = Narrowing(tools=frozenset({"Read"}))
        forked = await ready.forks(ForkTask(source="side", directive="Look.", access=may, max_rounds=2))
        _ = [each async for each in ready.agent.stream("go on")]
    assert forked.denials == 1
    refused, read = results(provider, 2)
    assert refused[0]
    assert not (tmp_path / "made").exists()
    assert read == (False, "other")
    assert "mind the gap" in tail(provider, 2)
    assert "mind the gap" not in str(provider.requests[3].messages)
    assert {one["agent_type"] for one in told(tmp_path)} == {"side"}
    assert len({one["agent_id"] for one in told(tmp_path)}) == 1


async def test_cancelling_ends_a_command_and_leaves_a_session_that_goes_on(
    tmp_path: Path, pid_file: Path
) -> None:
    """Q2: the tool was never called."""
    configure(tmp_path, ALLOWED, PreToolUse=keep_alive(pid_file))
    provider = ScriptedProvider([call("Bash", command="rm precious"), say("two")])
    (tmp_path / "precious").touch()
    async with open_agent(settings_of(tmp_path), provider=provider) as ready:
        await cancel_in_the_command(ready.agent, "remove it", pid_file)
        assert (tmp_path / "precious").exists()
        await play(ready.agent, "again")
    assert provider.calls == 2


async def test_cancelling_behind_a_tool_that_has_run_keeps_its_result(tmp_path: Path, pid_file: Path) -> None:
    """Q2: what was done is not said to be interrupted."""
    configure(tmp_path, ALLOWED, PostToolUse=f"[ -e {pid_file} ] || {{ {keep_alive(pid_file)}; }}")
    provider = ScriptedProvider([call("Bash", command="rm -v precious"), say("two")])
    (tmp_path / "precious").touch()
    async with open_agent(settings_of(tmp_path), provider=provider) as ready:
        await cancel_in_the_command(ready.agent, "remove it", pid_file)
        await play(ready.agent, "again")
    assert results(provider) == [(False, "removed 'precious'")]


async def test_without_commands_for_tools_nothing_is_wrapped(tmp_path: Path) -> None:
    configure(tmp_path, Stop="true", PreToolUse=matched("Bash", "true"))
    async with open_agent(settings_of(tmp_path), provider=ScriptedProvider()) as ready:
        agent = ready.agent
        layer = agent.session.layer(ToolHookLayer)
        assert layer is not None
        wrapped = layer.wrap_tools(agent.tools)
        assert [name for name in agent.tools if wrapped[name] is not agent.tools[name]] == ["Bash"]
    configure(tmp_path, Stop="true")
    async with open_agent(settings_of(tmp_path), provider=ScriptedProvider()) as ready:
        assert ready.agent.session.layer(ToolHookLayer) is None
