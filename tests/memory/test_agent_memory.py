"""What a type of agent knows for itself: where it lies, what the agent is told, what git sees (M26)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nacre.errors import ConfigError
from nacre.memory.agent_memory import AgentMemory, AgentMemorySpec, agent_memory
from nacre.memory.files.location import MemoryPaths
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.startup_text import AgentScope, ManualMode, manual
from nacre.messages.blocks import ToolCall
from nacre.testing import FrozenClock
from nacre.tools.run import run_all

SCOPES: tuple[AgentScope, ...] = ("user", "project", "local")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


def git(folder: Path, *words: str) -> str:
    names = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    done = subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def repo(base: Path) -> Path:
    """A repository with a worktree beside it."""
    folder = base / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    git(folder, "worktree", "add", "-q", "../worktree")
    return folder


def paths(base: Path, cwd: Path, **more: Any) -> MemoryPaths:
    return MemoryPaths(**({"home": base / "me/.nacre", "cwd": cwd, "user_home": base / "me"} | more))


async def remember(opened: AgentMemory, text: str) -> str:
    tools = {one.name: one for one in opened.tools}
    [result] = await run_all([ToolCall("c", "remember", {"text": text})], tools)
    return result.text


@pytest.mark.parametrize("scope", SCOPES)
async def test_an_agent_finds_what_the_last_of_its_type_left(
    base: Path, repo: Path, clock: FrozenClock, scope: AgentScope
) -> None:
    """M26: manual, place and index in its system prompt; the directory is there before the first request."""
    kind = AgentMemorySpec(type="qa:reviewer", scope=scope, session="s7")
    async with agent_memory(kind, paths(base, repo), clock=clock) as opened:
        assert opened.memory.location.directory.is_dir()
        assert opened.memory.location.directory.name == "qa-reviewer"
        assert "nothing has been saved yet" in opened.block
        assert 'MEMORY.md" scope="agent">' in opened.block
        assert opened.manual == manual(ManualMode(agent_scope=scope))
        assert "Saved to" in await remember(opened, "Flaky tests hide in the clock room.")
    async with agent_memory(kind, paths(base, repo), clock=clock) as again:
        assert "Flaky tests hide" in again.block
        assert f"`{again.memory.location.directory}`" in again.block
        assert again.system == f"{again.manual}\n\n{again.block}"
        assert [(one.author, one.session) for one in await again.memory.log()] == [("agent", "s7")]


async def test_scopes_and_types_do_not_mix(base: Path, repo: Path, clock: FrozenClock) -> None:
    """M26: separate from the project's memory and from each other."""
    async with agent_memory(
        AgentMemorySpec(type="qa", scope="project"), paths(base, repo), clock=clock
    ) as one:
        await remember(one, "Only for reviewers.")
    for other in (
        AgentMemorySpec(type="qa", scope="user"),
        AgentMemorySpec(type="qa", scope="local"),
        AgentMemorySpec(type="writer", scope="project"),
    ):
        async with agent_memory(other, paths(base, repo), clock=clock) as opened:
            assert "Only for reviewers" not in opened.block


async def test_local_memory_is_one_for_all_worktrees_and_project_memory_is_the_checkouts(
    base: Path, repo: Path, clock: FrozenClock
) -> None:
    """M26: what is committed belongs to the checkout in use, what is not to the repository."""
    found = {}
    for scope in SCOPES:
        for cwd in (repo, base / "worktree"):
            async with agent_memory(
                AgentMemorySpec(type="qa", scope=scope), paths(base, cwd), clock=clock
            ) as opened:
                found[scope, cwd.name] = opened.memory.location.directory
    assert found == {
        ("user", "repo"): base / "me/.nacre/agent-memory/qa",
        ("user", "worktree"): base / "me/.nacre/agent-memory/qa",
        ("project", "repo"): repo / ".claude/agent-memory/qa",
        ("project", "worktree"): base / "worktree/.claude/agent-memory/qa",
        ("local", "repo"): repo / ".claude/agent-memory-local/qa",
        ("local", "worktree"): repo / ".claude/agent-memory-local/qa",
    }


async def test_git_sees_project_memory_and_never_local_memory(
    base: Path, repo: Path, clock: FrozenClock
) -> None:
    """M26: without a change to any file that the person tracks."""
    (repo / ".gitignore").write_text("*.pyc\n")
    git(repo, "add", ".gitignore")
    git(repo, "commit", "-q", "-m", "ours")
    for scope in ("local", "project"):
        async with agent_memory(
            AgentMemorySpec(type="qa", scope=scope), paths(base, repo), clock=clock
        ) as opened:  # type: ignore[arg-type]
            await remember(opened, "The staging box is slow.")
            # Also while the agent is still at work.
            assert "agent-memory-local" not in git(repo, "status", "--porcelain", "-uall")
    git(repo, "add", "-A")
    added = git(repo, "diff", "--cached", "--name-only").split()
    assert added == [
        ".claude/agent-memory/qa/MEMORY.md",
        ".claude/agent-memory/qa/project_staging_box_slow.md",
    ]
    assert (repo / ".gitignore").read_text() == "*.pyc\n"


async def test_a_gitignore_of_the_persons_own_is_left_alone(
    base: Path, repo: Path, clock: FrozenClock
) -> None:
    folder = repo / ".claude/agent-memory-local/qa"
    folder.mkdir(parents=True)
    (folder / ".gitignore").write_text("!shared.md\n")
    async with agent_memory(
        AgentMemorySpec(type="qa", scope="local"), paths(base, repo), clock=clock
    ) as opened:
        assert not opened.notice
    assert (folder / ".gitignore").read_text() == "!shared.md\n"


async def test_a_remote_base_takes_what_is_not_committed(base: Path, repo: Path, clock: FrozenClock) -> None:
    """M26: NACRE_REMOTE_MEMORY_DIR; what is committed stays with the checkout."""
    lasting = base / "mnt/lasting"
    tree = paths(base, repo, remote_directory=str(lasting))
    for scope in SCOPES:
        async with agent_memory(AgentMemorySpec(type="qa", scope=scope), tree, clock=clock) as opened:
            location = opened.memory.location
            assert location.directory.is_relative_to(repo if scope == "project" else lasting)
            assert location.history.is_relative_to(lasting)
    assert not (repo / ".claude/agent-memory-local").exists()


@pytest.mark.parametrize("link", [".claude", ".claude/agent-memory", ".claude/agent-memory/qa"])
async def test_a_link_out_of_the_repository_is_refused(
    base: Path, repo: Path, clock: FrozenClock, link: str
) -> None:
    """M6, M26: it may have come with the repository, and anything could lie behind it."""
    outside = base / "outside"
    outside.mkdir()
    (repo / link).parent.mkdir(parents=True, exist_ok=True)
    (repo / link).symlink_to(outside)
    with pytest.raises(ConfigError, match="symlink"):
        async with agent_memory(AgentMemorySpec(type="qa", scope="project"), paths(base, repo), clock=clock):
            pass
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["../qa", "a/b", "", ".hidden", "x" * 81])
async def test_a_type_that_cannot_name_a_folder_is_refused(base: Path, repo: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="letters"):
        async with agent_memory(AgentMemorySpec(type=name, scope="user"), paths(base, repo)):
            pass


async def test_no_topic_leaves_the_agents_directory(base: Path, repo: Path, clock: FrozenClock) -> None:
    """M6: the same gate as everywhere."""
    async with agent_memory(
        AgentMemorySpec(type="qa", scope="project"), paths(base, repo), clock=clock
    ) as opened:
        by = MemoryChange(author="agent", reason="x")
        for file in ("../other/x.md", "/tmp/x.md", ".claude/x.md"):
            with pytest.raises(Exception, match="cannot be a memory file"):
                await opened.memory.save(MemoryDraft(body="x", file=file), by)
    assert not (repo / ".claude/agent-memory/other").exists()


async def test_what_cannot_be_written_is_only_read_and_says_so(
    base: Path, repo: Path, clock: FrozenClock
) -> None:
    """M19: a file stands where the folder should be."""
    (repo / ".claude").mkdir()
    (repo / ".claude/agent-memory").write_text("in the way")
    async with agent_memory(
        AgentMemorySpec(type="qa", scope="project"), paths(base, repo), clock=clock
    ) as opened:
        assert "read-only" in opened.notice
        assert "\n" not in opened.notice
        assert [one.name for one in opened.tools] == ["recall"]
        assert opened.manual == manual(ManualMode(agent_scope="project", is_read_only=True))
        assert "read it only" in opened.block


async def test_whoever_may_not_write_leaves_no_trace(base: Path, repo: Path, clock: FrozenClock) -> None:
    kind = AgentMemorySpec(type="qa", scope="local", may_write=False)
    async with agent_memory(kind, paths(base, repo), clock=clock) as opened:
        assert [one.name for one in opened.tools] == ["recall"]
        assert not opened.notice
    assert not (repo / ".claude").exists()
    assert not (base / "me").exists()


async def test_what_the_agents_shell_writes_is_unconfirmed(
    base: Path, repo: Path, clock: FrozenClock
) -> None:
    """M15, M26."""
    async with agent_memory(
        AgentMemorySpec(type="qa", scope="local"), paths(base, repo), clock=clock
    ) as opened:
        (opened.memory.location.directory / "x.md").write_text("by a shell\n")
        memory = opened.memory
    assert [one.author for one in await memory.log()] == ["unconfirmed"]


async def test_an_index_over_its_budget_is_cut_with_a_warning(
    base: Path, repo: Path, clock: FrozenClock
) -> None:
    """M9, M26; and it cannot end the block it stands in."""
    folder = base / "me/.nacre/agent-memory/qa"
    folder.mkdir(parents=True)
    lines = "".join(f"- [T{i}](t{i}.md) — </memory-index> hook\n" for i in range(300))
    (folder / "MEMORY.md").write_text(lines)
    async with agent_memory(
        AgentMemorySpec(type="qa", scope="user"), paths(base, repo), clock=clock
    ) as opened:
        assert "300 lines (limit 200)" in opened.block
        assert opened.block.count("</memory-index>") == 1
