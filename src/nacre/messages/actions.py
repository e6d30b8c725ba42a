"""Renders a tool call and its outcome in one line, with the names that may be needed later (C17).

Read off the arguments and not the tool's name, so that other programs' tools are understood as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from nacre.formatting import counted
from nacre.messages.blocks import Json, JsonObject, ToolCall, ToolResult

ActionCategory: TypeAlias = Literal["read", "edit", "command", "search", "web", "other", "reply", "remark"]
"""Kind of an action; a remark is the text of a reply before a tool call."""

PATHS = ("file_path", "path", "notebook_path", "filePath", "filename", "file")
OLD_TEXTS = ("old_string", "old_str", "old_source")
NEW_TEXTS = ("new_string", "new_str", "new_source", "content", "file_text", "insert_text")
COMMANDS = ("command", "cmd")
PATTERNS = ("pattern", "regex")
ADDRESSES = ("url",)
QUERIES = ("query",)
PLACES = ("path", "glob", "type")
"""Arguments that name the path of a search."""
TITLES = ("title", "content", "subject")
STATES = ("state", "status")
QUESTIONS = ("questions", "question")
FILE_ACTS = frozenset({"view", "create", "str_replace", "insert", "undo_edit"})
"""Values of `command` in tools for files."""

MAX_COMMAND = 240
"""Maximum characters of a command."""
MAX_QUOTE = 100
"""Maximum characters of a quoted line of a file."""
MAX_VALUE = 60
"""Maximum characters of an unknown argument."""
MAX_VALUES = 4
MAX_ERROR = 200
MAX_REFUSAL = 400
"""Maximum characters of the reason why a user refused a call."""
MAX_ANSWER = 300
MAX_LOOKED_AT = 20_000
"""Characters of a failed command's output that are searched for the error line."""

MAX_NEW = 4_000
"""Maximum characters of the new lines of one change."""
MAX_OUTLINE = 1_500
"""Maximum characters of the defining lines of a file, or of a page."""
MAX_REPORT = 4_000
"""Maximum characters of another agent's report."""

DEFINES = re.compile(
    r"(?:\s*\d+(?:→|\t))?(?:(?: {0,4}|\t)(?:export |public |pub |default |abstract |static |async )*"
    r"(?:def|class|func|fn|function|type|interface|struct|enum|trait|impl|module)"
    r"|(?:export |pub )?(?:const|var|let))\b"
)
"""At the start of a line or one indent level in; names of variables only at the top level."""
EXIT_CODE = re.compile(r"\s*Exit code (-?\d+)\b")
TELLS_WHY = re.compile(
    r"\b(?:error|errors|fatal|panic|exception|fail|failed|failure|denied|not found|no such)\b|Error\b", re.I
)
REFUSED = re.compile(r"\s*The user doesn't want to (?:proceed|take this action)")
SAID = "the user said:"


class ActionLine(NamedTuple):
    """A call as text."""

    kind: ActionCategory
    about: str
    """The file, command, pattern or URL; empty if there is none."""
    text: str
    detail: str = ""
    """Further detail, over several lines."""


def line_of(call: ToolCall) -> ActionLine:
    """Return a call as text."""
    arguments = call.input
    path = _first(arguments, PATHS)
    command = _first(arguments, COMMANDS)
    pattern = _first(arguments, PATTERNS)
    url = _first(arguments, ADDRESSES)
    if path and _changes(arguments):
        return ActionLine("edit", path, f"{call.name} {path}: {_change(arguments)}", _new_lines(arguments))
    if pattern:
        where = " ".join(text for name in PLACES if (text := _first(arguments, (name,))))
        return ActionLine(
            "search", pattern, f'{call.name} "{one_line(pattern, MAX_COMMAND)}"{where and f" in {where}"}'
        )
    if path and (not command or command in FILE_ACTS):
        return ActionLine("read", path, f"{call.name} {path}{_range(arguments)}")
    if command:
        return ActionLine(
            "command", one_line(command, MAX_COMMAND), f"{call.name}: {one_line(command, MAX_COMMAND)}"
        )
    if url:
        return ActionLine("web", url, f"{call.name} {url}")
    return ActionLine("other", _first(arguments, QUERIES), _plain(call))


def outcome_of(result: ToolResult) -> str:
    """Return the outcome: empty on success, else the exit code and the error line."""
    text = result.text
    found = EXIT_CODE.match(text)
    if found is not None and found[1] != "0":
        why = _error_line(text[found.end() :])
        return f"exit {found[1]}: {why}" if why else f"exit {found[1]}"
    if not result.is_error:
        return ""
    if REFUSED.match(text):
        said = text.partition(SAID)[2]
        return (
            f'refused by the person: "{one_line(said, MAX_REFUSAL)}"'
            if said.strip()
            else "refused by the person"
        )
    return _error_line(text.replace("<tool_use_error>", "").replace("</tool_use_error>", "")) or "failed"


def answer_of(call: ToolCall, result: ToolResult) -> str:
    """Return the user's answer to a question; empty for other calls."""
    if result.is_error or not any(name in call.input for name in QUESTIONS):
        return ""
    return one_line(result.text, MAX_ANSWER)


def report_of(call: ToolCall, kind: ActionCategory, result: ToolResult) -> str:
    """Return the part of a result that is expensive to get again."""
    match kind:
        case "read":
            lines = [line.lstrip(" ") for line in result.text.splitlines() if DEFINES.match(line)]
            return "\n".join(lines)[:MAX_OUTLINE]
        case "web":
            return result.text[:MAX_OUTLINE]
        case "other" if "prompt" in call.input:
            return result.text[:MAX_REPORT]
        case _:
            return ""


def one_line(text: str, limit: int) -> str:
    """Return the text on one line, cut to `limit` characters."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit and len(text) <= 4 * limit else line[: limit - 1] + "…"


def _first(arguments: JsonObject, names: tuple[str, ...]) -> str:
    """Return the first text argument with one of these names."""
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _range(arguments: JsonObject) -> str:
    match arguments.get("offset"), arguments.get("limit"), arguments.get("view_range"):
        case _, _, [int(first), int(last)]:
            return f" {first}-{last}"
        case int(first), int(count), _:
            return f" {first}-{first + count - 1}"
        case int(first), _, _:
            return f" from {first}"
        case _, int(count), _:
            return f" 1-{count}"
        case _:
            return ""


def _changes(arguments: JsonObject) -> list[tuple[str, str]]:
    """Return old and new text of every edit in a call."""
    edits = arguments.get("edits")
    several = [one for one in edits if isinstance(one, dict)] if isinstance(edits, list) else []
    found = [(_first(one, OLD_TEXTS), _first(one, NEW_TEXTS)) for one in [arguments, *several]]
    is_edit = any(name in arguments for name in (*OLD_TEXTS, *NEW_TEXTS))
    return [one for one in found if any(one)] or ([("", "")] if is_edit else [])


def _change(arguments: JsonObject) -> str:
    changes = _changes(arguments)
    old, new = changes[0]
    more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
    if not old:
        lines = new.count("\n") + 1 if new else 0
        return f"{_quote(_significant(iter(new.splitlines())))} ({counted(lines, 'line')}){more}"
    return f"{_difference(old, new)}{more}"


def _new_lines(arguments: JsonObject) -> str:
    """Return the lines that an edit added."""
    found: list[str] = []
    for old, new in _changes(arguments):
        before = set(old.splitlines())
        found += [line for line in new.splitlines() if line.strip() and line not in before]
    return "\n".join(found)[:MAX_NEW] if len(found) > 1 else ""


def _difference(old: str, new: str) -> str:
    """Return the first lines in which two texts differ."""
    before = old.splitlines()
    after = new.splitlines()
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    gone = _significant(iter(before[same:]))
    came = _significant(iter(after[same:]))
    if not gone:
        return f"after {_quote(_significant(iter(reversed(before[:same]))))} added {_quote(came)}"
    return f"{_quote(gone)} -> {_quote(came)}" if came else f"{_quote(gone)} removed"


def _significant(lines: Iterator[str]) -> str:
    """Return the first line with a letter or digit."""
    return next((line for line in lines if any(char.isalnum() for char in line)), "")


def _quote(line: str) -> str:
    return f'"{one_line(line, MAX_QUOTE)}"'


def _plain(call: ToolCall) -> str:
    """Return the tool name and the arguments that fit on a line."""
    if tasks := _tasks(call.input):
        return f"{call.name}: {tasks}"
    if title := _first(call.input, ("subject", "title")):
        state = _first(call.input, STATES)
        return f'{call.name} "{one_line(title, MAX_QUOTE)}"{state and f": {state}"}'
    shown = [f"{name}={_short(value)}" for name, value in call.input.items() if _is_short(value)]
    return f"{call.name} {', '.join(shown[:MAX_VALUES])}".rstrip()


def _tasks(arguments: JsonObject) -> str:
    """Return the progress of a task list."""
    rows = next((value for value in arguments.values() if isinstance(value, list)), [])
    tasks = [(_first(row, TITLES), _first(row, STATES)) for row in rows if isinstance(row, dict)]
    if not tasks or not all(title and state for title, state in tasks):
        return ""
    done = sum(state in {"done", "completed"} for _, state in tasks)
    now = "; ".join(one_line(title, MAX_QUOTE) for title, state in tasks if state == "in_progress")
    return f"{done} of {len(tasks)} done{now and f', now: {now}'}"


def _is_short(value: Json) -> bool:
    return isinstance(value, (str, int, float)) and value is not False and value != ""


def _short(value: Json) -> str:
    return one_line(str(value), MAX_VALUE)


def _error_line(text: str) -> str:
    lines = [line for line in text[:MAX_LOOKED_AT].splitlines() if line.strip()]
    telling = next((line for line in lines if TELLS_WHY.search(line)), lines[0] if lines else "")
    return one_line(telling.strip(), MAX_ERROR)
