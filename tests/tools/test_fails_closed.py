"""A check that fails allows nothing: it is asked about, and refused in one line where no one can be asked."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType

import pytest

from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject, ToolCall
from nacre.tools import default_tools, policy
from nacre.tools.base import Tool
from nacre.tools.guard import Guard, PermissionAnswer, PermissionQuestion
from nacre.tools.policy import Narrowing, PermissionPolicy
from nacre.tools.rules import PermissionRule, parse_rule
from nacre.tools.run import run_all
from nacre.tools.search_tools import glob_tool, grep_tool
from nacre.tools.workspace import NO_FILE, Workspace, expecting

ERRORS: tuple[Exception, ...] = (
    RecursionError("maximum recursion depth exceeded"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    OSError(errno.EMFILE, "Too many open files"),
    MemoryError(),
    re.error("bad character range z-a"),
    KeyError("x"),
    AssertionError("two\nlines"),
)
CALLS: list[tuple[str, JsonObject]] = [
    ("Read", {"file_path": "inside.txt"}),
    ("Grep", {"pattern": "x"}),
    ("Glob", {"pattern": "*.txt"}),
    ("Edit", {"file_path": "inside.txt", "old_string": "a", "new_string": "b"}),
    ("Write", {"file_path": "notes/inside.txt", "content": "x"}),
    ("Bash", {"command": "cat inside.txt | head -3"}),
    ("Bash", {"command": "git status"}),
    ("Bash", {"command": "make test"}),
    ("WebFetch", {"url": "https://example.org/"}),
    ("Skill", {"skill": "deploy"}),
    ("mcp__tracker__find", {"query": "x"}),
]
TOOLS = frozenset(name for name, _ in CALLS)
RULES = (
    parse_rule("Read(private/**)", "deny"),
    parse_rule("Bash(rm:*)", "deny"),
    parse_rule("WebFetch(domain:example.com)", "deny"),
    parse_rule("Skill(x)", "deny"),
    parse_rule("Read(asked/**)", "ask"),
    parse_rule("Bash(make:*)", "allow"),
)
MODES: tuple[policy.Mode, ...] = ("default", "acceptEdits", "bypassPermissions")


async def _ran(arguments: JsonObject) -> str:
    return "it ran"


def fake(name: str) -> Tool:
    return Tool(name=name, description="", input_schema={}, call=_ran)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "project"
    (root / "private").mkdir(parents=True)
    (root / "inside.txt").write_text("words\n")
    (root / "private" / "plan.txt").write_text("the plan\n")
    return Workspace(root)


def steps() -> list[tuple[object, str]]:
    """Everything that the policy calls while it decides: functions, methods, and those of the workspace."""
    functions = [(policy, name) for name, one in vars(policy).items() if isinstance(one, FunctionType)]
    methods = [
        (owner, name)
        for owner in (PermissionPolicy, Workspace, PermissionRule)
        for name, one in vars(owner).items()
        if isinstance(one, FunctionType) and not name.startswith("__")
    ]
    left_out = {"decide", "narrowed", "with_rules", "rule_for", "_unchecked", "dataclass", "replace"}
    return [(owner, name) for owner, name in (*functions, *methods) if name not in left_out]


def failing(error: Exception, met: list[str]) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        met.append("called")
        raise error

    return fail


@pytest.mark.parametrize(("owner", "name"), steps(), ids=lambda one: one if isinstance(one, str) else "")
def test_whatever_fails_in_the_check_no_call_is_allowed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    narrowing = Narrowing(tools=TOOLS, writes_in=(workspace.root / "notes",))
    met: list[str] = []
    for number, mode in enumerate(MODES):
        error = ERRORS[(steps().index((owner, name)) + number) % len(ERRORS)]
        monkeypatch.setattr(owner, name, failing(error, met))
        whole = PermissionPolicy(root=workspace.root, rules=RULES, mode=mode)
        for tool, arguments in CALLS:
            for one, expected in ((whole, "ask"), (whole.narrowed(narrowing), "deny")):
                met.clear()
                found = one.decide(fake(tool), arguments, workspace)
                if met:
                    assert found.effect == expected, (tool, arguments, mode)
                    assert "\n" not in found.reason
                    assert type(error).__name__ in found.reason or "cannot be resolved" in found.reason
        monkeypatch.undo()


def test_most_of_the_check_is_reached_by_these_calls(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = 0
    for owner, name in steps():
        met: list[str] = []
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failing(KeyError(), met))
            for tool, arguments in CALLS:
                PermissionPolicy(root=workspace.root, rules=RULES).decide(fake(tool), arguments, workspace)
        reached += bool(met)
    assert reached >= 20


@pytest.mark.parametrize("error", ERRORS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("answer", [None, "no", "once", "always"])
async def test_the_guard_asks_or_refuses_in_one_line(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, error: Exception, answer: PermissionAnswer | None
) -> None:
    asked: list[PermissionQuestion] = []
    learned: list[PermissionRule] = []

    async def ask(question: PermissionQuestion) -> PermissionAnswer:
        asked.append(question)
        assert answer is not None
        return answer

    guard = Guard(
        PermissionPolicy(root=workspace.root, mode="bypassPermissions"),
        workspace,
        ask=ask if answer else None,
        learn=learned.append,
    )
    tools = {one.name: one for one in guard.wrap([fake("Bash")])}
    monkeypatch.setattr(policy, "programs", failing(error, []))
    call = ToolCall("c", "Bash", {"command": "rm -r x"})
    for _ in range(2):
        [result] = await run_all([call], tools)
        assert result.is_error == (answer in {None, "no"})
        assert "Traceback" not in result.text
        if answer is None:
            assert result.text.startswith("Not allowed: the permission check failed (")
            assert "\n" not in result.text
    # An answer for always cannot be given for what was not checked: the second call is asked about again.
    assert len(asked) == (0 if answer is None else 2)
    monkeypatch.undo()
    for rule in learned:
        assert parse_rule(rule.text, "allow").text == rule.text
        ruled = PermissionPolicy(root=workspace.root, rules=(rule,))
        assert ruled.decide(fake("Bash"), {"command": "rm -r x"}, workspace).effect == "ask"


def test_a_rule_that_cannot_be_matched_is_asked_about_in_every_mode(workspace: Workspace) -> None:
    """Rules of the settings are checked at the start; one that a program made is not."""
    broken = PermissionRule("deny", "Read", "[z-a]")
    for mode in MODES:
        one = PermissionPolicy(root=workspace.root, rules=(broken,), mode=mode)
        for tool, arguments in (
            ("Read", {"file_path": "inside.txt"}),
            ("Bash", {"command": "cat inside.txt"}),
        ):
            assert one.decide(fake(tool), {**arguments}, workspace).effect == "ask"


def searches(workspace: Workspace, *rules: PermissionRule) -> Sequence[Tool]:
    guard = Guard(PermissionPolicy(root=workspace.root, rules=rules), workspace)
    return guard.wrap([grep_tool(workspace), glob_tool(workspace)])


async def test_an_empty_path_of_a_search_is_the_directory_it_searches(workspace: Workspace) -> None:
    """The guard once took it for a mistake that the search would refuse, and let it through unchecked."""
    grep, glob = searches(workspace, parse_rule("Read(private)", "deny"))
    workspace.cwd = workspace.root / "private"
    with pytest.raises(ToolError, match="says deny"):
        await grep.call({"pattern": "plan", "path": "", "output_mode": "content"})
    with pytest.raises(ToolError, match="says deny"):
        await glob.call({"pattern": "*", "path": ""})
    workspace.cwd = workspace.root.parent
    with pytest.raises(ToolError, match="outside the project"):
        await grep.call({"pattern": "plan", "path": ""})


async def test_a_call_without_a_path_opens_no_file(workspace: Workspace) -> None:
    read = next(one for one in default_tools(workspace) if one.name == "Read")
    for arguments in (
        {},
        {"file_path": 3},
        {"file_path": ""},
        {"file_path": "a\0b"},
        {"file_path": "\ud800"},
    ):
        decision = PermissionPolicy(root=workspace.root).decide(read, {**arguments}, workspace)
        assert decision.path == NO_FILE
    with expecting(NO_FILE), pytest.raises(ToolError, match="was not checked"):
        await read.call({"file_path": "inside.txt"})
