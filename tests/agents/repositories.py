"""A repository of the real git for tests: made, looked at to the byte, and settings of git of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

AGENT = "0123456789abcdef"
NAME = "agent-01234567"
SETTINGS = """[user]
name = Ann
email = ann@example.org
[init]
defaultBranch = main
[protocol "file"]
allow = always
"""


def own_settings(person: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings of git that are the test's own; where they are."""
    person.mkdir()
    (person / ".gitconfig").write_text(SETTINGS, encoding="utf-8")
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(person))
    return person / ".gitconfig"


def begun(root: Path) -> Path:
    """A repository with a commit, changes that are staged, changes that are not, and a new file."""
    (root / "part").mkdir(parents=True)
    git(root, "init", "-q")
    (root / "a.txt").write_text("one\n", encoding="utf-8")
    (root / "part" / "b.txt").write_text("two\n", encoding="utf-8")
    (root / ".gitignore").write_text("build/\n", encoding="utf-8")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    git(root, "branch", "other")
    (root / "a.txt").write_text("staged\n", encoding="utf-8")
    git(root, "add", "a.txt")
    (root / "part" / "b.txt").write_text("changed\n", encoding="utf-8")
    (root / "new.txt").write_text("new\n", encoding="utf-8")
    return root


def git(place: Path, *arguments: str, check: bool = True) -> str:
    ran = subprocess.run(
        ["git", "--no-optional-locks", "-C", str(place), *arguments],
        check=check, capture_output=True, text=True,
    )  # fmt: skip
    return ran.stdout


def state(root: Path) -> dict[str, object]:
    """All that a person could notice of their checkout, to the byte and the nanosecond."""
    seen: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.split("/")[0] != ".git":
            seen[name] = (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns)
    for name in ("HEAD", "index", "config", "packed-refs"):
        path = root / ".git" / name
        seen[f".git/{name}"] = (path.read_bytes(), path.stat().st_mtime_ns) if path.exists() else None
    refs = git(root, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    seen["refs"] = [line for line in refs if not line.startswith("refs/heads/nacre/")]
    seen["status"] = git(root, "status", "--porcelain=v2", "--branch")
    return seen


def assert_no_trace(root: Path, home: Path) -> None:
    assert not list((home / "worktrees").rglob("*agent-*"))
    assert "nacre" not in git(root, "for-each-ref")
    assert git(root, "worktree", "list").count("\n") == 1
