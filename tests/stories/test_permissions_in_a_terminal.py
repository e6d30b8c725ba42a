"""Questions on a real pty: an edit is shown and asked about, a directory is trusted or not (Q2)."""

from __future__ import annotations

import json
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from nacre.messages.blocks import Json
from nacre.messages.pairing import INTERRUPTED
from tests.cli.program import nacre
from tests.stories.processes import (
    Sim,
    end,
    eventually,
    is_running,
    logs,
    pids,
    said,
    user_texts,
)
from tests.stories.scenes import call, calls
from tests.stories.terminal import CTRL_C, CTRL_D, PROMPT, Terminal, terminal

GO_AHEAD = "go ahead? [y]es, [a]lways, [N]o: "
TRUST = "trust it? [y]es, [N]o: "
SERVER = Path(__file__).parents[1] / "mcp_client" / "sdk_server.py"


def asking(sim: Sim, **more: str) -> dict[str, str]:
    """Variables for a program that asks before it acts, and does not wait for a provider that is down."""
    return sim.environ(NACRE_PERMISSIONS_DEFAULT_MODE="default", NACRE_RETRY_TRIES="1", **more)


def read() -> Json:
    return calls(call("Read", file_path="app.py"))


def edit(old: str, new: str) -> Json:
    return calls(call("Edit", file_path="app.py", old_string=old, new_string=new))


def project(folder: Path) -> Path:
    (folder / "app.py").write_text("one\ntwo\nthree\n")
    return folder / "app.py"


def leave(person: Terminal) -> None:
    person.see(PROMPT)
    person.type(CTRL_D)
    assert person.ends() == 0


@pytest.mark.slow
def test_no_leaves_the_file_and_yes_changes_it_once(sim: Sim, tmp_path: Path) -> None:
    """Guard: the diff is shown, a no reaches the model, and a yes is for this call only."""
    app = project(tmp_path)
    sim.script(read(), edit("two", "2"), "As you wish.", edit("two", "2"), edit("2", "two"), "Done.")
    with terminal(tmp_path, "chat", **asking(sim)) as person:
        person.see(PROMPT)
        person.type("change it\n")
        screen = person.see(GO_AHEAD)
        assert f"? Edit needs your permission (it would change {app})\n" in screen
        assert "     one\n    -two\n    +2\n     three\n" in screen
        assert "  always would allow Edit(/app.py) in this project from now on\n" in screen
        person.type("n\n")
        person.see("As you wish.")
        assert app.read_text() == "one\ntwo\nthree\n"
        person.see(PROMPT)
        person.type("do change it\n")
        person.see(GO_AHEAD)
        person.type("y\n")
        assert "-2\n    +two" in person.see(GO_AHEAD)
        assert app.read_text() == "one\n2\nthree\n"
        person.type("\n")
        person.see("Done.")
        leave(person)
    assert app.read_text() == "one\n2\nthree\n"
    words = said(logs(tmp_path)[0])
    assert "the user said no" in words[4] and "read-only commands need no permission" in words[4]
    assert user_texts(logs(tmp_path)[0]) == ["change it", "do change it"]
    # What answers a question is no part of what was said.
    assert (tmp_path / "home" / "chat_history").read_text() == "change it\ndo change it\n"
    assert not (tmp_path / "home" / "permissions.json").exists()


@pytest.mark.slow
def test_always_is_remembered_by_the_next_session(sim: Sim, tmp_path: Path) -> None:
    """Permissions: in the home, for nobody else to read, and nothing of it in the project."""
    app = project(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    sim.script(read(), edit("two", "2"), edit("2", "two"), "Done.", read(), edit("two", "zwei"), "Again.")
    with terminal(tmp_path, "chat", **asking(sim)) as person:
        person.see(PROMPT)
        person.type("change it\n")
        person.see(GO_AHEAD)
        person.type("a\n")
        assert "go ahead?" not in person.see("Done.")
        leave(person)
    learned = tmp_path / "home" / "permissions.json"
    assert json.loads(learned.read_text()) == {str(tmp_path): ["Edit(/app.py)"]}
    assert stat.S_IMODE(learned.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "home"])
    with terminal(tmp_path, "chat", **asking(sim)) as person:
        person.see(PROMPT)
        person.type("again\n")
        assert "go ahead?" not in person.see("Again.")
        leave(person)
    assert app.read_text() == "one\nzwei\nthree\n"


def test_two_calls_are_asked_about_one_after_the_other(sim: Sim, tmp_path: Path) -> None:
    """Guard: each question stands alone, in the order of the calls, and each answer means its own call."""
    sim.script(calls(call("Bash", command="touch first"), call("Bash", command="touch second")), "Done.")
    with terminal(tmp_path, "chat", **asking(sim)) as person:
        person.see(PROMPT)
        person.type("go\n")
        assert "    touch first\n" in person.see(GO_AHEAD)
        person.type("n\n")
        second = person.see(GO_AHEAD)
        assert "    touch second\n" in second and "    touch first\n" not in second
        person.type("y\n")
        person.see("Done.")
        leave(person)
    assert not (tmp_path / "first").exists()
    assert (tmp_path / "second").exists()


@pytest.mark.slow
def test_ctrl_c_at_a_question_stops_the_turn_and_ctrl_d_means_no(sim: Sim, tmp_path: Path) -> None:
    """Q2: the log is whole, the prompt works, and neither key ends the program."""
    touch = calls(call("Bash", command="touch made"))
    sim.script(touch, touch, "Then not.", "Still here.")
    with terminal(tmp_path, "chat", **asking(sim)) as person:
        person.see(PROMPT)
        person.type("one\n")
        person.see(GO_AHEAD)
        person.type("ye" + CTRL_C)
        assert person.see("stopped; what was said so far is kept").rpartition("\n")[2].startswith("nacre: ")
        person.see(PROMPT)
        person.type("two\n")
        person.see(GO_AHEAD)
        person.type(CTRL_D)
        assert "└ Not allowed: the user said no" in person.see("Then not.")
        person.see(PROMPT)
        person.type("three\n")
        person.see("Still here.")
        leave(person)
    assert not (tmp_path / "made").exists()
    words = said(logs(tmp_path)[0])
    assert words[2] == f"user: ={INTERRUPTED} | two"
    assert user_texts(logs(tmp_path)[0]) == ["one", "two", "three"]


def test_a_closed_terminal_at_a_question_ends_the_program(sim: Sim, tmp_path: Path) -> None:
    """Q2."""
    sim.script(calls(call("Bash", command="touch made")))
    with terminal(tmp_path, "chat", **asking(sim)) as person:
        person.see(PROMPT)
        person.type("go\n")
        person.see(GO_AHEAD)
        person.type("")  # a moment, until it listens
        person.process.terminate()
        assert person.ends() == 143
    assert not (tmp_path / "made").exists()
    assert said(logs(tmp_path)[0])[-1] == f"user: ={INTERRUPTED}"


@contextmanager
def held_before(word: bytes, sim: Sim) -> Iterator[tuple[str, Event]]:
    """The simulator behind a line that holds back everything from this word on, until the event is set."""
    host, _, port = sim.url.removeprefix("http://").partition(":")
    let_go = Event()

    def forward(source: socket.socket, target: socket.socket, hold: bytes | None) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                before, found, after = data.partition(hold) if hold else (data, b"", b"")
                target.sendall(before)
                if found:
                    let_go.wait()
                    target.sendall(found + after)
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client = opened.enter_context(listener.accept()[0])
                server = opened.enter_context(socket.create_connection((host, int(port))))
                for pair in ((client, server, None), (server, client, word)):
                    threads.append(Thread(target=forward, args=pair))
                    threads[-1].start()

    with ExitStack() as opened, socket.create_server(("127.0.0.1", 0)) as listener:
        threads = [Thread(target=accept)]
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", let_go
        finally:
            let_go.set()
            listener.shutdown(socket.SHUT_RDWR)
            for thread in threads:  # both ends have gone by now
                thread.join()


@pytest.mark.slow
def test_words_that_stream_during_a_question_wait_until_it_is_answered(sim: Sim, tmp_path: Path) -> None:
    """A reader is asked about while the reply goes on, and the next prompt is as usual."""
    outside = tmp_path / "outside.txt"
    outside.write_text("the secret\n")
    (tmp_path / "work").mkdir()
    content: list[Json] = [
        {"type": "text", "text": "Looking there."},
        {"type": "tool_use", "name": "Read", "input": {"file_path": str(outside)}},
        {"type": "text", "text": "Meanwhile I go on talking."},
        {"type": "tool_use", "name": "Glob", "input": {"pattern": "*"}},
    ]
    sim.script({"content": content}, "Done.", "Nothing.")
    with (
        held_before(b"Meanwhile", sim) as (url, let_go),
        terminal(tmp_path / "work", "chat", **asking(sim, ANTHROPIC_BASE_URL=url)) as person,
    ):
        person.see(PROMPT)
        person.type("go\n")
        asked = person.see(GO_AHEAD)
        assert f"? Read needs your permission ({outside} is outside the project)\n" in asked
        let_go.set()
        person.type("y")  # the words come before the line is finished
        person.type("\n")
        rest = person.see(PROMPT)
        assert rest.startswith("y\nMeanwhile I go on talking.\n● Glob *\n")
        assert "└ 1 line" in rest and "Done.\n" in rest
        person.type("anything else?\n")
        assert person.see("Nothing.") == "anything else?\nNothing."
        leave(person)


@pytest.mark.slow
def test_what_was_typed_before_a_question_is_no_answer_to_it(sim: Sim, tmp_path: Path) -> None:
    """An impatient y, or half of the next message, must not agree to what nobody has seen yet."""
    sim.script({"delay": 0.5, **calls(call("Bash", command="touch made"))}, "Fine.")
    with terminal(tmp_path, "chat", **asking(sim)) as person:
        person.see(PROMPT)
        person.type("go\n")
        person.type("y\n")
        person.see(GO_AHEAD)
        person.type("\n")
        person.see("Fine.")
        leave(person)
    assert not (tmp_path / "made").exists()


def hostile(folder: Path) -> Path:
    """A repository that brings a server, permissions, variables and hooks."""
    (folder / ".nacre").mkdir()
    mark = folder / "was-started"
    given = {
        "mcpServers": {"evil": {"command": "touch", "args": [str(mark)]}},
        "permissions": {"allow": ["Bash(touch allowed)"]},
        "env": {"EVIL": "1"},
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"touch {mark}"}]}]},
    }
    (folder / ".nacre" / "settings.json").write_text(json.dumps(given))
    return mark


@pytest.mark.slow
@pytest.mark.parametrize(("word", "is_trusted"), [("n", False), ("y", True)])
def test_a_directory_that_brings_settings_is_asked_about_once(
    word: str, is_trusted: bool, sim: Sim, tmp_path: Path
) -> None:
    """Trust: no means ignored and not asked again, yes means honoured; nothing happens before."""
    mark = hostile(tmp_path)
    sim.script(calls(call("Bash", command="touch allowed")), "Done.")
    with terminal(tmp_path, "chat", **asking(sim)) as person:
        asked = person.see(TRUST)
        assert f"The settings in {tmp_path} bring: env, hooks, mcpServers, permissions.allow.\n" in asked
        assert not mark.exists()
        person.type(f"{word}\n")
        greeting = person.see(PROMPT)
        assert ("'mcpServers' is ignored" in greeting) != is_trusted
        person.type("go\n")
        if not is_trusted:
            person.see(GO_AHEAD)
            person.type("n\n")
        assert "go ahead?" not in person.see("Done.")
        leave(person)
    assert mark.exists() == (tmp_path / "allowed").exists() == is_trusted
    report = json.loads(nacre(tmp_path, "doctor", "--json").stdout)
    assert (report["trusted"], report["problems"] == []) == (is_trusted, is_trusted)
    with terminal(tmp_path, "chat", **asking(sim)) as person:
        assert TRUST not in person.see(PROMPT)
        person.type(CTRL_D)
        assert person.ends() == 0


@pytest.mark.slow
def test_a_servers_tool_is_asked_about_and_nothing_of_it_stays(sim: Sim, tmp_path: Path) -> None:
    """C31b, Q2: Ctrl-C in the middle of a call, and later the end, leave no process of the server."""
    server: Json = {"command": sys.executable, "args": [str(SERVER)]}
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings.json").write_text(json.dumps({"mcpServers": {"sdk": server}}))
    sim.script(
        calls(call("mcp__sdk__add", a=2, b=3)),
        calls(call("mcp__sdk__pid")),
        "Five.",
        calls(call("mcp__sdk__slow", mark=str(tmp_path / "slow"))),
        "Enough.",
    )
    with terminal(tmp_path, "chat", **asking(sim)) as person:
        person.see(PROMPT)
        person.type("add\n")
        asked = person.see(GO_AHEAD)
        assert "? mcp__sdk__add needs your permission (mcp__sdk__add comes from outside" in asked
        assert "    a: 2\n    b: 3\n" in asked
        person.type("y\n")
        assert "    (no arguments)\n" in person.see(GO_AHEAD)
        person.type("y\n")
        person.see("Five.")
        server_pid = int(said(logs(tmp_path)[0])[4].removeprefix("user: ="))
        assert is_running(server_pid)
        person.see(PROMPT)
        person.type("sleep\n")
        person.see(GO_AHEAD)
        person.type("y\n")
        eventually((tmp_path / "slow.begun").exists, "the call runs")
        person.type(CTRL_C)
        person.see("stopped")
        eventually((tmp_path / "slow.cancelled").exists, "the server was told")
        leave(person)
    assert not is_running(server_pid)
    assert "=5" in said(logs(tmp_path)[0])[2]


def test_ctrl_c_ends_a_search_and_a_task_in_the_background_ends_with_the_program(
    sim: Sim, tmp_path: Path, pid_file: Path
) -> None:
    """Q2: the child of Grep goes with the turn; what a command left running on purpose, with the session."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "rg").write_text(f"#!/bin/sh\necho $$ > {pid_file}\nsleep 1000 &\necho $! >> {pid_file}\nwait\n")
    (tools / "rg").chmod(0o755)
    behind = tmp_path / "behind"
    background = f"sh -c 'echo $$ > {behind}; exec sleep 1000' > /dev/null 2>&1 &"
    sim.script(calls(call("Bash", command=background)), calls(call("Grep", pattern="x")), "Fine.")
    path = {"PATH": f"{tools}:/usr/bin:/bin"}
    with terminal(tmp_path, "chat", **sim.environ(**path)) as person:
        person.see(PROMPT)
        person.type("search\n")
        eventually(lambda: bool(pids(pid_file)), "the search runs")
        (server,) = map(int, behind.read_text().split())
        person.type(CTRL_C)
        person.see("stopped")
        assert [pid for pid in pids(pid_file) if is_running(pid)] == []
        try:
            assert is_running(server)
            leave(person)
            assert not is_running(server)
        finally:
            end([server])


def test_a_failed_turn_is_finished_by_retry_in_mid_turn_too(sim: Sim, tmp_path: Path) -> None:
    """Q5: what was done before the outage is not done again, and the words are not repeated."""
    count = "echo x >> count"
    sim.script(calls(call("Bash", command=count)), {"fault": "overloaded"}, "Counted.")
    with terminal(tmp_path, "chat", **asking(sim)) as person:
        person.see(PROMPT)
        person.type("count\n")
        person.see(GO_AHEAD)
        person.type("y\n")
        person.see("(what you said is kept; /retry asks again)")
        person.see(PROMPT)
        person.type("/retry\n")
        person.see("Counted.")
        person.see(PROMPT)
        person.type("/retry\n")
        person.see("the last turn is finished; type a message")
        leave(person)
    assert (tmp_path / "count").read_text() == "x\n"
    assert user_texts(logs(tmp_path)[0]) == ["count"]
