"""The six tools together: their order, their definitions, and a session's worth of calls."""

from __future__ import annotations

import subprocess
import sys

from nacre.messages.blocks import ToolCall
from nacre.messages.wire import canonical
from nacre.tools import default_tools
from nacre.tools.run import run_all
from nacre.tools.workspace import Workspace


def test_the_tools_are_sorted_by_name_and_only_three_just_read(tmp_path):
    assert [(tool.name, tool.read_only) for tool in default_tools(Workspace(tmp_path))] == [
        ("Bash", False),
        ("Edit", False),
        ("Glob", True),
        ("Grep", True),
        ("Read", True),
        ("Write", False),
    ]


def test_definitions_do_not_depend_on_the_place_or_the_run(tmp_path):
    """House rule 11: no path, time or chance in the first bytes of a request."""
    here = canonical([tool.definition for tool in default_tools(Workspace(tmp_path))])
    code = (
        "import sys, pathlib\n"
        "from nacre.messages.wire import canonical\n"
        "from nacre.tools import default_tools\n"
        "from nacre.tools.workspace import Workspace\n"
        "made = default_tools(Workspace(pathlib.Path('/')))\n"
        "sys.stdout.buffer.write(canonical([tool.definition for tool in made]))"
    )
    there = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    assert here == there


async def test_a_file_is_read_edited_and_run_in_one_reply(tmp_path):
    (tmp_path / "hello.sh").write_text("echo hello\n")
    tools = {tool.name: tool for tool in default_tools(Workspace(tmp_path))}
    calls = [
        ToolCall("1", "Read", {"file_path": "hello.sh"}),
        ToolCall("2", "Edit", {"file_path": "hello.sh", "old_string": "hello", "new_string": "goodbye"}),
        ToolCall("3", "Bash", {"command": "sh hello.sh"}),
        ToolCall("4", "Grep", {"pattern": "goodbye", "output_mode": "content"}),
        ToolCall("5", "Read", {}),
    ]
    results = await run_all(calls, tools)
    assert [(result.call_id, result.text, result.is_error) for result in results] == [
        ("1", "1\techo hello", False),
        ("2", "Edited hello.sh: 1 place, line 1.", False),
        ("3", "goodbye", False),
        ("4", "hello.sh\n1:echo goodbye", False),
        ("5", "Read: file_path is missing (a string)", True),
    ]
