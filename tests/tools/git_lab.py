"""A scratch folder for hostile and ordinary repositories: a canary program, a private file, a listening port.

Where the tests run as root, Bash lines run as an unprivileged user. `NACRE_TEST_GIT` names another git.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nacre.messages.blocks import JsonObject, ToolCall
from nacre.tools.base import Tool
from nacre.tools.bash import BashSettings, bash_tool
from nacre.tools.guard import Guard
from nacre.tools.policy import PermissionPolicy
from nacre.tools.run import run_all
from nacre.tools.workspace import Workspace

GIT = os.environ.get("NACRE_TEST_GIT") or shutil.which("git") or "git"
SECRET = "the private words of another directory"
UNPRIVILEGED = 65534
IS_ROOT = os.geteuid() == 0

LINES = (
    """
    git status  git status -sb --ignored  git status --porcelain=v2 -uall  git diff  git diff --stat HEAD~1
    git diff --cached  git diff HEAD --word-diff  git diff-index -p HEAD  git diff-files -p
    git diff-tree -p HEAD  git log --oneline --graph --all --decorate  git log -p -m --all
    git log --format='%an %(trailers)' -3  git log --remerge-diff -2  git log -L1,1:file -1
    git log --alternate-refs -1  git log -S one --all  git show  git show HEAD:file
    git show --remerge-diff HEAD  git show --cc signed  git blame file  git blame -w -C file  git branch -avv
    git tag -n --list  git for-each-ref --format='%(refname) %(subject)'  git ls-files -s
    git ls-files -o -i --exclude-standard  git ls-tree -r HEAD  git cat-file -p HEAD
    git cat-file --batch-check --batch-all-objects  git cat-file --batch --batch-all-objects
    git rev-parse --show-toplevel  git rev-list --count --all  git rev-list --objects --all
    git describe --always --dirty  git stash list  git stash show -p  git reflog  git remote -v
    git worktree list  git show-ref  git shortlog -sn HEAD  git config --local --list
    git check-ignore -v file x.log  git check-attr -a file  git count-objects -v  git whatchanged -1
    git merge-base HEAD HEAD~1  git name-rev HEAD  git symbolic-ref HEAD  git cherry HEAD HEAD~1
    """,
    "git grep -n one  git grep one HEAD  git grep --cached one",
    "git -C sub status  git -C sub diff  git -C sub log -p",
    "cd dir && git status && git diff && git log -p",
)
"""Lines that only read, in groups for which the guard checks the same; two blanks between them."""


def commands() -> list[str]:
    """One command line for each group: whether one command of it fails does not matter for the next one."""
    return [" ; ".join(re.split(r"\s{2,}", group.strip())) for group in LINES]


@dataclass(frozen=True)
class Lab:
    """One project that nacre works in, and what must not be touched."""

    base: Path
    port: int

    @property
    def root(self) -> Path:
        return self.base / "project"

    @property
    def private(self) -> Path:
        """A repository outside the project."""
        return self.base / "private"

    @property
    def canary(self) -> str:
        """A program that leaves a file; it is given no other job."""
        return str(self.base / "canary")

    @property
    def started(self) -> list[str]:
        return sorted(path.name for path in (self.base / "ran").iterdir())

    def git(self, *words: str, at: Path | None = None) -> str:
        given = ("-c", "protocol.file.allow=always", "-c", "advice.addEmbeddedRepo=false", "-c", "gc.auto=0")
        command = [GIT, *given, *words]
        done = subprocess.run(
            command,
            cwd=at or self.root,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise OSError(f"git {words[0]}: {done.stdout}{done.stderr}")
        return done.stdout

    def configure(self, text: str, at: Path | None = None) -> None:
        with ((at or self.root) / ".git" / "config").open("a") as config:
            config.write(text)

    def set(self, key: str, value: str, at: Path | None = None) -> None:
        """Set a value of the repository without git, which would refuse some of them."""
        section, _, rest = key.partition(".")
        name, _, variable = rest.rpartition(".")
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        self.configure(
            f'[{section}{f" {chr(34)}{quoted}{chr(34)}" if name else ""}]\n\t{variable} = "{text}"\n', at
        )

    def effect(self, command: str) -> str:
        async def nothing(arguments: JsonObject) -> str:
            return ""

        bash = Tool(name="Bash", description="", input_schema={}, call=nothing)
        return (
            PermissionPolicy(root=self.root).decide(bash, {"command": command}, Workspace(self.root)).effect
        )

    async def run(self, command: str) -> str:
        """Run a line as nacre does where no one can be asked, and return its whole output."""
        self.hand_over()
        workspace = Workspace(self.root)
        limits = BashSettings(success_chars=10**8, failure_chars=10**8)
        tools = Guard(PermissionPolicy(root=self.root), workspace).wrap([bash_tool(workspace, limits)])
        call = ToolCall("c", "Bash", {"command": command})
        [result] = await run_all([call], {one.name: one for one in tools})
        assert "Not allowed" not in result.text, result.text
        return result.text

    def by_hand(self, command: str) -> str:
        """Run a line without nacre, as the same user."""
        self.hand_over()
        # Git waits for an answer where it has connected to the port.
        done = subprocess.run(
            ["timeout", "10", "bash", "-c", command],
            cwd=self.root,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return (done.stdout + done.stderr).decode(errors="replace")

    def hand_over(self) -> None:
        if IS_ROOT:
            subprocess.run(
                ["chown", "-hR", str(UNPRIVILEGED), str(self.root), str(self.base / "ran")], check=True
            )


@contextlib.contextmanager
def open_lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Lab, socket.socket]]:
    """Yield a lab with an empty project directory, and the socket to which nothing may connect."""
    # Not below pytest's own directory, which other users may not enter.
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="nacre-git-")))
    base.chmod(0o755)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.setblocking(False)
        lab = Lab(base, listening.getsockname()[1])
        for name in ("project", "private", "ran", "home", "bin"):
            (base / name).mkdir()
        (base / "canary").write_text(
            f'#!/bin/sh\ntouch "{base}/ran/$$"\ncat 2>/dev/null </dev/null\nexit 0\n'
        )
        bash = '#!/bin/sh\nexec {drop}{bash} "$@"\n'
        drop = f"setpriv --reuid={UNPRIVILEGED} --regid={UNPRIVILEGED} --clear-groups " if IS_ROOT else ""
        (base / "bin" / "bash").write_text(bash.format(drop=drop, bash=shutil.which("bash")))
        (base / "bin" / "git").write_text(f'#!/bin/sh\nexec {GIT} "$@"\n')
        for program in (base / "canary", base / "bin" / "bash", base / "bin" / "git"):
            program.chmod(0o755)
        who = "[user]\n\tname = a\n\temail = a@example.org\n[init]\n\tdefaultBranch = main\n"
        (base / "home" / ".gitconfig").write_text(f"{who}\ttemplateDir =\n[safe]\n\tdirectory = *\n")
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(base / "home"))
        monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        monkeypatch.setenv("PATH", f"{base / 'bin'}:{os.environ['PATH']}")
        core = Path(GIT).parent.parent / "lib" / "git-core"
        if os.environ.get("NACRE_TEST_GIT") and core.is_dir():
            monkeypatch.setenv("GIT_EXEC_PATH", str(core))
        yield lab, listening


def has_connection(listening: socket.socket) -> bool:
    """Return whether there was a connection since the last call."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listening.accept()[0].close()
            count += 1
    return count > 0


def build_project(lab: Lab) -> None:
    """Fill project and private directory: history with a merge, a stash, a signed commit, a submodule."""
    private = lab.private
    lab.git("init", "-q", at=private)
    (private / "secret").write_text(SECRET + "\n")
    (private / "settings").write_text(f'[x]\n\tkey = "{SECRET}"\n')
    lab.git("add", ".", at=private)
    lab.git("commit", "-qm", SECRET, at=private)
    root = lab.root
    lab.git("init", "-q")
    (root / "dir").mkdir()
    for name, text in (("file", "one\n"), ("dir/inner", "one inner\n"), (".gitignore", "*.log\n")):
        (root / name).write_text(text)
    (root / ".gitattributes").write_text("file filter=x diff=x merge=x\n*.bin filter=x diff=x merge=x\n")
    lab.git("add", ".")
    lab.git("commit", "-qm", "one\n\nSigned-off-by: a <a@example.org>")
    lab.git("checkout", "-qb", "side")
    for branch, text in (("side", "left one\n"), ("main", "right one\n")):
        lab.git("checkout", "-q", branch)
        (root / "file").write_text(text)
        lab.git("commit", "-qam", branch)
    lab.git("merge", "-q", "-s", "ours", "-m", "merged", "side")
    lab.git("tag", "-am", "first", "v1")
    library = lab.base / "library"
    library.mkdir()
    lab.git("init", "-q", at=library)
    (library / "file").write_text("one\n")
    lab.git("add", ".", at=library)
    lab.git("commit", "-qm", "library", at=library)
    lab.git("submodule", "add", "-q", str(library), "sub")
    lab.git("commit", "-qm", "sub")
    (root / "dir" / "inner").write_text("stashed one\n")
    lab.git("stash", "-q")
    _sign(lab)
    (root / "file").write_text("wrong one\n")
    (root / "sub" / "file").write_text("two\n")
    (root / "x.log").write_text("one\n")
    for name in ("project", "private"):
        shutil.copytree(lab.base / name, lab.base / f"{name}.template", symlinks=True)


def restore_project(lab: Lab) -> None:
    """Undo all changes since `build_project`."""
    for name in ("project", "private", "beside"):
        shutil.rmtree(lab.base / name, ignore_errors=True)
    for name in ("project", "private"):
        shutil.copytree(lab.base / f"{name}.template", lab.base / name, symlinks=True)
    for path in (lab.base / "ran").iterdir():
        path.unlink()


def _sign(lab: Lab) -> None:
    """Add a commit with a signature header, on a branch of its own."""
    plain = lab.git("cat-file", "commit", "HEAD")
    head, _, message = plain.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n aaaa\n -----END PGP SIGNATURE-----"
    text = lab.base / "commit"
    text.write_text(f"{head}\n{signature}\n\n{message}")
    name = lab.git("hash-object", "-t", "commit", "-w", str(text)).strip()
    lab.git("branch", "signed", name)
