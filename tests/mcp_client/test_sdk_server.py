"""Against a server written with the official SDK, of the newest protocol, as a child process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from nacre.mcp_client import CallOutcome, McpTool, Servers
from nacre.messages.blocks import Image, Text
from nacre.messages.tokens import estimate_blocks
from tests.mcp_client.places import QUICK, children, is_running, sdk, until
from tests.mcp_client.sdk_server import PIXEL

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENT = replace(QUICK, start_seconds=30.0, call_seconds=10.0, exit_seconds=2.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers() -> AsyncIterator[Servers]:
    """One server for all tests that leave it as they found it: starting one takes more than a second."""
    async with Servers([sdk(SPECIAL="given")], limits=PATIENT) as servers:
        yield servers


async def test_a_tool_comes_with_its_schema_and_hints(servers: Servers) -> None:
    by_name = {tool.name: tool for tool in servers.tools}
    assert by_name["add"] == McpTool(
        server="sdk",
        name="add",
        wire_name="mcp__sdk__add",
        description="Add two numbers.",
        input_schema={
            "properties": {
                "a": {"title": "A", "type": "integer"},
                "b": {"default": 1, "title": "B", "type": "integer"},
            },
            "required": ["a"],
            "title": "addArguments",
            "type": "object",
        },
        read_only=True,
    )
    assert not by_name["die"].read_only
    assert servers.instructions()[0].text == "Ask for numbers, not for words."


async def test_a_call_brings_back_text(servers: Servers) -> None:
    assert await servers.call("mcp__sdk__add", {"a": 2, "b": 3}) == CallOutcome((Text("5"),))


async def test_an_error_of_the_tool_is_told_as_the_tool_says_it(servers: Servers) -> None:
    assert await servers.call("mcp__sdk__fail", {"why": "no paper"}) == CallOutcome(
        (Text("Error executing tool fail: no paper"),), is_error=True
    )
    wrong = await servers.call("mcp__sdk__add", {"a": "many"})
    assert wrong.is_error and "integer" in wrong.text


async def test_every_kind_of_content_becomes_something_the_model_can_read(servers: Servers) -> None:
    assert await servers.call("mcp__sdk__mixed", {}) == CallOutcome(
        (
            Text("first\nsecond"),
            Image({"type": "base64", "media_type": "image/png", "data": PIXEL}),
            Text(
                "[image/tiff image left out: only PNG, JPEG, GIF and WebP pictures and PDF files can be "
                "shown]\n"
                "[image/png image left out: it is not valid base64]\n"
                "[audio/wav audio left out: audio is not supported]\n"
                "[resource file:///a.txt]\nthe text of a\n"
                "[resource file:///b.bin: application/zip, about 90 bytes, left out]\n"
                "[link to file:///c.txt (c, text/plain, 7 bytes): the third]"
            ),
        )
    )


async def test_structured_content_is_shown_when_there_is_no_text(servers: Servers) -> None:
    bare = await servers.call("mcp__sdk__weather", {"place": "Qo"})
    assert bare == CallOutcome((Text('{"place":"Qo","degrees":21.5}'),))
    typed = await servers.call("mcp__sdk__typed_weather", {"place": "Qo"})
    assert typed.text.count("21.5") == 1


async def test_ten_megabytes_are_cut_with_a_note(servers: Servers) -> None:
    outcome = await servers.call("mcp__sdk__big", {"characters": 10_000_000})
    assert estimate_blocks(outcome.parts) < PATIENT.result_tokens + 100
    assert outcome.text.startswith("word word ")
    assert outcome.parts[-1] == Text(
        "[result cut here: text of 10,000,000 characters (about 2,500,000 tokens) does not fit; "
        "ask the tool for less, with a filter, a range or a page]"
    )


async def test_a_server_sees_the_environment_its_entry_gives_and_no_keys(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await servers.call("mcp__sdk__variable", {"name": "SPECIAL"})).text == "given"
    assert (await servers.call("mcp__sdk__variable", {"name": "NACRE_HOME"})).text == "(not set)"


async def test_cancelling_a_call_reaches_the_tool_and_the_server_lives_on(
    servers: Servers, tmp_path: Path
) -> None:
    """Q2"""
    before = (await servers.call("mcp__sdk__pid", {})).text
    mark = tmp_path / "slow"
    call = asyncio.create_task(servers.call("mcp__sdk__slow", {"mark": str(mark)}))
    await until(mark.with_suffix(".begun").exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(mark.with_suffix(".cancelled").exists)
    assert (await servers.call("mcp__sdk__pid", {})).text == before


async def test_calls_run_side_by_side_and_each_gets_its_own_answer(servers: Servers) -> None:
    calls = [servers.call("mcp__sdk__add", {"a": number, "b": 0}) for number in range(50)]
    assert [outcome.text for outcome in await asyncio.gather(*calls)] == [str(number) for number in range(50)]


@pytest.mark.slow
async def test_a_slow_call_times_out_unless_it_reports_progress_and_the_server_is_not_blamed(
    tmp_path: Path,
) -> None:
    async with Servers([sdk()], limits=replace(PATIENT, call_seconds=1.0, max_call_seconds=3.0)) as servers:
        pid = await servers.call("mcp__sdk__pid", {})
        mark = tmp_path / "slow"
        slow, busy, endless = await asyncio.gather(
            servers.call("mcp__sdk__slow", {"mark": str(mark)}),
            servers.call("mcp__sdk__busy", {"steps": 5, "pause": 0.4}),
            servers.call("mcp__sdk__busy", {"steps": 500, "pause": 0.2}),
        )
        assert slow.text == "MCP server sdk gave no sign of life for 1 s; the call of slow was cancelled."
        assert mark.with_suffix(".cancelled").exists()
        assert busy == CallOutcome((Text("arrived"),))
        assert endless.is_error
        assert await servers.call("mcp__sdk__pid", {}) == pid


@pytest.mark.slow
async def test_a_changed_list_dying_and_helpers(tmp_path: Path) -> None:
    """C31b; and what a server started ends with it, however deaf it is."""
    async with Servers([sdk()], limits=replace(PATIENT, exit_seconds=1.0, term_seconds=0.5)) as servers:
        tools = servers.tools
        assert (await servers.call("mcp__sdk__change", {})).text == "changed"
        notices: list[str] = []
        await until(lambda: bool(notices.extend(servers.take_notices()) or len(notices) == 2))
        assert notices == [
            "MCP server sdk now offers novelty; usable from the next session on",
            "MCP server sdk no longer offers weather",
        ]
        assert (
            await servers.call("mcp__sdk__weather", {"place": "x"})
        ).text == "MCP server sdk no longer offers weather."
        assert servers.tools == tools
        helper = int((await servers.call("mcp__sdk__helper", {})).text)
        assert is_running(helper)
        dead = await servers.call("mcp__sdk__die", {"words": "a\nthe last word"})
        assert dead == CallOutcome(
            (Text("MCP server sdk ended with exit code 3: the last word."),), is_error=True
        )
        assert not is_running(helper)
        # Started again it is as it was at the beginning, and says so.
        assert not (await servers.call("mcp__sdk__weather", {"place": "x"})).is_error
        assert servers.take_notices() == ("MCP server sdk offers weather again",)
        second = int((await servers.call("mcp__sdk__helper", {})).text)
        pid = int((await servers.call("mcp__sdk__pid", {})).text)
        assert is_running(second) and pid in children()
    assert not is_running(second) and not is_running(pid)
