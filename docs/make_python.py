"""Writes docs/reference/python.md from the source itself; `make docs` runs it, a test compares.

The source is read, not imported, so that no vendor's package has to be there and no default is printed with
an address. What is told of a name is its signature and the first paragraph of its docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "python.md"
SOURCE = ROOT / "src"
WIDTH = 96
"""A signature that is longer gets one line for each of its parameters."""
PROSE = 110
GIVEN = frozenset({"OpenedAgent", "Exchange"})
"""Nobody makes these: they are handed out."""
SLOT = "The loop's slot"
"""How a method begins that only nacre's own loop calls."""
PORTS = {
    "Provider": "nacre.providers.base",
    "Clock": "nacre.clock",
}
"""What one implements; whoever does so repeats no words of it."""
INHERITED = {"SessionAgent": "nacre.session.agent"}
"""Bases that are not on this page: their members are shown with the class."""
BASES = ("Layer",)
"""Classes of this page that one derives from."""
HEAD = """\
# Python names

Written by `make docs` from the source; change the docstrings there, not this page.

`from nacre import …` has the names you need most: {most}.

A name that is not on this page is inner work and may change any day. Parameters after `*` are given by name.
What begins with `await` or `async with` needs a running event loop.
"""


@dataclass(frozen=True, slots=True)
class Group:
    """What one does with some names."""

    title: str
    words: str
    names: tuple[tuple[str, str], ...]
    """Modules to import from, each with its names separated by blanks."""


GROUPS = (
    Group(
        "Run an agent",
        "From settings to an agent that is ready; [write a tool](../how-to/write-a-tool.md) has examples.",
        (
            ("nacre", "Agent open_agent RunResult"),
            ("nacre.app.open_agent", "OpenedAgent"),
            ("nacre.settings", "load"),
        ),
    ),
    Group(
        "Read what a turn streams",
        "`agent.stream(…)` yields these, one after the other; a `TurnDone` is the last.",
        (
            ("nacre", "TextDelta ToolCallEvent ToolResultEvent Notice TurnDone"),
            ("nacre.messages.events", "Event ProviderEvent ThinkingDelta Reply Waiting StartedOver Outcome"),
        ),
    ),
    Group(
        "Use the pieces in your own loop",
        "No loop of ours, no model call of ours; [how](../how-to/use-your-own-loop.md).",
        (
            ("nacre", "Base Session"),
            ("nacre.providers.base", "Request"),
            ("nacre.session.settings", "SessionSettings"),
            ("nacre.session.meter", "Meter"),
            ("nacre.session.log_writer", "RecordWriter start resume"),
            ("nacre.tools.run", "run_all"),
            ("nacre.messages.wire", "parse_content"),
            ("nacre.providers.anthropic", "parse_usage"),
        ),
    ),
    Group(
        "Keep that loop's session small",
        "The layers one by one; Notes and Extract need a model and come with `open_agent`.",
        (
            ("nacre", "Layer Offload Microcompact Compact Recall Notes Extract"),
            ("nacre.layers.l2_microcompact.settings", "MicrocompactSettings CLEARABLE"),
            ("nacre.session.compaction", "CompactionRequest"),
            ("nacre.context.plan", "Plan"),
            ("nacre.messages.draft", "Fragment"),
            ("nacre.store.tool_results", "ToolResultStore"),
        ),
    ),
    Group(
        "Write a tool, and guard tools",
        "[Write one](../how-to/write-a-tool.md), [allow and deny](../how-to/allow-and-deny-tools.md).",
        (
            ("nacre", "tool Tool ToolError"),
            ("nacre.tools", "default_tools"),
            ("nacre.tools.bash", "bash_tool"),
            ("nacre.tools.workspace", "Workspace"),
            ("nacre.tools.guard", "Guard PermissionQuestion PermissionAnswer Refusal"),
            ("nacre.tools.policy", "PermissionPolicy Mode"),
            ("nacre.tools.rules", "parse_rule"),
        ),
    ),
    Group(
        "Add a provider",
        "`Provider` is the port; the rest wraps one or is one. [How](../how-to/add-a-provider.md).",
        (
            ("nacre", "Provider"),
            ("nacre.providers", "Capabilities RetrySettings complete with_retry"),
            ("nacre.providers.retry", "with_fallback"),
            ("nacre.providers.anthropic", "AnthropicProvider"),
            ("nacre.providers.openai", "OpenAICompatibleProvider"),
        ),
    ),
    Group(
        "Work on memories",
        "Without a session; [memory from Python](../how-to/memory-from-python.md) has examples.",
        (
            ("nacre", "Memory open_memory Entry"),
            ("nacre.memory.memory", "Saved"),
            ("nacre.memory.format.entry", "MemoryDraft MemoryChange"),
            ("nacre.memory.similarity", "ScoredEntry"),
            ("nacre.memory.recall.base", "Recalled AttachedMemory"),
        ),
    ),
    Group(
        "Have other agents at work",
        "[Start other agents](../how-to/agents.md), [why forks](../why/forks.md).",
        (
            ("nacre.agents.tools", "AgentRequest"),
            ("nacre.loop.fork", "ForkTask"),
            ("nacre.agents.team_roster", "Roster"),
            ("nacre.layers.l7_mail.mailbox", "peek"),
        ),
    ),
    Group(
        "Use nacre inside another framework",
        "Each needs its extra; [how](../how-to/use-with-other-frameworks.md).",
        (
            ("nacre.integrations.framework_session", "Layers"),
            ("nacre.integrations.anthropic_memory", "MemoryTool"),
            ("nacre.integrations.langchain", "NacreMiddleware"),
            ("nacre.integrations.openai_agents", "NacreSession NacreFilter reader"),
            ("nacre.integrations.pydantic_ai", "NacreCapability"),
            ("nacre.integrations.session_logs", "read_sessions SessionReport"),
        ),
    ),
    Group(
        "Look at a conversation",
        "What was said, what happened to it, and how it is read from disk.",
        (
            ("nacre.messages.transcript", "Transcript"),
            ("nacre.messages.view", "View"),
            ("nacre.messages.blocks", "Message Text Thinking Image ToolCall ToolResult Json JsonObject"),
            ("nacre.messages.records", "Said Replaced Compacted Undone Noted Change ResultOf"),
            ("nacre.messages.usage", "Usage"),
            ("nacre.messages.jsonl", "decode encode Envelope"),
            ("nacre.messages.foreign", "read_foreign ForeignSession"),
            ("nacre.inspect.context_usage", "parts"),
        ),
    ),
    Group(
        "Reckon with the cache",
        "What it costs, and when it pays to keep it warm; [how](../how-to/keep-the-cache-warm.md).",
        (
            ("nacre.cache.models", "profile cost"),
            ("nacre.session.cache_ttl", "cheapest_lifetime"),
            ("nacre.cache.keep_warm", "Pauses decide_refresh Pause Prefix SessionCost"),
        ),
    ),
    Group(
        "Test your agent",
        "Fakes that nacre's own tests use; [how](../how-to/test-your-agent.md).",
        (
            ("nacre.testing", "ScriptedProvider say call think together Cast Simulator"),
            ("nacre.testing", "FrozenClock first_moved_block"),
            ("nacre.providers.scripted", "Scripted"),
            ("nacre.clock", "Clock"),
        ),
    ),
    Group(
        "Simulate a provider",
        "On loopback, by the real cache rules; [how](../how-to/use-the-simulator.md).",
        (
            ("nacre.devtools.sim", "serve SimSettings CacheRules Exchange Fault"),
            ("nacre.devtools.sim", "SimClock ReplySource"),
            ("nacre.devtools.sim", "Script ScriptedReply parse_script read_script replies_from_messages"),
            ("nacre.devtools.sim", "replies_from_provider"),
        ),
    ),
)  # fmt: skip
ERRORS = "## Errors\n\nAll in `nacre.errors`, all `NacreError`: [what each means](errors.md).\n"


def text() -> str:
    """The page as it should be now."""
    most = ", ".join(f"`{name}`" for name in public("nacre"))
    head = "\n\n".join("\n".join(wrap(part, PROSE)) for part in HEAD.format(most=most).split("\n\n")) + "\n"
    return "\n".join([head, *(part for group in GROUPS for part in _section(group)), ERRORS])


def listed() -> set[tuple[str, str]]:
    """Every module and name on the page."""
    return {(module, name) for group in GROUPS for module, names in group.names for name in names.split()}


def _section(group: Group) -> Iterator[str]:
    """What fits on a line goes into a table, one a module; what has parts of its own gets a heading."""
    yield f"## {group.title}\n\n{group.words}\n"
    for module, names in group.names:
        found = {name: _find(module, name) for name in names.split()}
        short = {name: line for name, one in found.items() if (line := _on_a_line(one, name))}
        if short:
            rows = [_row(line, found[name].words) for name, line in short.items()]
            yield "\n".join([f"From `{module}`:\n", "| name | what it is |", "|---|---|", *rows, ""])
        yield from (_entry(module, name, one) for name, one in found.items() if name not in short)


def _on_a_line(found: _Found, name: str) -> str:
    """How it is made or called, if nothing more is to be said of it; else nothing."""
    lines = _shown(found.node, name)
    has_parts = isinstance(found.node, ast.ClassDef) and any(_members(found.node))
    return lines[0] if len(lines) == 1 and not has_parts else ""


def public(module: str) -> list[str]:
    """What a module names in `__all__`."""
    for node in _tree(module).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return list(ast.literal_eval(value))
    return []


@dataclass(frozen=True, slots=True)
class _Found:
    module: str
    node: ast.stmt
    words: str


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_path(module).read_text(encoding="utf-8"))


def _path(module: str) -> Path:
    path = SOURCE / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _find(module: str, name: str) -> _Found:
    """Where a name is made, through whatever hands it on."""
    body = [*_tree(module).body]
    body += [inner for node in body if isinstance(node, ast.If) for inner in node.body]
    for place, node in enumerate(body):
        match node:
            case ast.ImportFrom(module=str(home), names=names) if any(one.name == name for one in names):
                return _find(home, name)
            case ast.ClassDef(name=found) | ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found):
                if found == name and "overload" not in _decorators(node):
                    return _Found(module, node, ast.get_docstring(node) or "")
            case ast.AnnAssign(target=ast.Name(id=found)) | ast.Assign(targets=[ast.Name(id=found)]):
                if found == name:
                    return _Found(module, node, _said(body[place + 1 : place + 2]))
    raise LookupError(f"{module} has no {name}")


def _said(after: list[ast.stmt]) -> str:
    """The string that stands under an attribute."""
    match after:
        case [ast.Expr(value=ast.Constant(value=str(words)))]:
            return words
    return ""


def _entry(module: str, name: str, found: _Found) -> str:
    code = "\n".join([f"from {module} import {name}", *_shown(found.node, name)])
    source = _path(found.module).relative_to(ROOT).as_posix()
    parts = [f"### `{name}`\n", f"```text\n{code}\n```\n"]
    port = _port(found.node) if isinstance(found.node, ast.ClassDef) else ""
    is_one = f" It is a `{port}`." if port else ""
    parts.append(f"{_first(found.words)}{is_one} *([source](../../{source}))*\n")
    rows = list(_members(found.node)) if isinstance(found.node, ast.ClassDef) else []
    if rows:
        parts.append("\n".join(["| part | what it is |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def _first(words: str) -> str:
    """The first paragraph, without the ids of rules, which mean something to who changes nacre."""
    paragraph = " ".join(words.strip().split("\n\n")[0].split())
    return re.sub(r" \([A-Z]\d+\w?(?:(?:,| to) [A-Z]\d+\w?)*\)", "", paragraph)


def _shown(node: ast.stmt, name: str) -> list[str]:
    match node:
        case ast.ClassDef():
            return _made(node, name)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return _signature(node, name)
        case ast.AnnAssign(value=value) | ast.Assign(value=value) if value is not None:
            return _folded(f"{name} = ", ast.unparse(value).split(" | "), " | ")
    return []


def _made(node: ast.ClassDef, name: str) -> list[str]:
    """How one is made: by its own `__init__`, or by the fields of a dataclass; a port is not made."""
    if _is_port(node):
        return [f"class {name}(Protocol)"]
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            return _signature(member, name)
    fields = [one for one in node.body if _is_field(one)]
    if name in GIVEN or not any("dataclass" in one for one in _decorators(node)):
        return [f"class {name}"]
    kept = [f"{_name(one)}: {_default(one)}" for one in fields]
    is_named = any("kw_only=True" in one for one in _decorators(node))
    return _call(name, (["*"] if is_named and kept else []) + kept)


def _default(field: ast.stmt) -> str:
    assert isinstance(field, ast.AnnAssign)
    shown = ast.unparse(field.annotation)
    if field.value is None:
        return shown
    value = ast.unparse(field.value)
    return f"{shown} = {'…' if value.startswith('field(') else value}"


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> list[str]:
    decorators = _decorators(node)
    given = node.args
    named = [*given.posonlyargs, *given.args]
    if named and named[0].arg in {"self", "cls"}:
        named = named[1:]
    defaults = [None] * (len(named) - len(given.defaults)) + [*given.defaults]
    shown = [_parameter(one, value) for one, value in zip(named, defaults[-len(named) :], strict=False)]
    if given.vararg:
        shown.append(f"*{_parameter(given.vararg, None)}")
    elif given.kwonlyargs:
        shown.append("*")
    shown += [_parameter(one, value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg:
        shown.append(f"**{_parameter(given.kwarg, None)}")
    is_opened = any("contextmanager" in one for one in decorators)
    awaited = "" if isinstance(node, ast.FunctionDef) or _yields(node) else "await "
    before = ("async with " if isinstance(node, ast.AsyncFunctionDef) else "with ") if is_opened else awaited
    gives = ast.unparse(node.returns) if node.returns is not None else ""
    if is_opened:
        gives = gives.partition("[")[2].removesuffix("]")
    after = "" if gives in {"", "None"} or node.name == "__init__" else f" -> {gives}"
    return _call(f"{before}{name}", shown, after)


def _yields(node: ast.AsyncFunctionDef) -> bool:
    return any(isinstance(inner, ast.Yield) for inner in ast.walk(node))


def _parameter(one: ast.arg, value: ast.expr | None) -> str:
    shown = f"{one.arg}: {ast.unparse(one.annotation)}" if one.annotation is not None else one.arg
    return shown if value is None else f"{shown} = {ast.unparse(value)}"


def _call(name: str, parameters: list[str], after: str = "") -> list[str]:
    line = f"{name}({', '.join(parameters)}){after}"
    if len(line) <= WIDTH:
        return [line]
    return [f"{name}(", *(f"    {one}," for one in parameters), f"){after}"]


def _folded(before: str, parts: list[str], between: str) -> list[str]:
    line = before + between.join(parts)
    if len(line) <= WIDTH:
        return [line]
    return [
        before.rstrip(),
        *(f"    {'' if n == 0 else between.lstrip()}{one}" for n, one in enumerate(parts)),
    ]


def _members(node: ast.ClassDef) -> Iterator[str]:
    """Fields that are explained, then whatever can be read and called, inherited members first."""
    for base in node.bases:
        if (home := INHERITED.get(ast.unparse(base))) is not None:
            inherited = _find(home, ast.unparse(base)).node
            assert isinstance(inherited, ast.ClassDef)
            yield from _members(inherited)
    for place, member in enumerate(node.body):
        if _is_field(member) and (words := _said(node.body[place + 1 : place + 2])):
            yield _row(_name(member), words)
    for member in node.body:
        if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) or member.name.startswith("_"):
            continue
        decorators = _decorators(member)
        if "overload" in decorators or any(one.endswith(".setter") for one in decorators):
            continue
        words = ast.get_docstring(member) or ""
        if words.startswith(SLOT) or not (words or _is_port(node)):
            continue  # what nobody explains is explained by a port, or inner work
        if any("property" in one for one in decorators):
            yield _row(member.name, words)
        else:
            is_class = {"staticmethod", "classmethod"} & set(decorators)
            name = f"{node.name}.{member.name}" if is_class else member.name
            yield _row(
                "".join(one.strip() + " " * one.endswith(",") for one in _signature(member, name)), words
            )


@cache
def _port(node: ast.ClassDef) -> str:
    """The port that a class implements, by the names of its methods, or the base that it derives from."""
    if _is_port(node):
        return ""
    bases = [name for base in node.bases if (name := ast.unparse(base)) in BASES]
    if bases:
        return bases[0]
    own = _methods(node)
    found = (name for name, home in PORTS.items() if _methods(_find(home, name).node) <= own)
    return next(found, "")


def _is_port(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in node.bases)


def _methods(node: ast.stmt) -> set[str]:
    assert isinstance(node, ast.ClassDef)
    return {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def _row(name: str, words: str) -> str:
    shown = name.replace(", )", ")").replace("|", "\\|")
    return f"| `{shown}` | {_first(words).replace('|', chr(92) + '|')} |"


def _is_field(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and not node.target.id.startswith("_")
        and not ast.unparse(node.annotation).startswith("ClassVar")
    )


def _name(node: ast.stmt) -> str:
    assert isinstance(node, ast.AnnAssign)
    return ast.unparse(node.target)


def _decorators(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [ast.unparse(one) for one in node.decorator_list]


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8", newline="\n")
