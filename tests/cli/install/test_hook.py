"""`nacre hook` as Claude Code calls it: JSON in, JSON out, and never a reason for the client to stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from nacre.errors import NacreError
from nacre.integrations.claude_code.hooks import answer
from nacre.integrations.claude_code.input import parse_input, transcript_of
from tests.cli.hooks_of_a_client import ClientWorld, waited_for


@pytest.fixture
def client(tmp_path: Path) -> ClientWorld:
    return ClientWorld(tmp_path)


RELEASES = "Releases of the billing service leave on Thursdays."
QUESTION = "When do releases of the billing service leave?"


def test_a_prompt_brings_the_memories_it_calls_for(client: ClientWorld) -> None:
    """R1, R8, M1: from the directory that the client itself uses, for the model, with its path."""
    client.remember("releases.md", RELEASES)
    client.remember("tea.md", "Green tea is served in the afternoon.")
    context = client.prompt(QUESTION)
    assert RELEASES in context
    assert str(client.memory / "releases.md") in context
    assert "Green tea" not in context
    # The client puts its own reminder around it.
    assert "system-reminder" not in context


def test_nothing_is_said_where_nothing_helps(client: ClientWorld) -> None:
    client.remember("tea.md", "Green tea is served in the afternoon.")
    assert client.raw("UserPromptSubmit", client.told("UserPromptSubmit", prompt=QUESTION)) == (0, b"", "")
    assert client.prompt("thanks") == ""


def test_a_memory_is_told_once_until_a_compaction_takes_it_away(client: ClientWorld) -> None:
    """R7: per session, and a compaction frees it."""
    client.remember("releases.md", RELEASES)
    assert RELEASES in client.prompt(QUESTION)
    assert client.prompt(QUESTION) == ""
    assert RELEASES in client.prompt(QUESTION, session_id="another-one")
    client.hook("SessionStart", source="compact")
    assert RELEASES in client.prompt(QUESTION)


def test_what_the_model_has_read_itself_is_not_told_again(client: ClientWorld) -> None:
    """R7: the client's log shows what the model opened."""
    client.remember("releases.md", RELEASES)
    client.log.write_text(json.dumps({"input": {"file_path": str(client.memory / "releases.md")}}) + "\n")
    assert client.prompt(QUESTION) == ""


def test_what_a_memory_names_is_looked_up(client: ClientWorld) -> None:
    """R12."""
    client.remember("releases.md", f"{RELEASES} The script is `tools/release.py`.")
    assert "no longer there: `tools/release.py`" in client.prompt(QUESTION)


def test_what_must_stay_or_nobody_vouches_for_is_not_told(client: ClientWorld) -> None:
    """M16b, M27."""
    client.remember("releases.md", RELEASES, head="local-only: true\n")
    client.remember("releases_too.md", RELEASES, head="origin: untrusted\n")
    assert client.prompt(QUESTION) == ""


def test_at_most_five_come_and_no_more_than_the_client_passes_on(client: ClientWorld) -> None:
    """R5; beyond 10,000 characters the client shows the model a preview instead."""
    for number in range(7):
        text = f"{RELEASES} Note {number}." + " Much more of it." * 200
        (client.memory / f"releases_{number}.md").write_text(f"{text}\n")
    context = client.prompt(QUESTION)
    assert 2 <= context.count("</memory>") <= 5
    assert len(context) < 10_000
    # Those that had no room come next time.
    assert client.prompt(QUESTION) != ""


def test_memory_that_is_off_in_the_clients_settings_is_off_here(client: ClientWorld) -> None:
    """M7."""
    client.remember("releases.md", RELEASES)
    settings = client.project / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"autoMemoryEnabled": false}')
    assert client.prompt(QUESTION) == ""
    settings.unlink()
    (client.home / "settings.json").write_text('{"autoMemoryEnabled": false, "hooks": {"Odd": 3}}')
    assert client.prompt(QUESTION) == ""


def test_a_hook_that_nacre_runs_itself_adds_nothing(client: ClientWorld) -> None:
    """One home: nacre reads the client's settings, too, and has a recall of its own."""
    client.remember("releases.md", RELEASES)
    stdin = client.told("UserPromptSubmit", prompt=QUESTION)
    assert client.raw("UserPromptSubmit", stdin, NACRE_PROJECT_DIR="x") == (0, b"", "")


HOSTILE = [
    b"", b"not json", b"[1]", b"{}", b"\xff\xfe", b'{"session_id": "../../x", "prompt": "a b"}',
    b'{"session_id": 3}', b"[" * 100_000, b'{"session_id": "s", "prompt": ["x"]}' * 2,
    b'{"session_id": "' + b"s" * 300 + b'"}', b'{"session_id":"s\\u0000"}',
]  # fmt: skip


@pytest.mark.parametrize("stdin", HOSTILE, ids=range(len(HOSTILE)))
def test_odd_input_is_refused_in_a_line(stdin: bytes) -> None:
    with pytest.raises(NacreError) as refused:
        parse_input("UserPromptSubmit", stdin, {"HOME": "/nowhere"})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("stdin", [b"", b"[" * 100_000], ids=["nothing", "deep"])
def test_odd_input_is_a_line_on_stderr_and_nothing_else(client: ClientWorld, stdin: bytes) -> None:
    code, out, err = client.raw("UserPromptSubmit", stdin)
    assert (code, out) == (0, b"")
    assert err.startswith("nacre hook: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("event", "args"),
    [("Nonsense", ()), ("UserPromptSubmit", ("--nonsense", "more"))],
)
def test_no_way_to_call_it_ends_in_the_code_that_blocks_a_client(
    client: ClientWorld, event: str, args: tuple[str, ...]
) -> None:
    """2 would keep a person's prompt from the model."""
    code, out, _ = client.raw(event, client.told("UserPromptSubmit", prompt="a b"), *args)
    assert (code, out) == (0, b"")


def test_odd_values_are_as_good_as_none(client: ClientWorld) -> None:
    client.remember("releases.md", RELEASES)
    odd = {"cwd": "relative", "transcript_path": 7, "permission_mode": None, "effort": {"deep": []}}
    assert RELEASES in client.prompt(QUESTION, **odd)
    assert client.prompt("\udc80 \ud800 lone halves", session_id="other") == ""


@pytest.mark.parametrize("name", ["/" + "x" * 5_000, "/x" * 5_000, "/" + "x/" * 400_000, "/\0"])
def test_a_path_that_cannot_be_one_is_nobodys(tmp_path: Path, name: str) -> None:
    """Neither an error of ours nor a long search: a place that is not there is as good as none."""
    raw = json.dumps({"session_id": "s", "cwd": name, "transcript_path": name}).encode()
    heard = parse_input("UserPromptSubmit", raw, {"HOME": str(tmp_path), "CLAUDE_PROJECT_DIR": name})
    assert heard.cwd == Path.cwd()
    with pytest.raises(NacreError, match="not read") as refused:
        transcript_of(heard)
    assert len(str(refused.value)) < 1_000
    with pytest.raises(NacreError, match="not read"):
        answer("PreCompact", raw, {"HOME": str(tmp_path)})


def test_a_compaction_without_a_log_is_one_line(client: ClientWorld) -> None:
    with pytest.raises(NacreError, match="no words were kept"):
        answer("PreCompact", client.told("PreCompact"), client.environ())


def test_a_broken_settings_file_is_told_in_a_line(client: ClientWorld) -> None:
    (client.home / "settings.json").write_text("{broken")
    code, out, err = client.raw("UserPromptSubmit", client.told("UserPromptSubmit", prompt=QUESTION))
    assert (code, out) == (0, b"")
    assert "settings.json:1:2: not valid JSON" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_hook_that_is_told_nothing_ends_by_itself(client: ClientWorld) -> None:
    """Bounded: a client that never closes the pipe still gets its end, and no error."""
    with client.start("UserPromptSubmit") as hook:
        assert hook.wait(timeout=30) == 0
        assert hook.stderr is not None
        assert b"took longer than" in hook.stderr.read()


def test_two_hooks_at_once_tell_a_memory_once(client: ClientWorld) -> None:
    """R7: whoever comes second finds it told."""
    client.remember("releases.md", RELEASES)
    stdin = client.told("UserPromptSubmit", prompt=QUESTION)
    hooks = [client.start("UserPromptSubmit") for _ in range(3)]
    for hook in hooks:
        assert hook.stdin is not None
        hook.stdin.write(stdin)
        hook.stdin.close()
        hook.stdin = None
    answers = [hook.communicate(timeout=60) for hook in hooks]
    assert [hook.returncode for hook in hooks] == [0, 0, 0]
    assert sum(RELEASES.encode() in out for out, _ in answers) == 1
    assert [err for _, err in answers] == [b"", b"", b""]


def test_a_killed_hook_leaves_the_next_one_well(client: ClientWorld) -> None:
    client.remember("releases.md", RELEASES)
    for delay in (0.01, 0.02, 0.05):
        with client.start("UserPromptSubmit") as hook:
            assert hook.stdin is not None
            hook.stdin.write(client.told("UserPromptSubmit", prompt=QUESTION, session_id=f"s{delay}"))
            hook.stdin.close()
            try:
                hook.wait(timeout=delay)
            except subprocess.TimeoutExpired:
                os.kill(hook.pid, signal.SIGKILL)
    assert RELEASES in client.prompt(QUESTION)


def test_a_home_that_cannot_be_written_still_recalls(client: ClientWorld) -> None:
    """A file where the folder should be: root may write anywhere, so that a mode would prove nothing."""
    client.remember("releases.md", RELEASES)
    (client.home / "cache").write_text("in the way")
    assert RELEASES in client.prompt(QUESTION)


def test_the_hook_imports_no_event_loop_and_no_click(client: ClientWorld) -> None:
    """A person waits: what takes long is what is imported."""
    client.remember("releases.md", RELEASES)
    stdin = client.told("UserPromptSubmit", prompt=QUESTION)
    with client.start("UserPromptSubmit", PYTHONPROFILEIMPORTTIME="1") as hook:
        out, err = hook.communicate(stdin, timeout=60)
    assert RELEASES.encode() in out
    modules = {line.rpartition("|")[2].strip() for line in err.decode().splitlines()}
    loaded = {name.partition(".")[0] for name in modules}
    assert "nacre" in loaded
    slow = {"asyncio", "click", "anthropic", "pydantic", "numpy", "yaml", "rich", "subprocess", "filelock"}
    assert loaded & slow == set()
    # Who only reads needs neither a history of changes nor the records of a conversation.
    assert (
        modules & {"nacre.store.history", "nacre.memory.files.transaction", "nacre.messages.records"} == set()
    )


def test_the_first_prompt_finds_the_index_that_the_start_had_made(client: ClientWorld) -> None:
    """R9: what takes long is done beside the client, by a process that outlives the hook."""
    client.remember("releases.md", RELEASES)
    assert client.hook("SessionStart", source="startup") == {}
    index = client.home / "cache" / client.folder.name / "recall" / "index.db"
    assert waited_for(index.exists)


def test_nothing_in_the_working_directory_is_run(client: ClientWorld) -> None:
    """A project may hold a folder called nacre; the process that outlives a hook is still ours."""
    client.remember("releases.md", RELEASES)
    for name in ("nacre", "asyncio"):
        (client.project / name).mkdir()
        (client.project / name / "__init__.py").write_text(f"open({str(client.base / 'run')!r}, 'w')\n")
        (client.project / name / "__main__.py").write_text("")
    client.hook("SessionStart", source="startup")
    assert waited_for((client.home / "cache" / client.folder.name / "recall" / "index.db").exists)
    assert not (client.base / "run").exists()
