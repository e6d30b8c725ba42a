"""Tool calls and results as people read them: `Read billing.py`, `Edit billing.py +2 −1`, a diff."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from nacre.formatting import counted, shorten
from nacre.messages.blocks import Document, Image, Json, ToolCall, ToolResult
from nacre.messages.media import media_facts

MAX_ARGUMENT_CHARS = 80
"""Maximum length of a call's arguments; the whole call is in the transcript."""
MAX_PATH_CHARS = 50
"""Maximum length of a path: its end names the file."""
MAX_RESULT_CHARS = 100
"""Maximum length of a result's line."""
TAIL_LINES = 3
"""Last lines shown of a command's output."""
_LEFT_OUT = re.compile(r"\[[\d,]+ more characters left out\b")
MAX_LISTED = 20
"""Tasks shown of a list."""
_PATHS = frozenset({"Read", "Edit", "Write"})
_MAIN = {
    "Agent": "description",
    "Bash": "command",
    "Glob": "pattern",
    "Grep": "pattern",
    "Skill": "skill",
    "WebFetch": "url",
    "correct": "text",
    "forget": "name",
    "recall": "query",
    "remember": "text",
}
"""The argument that names what a call is about."""


def call_line(call: ToolCall, cwd: Path | None = None) -> str:
    """Return a call in a few words, such as `Read src/app.py` or `Edit src/app.py +2 −1`.

    `cwd` is the working directory of the session, by default that of the process.
    """
    cwd = cwd or Path.cwd()
    given = call.input
    if call.name in _PATHS and isinstance(path := given.get("file_path"), str):
        return f"{call.name} {short_path(path, cwd)}{_counts(call)}"
    if call.name == "TaskList":
        tasks = given.get("tasks")
        return f"TaskList {len(tasks)} tasks" if isinstance(tasks, list) else "TaskList"
    main = given.get(_MAIN.get(call.name, ""))
    if isinstance(main, str):
        where = given.get("path")
        below = (
            f" in {short_path(where, cwd)}" if isinstance(where, str) and where not in {"", str(cwd)} else ""
        )
        return f"{call.name} {shorten(main, MAX_ARGUMENT_CHARS)}{below}"
    arguments = ", ".join(f"{name}={_short(value)}" for name, value in given.items())
    return f"{call.name}({shorten(arguments, MAX_ARGUMENT_CHARS)})"


def short_path(path: str, cwd: Path | None = None) -> str:
    """Return a path relative to the working directory if it is below it; of a long one, its end."""
    path = path.removeprefix(f"{cwd or Path.cwd()}{os.sep}")
    return path if len(path) <= MAX_PATH_CHARS else f"…{path[1 - MAX_PATH_CHARS :]}"


def result_line(result: ToolResult, tool: str = "") -> str:
    """Return the end of a command's output, the length of a file, else the first line.

    The task list is returned whole.
    """
    lines = result.text.strip().splitlines()
    if not lines:
        media = [media_facts(one).text for one in result.content if isinstance(one, Image | Document)]
        return ", ".join(media) or "no output"
    if tool == "TaskList" and not result.is_error:
        return "\n".join(shorten(line, MAX_RESULT_CHARS) for line in lines[:MAX_LISTED])
    if tool == "Read" and not result.is_error:
        return f"{len(lines)} line{'s' * (len(lines) != 1)}"
    if tool == "Bash":
        if _LEFT_OUT.match(lines[-1]):
            lines = [*lines[:-2], "…"]  # the line before it is cut
        tail = [shorten(line, MAX_RESULT_CHARS) for line in lines[-TAIL_LINES:]]
        before = len(lines) - len(tail)
        return "\n".join([*([f"… {counted(before, 'line')} before"] if before else []), *tail])
    more = f" (+{counted(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
    return shorten(lines[0].strip(), MAX_RESULT_CHARS) + more


def call_diff(call: ToolCall) -> list[str]:
    """Return what an Edit or a Write changes, as lines that begin with `+`, `-` or a space."""
    match call.name, call.input:
        case "Edit", {"old_string": str(old), "new_string": str(new)}:
            compared = difflib.ndiff(old.splitlines(), new.splitlines())
            return [line[0] + line[2:] for line in compared if line[0] in "+- "]
        case "Write", {"content": str(content)}:
            return [f"+{line}" for line in content.splitlines()]
        case _:
            return []


def first_line_of(result: str) -> int:
    """Return the line that an Edit changed, as its result states it; 1 if it does not."""
    found = re.search(r"\blines? (\d+)", result)
    return int(found[1]) if found else 1


def numbered(diff: Sequence[str], first: int) -> list[tuple[str, str]]:
    """Return each line of a diff with its number: in the old file for removed lines, else in the new one."""
    old = new = first
    rows = []
    for line in diff:
        rows.append((str(old if line.startswith("-") else new), line))
        old += not line.startswith("+")
        new += not line.startswith("-")
    return rows


def _counts(call: ToolCall) -> str:
    diff = call_diff(call)
    added = sum(line.startswith("+") for line in diff)
    removed = sum(line.startswith("-") for line in diff)
    return f" +{added}" * (added > 0) + f" −{removed}" * (removed > 0)


def _short(value: Json) -> str:
    return value if isinstance(value, str) else repr(value)
