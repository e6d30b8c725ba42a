"""Calls and results in the words of the person who reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.app.call_text import call_diff, call_line, first_line_of, numbered, result_line
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult


@pytest.mark.parametrize(
    ("name", "given", "line"),
    [
        ("Read", {"file_path": "billing.py", "limit": 3}, "Read billing.py"),
        ("Read", {"file_path": str(Path.cwd() / "src/a.py")}, "Read src/a.py"),
        ("Edit", {"file_path": "a.py", "old_string": "x\ny", "new_string": "x\nz\nw"}, "Edit a.py +2 −1"),
        ("Write", {"file_path": "a.py", "content": "x\ny\n"}, "Write a.py +2"),
        ("Bash", {"command": "make all", "timeout": 5}, "Bash make all"),
        ("Grep", {"pattern": "def x", "path": "src"}, "Grep def x in src"),
        ("TaskList", {"tasks": [{"title": "a"}, {"title": "b"}]}, "TaskList 2 tasks"),
        ("TaskList", {}, "TaskList"),
        ("github__issue", {"number": 3}, "github__issue(number=3)"),
        ("Read", {"file_path": 3}, "Read(file_path=3)"),
    ],
)
def test_a_call_is_named_by_what_it_is_about(name: str, given: JsonObject, line: str) -> None:
    assert call_line(ToolCall("c", name, given)) == line


@pytest.mark.parametrize(
    ("tool", "text", "line"),
    [
        ("Bash", "a\nb\nc\nd\ne", "… 2 lines before\nc\nd\ne"),
        ("Bash", "a\nb", "a\nb"),
        ("Bash", "a\nb\nc\nhal\n[9 more characters left out; all are in /x.]", "… 1 line before\nb\nc\n…"),
        ("Read", "1\ta\n2\tb", "2 lines"),
        ("Grep", "a:1\nb:2", "a:1 (+1 line)"),
        ("TaskList", "1. [x] one\n2. [ ] two", "1. [x] one\n2. [ ] two"),
        ("Bash", "", "no output"),
    ],
)
def test_a_result_shows_what_matters_of_it(tool: str, text: str, line: str) -> None:
    assert result_line(ToolResult("c", (Text(text),) if text else ()), tool) == line


def test_a_change_has_the_numbers_of_its_lines() -> None:
    call = ToolCall("c", "Edit", {"old_string": "a\nb\nc", "new_string": "a\nB\nc"})
    first = first_line_of("Edited billing.py: 1 place, line 6.")
    assert numbered(call_diff(call), first) == [("6", " a"), ("7", "-b"), ("7", "+B"), ("8", " c")]


def test_a_search_in_this_directory_does_not_name_it() -> None:
    for path, line in ((Path.cwd(), "Grep x"), (Path.cwd() / "src", "Grep x in src")):
        assert call_line(ToolCall("c", "Grep", {"pattern": "x", "path": str(path)})) == line
