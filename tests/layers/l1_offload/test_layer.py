"""Layer 1 in a session: what the model gets, what the log keeps, what the person hears (C4 to C8)."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.layers.l1_offload.layer import GONE, Offload
from nacre.layers.l1_offload.offload import DUPLICATE, OFFLOAD, REREAD
from nacre.messages.blocks import Message, Text, ToolCall, ToolResult
from nacre.messages.events import Notice, Reply, ToolResultEvent
from nacre.messages.usage import Usage
from nacre.session.session import Base, Session
from nacre.settings import load
from nacre.store.tool_results import ToolResultStore
from nacre.testing import FrozenClock, ScriptedProvider, call, together
from nacre.tools import default_tools
from nacre.tools.base import Tool, tool
from nacre.tools.guard import PermissionQuestion
from nacre.tools.workspace import Workspace

LONG = {"command": "seq 1 5000"}
NUMBERS = "".join(f"{n}\n" for n in range(1, 5_001)).rstrip()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    lines = (f"line {n} of the file, unlike the others" for n in range(300))
    (tmp_path / "work" / "a.py").write_text("\n".join(lines) + "\n")
    return tmp_path / "work"


@asynccontextmanager
async def opened(
    work: Path,
    provider: ScriptedProvider,
    *,
    session: str = "new",
    ephemeral: bool = False,
    mode: str = "default",
    **environ: str,
) -> AsyncIterator[OpenedAgent]:
    settings = load(work, environment(work, mode, environ), cli={"model": "claude-opus-5-5"})
    async with open_agent(settings, provider=provider, session=session, ephemeral=ephemeral) as ready:
        yield ready


def environment(work: Path, mode: str, environ: Mapping[str, str]) -> dict[str, str]:
    return {
        "HOME": str(work.parent),
        "NACRE_HOME": str(work.parent / "home"),
        "PATH": os.environ["PATH"],
        "NACRE_PERMISSIONS_DEFAULT_MODE": mode,
        "NACRE_NOTES": "false",  # their forks would ask the scripted provider, too
        **environ,
    }


async def said(ready: OpenedAgent, text: str = "go") -> list[str]:
    """What the person was told in a turn."""
    return [event.text async for event in ready.agent.stream(text) if isinstance(event, Notice)]


def results(ready: OpenedAgent) -> list[str]:
    blocks = (part.block for item in ready.agent.session.view.items for part in item.parts)
    return [block.text for block in blocks if isinstance(block, ToolResult)]


def kept_files(work: Path) -> list[Path]:
    return sorted((work.parent / "home").glob("projects/*/*/tool-results/*"))


async def test_a_long_result_is_on_disk_noted_and_told_and_the_prefix_stays(work: Path) -> None:
    """C4: the prefix net watches the requests; the whole result still streams to the person."""
    provider = ScriptedProvider([call("Bash", **LONG), "done", "still here"])
    async with opened(work, provider) as ready:
        events = [event async for event in ready.agent.stream("go")]
        await said(ready, "and now?")
        (path,) = kept_files(work)
        (note,) = ready.agent.session.view.noted(OFFLOAD)
        assert note.fact("path") == str(path) and note.fact("call") == "call_1"
    assert path.read_text().rstrip() == NUMBERS
    (told,) = (event.text for event in events if isinstance(event, Notice))
    assert told == f"Bash result of 23,892 characters kept in {path}; its first 2,000 bytes are shown."
    (result,) = (event.result for event in events if isinstance(event, ToolResultEvent))
    assert result.text.rstrip() == NUMBERS
    assert b"<persisted-output>" in provider.sent[1] and b"4999" not in provider.sent[2]


async def test_a_resumed_session_sends_the_same_bytes(work: Path) -> None:
    """C6, T3: pointer, reference and changes come from the log; nothing is decided again."""
    script = [
        call("Bash", **LONG), call("Read", file_path="a.py"), call("Bash", command="sed -i '9s/.*/x/' a.py"),
        call("Read", file_path="a.py"), call("Bash", command="seq 300"), call("Bash", command="seq 1 300"),
        "done", "again",
    ]  # fmt: skip
    provider = ScriptedProvider(script)
    async with opened(work, provider, mode="bypassPermissions") as ready:
        told = await said(ready)
        before = ready.agent.session.view.messages
    assert [line.split()[0] for line in told] == ["Bash", "Read", "Bash"]
    shutil.rmtree(kept_files(work)[0].parent)  # not even the files are needed for the bytes
    async with opened(work, provider, session="latest", mode="bypassPermissions") as ready:
        view = ready.agent.session.view
        assert view.messages[: len(before)] == before
        assert [len(view.noted(kind)) for kind in (OFFLOAD, DUPLICATE, REREAD)] == [1, 1, 1]
        await said(ready, "go on")


@pytest.mark.slow
async def test_files_that_are_gone_are_told_once_at_the_tail(work: Path) -> None:
    """C8: pruned, or resumed on another machine; told to the model and to the person."""
    provider = ScriptedProvider([call("Bash", **LONG), "done", "one", "two", "three"])
    async with opened(work, provider) as ready:
        await said(ready)
    (path,) = kept_files(work)
    async with opened(work, provider, session="latest") as ready:
        assert await said(ready, "there it is") == []
    path.unlink()
    async with opened(work, provider, session="latest") as ready:
        (told,) = await said(ready, "hello")
        assert told.startswith(f"1 file of earlier tool results is gone ({path});")
        (note,) = ready.agent.session.view.noted(GONE)
        assert note.fact("calls") == ["call_1"]
    assert str(path).encode() in provider.sent[3].split(b"hello")[1]
    async with opened(work, provider, session="latest") as ready:
        assert await said(ready, "again") == []


@pytest.mark.moves_prefix(reason="old results are cleared on a cold cache")
async def test_originals_of_cleared_results_that_are_gone_are_told_too(work: Path) -> None:
    """C8, C9: a pointer is a pointer, whichever layer left it."""
    provider = ScriptedProvider(
        [*(call("Bash", command=f"seq {n} 2{n}0") for n in range(2, 5)), *["yes"] * 3]
    )
    clock, environ = FrozenClock(), {"NACRE_MICROCOMPACT_KEEP": "1"}
    settings = load(work, environment(work, "default", environ), cli={"model": "claude-opus-5"})
    async with open_agent(settings, provider=provider, clock=clock) as ready:
        await said(ready)
        clock.advance(4_000)
        assert "Cleared 2 old tool results" in (await said(ready, "hello"))[0]
    kept_files(work)[0].unlink()
    async with open_agent(settings, provider=provider, session="latest", clock=clock) as ready:
        told = [line for line in await said(ready, "again") if "gone" in line]
        assert len(told) == 1 and told[0].startswith("1 file of earlier tool results is gone")
        (note,) = ready.agent.session.view.noted(GONE)
        assert note.fact("calls") == ["call_1"]


async def test_files_that_came_along_to_another_place_are_pointed_to_there(work: Path) -> None:
    """C8: a home that is copied to another machine; what did not come along is gone."""
    provider = ScriptedProvider(
        [call("Bash", **LONG), call("Bash", command="seq 2 5000"), "done", "one", "two"]
    )
    async with opened(work, provider) as ready:
        await said(ready)
    elsewhere = work.parent / "elsewhere"
    (work.parent / "home").rename(elsewhere)
    kept, lost = sorted(elsewhere.glob("projects/*/*/tool-results/*"))
    lost.unlink()
    async with opened(work, provider, session="latest", NACRE_HOME=str(elsewhere)) as ready:
        moved, gone = await said(ready, "hello")
        assert str(kept.parent) in moved and gone.startswith("1 file of earlier tool results is gone")
        assert lost.name in gone
    assert str(kept.parent).encode() in provider.sent[3].split(b"hello")[1]
    async with opened(work, provider, session="latest", NACRE_HOME=str(elsewhere)) as ready:
        assert await said(ready, "again") == []


async def test_what_is_on_disk_is_read_back_without_a_question_and_never_offloaded_again(work: Path) -> None:
    """C8: with ranges, with grep, with cut; and only what reads is free."""
    questions: list[PermissionQuestion] = []

    async def ask(question: PermissionQuestion) -> str:
        questions.append(question)
        return "no"

    provider = ScriptedProvider([call("Bash", **LONG), "done"])
    settings = load(work, environment(work, "default", {}), cli={"model": "claude-opus-5-5"})
    async with open_agent(settings, provider=provider, ask=ask) as ready:  # type: ignore[arg-type]
        await said(ready)
        path = str(kept_files(work)[0])
        provider.script(
            together(
                call("Read", file_path=path, offset=3_000, limit=2),
                call("Grep", pattern="^4321$", path=path, output_mode="content"),
                call("Bash", command=f"cut -c 1-3 {path} | tail -n 1"),
            ),
            call("Read", file_path=path),
            call("Write", file_path=path, content="mine"),
            "done",
        )
        await said(ready, "look inside")
        _, by_range, by_grep, by_cut, whole, refused = results(ready)
    assert "3000\t3000\n3001\t3001" in by_range
    assert "4321" in by_grep and by_cut.strip() == "500"
    assert len(whole) > 8_000 and "persisted" not in whole
    assert [one.tool for one in questions] == ["Write"] and "Not allowed" in refused


async def test_a_file_deleted_while_the_session_runs_is_an_error_the_model_can_read(work: Path) -> None:
    provider = ScriptedProvider([call("Bash", **LONG), "done"])
    async with opened(work, provider) as ready:
        await said(ready)
        (path,) = kept_files(work)
        path.unlink()
        provider.script(call("Read", file_path=str(path)), "done")
        await said(ready, "read it")
        assert str(path) in results(ready)[-1]


async def test_switched_off_nothing_changes(work: Path) -> None:
    provider = ScriptedProvider([call("Bash", **LONG), call("Bash", **LONG), "done"])
    async with opened(work, provider, NACRE_OFFLOAD="0") as ready:
        assert await said(ready) == []
        assert [text.rstrip() for text in results(ready)] == [NUMBERS, NUMBERS]
    assert kept_files(work) == []


async def test_the_settings_say_how_much_is_shown(work: Path) -> None:
    provider = ScriptedProvider(
        [call("Bash", **LONG), call("Grep", pattern="line", output_mode="content"), "done"]
    )
    environ = {"NACRE_OFFLOAD_MAX_CHARS": "4000", "NACRE_OFFLOAD_PER_TOOL": '{"Bash": 30000}'}
    async with opened(work, provider, **environ) as ready:
        await said(ready)
        by_bash, by_grep = results(ready)
    assert by_bash.rstrip() == NUMBERS and by_grep.startswith("<persisted-output>")


async def test_a_session_that_leaves_nothing_on_disk_refers_but_keeps_no_file(work: Path) -> None:
    short = [call("Bash", command=command) for command in ("seq 300", "seq 1 300")]
    provider = ScriptedProvider([call("Bash", **LONG), *short, "done"])
    async with opened(work, provider, ephemeral=True) as ready:
        await said(ready)
        long, _, second = results(ready)
    assert long.rstrip() == NUMBERS and second.startswith("[The same")
    assert not (work.parent / "home").exists() or kept_files(work) == []


async def test_without_a_tool_to_read_files_long_results_stay_in_the_conversation(work: Path) -> None:
    """C4: a pointer to what nobody can open would lose the result; with Read beside it, it is one."""

    @tool(read_only=True)
    async def build_log() -> str:
        """All of a log."""
        return NUMBERS

    workspace = Workspace(work)
    reader = next(one for one in default_tools(workspace) if one.name == "Read")
    settings = load(work, environment(work, "default", {}), cli={"model": "claude-opus-5-5"})
    found = []
    for tools in ([build_log], [build_log, reader]):
        provider = ScriptedProvider([call("build_log"), "done"])
        async with open_agent(settings, provider=provider, tools=tools) as ready:
            await said(ready)
            found += results(ready)
    await workspace.close()
    assert found[0] == NUMBERS and found[1].startswith("<persisted-output>")
    assert len(kept_files(work)) == 1


async def test_tools_of_ones_own_beside_the_usual_ones_are_read_back_without_a_question(work: Path) -> None:
    """C4: what such a tool answered is in a file that the usual Read may open, behind the usual guard."""

    @tool(read_only=True)
    async def build_log() -> str:
        """All of a log."""
        return NUMBERS

    async def ask(question: PermissionQuestion) -> None:
        pytest.fail(f"asked about {question.reason}")

    def beside(usual: list[Tool]) -> list[Tool]:
        return [*usual, build_log]

    settings = load(work, environment(work, "default", {}), cli={"model": "claude-opus-5-5"})
    provider = ScriptedProvider([call("build_log"), "noted"])
    async with open_agent(settings, provider=provider, tools=beside, ask=ask) as ready:  # type: ignore[arg-type]
        assert {"Read", "Bash", "build_log"} <= {
            str(shape["name"]) for shape in ready.agent.session.base.tools
        }
        await said(ready)
        (path,) = kept_files(work)
        provider.script(call("Read", file_path=str(path), offset=4_000, limit=2), "done")
        await said(ready, "what is on line 4,000?")
        assert "4000" in results(ready)[-1]


async def test_a_disk_that_refuses_is_told_once_and_the_results_stay(work: Path) -> None:
    """C7."""
    provider = ScriptedProvider([call("Bash", **LONG), call("Bash", command="seq 2 5000"), "done"])
    async with opened(work, provider) as ready:
        folder = next((work.parent / "home" / "projects").glob("*/*.jsonl")).with_suffix("")
        folder.mkdir(exist_ok=True)
        (folder / "tool-results").write_text("in the way")
        (told,) = await said(ready)
        assert told.startswith("Long results stay in the conversation") and "tool-results" in told
        assert all(len(text) > 20_000 for text in results(ready))


async def test_a_round_that_is_cut_short_is_kept_small_too(work: Path) -> None:
    """Q2, C6: what was done to it is in the log at once, for the process may end here."""
    provider = ScriptedProvider([together(call("Bash", **LONG), call("Bash", command="sleep 1000")), "on"])
    async with opened(work, provider) as ready:
        async with aclosing(ready.agent.stream("go")) as events:
            async for event in events:
                if isinstance(event, ToolResultEvent):
                    break
        first, second = results(ready)
        assert first.startswith("<persisted-output>") and "nterrupted" in second
        assert len(ready.agent.session.view.noted(OFFLOAD)) == 1
        (told,) = await said(ready, "go on")
        assert told.startswith("Bash result of") and len(ready.agent.session.view.noted(OFFLOAD)) == 1


async def test_people_with_a_loop_of_their_own_get_it_too(tmp_path: Path) -> None:
    """Q4: a layer on a bare session, results one by one."""
    session = Session(Base("claude-opus-5-5", "", []), clock=FrozenClock())
    offloader = Offload(ToolResultStore(tmp_path, sync=False))
    session.add_layers(offloader)
    await session.add_user("go")
    reply = Message("assistant", (ToolCall("a", "Bash", {}), ToolCall("b", "Bash", {})))
    await session.record(
        Reply(message=reply, id="m", model="claude-opus-5-5", usage=Usage(), stop_reason="tool_use")
    )
    await session.add_results([ToolResult("a", (Text("x" * 9_000),))])
    await session.add_results([ToolResult("b", (Text("short"),))])
    assert (tmp_path / "a.txt").read_text() == "x" * 9_000
    assert [line.text for line in session.notices()] == [
        f"Bash result of 9,000 characters kept in {tmp_path / 'a.txt'}; its first 2,000 bytes are shown."
    ]
