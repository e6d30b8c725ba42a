"""Compaction by hand: `nacre compact` and `/compact`, with a model, without one, and back again (C23)."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.messages.blocks import Json
from nacre.settings import load
from nacre.testing import ScriptedProvider, call, say
from tests.cli.program import ended, nacre, world
from tests.stories.processes import Sim, begun, eventually, logs, said, until, user_texts
from tests.stories.terminal import CTRL_C, CTRL_D, PROMPT, terminal

ROUNDS = 12
SUMMARY = """<analysis>Nothing to see.</analysis>
<summary>
1. Primary Request and Intent: read the modules.
2. Key Technical Concepts: none.
3. Files and Code Sections: module_3.txt was read.
4. Errors and fixes: none.
5. Problem Solving: none.
6. All user messages: see below.
7. Pending Tasks: none.
8. Current Work: reading the purple modules.
9. Optional Next Step: none.
</summary>"""


def a_long_session(cwd: Path) -> str:
    """A session in this world in which many files were read; its id."""
    for number in range(ROUNDS):
        lines = (f"module {number} line {line}: the value is {number * line}" for line in range(150))
        (cwd / f"module_{number}.txt").write_text("\n".join(lines))
    script = ScriptedProvider()
    for number in range(ROUNDS):
        script = script.script(
            call("Read", file_path=f"module_{number}.txt"), say(f"Module {number} is fine.")
        )
    settings = load(cwd, world(cwd), cli={"model": "claude-opus-5-5", "switches.notes": False})

    async def talk() -> str:
        async with open_agent(settings, provider=script) as ready:
            for number in range(ROUNDS):
                async for _ in ready.agent.stream(f"Please read module {number}, and mind rule {number}."):
                    pass
            return ready.agent.session.id

    return asyncio.run(talk())


def model_of(sim: Sim, **more: str) -> dict[str, str]:
    """Variables that point the program to the simulator; notes are for other stories."""
    return sim.environ(NACRE_NOTES="false", **more)


def used(cwd: Path, **environ: str) -> int:
    """Tokens in use, as `nacre context` says."""
    found = json.loads(nacre(cwd, "context", "latest", "--json", **environ).stdout)["used"]
    assert isinstance(found, int)
    return found


def test_without_a_model_rules_do_and_say_so(tmp_path: Path) -> None:
    """C26: exit code 0, what was kept, where the rest is; the session goes on."""
    session = a_long_session(tmp_path)
    before = used(tmp_path)
    done = nacre(tmp_path, "compact", session[:8])
    assert done.returncode == 0, done.stderr
    assert "no model is configured, so this was done without a model" in done.stderr
    first, *_ = done.stdout.splitlines()
    assert re.match(r"compacted by rule, without a model: about [\d,]+ tokens became [\d,]+ \(\d+%\)", first)
    assert f"`nacre sessions show {session[:8]} --full` has it all" in done.stdout
    assert used(tmp_path) < before
    shown = nacre(tmp_path, "sessions", "show", session).stdout
    assert all(f"Please read module {number}, and mind rule {number}." in shown for number in range(ROUNDS))
    assert "module 1 line 149" in nacre(tmp_path, "sessions", "show", session, "--full").stdout
    again = nacre(tmp_path, "-p", "hello", "--continue")
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
def test_a_model_is_asked_once_and_its_words_stand_in_view(sim: Sim, tmp_path: Path) -> None:
    """C18, C19: over HTTP; the person's words come from the log, not from the summary."""
    session = a_long_session(tmp_path)
    sim.script(SUMMARY, "Going on.")
    done = nacre(tmp_path, "compact", session, "--focus", "the colour of modules", **model_of(sim))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("compacted with a model's summary: about ")
    (request,) = sim.log()
    spent = re.match(r"spent on it: \$([\d.]+) \(1 request\); ", done.stdout.splitlines()[-1])
    # Four decimals are printed: a bill that ends in 5 at the fifth is rounded either way.
    assert spent and abs(float(spent[1]) - request["cost_usd"]) < 0.000051, (spent, request["cost_usd"])
    assert "the colour of modules" in json.dumps(request["body"]["messages"][-1])
    shown = nacre(tmp_path, "sessions", "show", session).stdout
    assert "reading the purple modules" in shown
    assert "Nothing to see." not in shown
    assert "mind rule 0." in shown
    sim.script("Going on.")
    answer = nacre(tmp_path, "-p", "go on", "--continue", **model_of(sim))
    assert answer.stdout == "Going on.\n", answer.stderr
    assert "reading the purple modules" in json.dumps(sim.log()[0]["body"])


def test_where_the_model_fails_rules_do_and_the_reason_is_said(sim: Sim, tmp_path: Path) -> None:
    """C23c, C26."""
    a_long_session(tmp_path)
    sim.script("I would rather not.", "No.", "No.", "No.", "No.", "No.")
    done = nacre(tmp_path, "compact", "latest", **model_of(sim))
    assert done.returncode == 0, done.stderr
    assert "The summary failed (" in done.stderr
    assert done.stdout.startswith("compacted by rule, without a model")


def test_asked_to_ask_no_model_it_asks_none(sim: Sim, tmp_path: Path) -> None:
    a_long_session(tmp_path)
    done = nacre(tmp_path, "compact", "latest", "--by-rule", "--json", **model_of(sim))
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert done.stderr == ""
    assert told["kind"] == "rules"
    assert told["after"] < told["before"]
    assert set(told) >= {"session", "record", "kept_messages", "words_kept", "words_left", "files", "dropped"}
    assert (told["requests"], told["cost_usd"]) == (0, 0)
    assert sim.log() == []


@pytest.mark.slow
def test_taken_back_the_view_is_what_it_was(tmp_path: Path) -> None:
    """C23: also twice, and exit code 1 where there is nothing to take back."""
    session = a_long_session(tmp_path)
    (log,) = logs(tmp_path)
    before = said(log)
    for _ in range(2):
        assert nacre(tmp_path, "compact", session, "--by-rule").returncode == 0
        assert said(log) != before
        done = nacre(tmp_path, "compact", session, "--undo")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("undid the compaction of ")
        assert said(log) == before
    done = nacre(tmp_path, "compact", session, "--undo")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"nacre: session {session[:8]} has no compaction to take back\n"


def numbered(cwd: Path, words: str) -> int:
    """The number behind the heading under which these words stand."""
    lines = nacre(cwd, "sessions", "show", "latest").stdout.splitlines()
    place = next(n for n, line in enumerate(lines) if words in line)
    heading = next(line for line in reversed(lines[:place]) if re.search(r"#\d+$", line))
    return int(heading.rpartition("#")[2])


def test_up_to_a_message_keeps_it_and_the_rest(tmp_path: Path) -> None:
    """C23: by the number that `sessions show` prints."""
    a_long_session(tmp_path)
    number = numbered(tmp_path, "Please read module 8,")
    (log,) = logs(tmp_path)
    rest = said(log)[-12:]
    done = nacre(tmp_path, "compact", "latest", "--by-rule", "--up-to", str(number))
    assert done.returncode == 0, done.stderr
    after = said(log)
    assert after[-11:] == rest[-11:]
    assert "module 7 line 149" not in "".join(after)
    assert "module 8 line 149" in "".join(after)


def test_from_a_message_keeps_what_comes_before_byte_for_byte(tmp_path: Path) -> None:
    """C23: the cache of the prefix stays of use; by a message's id."""
    session = a_long_session(tmp_path)
    (log,) = logs(tmp_path)
    before = said(log)
    records = json.loads(nacre(tmp_path, "sessions", "show", session, "--full", "--json").stdout)["records"]
    pivot = next(each["id"] for each in records if "read module 2," in json.dumps(each.get("content")))
    done = nacre(tmp_path, "compact", session, "--by-rule", "--from", pivot[:20])
    assert done.returncode == 0, done.stderr
    after = said(log)
    assert after[:8] == before[:8]
    assert "module 1 line 149" in "".join(after)
    assert "module 3 line 149" not in "".join(after)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["no-such-session"], 1, "no session"),
        (["latest", "--from", "999"], 1, "no message in view matches '999'"),
        (["latest", "--from", "zz"], 1, "`nacre sessions show ID` numbers them from 1 to "),
        (["latest", "--up-to", "1"], 1, "nothing comes before message 1; name a later one"),
        (["latest", "--from", "3", "--up-to", "9"], 2, "--from and --up-to exclude each other"),
        (["latest", "--undo", "--focus", "x"], 2, "--undo cannot be combined"),
        ([], 2, "Missing argument 'ID'"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(
    tmp_path: Path, args: list[str], code: int, says: str
) -> None:
    a_long_session(tmp_path)
    (log,) = logs(tmp_path)
    before = log.read_bytes()
    done = nacre(tmp_path, "compact", *args)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert log.read_bytes() == before


def test_where_nothing_is_gained_nothing_is_done(tmp_path: Path) -> None:
    nacre(tmp_path, "-p", "hello")
    (log,) = logs(tmp_path)
    before = log.read_bytes()
    done = nacre(tmp_path, "compact", "latest")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing was compacted" in done.stderr
    assert log.read_bytes() == before


def test_a_session_that_is_open_elsewhere_is_left_alone(tmp_path: Path) -> None:
    """T9: no branch is made of it."""
    session = a_long_session(tmp_path)
    with begun(tmp_path, "chat", "--resume", session) as chat:
        assert chat.stdin is not None
        chat.stdin.write("/tasks\n")
        chat.stdin.flush()
        until(chat.stdout, lambda line: bool(line.strip()))
        done = nacre(tmp_path, "compact", session)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"session {session} is open in process {chat.pid}" in done.stderr
    assert len(logs(tmp_path)) == 1


def test_a_session_of_another_directory_is_compacted_as_if_one_were_there(tmp_path: Path) -> None:
    """C21: what is read again are its own files and instructions."""
    session = a_long_session(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "CLAUDE.md").write_text("Instructions of elsewhere.")
    done = ended([sys.executable, "-m", "nacre", "compact", session, "--by-rule"], elsewhere, world(tmp_path))
    assert done.returncode == 0, done.stderr
    (log,) = logs(tmp_path)
    assert "Instructions of elsewhere." not in "".join(said(log))


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["/Users/dev2/shop", "C:\\Users\\dev2\\shop", "shop"])
def test_a_session_whose_directory_is_gone_gets_nothing_of_the_project_one_stands_in(
    gone: str, tmp_path: Path
) -> None:
    """C21: no memory, instructions, directory or branch; its messages are compacted all the same."""
    session = a_long_session(tmp_path)
    (log,) = logs(tmp_path)
    moved = log.read_text().replace(json.dumps(str(tmp_path)), json.dumps(gone))
    log.write_text(moved)
    assert moved.count(json.dumps(gone)) > ROUNDS
    here = tmp_path / "elsewhere"
    for name in ("objects", "refs"):
        (here / ".git" / name).mkdir(parents=True)
    (here / ".git" / "HEAD").write_text("ref: refs/heads/branch-of-elsewhere\n")
    (here / "CLAUDE.md").write_text("Instructions of elsewhere.")
    memory = ["memory", "save", "The kettle of elsewhere is blue."]
    for command in (memory, ["compact", session, "--by-rule"]):
        done = ended([sys.executable, "-m", "nacre", *command], here, world(tmp_path))
        assert done.returncode == 0, done.stderr
    assert log.read_text().startswith(moved)
    added = log.read_text().removeprefix(moved)
    assert "module 3" in added
    for word in ("elsewhere", "kettle", "branch-of"):
        assert word not in added


def test_a_command_of_the_persons_can_forbid_it(tmp_path: Path) -> None:
    """C18."""
    a_long_session(tmp_path)
    hook = {"hooks": [{"type": "command", "command": "echo 'not before the release' >&2; exit 2"}]}
    (tmp_path / "home" / "settings.json").write_text(json.dumps({"hooks": {"PreCompact": [hook]}}))
    done = nacre(tmp_path, "compact", "latest")
    assert done.returncode == 1
    assert "not before the release" in done.stderr


@pytest.mark.slow
def test_in_a_chat_compact_tells_what_became_of_it_and_undo_brings_it_back(sim: Sim, tmp_path: Path) -> None:
    """The whole way: context before, /compact, context after, go on, take back."""
    session = a_long_session(tmp_path)
    (log,) = logs(tmp_path)
    sim.script(SUMMARY, "Still here.")
    with terminal(tmp_path, "chat", "--resume", session, **model_of(sim, NO_COLOR="")) as person:
        person.see(PROMPT)
        person.type("/context\n")
        before = _used(person.see(PROMPT))
        person.type("/compact the colours\n")
        told = person.see(PROMPT)
        assert "asking for a summary…" in told
        assert "compacted with a model's summary: about " in told
        spent = re.search(r"spent on it: \$(0\.\d{4}) \(1 request\); session: \$(\d+\.\d{4})", told)
        assert spent, told
        assert 0 < float(spent[1]) < float(spent[2])
        assert "/compact undo takes this back" in told
        person.type("/context\n")
        after = _used(person.see(PROMPT))
        assert after < before
        person.type("are you there?\n")
        assert "Still here." in person.see("session ")
        person.see(PROMPT)
        person.type("/compact undo\n")
        assert "undid the compaction of " in person.see(PROMPT)
        person.type("/context\n")
        assert _used(person.see(PROMPT)) > after
        person.type("/compact undo\n")
        assert "there is no compaction to undo" in person.see(PROMPT)
        person.type(CTRL_D)
        assert person.ends() == 0
    assert "module 1 line 149" in "".join(said(log))
    assert user_texts(log)[-1] == "are you there?"
    assert len(logs(tmp_path)) == 1


def _used(screen: str) -> int:
    found = re.search(r"([\d,]+) of [\d,]+ tokens in use", screen)
    assert found, screen
    return int(found[1].replace(",", ""))


HALF: Json = {"text": SUMMARY * 5, "fault": {"kind": "hang", "after": 60}}
"""A summary that goes silent while it is written: what was sent of it is on the bill."""
SPENT = re.compile(r"spent on it: about \$(0\.\d{4}) \(1 request\); session: about \$\d+\.\d{4}")


def wait_for_reply(sim: Sim) -> None:
    """Come back when the reply has begun: the simulator sends it at once, and nothing shows its arrival."""
    eventually(lambda: len(sim.log()) == 1, "the request is on its way")
    time.sleep(1.0)


def assert_billed(sim: Sim, shown: str) -> None:
    """The line about the cost names what the simulator bills, within what is estimated of it."""
    (request,) = sim.log()
    spent = SPENT.search(shown)
    assert spent, shown
    assert float(spent[1]) == pytest.approx(request["cost_usd"], rel=0.05)


@pytest.mark.slow
def test_ctrl_c_stops_a_summary_shows_its_cost_and_the_conversation_is_as_it_was(
    sim: Sim, tmp_path: Path
) -> None:
    """Q2."""
    session = a_long_session(tmp_path)
    (log,) = logs(tmp_path)
    before = said(log)
    sim.script(HALF, "Fine.")
    with terminal(tmp_path, "chat", "--resume", session, **model_of(sim, NO_COLOR="")) as person:
        person.see(PROMPT)
        person.type("/compact\n")
        person.see("asking for a summary…")
        wait_for_reply(sim)
        person.type(CTRL_C)
        assert_billed(sim, person.see("stopped; the conversation is unchanged"))
        person.see(PROMPT)
        assert said(log) == before
        person.type("and now?\n")
        person.see("Fine.")
        person.see(PROMPT)
        person.type(CTRL_D)
        assert person.ends() == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_summary_of_the_command_and_its_cost_is_shown(
    sim: Sim, tmp_path: Path, number: signal.Signals
) -> None:
    session = a_long_session(tmp_path)
    (log,) = logs(tmp_path)
    before = said(log)
    sim.script(HALF)
    with begun(tmp_path, "compact", session, **model_of(sim)) as command:
        wait_for_reply(sim)
        command.send_signal(number)
        shown, _ = command.communicate(timeout=30)
        assert command.returncode == 128 + number
    assert_billed(sim, shown)
    assert said(log) == before


def test_without_a_terminal_nothing_moves(tmp_path: Path) -> None:
    """A pipe gets lines, no progress."""
    a_long_session(tmp_path)
    done = nacre(tmp_path, "compact", "latest", "--by-rule")
    assert "\r" not in done.stdout + done.stderr
    assert done.stderr == ""
