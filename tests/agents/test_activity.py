"""What an agent is doing, read off its newest call."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.agents.activity import MAX_CHARS, MAX_WORDS, REPLYING, THINKING, call_activity, current_activity
from nacre.messages.blocks import Block, Json, Role, Text, Thinking, ToolCall, ToolResult
from nacre.messages.records import Said
from nacre.messages.view import View

AT = datetime(2026, 1, 1, tzinfo=UTC)


def said(number: int, role: Role, *blocks: Block) -> Said:
    return Said(id=f"r{number}", at=AT, role=role, blocks=blocks)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("Read", {"file_path": "/w/src/loop.py", "limit": 20}, "Reading loop.py"),
        ("Grep", {"pattern": "parse_hooks", "path": "src"}, "Searching for parse_hooks"),
        ("Glob", {"pattern": "*.py"}, "Listing *.py"),
        ("Edit", {"file_path": "a/team.py", "old_string": "x", "new_string": "y"}, "Editing team.py"),
        ("Write", {"file_path": "plan.md", "content": "# Plan\n"}, "Writing plan.md"),
        ("WebFetch", {"url": "https://example.org/a?b=c", "prompt": "what"}, "Fetching example.org"),
        ("SendMessage", {"to": "reviewer-1", "message": "look"}, "Asking reviewer-1"),
        ("SendMessage", {"to": "*", "message": "look"}, "Asking everyone"),
        ("Agent", {"description": "d", "prompt": "p", "subagent_type": "explore"}, "Starting explore"),
        ("TaskStop", {"name": "explorer"}, "Stopping explorer"),
        ("mcp__github__list_issues", {"path": "x"}, "Calling github: list_issues"),
        ("deploy", {"to": "staging"}, "Calling deploy"),
        ("str_replace_based_edit_tool", {"command": "view", "path": "b/c.rs"}, "Reading c.rs"),
    ],
)
def test_a_call_is_told_as_a_present_participle_with_the_name_that_matters(
    name: str, arguments: dict[str, Json], words: str
) -> None:
    """A7."""
    assert call_activity(ToolCall("1", name, arguments)) == words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("pytest -q", "Running pytest"),
        (".venv/bin/pytest tests/agents", "Running pytest"),
        ("cd /w && make docs", "Running make docs"),
        ("sudo timeout -k 5 60 python3 -m mypy src", "Running mypy"),
        ("FOO=1 uv run pytest -q | tail -3", "Running pytest"),
        ("python scripts/run.py --fast", "Running run.py"),
        ("python -c 'print(1)'", "Running python"),
        ("git commit -m 'x y'", "Running git commit"),
        ("git --version", "Running git"),
        ("npx eslint src", "Running eslint"),
        ("for f in *; do cat $f; done", "Running for"),
        ("echo done", "Running echo"),
        ("sudo", "Running sudo"),
        ("python -m", "Running python"),
    ],
)
def test_of_a_command_line_the_program_that_matters_is_named(command: str, words: str) -> None:
    """A7: what only makes way for it is left out."""
    assert call_activity(ToolCall("1", "Bash", {"command": command})) == words


def test_the_newest_reply_counts_and_of_its_calls_the_last() -> None:
    calls = (ToolCall("1", "Read", {"file_path": "a.py"}), ToolCall("2", "Read", {"file_path": "b.py"}))
    results = (ToolResult("1", (Text("one"),)), ToolResult("2", (Text("two"),)))
    asked = View.of([said(1, "user", Text("look at both"))])
    assert current_activity(asked) == THINKING
    called = asked.after(said(2, "assistant", Thinking("hm"), Text("Both."), *calls))
    assert current_activity(called) == "Reading b.py"
    answered = called.after(said(3, "user", *results))
    assert current_activity(answered) == "Reading b.py"
    assert current_activity(answered.after(said(4, "assistant", Text("They differ.")))) == REPLYING
    assert current_activity(View()) == THINKING


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
known_keys = st.sampled_from(
    ["file_path", "path", "command", "cmd", "pattern", "url", "query", "to", "name", "content", "old_string"]
)
tool_names = st.text(min_size=1) | st.sampled_from(["Read", "Bash", "SendMessage", "Agent", "mcp__a__b"])


@given(tool_names, st.dictionaries(known_keys | st.text(), json_values, max_size=5))
def test_any_call_makes_one_short_line_that_a_terminal_can_show(
    name: str, arguments: dict[str, Json]
) -> None:
    """A7: models write anything into a call, and the line is shown to people."""
    words = call_activity(ToolCall("1", name, arguments))
    assert words.strip() == words
    assert words
    assert words.isprintable()
    assert len(words) <= MAX_CHARS
    assert len(words.split()) <= MAX_WORDS


def test_a_long_query_is_cut_to_five_words() -> None:
    """A7."""
    query = ToolCall("1", "recall", {"query": "what did we decide about the deploy"})
    assert call_activity(query) == "Recalling what did we decide…"
    assert call_activity(ToolCall("1", "TeamTasks", {})) == "Looking after the team's tasks"
