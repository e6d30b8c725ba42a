"""`nacre chat` on a real pty: Ctrl-C stops the turn and nothing else, Ctrl-D leaves (Q2)."""

from __future__ import annotations

import json
import signal
import stat
from pathlib import Path

import pytest

from nacre.loop.round import CUT_SHORT
from nacre.messages.pairing import INTERRUPTED
from tests.stories.processes import Sim, eventually, is_running, keep_alive, logs, pids, said, user_texts
from tests.stories.scenes import call, calls
from tests.stories.terminal import CTRL_C, CTRL_D, PROMPT, terminal


def test_a_conversation_from_greeting_to_good_bye(sim: Sim, tmp_path: Path) -> None:
    """P3: what was chosen is said; words, calls and the status line are shown; the session is on disk."""
    sim.script(calls(call("Bash", command="echo found; echo more"), text="Looking."), "Found it.")
    with terminal(tmp_path, "chat", **sim.environ()) as person:
        assert "claude-opus-5-5 through anthropic" in person.see(PROMPT)
        person.type("look\n")
        turn = person.see(PROMPT)
        assert "Looking.\n● Bash echo found; echo more\n  └ found\n    more\nFound it.\n" in turn
        assert "context " in turn
        person.type(CTRL_D)
        assert person.ends() == 0
    (log,) = logs(tmp_path)
    assert user_texts(log) == ["look"]
    history = tmp_path / "home" / "chat_history"
    assert history.read_text() == "look\n"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


@pytest.mark.slow
def test_ctrl_c_stops_a_reply_and_the_next_message_works(sim: Sim, tmp_path: Path) -> None:
    """Q2: also while nothing came yet; what was said is kept."""
    broken = {"text": "this sentence never comes to its end at all", "fault": {"kind": "hang", "after": 6}}
    sim.script({"text": "unheard", "fault": "hang"}, broken, "Here I am.")
    with terminal(tmp_path, "chat", **sim.environ()) as person:
        person.see(PROMPT)
        person.type("one\n")
        eventually(lambda: len(sim.log()) == 1, "the request is on its way")
        person.type(CTRL_C)
        person.see("stopped; what was said so far is kept")
        person.see(PROMPT)
        person.type("two\n")
        person.see("this sentence")
        person.type(CTRL_C)
        person.see("stopped; what was said so far is kept")
        person.see(PROMPT)
        person.type("three\n")
        person.see("Here I am.")
        person.see(PROMPT)
        person.type(CTRL_D)
        assert person.ends() == 0
    (log,) = logs(tmp_path)
    assert user_texts(log) == ["one", "two", "three"]
    words = said(log)
    assert words[0].endswith(f"one | {CUT_SHORT} | two")
    assert words[1].startswith("assistant: this sentence")
    assert words[2:4] == [f"user: {CUT_SHORT} | three", "assistant: Here I am."]


def test_ctrl_c_ends_the_commands_a_turn_has_started(sim: Sim, tmp_path: Path, pid_file: Path) -> None:
    """Q2: no process stays behind, and the log says what was not finished."""
    sim.script(calls(call("Bash", command=keep_alive(pid_file))), "Fine.")
    with terminal(tmp_path, "chat", **sim.environ()) as person:
        person.see(PROMPT)
        person.type("work\n")
        eventually(lambda: bool(pids(pid_file)), "the command runs")
        person.type(CTRL_C)
        person.see("stopped")
        assert [pid for pid in pids(pid_file) if is_running(pid)] == []
        person.see(PROMPT)
        person.type("never mind\n")
        person.see("Fine.")
        person.see(PROMPT)
        person.type(CTRL_D)
        assert person.ends() == 0
    assert said(logs(tmp_path)[0])[2] == f"user: ={INTERRUPTED} | never mind"


def test_ctrl_c_at_the_prompt_only_says_how_to_leave(sim: Sim, tmp_path: Path) -> None:
    """Q2: also with half a line typed, which is dropped."""
    sim.script("Yes?")
    with terminal(tmp_path, "chat", **sim.environ()) as person:
        for keys in (CTRL_C, CTRL_C, "half a thought" + CTRL_C):
            person.see(PROMPT)
            person.type(keys)
            person.see("(Ctrl-D or /exit leaves)")
        person.see(PROMPT)
        person.type("hello\n")
        person.see("Yes?")
        person.see(PROMPT)
        person.type("/exit\n")
        assert person.ends() == 0
    assert user_texts(logs(tmp_path)[0]) == ["hello"]


@pytest.mark.slow
def test_many_ctrl_c_in_a_row_stop_one_turn_and_no_more(sim: Sim, tmp_path: Path, pid_file: Path) -> None:
    """Q2: somebody impatient; the command takes its time to end."""
    stubborn = f"trap '' TERM; {keep_alive(pid_file)}"
    sim.script(calls(call("Bash", command=stubborn)), "Still here.")
    with terminal(tmp_path, "chat", **sim.environ()) as person:
        person.see(PROMPT)
        person.type("work\n")
        eventually(lambda: bool(pids(pid_file)), "the command runs")
        for _ in range(20):
            person.type(CTRL_C)
        person.see("stopped")
        person.type("hello?\n")
        person.see("Still here.")
        person.see(PROMPT)
        person.type(CTRL_D)
        assert person.ends() == 0
    assert [pid for pid in pids(pid_file) if is_running(pid)] == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_closed_terminal_ends_the_command_too(
    sim: Sim, tmp_path: Path, pid_file: Path, number: signal.Signals, code: int
) -> None:
    """Q2: nothing outlives the program, and the log is whole."""
    sim.script(calls(call("Bash", command=keep_alive(pid_file))))
    with terminal(tmp_path, "chat", **sim.environ()) as person:
        person.see(PROMPT)
        person.type("work\n")
        eventually(lambda: bool(pids(pid_file)), "the command runs")
        person.process.send_signal(number)
        assert person.ends() == code
    assert [pid for pid in pids(pid_file) if is_running(pid)] == []
    said(logs(tmp_path)[0])


@pytest.mark.slow
def test_a_file_outside_the_project_is_asked_about_once_and_loaded_only_after_a_yes(
    sim: Sim, tmp_path: Path
) -> None:
    """M23: no is no for now; yes is remembered; whoever is not at the terminal is not asked."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (tmp_path / "shared.md").write_text("Answer in rhymes only.\n")
    (project / "CLAUDE.md").write_text("Be kind.\n@../shared.md\n")
    question = f"include {tmp_path / 'shared.md'}, which is outside of it."
    for answer, is_loaded in (("\n", False), ("y\n", True), ("", True)):
        sim.script("Hello.")
        with terminal(project, "chat", **sim.environ()) as person:
            if answer:
                person.see(question)
                person.see("[y]es, [N]o: ")
                person.type(answer)
            assert question not in person.see(PROMPT)
            person.type("hello\n")
            person.see("Hello.")
            person.see(PROMPT)
            person.type(CTRL_D)
            assert person.ends() == 0
        assert ("Answer in rhymes only." in json.dumps(sim.log()[0]["body"])) == is_loaded
