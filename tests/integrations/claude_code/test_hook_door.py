"""What hooks are told and what they leave for one another, whatever anybody writes there."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.errors import NacreError
from nacre.integrations.claude_code.extract import wrote_itself
from nacre.integrations.claude_code.hooks import NOTHING, HookAnswer, answer, work
from nacre.integrations.claude_code.input import EVENTS, HookInput, client_home, is_attended, transcript_of
from nacre.integrations.claude_code.recall import MAX_COLD, fitting
from nacre.integrations.claude_code.state import FOLDER, HookState, change_state, forget_old, state_of
from nacre.memory.format.entry import Entry
from nacre.memory.recall.base import AttachedMemory, RankedMemory
from nacre.memory.recall.recall import attach
from nacre.messages.blocks import Json, ToolCall
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.testing import FrozenClock
from tests.scale import scaled

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("transcript_path", "cwd", "prompt", "source", "stop_hook_active", "agent_id", "hook_event_name")


@settings(max_examples=scaled(40))
@given(
    event=st.sampled_from(EVENTS),
    document=st.fixed_dictionaries(
        {"session_id": st.just("s-1") | values}, optional=dict.fromkeys(FIELDS, values)
    ),
)
def test_whatever_is_told_ends_in_an_answer_or_a_line(event: str, document: dict[str, Json]) -> None:
    with TemporaryDirectory() as home:
        try:
            answered = answer(
                event, json.dumps(document).encode(), {"HOME": home, "CLAUDE_PROJECT_DIR": home}
            )
        except NacreError as error:
            assert "\n" not in str(error)
        else:
            assert answered.context == answered.message == ""


def test_an_answer_is_in_the_clients_shape_and_nothing_is_no_answer() -> None:
    assert NOTHING.as_json("Stop") == {}
    assert HookAnswer(context="c", message="m").as_json("SessionStart") == {
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "c"},
        "systemMessage": "m",
    }


def test_the_clients_folder_is_found_as_the_client_finds_it(tmp_path: Path) -> None:
    assert client_home({"HOME": str(tmp_path)}) == tmp_path / ".claude"
    assert client_home({"HOME": "/x", "CLAUDE_CONFIG_DIR": str(tmp_path), "NACRE_HOME": "/y"}) == tmp_path
    assert is_attended({"CLAUDE_CODE_ENTRYPOINT": "cli"})
    assert not is_attended({"CLAUDE_CODE_ENTRYPOINT": "sdk-py"})


def test_only_a_log_among_the_clients_own_is_read(tmp_path: Path) -> None:
    """Whoever tells a hook a path: links, dots and other sessions' logs lead nowhere."""
    folder = tmp_path / "home" / "projects" / "-x"
    folder.mkdir(parents=True)
    log, outside = folder / "s-1.jsonl", tmp_path / "s-1.jsonl"
    for path in (log, outside, folder / "s-2.jsonl", folder / "s-1.md"):
        path.write_text("")
    (folder / "link").symlink_to(tmp_path)
    told = HookInput(event="Stop", session="s-1", home=tmp_path / "home", cwd=tmp_path)
    assert transcript_of(replace(told, transcript=str(log))) == log
    wrong = (outside, folder / "link/s-1.jsonl", folder / "../../../s-1.jsonl", folder / "s-2.jsonl")
    for one in (*map(str, wrong), str(folder / "s-1.md"), "", "s-1.jsonl", f"{log}\0", "~/s-1.jsonl"):
        with pytest.raises(NacreError, match="not read"):
            transcript_of(replace(told, transcript=one))


@pytest.mark.slow
def test_a_large_memory_without_an_index_keeps_nobody_waiting(tmp_path: Path) -> None:
    """The prompt goes without; what makes the index outlives it (R9)."""
    environ = {"HOME": str(tmp_path), "CLAUDE_PROJECT_DIR": str(tmp_path)}
    slug = re.sub("[^A-Za-z0-9]", "-", str(tmp_path))
    memory = tmp_path / ".claude" / "projects" / slug / "memory"
    memory.mkdir(parents=True)
    for number in range(MAX_COLD + 1):
        (memory / f"m_{number}.md").touch()
    stdin = b'{"session_id": "s-1", "prompt": "when do releases leave"}'
    assert answer("UserPromptSubmit", stdin, environ) == HookAnswer(later=True)
    work("UserPromptSubmit", stdin, environ)
    assert answer("UserPromptSubmit", stdin, environ) == NOTHING


def test_a_hook_gives_its_room_to_the_best_memory_even_if_newer_ones_come_before_it(tmp_path: Path) -> None:
    """R14: the order by age decides what is read first, not what is dropped."""
    memory = tmp_path / "memory"
    memory.mkdir()
    picks = list[AttachedMemory]()
    for name, confidence in (("newest.md", 0.6), ("newer.md", 0.7), ("best.md", 0.9)):
        (memory / name).write_text("x" * 4_000)
        entry = Entry(file=name)
        ranked = RankedMemory(entry=entry, directory=memory, score=1.0, confidence=confidence)
        picks.append(attach(ranked, FrozenClock().now()) or pytest.fail(name))
    assert [one.ranked.file for one in fitting(picks)] == ["newer.md", "best.md"]
    assert fitting([]) == []


def test_what_one_hook_leaves_the_next_one_finds(tmp_path: Path) -> None:
    known = HookState(attached={"/m/a.md": 3}, cursor="u-1", failures=1, notices=("x",))
    assert change_state(tmp_path, "s", lambda state: known) == HookState()
    assert state_of(tmp_path, "s") == known
    assert change_state(tmp_path, "s", lambda state: replace(state, cursor="u-2")) == known
    assert state_of(tmp_path, "s").attached_bytes == 3
    assert state_of(tmp_path, "t") == HookState()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"attached": [1], "cursor": 3, "notices": "x"}', "[" * 99_999]
)
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / FOLDER / "s.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert state_of(tmp_path, "s") == HookState()


def test_what_nobody_goes_on_with_is_taken_away(tmp_path: Path) -> None:
    change_state(tmp_path, "s", lambda state: replace(state, cursor="u-1"))
    forget_old(tmp_path)
    assert state_of(tmp_path, "s").cursor == "u-1"
    clock = FrozenClock()
    clock.advance(10 * 365 * 86_400)
    forget_old(tmp_path, clock=clock)
    assert state_of(tmp_path, "s") == HookState()


@pytest.mark.parametrize(
    ("name", "given_to", "writes"),
    [
        ("Write", {"file_path": "{memory}/a.md"}, True),
        ("Edit", {"file_path": "{memory}/../memory/a.md"}, True),
        ("Write", {"file_path": "/elsewhere/a.md"}, False),
        ("Read", {"file_path": "{memory}/a.md"}, False),
        ("Bash", {"command": "rm {memory}/a.md"}, True),
        ("Bash", {"command": "cat {memory}/a.md"}, False),
        ("Bash", {"command": "make test"}, False),
        ("mcp__nacre__memory_save", {"text": "x"}, True),
        ("mcp__nacre__memory_correct", {"name": "x", "text": "y"}, True),
        ("mcp__nacre__memory_undo", {}, True),
        ("mcp__nacre__memory_recall", {"query": "x"}, False),
        ("Write", {"file_path": "a\0b"}, False),
        ("Write", {}, False),
    ],
)
def test_a_call_that_writes_memory_is_told_from_one_that_does_not(
    tmp_path: Path, name: str, given_to: dict[str, str], writes: bool
) -> None:
    """E3: every write tool, any form of the path."""
    directory = tmp_path / "p" / "memory"
    arguments: dict[str, Json] = {key: text.format(memory=directory) for key, text in given_to.items()}
    clock = FrozenClock()
    said = Said(
        id="u-1", at=clock.now(), role="assistant", blocks=(ToolCall(id="t", name=name, input=arguments),)
    )
    view = View.of([said])
    assert wrote_itself(view, "", directory) is writes
    assert not wrote_itself(view, "u-1", directory)
