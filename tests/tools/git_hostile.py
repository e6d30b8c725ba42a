"""Hostile repositories: each function changes the project of a lab so that git would start or print more."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.tools.git_lab import GIT, Lab

Attack = Callable[[Lab], None]

HOOKS = """
    applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg
    post-commit
    pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update
    reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman
    p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change
""".split()

PLACEHOLDERS = {
    "filter": "x", "diff": "x", "merge": "x", "remote": "origin", "submodule": "sub", "branch": "main",
    "pager": "log", "alias": "lg", "gpg": "ssh", "url": "ext::sh", "includeif": "gitdir:/**",
}  # fmt: skip
"""Names for the middle of a setting, by its section, with which git would look at it here."""


def all_settings() -> list[str]:
    """Every setting that git documents, with names instead of placeholders."""
    listed = subprocess.run([GIT, "help", "--config"], capture_output=True, text=True, check=True).stdout
    keys = (line.strip() for line in listed.splitlines() if re.fullmatch(r"[a-zA-Z0-9]+\.\S+", line.strip()))
    more = [
        "gpg.ssh.defaultKeyCommand",
        "log.diffMerges",
        "core.attributesFile",
        "trailer.x.cmd",
        "hook.x.command",
    ]
    return sorted(
        {
            *(
                re.sub(r"<[^>]*>|\*", PLACEHOLDERS.get(key.partition(".")[0].lower(), "x"), key)
                for key in keys
            ),
            *more,
        }
    )


def setting(key: str, lab: Lab) -> None:
    lab.set(key, lab.canary)


def hook(name: str, lab: Lab) -> None:
    for folder in (lab.root / ".git" / "hooks", lab.root / ".git" / "modules" / "sub" / "hooks"):
        folder.mkdir(exist_ok=True)
        shutil.copy(lab.canary, folder / name)


TEXTS = {
    "two sections on a line": "[core][diff]external = CANARY\n",
    "upper case": "[DIFF]\n\tEXTERNAL = CANARY\n",
    "bracket in a name": '[filter "x"] clean = CANARY\n[filter "a]b"] clean = CANARY\n',
    "continued line": "[diff]\n\texternal = \\\nCANARY\n",
    "comment before": "[diff] ; x\n\texternal = CANARY # y\n",
    "quoted value": '[diff]\n\texternal = "CANARY"\n',
    "tabs": "[diff]\t\t\n\t\t\texternal\t=\tCANARY\n",
    "carriage returns": "[diff]\r\n\texternal = CANARY\r\n",
    "dotted section": "[diff.x]\n\tcommand = CANARY\n",
    "textconv": '[diff "x"]\n\ttextconv = CANARY\n\tcachetextconv = true\n',
    "diff command": '[diff "x"]\n\tcommand = CANARY\n',
    "filter clean": '[filter "x"]\n\tclean = CANARY\n\trequired\n',
    "filter process": '[filter "x"]\n\tprocess = CANARY\n\trequired\n',
    "filter smudge": '[filter "x"]\n\tsmudge = CANARY\n[core]\n\tsafecrlf = false\n',
    "merge driver": '[merge "x"]\n\tdriver = CANARY %A\n[log]\n\tdiffMerges = remerge\n',
    "default merge driver": '[merge]\n\tdefault = x\n[merge "x"]\n\tdriver = CANARY %A\n',
    "signatures": "[log]\n\tshowSignature = true\n[gpg]\n\tprogram = CANARY\n",
    "signatures of ssh": (
        '[log]\n\tshowSignature = true\n[gpg]\n\tformat = ssh\n[gpg "ssh"]\n\tprogram = CANARY\n'
    ),
    "format with a signature": "[format]\n\tpretty = %G?\n[gpg]\n\tprogram = CANARY\n",
    "named format": "[pretty]\n\toneline = %G?\n[gpg]\n\tprogram = CANARY\n",
    "sorted by signature": (
        "[tag]\n\tsort = signature\n[branch]\n\tsort = signature\n[gpg]\n\tprogram = CANARY\n"
    ),
    "monitor": "[core]\n\tfsmonitor = CANARY\n\tfsmonitorHookVersion = 1\n",
    "monitor, version 2": "[core]\n\tfsmonitor = CANARY\n\tfsmonitorHookVersion = 2\n",
    "monitor daemon": "[core]\n\tfsmonitor = true\n\tuntrackedCache = true\n",
    "pagers": "[core]\n\tpager = CANARY\n[pager]\n\tlog = CANARY\n\tdiff = CANARY\n\tbranch = CANARY\n",
    "aliases": "[alias]\n\tstatus = !CANARY\n\tlog = !CANARY\n\tlg = !CANARY\n",
    "trailers": '[trailer "x"]\n\tkey = Signed-off-by\n\tcommand = CANARY\n\tifmissing = add\n',
    "submodules, recursively": (
        "[submodule]\n\trecurse = true\n[diff]\n\tsubmodule = diff\n[status]\n\tsubmoduleSummary = true\n"
    ),
    "hooks elsewhere": "[core]\n\thooksPath = HOOKS\n",
    "hook in a setting": (
        '[hook "x"]\n\tcommand = CANARY\n\tevent = post-index-change\n'
        '[hook "post-index-change"]\n\tcommand = CANARY\n'
    ),
    "trace": "[trace2]\n\tnormalTarget = /tmp/nacre-trace\n\teventTarget = /tmp/nacre-trace\n",
    "large file filter": (
        '[filter "lfs"]\n\tprocess = CANARY\n\tclean = CANARY\n[lfs "extension.x"]\n\tclean = CANARY\n'
    ),
}  # fmt: skip


def text_attack(text: str, lab: Lab) -> None:
    hooks = lab.root / "hooks"
    hooks.mkdir()
    shutil.copy(lab.canary, hooks / "post-index-change")
    lab.configure(text.replace("CANARY", lab.canary).replace("HOOKS", "hooks"))


def byte_order_mark(lab: Lab) -> None:
    config = lab.root / ".git" / "config"
    config.write_bytes(b"\xef\xbb\xbf[diff]external = " + lab.canary.encode() + b"\n" + config.read_bytes())


def _include(condition: str, lab: Lab) -> None:
    (lab.root / "more").write_text(f"[diff]\n\texternal = {lab.canary}\n")
    head = f'[includeIf "{condition}"]' if condition else "[include]"
    lab.configure(f"{head}\n\tpath = ../more\n")


def include_private(lab: Lab) -> None:
    lab.configure(f"[include]\n\tpath = {lab.private}/settings\n")


def worktree_config(lab: Lab) -> None:
    lab.configure("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n")
    (lab.root / ".git" / "config.worktree").write_text(f"[diff]\n\texternal = {lab.canary}\n")


def commondir(lab: Lab) -> None:
    lab.set("diff.external", lab.canary)
    root = lab.root
    (root / ".git").rename(root / "other")
    (root / ".git").mkdir()
    for name in ("HEAD", "index", "modules"):
        (root / "other" / name).rename(root / ".git" / name)
    (root / ".git" / "commondir").write_text("../other\n")
    (root / ".git" / "config").write_text("[core]\n\trepositoryformatversion = 0\n")


def git_link(lab: Lab) -> None:
    (lab.root / ".git").rename(lab.root / "other")
    (lab.root / ".git").symlink_to(lab.private / ".git")


def git_file(lab: Lab) -> None:
    (lab.root / ".git").rename(lab.root / "other")
    (lab.root / ".git").write_text(f"gitdir: {lab.private}/.git\n")


def git_file_to_a_worktree(lab: Lab) -> None:
    lab.git("worktree", "add", "-q", str(lab.base / "beside"), at=lab.private)
    (lab.root / ".git").rename(lab.root / "other")
    (lab.root / ".git").write_text(f"gitdir: {lab.private}/.git/worktrees/beside\n")


def work_tree_elsewhere(lab: Lab) -> None:
    shutil.copy(lab.private / "secret", lab.root / "secret")
    (lab.root / "secret").write_text("one\n")
    lab.git("add", "secret")
    (lab.root / "secret").unlink()
    lab.set("core.worktree", str(lab.private))


def alternates(lab: Lab) -> None:
    (lab.root / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (lab.root / ".git" / "objects" / "info" / "alternates").write_text(f"{lab.private}/.git/objects\n")
    lab.set("core.alternateRefsCommand", lab.canary)


def alternates_within(lab: Lab) -> None:
    inner = lab.root / "inner"
    inner.mkdir()
    lab.git("init", "-q", at=inner)
    (lab.root / ".git" / "objects" / "info" / "alternates").write_text(f"{inner}/.git/objects\n")
    lab.set("core.alternateRefsCommand", lab.canary)


LINKED = [
    "HEAD", "config", "index", "packed-refs", "shallow", "MERGE_MSG", "MERGE_HEAD", "FETCH_HEAD",
    "info/exclude", "info/attributes", "info/sparse-checkout", "info/grafts", "logs/HEAD", "refs/heads/x",
    "logs/refs/stash",
    "COMMIT_EDITMSG", "BISECT_LOG", "CHERRY_PICK_HEAD", "sequencer", "rebase-merge", "rebase-apply",
    "worktrees",
    "objects/pack", "objects/info", "objects/ab", "description", "refs", "logs",
]  # fmt: skip


def linked(name: str, lab: Lab) -> None:
    """A part of the git directory is a link to a private file or directory."""
    place = lab.root / ".git" / name
    source = lab.private / "secret"
    if place.is_dir() or name in {"sequencer", "rebase-merge", "rebase-apply", "worktrees", "objects/ab"}:
        source = lab.private / ".git" / name
        source.mkdir(parents=True, exist_ok=True)
        for inner in ("head-name", "onto", "done", "git-rebase-todo", "interactive"):
            shutil.copy(lab.private / "secret", source / inner)
        shutil.rmtree(place, ignore_errors=True)
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True, parents=True)
    place.symlink_to(source)


TRACKED = [".gitattributes", ".gitignore", ".mailmap", ".gitmodules", "file", "dir"]


def linked_in_the_work_tree(name: str, lab: Lab) -> None:
    place = lab.root / name
    source = lab.private if place.is_dir() else lab.private / "secret"
    if place.is_dir():
        shutil.copy(lab.private / "secret", lab.private / "inner")
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(source)


FILES = {
    "core.excludesFile": "secret", "core.attributesFile": "secret", "mailmap.file": "secret",
    "blame.ignoreRevsFile": "secret", "diff.orderFile": "secret", "commit.template": "secret",
    "gpg.ssh.allowedSignersFile": "secret", "fsck.skipList": "secret", "http.cookieFile": "secret",
    "log.mailmap": "secret", "include.path": "settings",
}  # fmt: skip


def private_file(key: str, lab: Lab) -> None:
    lab.set(key, str(lab.private / FILES[key]))


def attributes_file(lab: Lab) -> None:
    (lab.root / ".gitattributes").write_text("")
    (lab.root / ".git" / "info").mkdir(exist_ok=True)
    (lab.root / ".git" / "info" / "attributes").write_text("* filter=y diff=y merge=y\n")
    lab.configure(f'[filter "y"]\n\tclean = {lab.canary}\n[diff "y"]\n\ttextconv = {lab.canary}\n')


def in_the_submodule(lab: Lab) -> None:
    lab.git("config", "filter.x.clean", lab.canary, at=lab.root / "sub")
    (lab.root / "sub" / ".gitattributes").write_text("* filter=x\n")


def in_a_nested_submodule(lab: Lab) -> None:
    sub = lab.root / "sub"
    lab.git("submodule", "add", "-q", str(lab.base / "library"), "deep", at=sub)
    lab.git("commit", "-qm", "deep", at=sub)
    lab.git("config", "filter.x.clean", lab.canary, at=sub / "deep")
    (sub / "deep" / ".gitattributes").write_text("* filter=x\n")
    (sub / "deep" / "file").write_text("two\n")


def _inner(lab: Lab, name: str = "inner") -> Path:
    inner = lab.root / name
    inner.mkdir(parents=True)
    lab.git("init", "-q", at=inner)
    for text in ("one\n", "two\n"):
        (inner / "file").write_text(text)
        lab.git("add", ".", at=inner)
        lab.git("commit", "-qm", text, at=inner)
    (inner / ".gitattributes").write_text("* filter=x diff=x\n")
    (inner / "file").write_text("six\n")
    lab.set("filter.x.clean", lab.canary, at=inner)
    lab.set("diff.external", lab.canary, at=inner)
    lab.set("core.fsmonitor", lab.canary, at=inner)
    (inner / ".git" / "hooks").mkdir(exist_ok=True)
    shutil.copy(lab.canary, inner / ".git" / "hooks" / "post-index-change")
    return inner


def untracked_repository(lab: Lab) -> None:
    _inner(lab)


def gitlink(lab: Lab) -> None:
    _inner(lab)
    lab.git("add", "inner")


def gitlink_in_the_history(lab: Lab) -> None:
    inner = _inner(lab)
    lab.git("add", "inner")
    lab.git("commit", "-qm", "link", "inner")
    lab.git("update-ref", "HEAD", "HEAD~1", at=inner)
    lab.git("commit", "-qm", "link again", "inner")
    lab.git("rm", "-q", "--cached", "inner")


def gitlink_behind_a_link(lab: Lab) -> None:
    _inner(lab, "elsewhere/inner")
    commit = lab.git("rev-parse", "HEAD", at=lab.root / "elsewhere" / "inner").strip()
    lab.git("update-index", "--add", "--cacheinfo", f"160000,{commit},linked/inner")
    (lab.root / "linked").symlink_to("elsewhere")


def modules_file(lab: Lab) -> None:
    (lab.root / ".gitmodules").write_text(
        f'[submodule "sub"]\n\tpath = sub\n\turl = ext::{lab.canary}\n\tupdate = !{lab.canary}\n'
        "\tignore = none\n"
        f"[diff]\n\texternal = {lab.canary}\n"
    )
    lab.configure(f'[submodule "sub"]\n\tupdate = !{lab.canary}\n')


def hidden_bare_repository(lab: Lab) -> None:
    """The folder that a line enters is itself a git directory."""
    folder = lab.root / "dir"
    shutil.rmtree(folder)
    lab.git("clone", "-q", "--bare", str(lab.base / "library"), str(folder))
    with (folder / "config").open("a") as config:
        config.write(
            f"[core]\n\tbare = false\n\tworktree = ../sub\n\tfsmonitor = {lab.canary}\n"
            f"[diff]\n\texternal = {lab.canary}\n"
        )
    lab.git("read-tree", f"--index-output={folder}/index", "HEAD", at=lab.base / "library")


def bare_project(lab: Lab) -> None:
    """The project's top is a bare repository with a work tree."""
    for path in (lab.root / ".git").iterdir():
        shutil.move(path, lab.root / path.name)
    (lab.root / ".git").rmdir()
    with (lab.root / "config").open("a") as config:
        config.write(f"[core]\n\tbare = false\n\tworktree = .\n[diff]\n\texternal = {lab.canary}\n")


def modules_entered(lab: Lab) -> None:
    """`dir` leads into the git directory of a submodule, whose settings name programs and a work tree."""
    module = lab.root / ".git" / "modules" / "sub"
    shutil.rmtree(lab.root / "dir")
    (lab.root / "dir").symlink_to(".git/modules/sub")
    with (module / "config").open("a") as config:
        config.write(f"[diff]\n\texternal = {lab.canary}\n[core]\n\tfsmonitor = {lab.canary}\n")


def module_for_a_private_tree(lab: Lab) -> None:
    module = lab.root / ".git" / "modules" / "sub"
    text = (module / "config").read_text()
    (module / "config").write_text(re.sub(r"worktree = .*", f"worktree = {lab.private}", text))
    (lab.root / "sub" / "secret").write_text("one\n")
    (lab.private / "file").write_text("the private words of another directory\n")


PROMISORS = {
    "ext": "ext::{canary}", "ssh": "ssh://127.0.0.1:{port}/x", "http": "http://127.0.0.1:{port}/x",
    "git": "git://127.0.0.1:{port}/x", "file": "file://{private}", "vcs": "x::y",
}  # fmt: skip


def promisor(kind: str, lab: Lab) -> None:
    """A partial clone with a missing object, so that git would fetch it."""
    url = PROMISORS[kind].format(canary=lab.canary, port=lab.port, private=lab.private)
    lab.configure(
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n"
        f'[remote "origin"]\n\turl = {url}\n\tpromisor = true\n'
        "\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
        f"[core]\n\tsshCommand = {lab.canary}\n\taskPass = {lab.canary}\n"
        f"[credential]\n\thelper = !{lab.canary}\n"
    )
    if kind == "git":
        lab.set("core.gitProxy", lab.canary)
    if kind == "ext":
        lab.configure('[protocol "ext"]\n\tallow = always\n')
    blob = lab.git("rev-parse", "HEAD~1:file").strip()
    (lab.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


def promisor_without_protocols(lab: Lab) -> None:
    """Only settings that a line overrides, so that the line really runs."""
    promisor("ssh", lab)


def rewritten_address(lab: Lab) -> None:
    promisor("http", lab)
    lab.configure(f'[url "ext::{lab.canary} "]\n\tinsteadOf = http\n')


def replaced_objects(lab: Lab) -> None:
    """Harmless: grafts and replacements stay within the repository."""
    lab.git("replace", "HEAD", "HEAD~1")
    commit = lab.git("rev-parse", "HEAD").strip()
    (lab.root / ".git" / "info").mkdir(exist_ok=True)
    (lab.root / ".git" / "info" / "grafts").write_text(f"{commit}\n")


def worktree_entry(lab: Lab) -> None:
    entry = lab.root / ".git" / "worktrees" / "x"
    entry.mkdir(parents=True)
    (entry / "gitdir").write_text(f"{lab.private}/.git\n")
    (entry / "commondir").write_text("../..\n")
    (entry / "HEAD").write_text("ref: refs/heads/main\n")
    (entry / "locked").symlink_to(lab.private / "secret")


def split_index(lab: Lab) -> None:
    gitlink(lab)
    lab.git("update-index", "--split-index")


def broken_config(lab: Lab) -> None:
    lab.configure(f"[diff]\n\texternal = {lab.canary}\n[core\n")


def unknown_format(lab: Lab) -> None:
    lab.configure(f"[core]\n\trepositoryformatversion = 99\n[diff]\n\texternal = {lab.canary}\n")


def decoy_repository(lab: Lab) -> None:
    """A `.git` in the entered folder that is none: git goes on to the one above, which is hostile."""
    (lab.root / "dir" / ".git").mkdir()
    lab.set("diff.external", lab.canary)


SHAPES: list[Attack] = [
    byte_order_mark, include_private, worktree_config, commondir, git_link, git_file, git_file_to_a_worktree,
    work_tree_elsewhere, alternates, alternates_within, attributes_file, in_the_submodule,
    in_a_nested_submodule, untracked_repository, gitlink, gitlink_in_the_history, gitlink_behind_a_link,
    modules_file, hidden_bare_repository, bare_project, modules_entered, module_for_a_private_tree,
    promisor_without_protocols, rewritten_address, replaced_objects, worktree_entry, split_index,
    broken_config, unknown_format, decoy_repository,
]  # fmt: skip


def shapes() -> Iterator[tuple[str, Attack]]:
    """Yield repositories whose files or settings work together."""
    yield from ((one.__name__, one) for one in SHAPES)
    yield from ((name, partial(text_attack, text)) for name, text in TEXTS.items())
    yield from ((f"hook {name}", partial(hook, name)) for name in HOOKS)
    yield from ((f"link {name}", partial(linked, name)) for name in LINKED)
    yield from ((f"link in the tree {name}", partial(linked_in_the_work_tree, name)) for name in TRACKED)
    yield from ((f"file {key}", partial(private_file, key)) for key in FILES)
    yield from ((f"promisor {kind}", partial(promisor, kind)) for kind in PROMISORS)
    conditions = ("", "gitdir:/**", "onbranch:**", "hasconfig:remote.*.url:**")
    yield from ((f"include {one}", partial(_include, one)) for one in conditions)


def settings() -> Iterator[tuple[str, Attack]]:
    """Yield one repository for each setting that git knows, with the canary as its value."""
    yield from ((f"setting {key}", partial(setting, key)) for key in all_settings())
