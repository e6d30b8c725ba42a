"""One project is one repository, however it is checked out, and never somebody else's (M3)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nacre.memory.files.roots import canonical_root, checkout_root


def git(*words: str | Path, cwd: Path) -> None:
    """The real git, with nothing of the person who runs the tests."""
    plain = {"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1"}
    names = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *names, *map(str, words)], cwd=cwd, env=plain, check=True, capture_output=True)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


@pytest.fixture
def repository(base: Path) -> Path:
    return made(base / "repo")


def made(path: Path) -> Path:
    path.mkdir(parents=True)
    git("init", "-q", cwd=path)
    (path / "a.txt").write_text("a")
    git("add", "a.txt", cwd=path)
    git("commit", "-qm", "first", cwd=path)
    return path


def test_a_folder_deep_in_a_repository_belongs_to_its_root(repository: Path) -> None:
    """M3."""
    deep = repository / "src/deep"
    deep.mkdir(parents=True)
    assert [canonical_root(deep), canonical_root(repository)] == [repository, repository]
    assert checkout_root(deep) == repository


def test_without_git_the_directory_stands_in(base: Path) -> None:
    """M2: also one that does not exist, and one with an empty `.git` that git would not accept either."""
    (base / "plain/.git").mkdir(parents=True)
    for folder in (base / "plain", base / "gone/away"):
        assert canonical_root(folder) == folder
        assert checkout_root(folder) == folder


def test_all_worktrees_share_the_main_repository(repository: Path, base: Path) -> None:
    """M3: wherever they lie, and however deep one works in them."""
    for name, place in (("one", base / "elsewhere/one"), ("two", repository / ".trees/two")):
        git("worktree", "add", "-q", "-b", name, place, cwd=repository)
        (place / "sub").mkdir()
        assert canonical_root(place) == repository
        assert canonical_root(place / "sub") == repository
        assert checkout_root(place / "sub") == place


def test_worktrees_that_link_by_relative_paths_are_followed(repository: Path, base: Path) -> None:
    """M3: newer git can write both links relative to where they stand."""
    tree = base / "tree"
    git("worktree", "add", "-q", "-b", "tree", tree, cwd=repository)
    (tree / ".git").write_text("gitdir: ../repo/.git/worktrees/tree\n")
    (repository / ".git/worktrees/tree/gitdir").write_text("../../../../tree/.git\n")
    assert canonical_root(tree) == repository


def test_symlinked_paths_lead_to_the_real_root(repository: Path, base: Path) -> None:
    """M3: one project, however one got there; a linked `.git` folder makes no worktree."""
    tree = base / "tree"
    git("worktree", "add", "-q", "-b", "tree", tree, cwd=repository)
    (base / "to_repo").symlink_to(repository)
    (base / "to_tree").symlink_to(tree)
    assert canonical_root(base / "to_repo") == repository
    assert canonical_root(base / "to_tree") == repository
    borrowed = base / "borrowed"
    borrowed.mkdir()
    (borrowed / ".git").symlink_to(repository / ".git")
    assert canonical_root(borrowed) == borrowed


def test_a_worktree_made_through_a_symlink_still_points_back(repository: Path, base: Path) -> None:
    """M3: git writes down the paths it was given."""
    (base / "real").mkdir()
    (base / "link").symlink_to(base / "real")
    git("worktree", "add", "-q", "-b", "t", base / "link/t", cwd=repository)
    (repository / ".git/worktrees/t/gitdir").write_text(f"{base}/link/t/.git\n")
    assert canonical_root(base / "real/t") == repository


def test_a_submodule_is_its_own_repository(repository: Path, base: Path) -> None:
    """M3: and a worktree of the submodule belongs to the submodule."""
    made(base / "library")
    git("submodule", "--quiet", "add", base / "library", "lib", cwd=repository)
    library = repository / "lib"
    assert (library / ".git").is_file()
    assert canonical_root(library) == library
    git("worktree", "add", "-q", "-b", "t", base / "lib_tree", cwd=library)
    assert canonical_root(base / "lib_tree") == library
    assert canonical_root(repository / ".git/modules/lib/refs") == library


def test_a_bare_repository_stands_for_its_worktrees(repository: Path, base: Path) -> None:
    """M3: with no main checkout, the bare folder is the root; inside `.git` it is the checkout."""
    bare = base / "bare.git"
    git("clone", "-q", "--bare", repository, bare, cwd=base)
    git("worktree", "add", "-q", "-b", "t", base / "t", cwd=bare)
    assert [canonical_root(bare), canonical_root(bare / "refs"), canonical_root(base / "t")] == [bare] * 3
    assert canonical_root(repository / ".git/refs") == repository


def test_a_project_folder_around_a_bare_repository_is_the_root(repository: Path, base: Path) -> None:
    """M3: the layout `project/.bare` with `project/.git` naming it, worktrees side by side."""
    project = base / "project"
    project.mkdir()
    git("clone", "-q", "--bare", repository, project / ".bare", cwd=base)
    (project / ".git").write_text("gitdir: ./.bare\n")
    git("worktree", "add", "-q", "-b", "t", project / "t", cwd=project)
    assert [canonical_root(project), canonical_root(project / "t")] == [project, project]


def test_a_hostile_git_file_is_its_own_root(repository: Path, base: Path) -> None:
    """M3: naming somebody's repository, their worktree, or a forged one gains nothing."""
    tree = base / "tree"
    git("worktree", "add", "-q", "-b", "tree", tree, cwd=repository)
    victim = repository / ".git"
    hostile = base / "hostile"
    forged = hostile / "forged/worktrees/x"
    forged.mkdir(parents=True)
    (forged / "commondir").write_text(f"{victim}\n")
    (forged / "gitdir").write_text(f"{hostile}/.git\n")
    for name in (victim, victim / "worktrees/tree", forged, "../repo/.git/worktrees/tree", "", "\0", base):
        (hostile / ".git").write_text(f"gitdir: {name}\n")
        assert canonical_root(hostile) == hostile
        assert canonical_root(hostile / "forged") == hostile
    assert canonical_root(tree) == repository  # the true one still is


def test_a_repository_cannot_claim_another_folder_as_its_checkout(repository: Path, base: Path) -> None:
    """M3: `core.worktree` counts only where that folder's `.git` names the repository."""
    bare = base / "evil.git"
    git("clone", "-q", "--bare", repository, bare, cwd=base)
    with (bare / "config").open("a") as config:
        config.write(f"[core]\n\tworktree = {repository}\n")
    assert canonical_root(bare) == bare


@pytest.mark.parametrize("text", ["", "gitdir", "nonsense", "gitdir: " + "x" * 100_000, "gitdir:\xff\n"])
def test_an_odd_git_file_makes_the_folder_a_root(base: Path, text: str) -> None:
    """M3: what cannot be read cannot lead anywhere."""
    (base / ".git").write_text(text, encoding="latin-1")
    assert canonical_root(base) == base


def test_a_pipe_in_place_of_a_file_is_not_waited_for(repository: Path, base: Path) -> None:
    """M3: a FIFO as `.git` is no repository; one as `gitdir` breaks the link."""
    (base / "p").mkdir()
    os.mkfifo(base / "p/.git")
    assert canonical_root(base / "p") == base / "p"
    tree = base / "tree"
    git("worktree", "add", "-q", "-b", "tree", tree, cwd=repository)
    back = repository / ".git/worktrees/tree/gitdir"
    back.unlink()
    os.mkfifo(back)
    assert canonical_root(tree) == tree


def test_a_moved_worktree_is_on_its_own_until_git_repairs_it(repository: Path, base: Path) -> None:
    """M3: the link back is what counts."""
    git("worktree", "add", "-q", "-b", "t", base / "t", cwd=repository)
    (base / "t").rename(base / "moved")
    assert canonical_root(base / "moved") == base / "moved"
    git("worktree", "repair", base / "moved", cwd=repository)
    assert canonical_root(base / "moved") == repository
