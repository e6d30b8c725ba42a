"""kill -9 in the middle of things, and a second process on one session: what is left goes on (T8, T8b)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from nacre.messages.pairing import INTERRUPTED
from tests.cli.program import begin, nacre, world
from tests.scale import scaled
from tests.stories.processes import (
    Sim,
    begun,
    eventually,
    keep_alive,
    logs,
    pids,
    said,
    until,
    user_texts,
)
from tests.stories.scenes import call, calls

STREAM = ("--output-format", "stream-json")


WORKER = """
import asyncio, sys
from nacre import open_agent
from nacre.clock import SYSTEM_CLOCK
from nacre.loop.round import Limits
from nacre.messages.blocks import ToolCall
from nacre.testing import ScriptedProvider, together

def step(request):
    return together(
        "Next.",
        ToolCall(SYSTEM_CLOCK.new_id(), "Bash", {"command": "seq 1 2000"}),
        ToolCall(SYSTEM_CLOCK.new_id(), "Glob", {"pattern": "*"}),
    )

async def work():
    async with open_agent(provider=ScriptedProvider(otherwise=step), session=sys.argv[1] or "new") as ready:
        ready.agent.limits = Limits(max_rounds=2)
        print("open", flush=True)
        while True:
            async for event in ready.agent.stream("a prompt"):
                pass
            print("told", flush=True)

asyncio.run(work())
"""
"""Turn after turn without end, and no pause in which a kill would be harmless."""


@pytest.mark.slow
def test_killed_in_mid_reply_the_session_goes_on(sim: Sim, tmp_path: Path) -> None:
    """T8: the words of the person were on disk before anything was sent."""
    sim.script({"text": "a reply nobody hears the end of", "fault": {"kind": "hang", "after": 4}}, "Back.")
    with begun(tmp_path, "-p", "tell me", *STREAM, **sim.environ()) as process:
        until(process.stdout, lambda line: '"text"' in line)
        process.kill()
    again = nacre(tmp_path, "-p", "go on", "--continue", **sim.environ())
    assert (again.returncode, again.stdout, again.stderr) == (0, "Back.\n", "")
    (log,) = logs(tmp_path)
    assert user_texts(log) == ["tell me", "go on"]
    assert said(log)[-2] == "assistant: Back."
    assert nacre(tmp_path, "sessions", "check", log.stem).returncode == 0


@pytest.mark.slow
def test_killed_in_mid_tool_the_call_is_marked_interrupted(sim: Sim, tmp_path: Path, pid_file: Path) -> None:
    """T8: a call that was in flight has a result that says so, in the log itself."""
    hanging = calls(call("Glob", pattern="*"), call("Bash", command=keep_alive(pid_file)), text="Wait.")
    sim.script(hanging, "I see.")
    with begun(tmp_path, "-p", "work", *STREAM, **sim.environ()) as process:
        eventually(lambda: bool(pids(pid_file)), "the command runs")
        process.kill()
    (log,) = logs(tmp_path)
    before = log.read_bytes()
    again = nacre(tmp_path, "-p", "what happened?", "--continue", **sim.environ())
    assert (again.returncode, again.stdout) == (0, "I see.\n")
    assert again.stderr == "nacre: 2 tool calls did not finish last time.\n"
    assert log.read_bytes().startswith(before)
    words = said(log)
    assert words[1] == "assistant: Wait. | [Glob] | [Bash]"
    assert words[2] == f"user: ={INTERRUPTED} | ={INTERRUPTED} | what happened?"
    on_disk = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert sum(INTERRUPTED in str(record.get("message")) for record in on_disk) == 1


@pytest.mark.slow
@pytest.mark.soak
def test_killed_at_ten_random_moments_nothing_whole_is_lost(sim: Sim, tmp_path: Path) -> None:
    """T8: each time at most the record being written, however often it happens to one session."""
    chance = Random(11)
    told = 0
    for number in range(scaled(10)):
        command = [sys.executable, "-c", WORKER, "latest" if number else ""]
        child = begin(command, tmp_path, world(tmp_path), has_nacre=True, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        # Any moment will do, also before the first turn is over; that it is another one is the point.
        for _ in range(chance.randrange(4) + 1):
            told += child.stdout.readline() == "told\n"
        time.sleep(chance.uniform(0, 0.15))
        child.kill()
        rest, _ = child.communicate()
        told += rest.count("told")
        (log,) = logs(tmp_path)
        # What the child heard itself say is on disk: the log is written first.
        assert len(user_texts(log)) >= told
    before = log.read_bytes()
    sim.script("The end.")
    last = nacre(tmp_path, "-p", "and now?", "--continue", **sim.environ())
    assert (last.returncode, last.stdout) == (0, "The end.\n")
    assert log.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert told > 0
    assert user_texts(log)[-1] == "and now?"
    assert logs(tmp_path) == [log]
    assert_paired(log)


def assert_paired(log: Path) -> None:
    """T6: every call in the log has one result in the log."""
    made: list[str] = []
    answered: list[str] = []
    for line in log.read_bytes().splitlines():
        content = json.loads(line).get("message", {}).get("content", [])
        blocks = content if isinstance(content, list) else []
        made += [block["id"] for block in blocks if block["type"] == "tool_use"]
        answered += [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert made
    assert made == answered


def test_a_torn_last_line_is_moved_aside_and_the_person_is_told(tmp_path: Path) -> None:
    """T8: the tail is repaired; what was torn is kept."""
    nacre(tmp_path, "-p", "first")
    (log,) = logs(tmp_path)
    whole = log.read_bytes()
    torn = b'{"type":"user","uuid":"x","message":{"role":"user","content":"half a se'
    log.write_bytes(whole + torn)
    again = nacre(tmp_path, "-p", "hello", "--continue")
    assert again.returncode == 0
    (aside,) = log.with_suffix("").glob("torn-*.bin")
    assert again.stderr == f"nacre: The end of the log was torn: {len(torn)} bytes were moved to {aside}.\n"
    assert aside.read_bytes() == torn
    assert log.read_bytes().startswith(whole)
    assert torn not in log.read_bytes()
    assert user_texts(log) == ["first", "hello"]


def test_a_second_process_goes_on_as_a_branch_with_its_own_id(sim: Sim, tmp_path: Path) -> None:
    """T8b: the first keeps the session; the second is told, and both logs are whole afterwards."""
    sim.script("One.", "From the branch.", "From the first.")
    with begun(tmp_path, "chat", **sim.environ()) as first:
        assert first.stdin is not None
        first.stdin.write("first\n")
        until(first.stdout, lambda line: line == "One.\n")
        (log,) = logs(tmp_path)
        second = nacre(tmp_path, "-p", "second", "--continue", "--output-format", "json", **sim.environ())
        branch = json.loads(second.stdout)["session"]
        assert second.returncode == 0
        assert f"process {first.pid}" in second.stderr
        assert f"Continuing as a branch: session {branch}" in second.stderr
        assert branch != log.stem
        first.stdin.write("third\n")
        until(first.stdout, lambda line: line == "From the first.\n")
        first.stdin.close()
        first.stdin = None
        assert first.wait(timeout=60) == 0
    assert user_texts(log) == ["first", "third"]
    assert user_texts(log.with_name(f"{branch}.jsonl")) == ["first", "second"]
    assert {json.loads(line).get("sessionId") for line in log.read_bytes().splitlines()} == {log.stem}
    ids = {json.loads(x).get("sessionId") for x in log.with_name(f"{branch}.jsonl").read_bytes().splitlines()}
    assert ids == {branch}
    first_ask, of_branch, of_first = (one["body"]["messages"] for one in sim.log())
    assert first_ask[0]["content"][0]["text"] == of_branch[0]["content"][0]["text"]
    assert [m["role"] for m in of_branch] == [m["role"] for m in of_first] == ["user", "assistant", "user"]


def test_a_session_whose_process_was_killed_is_free_again(tmp_path: Path) -> None:
    """T8b: a lease does not outlive its holder, so there is no branch."""
    with begun(tmp_path, "chat") as first:
        assert first.stdin is not None
        first.stdin.write("first\n")
        until(first.stdout, lambda line: bool(line.strip()))
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    again = nacre(tmp_path, "-p", "hello", "--continue")
    assert (again.returncode, again.stderr) == (0, "")
    assert len(logs(tmp_path)) == 1
