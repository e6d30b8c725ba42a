"""Kinds of agents, from files as people write them: what is used, what is told, and who wins."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.agents.types import AgentType, AgentTypes, agent_types, parse_type
from nacre.errors import StoreError
from nacre.settings import Settings, load, trust
from nacre.settings.values import ListEntry

REVIEWER = """---
name: reviewer
description: "Looks at changes.\\n\\nExamples: <example>user: 'look'</example>"
tools: Read, Grep, Bash(git diff:*, git log:*), Task
disallowedTools: [WebFetch]
model: sonnet
maxTurns: 12
memory: project
background: true
isolation: worktree
color: purple
---

You review changes.
"""


def settings_of(root: Path) -> Settings:
    (root / ".git").mkdir(parents=True, exist_ok=True)
    return load(root, {"HOME": str(root), "NACRE_HOME": str(root / "home")})


def put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")


def kind(text: str) -> AgentType:
    notices: list[str] = []
    found = parse_type(text.encode(), Path("x.md"), notices)
    assert not notices
    return found


def test_every_field_of_a_real_file_is_read() -> None:
    """Spawning: tools as one string with commas, rules in brackets cut off, other programs' names known."""
    found = kind(REVIEWER)
    assert found.tools == {"Read", "Grep", "Bash", "Agent"}
    assert found.disallowed == {"WebFetch"}
    assert (found.model, found.max_turns, found.memory) == ("sonnet", 12, "project")
    assert (found.background, found.isolation) == (True, "worktree")
    assert found.prompt == "You review changes."
    assert found.may_call("Read")
    assert not found.may_call("WebFetch")
    assert not found.may_call("Edit")


@pytest.mark.parametrize(
    "written",
    ["tools: Read, Grep", "tools: [Read, Grep]", "tools:\n  - Read\n  - Grep", 'tools: "Read, Grep"'],
)
def test_tools_stand_in_any_form_of_list(written: str) -> None:
    assert kind(f"---\nname: a\ndescription: b\n{written}\n---\nc").tools == {"Read", "Grep"}


@pytest.mark.parametrize("written", ["", "tools: '*'\n", "tools: All tools\n", "tools:\n"])
def test_no_list_of_tools_means_all_of_them(written: str) -> None:
    assert kind(f"---\nname: a\ndescription: b\n{written}---\nc").tools is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no frontmatter at all", "needs a frontmatter"),
        ("---\nname: a\n---\nbody", "needs a frontmatter"),
        ("---\nname: a/b\ndescription: c\n---\nbody", "cannot be named"),
        ("---\nname: fork\ndescription: c\n---\nbody", "cannot be named"),
        ("---\nname: a\ndescription: c\n---\n", "no prompt"),
    ],
)
def test_a_file_that_cannot_be_used_says_why_in_one_line(text: str, why: str) -> None:
    with pytest.raises(StoreError, match=why) as caught:
        parse_type(text.encode(), Path("x.md"), [])
    assert "\n" not in str(caught.value)


def test_a_wrong_field_is_told_and_the_rest_counts() -> None:
    notices: list[str] = []
    text = "---\nname: a\ndescription: b\nmaxTurns: many\nmemory: cloud\nbackground: perhaps\n---\nc"
    found = parse_type(text.encode(), Path("x.md"), notices)
    assert (found.max_turns, found.memory, found.background) == (None, None, False)
    assert len(notices) == 3
    assert all("\n" not in one and "x.md" in one for one in notices)


def test_the_nearest_definition_wins_and_bad_files_are_notices(tmp_path: Path) -> None:
    """Spawning: built in, then the home's, then the project's; nothing in a folder stops a session."""
    settings = settings_of(tmp_path)
    home, project = settings.home / "agents", tmp_path / ".claude" / "agents"
    put(home, "a", "---\nname: mine\ndescription: of the home\n---\nx")
    put(home, "b", "---\nname: both\ndescription: of the home\n---\nx")
    put(project, "c", "---\nname: both\ndescription: of the project\n---\nx")
    put(project, "general", "---\nname: general\ndescription: another one\n---\nx")
    put(project, "broken", "nothing")
    os.mkfifo(project / "pipe.md")
    (project / "folder.md").mkdir()
    (project / "huge.md").write_bytes(b"x" * 300_000)
    found = agent_types(settings)
    assert set(found.types) == {"general", "explore", "mine", "both"}
    assert found.types["both"].description == "of the project"
    assert found.types["general"].description == "another one"
    assert found.types["explore"].origin is None
    assert [one.name for one in found.custom] == ["both", "general", "mine"]
    assert len(found.notices) == 4
    assert all("\n" not in one for one in found.notices)


def test_exploring_is_built_in_and_cannot_change_anything(tmp_path: Path) -> None:
    found = agent_types(settings_of(tmp_path))
    assert found.types["explore"].tools == {"Glob", "Grep", "Read"}
    assert found.types["general"].tools is None
    assert not found.custom


def test_in_bare_mode_only_what_is_built_in_is_there(tmp_path: Path) -> None:
    put(tmp_path / ".claude" / "agents", "a", "---\nname: a\ndescription: b\n---\nx")
    (tmp_path / ".git").mkdir()
    bare = load(tmp_path, {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path), "NACRE_SIMPLE": "1"})
    assert set(agent_types(bare).types) == {"general", "explore"}


def test_tools_nobody_offers_are_named_once_a_file() -> None:
    one = kind("---\nname: a\ndescription: b\ntools: Read, Teleport, mcp__x__y\n---\nc")
    (line,) = AgentTypes(types={"a": one}).unknown_tools(["Read"])
    assert "Teleport" in line
    assert "mcp__" not in line


@given(st.binary(max_size=400))
def test_no_bytes_whatever_do_more_than_be_refused(data: bytes) -> None:
    """Bad input: never an exception of another kind in a scan."""
    try:
        found = parse_type(b"---\nname: a\ndescription: b\n" + data, Path("x.md"), [])
    except StoreError as error:
        assert "\n" not in str(error)
    else:
        assert found.prompt


def test_a_file_of_a_repository_that_leads_out_of_it_is_no_kind(tmp_path: Path) -> None:
    """M23, M27 hold for kinds, too: a link could have any file with a description told to the model."""
    outside = tmp_path / "private"
    put(outside, "vault", REVIEWER.replace("reviewer", "vault"))
    project = tmp_path / "project"
    folder = project / ".claude" / "agents"
    put(folder, "own", REVIEWER.replace("reviewer", "own"))
    put(project / "shared", "inner", REVIEWER.replace("reviewer", "inner"))
    (folder / "inner.md").symlink_to(project / "shared" / "inner.md")
    (folder / "vault.md").symlink_to(outside / "vault.md")
    found = agent_types(settings_of(project))
    assert {one.name for one in found.custom} == {"inner", "own"}
    (notice,) = found.notices
    assert "vault.md" in notice
    assert "links to a file outside the project" in notice


def test_a_folder_of_a_repository_that_leads_out_of_it_holds_no_kinds(tmp_path: Path) -> None:
    """M23: not by a link of the folder either; the person's own may lie anywhere."""
    put(tmp_path / "private", "vault", REVIEWER)
    project = tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    (project / ".claude" / "agents").symlink_to(tmp_path / "private")
    settings = settings_of(project)
    assert not agent_types(settings).custom
    settings.home.mkdir(parents=True, exist_ok=True)
    (settings.home / "agents").symlink_to(tmp_path / "private")
    assert {one.name for one in agent_types(settings).custom} == {"reviewer"}


def test_a_repository_that_is_not_trusted_gets_no_memory_of_all_projects(tmp_path: Path) -> None:
    """M26: under a name of the person's own kind it could read there, and say something to every project."""
    put(tmp_path / ".claude" / "agents", "reviewer", REVIEWER.replace("memory: project", "memory: user"))
    put(
        tmp_path / "home" / "agents",
        "scribe",
        REVIEWER.replace("reviewer", "scribe").replace("project", "user"),
    )
    settings = settings_of(tmp_path)
    found = agent_types(settings)
    assert {name: found.types[name].memory for name in ("reviewer", "scribe")} == {
        "reviewer": None,
        "scribe": "user",
    }
    assert "not trusted" in str(found.notices)
    trust(settings.home, tmp_path)
    assert agent_types(settings_of(tmp_path)).types["reviewer"].memory == "user"


def test_a_type_whose_file_a_rule_denies_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "agents"
    put(tmp_path / "private", "plan", "---\nname: hidden\ndescription: secret words\n---\nsecret")
    folder.mkdir(parents=True)
    (folder / "hidden.md").symlink_to("../../private/plan.md")
    assert "hidden" in agent_types(settings_of(tmp_path)).types
    denied = replace(settings_of(tmp_path).permissions, deny=(ListEntry("Read(private/**)", "a file"),))
    found = agent_types(replace(settings_of(tmp_path), permissions=denied))
    assert not found.custom
    assert "secret" not in str(found.notices)
    assert any("Read(private/**)" in line for line in found.notices)
