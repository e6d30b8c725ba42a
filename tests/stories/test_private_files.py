"""Everything nacre writes is for its owner alone, whatever the shell's umask says (M27)."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from tests.cli.program import ended, world

KEY = "AKIA" + "QX7ZP2M4N6R5T3WV"


def run(cwd: Path, *args: str, said: str | None = None) -> None:
    """The program with a umask that forbids nothing."""
    done = ended([sys.executable, "-m", "nacre", *args], cwd, world(cwd.parent), given=said, umask=0)
    assert done.returncode == 0, done.stderr


def open_to_others(folder: Path) -> list[str]:
    """Files that are not 0600, folders that are not 0700."""
    found = []
    for path in (folder, *sorted(folder.rglob("*"))):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode != (0o700 if path.is_dir() else 0o600):
            found.append(f"{mode:o} {path.relative_to(folder.parent)}")
    return found


@pytest.mark.slow
def test_every_file_of_the_home_is_its_owners_alone(tmp_path: Path) -> None:
    """Chats, tools that write, memories of both scopes, moves, undo, lint, exports, trust and consent."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (tmp_path / "shared.md").write_text("Use tabs.\n")
    (project / "CLAUDE.md").write_text("@../shared.md\n")
    run(project, "-p", "remember that the build server is called hopper")
    run(project, "chat", said="recall hopper\n/quit\n")
    run(project, "memory", "save", "Deploys happen on Monday.", "--name", "Deploy day")
    run(project, "memory", "save", "I like green tea.", "--name", "Tea", "--scope", "user")
    run(project, "memory", "save", f"the key is {KEY}", "--name", "Key", "--allow-secret")
    run(project, "memory", "move", "tea", "--to", "project")
    run(project, "memory", "forget", "project_deploy_day.md")
    run(project, "memory", "undo")
    run(project, "memory", "forget", "user_tea.md", "--purge", "--yes")
    run(project, "memory", "export", str(tmp_path / "home/exports/folder"))
    run(project, "memory", "export", str(tmp_path / "home/exports/packed.tar.gz"))
    run(project, "sessions", "list")
    run(project, "sessions", "export", "latest", "-o", str(tmp_path / "home/exports/session.md"))
    run(project, "instructions", "allow", "../shared.md")
    run(project, "-p", "hello", "--continue")
    home = tmp_path / "home"
    assert len([path for path in home.rglob("*") if path.is_file()]) > 20
    assert open_to_others(home) == []
    assert KEY.encode() not in (home / "exports/folder/project_key.md").read_bytes()
