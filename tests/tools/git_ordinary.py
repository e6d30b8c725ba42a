"""Ordinary repositories, as people and tools make them, in which lines that only read need no question."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.git_lab import Lab

Build = Callable[[Lab], object]
LINES = [
    "git status",
    "git diff",
    "git log --oneline -3",
    "git log -p -2",
    "git show",
    "git blame file",
    "git grep one",
]


def plain(lab: Lab, *options: str) -> None:
    root = lab.root
    lab.git("init", "-q", *options)
    (root / "file").write_text("one\n")
    lab.git("add", ".")
    lab.git("commit", "-qm", "one")
    (root / "file").write_text("one and a change\n")


def _settings(text: str) -> Build:
    def build(lab: Lab) -> None:
        plain(lab)
        lab.configure(text)

    return build


def _origin(lab: Lab, *options: str) -> Path:
    origin = lab.base / "origin"
    origin.mkdir()
    lab.git("init", "-q", at=origin)
    for text in ("one\n", "one two\n", "one two three\n"):
        (origin / "file").write_text(text)
        lab.git("add", ".", at=origin)
        lab.git("commit", "-qm", text, at=origin)
    lab.git("config", "uploadpack.allowFilter", "true", at=origin)
    lab.git("clone", "-q", *options, f"file://{origin}", str(lab.root))
    return origin


def clone(lab: Lab) -> None:
    _origin(lab)
    lab.git("checkout", "-qb", "feature", "--track", "origin/main")


def shallow_clone(lab: Lab) -> None:
    _origin(lab, "--depth=2")


def partial_clone(lab: Lab) -> None:
    _origin(lab, "--filter=blob:none")


def single_branch_clone(lab: Lab) -> None:
    _origin(lab, "--single-branch", "--no-tags")


def several_remotes(lab: Lab) -> None:
    origin = _origin(lab)
    lab.git("remote", "add", "upstream", f"file://{origin}")
    lab.git("fetch", "-q", "upstream")
    lab.git("config", "remote.pushDefault", "origin")
    lab.git("config", "remote.upstream.tagOpt", "--no-tags")


def submodule(lab: Lab) -> None:
    plain(lab)
    library = lab.base / "library"
    library.mkdir()
    lab.git("init", "-q", at=library)
    (library / "file").write_text("one\n")
    lab.git("add", ".", at=library)
    lab.git("commit", "-qm", "one", at=library)
    lab.git("submodule", "add", "-q", str(library), "sub")
    lab.git("commit", "-qm", "sub")
    (lab.root / "sub" / "file").write_text("two\n")


def nested_submodule(lab: Lab) -> None:
    submodule(lab)
    lab.git("submodule", "add", "-q", str(lab.base / "library"), "deep", at=lab.root / "sub")
    lab.git("commit", "-qm", "deep", at=lab.root / "sub")


def submodule_not_checked_out(lab: Lab) -> None:
    submodule(lab)
    lab.git("submodule", "deinit", "-q", "-f", "sub")


def nested_repository(lab: Lab) -> None:
    plain(lab)
    (lab.root / "inner").mkdir()
    lab.git("init", "-q", at=lab.root / "inner")


def worktree_within(lab: Lab) -> None:
    plain(lab)
    lab.git("worktree", "add", "-q", "beside")


def linked_worktree(lab: Lab) -> None:
    plain(lab)
    lab.root.rename(lab.base / "main")
    lab.git("worktree", "add", "-q", str(lab.root), at=lab.base / "main")


def _hooks(folder: str, *names: str) -> Build:
    def build(lab: Lab) -> None:
        plain(lab)
        place = lab.root / folder
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            (place / name).write_text("#!/bin/sh\nexit 0\n")
            (place / name).chmod(0o755)
        if not folder.startswith(".git/"):
            lab.git("config", "core.hooksPath", folder)

    return build


def linked_hooks(lab: Lab) -> None:
    plain(lab)
    (lab.root / ".git" / "hooks").mkdir(exist_ok=True)
    (lab.root / ".git" / "hooks" / "pre-commit").symlink_to("../../scripts/pre-commit")


def sparse(lab: Lab) -> None:
    plain(lab)
    for name in ("a", "b"):
        (lab.root / name).mkdir()
        (lab.root / name / "file").write_text("one\n")
    lab.git("add", ".")
    lab.git("commit", "-qm", "more")
    lab.git("sparse-checkout", "set", "--cone", "a")


def sparse_index(lab: Lab) -> None:
    sparse(lab)
    lab.git("sparse-checkout", "init", "--cone", "--sparse-index")


def sha256(lab: Lab) -> None:
    plain(lab, "--object-format=sha256")


def reftable(lab: Lab) -> None:
    try:
        plain(lab, "--ref-format=reftable")
    except OSError as error:
        pytest.skip(str(error))


def attributes(lab: Lab) -> None:
    plain(lab)
    (lab.root / ".gitattributes").write_text(
        "* text=auto\n*.psd filter=lfs diff=lfs merge=lfs -text\nvendor/** linguist-vendored\n"
        "*.py diff=python\n*.lock -diff merge=binary\nexport export-subst export-ignore\n"
    )


def large_file_storage(lab: Lab) -> None:
    """Installed for the user: the program is the user's own."""
    with (lab.base / "home" / ".gitconfig").open("a") as config:
        config.write('[filter "lfs"]\n\tclean = cat\n\tsmudge = cat\n\trequired = true\n')
    attributes(lab)
    (lab.root / "a.psd").write_text("one\n")
    lab.git("add", ".")
    lab.git("config", "lfs.repositoryformatversion", "0")
    lab.git("config", "lfs.https://example.org/x.git/info/lfs.access", "basic")


def user_includes(lab: Lab) -> None:
    (lab.base / "home" / "work").write_text("[user]\n\temail = b@example.org\n[core]\n\tpager = less\n")
    with (lab.base / "home" / ".gitconfig").open("a") as config:
        config.write(f'[includeIf "gitdir:{lab.base}/"]\n\tpath = work\n[alias]\n\tst = status\n')
    plain(lab)


def large(lab: Lab) -> None:
    plain(lab)
    for number in range(1_000):
        folder = lab.root / f"d{number % 20}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}").write_text(f"one {number}\n")
    lab.git("add", ".")
    lab.git("commit", "-qm", "many")


def packed(lab: Lab) -> None:
    plain(lab)
    lab.git("gc", "-q")
    lab.git("commit-graph", "write", "--reachable", "--changed-paths")
    lab.git("multi-pack-index", "write")


def renamed_branch(lab: Lab) -> None:
    clone(lab)
    lab.git("branch", "-m", "feature", "topic/with-ünïcode")


def merge_in_progress(lab: Lab) -> None:
    plain(lab)
    lab.git("checkout", "-qb", "side")
    for branch, text in (("side", "one left\n"), ("main", "one right\n")):
        lab.git("checkout", "-q", "-f", branch)
        (lab.root / "file").write_text(text)
        lab.git("commit", "-qam", branch)
    with pytest.raises(OSError, match="merge"):
        lab.git("merge", "-q", "side")


def rebase_in_progress(lab: Lab) -> None:
    merge_in_progress(lab)
    lab.git("merge", "--abort")
    with pytest.raises(OSError, match="rebase"):
        lab.git("rebase", "-q", "side")


def bisect_in_progress(lab: Lab) -> None:
    clone(lab)
    lab.git("bisect", "start", "HEAD", "HEAD~2")


def detached(lab: Lab) -> None:
    clone(lab)
    lab.git("checkout", "-q", "--detach", "HEAD~1")


def unborn(lab: Lab) -> None:
    lab.git("init", "-q")
    (lab.root / "file").write_text("one\n")


def notes_and_replacements(lab: Lab) -> None:
    clone(lab)
    lab.git("notes", "add", "-m", "a note", "HEAD")
    lab.git("replace", "HEAD~1", "HEAD~2")


def odd_names(lab: Lab) -> None:
    plain(lab)
    for name in ("with space", "ünï", 'quo"te', "new\nline", "-dash"):
        (lab.root / name).write_text("one\n")
    lab.git("add", "--all")
    lab.git("commit", "-qm", "odd")


def split_index(lab: Lab) -> None:
    plain(lab)
    lab.git("update-index", "--split-index")


def newest_index(lab: Lab) -> None:
    plain(lab)
    lab.git("update-index", "--index-version", "4", "--untracked-cache")


def stash(lab: Lab) -> None:
    plain(lab)
    lab.git("stash", "-q")


def shared_clone(lab: Lab) -> None:
    _origin(lab)
    shutil.rmtree(lab.root)
    lab.git("clone", "-q", "--shared", str(lab.base / "origin"), str(lab.root), at=lab.base)


NOT_ASKED: dict[str, Build] = {
    **{
        build.__name__: build
        for build in (
            plain,
            clone,
            shallow_clone,
            partial_clone,
            single_branch_clone,
            several_remotes,
            submodule,
            nested_submodule,
            submodule_not_checked_out,
            nested_repository,
            worktree_within,
            linked_worktree,
            linked_hooks,
            sparse,
            sparse_index,
            sha256,
            reftable,
            attributes,
            large_file_storage,
            user_includes,
            large,
            packed,
            renamed_branch,
            merge_in_progress,
            rebase_in_progress,
            bisect_in_progress,
            detached,
            unborn,
            notes_and_replacements,
            odd_names,
            split_index,
            newest_index,
            stash,
        )
    },
    "husky 9": _hooks(".husky/_", "pre-commit", "commit-msg", "h"),
    "husky 8": _hooks(".husky", "pre-commit", "_husky.sh"),
    "own hooks": _hooks(".githooks", "pre-push"),
    "husky 4": _hooks(
        ".git/hooks", "pre-commit", "post-checkout", "post-merge", "prepare-commit-msg", "husky.sh"
    ),
    "pre-commit": _hooks(".git/hooks", "pre-commit", "pre-commit.legacy", "pre-push"),
    "lefthook": _hooks(".git/hooks", "pre-commit", "prepare-commit-msg", "post-index-change"),
    "gh": _settings(
        '[remote "origin"]\n\turl = git@example.org:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
        '\tgh-resolved = base\n[branch "x"]\n\tgithub-pr-owner-number = "a#b#1"\n\tmerge = refs/pull/1/head\n'
    ),
    "glab": _settings('[remote "origin"]\n\turl = https://example.org/a.git\n\tglab-resolved = base\n'),
    "git-flow": _settings('[gitflow "branch"]\n\tmaster = main\n[gitflow "prefix"]\n\tfeature = feature/\n'),
    "editor": _settings('[branch "main"]\n\tvscode-merge-base = origin/main\n[gui]\n\twmstate = normal\n'),
    "identity": _settings("[user]\n\tsigningkey = ABC\n[commit]\n\tgpgsign = true\n[gpg]\n\tformat = ssh\n"),
    "line ends": _settings("[core]\n\tautocrlf = input\n\teol = lf\n\tsafecrlf = warn\n"),
    "deploy key": _settings("[core]\n\tsshCommand = ssh -i ~/.ssh/deploy\n"),
    "credentials": _settings(
        '[credential]\n\thelper = store\n[credential "https://example.org"]\n\tusername = a\n'
    ),
    "proxy": _settings("[http]\n\tproxy = http://127.0.0.1:9\n\tsslVerify = false\n\tpostBuffer = 1\n"),
    "monitor": _settings("[core]\n\tfsmonitor = true\n\tuntrackedCache = true\n"),
    "pager": _settings("[core]\n\tpager = less -FRX\n[pager]\n\tbranch = false\n[color]\n\tui = auto\n"),
    "workflow": _settings(
        "[pull]\n\trebase = true\n[push]\n\tdefault = current\n[rerere]\n\tenabled = true\n"
    ),
    "drivers without programs": _settings(
        '[diff "x"]\n\txfuncname = "^x"\n\tbinary = false\n[diff]\n\ttool = x\n'
    ),
    "scalar": _settings(
        "[feature]\n\tmanyFiles = true\n[index]\n\tskipHash = false\n[fetch]\n\tunpackLimit = 1\n"
        "[log]\n\texcludeDecoration = refs/prefetch/*\n[receive]\n\tautoGC = false\n[merge]\n\tstat = false\n"
    ),
    "subversion": _settings('[svn-remote "svn"]\n\turl = https://example.org/svn\n\tfetch = trunk:refs/x\n'),
}
ASKED: dict[str, Build] = {
    "large file storage of its own": _settings('[filter "lfs"]\n\tclean = git-lfs clean -- %f\n'),
    "settings from a file": _settings("[include]\n\tpath = ../.gitconfig\n"),
    "ignored revisions": _settings("[blame]\n\tignoreRevsFile = .git-blame-ignore-revs\n"),
    "shared_clone": shared_clone,
}
"""Known costs: these start a program, or read another file or directory."""
