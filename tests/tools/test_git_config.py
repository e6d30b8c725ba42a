"""Git goes ahead unasked only in a repository whose own files start no program and lead nowhere else."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nacre.messages.blocks import JsonObject, ToolCall, ToolResult
from nacre.tools import git_config
from nacre.tools.base import Tool
from nacre.tools.bash import bash_tool
from nacre.tools.git import GitResult
from nacre.tools.guard import Guard
from nacre.tools.policy import PermissionPolicy
from nacre.tools.rules import parse_rule
from nacre.tools.run import run_all
from nacre.tools.workspace import Workspace

SECRET = "KEY=the words of another directory"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with git settings of its own, as the person would have them."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = a\n\temail = a@example.org\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


def git(place: Path, *words: str) -> str:
    settings = ("-c", "protocol.file.allow=always", "-c", "advice.addEmbeddedRepo=false")
    done = subprocess.run(
        ["git", *settings, *words],
        cwd=place,
        check=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


def repository(place: Path) -> Path:
    """A repository with one commit and one change that is not committed."""
    place.mkdir(parents=True)
    git(place, "init", "-q", "-b", "main")
    (place / "file").write_text("one\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "one")
    (place / "file").write_text("two, a change\n")
    return place


def configure(root: Path, text: str) -> None:
    with (root / ".git" / "config").open("a") as config:
        config.write(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def payload(tmp_path: Path, marker: Path) -> Path:
    """A program that says that it ran."""
    program = tmp_path / "payload"
    program.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    program.chmod(0o755)
    return program


def effect(root: Path, command: str, *allow: str, cwd: Path | None = None, deny: str = "") -> str:
    async def nothing(arguments: JsonObject) -> str:
        return "done"

    bash = Tool(name="Bash", description="", input_schema={}, call=nothing)
    rules = [parse_rule(text, "allow") for text in allow]
    policy = PermissionPolicy(root=root, rules=(*rules, *([parse_rule(deny, "deny")] if deny else [])))
    workspace = Workspace(root)
    workspace.cwd = cwd or root
    return policy.decide(bash, {"command": command}, workspace).effect


async def unasked(root: Path, command: str) -> ToolResult:
    """What a line prints where nobody can be asked."""
    workspace = Workspace(root)
    tools = Guard(PermissionPolicy(root=root), workspace).wrap([bash_tool(workspace)])
    [result] = await run_all([ToolCall("c", "Bash", {"command": command})], {one.name: one for one in tools})
    return result


def by_hand(root: Path, command: str) -> str:
    """What the line prints without a guard and without settings of nacre."""
    done = subprocess.run(
        command, shell=True, cwd=root, capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def _hook(root: Path, payload: Path) -> str:
    hook = root / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(payload.read_text())
    hook.chmod(0o755)
    git(root, "checkout", "-q", "file")
    payload.parent.joinpath("ran").unlink(missing_ok=True)
    os.utime(root / "file", (1, 1))
    return "git status"


def _two_sections_on_a_line(root: Path, payload: Path) -> str:
    configure(root, f"[core][diff]external = {payload}\n")
    return "git diff"


def _bracket_in_a_name(root: Path, payload: Path) -> str:
    configure(root, f'[filter "a]b"] clean = {payload}\n')
    (root / ".gitattributes").write_text("file filter=a]b\n")
    return "git diff"


def _byte_order_mark(root: Path, payload: Path) -> str:
    config = root / ".git" / "config"
    config.write_bytes(b"\xef\xbb\xbf[diff]external = " + bytes(payload) + b"\n" + config.read_bytes())
    return "git diff"


def _commondir(root: Path, payload: Path) -> str:
    configure(root, f"[diff]\n\texternal = {payload}\n")
    (root / ".git").rename(root / "other")
    (root / ".git").mkdir()
    for name in ("HEAD", "index"):
        (root / "other" / name).rename(root / ".git" / name)
    (root / ".git" / "commondir").write_text("../other\n")
    (root / ".git" / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
    return "git diff"


def _alternate_refs(root: Path, payload: Path) -> str:
    other = repository(root / "other")
    (root / ".git" / "objects" / "info" / "alternates").write_text(f"{other}/.git/objects\n")
    configure(root, f"[core]\n\talternateRefsCommand = {payload}\n")
    return "git log --alternate-refs"


def _merge_driver(root: Path, payload: Path) -> str:
    git(root, "checkout", "-q", "file")
    git(root, "checkout", "-qb", "side")
    for branch, text in (("side", "left\n"), ("main", "right\n")):
        git(root, "checkout", "-q", branch)
        (root / "file").write_text(text)
        git(root, "commit", "-qam", branch)
    git(root, "merge", "-q", "-s", "ours", "-m", "merged", "side")
    configure(root, f'[merge "x"]\n\tdriver = {payload} %A\n')
    (root / ".gitattributes").write_text("file merge=x\n")
    return "git show --remerge-diff HEAD"


def _link_in_the_history(root: Path, payload: Path) -> str:
    inner = repository(root / "sub")
    git(root, "add", "sub")
    git(root, "commit", "-qm", "link")
    git(inner, "commit", "-qam", "two")
    git(root, "commit", "-qam", "link again")
    git(root, "rm", "-q", "--cached", "sub")
    configure(inner, f"[diff]\n\texternal = {payload}\n")
    return "git log -p --submodule=diff"


Attack = Callable[[Path, Path], str]
ATTACKS: list[Attack] = [
    _two_sections_on_a_line, _bracket_in_a_name, _byte_order_mark, _commondir, _alternate_refs,
    _merge_driver, _link_in_the_history,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
async def test_git_starts_no_program_that_a_repository_brings(
    root: Path, marker: Path, payload: Path, attack: Attack
) -> None:
    line = attack(root, payload)
    assert not marker.exists()
    result = await unasked(root, line)
    assert not marker.exists()
    assert result.is_error
    assert "this session cannot ask for permission" in result.text
    by_hand(root, line)
    assert marker.exists(), "the program would have run"


def _worktree_elsewhere(root: Path, private: Path) -> str:
    (root / "private").write_text("KEY\n")
    git(root, "add", "private")
    configure(root, f"[core]\n\tworktree = {private}\n")
    return "git grep KEY; git diff"


def _git_file(root: Path, private: Path) -> str:
    (root / ".git").rename(root / "moved")
    (root / ".git").write_text(f"gitdir: {private}/.git\n")
    return "git log -p"


def _git_file_to_a_worktree(root: Path, private: Path) -> str:
    git(private, "worktree", "add", "-q", str(private.parent / "beside"))
    (root / ".git").rename(root / "moved")
    (root / ".git").write_text(f"gitdir: {private}/.git/worktrees/beside\n")
    return "git log -p"


def _alternates(root: Path, private: Path) -> str:
    (root / ".git" / "objects" / "info" / "alternates").write_text(f"{private}/.git/objects\n")
    return "git cat-file --batch --batch-all-objects"


def _linked_objects(root: Path, private: Path) -> str:
    git(private, "repack", "-qad")
    (root / ".git" / "objects" / "pack").rmdir()
    (root / ".git" / "objects" / "pack").symlink_to(private / ".git" / "objects" / "pack")
    return "git cat-file --batch --batch-all-objects"


def _linked_file(root: Path, private: Path) -> str:
    (root / ".git" / "packed-refs").symlink_to(private / "private")
    return "git show-ref"


def _included(root: Path, private: Path) -> str:
    (private / "settings").write_text(f'[x]\n\tkey = "{SECRET}"\n')
    configure(root, f"[include]\n\tpath = {private}/settings\n")
    return "git config --list"


def _linked_rebase(root: Path, private: Path) -> str:
    (root / ".git" / "rebase-merge").mkdir()
    (root / ".git" / "rebase-merge" / "interactive").touch()
    for name in ("head-name", "onto", "done"):
        (root / ".git" / "rebase-merge" / name).symlink_to(private / "private")
    return "git status"


def _linked_mailbox(root: Path, private: Path) -> str:
    (root / ".git" / "rebase-apply").mkdir()
    (root / ".git" / "rebase-apply" / "rebasing").touch()
    for name in ("head-name", "onto"):
        (root / ".git" / "rebase-apply" / name).symlink_to(private / "private")
    return "git status"


def _linked_worktree_file(root: Path, private: Path) -> str:
    git(root, "worktree", "add", "-q", "beside")
    (root / ".git" / "worktrees" / "beside" / "locked").symlink_to(private / "private")
    return "git worktree list --porcelain"


def _linked_parent(root: Path, private: Path) -> str:
    (root / "folder").mkdir()
    (root / "folder" / "private").write_text("KEY\n")
    git(root, "add", "folder")
    shutil.rmtree(root / "folder")
    (root / "folder").symlink_to(private)
    return "git grep KEY"


@pytest.mark.parametrize(
    "attack",
    [
        _worktree_elsewhere, _git_file, _git_file_to_a_worktree, _alternates, _linked_objects, _linked_file,
        _included, _linked_rebase, _linked_mailbox, _linked_worktree_file, _linked_parent,
    ],
)  # fmt: skip
async def test_git_prints_nothing_from_outside_the_project(
    tmp_path: Path, root: Path, attack: Attack
) -> None:
    private = repository(tmp_path / "private")
    (private / "private").write_text(SECRET + "\n")
    git(private, "add", ".")
    git(private, "commit", "-qm", "private")
    line = attack(root, private)
    assert effect(root, line) == "ask"
    assert SECRET not in (await unasked(root, line)).text
    assert SECRET in by_hand(root, line), "it would have been printed"


def test_a_link_above_a_tracked_file_is_asked_about_only_for_grep(tmp_path: Path, root: Path) -> None:
    """Other commands that read the work tree treat the file as deleted."""
    private = repository(tmp_path / "private")
    assert effect(root, "git grep KEY") == "allow"
    _linked_parent(root, private)
    assert effect(root, "git -C . grep KEY") == "ask"
    assert effect(root, "git status; git diff") == "allow"


def test_links_to_hooks_and_in_the_git_directory_of_an_unused_submodule_are_not_asked_about(
    root: Path, tmp_path: Path
) -> None:
    unused = repository(tmp_path / "unused")
    (root / ".git" / "modules").mkdir()
    (unused / ".git").rename(root / ".git" / "modules" / "unused")
    (root / ".git" / "modules" / "unused" / "link").symlink_to(tmp_path)
    shutil.rmtree(root / ".git" / "hooks", ignore_errors=True)
    (root / ".git" / "hooks").symlink_to(tmp_path)
    assert effect(root, "git status") == "allow"


def test_a_git_directory_with_too_many_files_is_asked_about(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_config, "MAX_ENTRIES", 5)
    assert effect(root, "git status") == "ask"


async def test_a_line_prints_no_setting_of_the_person(root: Path, home: Path) -> None:
    (home / ".gitconfig").write_text(f'[x]\n\tkey = "{SECRET}"\n')
    for line in (
        "git config --list", "git config --global --list", "git config --get-regexp x", "git config x.key",
    ):  # fmt: skip
        assert SECRET in by_hand(root, line)
        assert (await unasked(root, line)).is_error
    assert not (await unasked(root, "git config --local --list")).is_error


DENIED = """
    git show HEAD:.env  git show :.env  git show :0:.env  git show main@{0}:./.env
    git cat-file -p HEAD:.env  git cat-file blob HEAD^{tree}:.env  git diff HEAD:.env HEAD:file
    git diff HEAD:file..HEAD:.env  git log -p -- .env  git diff -- .env
    git diff ':!file' ':/.env'  git grep KEY -- .env  git blame .env  git -C sub show HEAD:.env
    git show HEAD:sub/../.env  git --no-pager log -p -- sub/../.env
"""
ASKED = """
    git diff HEAD  git diff --cached  git show  git show HEAD  git log -p  git log -1 -U3  git log --cc
    git log -L1,1:file  git log --color-words  git diff -- '*.env'  git diff -- ':(icase).ENV'  git grep KEY
    git grep -h KEY HEAD  git cat-file --batch  echo HEAD:file | git cat-file --batch
    git cat-file --batch-all-objects --batch  git stash show -p  git stash list -p  git status -v
    git status -svv  git diff-tree -p HEAD  git reflog -p  git diff-index -p HEAD  git whatchanged -p
    git show --stat 1234567  git for-each-ref --format='%(raw)'  git -C sub diff  cd sub && git show
    git --no-pager show  git diff --no-ext-diff  git diff HEAD -- file gone
"""
ALLOWED = """
    git status  git status -sb  git log --oneline -5  git log --stat --since=1.week  git diff --stat
    git branch -a  git diff --name-only HEAD  git show --stat HEAD  git show HEAD:file  git cat-file -t HEAD
    git ls-files  git ls-tree HEAD  git diff HEAD -- file  git log -p -- file  git show HEAD -- file
    git blame file  git rev-parse HEAD  git stash list  git cat-file -p HEAD:file  git reflog
    git -C sub log --oneline --graph --all
"""


def lines_of(text: str) -> list[str]:
    return re.split(r"\s{2,}", text.strip())


@pytest.mark.parametrize("rule", ["Read(.env)", "Read(/**/.env)", "Read(/.{env,key})"])
def test_git_prints_no_file_that_may_not_be_read(root: Path, rule: str) -> None:
    (root / ".env").write_text(SECRET)
    (root / "sub").mkdir()
    git(root, "add", "-f", ".env")
    git(root, "commit", "-qm", "with a key")
    for expected, lines in (("deny", DENIED), ("ask", ASKED), ("allow", ALLOWED)):
        for line in lines_of(lines):
            assert effect(root, line, deny=rule) == expected, line
    # Nor from an older commit, after the file is gone.
    git(root, "rm", "-q", "-f", ".env")
    git(root, "commit", "-qm", "without it")
    assert effect(root, "git log -p", deny=rule) == "ask"
    assert effect(root, "git show HEAD~1:.env", deny=rule) == "deny"


@pytest.mark.parametrize("rule", ["Read(.env)", "Read(~/.ssh/**)", "Read(//etc/**)"])
def test_a_rule_against_a_file_that_git_never_had_asks_nothing(root: Path, rule: str) -> None:
    (root / ".env").write_text(SECRET)
    (root / "sub").mkdir()
    for line in lines_of(ASKED):
        if "batch-all" not in line:
            assert effect(root, line, deny=rule) == "allow", line
    for line in ("git grep --untracked KEY", "git grep --no-index KEY", "git diff --no-in a b"):
        assert effect(root, line, deny=rule) == ("ask" if rule == "Read(.env)" else "allow"), line


def test_an_answer_for_good_covers_what_git_prints_but_not_a_file_that_is_named(root: Path) -> None:
    (root / ".env").write_text(SECRET)
    git(root, "add", "-f", ".env")
    assert effect(root, "git diff", "Bash(git diff:*)", deny="Read(.env)") == "allow"
    assert effect(root, "git diff .env", "Bash(git diff:*)", deny="Read(.env)") == "deny"
    assert effect(root, "git diff && make", "Bash(make:*)", deny="Read(.env)") == "ask"


LINES = [
    "git status",
    "git diff",
    "git log -p --stat",
    "git status && git diff | head -5",
    "git show HEAD:file",
]


@pytest.mark.parametrize("line", LINES)
async def test_git_only_reads_a_normal_clone_unasked(tmp_path: Path, root: Path, line: str) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(root), str(clone))
    git(clone, "config", "user.name", "b")
    git(clone, "config", "pull.rebase", "true")
    git(clone, "checkout", "-qb", "feature", "--track", "origin/main")
    (clone / ".git" / "hooks" / "pre-commit").symlink_to("../../scripts/check")
    (clone / "file").write_text("changed\n")
    (clone / "src").mkdir()
    result = await unasked(clone, line)
    assert not result.is_error, result.text
    assert effect(clone, f"cd src && {line}") == "allow"
    assert effect(clone, "git -C src -C .. status") == "ask"  # from here, `..` is outside


@pytest.mark.parametrize("line", LINES)
async def test_git_only_reads_a_linked_worktree_unasked(tmp_path: Path, root: Path, line: str) -> None:
    for place in (tmp_path / "beside", root / "within"):
        git(root, "worktree", "add", "-q", str(place))
        result = await unasked(place, line)
        assert not result.is_error, result.text
    assert effect(root, f"cd within && {line}") == "allow"


async def test_git_goes_into_a_submodule_unasked_until_that_names_a_program(
    tmp_path: Path, root: Path, marker: Path, payload: Path
) -> None:
    library = repository(tmp_path / "library")
    git(root, "submodule", "add", "-q", str(library), "sub")
    git(root, "commit", "-qm", "sub")
    assert not (await unasked(root, "git status")).is_error
    assert effect(root, "git -C sub diff") == "allow"
    git(root / "sub", "config", "filter.x.clean", str(payload))
    (root / "sub" / ".gitattributes").write_text("* filter=x\n")
    (root / "sub" / "file").write_text("six\n")  # as long as before: git has to look
    assert (await unasked(root, "git status")).is_error
    assert effect(root, "git -C sub diff") == "ask"
    assert not marker.exists()
    by_hand(root, "git status")
    assert marker.exists(), "the program would have run"


async def test_git_reads_a_submodule_of_a_linked_worktree_unasked_but_not_of_another_one(
    tmp_path: Path, root: Path, payload: Path
) -> None:
    library = repository(tmp_path / "library")
    git(library, "submodule", "add", "-q", str(repository(tmp_path / "inner")), "inner")
    git(library, "commit", "-qm", "inner")
    git(root, "submodule", "add", "-q", str(library), "sub")
    git(root, "commit", "-qm", "sub")
    places = [tmp_path / "beside", tmp_path / "third"]
    for place in places:
        git(root, "worktree", "add", "-q", str(place))
        git(place, "submodule", "update", "-q", "--init", "--recursive")
    beside, third = places
    for line in ("git status", "cd sub && git log -p", "git -C sub/inner log -p"):
        assert not (await unasked(beside, line)).is_error
    (beside / "other").mkdir()
    (beside / "other" / ".git").write_text((third / "sub" / ".git").read_text())
    assert effect(beside, "git -C other log -p") == "ask"
    git(beside / "sub" / "inner", "config", "diff.external", str(payload))
    assert effect(beside, "git status") == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "git -C a -C b diff", "git -C a/b/empty diff", "cd a && cd b && git diff", "cd a/b; git status | cat",
        "/usr/bin/git -C a/b diff", "git --no-pager -C a/b diff",
    ],
)  # fmt: skip
def test_the_repository_that_git_would_find_is_the_one_that_is_checked(
    root: Path, payload: Path, line: str
) -> None:
    """Also behind a second `-C`, and past a `.git` that is none."""
    inner = repository(root / "a" / "b")
    (inner / "empty" / ".git").mkdir(parents=True)
    assert effect(root, line) == "allow"
    configure(inner, f"[diff]\n\texternal = {payload}\n")
    assert effect(root, line) == "ask"
    assert effect(root, "git diff") == "allow"


def test_a_file_is_looked_for_in_the_directory_that_git_goes_to(tmp_path: Path, root: Path) -> None:
    (root / "src").mkdir()
    (root / "src" / "link").symlink_to(tmp_path / "payload")
    assert effect(root, "git -C src diff -O link") == "ask"
    assert effect(root, "git diff -O link") == "allow"


def test_a_file_that_git_looks_for_from_the_top_of_the_work_tree_is_asked_about(
    tmp_path: Path, root: Path
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    (root / "src").mkdir()
    (root / "link").symlink_to(tmp_path / "secret")
    for line in (
        "git blame --contents link ../file",
        "git blame --ignore-revs-file=link ../file",
        "git blame -wSlink ../file",
    ):
        assert effect(root, line, cwd=root / "src") == "ask"
        assert SECRET in by_hand(root / "src", line)


@pytest.mark.parametrize(
    "line",
    [
        "git grep -f ../secret", "git grep -Enf../secret", "git ls-files -o -X ../secret",
        "git ls-files --exclude-from=../secret", "git ls-files --exclude-per-dir=../secret",
    ],
)  # fmt: skip
def test_a_list_of_patterns_from_the_top_of_the_work_tree_is_asked_about(
    tmp_path: Path, root: Path, line: str
) -> None:
    """`../secret` in `src` is in the project; for older versions of git, it is beside the project."""
    (root / "src").mkdir()
    (tmp_path / "secret").write_text(f"{SECRET}[\n")
    assert effect(root, line, cwd=root / "src") == "ask"
    shown = by_hand(root / "src", "git grep -f ../secret")
    assert SECRET in shown or "cannot open" in shown
    assert effect(root, "git grep -e def -A3 -m1 x; git ls-files -oxX --exclude-standard") == "allow"


@pytest.mark.parametrize("key", ["branch.sort", "tag.sort"])
def test_a_sort_that_may_be_by_signature_is_asked_about(root: Path, key: str) -> None:
    """Since git 2.43 it starts gpg."""
    git(root, "config", key, "signature")
    assert effect(root, "git tag -l") == "ask"
    assert effect(root, "git branch --list") == "ask"


@pytest.mark.parametrize("line", ["git status && make", "make; git -C . diff"])
def test_a_rule_for_another_command_of_the_line_does_not_cover_git(
    root: Path, payload: Path, line: str
) -> None:
    assert effect(root, line, "Bash(make:*)") == "allow"
    _hook(root, payload)
    assert effect(root, line, "Bash(make:*)") == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "git --git-dir=x status", "git --work-tree=/ diff", "GIT_DIR=x git status",
        "env GIT_DIR=x git status", "git -c diff.external=x diff",
        "git log -p --submodule", "git diff --submodule=log",
        "git grep --recurse-submodules x", "git ls-files --recurse-sub",
    ],
)  # fmt: skip
def test_what_sends_git_elsewhere_is_asked_about(root: Path, line: str) -> None:
    assert effect(root, line) == "ask"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log.diffMerges", "remerge"), ("log.showSignature", "true"), ("core.attributesFile", "/etc/passwd"),
        ("alias.whatchanged", "!x"), ("diff.x.command", "x"), ("never.heard-of", "x"),
    ],
)  # fmt: skip
def test_a_setting_of_the_repository_that_is_not_known_to_be_harmless_is_asked_about(
    root: Path, key: str, value: str
) -> None:
    git(root, "config", key, value)
    assert effect(root, "git status") == "ask"
    assert effect(root, "ls") == "allow"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("remote.origin.promisor", "true"), ("extensions.partialClone", "origin"), ("core.sshCommand", "x"),
        ("core.hooksPath", ".husky/_"), ("core.fsmonitor", "x"), ("pager.log", "x"), ("core.pager", "x"),
        ("submodule.recurse", "true"), ("credential.helper", "x"),
    ],
)  # fmt: skip
def test_a_setting_that_nacre_overrides_is_asked_about_only_in_a_line_that_also_writes(
    root: Path, key: str, value: str
) -> None:
    git(root, "config", key, value)
    assert effect(root, "git status") == "allow"
    assert effect(root, "git status && make", "Bash(make:*)") == "ask"


async def test_a_git_that_takes_no_settings_from_the_environment_runs_no_hook_unasked(
    root: Path, marker: Path, payload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git before 2.31 ignores them: here, a program in its place drops the variable."""
    line = _hook(root, payload)
    assert effect(root, line) == "allow"
    (tmp_path / "old").mkdir()
    old = tmp_path / "old" / "git"
    old.write_text(f'#!/bin/sh\nunset GIT_CONFIG_COUNT GIT_OPTIONAL_LOCKS\nexec {shutil.which("git")} "$@"\n')
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    assert (await unasked(root, line)).is_error
    assert not marker.exists()
    by_hand(root, line)
    assert marker.exists(), "the program would have run"


async def test_other_tasks_run_while_git_is_asked(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow").mkdir()
    slow = tmp_path / "slow" / "git"
    slow.write_text(f'#!/bin/sh\nsleep 0.5\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    decided = asyncio.create_task(Guard(PermissionPolicy(root=root), Workspace(root))._decided(
        bash_tool(Workspace(root)), {"command": "git status"}, None
    ))  # fmt: skip
    longest = 0.0
    while not decided.done():
        before = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - before)
    assert (await decided).effect == "allow"
    assert longest < 0.8, "a check that blocks takes at least two runs of git"


def test_a_submodule_that_is_added_while_the_index_is_cached_is_found(
    root: Path, payload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the file gets its old size and time back."""
    monkeypatch.setattr(git_config, "SETTLED_SECONDS", 0)
    index = root / ".git" / "index"
    assert effect(root, "git status") == "allow"
    before = index.stat()
    assert index in git_config._INDEXES
    inner = repository(root / "sub")
    configure(inner, f"[diff]\n\texternal = {payload}\n")
    git(root, "rm", "-q", "--cached", "file")
    git(root, "add", "sub")
    with index.open("r+b") as file:
        file.truncate(before.st_size)
    os.utime(index, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert effect(root, "git status") == "ask"


def test_a_repeated_line_takes_two_git_processes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(root / ".git" / "index")
    monkeypatch.setattr(git_config, "SETTLED_SECONDS", 0)
    started: list[tuple[str, ...]] = []
    real = git_config.ask_git

    def counted(place: Path, *arguments: str) -> GitResult:
        started.append(arguments)
        return real(place, *arguments)

    monkeypatch.setattr(git_config, "ask_git", counted)
    for expected in (3, 2, 2):
        started.clear()
        assert effect(root, "git status && git grep x") == "allow"
        assert len(started) == expected, started


def test_a_config_that_git_cannot_read_is_asked_about(root: Path) -> None:
    configure(root, "[core\n")
    assert effect(root, "git status") == "ask"


async def test_the_settings_of_the_person_stay_in_force(home: Path, root: Path) -> None:
    program = home / "difftool"
    program.write_text("#!/bin/sh\necho shown by the tool of the person\n")
    program.chmod(0o755)
    with (home / ".gitconfig").open("a") as config:
        config.write(f"[diff]\n\texternal = {program}\n[core]\n\tpager = less\n[alias]\n\tst = status\n")
    result = await unasked(root, "git diff")
    assert (result.is_error, result.text) == (False, "shown by the tool of the person")


async def test_hooks_run_for_a_command_that_writes_and_not_for_one_that_reads(
    root: Path, marker: Path, payload: Path
) -> None:
    """Also where a rule allows the line, so that the guard does not look at the repository."""
    line = _hook(root, payload)
    bash = bash_tool(Workspace(root))
    await bash.call({"command": line})
    await bash.call({"command": "git diff"})
    assert not marker.exists()
    (root / "file").write_text("three\n")
    await bash.call({"command": "git add file"})
    assert marker.exists()
