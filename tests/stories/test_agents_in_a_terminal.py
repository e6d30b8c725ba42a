"""Agents as a person at the terminal sees them: what they do, that they ended, how to end them (A7, Q2)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.messages.blocks import JsonObject
from tests.cli.program import nacre
from tests.stories.processes import Sim, begun, eventually, is_running, keep_alive, pids, until
from tests.stories.scenes import call, calls
from tests.stories.terminal import CTRL_C, CTRL_D, PROMPT, Terminal, terminal

WAIT = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)\n"
COLOUR = {"NO_COLOR": ""}


def agent(prompt: str, **more: str | bool) -> JsonObject:
    return {"name": "Agent", "input": {"description": "look at the loom", "prompt": prompt, **more}}


def waits_for(cwd: Path, name: str) -> JsonObject:
    """A command that ends once there is a file of this name."""
    (cwd / "wait.py").write_text(WAIT)
    return call("Bash", command=f"python3 wait.py {name}")


def started_in_background(sim: Sim, cwd: Path, person: Terminal) -> None:
    """An agent that waits for the file `woven`, and a turn that has ended meanwhile."""
    sim.script(
        calls(agent("Look.", name="weaver", run_in_background=True), waits_for(cwd, "asked")),
        calls(waits_for(cwd, "woven")),
        "It is at work.",
    )
    person.see(PROMPT)
    person.type("look at the loom\n")
    eventually(lambda: len(sim.log()) == 2, "the agent asks")
    (cwd / "asked").touch()
    person.see("It is at work.\n")


def told(cwd: Path) -> str:
    """What other processes are told of the agents there."""
    return "".join(path.read_text() for path in (cwd / "home").rglob("*.meta.json"))


@pytest.mark.slow
def test_what_an_agent_does_is_shown_while_it_is_waited_for_and_ctrl_c_ends_it(
    sim: Sim, tmp_path: Path, pid_file: Path
) -> None:
    """A7, Q2: one line that goes away; stopping the turn stops the agent and what it has started."""
    (tmp_path / "alive.sh").write_text(keep_alive(pid_file))
    sim.script(
        calls(agent("Look.", name="weaver")),
        calls(call("Bash", command="sh alive.sh")),
        "Never mind.",
    )
    with terminal(tmp_path, "chat", **sim.environ(), **COLOUR) as person:
        person.see(PROMPT)
        person.type("look at the loom\n")
        person.see("● Agent look at the loom")
        person.see("weaver: Running alive.sh (")
        eventually(lambda: bool(pids(pid_file)), "the command runs")
        person.type(CTRL_C)
        stopped = person.see("stopped; what was said so far is kept\n")
        assert "goes on" not in stopped
        assert [pid for pid in pids(pid_file) if is_running(pid)] == []
        person.see(PROMPT)
        person.type("/agents\n")
        table = person.see(PROMPT)
        assert "weaver  general  stopped" in table
        person.type("hello\n")
        person.see("Never mind.")
        person.see(PROMPT)
        person.type(CTRL_D)
        assert person.ends() == 0


@pytest.mark.slow
def test_an_agent_in_the_background_is_in_the_status_line_and_its_end_is_told_above_the_prompt(
    sim: Sim, tmp_path: Path
) -> None:
    """A7: also while somebody types, whose line stays; its report goes to the model with the next words."""
    with terminal(tmp_path, "chat", **sim.environ(), **COLOUR) as person:
        started_in_background(sim, tmp_path, person)
        assert "· weaver: " in person.see(PROMPT)
        eventually(lambda: "Running wait.py" in told(tmp_path), "what it does is known")
        person.type("/agents\n")
        assert "weaver  general  running" in person.see("Running wait.py")
        person.see(PROMPT)
        person.type("/agents show weaver\n")
        person.see("at work: Running wait.py")
        person.see(PROMPT)
        person.type("half a tho")
        person.see("half a tho")
        sim.extend("The loom is red.", "Red, then.")
        (tmp_path / "woven").touch()
        person.see("· weaver is done (")
        person.see(": The loom is red.\n> half a tho")
        person.type("ught\n")
        turn = person.see("Red, then.")
        assert "its report goes to the model" in turn
        person.see(PROMPT)
        person.type("/agents show weaver\n")
        person.see("weaver is done: look at the loom\n  The loom is red.\n")
        person.type(CTRL_D)
        assert person.ends() == 0
    last = sim.log()[-1]["body"]["messages"][-1]
    assert "half a thought" in json.dumps(last)
    assert "The loom is red." in json.dumps(last)


@pytest.mark.slow
def test_ctrl_c_leaves_agents_in_the_background_alone_and_says_so(sim: Sim, tmp_path: Path) -> None:
    """Q2: they are not tied to the turn; one command ends one of them."""
    with terminal(tmp_path, "chat", **sim.environ()) as person:
        started_in_background(sim, tmp_path, person)
        person.see(PROMPT)
        sim.extend({"text": "unheard", "fault": "hang"})
        person.type("and now?\n")
        eventually(lambda: len(sim.log()) == 4, "the request is on its way")
        person.type(CTRL_C)
        person.see("is kept; weaver goes on in the background (/agents stop NAME)")
        person.see(PROMPT)
        eventually(lambda: "Running wait.py" in told(tmp_path), "what it does is known")
        listed = json.loads(nacre(tmp_path, "agents", "list", "--json").stdout)["agents"]
        assert [(each["name"], each["status"], each["doing"]) for each in listed] == [
            ("weaver", "running", "Running wait.py")
        ]
        person.type("/agents stop weaver\n")
        person.see("weaver was stopped; the model hears of it with your next message")
        assert "· weaver was stopped (" in person.see(PROMPT)
        person.type("/agents stop weaver\n")
        person.see("weaver is not at work (stopped)")
        for words, answer in (
            ("/agents stop nobody", "There is no agent named 'nobody'. Known: weaver."),
            ("/agents sing", "type /agents, /agents show NAME or /agents stop NAME"),
        ):
            person.see(PROMPT)
            person.type(f"{words}\n")
            person.see(answer)
        person.type(CTRL_D)
        assert person.ends() == 0


@pytest.mark.slow
def test_a_letter_from_another_terminal_reaches_an_agent_at_work_and_a_request_ends_it(
    sim: Sim, tmp_path: Path
) -> None:
    """A3, A4: delivered with the results of its next calls; a person who wants it to end is obeyed."""
    with terminal(tmp_path, "chat", **sim.environ()) as person:
        started_in_background(sim, tmp_path, person)
        person.see(PROMPT)
        sent = nacre(tmp_path, "agents", "send", "weaver", "Take the blue wool.")
        assert sent.returncode == 0, sent.stderr
        sim.extend(calls(waits_for(tmp_path, "dyed")))
        (tmp_path / "woven").touch()
        eventually(lambda: len(sim.log()) == 4, "it goes on")
        assert "Take the blue wool." in json.dumps(sim.log()[-1]["body"]["messages"][-1])
        assert "No message waits for weaver" in nacre(tmp_path, "agents", "inbox", "weaver").stdout
        stopped = nacre(tmp_path, "agents", "stop", "weaver")
        assert (stopped.returncode, stopped.stdout) == (0, "weaver has stopped\n"), stopped.stderr
        person.type("/agents\n")
        person.see("weaver  general  stopped")
        person.type(CTRL_D)
        assert person.ends() == 0


@pytest.mark.slow
def test_an_agent_that_is_stopped_stays_so_though_a_letter_waits_for_it(sim: Sim, tmp_path: Path) -> None:
    """A4, Q2: to stop somebody means more than what others have written before; the letter is not lost."""
    with terminal(tmp_path, "chat", **sim.environ()) as person:
        started_in_background(sim, tmp_path, person)
        person.see(PROMPT)
        assert nacre(tmp_path, "agents", "send", "weaver", "Take the blue wool.").returncode == 0
        stopped = nacre(tmp_path, "agents", "stop", "weaver")
        assert (stopped.returncode, stopped.stdout) == (0, "weaver has stopped\n"), stopped.stderr
        assert "Take the blue wool." in nacre(tmp_path, "agents", "inbox", "weaver").stdout
        sim.extend(calls(call("SendMessage", to="weaver", message="Go on.")), "Blue it is.", "Blue it is.")
        person.type("let it go on\n")
        eventually(lambda: '"status": "completed"' in told(tmp_path), "it has gone on")
        asked = json.dumps([each["body"]["messages"] for each in sim.log()])
        assert "Take the blue wool." in asked
        person.see("Blue it is.")
        person.see(PROMPT)
        person.type(CTRL_D)
        assert person.ends() == 0


@pytest.mark.slow
def test_what_an_agent_in_the_background_asks_waits_for_the_next_message_and_a_ctrl_c_there_means_no(
    sim: Sim, tmp_path: Path
) -> None:
    """Q2: a line that is being typed stays; nobody waits for ever behind a question that was dismissed."""
    mode = {"NACRE_PERMISSIONS_DEFAULT_MODE": "default", "NACRE_PERMISSIONS_ALLOW": "Bash(python3 wait.py:*)"}
    with terminal(tmp_path, "chat", **{**sim.environ(), **mode, **COLOUR}) as person:
        started_in_background(sim, tmp_path, person)
        person.see(PROMPT)
        person.type("go")
        person.see("go")
        sim.extend(calls(call("Bash", command="touch dyed")))
        (tmp_path / "woven").touch()
        person.see("· weaver asks: ")
        person.see("you are asked with your next message\n> go")
        sim.extend("Good.", "Then not.")
        person.type(" on\n")
        eventually(lambda: len(sim.log()) == 5, "the turn goes on beside the question")
        person.see("go ahead? [y]es, [a]lways, [N]o: ")
        person.type(CTRL_C)
        person.see("Good.")
        person.see("weaver is done (")
        person.type(CTRL_D)
        assert person.ends() == 0
    assert not (tmp_path / "dyed").exists()


@pytest.mark.slow
def test_an_answer_that_came_behind_a_question_of_somebody_else_is_shown_in_its_turn(
    sim: Sim, tmp_path: Path
) -> None:
    """Q2: it is held back while the question stands there, and not written into the next prompt."""
    mode = {"NACRE_PERMISSIONS_DEFAULT_MODE": "default", "NACRE_PERMISSIONS_ALLOW": "Bash(python3 wait.py:*)"}
    with terminal(tmp_path, "chat", **{**sim.environ(), **mode, **COLOUR}) as person:
        started_in_background(sim, tmp_path, person)
        person.see(PROMPT)
        sim.extend(calls(call("Bash", command="touch dyed")))
        (tmp_path / "woven").touch()
        person.see("you are asked with your next message")
        sim.extend("Good.", "Then not.")
        person.type("go on\n")
        eventually(lambda: len(sim.log()) == 5, "the turn goes on beside the question")
        person.see("go ahead? [y]es, [a]lways, [N]o: ")
        person.type("n\n")
        assert "Good.\n" in person.see("context ")
        person.see("weaver is done (")
        person.type(CTRL_D)
        assert person.ends() == 0


@pytest.mark.slow
def test_a_teammate_that_waits_is_ended_too(sim: Sim, tmp_path: Path) -> None:
    """A6: it is done with its work and stays for letters until somebody ends it."""
    sim.script(
        calls(agent("Look.", name="weaver", team_name="weavers"), waits_for(tmp_path, "asked")),
        "Ready.",
        "Good.",
    )
    with terminal(tmp_path, "chat", **sim.environ()) as person:
        person.see(PROMPT)
        person.type("look at the loom\n")
        eventually(lambda: '"status": "idle"' in told(tmp_path), "it waits")
        (tmp_path / "asked").touch()
        person.see("weaver is done and waits for messages")
        person.see(PROMPT)
        listed = nacre(tmp_path, "agents", "list").stdout
        assert "team weavers: no tasks" in listed
        person.type("/agents stop weaver\n")
        person.see("weaver has ended")
        person.see(PROMPT)
        person.type("/agents\n")
        person.see("weaver  general  ")
        row = person.see("look at the loom")
        assert not row.startswith(("idle", "running"))
        assert "$0.0000" not in row
        person.type(CTRL_D)
        assert person.ends() == 0


def test_nothing_that_goes_away_is_written_to_a_pipe(sim: Sim, tmp_path: Path) -> None:
    """A7: whoever reads a pipe gets lines."""
    sim.script(
        calls(agent("Look.", name="weaver")), calls(waits_for(tmp_path, "woven")), "Red.", "It is red."
    )
    with begun(tmp_path, "chat", **sim.environ()) as chat:
        assert chat.stdin is not None
        chat.stdin.write("look at the loom\n")
        eventually(lambda: len(sim.log()) == 2, "the agent works")
        (tmp_path / "woven").touch()
        lines = until(chat.stdout, lambda line: "It is red." in line)
    assert not any("Running" in line or "\r" in line or "\x1b" in line for line in lines)
