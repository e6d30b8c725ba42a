"""Where a session works, as the model is told: asked of real repositories."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.context.environment import environment, git_branch


def git(folder: Path, *args: str) -> None:
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": str(folder)}
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(
        ["git", *who, *args],
        cwd=folder,
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], **quiet},
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-b", "work/in-progress")
    git(folder, "commit", "--allow-empty", "-m", "first")
    return folder


def test_the_branch_is_found_from_any_folder_inside(repository: Path) -> None:
    deep = repository / "a" / "b"
    deep.mkdir(parents=True)
    assert git_branch(repository) == git_branch(deep) == "work/in-progress"


def test_a_worktree_has_its_own_branch(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-b", "other", str(tmp_path / "tree"))
    assert git_branch(tmp_path / "tree") == "other"
    assert git_branch(repository) == "work/in-progress"


def test_a_submodule_has_its_own_branch(repository: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-b", "outer")
    git(outer, "submodule", "add", str(repository), "inner")
    assert git_branch(outer / "inner") == "work/in-progress"
    assert git_branch(outer) == "outer"


def test_a_detached_head_has_no_branch(repository: Path) -> None:
    git(repository, "checkout", "--detach")
    assert git_branch(repository) == ""


def test_before_the_first_commit_there_is_already_a_branch(tmp_path: Path) -> None:
    git(tmp_path, "init", "-b", "fresh")
    assert git_branch(tmp_path) == "fresh"


@pytest.mark.parametrize("content", [None, b"", b"gitdir: nowhere", b"\xff\xfe", b"gitdir: a\0b"])
def test_a_folder_without_git_or_with_a_broken_one_has_no_branch(
    content: bytes | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / ".git").write_bytes(content)
    assert git_branch(tmp_path) == ""


def test_the_model_is_told_where_and_when_it_works(repository: Path) -> None:
    told = environment(repository, datetime(2026, 3, 4, 23, 59, tzinfo=UTC))
    for fact in (str(repository), "work/in-progress", "2026-03-04"):
        assert fact in told
    assert "branch: none" in environment(repository.parent, datetime(2026, 3, 4, tzinfo=UTC))


def test_of_a_directory_that_is_not_here_nothing_is_told(tmp_path: Path) -> None:
    """C21: a session brought from another machine; even inside a repository nobody knows its branch."""
    now = datetime(2026, 3, 9, tzinfo=UTC)
    assert environment(tmp_path / "gone", now) == ""
    assert str(tmp_path) in environment(tmp_path, now)
