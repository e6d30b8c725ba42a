"""Claude Code's settings files: what nacre takes from them, behind which trust, and what it lists instead."""

from __future__ import annotations

import asyncio
import json
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from nacre.app.build_toolset import LearnedPermissions, session_policy
from nacre.hooks.table import EVENTS, parse_hooks
from nacre.settings import Settings, load, trust
from nacre.settings.claude_settings import HOOK_EVENTS, convert_rule
from nacre.tools import default_tools
from nacre.tools.workspace import Workspace
from tests.cli.program import nacre

HOOK = {"type": "command", "command": "echo hello"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "user" / "work"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


def home_of(work: Path) -> Path:
    return work.parent


def read(work: Path, cwd: Path | None = None, **environ: str) -> Settings:
    home = home_of(work)
    return load(
        cwd or work,
        {"HOME": str(home), "NACRE_HOME": str(home / ".nacre"), **environ},
        policy_path=home / "none.json",
    )


def write(folder: Path, document: object, name: str = ".claude/settings.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def effect(work: Path, tool: str, settings: Settings | None = None, **arguments: object) -> str:
    """What the guard does with a call under the settings in force."""
    settings = settings or read(work)
    workspace = Workspace(settings.cwd)
    policy = session_policy(settings, LearnedPermissions(settings.home, settings.project_root))
    found = next(one for one in default_tools(workspace) if one.name == tool)
    return policy.decide(found, arguments, workspace).effect  # type: ignore[arg-type]


def texts(settings: Settings, name: str) -> list[str]:
    return [one.text for one in getattr(settings.permissions, name)]


def test_rules_of_all_files_apply_and_name_their_file(work: Path) -> None:
    user = write(home_of(work), {"permissions": {"deny": ["Bash(rm *)"], "allow": ["Bash(make *)"]}})
    project = write(work, {"permissions": {"ask": ["Bash(git push:*)"], "deny": ["Read(./.env)"]}})
    local = write(
        work, {"permissions": {"deny": ["WebFetch(domain:evil.example)"]}}, ".claude/settings.local.json"
    )
    (work / ".env").write_text("x")
    settings = read(work)
    assert {one.origin for one in settings.permissions.deny} == {
        f"user {user}", f"project {project}", f"local {local}",
    }  # fmt: skip
    calls = {
        "rm -rf build": "deny",
        "rm x y z": "deny",
        "/bin/rm x": "deny",
        "make test all": "allow",
        "git push -f": "ask",
    }
    assert {line: effect(work, "Bash", command=line) for line in calls} == calls
    assert effect(work, "Read", file_path=".env") == "deny"
    assert effect(work, "Bash", command="cat .env") == "deny"
    assert settings.problems == ()


@pytest.mark.parametrize(
    ("rule", "denied", "asked"),
    [
        ("Bash(npm run test*)", ["npm run test", "npm run test:unit", "npm run tests --watch x"], []),
        ("Bash(ls*)", ["ls", "lsof -i", "ls -la x"], []),
        ("Bash(git * main)", ["git push main"], ["git push origin main", "git status x y"]),
        ("Bash(git push*main)", ["git pushmain"], ["git push origin main"]),
        ("Bash(ls*-l*)", ["ls-l"], ["ls -a -l"]),
        ("Bash(* --force)", ["git --force"], ["git push --force", "echo x y"]),
        ("Bash(*curl*)", [], ["curl x", "xcurl y", "echo x y"]),
        ("Bash(cd /x && rm:*)", [], ["cd /x", "cd /x && rm y"]),
        ("Bash", ["echo x"], []),
        ("Bash(*)", ["echo x"], []),
    ],
)
def test_a_denied_command_is_never_run_without_a_question(
    work: Path, rule: str, denied: list[str], asked: list[str]
) -> None:
    write(home_of(work), {"permissions": {"deny": [rule]}})
    write(home_of(work), {"permissions": {"defaultMode": "bypassPermissions"}}, ".nacre/settings.json")
    assert {line: effect(work, "Bash", command=line) for line in denied} == dict.fromkeys(denied, "deny")
    assert {line: effect(work, "Bash", command=line) for line in asked} == dict.fromkeys(asked, "ask")


@pytest.mark.parametrize("rule", ["Read([z-a])", "Read(", "", 7, None, {"tool": "Bash"}, "Edit(a)b", "(x)"])
@pytest.mark.parametrize("kind", ["deny", "ask"])
def test_a_restriction_that_cannot_be_read_asks_before_every_call(
    work: Path, rule: object, kind: str
) -> None:
    write(work, {"permissions": {kind: [rule, "Bash(rm:*)"]}})
    settings = read(work)
    assert "*" in texts(settings, "ask")
    assert effect(work, "Bash", command="ls") == "ask"
    assert effect(work, "Read", file_path="a.txt") == "ask"
    assert any(
        "cannot be read, so each tool call needs your permission" in one.line for one in settings.problems
    )
    settings.require_sound()  # a file of another program stops nothing


@pytest.mark.parametrize("name", [".claude", ".nacre"])
def test_a_link_to_itself_in_a_repository_stops_nothing(work: Path, name: str) -> None:
    (work / name).symlink_to(name)
    settings = read(work)
    assert settings.cwd == work.resolve()
    if name == ".claude":
        assert effect(work, "Read", settings, file_path=str(work / "a.txt")) == "ask"


@pytest.mark.parametrize("broken", ["{nonsense", "[]", '{"a": 1, "a": 2}', '{"permissions": "all"}', "\x00"])
def test_a_file_that_cannot_be_read_asks_before_every_call(work: Path, broken: str) -> None:
    write(home_of(work), broken)
    settings = read(work)
    assert texts(settings, "ask") == ["*"]
    assert ["until then each tool call needs your permission" in one.line for one in settings.problems] == [
        True
    ]
    settings.require_sound()


@pytest.mark.parametrize(
    ("rule", "converted"),
    [
        ("WebFetch(https://evil.example/x)", "WebFetch"),
        ("Agent(model:opus)", "Agent"),
        ("mcp__tracker__find(id:5)", "mcp__tracker__find"),
        ("Read(../**)", "Read"),
        ("Edit(src/../key)", "Edit"),
        ("NotebookEdit(secret.ipynb)", "Edit(secret.ipynb)"),
    ],
)
def test_a_restriction_in_a_form_that_nacre_lacks_becomes_a_wider_one(
    work: Path, rule: str, converted: str
) -> None:
    found = convert_rule(rule, "deny", cwd=work, root=work)
    assert [text for _, text in found.rules] == [converted]
    assert found.rules[0][0] in {"deny", "ask"}
    write(work, {"permissions": {"deny": [rule]}})
    settings = read(work)
    assert converted in texts(settings, found.rules[0][0])
    assert settings.problems == ()


def test_an_allow_rule_in_a_form_that_nacre_lacks_allows_nothing(work: Path) -> None:
    rules = ["mcp__x__y(id:5)", "WebFetch(https://x.example/*)", "Read([z-a])", 5, "NotebookEdit(a.ipynb)"]
    write(home_of(work), {"permissions": {"allow": [*rules, "Bash(git * main)", "Bash(npm run:*)"]}})
    settings = read(work)
    assert texts(settings, "allow") == ["Bash(git * main)", "Bash(npm run:*)"]
    assert len(settings.claude_notes) == len(rules)
    assert effect(work, "Bash", command="git push origin main") == "ask"  # `*` is one word here
    assert effect(work, "Bash", command="npm run build x") == "allow"


def test_a_relative_path_starts_at_the_working_directory_and_at_the_project_if_it_denies(work: Path) -> None:
    inner = work / "inner"
    (inner / "src").mkdir(parents=True)
    (work / "src").mkdir()
    write(home_of(work), {"permissions": {"deny": ["Read(src/key)"], "allow": ["Edit(src/*)"]}})
    settings = read(work, inner)
    places = {"src/key": "deny", "../src/key": "deny", "src/other": "allow"}
    assert {path: effect(work, "Read", settings, file_path=path) for path in places} == places
    assert effect(work, "Edit", settings, file_path="src/a") == "allow"
    assert effect(work, "Edit", settings, file_path="../src/a") == "ask"


def test_an_untrusted_repository_restricts_and_opens_nothing(work: Path) -> None:
    hooks = {"Stop": [{"hooks": [HOOK]}], "PreToolUse": [{"hooks": [{"type": "prompt"}]}]}
    write(work, {"permissions": {"allow": ["Bash"], "deny": ["Bash(rm:*)"]}, "hooks": hooks})
    before = read(work)
    assert (before.hooks, texts(before, "allow"), texts(before, "deny")) == ({}, [], ["Bash(rm:*)"])
    assert before.wants_trust == ("hooks", "permissions.allow")
    assert before.problems == ()  # not even about hooks that would not run
    assert {"'hooks'", "'permissions.allow'"} <= {
        one.message.split(" ")[0] for one in before.claude_notes if "not trusted" in one.message
    }
    trust(home_of(work) / ".nacre", work)
    after = read(work)
    assert (list(after.hooks), texts(after, "allow"), after.wants_trust) == (["Stop"], ["Bash"], ())
    assert len(after.problems) == 1


def test_a_repository_cannot_switch_memory_on_or_hooks_of_the_user_off(work: Path) -> None:
    write(home_of(work), {"hooks": {"PreToolUse": [{"hooks": [HOOK]}]}, "autoMemoryEnabled": False})
    write(work, {"disableAllHooks": True, "autoMemoryEnabled": True})
    settings = read(work)
    assert list(settings.hooks) == ["PreToolUse"]
    assert settings.memory.enabled is False
    trust(home_of(work) / ".nacre", work)
    assert read(work).hooks == {}


def test_nacre_s_own_settings_win_and_local_wins_over_project_over_user(work: Path) -> None:
    home = home_of(work)
    write(home, {"autoMemoryEnabled": False})
    assert read(work).memory.enabled is False
    assert read(work).origin("autoMemoryEnabled") == f"user {home}/.claude/settings.json"
    write(home, {"autoMemoryEnabled": True})
    write(work, {"autoMemoryEnabled": False})
    assert read(work).memory.enabled is False
    write(work, {"autoMemoryEnabled": True}, ".claude/settings.local.json")
    assert read(work).memory.enabled is True
    write(home, {"autoMemoryEnabled": False}, ".nacre/settings.json")
    assert read(work).memory.enabled is False


def test_hooks_of_all_files_run_after_nacre_s_own_and_the_same_once(work: Path) -> None:
    home = home_of(work)
    trust(home / ".nacre", work)

    def hooks(*commands: str) -> dict[str, object]:
        return {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": one} for one in commands]}]}}

    write(home, hooks("own", "same"), ".nacre/settings.json")
    write(home, hooks("user", "same"))
    write(work, hooks("project"))
    write(work, hooks("local"), ".claude/settings.local.json")
    due = parse_hooks(read(work).hooks).due("Stop", {})
    assert [one.command for one in due] == ["own", "same", "local", "project", "user"]


def test_hooks_that_nacre_cannot_run_are_left_out_and_those_that_may_refuse_are_named_at_the_start(
    work: Path,
) -> None:
    odd = [
        HOOK | {"if": "Bash(git *)"},
        HOOK | {"args": ["x"]},
        {"type": "prompt", "prompt": "ok?"},
        {"type": "http", "url": "http://127.0.0.1:1"},
        {"type": "command", "command": ""},
        {"type": "command", "command": "a\0b"},
        "text",
    ]
    own = {"type": "command", "command": "/usr/bin/nacre hook Stop", "timeout": 10}
    write(
        home_of(work),
        {
            "hooks": {
                "PreToolUse": [{"matcher": "Bash", "hooks": odd}, {"matcher": "[", "hooks": [HOOK]}, {}],
                "Stop": [{"hooks": [own]}, {"hooks": [*odd, HOOK | {"timeout": 5, "async": True}]}],
                "Notification": [{"hooks": [HOOK]}],
                "SessionEnd": "x",
            }
        },
    )
    settings = read(work)
    assert list(settings.hooks) == ["Stop"]
    assert [(one.command, one.seconds) for one in parse_hooks(settings.hooks).due("Stop", {})] == [
        ("echo hello", 5)
    ]
    assert len(settings.problems) == len(odd) + 2
    assert all("hooks.PreToolUse" in one.line for one in settings.problems)
    noted = " ".join(one.line for one in settings.claude_notes)
    assert "hooks.Notification: nacre has no such event" in noted and "hooks.SessionEnd" in noted
    assert "nacre hook" not in noted


def test_the_events_are_those_of_the_hooks() -> None:
    assert set(EVENTS) == HOOK_EVENTS


def test_a_switch_turns_it_off_and_no_repository_can(work: Path) -> None:
    write(home_of(work), {"permissions": {"deny": ["Bash"]}})
    write(work, {"claudeSettings": False}, ".nacre/settings.json")
    trust(home_of(work) / ".nacre", work)
    assert texts(read(work), "deny") == ["Bash"]
    assert texts(read(work, NACRE_CLAUDE_SETTINGS="0"), "deny") == []
    write(home_of(work), {"claudeSettings": False}, ".nacre/settings.json")
    settings = read(work)
    assert (texts(settings, "deny"), settings.claude_notes) == ([], ())


def test_another_folder_of_claude_code_is_read_and_one_that_is_nacre_s_home_only_once(work: Path) -> None:
    folder = home_of(work) / "elsewhere"
    write(folder, {"permissions": {"deny": ["Bash"]}}, "settings.json")
    home = home_of(work) / ".nacre"
    environ = {"HOME": str(home_of(work)), "CLAUDE_CONFIG_DIR": str(folder)}
    both = load(work, {**environ, "NACRE_HOME": str(home)}, policy_path=home / "none.json")
    assert [one.origin for one in both.permissions.deny] == [f"user {folder}/settings.json"]
    same = load(work, environ, policy_path=home / "none.json")
    assert same.home == folder and texts(same, "deny") == ["Bash"]


def test_doctor_lists_what_is_not_used_and_where_rules_came_from(work: Path) -> None:
    write(
        work,
        {
            "model": "opus",
            "env": {"SECRET": "s3cret"},
            "permissions": {"deny": ["Bash(git * main)"], "defaultMode": "plan"},
        },
    )
    shown = nacre(work, "doctor").stdout
    assert "not used by nacre: env, model" in shown
    assert "not used by nacre: permissions.defaultMode" in shown
    assert "nacre asks for Bash(git:*), because it has no rule like 'Bash(git * main)'" in shown
    assert "s3cret" not in shown
    assert "Bash(git * main)" in shown and ".claude/settings.json" in shown


async def test_a_denied_tool_is_not_offered_and_a_hook_runs_in_a_session(work: Path) -> None:
    from nacre import open_agent
    from nacre.testing import ScriptedProvider, say

    hook = {"type": "command", "command": "cat > seen.json"}
    write(
        home_of(work), {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}, "permissions": {"deny": ["Bash"]}}
    )
    script = ScriptedProvider().script(say("Hello."))
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_agent(read(work), provider=script))
        await opened.agent.run("Hello?")
    assert "Bash" not in {one["name"] for one in script.requests[0].tools}
    seen = await asyncio.to_thread((work / "seen.json").read_text)
    assert json.loads(seen)["prompt"] == "Hello?"
