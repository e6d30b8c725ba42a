"""The process on stdio: its first answer, what goes to which stream, how it ends, and how it dies."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import mcp_types as types
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp import Client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from nacre.formatting import how_to_install
from nacre.integrations.mcp_server import greeting
from nacre.integrations.mcp_server.stdio import mended
from nacre.memory.checks.lint import lint
from nacre.memory.memory import Memory
from tests.integrations.mcp_server.serving import ByHand, client, command, environment, said

SAVE = "memory_save"
HANDSHAKE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n'
)
ODD: st.SearchStrategy[object] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 1), st.text(max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=1),
        st.dictionaries(
            st.sampled_from(["listChanged", "tools", "form", "requests", "x"]), inner, max_size=2
        ),
    ),
    max_leaves=4,
)
THINGS = "Anchor Bicycle Candle Dentist Elevator Furnace Garden Hammock Invoice Jacket Kettle Lantern".split()


@pytest.mark.slow
def test_the_quick_first_answer_is_the_one_that_the_sdk_would_give(tmp_path: Path) -> None:
    """Every version that begins with a handshake, and every word of the answer."""
    assert greeting.HANDSHAKES == HANDSHAKE_PROTOCOL_VERSIONS
    talk = ByHand(tmp_path)
    assert talk.greeted() == greeting.answer(1, "2025-06-18")
    info = {"name": "by-hand", "version": "1"}
    for number, version in enumerate(HANDSHAKE_PROTOCOL_VERSIONS, start=2):
        talk.ask(number, "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": info})
        assert talk.heard() == greeting.answer(number, version)
    talk.ended()


@given(
    abilities=st.dictionaries(
        st.sampled_from(["roots", "sampling", "elicitation", "experimental", "extensions", "tasks", "more"]),
        ODD,
        max_size=3,
    ),
    about=st.dictionaries(st.sampled_from(["title", "description", "websiteUrl", "icons", "else"]), ODD),
    number=st.one_of(st.text(max_size=3), st.integers(), st.booleans(), st.none(), st.floats()),
    more=st.dictionaries(st.sampled_from(["_meta", "protocolVersion", "x"]), ODD, max_size=1),
)
def test_nobody_is_greeted_whom_the_sdk_would_refuse(
    abilities: dict[str, object], about: dict[str, object], number: object, more: dict[str, object]
) -> None:
    """Whatever clients say of themselves: whoever was greeted must be served, too."""
    who = {"name": "x", "version": "1", **about}
    params = {"protocolVersion": "2025-06-18", "capabilities": abilities, "clientInfo": who, **more}
    line = json.dumps({"jsonrpc": "2.0", "id": number, "method": "initialize", "params": params}).encode()
    if greeting._handshake(line) is not None:
        request = types.JSONRPCRequest.model_validate_json(line)
        types.InitializeRequestParams.model_validate(request.params)
        assert request.id == number


def test_clients_that_are_in_use_are_greeted_at_once() -> None:
    """As Claude Code 2.1 and the SDKs begin; what else they can is no reason to wait."""
    for can in (
        b'{"roots":{},"elicitation":{}}',
        b'{"roots":{"listChanged":true},"sampling":{}}',
        b'{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"experimental":{"x":{"y":1}}}',
    ):
        assert greeting._handshake(HANDSHAKE.replace(b"{}", can)) == (1, "2025-06-18")
    title = b'"name":"x","title":"Claude Code","description":"d","websiteUrl":"https://claude.com"'
    assert greeting._handshake(HANDSHAKE.replace(b'"name":"x"', title)) == (1, "2025-06-18")


@given(text=st.text(st.characters(categories=["Cs", "Lu", "So", "Po"]), max_size=20))
@example(text="\\ud800 \U0001f41a \ud83d")
@example(text="\ud800\udc00")
def test_halves_of_letters_are_replaced_and_nothing_else(text: str) -> None:
    line = json.dumps({"text": text}).encode()
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    whole = re.sub("[\ud800-\udfff]", "\ufffd", joined)
    assert json.loads(mended(line)) == {"text": whole}
    assert (mended(line) != line) == (whole != joined)


@pytest.mark.parametrize(
    "line",
    [
        b"{}\n",
        b"no json\n",
        b"[" * 3_000 + b"\n",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        b'{"jsonrpc":"2.0","id":true,"method":"initialize","params":{}}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1999-01-01",'
        b'"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n',
        b"\xef\xbb\xbf" + HANDSHAKE,
        HANDSHAKE.replace(b'"id":1', b'"id":9007199254740993'),
        HANDSHAKE.replace(b'"name":"x"', b'"name":"\\ud83d"'),
        HANDSHAKE.replace(b'"name":"x"', b'"name":"x","title":5'),
        HANDSHAKE.replace(b'"name":"x"', b'"name":"x","icons":"none"'),
        HANDSHAKE.replace(b"{}", b'{"roots":{"listChanged":{}}}'),
        HANDSHAKE.replace(b"{}", b'{"sampling":{"tools":true}}'),
        HANDSHAKE.replace(b"{}", b'{"experimental":{"x":1}}'),
        HANDSHAKE.replace(b"{}", b'{},"_meta":5'),
    ],
)
def test_anything_but_a_plain_handshake_is_left_to_the_sdk(tmp_path: Path, line: bytes) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_bytes(line + b"what follows\n")
    with source.open("rb", buffering=0) as reading, sink.open("wb", buffering=0) as writing:
        found = greeting.greet(reading.fileno(), writing.fileno())
        assert found == greeting.Greeted(line)
        assert reading.read() == b"what follows\n"
    assert sink.read_bytes() == b""


@pytest.mark.slow
def test_thousands_of_memories_do_not_hold_up_the_first_answers(tmp_path: Path, home: Path) -> None:
    """Nothing of memory is read before them: the index, which takes seconds, is not there yet."""
    project = tmp_path / "project"
    project.mkdir()
    memory = asyncio.run(Memory.open(project))
    for number in range(3_000):
        fact = f"---\nname: Fact {number}\n---\n\nIt is {number}.\n"
        (memory.location.directory / f"fact_{number}.md").write_text(fact)
    talk = ByHand(project)
    answer = talk.greeted()
    talk.ask(2, "tools/list")
    listed = talk.heard()
    index = memory.location.cache / "recall" / "index.db"
    assert not index.exists()
    talk.process.kill()
    talk.ended()
    assert (answer["id"], listed["id"]) == (1, 2)


@pytest.mark.slow
def test_stdout_carries_the_protocol_only_and_stderr_nothing(tmp_path: Path) -> None:
    """Also where the client sends nonsense, asks for what is not there, and leaves in the middle."""
    talk = ByHand(tmp_path)
    talk.greeted()
    talk.send(b"this is no json\n")
    talk.ask(2, "tools/call", {"name": "memory_get", "arguments": {"name": "x\ny"}})
    talk.ask(3, "resources/read", {"uri": "nacre://memory/nothing.md"})
    talk.ask(4, "no/such/method")
    talk.ask(5, "tools/call", {"name": "memory_get", "arguments": "wrong"})
    talk.ask(6, "tools/call", {"name": "memory_get", "arguments": {"name": "cut in an emoji: \ud83d"}})
    talk.ask(7, "tools/call", {"name": "memory_get", "arguments": {"name": "x" * 300_000}})
    answers = {talk.heard()["id"] for _ in range(6)}
    code, rest, told = talk.ended()
    assert answers == {2, 3, 4, 5, 6, 7}
    assert (code, rest, told) == (0, b"", b"")


def test_whoever_types_it_is_told_whom_it_is_for(tmp_path: Path) -> None:
    """It would wait for a client, and the person for it."""
    ours, theirs = pty.openpty()
    typed = subprocess.Popen(
        command(), cwd=tmp_path, env=environment(), stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    )
    assert typed.stderr is not None
    assert b"claude mcp add nacre -- nacre mcp; Ctrl-C ends it" in typed.stderr.readline()
    typed.send_signal(signal.SIGINT)
    assert (typed.communicate(timeout=30)[1], typed.returncode) == (b"", 0)
    os.close(ours)
    os.close(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(tmp_path: Path, sign: signal.Signals) -> None:
    """M15: the mark of a live agent goes with it, so that later edits are the person's again."""
    talk = ByHand(tmp_path)
    talk.greeted()
    talk.ask(2, "tools/call", {"name": SAVE, "arguments": {"text": "Tea is green.", "type": "project"}})
    assert "Saved" in json.dumps(talk.heard())
    talk.process.send_signal(sign)
    assert talk.process.wait(timeout=30) == 0
    _, _, told = talk.ended()
    assert told == b""
    memory = asyncio.run(Memory.open(tmp_path))
    assert list((memory.location.cache / "live").iterdir()) == []


@pytest.mark.slow
async def test_a_server_that_is_killed_in_mid_save_leaves_memory_whole(tmp_path: Path) -> None:
    """M14, M15: what was confirmed is there, what was not is there whole or not at all."""
    talk = ByHand(tmp_path)
    talk.greeted()
    for number, thing in enumerate(THINGS):
        arguments = {"text": f"{thing}: ask Ada, she knows.", "type": "project", "name": thing}
        talk.ask(100 + number, "tools/call", {"name": SAVE, "arguments": arguments})
    confirmed = []
    while len(confirmed) < 3:
        answer = talk.heard()
        if "result" in answer:
            said_so = json.dumps(answer["result"])
            confirmed.append(f"{said_so.partition('Saved as ')[2].partition('.md')[0]}.md")
    talk.process.kill()
    talk.ended()
    memory = await Memory.open(tmp_path)
    entries = await memory.list()
    assert set(confirmed) <= {one.file for one in entries}
    assert all(one.indexed and one.body.strip().endswith(".") for one in entries)
    assert [one.kind for one in lint(memory.location.directory)] == []
    async with client(tmp_path) as again:
        assert "Saved" in await said(again, SAVE, text="It goes on.", type="project", name="Going on")


@pytest.mark.slow
async def test_two_servers_on_one_project_see_each_others_memories(tmp_path: Path) -> None:
    """M15: both write at once, and nothing is lost."""

    facts = {
        "Kettle": "It is descaled in March.",
        "Lawyer": "Her office is in Basel.",
        "Printer": "Paper jams come from tray two.",
        "Umbrella": "A red one hangs by the door.",
        "Violin": "Lessons are on Mondays at six.",
        "Welcome": "New people get a tour on day one.",
    }

    async def save(talk: Client, names: list[str]) -> None:
        for name in names:
            await said(talk, SAVE, text=facts[name], type="project", name=name)

    async with client(tmp_path, name="one") as one, client(tmp_path, name="two") as two:
        names = list(facts)
        await asyncio.gather(save(one, names[::2]), save(two, names[1::2]))
        for talk in (one, two):
            assert "tray two" in await said(talk, "memory_get", name="printer")
            assert "red one" in await said(talk, "memory_recall", query="where does the umbrella hang?")
    memory = await Memory.open(tmp_path)
    assert {one.name for one in await memory.list() if one.indexed} == set(facts)
    assert {one.author for one in await memory.log(limit=50)} == {"agent"}


@pytest.mark.slow
@pytest.mark.parametrize("command", [["mcp"], ["install", "claude-code", "--mcp", "--dry-run"]])
@pytest.mark.parametrize("missing", ["mcp", "mcp_types"])
def test_without_the_extra_the_command_says_what_to_install(
    tmp_path: Path, missing: str, command: list[str]
) -> None:
    """Nor with the SDK's first version, which another package may have brought: it has no `mcp_types`."""
    hidden = f"import sys; sys.modules[{missing!r}] = None; from nacre.cli.main import main; "
    ended = subprocess.run(
        [sys.executable, "-c", f"{hidden} sys.exit(main({command!r}))"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    line = f"nacre: nacre mcp needs the MCP SDK; install it with: {how_to_install('mcp')}\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "", line)
