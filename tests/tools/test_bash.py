"""Bash against real processes: whatever a command does, it ends, stays small and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from nacre import process
from nacre.errors import ToolError
from nacre.messages.blocks import ToolResult
from nacre.process import ProcessOutput
from nacre.tools.bash import BashSettings, bash_tool
from nacre.tools.workspace import Workspace


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(tmp_path)


async def run(workspace: Workspace, command: str, settings: BashSettings | None = None, **arguments):
    answer = await bash_tool(workspace, settings).call({"command": command, **arguments})
    assert isinstance(answer, ToolResult)
    return answer


def running_with(mark: str) -> list[int]:
    """Living processes (zombies do not count) whose environment or command line carries the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                said = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if mark.encode() in said and state != "Z":
                found.append(int(entry.name))
    return found


async def gone(mark: str) -> bool:
    """Whether every marked process is gone; SIGKILL takes a moment to be carried out."""
    for _ in range(100):
        if not running_with(mark):
            return True
        await asyncio.sleep(0.02)
    return False


async def appears(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(0.01)


async def test_output_and_errors_come_in_the_order_they_were_printed(workspace):
    result = await run(workspace, "echo one; echo two >&2; echo three")
    assert (result.text, result.is_error) == ("one\ntwo\nthree", False)


async def test_a_failure_shows_its_exit_code_first(workspace):
    result = await run(workspace, "echo oh no; exit 3")
    assert (result.text, result.is_error) == ("Exit code 3\noh no", True)


async def test_silence_is_said(workspace):
    assert (await run(workspace, "true")).text == "(no output)"


async def test_a_syntax_error_is_an_answer(workspace):
    result = await run(workspace, "if true; then")
    assert result.is_error
    assert "syntax error" in result.text


async def test_there_is_no_standard_input(workspace):
    assert (await run(workspace, "cat; echo read")).text == "read"


async def test_the_working_directory_carries_over_and_variables_do_not(workspace, tmp_path):
    await run(workspace, "mkdir 'a b' && cd 'a b' && X=1")
    assert (await run(workspace, "pwd; echo ${X-unset}")).text == f"{tmp_path}/a b\nunset"
    await run(workspace, "cd ..; exit 4")
    assert workspace.cwd == tmp_path
    await run(workspace, "(cd 'a b')")
    assert workspace.cwd == tmp_path


async def test_a_lost_working_directory_falls_back_to_the_root_and_says_so(workspace, tmp_path):
    await run(workspace, "mkdir gone && cd gone")
    (tmp_path / "gone").rmdir()
    result = await run(workspace, "pwd")
    assert (
        result.text == f"[The working directory {tmp_path}/gone is gone; this ran in {tmp_path}.]\n{tmp_path}"
    )


async def test_a_directory_with_a_newline_in_its_name_is_followed(workspace, tmp_path):
    await run(workspace, "mkdir $'a\\nb' && cd $'a\\nb'")
    assert workspace.cwd == tmp_path / "a\nb"


async def test_a_long_output_is_cut_after_its_head_and_says_how_much_is_missing(workspace):
    result = await run(workspace, "printf '%040000d' 7; printf '%05d' 5")
    assert result.text == "0" * 30_000 + (
        "\n[10,005 more characters left out; use head, tail, grep or a file to see them.]"
    )


async def test_a_failed_command_shows_head_and_tail(workspace):
    result = await run(workspace, "echo first; printf '%020000d' 7; echo; echo last; exit 1")
    assert result.text.startswith("Exit code 1\nfirst\n0000")
    assert result.text.endswith("0007\nlast")
    assert "\n[10,012 characters left out]\n" in result.text
    assert len(result.text) < 10_100


async def test_an_endless_output_is_stopped_and_never_held(workspace):
    """Bad input: a tool that prints without end."""
    settings = BashSettings(max_bytes=8 * 1024 * 1024)
    result = await run(workspace, "MARK=flood-7731 exec yes", settings)
    assert result.is_error
    assert result.text.startswith(
        "Stopped: it printed more than 8,388,608 bytes; send its output to a file.\n"
        "y\n(repeated 2,499 more times)\n"
    )
    assert len(result.text) < 11_000
    assert await gone("flood-7731")


async def test_characters_survive_being_split_over_two_chunks(workspace):
    result = await run(
        workspace, r"printf '\xe7\x8f'; sleep 0.1; printf '\x8d\xe7'; sleep 0.1; printf '\x8f\xa0'"
    )
    assert result.text == "珍珠"


async def test_bytes_that_are_no_text_are_replaced(workspace):
    assert (await run(workspace, r"printf 'a\xff\0b'")).text == "a�\0b"


@pytest.mark.slow
async def test_a_timeout_ends_a_child_that_ignores_sigterm(workspace, monkeypatch):
    """Bad input: a tool that never ends."""
    monkeypatch.setattr(process, "TERM_SECONDS", 0.2)
    result = await run(
        workspace,
        "export MARK=stubborn-4412; echo begun; trap '' TERM; (while true; do sleep 1; done) & wait",
        timeout=1_000,
    )
    assert result.is_error
    assert result.text == (
        "Stopped after 1 s with all its processes; set timeout for longer commands.\nbegun"
    )
    assert await gone("stubborn-4412")


@pytest.mark.slow
async def test_a_process_gets_time_to_tidy_up_before_it_is_killed(workspace, tmp_path):
    await run(workspace, "trap 'echo tidy > tidied; exit' TERM; sleep 60 & wait", timeout=1_000)
    assert (tmp_path / "tidied").read_text() == "tidy\n"


async def test_cancelling_ends_the_whole_group(workspace, tmp_path, monkeypatch):
    """Q2: no orphan after a cancel, not even a background child that ignores SIGTERM."""
    monkeypatch.setattr(process, "TERM_SECONDS", 0.2)
    command = "export MARK=cancel-9905; (trap '' TERM; touch up; sleep 60; sleep 60) >/dev/null & sleep 60"
    caller = asyncio.create_task(run(workspace, command))
    await appears(tmp_path / "up")
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert await gone("cancel-9905")


async def test_a_second_cancel_kills_at_once(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "TERM_SECONDS", 60.0)
    caller = asyncio.create_task(
        run(workspace, "export MARK=hurry-1188; trap '' TERM; touch up; while true; do sleep 1; done")
    )
    await appears(tmp_path / "up")
    caller.cancel()
    await asyncio.sleep(0.1)
    assert not caller.done()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert await gone("hurry-1188")


async def test_cancelling_right_at_the_start_leaves_nothing(workspace):
    for pauses in range(12):
        caller = asyncio.create_task(run(workspace, "MARK=early-3307 exec sleep 60"))
        for _ in range(pauses):
            await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
    assert await gone("early-3307")


async def test_a_background_child_that_holds_the_output_does_not_hold_the_call(workspace):
    result = await run(workspace, "export MARK=holder-5120; sleep 60 & echo done")
    assert (result.is_error, result.text) == (
        False,
        "done\n[Processes it left in the background still held its output and were ended; "
        "to keep one running, send its output to a file.]",
    )
    assert await gone("holder-5120")


async def test_a_background_child_with_its_own_output_lives_until_the_session_closes(workspace):
    result = await run(workspace, "export MARK=server-2046; sleep 60 >log 2>&1 & echo started")
    assert result.text == "started\n[A process it started goes on in the background.]"
    assert len(running_with("server-2046")) == 1
    await workspace.close()
    assert await gone("server-2046")


async def test_no_file_descriptors_leak(workspace):
    await run(workspace, "true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for command in ("true", "exit 1", "sleep 60 & true", "cd /"):
        await run(workspace, command)
    with pytest.raises(ToolError):
        await run(workspace, "x" * 3_000_000)
    await asyncio.sleep(0)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


@pytest.mark.parametrize("command", ["echo \0", "x" * 3_000_000], ids=["zero byte", "too long"])
async def test_a_command_that_cannot_be_started_gives_one_line(workspace, command):
    with pytest.raises(ToolError, match="The command could not be started") as caught:
        await run(workspace, command)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("timeout", [0, -5])
async def test_a_timeout_must_be_positive(workspace, timeout):
    with pytest.raises(ToolError, match="timeout must be a positive number"):
        await run(workspace, "true", timeout=timeout)


async def test_a_missing_bash_is_said(workspace, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match="no bash on PATH"):
        await run(workspace, "true")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096])
def test_head_and_tail_are_the_same_however_the_bytes_arrive(size):
    text = "".join(f"línea {number} 珍珠\n" for number in range(50))
    output = ProcessOutput(head=37, tail=23)
    data = text.encode()
    for start in range(0, len(data), size):
        output.feed(data[start : start + size])
    output.feed(b"")
    assert (output.head, output.tail, output.characters, output.lines) == (
        text[:37],
        text[-23:],
        len(text),
        50,
    )


async def test_git_starts_no_program_that_a_folder_brought_along(tmp_path: Path) -> None:
    """A repository hidden in a folder must not run anything when somebody only asks for its status."""
    hidden = tmp_path / "evil"
    subprocess.run(["git", "init", "--bare", "-q", str(hidden)], check=True)
    (hidden / "config").write_text(
        '[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\nfsmonitor = "touch ran; false"\n'
    )
    tool = bash_tool(Workspace(tmp_path))
    await tool.call({"command": "cd evil && git status"})
    assert not (tmp_path / "ran").exists()
    assert not (hidden / "ran").exists()


async def test_git_starts_no_monitor_that_a_folder_names(workspace, tmp_path):
    """E5: `git status` counts as reading, so a folder somebody else filled must not make it run anything."""
    marker = tmp_path / "ran"
    subprocess.run(["git", "init", "-q", str(workspace.root)], check=True)
    subprocess.run(
        ["git", "-C", str(workspace.root), "config", "core.fsmonitor", f"touch {marker}; false"], check=True
    )
    await bash_tool(workspace).call({"command": "git status"})
    assert not marker.exists()
