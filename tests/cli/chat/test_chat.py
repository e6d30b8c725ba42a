"""`nacre chat` line by line, with the embedded engine: what can be typed, and what is left on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.cli.chat.slash import COMMANDS
from tests.cli.program import ended, nacre, world


def chat(
    cwd: Path, *lines: str, args: tuple[str, ...] = (), **environ: str
) -> subprocess.CompletedProcess[str]:
    """A chat in which these lines are typed, one after another, and then no more."""
    command = [sys.executable, "-m", "nacre", "chat", *args]
    return ended(command, cwd, world(cwd, **environ), given="".join(f"{line}\n" for line in lines))


def logs(cwd: Path) -> list[Path]:
    return sorted((cwd / "home" / "projects").rglob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)


def typed(path: Path) -> list[str]:
    """What the person said in a log."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    said = [line["message"]["content"] for line in lines if line["type"] == "user" and not line.get("isMeta")]
    return [block if isinstance(block, str) else block[0]["text"] for block in said]


def test_the_end_of_input_ends_the_chat_and_the_words_are_kept(tmp_path: Path) -> None:
    done = chat(tmp_path, "hello", "", "   ", "two\\", "lines")
    assert (done.returncode, done.stderr) == (0, "")
    assert typed(logs(tmp_path)[0]) == ["hello", "two\nlines"]


def test_help_lists_every_command(tmp_path: Path) -> None:
    done = chat(tmp_path, "/help")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [f"/{name}" for name in COMMANDS]


def test_a_command_nobody_knows_is_one_line_and_is_not_sent(tmp_path: Path) -> None:
    done = chat(tmp_path, "/etc/passwd is odd", " /etc/passwd is odd")
    assert done.stderr == (
        "nacre: no command /etc/passwd; /help lists them (put a space before a message that begins with /)\n"
    )
    assert typed(logs(tmp_path)[0]) == [" /etc/passwd is odd"]


def test_context_and_cost_show_what_the_session_holds(tmp_path: Path) -> None:
    """C34."""
    done = chat(tmp_path, "x" * 4_000, "/context", "/cost")
    rows = [line.split() for line in done.stdout.splitlines()]
    amounts = {" ".join(row[:-3]): row[-3] for row in rows if len(row) > 3 and row[-2].endswith("%")}
    # A thousand, more or less: what stands before it, a path among it, has its share of the rounding.
    assert 950 <= int(amounts["user text"].replace(",", "")) <= 1_100
    assert {"system", "tools", "memory"} <= set(amounts)
    assert "model embedded" in done.stdout and "compaction from" in done.stdout
    assert ["requests", "1"] in rows and ["cache", "hit", "rate", "0.0%"] in rows
    assert "layer" not in done.stdout  # none has had anything to do


def test_context_and_cost_tell_of_layers_also_those_of_before_a_compaction(tmp_path: Path) -> None:
    """C34: an open session holds less of its past than its log does."""
    chat(tmp_path, "hello")
    (log,) = logs(tmp_path)
    note = {"type": "nacre", "id": "n", "sessionId": log.stem, "timestamp": "2026-01-01T00:00:00.000Z"}
    facts = {"call": "c", "tokens_kept_out": 12_345}
    lines = log.read_bytes()
    log.write_bytes(
        json.dumps(note | {"kind": "offload", "facts": facts}, separators=(",", ":")).encode() + b"\n" + lines
    )
    done = chat(tmp_path, "/context", "/cost", args=("--continue",))
    told = [line.split() for line in done.stdout.splitlines() if line.startswith("offload ")]
    assert [row[:3] for row in told] == [["offload", "1", "12,345"]] * 2


@pytest.mark.slow
def test_clear_starts_a_new_session_and_resume_goes_back(tmp_path: Path) -> None:
    """Commands: the old one stays resumable."""
    first = chat(tmp_path, "apples", "/clear", "pears")
    old, new = logs(tmp_path)
    assert f"the old one stays: /resume {old.stem[:8]}" in first.stdout
    assert (typed(old), typed(new)) == (["apples"], ["pears"])
    second = chat(tmp_path, f"/resume {old.stem[:8]}", "more apples", args=("--continue",))
    assert second.returncode == 0
    assert (typed(old), typed(new)) == (["apples", "more apples"], ["pears"])


@pytest.mark.slow
def test_resume_without_an_id_lists_the_others(tmp_path: Path) -> None:
    chat(tmp_path, "apples", "/clear", "pears")
    old, new = logs(tmp_path)
    done = chat(tmp_path, "/resume", args=("--resume", new.stem))
    listed = [line for line in done.stdout.splitlines() if "messages" in line]
    assert [line.split()[0] for line in listed] == [old.stem[:8]]
    assert "apples" in listed[0]
    alone = tmp_path / "elsewhere"
    alone.mkdir()
    assert "there is no other session" in chat(alone, "/resume").stdout


@pytest.mark.parametrize("content", [b"\0\1\2 not a log", b'{"neither": "is this"}\n'])
def test_a_session_that_cannot_be_opened_leaves_the_person_where_they_are(
    content: bytes, tmp_path: Path
) -> None:
    """T5: one line, and the chat goes on in the session it was in."""
    bad = tmp_path / "home" / "projects" / "-x" / "0bad.jsonl"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(content)
    done = chat(tmp_path, "before", "/resume 0bad", "/resume nothing", "after")
    assert done.returncode == 0
    assert [line.startswith("nacre: ") for line in done.stderr.splitlines()] == [True, True]
    assert bad.read_bytes() == content
    (log,) = [path for path in logs(tmp_path) if path != bad]
    assert typed(log) == ["before", "after"]


def test_resuming_the_session_one_is_in_changes_nothing(tmp_path: Path) -> None:
    """T8b: and does not make a branch of it."""
    chat(tmp_path, "one")
    (log,) = logs(tmp_path)
    done = chat(tmp_path, f"/resume {log.stem}", "two", args=("--continue",))
    assert "you are in that session" in done.stdout
    assert logs(tmp_path) == [log]
    assert typed(log) == ["one", "two"]


def test_an_incognito_chat_leaves_nothing_at_all(tmp_path: Path) -> None:
    """Commands: not even a listing, a lock or a history."""
    done = chat(
        tmp_path,
        "a secret",
        "/context",
        "/resume",
        "/resume 0123",
        "/clear",
        "another",
        args=("--incognito",),
    )
    assert done.returncode == 0
    assert "stays" not in done.stdout
    assert [line.startswith("nacre: this chat leaves nothing") for line in done.stderr.splitlines()] == [
        True
    ] * 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("args", [("--continue",), ("--resume", "0123")])
def test_incognito_cannot_go_on_with_what_is_on_disk(args: tuple[str, ...], tmp_path: Path) -> None:
    """Commands: refused instead of silently starting anew."""
    done = nacre(tmp_path, "--incognito", *args, "-p", "hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--incognito" in done.stderr
    later = chat(tmp_path, "hello", args=("--incognito", *args))
    assert later.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_chat_in_which_nothing_was_said_leaves_no_session(tmp_path: Path) -> None:
    assert chat(tmp_path, "/help", "/clear").returncode == 0
    assert logs(tmp_path) == []


def test_before_anything_was_said_there_is_nothing_to_rewind_retry_or_do(tmp_path: Path) -> None:
    """Slash commands: each says so in a line, and leaves no session behind."""
    done = chat(tmp_path, "/rewind", "/tasks", "/retry")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "there is no message yet\nThe list is empty.\nthere is no message yet\n"
    assert logs(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("words", ["0", "2", "x", "-1", "1 everything", "1 files now", "²"])
def test_a_rewind_that_means_nothing_changes_nothing(words: str, tmp_path: Path) -> None:
    done = chat(tmp_path, "hello", f"/rewind {words}")
    assert done.stderr == (
        "nacre: type /rewind N, /rewind N files or /rewind N conversation; /rewind lists the numbers\n"
    )
    assert typed(logs(tmp_path)[0]) == ["hello"]


def test_an_incognito_chat_can_be_rewound_too(tmp_path: Path) -> None:
    """The words are in memory only, and so is what was before."""
    done = chat(tmp_path, "one", "two", "/rewind 2", "/rewind", args=("--incognito",))
    assert (done.returncode, done.stderr) == (0, "")
    assert "restored 0 files\nthe conversation was rewound to before: two\n" in done.stdout
    assert [line.split()[-1] for line in done.stdout.splitlines() if " 0 files " in line] == ["one"]
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_cannot_be_used_ends_before_anything_begins(tmp_path: Path) -> None:
    done = chat(tmp_path, "hello", NACRE_MAX_TURNS="many")
    assert done.returncode == 3
    assert "NACRE_MAX_TURNS" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_model_and_its_thinking_are_shown_and_refused_in_one_line(tmp_path: Path) -> None:
    done = chat(tmp_path, "hello", "/model", "/model embedded", "/model gpt-6-luna", "/think", "/think high")
    assert "● embedded" in done.stdout and "embedded answers already" in done.stdout
    assert "embedded does not think" in done.stdout
    assert done.stderr.splitlines() == [
        "nacre: gpt-6-luna needs a key or a server: set OPENAI_API_KEY or OPENAI_BASE_URL",
        "nacre: embedded cannot be asked with thinking=high; it takes no level",
    ]


def test_an_incognito_chat_cannot_continue_with_another_model(tmp_path: Path) -> None:
    lines = ("/model embedded:", "hello", "/model claude-haiku-5-5")
    done = chat(tmp_path, *lines, args=("--incognito", "--model", "embedded"), ANTHROPIC_API_KEY="sk-test")
    assert "leaves nothing on disk" in done.stderr and "--model claude-haiku-5-5" in done.stderr
    assert not list(tmp_path.rglob("*.jsonl"))


def test_quit_leaves_as_exit_does(tmp_path: Path) -> None:
    done = chat(tmp_path, "/quit", "never said")
    assert done.returncode == 0, done.stderr
    assert "unknown" not in done.stdout + done.stderr and "never said" not in done.stdout
