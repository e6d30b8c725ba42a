"""`nacre -p` as a process against `nacre sim` as a process: answers, exit codes, shapes, going on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nacre.messages.blocks import Json
from nacre.messages.pairing import INTERRUPTED
from tests.cli.program import ended, nacre, started, world
from tests.pictures import png
from tests.stories.processes import (
    MODEL,
    SAFETY_SECONDS,
    Sim,
    begun,
    eventually,
    is_running,
    keep_alive,
    logs,
    pids,
    said,
    user_texts,
)
from tests.stories.scenes import call, calls

WITHOUT_SDK = "import sys; sys.modules['anthropic'] = None; from nacre.cli.main import main; sys.exit(main())"
RESULT_FIELDS = {"result", "session", "usage", "cost_usd", "turns", "memories_saved", "memories_recalled"}


def test_an_answer_arrives_and_the_next_prompt_goes_on_with_the_session(sim: Sim, tmp_path: Path) -> None:
    """P3, T1: text on stdout, nothing else anywhere, and one log that holds both turns."""
    sim.script("Hello there.", "You said hello.")
    first = nacre(tmp_path, "-p", "hello", **sim.environ())
    assert (first.returncode, first.stdout, first.stderr) == (0, "Hello there.\n", "")
    again = nacre(tmp_path, "-p", "what did I say?", "--continue", **sim.environ())
    assert (again.returncode, again.stdout, again.stderr) == (0, "You said hello.\n", "")
    (log,) = logs(tmp_path)
    assert user_texts(log) == ["hello", "what did I say?"]
    one, two = sim.log()
    assert two["usage"]["cache_read"] == one["usage"]["cache_write"] > 0


def test_a_reply_without_text_says_so_and_ends_with_1(sim: Sim, tmp_path: Path) -> None:
    sim.script(" \n")
    done = nacre(tmp_path, "-p", "hello", **sim.environ())
    assert (done.returncode, done.stdout.strip()) == (1, "")
    assert "empty" in done.stderr


@pytest.mark.parametrize(
    ("prompt", "heard"), [("-", "a long\nprompt"), ("what is this?", "what is this?\n\na long\nprompt")]
)
def test_what_is_piped_in_is_heard(sim: Sim, tmp_path: Path, prompt: str, heard: str) -> None:
    sim.script("Text.")
    command = [sys.executable, "-m", "nacre", "-p", prompt]
    done = ended(command, tmp_path, world(tmp_path, **sim.environ()), given="a long\nprompt")
    assert (done.returncode, done.stdout) == (0, "Text.\n")
    assert user_texts(logs(tmp_path)[0]) == [heard]


@pytest.mark.slow
def test_who_waits_for_a_provider_is_told_why(sim: Sim, tmp_path: Path) -> None:
    sim.script({"fault": {"kind": "overloaded", "retry_after": 0}}, "Here.")
    done = nacre(tmp_path, "-p", "hello", **sim.environ())
    assert (done.returncode, done.stdout) == (0, "Here.\n")
    assert "trying again in" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_being_stopped_leaves_a_whole_log_and_no_process(
    sim: Sim, tmp_path: Path, pid_file: Path, number: signal.Signals, code: int
) -> None:
    """Q2: the command is ended with the turn, and the log itself says that it was."""
    sim.script(calls(call("Bash", command=keep_alive(pid_file))))
    with begun(tmp_path, "-p", "work", **sim.environ()) as process:
        eventually(lambda: bool(pids(pid_file)), "the command runs")
        process.send_signal(number)
        assert process.wait(timeout=SAFETY_SECONDS) == code
    assert [pid for pid in pids(pid_file) if is_running(pid)] == []
    assert said(logs(tmp_path)[0])[-1] == f"user: ={INTERRUPTED}"
    assert INTERRUPTED in logs(tmp_path)[0].read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("args", "typed"), [(("-p", "work"), ""), (("chat",), "work\n")])
def test_who_was_started_to_ignore_a_closed_terminal_works_on(
    sim: Sim, tmp_path: Path, args: tuple[str, ...], typed: str
) -> None:
    """Q2: `nohup nacre` means it; the signal neither ends the program nor what it started."""
    wait = "echo here > begun; until [ -e go ]; do sleep 0.05; done; echo at the end"
    sim.script(calls(call("Bash", command=wait)), "All done.")
    process = subprocess.Popen(
        ["nohup", sys.executable, "-m", "nacre", *args],
        cwd=tmp_path, env=world(tmp_path, **sim.environ()), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdin is not None
        process.stdin.write(typed)
        process.stdin.flush()
        eventually((tmp_path / "begun").exists, "the command runs")
        process.send_signal(signal.SIGHUP)
        (tmp_path / "go").touch()
        out, _ = process.communicate(timeout=SAFETY_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "All done." in out
    assert "user: =at the end" in said(logs(tmp_path)[0])


def test_json_is_one_document_with_the_fields_other_programs_rely_on(sim: Sim, tmp_path: Path) -> None:
    """Commands, `-p --output-format json`."""
    sim.script(calls(call("Bash", command="echo found")), "Found it.")
    done = nacre(tmp_path, "-p", "look", "--output-format", "json", **sim.environ())
    result = json.loads(done.stdout)
    assert set(result) >= RESULT_FIELDS
    assert (result["result"], result["turns"], result["outcome"]) == ("Found it.", 2, "answered")
    assert result["session"] == logs(tmp_path)[0].stem
    billed = [one["usage"] for one in sim.log()]
    assert result["usage"] == {
        name: sum(usage[name] for usage in billed)
        for name in ("input", "cache_write", "cache_read", "output")
    }
    assert result["cost_usd"] == pytest.approx(sum(one["cost_usd"] for one in sim.log()), abs=1e-6)


def test_stream_json_is_a_line_per_event_and_ends_with_the_result(sim: Sim, tmp_path: Path) -> None:
    """Commands, `-p --output-format stream-json`."""
    sim.script(calls(call("Bash", command="echo found; exit 3"), text="Looking."), "Found it.")
    done = nacre(tmp_path, "-p", "look", "--output-format", "stream-json", **sim.environ())
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [line["type"] for line in lines]
    assert {"text", "call", "result_of", "reply"} == set(kinds) - {"result"}
    assert kinds[-1] == "result"
    assert set(lines[-1]) >= RESULT_FIELDS
    text = "".join(line["text"] for line in lines if line["type"] == "text")
    assert text == "Looking.Found it."
    (answer,) = [line for line in lines if line["type"] == "result_of"]
    assert (answer["is_error"], answer["text"]) == (True, "Exit code 3\nfound")
    (made,) = [line for line in lines if line["type"] == "call"]
    assert (made["id"], made["name"], made["input"]) == (
        answer["id"],
        "Bash",
        {"command": "echo found; exit 3"},
    )


def test_a_turn_that_runs_into_its_limit_ends_with_1(sim: Sim, tmp_path: Path) -> None:
    """Query loop, step 12."""
    sim.script(*[calls(call("Glob", pattern="*")) for _ in range(3)])
    done = nacre(tmp_path, "-p", "go", "--max-turns", "2", **sim.environ())
    assert done.returncode == 1
    assert "Stopped after 2 rounds" in done.stderr
    assert len(sim.log()) == 2


def test_a_refused_key_ends_with_4_and_says_which_variable_to_look_at(sim: Sim, tmp_path: Path) -> None:
    """Q3: at once, with advice; the words are kept for when the key is right."""
    sim.script({"fault": "auth"}, "Now it works.")
    done = nacre(tmp_path, "-p", "hello", **sim.environ())
    assert (done.returncode, done.stdout) == (4, "")
    assert len(done.stderr.splitlines()) == 1
    assert "ANTHROPIC_API_KEY" in done.stderr
    assert len(sim.log()) == 1
    again = nacre(tmp_path, "-p", "again", "--continue", **sim.environ())
    assert (again.returncode, again.stdout) == (0, "Now it works.\n")
    assert user_texts(logs(tmp_path)[0]) == ["hello", "again"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "environ", "advice"),
    [
        (("-m", "nacre"), {"NACRE_MODEL": MODEL}, "set ANTHROPIC_API_KEY"),
        (("-m", "nacre"), {"OPENAI_BASE_URL": "http://127.0.0.1:1"}, "set NACRE_MODEL"),
        (("-m", "nacre"), {"NACRE_MODEL": "nobody-knows-it"}, "write anthropic:MODEL"),
        (("-c", WITHOUT_SDK), {"ANTHROPIC_API_KEY": "any"}, "[anthropic]"),
    ],
)
def test_what_is_not_configured_ends_with_3_and_says_what_to_do(
    program: tuple[str, str], environ: dict[str, str], advice: str, tmp_path: Path
) -> None:
    """P3, Q3: and no session is left behind that `--continue` would go on with."""
    done = started(tmp_path, *program, "-p", "hello", **environ)
    assert (done.returncode, done.stdout) == (3, "")
    assert len(done.stderr.splitlines()) == 1
    assert advice in done.stderr
    assert logs(tmp_path) == []


@pytest.mark.slow
def test_without_the_package_of_a_vendor_an_old_session_can_still_be_compacted_by_rule(
    tmp_path: Path,
) -> None:
    """C23: nobody has to be asked for that."""
    assert nacre(tmp_path, "-p", "hello").returncode == 0
    done = started(tmp_path, "-c", WITHOUT_SDK, "compact", "latest", "--by-rule", ANTHROPIC_API_KEY="any")
    assert done.stderr == "nacre: nothing was compacted: the conversation is already short\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--continue",), "no session in"),
        (("--resume", "0123"), "no session '0123'"),
    ],
)
def test_a_session_that_is_not_there_ends_with_1(
    args: tuple[str, ...], says: str, sim: Sim, tmp_path: Path
) -> None:
    done = nacre(tmp_path, "-p", "hello", *args, **sim.environ())
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not sim.log()


def test_without_any_key_the_embedded_engine_says_what_it_is(tmp_path: Path) -> None:
    """P3, P4."""
    done = nacre(tmp_path, "-p", "write me a poem")
    assert done.returncode == 1
    assert "ANTHROPIC_API_KEY" in done.stdout


def test_incognito_leaves_nothing_behind(sim: Sim, tmp_path: Path) -> None:
    """Commands: nothing at all under the home."""
    script: list[Json] = [calls(call("Bash", command="echo seen")), "Forgotten."]
    sim.script(*script)
    done = nacre(tmp_path, "-p", "a secret", "--incognito", **sim.environ())
    assert (done.returncode, done.stdout) == (0, "Forgotten.\n")
    assert not (tmp_path / "home").exists()
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.slow
def test_incognito_changes_no_byte_of_a_home_and_a_project_in_use(sim: Sim, tmp_path: Path) -> None:
    """Commands: whatever the model does; it is told what is missing of an output that no file has."""
    (project := tmp_path / "project").mkdir()
    (temporary := tmp_path / "tmp").mkdir()
    environ = sim.environ(NACRE_HOME=str(tmp_path / "home"), TMPDIR=str(temporary))
    environ |= {"NACRE_TOOLS_DEFERRED": "0", "NACRE_EXTRACT": "true", "NACRE_DREAM": "true"}
    sim.script(calls(call("remember", text="I like tea.")), "Noted.")
    assert nacre(project, "-p", "remember that I like tea", **environ).returncode == 0
    before = [_every_file(folder) for folder in (tmp_path / "home", project)]
    assert before[0]
    sim.script(
        calls(call("Bash", command="seq 1 600000")),
        calls(call("remember", text="I like coffee.")),
        calls(call("Agent", description="look", prompt="Look around.")),
        "Nothing here.",
        calls(call("Grep", pattern="tea", path=str(tmp_path / "home"))),
        "Forgotten.",
    )
    done = nacre(project, "-p", "remember that I like coffee", "--incognito", **environ)
    assert (done.returncode, done.stdout) == (0, "Forgotten.\n"), done.stderr
    assert [_every_file(folder) for folder in (tmp_path / "home", project)] == before
    assert [*temporary.iterdir()] == []
    sent = [json.dumps(one["body"]["messages"][-1]) for one in sim.log()]
    (output,) = [text for text in sent if "\\n123\\n" in text]
    whole = sum(len(f"{number}\n") for number in range(1, 600_001))
    cut = re.search(r"\[([\d,]+) more characters left out", output)
    assert cut is not None
    assert int(cut[1].replace(",", "")) == whole - 30_000


def _every_file(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (found.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
        if (found := path.lstat())
    }


@pytest.mark.parametrize(
    "prompt",
    ["remember that I like tea", "forget what I said about tea", "no, my name is Ana", "记住我喜欢茶"],
)
def test_incognito_without_a_model_does_not_say_that_anything_is_kept(tmp_path: Path, prompt: str) -> None:
    done = nacre(tmp_path, "-p", prompt, "--incognito")
    assert not (tmp_path / "home").exists()
    assert "if it has one" in done.stdout or "如果" in done.stdout
    assert "--continue" not in done.stdout and "stays" not in done.stdout


def test_without_a_model_an_old_memory_is_shown_with_its_age_and_no_advice_for_a_model(
    tmp_path: Path,
) -> None:
    folder = Path(nacre(tmp_path, "memory", "path").stdout.strip())
    folder.mkdir(parents=True, exist_ok=True)
    head = "---\nname: store\ndescription: how the store is opened\ntype: project\n---\n"
    (folder / "store.md").write_text(f"{head}The store is opened with the blue key.\n")
    written = time.time() - 40 * 86_400
    os.utime(folder / "store.md", (written, written))
    done = nacre(tmp_path, "-p", "how is the store opened?")
    assert done.stdout.endswith("\n\nstore.md (40 days old): The store is opened with the blue key.\n")


@pytest.mark.slow
def test_openai_is_spoken_to_as_well(sim: Sim, tmp_path: Path) -> None:
    """P1, P3: the other door, chosen by the other key."""
    sim.script(calls(call("Bash", command="echo found")), "Found it.", "Still there.")
    keys = {"OPENAI_BASE_URL": f"{sim.url}/v1", "OPENAI_API_KEY": "any"}
    assert nacre(tmp_path, "-p", "look", **keys).stdout == "Found it.\n"
    assert nacre(tmp_path, "-p", "and now?", "--continue", **keys).stdout == "Still there.\n"
    assert said(logs(tmp_path)[0])[1:4] == ["assistant: [Bash]", "user: =found", "assistant: Found it."]
    assert [one["route"] for one in sim.log()] == ["POST /v1/chat/completions"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt-5.3-codex", "o3-pro"])
def test_a_model_of_the_responses_api_works_through_the_program(sim: Sim, tmp_path: Path, model: str) -> None:
    """P1: a tool round, which sends the reasoning back, and another process that goes on from the cache."""
    look: Json = {"thinking": "It may be there.", "tool_calls": [call("Bash", command="echo found")]}
    sim.script(look, "Found it.", "Still there.")
    keys = {"OPENAI_BASE_URL": f"{sim.url}/v1", "OPENAI_API_KEY": "any", "NACRE_EXTRACT": "0"}
    first = nacre(tmp_path, "-p", "look", "--model", model, "--output-format", "json", **keys)
    assert first.returncode == 0, first.stderr
    result = json.loads(first.stdout)
    assert result["result"] == "Found it."
    again = nacre(tmp_path, "-p", "and now?", "--continue", "--model", model, **keys)
    assert again.stdout == "Still there.\n", again.stderr
    log = sim.log()
    assert [one["route"] for one in log] == ["POST /v1/responses"] * 3
    kinds = [[item.get("type", "message") for item in one["body"]["input"]] for one in log]
    assert kinds[1][-3:] == ["reasoning", "function_call", "function_call_output"]
    assert "found" in json.dumps(log[1]["body"]["input"][-1])
    assert len({one["body"]["prompt_cache_key"] for one in log}) == 1
    first_call, *others = said(logs(tmp_path)[0])[1:4]
    assert first_call.endswith("[Bash]")
    assert others == ["user: =found", "assistant: Found it."]


def test_a_picture_goes_with_the_prompt_and_a_bad_one_is_a_usage_error(sim: Sim, tmp_path: Path) -> None:
    sim.script("A picture.")
    (tmp_path / "a.png").write_bytes(png(3, 2))
    (tmp_path / "b.png").write_text("no picture")
    done = nacre(tmp_path, "-p", "what is it?", "--image", "a.png", **sim.environ())
    assert (done.returncode, done.stdout) == (0, "A picture.\n")
    assert '"media_type": "image/png"' in json.dumps(sim.log()[0]["body"]["messages"])
    for arguments, said_there in (
        (("-p", "what?", "--image", "b.png"), "b.png cannot be sent: only PNG"),
        (("-p", "what?", "--image", "none.png"), "none.png cannot be read: No such file"),
        (("--image", "a.png"), "--image requires -p"),
    ):
        refused = nacre(tmp_path, *arguments, **sim.environ())
        assert refused.returncode == 2 and said_there in refused.stderr
