"""`nacre init`: from a pipe, on a terminal, repeated, skipped and undone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import ended, world
from tests.tui.test_in_a_terminal import screen


def run(cwd: Path, *args: str, given: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nacre", "init", *args]
    return ended(command, cwd, world(cwd, PATH="/usr/bin:/bin", **environ), given=given)


def files(folder: Path) -> dict[str, bytes]:
    caches = {"cache"}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not caches & {*path.relative_to(folder).parts}
    }


def test_nothing_is_written_where_every_question_is_skipped(tmp_path: Path) -> None:
    # With a shell that could get completion: the end of the input is no consent.
    for given, shell in (("", "/bin/bash"), ("\n", "/bin/bash"), ("\n" * 9, "")):
        done = run(tmp_path, given=given, SHELL=shell)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("Nothing was changed.\nStart a chat with: nacre\n")
    assert files(tmp_path) == {}


def test_answers_are_written_take_effect_and_are_undone_to_the_byte(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    before = '{\n    "permissions": {"allow": ["Read"]},   "maxTurns": 7\n}'
    (home / "settings.json").write_text(before)
    (tmp_path / ".bashrc").write_text("alias l=ls")
    start = files(tmp_path)
    answers = "1\nsk-ant-test\n\n2\ny\n"  # provider, key, model, memory, completion
    done = run(tmp_path, "--no-check", given=answers, SHELL="/bin/bash")
    assert (done.returncode, done.stderr) == (0, "")
    assert "sk-ant-test" not in done.stdout
    settings = json.loads((home / "settings.json").read_text())
    assert settings["env"] == {"ANTHROPIC_API_KEY": "sk-ant-test"}
    assert (settings["model"], settings["extract"]) == ("claude-sonnet-5-5", {"mode": "suggest"})
    assert settings["maxTurns"] == 7
    command = [sys.executable, "-m", "nacre", "doctor"]
    told = ended(command, tmp_path, world(tmp_path)).stdout
    assert "claude-sonnet-5-5 through anthropic" in told
    again = run(tmp_path, "--no-check", given="\n\n\n\n", SHELL="/bin/bash")
    assert "Nothing was changed." in again.stdout
    undone = run(tmp_path, "--undo")
    assert undone.stdout.count("as it was before") == 2
    assert files(tmp_path) == start
    assert "nothing of `nacre init`" in run(tmp_path, "--undo").stdout


def test_what_was_changed_since_stays_when_it_is_undone(tmp_path: Path) -> None:
    run(tmp_path, "--no-check", given="4\nollama:qwen3\n3\ny\n", SHELL="/bin/zsh")
    path = tmp_path / "home" / "settings.json"
    settings = json.loads(path.read_text())
    assert settings == {"model": "ollama:qwen3", "autoMemoryEnabled": False}
    path.write_text(json.dumps({**settings, "model": "haiku", "maxTurns": 3}))
    with (tmp_path / ".zshrc").open("a") as file:
        file.write("alias l=ls\n")
    done = run(tmp_path, "--undo")
    assert done.stdout.count("changed since; only what was written is taken out") == 2
    assert json.loads(path.read_text()) == {"model": "haiku", "maxTurns": 3}
    assert (tmp_path / ".zshrc").read_text() == "alias l=ls\n"
    assert not (tmp_path / "home" / "completion" / "nacre.zsh").exists()


def test_memory_that_was_switched_off_is_switched_on_again(tmp_path: Path) -> None:
    run(tmp_path, given="\n3\n")
    run(tmp_path, given="\n1\n")
    settings = json.loads((tmp_path / "home" / "settings.json").read_text())
    assert "autoMemoryEnabled" not in settings


@pytest.mark.parametrize("keeps", [False, True])
def test_a_key_that_no_server_accepts_is_kept_only_on_request(tmp_path: Path, keeps: bool) -> None:
    answers = f"1\nsk-ant-test\n\ny\n{'y' if keeps else 'n'}\n"
    done = run(tmp_path, given=answers, ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    assert done.returncode == 0
    assert done.stderr.startswith("nacre: cannot reach") and done.stderr.count("\n") == 1
    assert (tmp_path / "home" / "settings.json").exists() == keeps


def test_bad_files_and_answers_are_one_line(tmp_path: Path) -> None:
    done = run(tmp_path, given="9\nx\n\n")
    assert done.stderr == "nacre: type a number from 1 to 5\n" * 2
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "settings.json").write_text("{")
    done = run(tmp_path)
    assert done.returncode == 3 and done.stderr.count("\n") == 1
    (tmp_path / "home" / "settings.json").unlink()
    (tmp_path / "home" / "cache").mkdir()
    (tmp_path / "home" / "cache" / "init.json").write_text("[]")
    done = run(tmp_path, "--undo")
    assert done.returncode == 3 and "remove it, and undo by hand" in done.stderr


def test_claude_code_is_offered_where_it_is(tmp_path: Path) -> None:
    client = tmp_path / ".claude"
    client.mkdir()
    (client / "settings.json").write_text('{"model": "opus"}')
    done = run(tmp_path, given="\n\ny\n")
    assert "Claude Code is here" in done.stdout
    assert "hook SessionStart" in (client / "settings.json").read_text()
    run(tmp_path, "--undo")
    assert (client / "settings.json").read_text() == '{"model": "opus"}'


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands(tmp_path: Path, shell: str) -> None:
    """The script that is installed, in the shell itself where the machine has it."""
    run(tmp_path, given="\n\ny\n", SHELL=f"/bin/{shell}", XDG_CONFIG_HOME=str(tmp_path / "config"))
    written = {
        "bash": tmp_path / ".bashrc",
        "zsh": tmp_path / ".zshrc",
        "fish": tmp_path / "config/fish/completions/nacre.fish",
    }[shell]
    assert written.exists()
    if shutil.which(shell) is None:
        return
    program = tmp_path / "bin" / "nacre"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m nacre "$@"\n')
    program.chmod(0o755)
    scripts = {
        "bash": f". {written}; COMP_WORDS=(nacre mem); COMP_CWORD=1; _nacre_completion nacre mem nacre; "
        'echo "${COMPREPLY[@]}"',
        "zsh": f". {written}; echo $_comps[nacre]",
        "fish": f"source {written}; complete -C 'nacre mem'",
    }
    env = world(tmp_path, PATH=f"{program.parent}:/usr/bin:/bin")
    done = subprocess.run([shell, "-c", scripts[shell]], env=env, capture_output=True, text=True, check=False)
    assert {"bash": "memory", "zsh": "_nacre_completion", "fish": "memory"}[shell] in done.stdout, done


@pytest.mark.slow
def test_on_a_terminal_the_key_is_not_shown(tmp_path: Path) -> None:
    with screen(tmp_path, "-m", "nacre", "init", "--no-check") as person:
        person.see(b"number [5]: ")
        person.type(b"1\r")
        person.see(b"API key")
        person.type(b"sk-ant-secret\r")
        person.see(b"model [claude-sonnet-5-5]: ")
        person.type(b"\r")
        person.see(b"number [1]: ")
        person.type(b"\x03")
        person.see(b"stopped; what you answered so far is kept")
        assert person.ends() == 0
    assert b"sk-ant-secret" not in person.written
    assert b"Traceback" not in person.written
