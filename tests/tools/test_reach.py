"""Where the words of a command lead: whatever would print what lies outside the project is asked for."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject, ToolCall
from nacre.tools.base import Tool
from nacre.tools.bash import bash_tool
from nacre.tools.guard import Guard, PermissionAnswer
from nacre.tools.policy import Narrowing, PermissionPolicy
from nacre.tools.read import read_tool
from nacre.tools.rules import Effect, PermissionRule, parse_rule
from nacre.tools.run import run_all
from nacre.tools.search_tools import glob_tool, grep_tool
from nacre.tools.workspace import Copies, Workspace

SECRET = "the secret of another place"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "project"
    for folder in ("src/deep", "[x]", "a"):
        (root / folder).mkdir(parents=True)
    (root / "src" / "app.py").write_text("old\n")
    (root / "inner").write_text("words\n")
    (root / "src" / "é.txt").write_text("words\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_text(SECRET + "\n")
    (tmp_path / "secret").write_text(SECRET + "\n")
    (root / "notes").symlink_to(tmp_path / "secret")
    (root / "src" / "inner").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "near").symlink_to(root / "src" / "app.py")
    (root / "loop").symlink_to("loop")
    return Workspace(root)


async def _nothing(arguments: JsonObject) -> str:
    return "done"


def effect(workspace: Workspace, command: str, *rules: PermissionRule) -> Effect:
    bash = Tool(name="Bash", description="", input_schema={}, call=_nothing)
    policy = PermissionPolicy(root=workspace.root, rules=rules)
    return policy.decide(bash, {"command": command}, workspace).effect


def printed(workspace: Workspace, command: str) -> str:
    environ = {
        **os.environ,
        "HOME": f"{workspace.root.parent}/home",
        "OLDPWD": f"{workspace.root.parent}/home",
    }
    done = subprocess.run(
        ["bash", "-c", command], cwd=workspace.cwd, env=environ, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "cat ../secret",
        "cat */../../secret",
        "cat ?/../../secret",
        "cat {../secret,x}",
        "cat {.,a}{.,b}/secret",
        "cat {,a}/dev/../$PWD/../secret",
        "cat {~,x}/secret",
        "cat n*",
        "cat [n]otes",
        "cat fold*/secret",
        "cat src/i*",
        "cat .*/secret",
        "cat '[x]/../../secret'",
        "cat $'\\56\\56/secret'",
        "cat ~-/secret",
        "cd && cat secret",
        "cd; cat secret",
        "cd - && cat secret",
        "cd -- && cat secret",
        "cd src && cat inner",
        "cd src && cat deep/../../../secret",
        "cd a && cd ../.. && cat secret",
        "(cd src); cat notes",
        "cd folder && cat secret",
        "grep -R secret .",
        "grep -nR secret",
        "egrep --dereference-recursive secret .",
        "diff -r folder a",
        "diff -ur . a",
        "diff src a",
        "diff --new-file src a",
        "diff --new-file s?c a",
        "/usr/bin/diff inner src",
        "cd src && diff inner deep/..",
        "grep -f../secret ../secret",
        "grep -vf../secret -e x notes",
        "strings @../secret",
        "strings @inner",
        "cat < notes",
        "cd -L src && cat inner",
        "cd loop/../src && cat app.py",
        "cat loop",
        "cat loop/../inner",
        "find -L .",
        "find . -follow -name x",
        "find . -xtype f",
        "find . -printf '%p %-3Y'",
        "file -f inner",
        "file -L src/*",
        "sort --files0-from=inner",
        "find . -files0-from inner",
        "rg --follow words",
        "cmp src folder",
        "stat -L src/*",
        "readlink -f src/inner",
        "test -e src/inner",
        "xargs -a inner cat",
        "cp -L src x",
        "tar -T inner -c",
        "jq -n 'import \"../home/secret\" as $d; $d'",
        "ls -RL",
        "ls -lL .",
        "ls -R --dereference",
        "du -aL",
        "du --dereference .",
        "du --files0-from=inner",
        "wc --files0-from inner",
        "wc --files=inner",
        "md5sum -c inner",
        "sha256sum --check inner",
        "sha1sum -wc inner",
        "b2sum --ch inner",
        "cksum -c inner",
        "shasum -c inner",
        "tree -al",
    ],
)
def test_no_spelling_reads_outside_the_project_unasked(workspace: Workspace, command: str) -> None:
    assert effect(workspace, command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cat near",
        "cat src/*.py",
        "cat src/{app,other}.py",
        "cat src/é.txt",
        "cd src && cat app.py",
        "cd src && cd deep && ls",
        "grep -rn old src --include=*.py",
        "cut -d/ -f1 src/app.py",
        "diff -r --no-dereference src a",
        "diff --no-dereference --new-file src a",
        "diff --no-dereference inner src",
        "diff src/app.py near",
        "grep 'a.*/b' src/app.py",
        "git log --oneline -5",
        "find -H . -name '*.py' -o -links 2",
        "ls -R --color=never src",
        "du -sh --max-depth=1 .",
        "wc -l src/app.py",
        "sha256sum src/app.py",
        "cd src/deep/.. && cat app.py",
        "head -20 src/app.py 2>/dev/null",
    ],
)
def test_what_stays_inside_is_free_and_prints_no_secret(workspace: Workspace, command: str) -> None:
    assert effect(workspace, command) == "allow"
    assert SECRET not in printed(workspace, command)


@pytest.mark.parametrize("command", ["diff --new-file src a", "diff inner src"])
def test_diff_would_print_what_a_link_in_a_directory_leads_to(workspace: Workspace, command: str) -> None:
    assert SECRET in printed(workspace, command)


def test_a_word_that_cannot_be_resolved_is_asked_about(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a link vanishes while it is followed."""
    assert effect(workspace, "cat near") == "allow"
    monkeypatch.setattr(os, "readlink", _vanished)
    assert effect(workspace, "cat near") == "ask"
    assert effect(workspace, "cd near; ls") == "ask"


def _vanished(path: object) -> str:
    raise OSError(errno.EINVAL, "Invalid argument")


@pytest.fixture
def linked(workspace: Workspace) -> Workspace:
    """A link to a deep directory, beside a link that leads out: the parent of the first has two readings."""
    root = workspace.root
    (root / "x").mkdir()
    (root / "x" / "link").symlink_to("../src/deep")
    (root / "x" / "out").symlink_to("../..")
    return workspace


async def answered(workspace: Workspace, tool: Tool, **arguments: str) -> str:
    """What a call gives where nobody can be asked."""
    [guarded] = Guard(PermissionPolicy(root=workspace.root), workspace).wrap([tool])
    [result] = await run_all([ToolCall("c", tool.name, dict(arguments))], {tool.name: guarded})
    return result.text


@pytest.mark.parametrize("path", ["loop/../x/out", "gone/../loop/../x/out", "loop/../x/out/home"])
async def test_no_tool_reads_outside_through_a_link_to_itself(linked: Workspace, path: str) -> None:
    calls = [
        (grep_tool(linked), {"pattern": "secret", "path": path, "output_mode": "content"}),
        (glob_tool(linked), {"pattern": "*", "path": path}),
        (glob_tool(linked), {"pattern": f"{path}/*"}),
        (read_tool(linked), {"file_path": f"{path}/secret"}),
    ]
    fork = PermissionPolicy(root=linked.root).narrowed(Narrowing(tools=frozenset({"Read", "Grep", "Glob"})))
    for tool, arguments in calls:
        text = await answered(linked, tool, **arguments)
        assert "cannot be resolved: too many levels of symbolic links" in text, text
        assert "this session cannot ask for permission" in text
        assert fork.decide(tool, {**arguments}, linked).effect == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "cd x/link/../out && cat secret",
        "cd x/link/.. && cd out && cat secret",
        "cd x/link && cd ../out && cat secret",
        "cd x/link; cd ..; cat out/secret",
        "(cd x/link/../out && cat secret) | cat",
        "cd -- x/link/../out && cat secret",
    ],
)
async def test_the_parent_of_a_link_is_the_same_for_the_check_and_for_the_shell(
    linked: Workspace, command: str
) -> None:
    assert SECRET in printed(linked, command), "a shell with its own settings would print it"
    assert SECRET not in await answered(linked, bash_tool(linked), command=command)


async def test_git_runs_in_the_directory_that_was_checked(linked: Workspace, tmp_path: Path) -> None:
    nested = linked.root / "x" / "nested"
    for place in (linked.root, nested):
        subprocess.run(["git", "init", "-q", os.fspath(place)], check=True)
    with (nested / ".git" / "config").open("a") as config:
        config.write(f"[diff]\n\texternal = touch {tmp_path}/ran;\n")
    (nested / "f").write_text("one\n")
    subprocess.run(["git", "add", "f"], cwd=nested, check=True)
    (nested / "f").write_text("two\n")
    line = "cd x/link/../nested && git diff"
    await answered(linked, bash_tool(linked), command=line)
    assert not (tmp_path / "ran").exists()
    printed(linked, line)
    assert (tmp_path / "ran").exists(), "the program would have run"


@pytest.mark.parametrize("has_ripgrep", [True, False])
async def test_a_directory_that_is_exchanged_for_a_link_is_not_searched(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_ripgrep: bool
) -> None:
    if has_ripgrep and not shutil.which("rg"):
        pytest.skip("ripgrep is not installed")
    monkeypatch.setattr("nacre.tools.search_tools.shutil.which", lambda name: "rg" if has_ripgrep else None)
    target = workspace.root / "a"

    def exchange(_: Path) -> None:
        target.rmdir()
        target.symlink_to(tmp_path)

    def same(path: Path) -> Path:
        return path

    async def refuse(path: Path, content: bytes) -> None:
        raise ToolError("no")

    for tool, arguments in (
        (grep_tool(workspace), {"pattern": "secret", "path": "a", "output_mode": "content"}),
        (glob_tool(workspace), {"pattern": "*", "path": "a"}),
    ):
        workspace.copies = Copies(tmp_path / "copies", same, same, exchange, refuse)
        with pytest.raises(ToolError, match="symbolic link was put"):
            await tool.call({**arguments})
        target.unlink()
        target.mkdir()


def test_a_question_says_why_a_line_may_read_outside(workspace: Workspace) -> None:
    bash = Tool(name="Bash", description="", input_schema={}, call=_nothing)
    for command, expected in (
        ("diff . a", "it may read outside the project (diff follows the symbolic links in .)"),
        ("find -L .", "it may read outside the project (find -L follows symbolic links)"),
        (
            "wc --files0-from=inner",
            "it may read outside the project (wc --files0-from=inner takes file names from a file)",
        ),
        ("cat $X", "it may read outside the project (where $X leads is not known)"),
        ("cat ../secret", "it would read outside the project: ../secret"),
        ("git log *", "git: log: a variable or wildcard may expand to an option"),
    ):
        decision = PermissionPolicy(root=workspace.root).decide(bash, {"command": command}, workspace)
        assert (decision.effect, decision.reason) == ("ask", expected)


@pytest.mark.parametrize("command", ["cat /proc/self/cwd/inner", "cat here/inner"])
def test_a_link_that_means_another_place_for_each_process_is_asked_about(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Here it leads to the directory of this process, there to that of the command."""
    monkeypatch.chdir(workspace.root)
    workspace.cwd = workspace.root / "src"
    (workspace.cwd / "here").symlink_to("/proc/self/cwd")
    assert SECRET in printed(workspace, command)
    assert effect(workspace, command) == "ask"


@pytest.mark.parametrize("command", ["ls", "cat *", "grep -r secret", "pwd"])
def test_a_working_directory_outside_the_project_makes_every_command_a_question(
    workspace: Workspace, command: str
) -> None:
    workspace.cwd = workspace.root.parent
    assert effect(workspace, command) == "ask"


@pytest.mark.parametrize(
    ("rules", "command", "expected"),
    [
        (["Read(.env)"], "cat .env", "deny"),
        (["Read(.env)"], "cat ./src/../.env", "deny"),
        (["Read(.env)"], "cat .e*", "deny"),
        (["Read(.env)"], "grep -f.env src/app.py", "deny"),
        (["Read(.env)"], "cat loop/../.env", "deny"),
        (["Read(//proc/**)"], "cat /proc/self/environ", "deny"),
        (["Read(.env)"], "cat src/app.py", "allow"),
        (["Bash(rm:*)"], "/bin/rm x", "deny"),
        (["Bash(rm:*)"], "/usr/bin/rm x", "deny"),
    ],
)
def test_a_rule_against_a_file_or_program_holds_however_it_is_named(
    workspace: Workspace, rules: list[str], command: str, expected: str
) -> None:
    (workspace.root / ".env").write_text("KEY=1\n")
    given = [parse_rule(text, "deny") for text in rules]
    assert effect(workspace, command, *given, parse_rule("Bash", "allow")) == expected


def test_an_allowed_cd_does_not_carry_other_commands_out(workspace: Workspace) -> None:
    allowed = parse_rule("Bash(cd:*)", "allow")
    assert effect(workspace, "cd ..", allowed) == "allow"
    assert effect(workspace, "cd .. && cat secret", allowed) == "ask"


def test_always_for_a_name_with_brackets_means_that_file_and_no_other(workspace: Workspace) -> None:
    edit = Tool(name="Edit", description="", input_schema={}, call=_nothing)
    policy = PermissionPolicy(root=workspace.root)
    rule = policy.rule_for(edit, {"file_path": "src/[id].{tsx}*"}, workspace)
    policy = policy.with_rules([rule])
    assert policy.decide(edit, {"file_path": "src/[id].{tsx}*"}, workspace).effect == "allow"
    assert policy.decide(edit, {"file_path": "src/i.tsx"}, workspace).effect == "ask"


async def test_a_pattern_that_names_a_directory_is_looked_for_there_behind_a_guard(
    workspace: Workspace,
) -> None:
    guard = Guard(PermissionPolicy(root=workspace.root), workspace)
    [glob] = guard.wrap([glob_tool(workspace)])
    assert await glob.call({"pattern": "src/*.py"}) == "src/app.py"
    assert await glob.call({"pattern": "*.py", "path": "src"}) == "src/app.py"
    with pytest.raises(ToolError, match="outside the project"):
        await glob.call({"pattern": "../*"})
    with pytest.raises(ToolError, match="outside the project"):
        await glob.call({"pattern": "folder/*"})


async def test_a_search_without_ripgrep_follows_no_link(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    search = grep_tool(workspace)
    assert await search.call({"pattern": "secret", "output_mode": "content"}) == "No matches."


@pytest.fixture
def hiding(workspace: Workspace) -> Workspace:
    for name in ("private/plan.txt", "private/deep/plan.txt", "src/.env", "src/key.pem"):
        (workspace.root / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace.root / name).write_text(f"{SECRET}\n")
    (workspace.root / "src" / "app.py").write_text("no secret here\n")
    return workspace


HIDING = [parse_rule(text, "deny") for text in ("Read(private/**)", "Read(.env)")]
HIDING.append(parse_rule("Read(*.pem)", "ask"))


@pytest.mark.parametrize("mode", ["content", "count", "files_with_matches"])
async def test_a_search_leaves_out_what_a_rule_is_against(hiding: Workspace, mode: str) -> None:
    policy = PermissionPolicy(root=hiding.root, rules=(*HIDING,), mode="bypassPermissions")
    grep, glob = Guard(policy, hiding).wrap([grep_tool(hiding), glob_tool(hiding)])
    for path in (".", "src", str(hiding.root)):
        said = str(await grep.call({"pattern": "secret", "path": path, "output_mode": mode}))
        assert "app.py" in said
        assert SECRET not in said and "plan" not in said and ".env" not in said and "key" not in said
    listed = str(await glob.call({"pattern": "src/*"})).split()
    assert {*listed} == {"src/app.py", "src/é.txt", "src/inner"}
    for place in ("private", "private/deep", "private/"):
        with pytest.raises(ToolError, match="says deny"):
            await grep.call({"pattern": "secret", "path": place})
        with pytest.raises(ToolError, match="says deny"):
            await glob.call({"pattern": f"{place.rstrip('/')}/**"})


async def test_a_search_that_the_person_allowed_shows_what_was_asked_about(hiding: Workspace) -> None:
    async def ask(question: object) -> PermissionAnswer:
        return "once"

    policy = PermissionPolicy(root=hiding.root, rules=(parse_rule("Read(private)", "ask"),))
    [grep] = Guard(policy, hiding, ask=ask).wrap([grep_tool(hiding)])
    assert SECRET in str(await grep.call({"pattern": "secret", "path": "private", "output_mode": "content"}))
    assert "private" not in str(await grep.call({"pattern": "secret"}))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("grep -rn secret", "deny"),
        ("grep -rn secret .", "deny"),
        ("cd src && grep -r secret", "deny"),
        ("egrep -R secret private/deep", "deny"),
        ("fgrep --recursive secret src", "deny"),
        ("rg secret", "deny"),
        ("rg secret private", "deny"),
        ("grep -r secret a", "allow"),
        ("grep -r -e a", "deny"),
        ("grep -r x --include a", "deny"),
        ("grep --regexp=x -r src a", "deny"),
        ("grep secret src/app.py", "allow"),
        ("ls -R", "allow"),
    ],
)
def test_a_search_by_command_is_held_to_rules_against_files_below(
    hiding: Workspace, command: str, expected: Effect
) -> None:
    assert effect(hiding, command, *HIDING) == expected


def test_a_tree_too_large_to_compare_with_the_rules_is_asked_about(
    hiding: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nacre.tools.reach.MAX_FILES_BELOW", 1)
    assert effect(hiding, "grep -r secret", *HIDING[1:]) == "ask"
    assert effect(hiding, "grep -r secret") == "allow"
