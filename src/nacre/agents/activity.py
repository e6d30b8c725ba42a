"""What an agent is doing, in a few words read off its newest call: needs no model and costs nothing (A7).

The words are for people: one line, bounded, without a character that could do anything to a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath
from urllib.parse import urlsplit

from nacre.memory.format.entry import clipped, one_line
from nacre.messages.actions import OLD_TEXTS, line_of
from nacre.messages.blocks import JsonObject, Message, ToolCall
from nacre.messages.view import View
from nacre.tools.shell import programs

MAX_CHARS = 60
"""Of the whole line: three to five words and a name; more does not fit beside others on a terminal."""
MAX_NAME_CHARS = 40
"""Of a file, a pattern or a program in it."""
MAX_COMMAND_CHARS = 4_000
"""Of a command line that is looked at: what a script of more does does not show in its first program."""
THINKING = "Thinking about the task"
"""While nothing was said yet, and right behind a summary."""
REPLYING = "Writing a reply"

BY_NAME: dict[str, Callable[[JsonObject], str]] = {
    "SendMessage": lambda given: f"Asking {_everyone(_word(given, 'to'))}",
    "Agent": lambda given: f"Starting {_word(given, 'name', 'subagent_type') or 'an agent'}",
    "TaskStop": lambda given: f"Stopping {_word(given, 'name') or 'an agent'}",
    "TaskList": lambda given: "Updating the task list",
    "TeamTasks": lambda given: "Looking after the team's tasks",
    "Skill": lambda given: f"Loading skill {_word(given, 'skill', 'name')}",
    "remember": lambda given: "Saving a memory",
    "recall": lambda given: f"Recalling {_word(given, 'query') or 'memories'}",
    "forget": lambda given: "Forgetting a memory",
    "correct": lambda given: "Correcting a memory",
}
"""Tools of our own whose arguments say less than their name."""
_LISTS = re.compile(r"glob|list|^ls$|find_files", re.IGNORECASE)
_MCP = re.compile(r"mcp__(.+?)__(.+)", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")

ASIDE = frozenset({"cd", "pushd", "popd", "export", "set", "source", ".", "echo", "printf", "sleep", "true"})
"""Programs that only make way for the one that matters."""
WRAPPERS = frozenset({"sudo", "env", "time", "timeout", "nice", "nohup", "stdbuf", "command", "exec"})
RUNNERS = frozenset({"npx", "uvx", "pipx", "bunx"})
WITH_RUN = frozenset({"uv", "poetry", "pdm", "hatch", "rye", "pipenv"})
INTERPRETERS = frozenset({"python", "python3", "node", "ruby", "perl", "bash", "sh", "deno"})
WITH_VERB = frozenset(
    {"git", "cargo", "go", "npm", "pnpm", "yarn", "docker", "kubectl", "make", "just", "pip", "gh", "nacre"}
)
"""Programs of which the next word says what they do."""


def doing(view: View) -> str:
    """What is being done now, as a present participle with the name of the file, pattern or program."""
    newest = next((item for item in reversed(view.items) if item.role == "assistant"), None)
    if newest is None:
        return THINKING
    return doing_in(Message("assistant", tuple(part.block for part in newest.parts)))


def doing_in(reply: Message) -> str:
    """The same, where the newest reply is at hand: of its calls the last one counts."""
    return words_for(reply.tool_calls[-1]) if reply.tool_calls else REPLYING


def words_for(call: ToolCall) -> str:
    """The same for one call."""
    found = _MCP.fullmatch(call.name)
    if found is not None:
        text = f"Calling {found[1]}: {found[2]}"
    elif call.name in BY_NAME:
        text = BY_NAME[call.name](call.input)
    else:
        text = _by_arguments(call)
    return shown(text)


def shown(text: str) -> str:
    """On one line, without what shows nothing, and no longer than a line may be."""
    return clipped(one_line(text), MAX_CHARS)


def _by_arguments(call: ToolCall) -> str:
    """Other programs' tools are understood as well: what they are given says what they do."""
    line = line_of(call)
    match line.kind:
        case "read":
            return f"Reading {_file(line.about)}"
        case "edit":
            is_edit = "edits" in call.input or any(name in call.input for name in OLD_TEXTS)
            return f"{'Editing' if is_edit else 'Writing'} {_file(line.about)}"
        case "search":
            return f"{'Listing' if _LISTS.search(call.name) else 'Searching for'} {_name(line.about)}"
        case "command":
            command = call.input.get("command", call.input.get("cmd"))
            return f"Running {_program(command if isinstance(command, str) else line.about)}"
        case "web":
            return f"Fetching {_host(line.about)}"
        case _:
            return f"Calling {_name(call.name) or 'a tool'}"


def _word(given: JsonObject, *names: str) -> str:
    """The first of these arguments that is a text."""
    texts = (given.get(name) for name in names)
    return next((_name(text) for text in texts if isinstance(text, str) and _name(text)), "")


def _everyone(name: str) -> str:
    return {"*": "everyone", "": "another agent"}.get(name, name)


def _name(text: str) -> str:
    return clipped(one_line(text[: 4 * MAX_NAME_CHARS]), MAX_NAME_CHARS)


def _file(path: str) -> str:
    return _name(PurePath(path.strip()).name) or _name(path) or "a file"


def _host(address: str) -> str:
    try:
        host = urlsplit(address.strip()).hostname
    except ValueError:
        host = None
    return _name(host or address) or "a page"


def _program(command: str) -> str:
    """The program of a command line that matters, with the word that says what it does."""
    command = command[:MAX_COMMAND_CHARS]
    found = programs(command)
    lines = [one.argv for one in found or () if one.argv] or [tuple(command.split())]
    telling = next((argv for argv in lines if argv and argv[0] not in ASIDE), lines[0])
    return _name(_called(telling)) or "a command"


def _called(argv: tuple[str, ...]) -> str:
    """`pytest` for `sudo .venv/bin/python -m pytest -q`."""
    words = [word for word in argv if word]
    while words and (_ASSIGNMENT.match(words[0]) or PurePath(words[0]).name in WRAPPERS):
        words = _past_options(words[1:])
    if not words:
        return argv[0] if argv else ""
    program = PurePath(words[0]).name
    rest = words[1:]
    if program in INTERPRETERS and rest[:1] == ["-m"]:
        return rest[1] if rest[1:] else program
    if program in WITH_RUN and rest[:1] == ["run"]:
        return _called(tuple(_past_options(rest[1:]))) or program
    plain = next((word for word in rest if not word.startswith("-")), "")
    if program in RUNNERS | INTERPRETERS and plain and (program in RUNNERS or rest[0] == plain):
        return PurePath(plain).name
    return f"{program} {plain}".rstrip() if program in WITH_VERB and rest[:1] == [plain] else program


def _past_options(words: list[str]) -> list[str]:
    """Behind a wrapper's own options and figures: `timeout -k 5 60 pytest`."""
    while words and (words[0].startswith("-") or words[0].rstrip("smhd").replace(".", "").isdecimal()):
        words = words[1:]
    return words
