"""Who may call what, where."""

from __future__ import annotations

import errno
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.errors import ConfigError, ToolError
from nacre.messages.blocks import JsonObject, ToolCall
from nacre.tools import default_tools
from nacre.tools.base import Tool
from nacre.tools.guard import (
    Guard,
    PermissionAnswer,
    PermissionOverride,
    PermissionQuestion,
    permission_override,
)
from nacre.tools.policy import Mode, Narrowing, PermissionPolicy
from nacre.tools.rules import Effect, PermissionRule, parse_rule
from nacre.tools.run import run_all
from nacre.tools.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("old\n")
    (root / ".git").mkdir()
    (tmp_path / "outside.txt").write_text("secret\n")
    (root / "link").symlink_to(tmp_path / "outside.txt")
    (root / "folder").symlink_to(tmp_path)
    return Workspace(root)


async def _nothing(arguments: JsonObject) -> str:
    return "done"


def tool(name: str) -> Tool:
    return Tool(name=name, description="", input_schema={}, call=_nothing)


def rules(**lists: list[str]) -> tuple[PermissionRule, ...]:
    effects: tuple[Effect, ...] = ("deny", "ask", "allow")
    return tuple(parse_rule(text, effect, "settings") for effect in effects for text in lists.get(effect, []))


def effect(
    workspace: Workspace,
    name: str,
    mode: Mode = "default",
    given: tuple[PermissionRule, ...] = (),
    **call: str,
) -> str:
    policy = PermissionPolicy(root=workspace.root, rules=given, mode=mode)
    return policy.decide(tool(name), dict(call), workspace).effect


@pytest.mark.parametrize(
    ("name", "call", "expected"),
    [
        ("Read", {"file_path": "src/app.py"}, "allow"),
        ("Read", {"file_path": "../outside.txt"}, "ask"),
        ("Read", {"file_path": "link"}, "ask"),
        ("Read", {"file_path": "folder/outside.txt"}, "ask"),
        ("Read", {"file_path": "src/../../outside.txt"}, "ask"),
        ("Read", {"file_path": "/etc/passwd"}, "ask"),
        ("Grep", {"pattern": "x"}, "allow"),
        ("Grep", {"pattern": "x", "path": "folder"}, "ask"),
        ("Glob", {"pattern": "*", "path": "/"}, "ask"),
        ("Edit", {"file_path": "src/app.py"}, "ask"),
        ("Write", {"file_path": "new.txt"}, "ask"),
        ("Bash", {"command": "ls -la src | wc -l"}, "allow"),
        ("Bash", {"command": "git log --oneline"}, "allow"),
        ("Bash", {"command": "cat src/*.py"}, "allow"),
        ("Bash", {"command": "cat ../outside.txt"}, "ask"),
        ("Bash", {"command": "cat link"}, "ask"),
        ("Bash", {"command": "cat folder/*"}, "ask"),
        ("Bash", {"command": "cat < ../outside.txt"}, "ask"),
        ("Bash", {"command": "cat $HOME/.ssh/id_rsa"}, "ask"),
        ("Bash", {"command": "cat ~/.ssh/id_rsa"}, "ask"),
        ("Bash", {"command": "grep --file=/etc/passwd x"}, "ask"),
        ("Bash", {"command": "rm -rf src"}, "ask"),
        ("Bash", {"command": "ls > out"}, "ask"),
        ("TaskList", {"tasks": ""}, "allow"),
        ("WebFetch", {"url": "https://example.org/x"}, "ask"),
        ("mcp__tracker__create", {"title": "x"}, "ask"),
    ],
)
def test_without_rules_reading_here_is_free_and_everything_else_is_asked_for(
    workspace: Workspace, name: str, call: dict[str, str], expected: str
) -> None:
    assert effect(workspace, name, **call) == expected


def test_where_nothing_may_be_changed_questions_and_edits_are_denials(workspace: Workspace) -> None:
    """Reads and commands that a rule allows still run; what a fork may write is said by its narrowing."""
    notes = workspace.root / "notes"
    given = rules(allow=["Bash(make:*)", "Write"])
    policy = PermissionPolicy(root=workspace.root, rules=given, read_only="only looking")
    calls: tuple[tuple[str, JsonObject, str], ...] = (
        ("Read", {"file_path": "src/app.py"}, "allow"),
        ("Bash", {"command": "make test"}, "allow"),
        ("Bash", {"command": "rm -rf src"}, "deny"),
        ("Write", {"file_path": "new.txt"}, "deny"),
        ("mcp__tracker__create", {"title": "x"}, "deny"),
    )
    for name, arguments, effect in calls:
        decided = policy.decide(tool(name), arguments, workspace)
        assert (decided.effect, effect == "deny") == (effect, decided.reason == "only looking"), name
    fork = policy.narrowed(Narrowing(tools=frozenset({"Write"}), writes_in=(notes,)))
    assert fork.decide(tool("Write"), {"file_path": str(notes / "a.md")}, workspace).effect == "allow"


@pytest.mark.parametrize(
    ("mode", "name", "call", "expected"),
    [
        ("acceptEdits", "Edit", {"file_path": "src/app.py"}, "allow"),
        ("acceptEdits", "Write", {"file_path": ".git/hooks/pre-commit"}, "ask"),
        ("acceptEdits", "Write", {"file_path": ".nacre/settings.json"}, "ask"),
        ("acceptEdits", "Write", {"file_path": ".GIT/hooks/pre-commit"}, "ask"),
        ("acceptEdits", "Write", {"file_path": "src/.Claude/settings.json"}, "ask"),
        ("acceptEdits", "Write", {"file_path": ".mcp.json"}, "ask"),
        ("acceptEdits", "Write", {"file_path": ".husky/pre-commit"}, "ask"),
        ("acceptEdits", "Write", {"file_path": ".vscode/tasks.json"}, "ask"),
        ("acceptEdits", "Edit", {"file_path": "src/.envrc"}, "ask"),
        ("acceptEdits", "Write", {"file_path": ".gitmodules"}, "ask"),
        ("acceptEdits", "Write", {"file_path": ".gitignore"}, "allow"),
        ("acceptEdits", "Write", {"file_path": "../outside.txt"}, "ask"),
        ("acceptEdits", "Write", {"file_path": "link"}, "ask"),
        ("acceptEdits", "Bash", {"command": "make"}, "ask"),
        ("bypassPermissions", "Bash", {"command": "make"}, "allow"),
    ],
)
def test_a_mode_moves_what_is_asked_for(
    workspace: Workspace, mode: Mode, name: str, call: dict[str, str], expected: str
) -> None:
    assert effect(workspace, name, mode, **call) == expected


def test_in_a_worktree_below_the_home_only_what_is_guarded_in_it_is_asked_for(tmp_path: Path) -> None:
    """Spawning, worktree: else an agent could change nothing there without a question."""
    root = tmp_path / ".nacre" / "worktrees" / "-repository" / "agent-01234567"
    root.mkdir(parents=True)
    workspace = Workspace(root)
    files = ["src/app.py", ".git", ".claude/settings.json", "../agent-2/app.py", "../../../settings.json"]
    usual = PermissionPolicy(root=workspace.root, mode="acceptEdits")
    apart = replace(usual, in_worktree=True)
    assert [usual.decide(tool("Write"), {"file_path": one}, workspace).effect for one in files] == ["ask"] * 5
    assert [apart.decide(tool("Write"), {"file_path": one}, workspace).effect for one in files] == [
        "allow", "ask", "ask", "ask", "ask"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "name", "call", "expected"),
    [
        ({"allow": ["Bash(npm run test:*)"]}, "Bash", {"command": "npm run test -- --fast"}, "allow"),
        ({"allow": ["Bash(npm run test:*)"]}, "Bash", {"command": "npm run testing"}, "ask"),
        ({"allow": ["Bash(npm run test:*)"]}, "Bash", {"command": "npm run test && rm -rf /"}, "ask"),
        (
            {"allow": ["Bash(npm run test:*)"]},
            "Bash",
            {"command": "cd src && npm run test | tail -5"},
            "allow",
        ),
        ({"allow": ["Bash(npm run test:*)"]}, "Bash", {"command": "npm run test > ~/.bashrc"}, "ask"),
        ({"allow": ["Bash(npm run test:*)"]}, "Bash", {"command": "npm run test $(rm x)"}, "ask"),
        ({"allow": ["Bash(npm run test:*)"]}, "Bash", {"command": "PATH=. npm run test"}, "ask"),
        ({"allow": ["Bash(npm run test:*)"]}, "Bash", {"command": "$X run test"}, "ask"),
        ({"allow": ["Bash(make)"]}, "Bash", {"command": "make install"}, "ask"),
        ({"allow": ["Bash"]}, "Bash", {"command": "anything; goes"}, "allow"),
        ({"allow": ["Bash"], "deny": ["Bash(rm:*)"]}, "Bash", {"command": "ls && rm x"}, "deny"),
        ({"allow": ["Bash"], "deny": ["Bash(rm:*)"]}, "Bash", {"command": "if true; then rm x; fi"}, "ask"),
        ({"allow": ["Bash"], "ask": ["Bash(rm:*)"]}, "Bash", {"command": "echo $(rm x)"}, "ask"),
        ({"allow": ["Edit(/src/**)"]}, "Edit", {"file_path": "src/app.py"}, "allow"),
        ({"allow": ["Edit(/src/**)"]}, "Write", {"file_path": "src/deep/new.py"}, "allow"),
        ({"allow": ["Edit(/src/**)"]}, "Edit", {"file_path": "src/../other.py"}, "ask"),
        ({"allow": ["Edit(/src)"]}, "Edit", {"file_path": "src/app.py"}, "allow"),
        ({"allow": ["Edit(*.md)"]}, "Write", {"file_path": "docs/a.md"}, "allow"),
        ({"deny": ["Read(.env)"]}, "Read", {"file_path": "src/.env"}, "deny"),
        ({"deny": ["Read(.env)"]}, "Grep", {"pattern": "x", "path": ".env"}, "deny"),
        ({"deny": ["Read(//etc/**)"], "allow": ["Read"]}, "Read", {"file_path": "/etc/passwd"}, "deny"),
        ({"allow": ["Read(//etc/**)"]}, "Read", {"file_path": "/etc/hostname"}, "allow"),
        ({"ask": ["Read(/src/**)"], "allow": ["Read"]}, "Read", {"file_path": "src/app.py"}, "ask"),
        (
            {"allow": ["WebFetch(domain:example.org)"]},
            "WebFetch",
            {"url": "https://docs.example.org/"},
            "allow",
        ),
        (
            {"allow": ["WebFetch(domain:example.org)"]},
            "WebFetch",
            {"url": "https://example.org.evil.com"},
            "ask",
        ),
        ({"allow": ["mcp__tracker"]}, "mcp__tracker__create", {}, "allow"),
        ({"allow": ["mcp__track"]}, "mcp__tracker__create", {}, "ask"),
    ],
)
def test_a_rule_means_what_it_says_and_deny_beats_ask_beats_allow(
    workspace: Workspace, given: dict[str, list[str]], name: str, call: dict[str, str], expected: str
) -> None:
    assert effect(workspace, name, "default", rules(**given), **call) == expected


def test_a_denial_holds_even_where_everything_is_allowed(workspace: Workspace) -> None:
    given = rules(deny=["Bash(rm:*)"])
    assert effect(workspace, "Bash", "bypassPermissions", given, command="rm x") == "deny"


@pytest.mark.parametrize(
    "text",
    [
        "", "Bash()", "Bash(x", "two words", "(x)", "Read([z-a])", "Edit(src/[z-a]*)", "G*([z-a])",
        f"Write({'{' * 5_000}{'}' * 5_000})",
    ],
)  # fmt: skip
def test_a_malformed_rule_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ConfigError, match="settings"):
        parse_rule(text, "allow", "settings")


async def test_a_refused_call_tells_the_model_what_is_allowed(workspace: Workspace) -> None:
    """F3: so that the model can adapt; denials are counted."""
    guard = Guard(PermissionPolicy(root=workspace.root), workspace)
    tools = {one.name: one for one in guard.wrap(default_tools(workspace))}
    [result] = await run_all([ToolCall("c", "Bash", {"command": "touch made"})], tools)
    assert result.is_error
    assert "this session cannot ask for permission" in result.text
    assert "or allow it with the rule Bash(touch made)" in result.text
    assert "read-only commands need no permission." in result.text
    assert guard.denials == 1
    assert not (workspace.root / "made").exists()


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([("ask", "*", "")], "By the rules, reading needs permission, too."),
        ([("deny", "Bash", "")], "Reading below {root} needs no permission."),
        (
            [("deny", "Read", ".env")],
            "Reading below {root} and read-only commands need no permission, unless a rule says otherwise.",
        ),
    ],
)
async def test_a_refusal_claims_nothing_free_that_a_rule_restricts(
    workspace: Workspace, rules: list[tuple[Effect, str, str]], expected: str
) -> None:
    policy = PermissionPolicy(root=workspace.root, rules=tuple(PermissionRule(*rule) for rule in rules))
    assert policy.summary() == expected.format(root=workspace.root)
    tools = {one.name: one for one in Guard(policy, workspace).wrap(default_tools(workspace))}
    [result] = await run_all([ToolCall("c", "Bash", {"command": "touch made"})], tools)
    assert result.is_error and result.text.endswith(policy.summary())


async def test_a_person_sees_a_diff_and_their_always_is_remembered(workspace: Workspace) -> None:
    """Guard: ask shows what would happen and remembers "always for this"."""
    asked: list[PermissionQuestion] = []
    learnt: list[PermissionRule] = []
    answers: list[PermissionAnswer] = ["always"]

    async def ask(question: PermissionQuestion) -> PermissionAnswer:
        asked.append(question)
        return answers.pop()

    guard = Guard(PermissionPolicy(root=workspace.root), workspace, ask=ask, learn=learnt.append)
    tools = {one.name: one for one in guard.wrap(default_tools(workspace))}
    read = ToolCall("r", "Read", {"file_path": "src/app.py"})
    edit = {"file_path": "src/app.py", "old_string": "old", "new_string": "new"}
    back = {"file_path": "src/app.py", "old_string": "new", "new_string": "old"}
    results = await run_all([read, ToolCall("a", "Edit", edit), ToolCall("b", "Edit", back)], tools)
    assert [result.is_error for result in results] == [False, False, False]
    assert len(asked) == 1
    assert "-old\n+new" in asked[0].preview
    assert [rule.text for rule in learnt] == ["Edit(/src/app.py)"]


async def test_a_no_changes_nothing(workspace: Workspace) -> None:
    async def ask(question: PermissionQuestion) -> PermissionAnswer:
        assert question.preview == "touch made"
        return "no"

    guard = Guard(PermissionPolicy(root=workspace.root), workspace, ask=ask)
    tools = {one.name: one for one in guard.wrap(default_tools(workspace))}
    [result] = await run_all([ToolCall("c", "Bash", {"command": "touch made"})], tools)
    assert "the user said no" in result.text
    assert not (workspace.root / "made").exists()


async def test_never_refuses_the_same_call_again_without_a_question_and_is_not_saved(
    workspace: Workspace,
) -> None:
    asked: list[PermissionQuestion] = []
    learnt: list[PermissionRule] = []

    async def ask(question: PermissionQuestion) -> PermissionAnswer:
        asked.append(question)
        return "never"

    guard = Guard(PermissionPolicy(root=workspace.root), workspace, ask=ask, learn=learnt.append)
    tools = {one.name: one for one in guard.wrap(default_tools(workspace))}
    twice = [ToolCall(name, "Bash", {"command": "touch made"}) for name in "ab"]
    other = ToolCall("c", "Bash", {"command": "touch other"})
    results = await run_all([*twice, other], tools)
    assert [one.is_error for one in results] == [True, True, True]
    assert [one.arguments["command"] for one in asked] == ["touch made", "touch other"]
    assert (learnt, guard.denials) == ([], 3)
    assert not (workspace.root / "made").exists()


async def test_a_link_that_moves_after_the_decision_leads_nowhere(workspace: Workspace) -> None:
    """A path that leaves the roots by a race is refused, not followed."""
    door = workspace.root / "door"
    door.symlink_to(workspace.root / "src" / "app.py")

    async def ask(question: PermissionQuestion) -> PermissionAnswer:
        door.unlink()
        door.symlink_to(workspace.root.parent / "outside.txt")
        return "once"

    given = rules(ask=["Read"])
    guard = Guard(PermissionPolicy(root=workspace.root, rules=given), workspace, ask=ask)
    tools = {one.name: one for one in guard.wrap(default_tools(workspace))}
    [result] = await run_all([ToolCall("c", "Read", {"file_path": "door"})], tools)
    assert result.is_error
    assert "secret" not in result.text


def test_a_fork_may_do_less_and_never_asks(workspace: Workspace) -> None:
    """F3, E5: read freely, run only what provably reads, write in one place."""
    notes = workspace.root / "notes"
    narrow = Narrowing(tools=frozenset({"Read", "Grep", "Glob", "Bash", "Edit", "Write"}), writes_in=(notes,))
    policy = PermissionPolicy(root=workspace.root, mode="bypassPermissions").narrowed(narrow)

    def decide(name: str, **call: str) -> str:
        return policy.decide(tool(name), dict(call), workspace).effect

    assert decide("Read", file_path="src/app.py") == "allow"
    assert decide("Write", file_path="notes/a.md") == "allow"
    assert decide("Write", file_path="notes/../src/app.py") == "deny"
    assert decide("Edit", file_path="src/app.py") == "deny"
    assert decide("Bash", command="ls -la") == "allow"
    assert decide("Bash", command="ls > notes/x") == "deny"
    assert decide("Bash", command="git log") == "deny"
    assert decide("WebFetch", url="https://example.org") == "deny"
    assert "Write only below" in policy.summary()


def test_a_rule_denies_a_fork_too(workspace: Workspace) -> None:
    policy = PermissionPolicy(root=workspace.root, rules=rules(deny=["Read(.env)"])).narrowed(
        Narrowing(tools=frozenset({"Read"}))
    )
    assert policy.decide(tool("Read"), {"file_path": ".env"}, workspace).effect == "deny"


def test_what_a_person_wants_to_be_asked_about_no_fork_does(workspace: Workspace) -> None:
    """F3: nobody can be asked for it; what it may write is the program's own, whatever rules say of that."""
    notes = workspace.root / "notes"
    narrow = Narrowing(tools=frozenset({"Read", "Bash", "Edit"}), writes_in=(notes,))
    asks = rules(ask=["Read(private/**)", "Bash(ls:*)", "Edit"])
    policy = PermissionPolicy(root=workspace.root, rules=asks).narrowed(narrow)
    refused = policy.decide(tool("Read"), {"file_path": "private/plan.md"}, workspace)
    assert (refused.effect, "cannot ask" in refused.reason) == ("deny", True)
    assert policy.decide(tool("Bash"), {"command": "ls -la"}, workspace).effect == "deny"
    assert policy.decide(tool("Read"), {"file_path": "src/app.py"}, workspace).effect == "allow"
    assert policy.decide(tool("Edit"), {"file_path": "notes/a.md"}, workspace).effect == "allow"


READS_OUTSIDE: list[tuple[str, JsonObject]] = [
    ("Read", {"file_path": "../outside.txt"}),
    ("Read", {"file_path": "link"}),
    ("Grep", {"pattern": "s", "path": ".."}),
    ("Grep", {"pattern": "s", "path": "folder"}),
    ("Glob", {"pattern": "../*.txt"}),
    ("Bash", {"command": "cat ../outside.txt"}),
    ("Bash", {"command": "cat link"}),
    ("Bash", {"command": "grep -r s ~"}),
    ("Bash", {"command": "find .. -name '*.txt'"}),
]


@pytest.mark.parametrize(("name", "call"), READS_OUTSIDE)
def test_a_fork_is_refused_a_read_that_its_parent_would_have_to_ask_for(
    workspace: Workspace, name: str, call: JsonObject
) -> None:
    notes = workspace.root / "notes"
    narrow = Narrowing(tools=frozenset({"Read", "Grep", "Glob", "Bash", "Edit"}), writes_in=(notes,))
    for mode in ("default", "acceptEdits", "bypassPermissions"):
        policy = PermissionPolicy(root=workspace.root, mode=mode).narrowed(narrow)
        decision = policy.decide(tool(name), call, workspace)
        assert decision.effect == "deny"
        assert "outside the project" in decision.reason and "cannot ask for permission" in decision.reason
        assert "\n" not in decision.reason


@pytest.mark.parametrize(("name", "call"), READS_OUTSIDE)
def test_a_fork_reads_outside_the_project_what_the_person_or_the_program_has_opened(
    workspace: Workspace, name: str, call: JsonObject
) -> None:
    outside, tools = workspace.root.parent, frozenset({"Read", "Grep", "Glob", "Bash"})
    plain, directories = PermissionPolicy(root=workspace.root), (outside, Path.home().resolve())
    opened = [
        replace(plain, directories=directories).narrowed(Narrowing(tools=tools)),
        plain.narrowed(Narrowing(tools=tools, reads_in=directories)),
        plain.narrowed(Narrowing(tools=tools, writes_in=directories)),
        plain.with_rules(rules(allow=[f"Read(/{outside})", "Bash"])).narrowed(Narrowing(tools=tools)),
    ]
    assert [one.decide(tool(name), call, workspace).effect for one in opened] == ["allow"] * 4


@pytest.mark.parametrize("call", [{}, {"file_path": 3}, {"file_path": "a\0b"}])
def test_malformed_arguments_reach_the_tool_which_says_what_is_wrong(
    workspace: Workspace, call: JsonObject
) -> None:
    assert PermissionPolicy(root=workspace.root).decide(tool("Read"), call, workspace).effect == "allow"


def _vanished(path: object) -> str:
    raise OSError(errno.EINVAL, "Invalid argument")


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
@pytest.mark.parametrize("name", ["Read", "Grep", "Write"])
def test_a_path_that_cannot_be_resolved_is_asked_about(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, mode: Mode, name: str
) -> None:
    """As where a link vanishes while it is followed: it may lead anywhere once it is back."""
    key = "path" if name == "Grep" else "file_path"
    monkeypatch.setattr(os, "readlink", _vanished)
    policy = PermissionPolicy(root=workspace.root, mode=mode)
    call: JsonObject = {key: "link"}
    assert policy.decide(tool(name), call, workspace).effect == "ask"
    assert policy.rule_for(tool(name), call, workspace).text == f"{name}(/link)"
    allowed = policy.with_rules(rules(allow=[name]))
    assert allowed.decide(tool(name), call, workspace).effect == "ask"
    for denial in (name, f"{name}(link)"):
        denied = policy.with_rules(rules(deny=[denial], ask=["Read"]))
        assert denied.decide(tool(name), call, workspace).effect == "deny"
    narrowed = policy.narrowed(Narrowing(tools=frozenset({name}), writes_in=(workspace.root,)))
    assert narrowed.decide(tool(name), call, workspace).effect == "deny"


async def test_a_path_that_cannot_be_resolved_is_not_written_to_where_nobody_can_be_asked(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it can be resolved again by the time the tool looks."""
    guard = Guard(PermissionPolicy(root=workspace.root, mode="acceptEdits"), workspace)
    tools = guard.wrap([replace(tool("Write"), call=_nothing)])
    monkeypatch.setattr(os, "readlink", _vanished)
    call = ToolCall("c", "Write", {"file_path": "link"})
    [result] = await run_all([call], {one.name: one for one in tools})
    assert result.is_error
    assert "cannot be resolved" in result.text


def test_opening_through_a_swapped_directory_is_noticed(workspace: Workspace, tmp_path: Path) -> None:
    """The real path was checked; what is opened must be at that path."""
    from nacre.tools.files import open_regular

    real = workspace.locate("src/app.py")
    Path(workspace.root / "src").rename(workspace.root / "moved")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "app.py").write_text("secret")
    (workspace.root / "src").symlink_to(elsewhere)
    with pytest.raises(ToolError, match="symbolic link was put"):
        open_regular(real, "src/app.py")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("git commit -m x", "Bash(git commit:*)"),
        ("python3 -c 'print(1)'", "Bash(python3 -c 'print(1)')"),
        ("rm build/x", "Bash(rm build/x)"),
        ("git -C x push", "Bash(git -C x push)"),
        ("make test && make lint", "Bash(make test && make lint)"),
    ],
)
def test_always_means_no_more_than_what_was_seen(workspace: Workspace, command: str, text: str) -> None:
    """An answer about one command must not open the door for every use of an interpreter or of rm."""
    call: JsonObject = {"command": command}
    rule = PermissionPolicy(root=workspace.root).rule_for(tool("Bash"), call, workspace)
    assert rule.text == text
    learnt = PermissionPolicy(root=workspace.root, rules=(parse_rule(rule.text, "allow"),))
    assert learnt.decide(tool("Bash"), call, workspace).effect == "allow"
    assert learnt.decide(tool("Bash"), {"command": command + "\nrm -rf /"}, workspace).effect == "ask"
    assert learnt.decide(tool("Bash"), {"command": "python3 -c 'print(2)'"}, workspace).effect == "ask"


def test_a_rule_against_a_file_holds_wherever_the_session_is_and_whatever_the_file_is_called(
    workspace: Workspace,
) -> None:
    """A `cd`, a link or a path round the corner must not carry a file out of a rule's reach."""
    (workspace.root / "secrets").mkdir()
    (workspace.root / "secrets" / "s.yml").write_text("x")
    (workspace.root / "alias").symlink_to(workspace.root / "secrets")
    (workspace.root / "real").mkdir()
    (workspace.root / "linked").symlink_to(workspace.root / "real")
    policy = PermissionPolicy(
        root=workspace.root, rules=rules(deny=["Read(secrets/**)", "Read(linked/**)", "Read(.env)"])
    )
    workspace.cwd = workspace.root / "src"
    for name in ("../secrets/s.yml", "../alias/s.yml", "../linked/x", "../.env"):
        assert policy.decide(tool("Read"), {"file_path": name}, workspace).effect == "deny", name
    assert policy.decide(tool("Bash"), {"command": "cat ../.env"}, workspace).effect == "deny"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ('[core]\n\tbare = false\n[remote "origin"]\n\turl = x\n', "allow"),
        ("[diff]\n\texternal = ./evil\n", "ask"),
        ('[diff "x"]\n\ttextconv=./evil\n', "ask"),
        ('[filter "x"]\n\tClean = ./evil\n', "ask"),
        ("[core] fsmonitor = ./evil\n", "allow"),  # overridden
        ("[include]\n\tpath = ../evil\n", "ask"),
        ("[gpg]\n\tprogram = ./evil\n", "ask"),
        ('[remote "origin"]\n\tpromisor = true\n\tuploadpack = ./evil\n', "ask"),
        ('[protocol "ext"]\n\tallow = always\n', "ask"),
        ("[credential]\n\thelper = !./evil\n", "allow"),  # no remote is reached
    ],
)
def test_git_is_asked_for_where_the_repository_names_programs(
    workspace: Workspace, config: str, expected: str
) -> None:
    """An unpacked archive may bring its own `.git/config`, and even `git diff` would obey it."""
    subprocess.run(["git", "init", "-q", str(workspace.root)], check=True)
    (workspace.root / ".git" / "config").write_text(config)
    assert effect(workspace, "Bash", command="git diff HEAD") == expected
    is_plain = "evil" not in config and expected == "allow"
    assert effect(workspace, "Bash", command="/usr/bin/git log -p") == ("allow" if is_plain else "ask")
    assert effect(workspace, "Bash", command="ls") == "allow"


def test_git_is_asked_for_where_settings_of_one_worktree_name_programs(workspace: Workspace) -> None:
    """They stand in a file of their own beside the config, in a linked worktree beside its head."""
    shared = workspace.root / ".git"
    subprocess.run(["git", "init", "-q", str(workspace.root)], check=True)
    (shared / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n[extensions]\n\tworktreeConfig = true\n"
    )
    assert effect(workspace, "Bash", command="git diff HEAD") == "allow"
    (shared / "config.worktree").write_text("[diff]\n\texternal = ./evil\n")
    assert effect(workspace, "Bash", command="git diff HEAD") == "ask"


def test_git_is_asked_for_where_a_repository_below_names_programs(workspace: Workspace) -> None:
    """Where git works decides which settings it obeys, however the command gets there."""
    inner = workspace.root / "below" / "deep"
    inner.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(workspace.root / "below")], check=True)
    (workspace.root / "below" / ".git" / "config").write_text("[diff]\n\texternal = ./evil\n")
    for command in ("cd below && git diff", "git -C below/deep diff", "cd below; cd deep; git log -p"):
        assert effect(workspace, "Bash", command=command) == "ask", command
    assert effect(workspace, "Bash", command="git diff") == "allow"
    workspace.cwd = inner
    assert effect(workspace, "Bash", command="git diff") == "ask"


def test_git_is_asked_for_where_it_would_go_into_a_repository_that_names_programs(tmp_path: Path) -> None:
    """`git status` looks into what the index links to, by the settings that it finds there."""
    outer, inner, deep = tmp_path / "a", tmp_path / "a" / "sub" / "b", tmp_path / "a" / "sub" / "b" / "c"
    named = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "advice.addEmbeddedRepo=false"]
    for place in (deep, inner, outer):
        place.mkdir(parents=True, exist_ok=True)
        (place / "file with a longer name.txt").write_text("x")
        for words in (["init", "-q"], ["add", "."], [*named, "commit", "-qm", "x"]):
            subprocess.run(["git", *words], cwd=place, check=True)
    there = Workspace(outer)
    subprocess.run(["git", "update-index", "--index-version", "4"], cwd=outer, check=True)
    assert effect(there, "Bash", command="git status") == "allow"
    with (deep / ".git" / "config").open("a") as config:
        config.write('[filter "x"]\n\tclean = ./evil\n')
    assert effect(there, "Bash", command="git status") == "ask"


@pytest.mark.parametrize(
    ("rule", "name", "arguments", "expected"),
    [
        ("Agent(explore)", "Agent", {"subagent_type": "explore"}, "deny"),
        ("Agent(general)", "Agent", {"prompt": "x"}, "deny"),
        ("Agent(explore)", "Agent", {"prompt": "x"}, "allow"),
        ("SendMessage(uds:*)", "SendMessage", {"to": "uds:/run/a.sock"}, "deny"),
        ("SendMessage(uds:*)", "SendMessage", {"to": "main"}, "allow"),
        ("Skill(deploy*)", "Skill", {"skill": "/deploy-all"}, "deny"),
        ("Bash(rm:*)", "Bash", {"command": "rm x", "skill": "y"}, "deny"),
    ],
)
def test_a_rule_can_mean_kinds_of_agents_receivers_and_skills(
    workspace: Workspace, rule: str, name: str, arguments: JsonObject, expected: str
) -> None:
    """A rule that looks as if it held and never does is worse than none."""
    policy = PermissionPolicy(root=workspace.root, rules=rules(deny=[rule]))
    assert policy.decide(tool(name), arguments, workspace).effect == expected


async def test_a_wish_is_for_one_call_and_not_for_those_it_leads_to(workspace: Workspace) -> None:
    """Who lets an agent be started has not let it do whatever it likes."""
    guard = Guard(PermissionPolicy(root=workspace.root), workspace)
    (inner,) = guard.wrap([tool("Other")])

    async def leads_on(arguments: JsonObject) -> str:
        return str(await inner.call({}))

    (outer,) = guard.wrap([replace(tool("Starts"), call=leads_on)])
    with (
        permission_override(PermissionOverride("allow")),
        pytest.raises(ToolError, match="Other comes from outside"),
    ):
        await outer.call({})
    with permission_override(PermissionOverride("allow")):
        assert await inner.call({}) == "done"


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
async def test_a_wish_to_ask_holds_in_every_mode_and_after_every_always(
    workspace: Workspace, mode: Mode
) -> None:
    asked: list[str] = []

    async def ask(question: PermissionQuestion) -> PermissionAnswer:
        asked.append(question.reason)
        return "always"

    guard = Guard(PermissionPolicy(root=workspace.root, mode=mode), workspace, ask=ask)
    (reader,) = guard.wrap([tool("Read")])
    for _ in range(2):
        with permission_override(PermissionOverride("ask", "it is Friday")):
            assert await reader.call({"file_path": "src/app.py"}) == "done"
    assert asked == ["it is Friday", "it is Friday"]


async def test_a_yes_does_not_pass_a_line_on_which_a_rule_cannot_be_checked(workspace: Workspace) -> None:
    """A rule against `rm` holds although nobody can say what such a line runs."""
    guard = Guard(PermissionPolicy(root=workspace.root, rules=rules(deny=["Bash(rm:*)"])), workspace)
    (bash,) = guard.wrap([tool("Bash")])
    with (
        permission_override(PermissionOverride("allow")),
        pytest.raises(ToolError, match="this session cannot ask for permission"),
    ):
        await bash.call({"command": "$(echo rm) a"})
