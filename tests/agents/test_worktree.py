"""Worktrees of agents, with the real git: the main checkout is not touched, and no work is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from nacre.agents.worktree import Worktree, changes, finish, make, record_path, worktree_prompt
from nacre.errors import ToolError
from tests.agents.repositories import AGENT, NAME, assert_no_trace, begun, git, own_settings, state


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_settings(tmp_path / "person", monkeypatch)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return begun(tmp_path / "the repository")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "nacre home"


async def test_an_agent_works_beside_the_main_checkout_which_stays_as_it_is_to_the_byte(
    repository: Path, home: Path
) -> None:
    """Spawning, worktree: files, index, HEAD, branches, status, times; uncommitted work stays there."""
    before = state(repository)
    tree = await make(repository, AGENT, home=home, session="s1")
    assert (tree.path.name, tree.branch) == (NAME, "nacre/agent-01234567")
    assert tree.path.is_relative_to(home.resolve() / "worktrees")
    assert (tree.path / "a.txt").read_text(encoding="utf-8") == "one\n"
    assert not (tree.path / "new.txt").exists()
    assert state(repository) == before
    (tree.path / "a.txt").write_text("mine\n", encoding="utf-8")
    git(tree.path, "commit", "-qam", "mine")
    (tree.path / "more.txt").write_text("more\n", encoding="utf-8")
    left = await finish(tree)
    assert left is not None
    assert left.description == f"{tree.path} (branch nacre/agent-01234567): 1 new commit and 1 changed file"
    assert state(repository) == before
    assert git(repository, "log", "-1", "--format=%s", tree.branch) == "mine\n"


async def test_what_it_is_told_names_its_place_and_what_is_missing_there(
    repository: Path, home: Path
) -> None:
    """Spawning, worktree: an agent that looks for its parent's unsaved work must know why it is not there."""
    tree = await make(repository, AGENT, home=home)
    words = worktree_prompt(tree)
    assert str(tree.path) in words
    assert tree.branch in words
    assert "not committed" in words


async def test_an_unchanged_worktree_goes_with_its_branch_and_files_git_ignores(
    repository: Path, home: Path
) -> None:
    """Spawning, worktree: removed if unchanged; what a build left there is no change."""
    before = state(repository)
    tree = await make(repository, AGENT, home=home)
    (tree.path / "build").mkdir()
    (tree.path / "build" / "out").write_bytes(b"x")
    os.utime(tree.path / "a.txt")
    assert await finish(tree) is None
    assert_no_trace(repository, home)
    assert state(repository) == before


def commit(tree: Worktree) -> None:
    git(tree.path, "commit", "-q", "--allow-empty", "-m", "empty")


def untracked(tree: Worktree) -> None:
    (tree.path / "part" / "deep").mkdir()
    (tree.path / "part" / "deep" / "new.txt").write_text("", encoding="utf-8")


def edited(tree: Worktree) -> None:
    (tree.path / "a.txt").write_text("two\n", encoding="utf-8")


def staged(tree: Worktree) -> None:
    edited(tree)
    git(tree.path, "add", "a.txt")
    (tree.path / "a.txt").write_text("one\n", encoding="utf-8")


def removed(tree: Worktree) -> None:
    (tree.path / "a.txt").unlink()


def hidden(tree: Worktree) -> None:
    git(tree.path, "update-index", "--assume-unchanged", "a.txt")
    edited(tree)


def detached(tree: Worktree) -> None:
    git(tree.path, "checkout", "-q", "--detach")
    commit(tree)


def on_another_branch(tree: Worktree) -> None:
    git(tree.path, "checkout", "-q", "-b", "mine")


def executable(tree: Worktree) -> None:
    (tree.path / "a.txt").chmod(0o755)


def no_longer_one(tree: Worktree) -> None:
    (tree.path / ".git").unlink()


def another_repository(tree: Worktree) -> None:
    (tree.path / ".git").unlink()
    git(tree.path, "init", "-q")
    git(tree.path, "add", ".")
    git(tree.path, "commit", "-qm", "its own")


def locked(tree: Worktree) -> None:
    git(tree.path, "worktree", "lock", str(tree.path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "act",
    [
        commit, untracked, edited, staged, removed, hidden, detached, on_another_branch, executable,
        no_longer_one, another_repository, locked,
    ],
    ids=lambda act: act.__name__,
)  # fmt: skip
async def test_whatever_has_changed_in_a_worktree_it_stays(act: object, repository: Path, home: Path) -> None:
    """Spawning, worktree: path and branch are returned, and not a byte of either is removed."""
    tree = await make(repository, AGENT, home=home)
    act(tree)  # type: ignore[operator]
    before = {path: path.read_bytes() for path in tree.path.rglob("*") if path.is_file()}
    left = await finish(tree)
    assert left is not None
    assert (left.path, left.branch) == (tree.path, tree.branch)
    assert left.description.partition("): ")[2]
    assert {path: path.read_bytes() for path in tree.path.rglob("*") if path.is_file()} == before
    assert tree.branch in git(repository, "branch", "--list", "nacre/*")
    assert record_path(tree.path).exists()


async def test_it_begins_where_the_repository_stands_on_whatever_head_and_from_wherever_inside(
    repository: Path, home: Path
) -> None:
    """Spawning, worktree: a detached head, another worktree, a folder inside: the same place there."""
    git(repository, "stash", "-q", "-u")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    git(repository, "checkout", "-q", "--detach", "HEAD~1")
    before = state(repository)
    tree = await make(repository / "part", AGENT, home=home)
    assert tree.cwd == tree.path / "part"
    assert git(tree.path, "log", "--format=%s") == "first\n"
    nested = await make(tree.cwd, "ffffffff", home=home)
    assert nested.path.parent == tree.path.parent
    assert await finish(nested) is None
    assert await finish(tree) is None
    assert state(repository) == before
    assert_no_trace(repository, home)


async def test_a_folder_that_was_never_committed_is_not_there_and_the_agent_starts_at_the_top(
    repository: Path, home: Path
) -> None:
    """Spawning, worktree: uncommitted changes of the main checkout are not in it."""
    (repository / "fresh").mkdir()
    tree = await make(repository / "fresh", AGENT, home=home)
    assert tree.cwd == tree.path


async def test_a_bare_repository_will_do(tmp_path: Path, repository: Path, home: Path) -> None:
    """Spawning, worktree: only a commit is needed."""
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(bare))
    tree = await make(bare, AGENT, home=home)
    assert (tree.path / "a.txt").read_text(encoding="utf-8") == "one\n"
    assert await finish(tree) is None
    assert_no_trace(bare, home)


@pytest.mark.slow
async def test_a_repository_with_submodules_gets_one_and_loses_it_again(
    tmp_path: Path, repository: Path, home: Path
) -> None:
    """Spawning, worktree: they are not fetched; one that the agent fetched and changed is a change."""
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "c.txt").write_text("three\n", encoding="utf-8")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "inner")
    git(repository, "submodule", "--quiet", "add", str(inner), "sub")
    git(repository, "commit", "-qm", "with a submodule")
    before = state(repository)
    tree = await make(repository, AGENT, home=home)
    assert await finish(tree) is None
    assert_no_trace(repository, home)
    tree = await make(repository, AGENT, home=home)
    git(tree.path, "submodule", "--quiet", "update", "--init")
    assert await changes(tree) is None
    (tree.path / "sub" / "c.txt").write_text("changed\n", encoding="utf-8")
    left = await finish(tree)
    assert left is not None
    assert left.files == 1
    assert state(repository) == before


@pytest.mark.parametrize("case", ["nowhere", "no commit", "no git", "no folder", "taken", "a name"])
async def test_where_there_can_be_none_one_line_says_why(
    case: str, tmp_path: Path, repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spawning, worktree: and nothing is left of the attempt."""
    place, agent, expected = tmp_path / "plain", AGENT, "a worktree needs a git repository"
    place.mkdir()
    if case == "no commit":
        git(place, "init", "-q")
        expected = "has no commit yet; commit something first"
    elif case == "no git":
        monkeypatch.setenv("PATH", str(place))
        expected = "git is not installed"
    elif case == "no folder":
        place, expected = tmp_path / "gone", "cannot change to"
    elif case == "taken":
        git(repository, "branch", "nacre/agent-01234567")
        place, expected = repository, "already; start the agent once more"
    elif case == "a name":
        place, agent, expected = repository, "../../x", "cannot name a worktree"
    with pytest.raises(ToolError, match=expected) as caught:
        await make(place, agent, home=home)
    assert "\n" not in str(caught.value)
    assert not (home / "worktrees").exists()


async def test_a_full_disk_leaves_no_half_of_a_worktree(
    repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spawning, worktree: said in one line, and the next attempt can succeed."""
    before = state(repository)
    rename = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name.endswith(".json") and target.with_suffix("").exists():
            raise OSError(28, "No space left on device")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(ToolError, match="disk full"):
            await make(repository, AGENT, home=home)
    assert_no_trace(repository, home)
    assert await finish(await make(repository, AGENT, home=home)) is None
    assert state(repository) == before


async def test_nothing_that_the_repository_itself_names_is_started(
    tmp_path: Path, repository: Path, home: Path
) -> None:
    """Spawning, worktree: hooks, file monitors, filters, whatever a partial clone would fetch with."""
    proof = tmp_path / "started"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{proof}'\ncat\n", encoding="utf-8")
    evil.chmod(0o755)
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        shutil.copy(evil, repository / ".git" / "hooks" / name)
    for name in ("a.b c=d", "plain"):
        for key in ("clean", "smudge", "process"):
            git(repository, "config", f"filter.{name}.{key}", str(evil))
        git(repository, "config", f"filter.{name}.required", "true")
    (repository / ".git" / "info" / "attributes").write_text("* filter=plain\n", encoding="utf-8")
    for key in ("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass"):
        git(repository, "config", key, str(evil))
    git(repository, "config", "core.hooksPath", str(repository / ".git" / "hooks"))
    git(repository, "config", "alias.status", f"!{evil}")
    tree = await make(repository, AGENT, home=home)
    (tree.path / "a.txt").write_text("mine\n", encoding="utf-8")
    left = await changes(tree)
    assert left is not None
    assert left.files == 1
    (tree.path / "a.txt").write_text("one\n", encoding="utf-8")
    assert await finish(tree) is None
    assert not proof.exists()


async def test_a_git_that_cannot_switch_a_filter_off_makes_no_worktree(
    tmp_path: Path, repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git before 2.31 takes no settings from the environment: here, a program in its place drops them."""
    mark = tmp_path / "started"
    git(repository, "config", "filter.evil.smudge", f"touch {mark} && cat")
    (repository / ".git" / "info" / "attributes").write_text("* filter=evil\n", encoding="utf-8")
    old = tmp_path / "old" / "git"
    old.parent.mkdir()
    old.write_text(f'#!/bin/sh\nunset GIT_CONFIG_COUNT\nexec {shutil.which("git")} "$@"\n', encoding="utf-8")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    with pytest.raises(ToolError, match="and this git cannot switch them off"):
        await make(repository, AGENT, home=home)
    assert not mark.exists()


async def test_a_filter_that_is_named_for_worktrees_alone_is_not_started_either(
    tmp_path: Path, repository: Path, home: Path
) -> None:
    """Spawning, worktree: settings can be conditional, so they are read where the files are laid out."""
    mark = tmp_path / "started"
    (repository / ".git" / "info" / "attributes").write_text("* filter=evil\n", encoding="utf-8")
    (repository / ".git" / "evil").write_text(
        f'[filter "evil"]\nsmudge = touch {mark} && cat\nclean = touch {mark} && cat\n', encoding="utf-8"
    )
    with (repository / ".git" / "config").open("a", encoding="utf-8") as config:
        config.write('[includeIf "gitdir:**/worktrees/**"]\npath = evil\n')
        config.write('[includeIf "onbranch:nacre/**"]\npath = evil\n')
    tree = await make(repository, AGENT, home=home)
    assert (tree.path / "a.txt").read_text(encoding="utf-8") == "one\n"
    assert await finish(tree) is None
    assert not mark.exists()


async def test_a_partial_clone_fetches_nothing_behind_the_persons_back(
    tmp_path: Path, repository: Path, home: Path
) -> None:
    """Spawning, worktree: what git would run for it is named by the repository."""
    proof = tmp_path / "started"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\necho started >> '{proof}'\nexit 1\n", encoding="utf-8")
    evil.chmod(0o755)
    git(repository, "config", "remote.x.url", str(tmp_path / "elsewhere"))
    git(repository, "config", "remote.x.promisor", "true")
    git(repository, "config", "remote.x.uploadpack", str(evil))
    git(repository, "config", "extensions.partialClone", "x")
    blob = git(repository, "rev-parse", "HEAD:a.txt").strip()
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(ToolError, match="git reset failed"):
        await make(repository, AGENT, home=home)
    assert not proof.exists()
    assert not list((home / "worktrees").rglob("*agent-*"))


async def test_a_cancelled_make_leaves_nothing(repository: Path, home: Path) -> None:
    """Q2: wherever it is."""
    before = state(repository)
    for steps in (1, 5, 20, 60):
        task = asyncio.create_task(make(repository, AGENT, home=home))
        for _ in range(steps):
            await asyncio.sleep(0.002)
        task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(outcome, Worktree):
            assert await finish(outcome) is None
        assert not list((home / "worktrees").rglob("*agent-*"))
        assert "nacre" not in git(repository, "for-each-ref")
    assert state(repository) == before
