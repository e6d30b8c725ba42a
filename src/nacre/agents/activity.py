"""What an agent is doing, in one line: by rule from its newest call, and on request from a cheap model (A7).

The text is for display: one line of limited length, without terminal control characters.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import urlsplit

from nacre import prompts
from nacre.errors import NacreError
from nacre.loop.fork import RequestSource
from nacre.memory.format.entry import clipped, one_line
from nacre.messages.actions import OLD_TEXTS, line_of
from nacre.messages.blocks import JsonObject, Message, ToolCall
from nacre.messages.events import REFUSAL, Reply, StartedOver
from nacre.messages.text import as_text
from nacre.messages.untrusted_text import neutralise
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider, Request
from nacre.session.meter import metered
from nacre.tools.shell import programs

MAX_CHARS = 60
"""Maximum length of the line: three to five words and a name; several must fit on a terminal."""
MAX_WORDS = 5
"""Maximum number of words in a line; what follows is cut off."""
MAX_NAME_CHARS = 40
"""Maximum length of a file name, pattern or program in the line."""
MAX_COMMAND_CHARS = 4_000
"""Maximum length of a parsed command line; the first program of a longer script says little about it."""
THINKING = "Thinking about the task"
"""Shown before the first reply and directly after a summary."""
REPLYING = "Writing a reply"

BY_NAME: dict[str, Callable[[JsonObject], str]] = {
    "SendMessage": lambda given: f"Asking {_everyone(_verb(given, 'to'))}",
    "Agent": lambda given: f"Starting {_verb(given, 'name', 'subagent_type') or 'an agent'}",
    "TaskStop": lambda given: f"Stopping {_verb(given, 'name') or 'an agent'}",
    "TaskList": lambda given: "Updating the task list",
    "TeamTasks": lambda given: "Looking after the team's tasks",
    "Skill": lambda given: f"Loading skill {_verb(given, 'skill', 'name')}",
    "remember": lambda given: "Saving a memory",
    "search_sessions": lambda given: f"Searching {_verb(given, 'text') or 'sessions'}",
    "recall": lambda given: f"Recalling {_verb(given, 'query') or 'memories'}",
    "forget": lambda given: "Forgetting a memory",
    "correct": lambda given: "Correcting a memory",
}
"""Built-in tools whose name says more than their arguments."""
_LISTS = re.compile(r"glob|list|^ls$|find_files", re.IGNORECASE)
_MCP = re.compile(r"mcp__(.+?)__(.+)", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")

ASIDE = frozenset({"cd", "pushd", "popd", "export", "set", "source", ".", "echo", "printf", "sleep", "true"})
"""Programs that only prepare the relevant one."""
WRAPPERS = frozenset({"sudo", "env", "time", "timeout", "nice", "nohup", "stdbuf", "command", "exec"})
RUNNERS = frozenset({"npx", "uvx", "pipx", "bunx"})
WITH_RUN = frozenset({"uv", "poetry", "pdm", "hatch", "rye", "pipenv"})
INTERPRETERS = frozenset({"python", "python3", "node", "ruby", "perl", "bash", "sh", "deno"})
WITH_VERB = frozenset(
    {"git", "cargo", "go", "npm", "pnpm", "yarn", "docker", "kubectl", "make", "just", "pip", "gh", "nacre"}
)
"""Programs with a subcommand that says what they do."""


def current_activity(view: View) -> str:
    """Return the current activity as a present participle with the name of the file, pattern or program."""
    newest = next((item for item in reversed(view.items) if item.role == "assistant"), None)
    if newest is None:
        return THINKING
    return reply_activity(Message("assistant", tuple(part.block for part in newest.parts)))


def reply_activity(reply: Message) -> str:
    """Return the activity of a reply: of its calls the last one counts."""
    return call_activity(reply.tool_calls[-1]) if reply.tool_calls else REPLYING


def call_activity(call: ToolCall) -> str:
    """Return the activity of one tool call."""
    found = _MCP.fullmatch(call.name)
    if found is not None:
        text = f"Calling {found[1]}: {found[2]}"
    elif call.name in BY_NAME:
        text = BY_NAME[call.name](call.input)
    else:
        text = _by_arguments(call)
    return display_line(text)


def display_line(text: str) -> str:
    """Return the text on one line, without invisible characters, cut at the limits."""
    words = one_line(text).split()
    cut = "…" if len(words) > MAX_WORDS else ""
    return clipped(f"{' '.join(words[:MAX_WORDS])}{cut}", MAX_CHARS)


def _by_arguments(call: ToolCall) -> str:
    """Return the activity by the arguments of a call, which also works for tools of other programs."""
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


def _verb(given: JsonObject, *names: str) -> str:
    """Return the first of these arguments that is text."""
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
    """Return the main program of a command line, with its subcommand."""
    command = command[:MAX_COMMAND_CHARS]
    found = programs(command)
    lines = [one.argv for one in found or () if one.argv] or [tuple(command.split())]
    telling = next((argv for argv in lines if argv and argv[0] not in ASIDE), lines[0])
    return _name(_called(telling)) or "a command"


def _called(argv: tuple[str, ...]) -> str:
    """Return `pytest` for `sudo .venv/bin/python -m pytest -q`."""
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
    """Skip the options and numbers of a wrapper: `timeout -k 5 60 pytest`."""
    while words and (words[0].startswith("-") or words[0].rstrip("smhd").replace(".", "").isdecimal()):
        words = words[1:]
    return words


PURPOSE: RequestSource = "agent_summary"
"""Purpose under which the requests are accounted."""


TAIL_TOKENS = 4_000
"""Tokens of the agent's conversation sent: the last few rounds show its activity (A7)."""


MAX_OUTPUT_TOKENS = 256
"""A line has a dozen; the rest is for models that think before they answer."""


ANSWER_SECONDS = 20.0
"""Timeout of a request; a later line would describe a past activity."""


RULE_SECONDS = 1.0
"""Interval between two updates by rule, which cost nothing."""


MAX_ANSWER_WORDS = 12
"""Maximum number of words in an answer; a longer one is an explanation and is dropped."""


_INCOMPLETE = frozenset(
    "a an the of in on at to for from with by and or into its their this that as about over after before "
    "how why what which whether while so if where when".split()
)
"""Words that a line does not end with: what they belong to was cut off."""


_SYSTEM = prompts.load(__package__, "progress")


_ASK = prompts.load(__package__, "progress_ask")


_TAG = re.compile(r"<(?=\s*/?\s*agent-work)", re.IGNORECASE)


_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


_PARTICIPLE = re.compile(r"[A-Z][a-z-]*ing\b", re.IGNORECASE)
"""How a valid answer begins; a refusal, an apology or a chat does not."""


_MARKS = "`*_\"'“”‘’"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityModel:
    """The cheap model that describes what agents do."""

    provider: Provider
    model: str
    pay: Callable[[Usage, str], None]
    """Called with the usage of each request."""
    allows: Callable[[str], str | None]
    """Returns the reason why nothing more may be spent."""
    is_remote: bool = True
    """Whether its requests leave the machine."""


class ActivityWatcher:
    """Reports the activity of agents, each in its own task."""

    def __init__(self, seconds: float, model: ActivityModel | None = None) -> None:
        """`seconds` is the interval between two requests about one agent."""
        self._seconds = seconds
        self._model = model

    async def watch(
        self, look: Callable[[], View], tell: Callable[[str], None], *, stays: bool = False
    ) -> None:
        """Report each new line about one agent until cancelled, which must be done when the agent ends.

        `stays`: the conversation of this agent must not leave the machine (M27).
        """
        line = _ActivityLine(tell)
        async with asyncio.TaskGroup() as watching:
            watching.create_task(self._by_rule(look, line), name="progress by rule")
            if self._model is not None and not (stays and self._model.is_remote):
                asking = self._by_model(self._model, look, line)
                watching.create_task(asking, name="progress by model")

    async def _by_rule(self, look: Callable[[], View], line: _ActivityLine) -> None:
        while True:
            if not line.is_models:
                line.say(current_activity(look()))
            await asyncio.sleep(min(RULE_SECONDS, self._seconds))

    async def _by_model(self, model: ActivityModel, look: Callable[[], View], line: _ActivityLine) -> None:
        """Send one request after another, none while nothing has changed or before the first interval."""
        told: list[bytes] = []
        while True:
            await asyncio.sleep(self._seconds)
            view = look()
            newest = list(view.links[-1:])
            if newest == told:
                continue
            told = newest
            answer = await _answer(model, view)
            line.is_models = bool(answer)
            line.say(answer or current_activity(look()))


class _ActivityLine:
    """The last reported line and whether a model wrote it."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.is_models = False
        self._tell = tell
        self._last = ""

    def say(self, text: str) -> None:
        if text != self._last:
            self._last = text
            self._tell(text)


async def _answer(model: ActivityModel, view: View) -> str:
    """Ask the model for a line; empty if it cannot be asked or gives no usable answer."""
    if model.allows(PURPOSE) is not None:
        return ""
    request = summary_request(view, model.model)
    asked = metered(
        model.provider.stream(request),
        lambda: Usage(input=TAIL_TOKENS, approximate=True),
        lambda usage: model.pay(usage, model.model),
    )
    try:
        async with asyncio.timeout(ANSWER_SECONDS), aclosing(asked) as events:
            async for event in events:
                match event:
                    case Reply():
                        model.pay(event.usage, event.model or model.model)
                        return parse_activity(event)
                    case StartedOver(usage=Usage() as wasted):
                        model.pay(wasted, model.model)
                    case _:
                        pass
    except (NacreError, TimeoutError):
        pass  # optional: the line by rule is shown instead
    return ""


def summary_request(view: View, model: str) -> Request:
    """Return the request: the end of the conversation as text, without tools."""
    work = _TAG.sub("&lt;", neutralise(as_text(view, tokens=TAIL_TOKENS)))
    text = prompts.render(_ASK, work=work)
    return Request(
        model=model,
        system=[{"type": "text", "text": _SYSTEM}],
        messages=[{"role": "user", "content": [{"type": "text", "text": text}]}],
        max_tokens=MAX_OUTPUT_TOKENS,
    )


def parse_activity(reply: Reply) -> str:
    """Return the line of an answer for display; empty if it is not usable."""
    text = _COLOURS.sub("", reply.message.text).strip()
    first = text.splitlines()[0] if text else ""
    bare = first.translate(dict.fromkeys(map(ord, _MARKS[:2]), None)).strip(_MARKS + " ").rstrip(".…!")
    words = bare.split()
    if not _PARTICIPLE.match(bare) or len(words) > MAX_ANSWER_WORDS or reply.stop_reason == REFUSAL:
        return ""
    is_cut = len(words) > MAX_WORDS
    words = words[:MAX_WORDS]
    while is_cut and words[-1].lower() in _INCOMPLETE:
        words.pop()
    return display_line(" ".join(words).rstrip(",;:"))
