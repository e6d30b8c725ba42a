"""The frame of the command line: exit codes, one-line errors, options, and what a closed pipe does."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from nacre import __version__
from nacre.cli import main
from nacre.cli.main import COMMANDS
from nacre.cli.options import RunOptions
from tests.cli.program import DRIVER, nacre, started, with_extra_commands, world

IN_A_GONE_DIRECTORY = """
import os, sys
os.chdir(sys.argv[1])
os.rmdir(sys.argv[1])
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ("well", 0, ""),
        ("no", 1, ""),
        ("exit", 1, ""),
        ("config", 3, "nacre: the file is odd; mend it\n"),
        ("provider", 4, "nacre: busy; try later\n"),
        ("overflow", 1, "nacre: too big\n"),
        (
            "bug",
            1,
            "nacre: unexpected ZeroDivisionError: split by zero; run with --debug to see where\n",
        ),
        (
            "pipe",
            1,
            "nacre: unexpected BrokenPipeError: [Errno 32] Broken pipe; run with --debug to see where\n",
        ),
        ("interrupt", 130, ""),
    ],
)
@pytest.mark.parametrize("place", [["ends"], ["deep", "ends"]])
def test_every_ending_has_its_exit_code_and_at_most_one_line(
    tmp_path: Path, place: list[str], how: str, code: int, says: str
) -> None:
    ended = with_extra_commands(tmp_path, *place, how)
    assert (ended.returncode, ended.stderr) == (code, says)


@pytest.mark.parametrize(
    "args",
    [
        ["--debug", "ends", "bug"],
        ["ends", "--debug", "bug"],
        ["deep", "ends", "bug", "--debug"],
    ],
)
def test_a_traceback_is_shown_only_with_debug_wherever_it_stands(tmp_path: Path, args: list[str]) -> None:
    ended = with_extra_commands(tmp_path, *args)
    assert ended.stderr.startswith("Traceback")
    assert ended.stderr.endswith("nacre: unexpected ZeroDivisionError: split by zero\n")
    assert ended.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["dotor"], "no command 'dotor'; did you mean `nacre doctor`? (see `nacre --help`)"),
        (["why"], "no command 'why'; did you mean `nacre memory why`? (see `nacre --help`)"),
        (["xyzzy"], "no command 'xyzzy' (see `nacre --help`)"),
        (
            ["-p", "--model", "x", "Hello?"],
            "-p takes the prompt next, not --model: nacre -p TEXT --model … (see `nacre --help`)",
        ),
        (
            ["-p", "--continue"],
            "-p takes the prompt next, not --continue: nacre -p TEXT --continue … (see `nacre --help`)",
        ),
        (["--modell", "x"], "No such option '--modell'. Did you mean '--model'? (see `nacre --help`)"),
        (["doctor", "--jsn"], "No such option '--jsn'. Did you mean '--json'? (see `nacre doctor --help`)"),
        (["-p"], "Option '-p' requires an argument (see `nacre --help`)"),
        (["-p", "  "], "-p needs a prompt (see `nacre --help`)"),
        (["-p", ""], "-p needs a prompt (see `nacre --help`)"),
        (
            ["-p", "hi", "doctor"],
            "-p cannot precede 'doctor'; use only one of them (see `nacre --help`)",
        ),
        (["--output-format", "json"], "--output-format requires -p; add -p TEXT (see `nacre --help`)"),
        (
            ["--continue", "--resume", "x"],
            "--continue and --resume exclude each other; use only one of them (see `nacre --help`)",
        ),
        (["--resume", ""], "--resume needs an id; `nacre sessions list` shows them (see `nacre --help`)"),
        (
            ["chat", "--resume", " "],
            "--resume needs an id; `nacre sessions list` shows them (see `nacre chat --help`)",
        ),
        (
            ["--max-turns", "0"],
            "Invalid value for '--max-turns': 0 is not in the range x>=1 (see `nacre --help`)",
        ),
    ],
)
def test_a_usage_error_is_one_line_and_exit_2(tmp_path: Path, args: list[str], says: str) -> None:
    ended = nacre(tmp_path, *args)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"nacre: {says}\n")


@pytest.mark.parametrize("group", ["memory", "sessions", "instructions"])
def test_a_group_without_its_command_shows_its_help_line_by_line(tmp_path: Path, group: str) -> None:
    ended = nacre(tmp_path, group)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"Usage: nacre {group} ") and "\nCommands:\n" in ended.stderr


def test_a_settings_file_that_is_not_json_is_exit_3_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/settings.json").write_text('{"model": \n oops}')
    ended = nacre(tmp_path, "context", "latest")
    place = f"{tmp_path}/home/settings.json:2:2"
    assert ended.returncode == 3
    assert ended.stderr == f"nacre: {place}: not valid JSON (Expecting value); correct it there\n"


def test_the_help_lists_every_command_and_imports_none(tmp_path: Path) -> None:
    ended = nacre(tmp_path, "--help")
    assert ended.returncode == 0
    for name, entry in COMMANDS.items():
        assert f"  {name} " in ended.stdout and entry.summary in ended.stdout
    assert nacre(tmp_path, "-h").stdout == ended.stdout


@pytest.mark.parametrize("args", [["--version"], ["--debug", "--version"]])
def test_the_version_is_the_same_on_the_fast_and_the_slow_path(tmp_path: Path, args: list[str]) -> None:
    assert nacre(tmp_path, *args).stdout == f"nacre {__version__}\n"


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "args", [["-c", DRIVER, "ends", "much"], ["-m", "nacre", "--help"], ["-m", "nacre", "--version"]]
)
def test_a_reader_that_had_enough_ends_the_program_quietly(
    tmp_path: Path, args: list[str], unbuffered: str
) -> None:
    with_extra_commands(tmp_path, "ends", "well")  # writes the module
    environ = world(tmp_path, PYTHONPATH=str(tmp_path), PYTHONUNBUFFERED=unbuffered)
    with subprocess.Popen(
        [sys.executable, *args], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait(timeout=60)) == (b"", 0)


def test_a_module_in_the_working_directory_is_not_imported(tmp_path: Path) -> None:
    for name in ("click", "json", "pathlib", "textual", "anyio"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')")
    done = subprocess.run(
        [sys.executable, "-m", "nacre", "-p", "hi"],
        cwd=tmp_path,
        env=world(tmp_path),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert not (tmp_path / "canary").exists()


def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "nacre", "--version"],
            env=world(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    says = "the output cannot be written (No space left on device); free some space or send it elsewhere"
    assert (ended.returncode, ended.stderr) == (1, f"nacre: {says}\n")


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (
            errno.EROFS,
            "no permission for /data/x; check its owner, its mode and whether the disk is read-only",
        ),
        (errno.ENOSPC, "disk full: /data/x is as it was before; free some space and try again"),
        (errno.EIO, "/data/x: Input/output error"),
    ],
)
def test_an_error_of_the_disk_is_explained(
    number: int, says: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(context: object) -> None:
        raise OSError(number, os.strerror(number), "/data/x")

    monkeypatch.setattr(main.nacre, "invoke", fail)
    assert main.main(["doctor"]) == 1
    assert capfd.readouterr().err == f"nacre: {says}\n"


@pytest.mark.slow
@pytest.mark.parametrize("args", [["-p", "hi"], ["sessions", "list"], ["doctor"], ["install", "claude-code"]])
def test_a_directory_that_is_gone_is_said_in_one_line(args: list[str], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = ["-m", "nacre", *args]
    done = started(tmp_path, "-c", IN_A_GONE_DIRECTORY, str(gone), *command)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "nacre: the directory you are in is gone; change to one that is there and try again\n"
    )


def test_a_home_that_cannot_be_made_says_what_to_look_at(tmp_path: Path) -> None:
    if not Path("/proc/self").exists():
        pytest.skip("this system has no /proc, where nobody makes a folder")
    done = nacre(tmp_path, "-p", "hi", NACRE_HOME="/proc/nacre-home")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("nacre: /proc/nacre-home")
    assert done.stderr.endswith("cannot be created; check the path, and NACRE_HOME if it is below that\n")


def test_what_is_piped_has_no_colour(tmp_path: Path) -> None:
    assert with_extra_commands(tmp_path, "ends", "colour").stdout == "red\n"


def test_a_subcommand_s_options_go_on_top_of_the_program_s() -> None:
    before = RunOptions(model="a", debug=True, continue_=True)
    after = before.updated(model=None, continue_=False, max_turns=3, resume="id", unknown="x")
    assert after == RunOptions(model="a", debug=True, continue_=True, max_turns=3, resume="id")
    assert {field.name for field in fields(RunOptions)} == {
        "prompt", "output_format", "continue_", "resume", "no_memory", "bare", "incognito", "model",
        "max_turns", "debug", "line", "sandbox", "thinking", "image", "screen_reader", "server",
    }  # fmt: skip


def test_options_become_the_command_line_s_layer_of_settings() -> None:
    options = RunOptions(model="m", max_turns=7, no_memory=True, bare=True)
    assert options.as_settings() == {"model": "m", "maxTurns": 7, "simple": True, "disableAutoMemory": True}
    assert RunOptions().as_settings() == {}
