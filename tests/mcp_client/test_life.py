"""How servers start, misbehave, die and end: real processes in bare JSON lines."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.formatting import how_to_install
from nacre.mcp_client import McpTool, ServerInstructions, Servers, parse_servers
from nacre.mcp_client.connection import FIRST_WAIT_SECONDS
from nacre.messages.blocks import Text
from nacre.messages.wire import canonical
from nacre.testing import FrozenClock
from tests.mcp_client.places import QUICK, children, forget_others, is_running, raw, until


@pytest.fixture(autouse=True)
def no_process_is_left() -> object:
    forget_others()
    yield
    assert children() == set()


async def test_tools_are_offered_under_the_servers_name_sorted() -> None:
    async with Servers([raw("plain", name="b"), raw("plain", name="a")], limits=QUICK) as servers:
        names = [tool.wire_name for tool in servers.tools]
        outcome = await servers.call("mcp__b__echo", {"z": 1, "a": [None, "é"]})
    assert names == sorted(names) and names[:2] == ["mcp__a__change", "mcp__a__die"]
    assert servers.tools[2] == McpTool(
        server="a",
        name="echo",
        wire_name="mcp__a__echo",
        description="The tool echo.",
        input_schema={"properties": {}, "type": "object"},
    )
    assert json.loads(outcome.text) == {"z": 1, "a": [None, "é"]}
    assert servers.take_notices() == ()


async def test_no_servers_cost_nothing() -> None:
    async with Servers([]) as servers:
        assert (servers.tools, servers.instructions(), servers.take_notices()) == ((), (), ())
        assert (await servers.call("mcp__a__b", {})).is_error


async def test_every_page_of_a_list_is_read() -> None:
    async with Servers([raw("pages")], limits=QUICK) as servers:
        assert [tool.name for tool in servers.tools] == [f"t{number:02}" for number in range(50)]


async def test_a_list_that_never_ends_is_read_once() -> None:
    async with Servers([raw("endless")], limits=QUICK) as servers:
        assert [tool.name for tool in servers.tools] == ["one"]


async def test_the_same_server_gives_the_same_bytes_however_it_shuffles_them() -> None:
    """C31: definitions stand at the front of every request."""

    async def offered() -> bytes:
        async with Servers([raw("shuffle")], limits=QUICK) as servers:
            return canonical(
                [[tool.wire_name, tool.description, tool.input_schema] for tool in servers.tools]
            )

    first, second, third = await asyncio.gather(offered(), offered(), offered())
    assert first == second == third
    assert b'"a":{"type":"number"},"b":' in first


async def test_odd_tools_are_made_fit_or_left_out_with_a_notice() -> None:
    async with Servers([raw("odd")], limits=QUICK) as servers:
        by_name = {tool.name: tool for tool in servers.tools}
        outcome = await servers.call(by_name["with space"].wire_name, {"x": 1})
        (instructions,) = servers.instructions()
    assert "vast" not in by_name
    assert servers.take_notices() == ("MCP server raw: vast is left out, its schema has 70,038 bytes",)
    assert len({tool.wire_name for tool in servers.tools}) == len(servers.tools)
    assert all(len(tool.wire_name) <= 64 and tool.wire_name.isascii() for tool in servers.tools)
    assert by_name["wordy"].description == "w" * 2_047 + "…"
    assert by_name["either"].input_schema["properties"] == {"x": {"type": "string"}, "y": {"type": "string"}}
    assert by_name["twice"].description == "First."
    assert outcome.text == '{"x": 1}'
    assert instructions.text == "i" * 2_047 + "…"


async def test_the_instructions_of_a_server_come_with_the_names_of_its_tools() -> None:
    configs = [raw("endless", "Be", "brief."), raw("dead", name="zz"), raw("endless", name="quiet")]
    async with Servers(configs, limits=QUICK) as servers:
        instructions = servers.instructions()
    assert instructions == (ServerInstructions("raw", "Be brief.", frozenset({"mcp__raw__one"})),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("dead", "ended with exit code 1: no [31mdatabase [0m here"),
        ("silent", "did not answer within 1.5 s: waiting for a database"),
        ("babble", "did not answer within 1.5 s: Usage: not a server at all"),
    ],
)
async def test_a_server_that_does_not_start_is_one_notice_and_no_tools(behaviour: str, reason: str) -> None:
    async with Servers([raw(behaviour)], limits=replace(QUICK, start_seconds=1.5)) as servers:
        assert servers.tools == () and servers.instructions() == ()
        assert servers.take_notices()[-1] == f"MCP server raw {reason}"
        assert servers.take_notices() == ()


async def test_a_program_that_does_not_exist_is_one_notice() -> None:
    missing = parse_servers({"x": {"command": "/no/such/program"}}, environ=os.environ)
    async with Servers(missing, limits=QUICK) as servers:
        assert servers.take_notices() == (
            "MCP server x cannot be started: No such file or directory: /no/such/program",
        )


@pytest.mark.slow
async def test_a_hanging_server_delays_the_others_no_longer_than_the_start_timeout() -> None:
    """Its own end is not waited for either: it still has its grace when the session begins."""
    limits = replace(QUICK, start_seconds=1.0, exit_seconds=1.5)
    async with Servers([raw("silent", name="a"), raw("plain", name="b")], limits=limits) as servers:
        assert len(children()) == 2
        assert {tool.server for tool in servers.tools} == {"b"}
        assert not (await servers.call("mcp__b__echo", {})).is_error


async def test_a_server_that_prints_on_its_output_still_works() -> None:
    async with Servers([raw("garbage")], limits=QUICK) as servers:
        assert (await servers.call("mcp__raw__echo", {"a": 1})).text == '{"a": 1}'
        assert servers.take_notices() == (
            "MCP server raw prints on its output what is not MCP; ignored: debug: [1mgot [0m a message",
        )


async def test_a_flood_of_errors_neither_blocks_the_server_nor_fills_our_memory() -> None:
    async with Servers([raw("flood")], limits=QUICK) as servers:
        for number in range(5):
            assert (await servers.call("mcp__raw__echo", {"n": number})).text == f'{{"n": {number}}}'
        outcome = await servers.call("mcp__raw__die", {})
    assert outcome.is_error and outcome.text.endswith("exit code 9: I cannot go on.")


async def test_a_line_without_end_ends_the_server_and_not_the_session() -> None:
    async with Servers([raw("plain")], limits=replace(QUICK, call_seconds=20.0)) as servers:
        outcome = await servers.call("mcp__raw__huge", {})
        again = await servers.call("mcp__raw__echo", {})
    assert outcome.text == "MCP server raw sent a line of more than 64 MiB and was ended."
    assert not again.is_error


async def test_a_dead_server_costs_one_error_and_is_started_again_at_the_next_call() -> None:
    async with Servers([raw("plain")], limits=QUICK) as servers:
        alongside = asyncio.create_task(servers.call("mcp__raw__die", {}))
        dead = await servers.call("mcp__raw__die", {})
        again = await servers.call("mcp__raw__echo", {"a": 1})
        assert (await alongside).is_error
    assert (dead.is_error, dead.text) == (True, "MCP server raw ended with exit code 9: I cannot go on.")
    assert (again.is_error, again.text) == (False, '{"a": 1}')


async def test_a_server_that_keeps_dying_is_tried_less_and_less(clock: FrozenClock) -> None:
    async with Servers([raw("plain")], limits=QUICK, clock=clock) as servers:
        texts = []
        for pause in (0.0, 0.0, 0.0, FIRST_WAIT_SECONDS, FIRST_WAIT_SECONDS):
            clock.advance(seconds=pause)
            texts.append((await servers.call("mcp__raw__die", {})).text)
    died = "MCP server raw ended with exit code 9: I cannot go on."
    down = "MCP server raw is down: it ended with exit code 9: I cannot go on; it can be tried again in {} s."
    assert texts == [died, died, down.format(1), died, down.format(1)]


@pytest.mark.slow
async def test_a_hanging_call_costs_one_error_and_a_server_that_answers_nothing_is_started_again() -> None:
    async with Servers([raw("plain")], limits=QUICK) as servers:
        (before,) = children()
        hung = await servers.call("mcp__raw__hang", {})
        again = await servers.call("mcp__raw__echo", {})
        assert children() - {before}
    assert hung.text == "MCP server raw gave no sign of life for 1 s; the call of hang was cancelled."
    assert not again.is_error


async def test_an_answer_that_is_no_result_is_an_error_and_nothing_more() -> None:
    async with Servers([raw("plain")], limits=QUICK) as servers:
        odd = await servers.call("mcp__raw__odd", {})
        assert odd.is_error and odd.text.startswith("MCP server raw: ")
        assert not (await servers.call("mcp__raw__echo", {})).is_error


async def test_a_changed_list_is_a_notice_and_the_session_keeps_its_definitions() -> None:
    """C31b: nothing already sent changes; what is gone answers with an error."""
    async with Servers([raw("plain")], limits=QUICK) as servers:
        before = servers.tools
        await servers.call("mcp__raw__change", {})
        notices: list[str] = []
        await until(lambda: bool(notices.extend(servers.take_notices()) or notices))
        gone = await servers.call("mcp__raw__gone", {})
        assert servers.tools == before
    assert notices == ["MCP server raw no longer offers gone, hang, huge, odd"]
    assert (gone.is_error, gone.text) == (True, "MCP server raw no longer offers gone.")


async def test_cancelling_a_call_returns_at_once_and_leaves_the_server_alone() -> None:
    """Q2"""
    async with Servers([raw("plain")], limits=replace(QUICK, call_seconds=30.0)) as servers:
        (pid,) = children()
        call = asyncio.create_task(servers.call("mcp__raw__hang", {}))
        await asyncio.sleep(0.2)
        call.cancel()
        done, _ = await asyncio.wait({call}, timeout=2.0)
        assert done and call.cancelled()
        assert children() == {pid}


async def test_a_turn_cancelled_while_the_server_starts_again_does_not_start_it_twice() -> None:
    async with Servers([raw("plain")], limits=QUICK) as servers:
        await servers.call("mcp__raw__die", {})
        call = asyncio.create_task(servers.call("mcp__raw__echo", {}))
        await until(lambda: bool(children()))
        call.cancel()
        await asyncio.wait({call})
        assert not (await servers.call("mcp__raw__echo", {})).is_error
        assert len(children()) == 1


@pytest.mark.slow
async def test_closing_ends_even_a_server_that_ignores_every_request() -> None:
    async with Servers([raw("stubborn"), raw("plain", name="b")], limits=QUICK) as servers:
        assert len(children()) == 2 and servers.tools
    assert children() == set()


async def test_closing_in_a_hurry_ends_everything_too() -> None:
    """Being cancelled while closing skips the grace periods, not the end."""

    async def session() -> None:
        async with Servers([raw("stubborn")], limits=replace(QUICK, exit_seconds=60.0)):
            running.set()

    running = asyncio.Event()
    task = asyncio.create_task(session())
    await running.wait()
    await asyncio.sleep(0.1)
    task.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait({task})
    assert task.cancelled() and children() == set()


async def test_being_cancelled_while_starting_leaves_nothing_behind() -> None:
    async def session() -> None:
        async with Servers([raw("silent"), raw("silent", name="b")], limits=QUICK):
            raise AssertionError("nobody started")

    task = asyncio.create_task(session())
    await until(lambda: len(children()) == 2)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled() and children() == set()


async def test_a_call_under_way_is_answered_when_the_session_closes() -> None:
    async with Servers([raw("plain")], limits=replace(QUICK, call_seconds=30.0)) as servers:
        call = asyncio.create_task(servers.call("mcp__raw__hang", {}))
        await asyncio.sleep(0.1)
    assert (await call).parts == (Text("MCP server raw was closed."),)
    assert (await servers.call("mcp__raw__echo", {})).is_error and children() == set()


def test_without_the_sdk_there_is_one_notice_and_a_session() -> None:
    script = (
        "import asyncio, sys\n"
        "from nacre.mcp_client import Servers, parse_servers\n"
        "assert not {'mcp', 'mcp_types', 'pydantic'} & set(sys.modules)\n"
        "sys.modules['mcp'] = sys.modules['mcp_types'] = None\n"
        "async def main():\n"
        "    async with Servers(parse_servers({'x': {'command': 'x'}}, environ={})) as servers:\n"
        "        print(*servers.take_notices(), servers.tools)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MCP servers are not started (") and done.stdout.endswith(
        f"; to have them: {how_to_install('mcp')} ()\n"
    )


def test_servers_end_when_we_are_killed(tmp_path: Path) -> None:
    """Nobody can tidy up after SIGKILL; a server sees its input end."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio, sys\n"
        "from nacre.mcp_client import Servers\n"
        "from tests.mcp_client.places import children, raw\n"
        "async def main():\n"
        "    async with Servers([raw('plain')]):\n"
        "        print(*children(), flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)}
    ) as parent:
        assert parent.stdout is not None
        (child,) = map(int, parent.stdout.readline().split())
        assert is_running(child)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    asyncio.run(until(lambda: not is_running(child)))
