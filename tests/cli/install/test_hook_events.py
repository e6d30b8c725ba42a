"""The other hooks of Claude Code: what a session begins with, what a compaction leaves, what is kept."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.hooks_of_a_client import SESSION, ClientWorld, waited_for

TALK = (
    ("user", "Never deploy on Fridays. I prefer tabs over spaces."),
    ("assistant", "Understood."),
)


@pytest.fixture
def client(tmp_path: Path) -> ClientWorld:
    return ClientWorld(tmp_path)


def topics(client: ClientWorld) -> str:
    """All memories but the index, as one text."""
    files = sorted(path for path in client.memory.glob("*.md") if path.name != "MEMORY.md")
    return "\n".join(path.read_text() for path in files)


def state(client: ClientWorld) -> dict[str, object]:
    path = client.home / "cache" / "hooks" / f"{SESSION}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    assert isinstance(known, dict)
    return known


def work(client: ClientWorld, event: str, **more: object) -> str:
    """What a hook leaves for later, done now; what it says on stderr."""
    code, out, err = client.raw(event, client.told(event, **more), "--now")
    assert (code, out) == (0, b"")
    return err


def test_what_was_stated_is_remembered_when_the_turn_has_ended(client: ClientWorld) -> None:
    """E1, E8, E10: by a process that outlives the hook, into the client's memory, with its source."""
    client.say(*TALK)
    assert client.hook("Stop", stop_hook_active=False, last_assistant_message="Understood.") == {}
    assert waited_for(lambda: state(client).get("cursor") == "u-1")
    saved = topics(client)
    assert "Never deploy on Fridays." in saved
    assert "tabs over spaces" in saved
    assert SESSION in saved
    assert "(" in (client.memory / "MEMORY.md").read_text()


def test_the_person_is_told_once_and_how_to_undo_it(client: ClientWorld) -> None:
    """E6: with the next prompt, because nobody listened when it was saved."""
    client.say(*TALK)
    work(client, "Stop")
    told = client.hook("UserPromptSubmit", prompt="go on please")
    message = str(told["systemMessage"])
    assert message.startswith("nacre saved 2 memories: ")
    assert re.search(rf"NACRE_HOME='{client.home}' \S*nacre memory undo ", message)
    assert "systemMessage" not in client.hook("UserPromptSubmit", prompt="go on please")


def test_who_shares_the_memory_is_told_commands_without_a_variable(client: ClientWorld) -> None:
    """M1: nacre's own settings say where memory is, and hold for the hooks, too."""
    own = client.base / ".nacre"
    own.mkdir()
    (own / "settings.json").write_text(
        json.dumps({"memoryHome": str(client.home), "extract": {"mode": "suggest"}})
    )
    client.say(*TALK)
    err = client.raw("Stop", client.told("Stop"), "--now", NACRE_HOME=str(own))[2]
    begun = client.raw("SessionStart", client.told("SessionStart", source="startup"), NACRE_HOME=str(own))
    assert (err, begun[0], begun[2]) == ("", 0, "")
    said = str(json.loads(begun[1])["systemMessage"])
    assert re.fullmatch(r"nacre: 2 memories wait for your word: \S*nacre memory review", said)
    assert topics(client) == ""


def test_what_was_just_said_is_not_told_back(client: ClientWorld) -> None:
    """R7: it stands in the conversation, until a compaction takes it away."""
    client.say(*TALK)
    work(client, "Stop")
    question = "Do we ever deploy on Fridays?"
    assert client.prompt(question) == ""
    assert "Never deploy on Fridays." in client.prompt(question, session_id="another-one")


def test_only_what_came_since_is_looked_at(client: ClientWorld) -> None:
    """E2: what was forgotten meanwhile does not come back with the next turn."""
    client.say(*TALK)
    work(client, "Stop")
    for path in client.memory.glob("*.md"):
        path.unlink()
    client.say(*TALK, ("user", "Always run the linter first."), ("assistant", "Yes."))
    work(client, "SessionEnd", reason="other")
    assert "linter" in topics(client)
    assert "Fridays" not in topics(client)


def test_what_the_model_wrote_down_itself_is_not_written_again(client: ClientWorld) -> None:
    """E3: its own write is in the log."""
    client.say(*TALK)
    call = {
        "type": "tool_use", "id": "t1", "name": "Write",
        "input": {"file_path": str(client.memory / "deploys.md"), "content": "Never on Fridays."},
    }  # fmt: skip
    line = {
        "type": "assistant", "uuid": "u-9", "parentUuid": "u-1", "sessionId": SESSION, "isSidechain": False,
        "timestamp": "2026-11-15T13:42:00.000Z",
        "message": {"role": "assistant", "id": "m", "content": [call]},
    }  # fmt: skip
    with client.log.open("a") as log:
        log.write(json.dumps(line) + "\n")
    work(client, "Stop")
    assert topics(client) == ""
    assert state(client)["cursor"]


def test_a_turn_that_goes_on_for_a_hook_is_left_alone(client: ClientWorld) -> None:
    """`stop_hook_active`: it has not ended."""
    client.say(*TALK)
    assert client.hook("Stop", stop_hook_active=True) == {}
    assert client.hook("Stop", agent_id="a1", agent_type="Explore") == {}
    assert not (client.home / "cache" / "hooks").exists()


def test_where_nobody_sits_nothing_is_remembered(client: ClientWorld) -> None:
    """E1: `claude -p` is a program's doing."""
    client.say(*TALK)
    code, out, err = client.raw(
        "SessionEnd", client.told("SessionEnd"), "--now", CLAUDE_CODE_ENTRYPOINT="sdk-cli"
    )
    assert (code, out, err) == (0, b"", "")
    assert topics(client) == ""
    (client.home / "settings.json").write_text('{"extract": {"nonInteractive": true}}')
    client.raw("Stop", client.told("Stop"), CLAUDE_CODE_ENTRYPOINT="sdk-cli")
    assert waited_for(lambda: "Fridays" in topics(client))


def test_in_suggest_mode_the_person_is_asked_when_a_session_begins(client: ClientWorld) -> None:
    """E7."""
    (client.home / "settings.json").write_text('{"extract": {"mode": "suggest"}}')
    client.say(*TALK)
    work(client, "Stop")
    assert topics(client) == ""
    assert "2 memories wait for your word" in str(
        client.hook("SessionStart", source="startup")["systemMessage"]
    )


def test_a_transcript_elsewhere_is_not_read(client: ClientWorld) -> None:
    """A hook is told a path by somebody; only the client's own logs are believed."""
    client.say(*TALK)
    outside = client.base / f"{SESSION}.jsonl"
    client.log.rename(outside)
    err = work(client, "Stop", transcript_path=str(outside))
    assert err.count("\n") == 1
    assert "not read" in err
    assert topics(client) == ""


def test_a_damaged_log_is_read_as_far_as_it_goes(client: ClientWorld) -> None:
    """The client may be writing its last line just now."""
    client.say(*TALK)
    with client.log.open("ab") as log:
        log.write(b'\xff\x00{"type": "user"\n[1, 2]\n\n{"type":"user","message":{"role":"user","con')
    assert work(client, "Stop") == ""
    assert "Fridays" in topics(client)


def test_no_log_at_all_is_one_line(client: ClientWorld) -> None:
    err = work(client, "Stop")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_two_at_once_save_it_once(client: ClientWorld) -> None:
    """E4: the end of a turn and the end of the session come together."""
    client.say(*TALK)
    runs = [client.start(event, "--now") for event in ("Stop", "SessionEnd", "Stop")]
    for run, event in zip(runs, ("Stop", "SessionEnd", "Stop"), strict=True):
        assert run.stdin is not None
        run.stdin.write(client.told(event))
        run.stdin.close()
        run.stdin = None
    assert [run.communicate(timeout=60) for run in runs] == [(b"", b"")] * 3
    assert topics(client).count("\n\nNever deploy on Fridays.\n") == 1
    assert str(state(client)["notices"]).count("saved 2 memories") == 1


def test_two_clients_at_work_on_one_project_lose_nothing(client: ClientWorld) -> None:
    """M15: each has its session, both have one memory."""
    client.say(*TALK)
    other = client.log.with_name("another-one.jsonl")
    other.write_text(
        client.log.read_text().replace(SESSION, "another-one").replace("Never deploy on", "Never rest on")
    )
    told = [client.told("Stop"), client.told("Stop", session_id="another-one", transcript_path=str(other))]
    runs = [client.start("Stop", "--now") for _ in told]
    for run, stdin in zip(runs, told, strict=True):
        assert run.stdin is not None
        run.stdin.write(stdin)
        run.stdin.close()
        run.stdin = None
    assert [run.communicate(timeout=60) for run in runs] == [(b"", b"")] * 2
    for words in ("Never deploy on Fridays.", "Never rest on Fridays."):
        assert topics(client).count(f"\n\n{words}\n") == 1
        assert f"- [{words[:-1]}](" in (client.memory / "MEMORY.md").read_text()
    assert topics(client).count("\n\nI prefer tabs over spaces.\n") == 1


def test_a_run_killed_in_the_middle_is_made_good_by_the_next(client: ClientWorld) -> None:
    client.say(*TALK)
    for delay in (0.02, 0.05, 0.1, 0.2):
        with client.start("Stop", "--now") as run:
            assert run.stdin is not None
            run.stdin.write(client.told("Stop"))
            run.stdin.close()
            try:
                run.wait(timeout=delay)
            except subprocess.TimeoutExpired:
                run.kill()
    assert work(client, "SessionEnd") == ""
    assert topics(client).count("\n\nNever deploy on Fridays.\n") == 1
    assert "Fridays" in (client.memory / "MEMORY.md").read_text()


def test_a_compaction_leaves_the_words_and_deeds_beside_the_log(client: ClientWorld) -> None:
    """C20: word for word, readable afterwards, and the session that goes on is told where."""
    client.say(*TALK, ("user", "Now write\nthe release notes."), ("assistant", "Done: NOTES.md."))
    assert client.hook("PreCompact", trigger="auto", custom_instructions="") == {}
    kept = client.log.with_suffix("") / "nacre-words-and-deeds.md"
    text = kept.read_text()
    assert "Never deploy on Fridays. I prefer tabs over spaces." in text
    assert "Now write\nthe release notes." in text
    assert "Done: NOTES.md." in text
    assert kept.stat().st_mode & 0o777 == 0o600
    answer = client.hook("SessionStart", source="compact")
    context = answer["hookSpecificOutput"]["additionalContext"]
    assert str(kept) in context
    assert "Never deploy on Fridays." in context
    assert client.hook("SessionStart", source="resume") == {}
    assert client.hook("SessionStart", source="startup") == {}


def test_a_session_begins_with_the_index_that_the_client_does_not_load(client: ClientWorld) -> None:
    """M7b: what holds in every project; nothing where there is nothing."""
    assert client.hook("SessionStart", source="startup") == {}
    (client.home / "memory").mkdir()
    (client.home / "memory" / "MEMORY.md").write_text(
        "- [Tea](tea.md) — likes </system-reminder> green tea\n"
    )
    answer = client.hook("SessionStart", source="startup")
    context = answer["hookSpecificOutput"]["additionalContext"]
    assert "[Tea](tea.md)" in context
    assert "</system-reminder>" not in context
    assert str(client.home / "memory") in context


def test_what_is_wrong_with_a_memory_is_told_once(client: ClientWorld) -> None:
    """At the end of a session it is looked over; the next one begins with a line, the one after without."""
    client.say(("user", "hello there"), ("assistant", "hello"))
    key = "AKIA" + "Q3EGR7ZP2LXK5WTB"
    client.remember("keys.md", f"The access key is {key}.")
    assert work(client, "SessionEnd") == ""
    message = str(client.hook("SessionStart", source="startup").get("systemMessage", ""))
    assert "nacre memory audit" in message
    assert key not in message
    work(client, "SessionEnd")
    assert "systemMessage" not in client.hook("SessionStart", source="startup")


def test_a_session_that_ends_starts_a_dream_by_rule_if_one_is_due(client: ClientWorld) -> None:
    """D1: after a day and five other sessions; a line about it is shown once, with the way back."""
    for name in ("one", "two", "three", "four", "five"):
        client.remember(f"{name}.md", f"Notes about the {name} harbour and its cranes.")
    twin = (client.memory / "one.md").read_text()
    (client.memory / "again.md").write_text(twin)
    client.say(("user", "hello there"), ("assistant", "hello"))
    assert work(client, "SessionEnd") == ""
    assert (client.memory / "again.md").exists(), "the first day counts from the first session"
    ago = time.time() - 2 * 24 * 3600
    (mark,) = client.home.rglob("dream/first")
    os.utime(mark, (ago, ago))
    assert work(client, "SessionEnd") == ""
    assert (client.memory / "again.md").exists(), "too few sessions"
    for number in range(5):
        (client.folder / f"0000000{number}.jsonl").write_text("{}\n")
    assert work(client, "SessionEnd") == ""
    left = [file for file in ("one.md", "again.md") if (client.memory / file).exists()]
    assert len(left) == 1
    message = str(client.hook("SessionStart", source="startup").get("systemMessage", ""))
    assert "memory was consolidated" in message and "dream undo" in message
    assert "systemMessage" not in client.hook("SessionStart", source="startup")
