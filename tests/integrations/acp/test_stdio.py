"""The process itself: garbage on stdin, nothing but messages on stdout, its ends, its start."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nacre.formatting import how_to_install
from nacre.testing import Simulator
from tests.integrations.acp.editor import at, begin, call, command, connected, environment

GARBAGE = [
    b"nonsense\n",
    b"\xff\xfe\x00\n",
    b'[1, 2]\n42\nnull\n"text"\n',
    b"\n\n   \n",
    b"[" * 5_000 + b"\n",
    b'{"jsonrpc": "2.0"}\n',
    b'{"jsonrpc": "2.0", "id": [1], "method": "initialize"}\n',
    b'{"jsonrpc": "2.0", "id": 7, "method": 5}\n',
    b'{"jsonrpc": "2.0", "id": 99, "result": {}}\n',
    b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "none"}}\n',
    b'{"jsonrpc": "2.0", "method": "no/such"}\n',
]


def talk(home: Path, *lines: bytes, answers: int) -> tuple[list[dict[str, Any]], str, int]:
    """Send these lines to an agent, and close its stdin after so many messages.

    Returns the messages, stderr and the exit code.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command(), env=environment(home), **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"".join(lines))
        process.stdin.flush()
        got = [process.stdout.readline() for _ in range(answers)]
        rest, errors = process.communicate(timeout=60)
    got += rest.splitlines()
    return [json.loads(line) for line in got], errors.decode(), process.returncode


def request(id_: int, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode() + b"\n"


def test_garbage_is_answered_with_errors_and_the_next_request_is_served(home: Path) -> None:
    answers, errors, code = talk(home, *GARBAGE, request(1, "initialize", protocolVersion=1), answers=11)
    refused = [one["error"]["code"] for one in answers if one.get("id") is None]
    assert refused.count(-32700) == 3 and refused.count(-32600) == 7
    assert answers[-1]["result"]["agentInfo"]["name"] == "nacre"
    assert code == 0
    assert "Traceback" not in errors


@pytest.mark.slow
def test_bad_parameters_are_refused_and_the_process_goes_on(home: Path, work: Path) -> None:
    answers, errors, code = talk(
        home,
        request(1, "initialize", protocolVersion="one"),
        request(2, "initialize", protocolVersion=99),
        request(3, "session/new", cwd=5),
        request(4, "session/prompt", sessionId="none", prompt=[]),
        request(5, "session/prompt", sessionId="none", prompt=[{"type": "text", "text": "x"}]),
        request(6, "no/such"),
        request(7, "_their/extension"),
        request(8, "authenticate", methodId="something"),
        request(9, "session/list", cwd=str(work)),
        answers=9,
    )
    by_id = {one["id"]: one for one in answers}
    assert {id_: by_id[id_]["error"]["code"] for id_ in (3, 4, 5, 6, 7, 8)} == {
        3: -32602, 4: -32602, 5: -32602, 6: -32601, 7: -32601, 8: -32602,
    }  # fmt: skip
    assert by_id[2]["result"]["protocolVersion"] == 1
    assert by_id[9]["result"]["sessions"] == []
    assert "Traceback" not in errors
    assert code == 0


@pytest.mark.slow
async def test_nothing_else_reaches_stdout_or_reads_stdin(work: Path, home: Path) -> None:
    """Hooks that print, a command that reads, and an editor that /plan edit starts."""
    hook = {"hooks": [{"type": "command", "command": "cat; echo from a hook; echo to stderr >&2"}]}
    (home / "settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook], "Stop": [hook]}}))
    replies = [call("Bash", command="cat; echo from a command"), "Well."]
    async with (
        Simulator(replies) as sim,
        connected(home, EDITOR="sh -c 'cat; echo from an editor'", **at(sim)) as agent,
    ):
        session = await begin(agent, work)
        assert (
            await agent.say(session, "Read stdin.") == "end_turn"
        )  # each line was a message, or this would fail
        assert await agent.say(session, "/plan edit") == "end_turn"
        assert await agent.say(session, "/plan") == "end_turn"


@pytest.mark.slow
async def test_a_client_that_goes_away_ends_the_turn_its_commands_and_the_process(
    work: Path, home: Path
) -> None:
    replies = [call("Bash", command="touch begun; sleep 60; touch ended")]
    async with Simulator(replies) as sim, connected(home, **at(sim)) as agent:
        session = await begin(agent, work)
        turn = asyncio.create_task(agent.say(session, "Take your time."))
        await agent.until((work / "begun").exists)
        agent.process.stdin.close()
        assert await asyncio.wait_for(agent.process.wait(), 20) == 0
        turn.cancel()
        await asyncio.wait({turn})
        errors = (await agent.process.stderr.read()).decode()
    assert "Traceback" not in errors
    assert not (work / "ended").exists()


@pytest.mark.slow
async def test_a_signal_ends_the_process_in_order(work: Path, home: Path) -> None:
    async with connected(home) as agent:
        session = await begin(agent, work)
        await agent.say(session, "read app.py")
        agent.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(agent.process.wait(), 20) == 128 + signal.SIGTERM
        assert "Traceback" not in (await agent.process.stderr.read()).decode()
    async with connected(home) as again:
        await again.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])
        assert "branch" not in again.editor.said(session)


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "</dev/null", ">/dev/null"])
def test_without_a_pipe_it_says_who_starts_it(home: Path, closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f"echo | {shlex.join(command())} {closed}"],
        capture_output=True,
        text=True,
        env=environment(home),
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        3,
        "nacre: nacre acp needs a pipe on stdin and stdout; an editor starts it so\n",
    )


def test_without_the_sdk_it_says_what_to_install(home: Path) -> None:
    hide = "import sys; sys.modules['acp'] = None; import importlib.util as u; f = u.find_spec; "
    hide += "u.find_spec = lambda n, *a: None if n == 'acp' else f(n, *a); "
    done = subprocess.run(
        [sys.executable, "-c", hide + "from nacre.cli.main import main; sys.exit(main(['acp']))"],
        capture_output=True,
        text=True,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.endswith(f"{how_to_install('acp')}\n")


def test_no_other_command_imports_the_sdk() -> None:
    listed = "import sys; from nacre.cli.main import main; main(['--help']); import nacre.cli.acp; "
    listed += "print('acp' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", listed],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ},
    )
    assert done.stdout.endswith("False\n")


@pytest.mark.slow
@pytest.mark.parametrize("size", [200_000, 3_000_000])
async def test_long_messages_pass(work: Path, home: Path, size: int) -> None:
    async with Simulator(["Long."]) as sim, connected(home, **at(sim)) as agent:
        session = await begin(agent, work)
        assert await agent.say(session, "x" * size) in {"end_turn", "max_turn_requests"}
