"""Stored text never controls the terminal: every command that prints it writes control characters out."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

import pytest

from tests.cli.program import begin, nacre, world

EVIL = "start\x1b]0;title\x07 \x1b[2J mid\x9b2J \u202eturned end\x08"
CONTROL = re.compile("\x1b\\]|\x1b\\[2J|\x07|\x9b|\u202e|\x08")
MEMORY = f"---\nname: evil {EVIL}\ndescription: about {EVIL}\ntype: project\n---\nThe port is {EVIL}\n"
COMMANDS = [
    "memory list", "memory list --json", "memory show evil.md", "memory search port", "memory why evil.md",
    "memory log", "memory diff", "memory lint", "memory audit", "memory stale", "memory review",
    "recall port", "recall port --json", "sessions list", "sessions show SESSION",
    "sessions show SESSION --full", "sessions show SESSION --json", "sessions search port",
    "sessions check SESSION", "sessions export SESSION", "sessions export SESSION --format jsonl",
    "context", "stats", "instructions", "dream --dry-run", "doctor",
]  # fmt: skip


def on_a_terminal(cwd: Path, *args: str) -> str:
    """The output of a command whose stdout and stderr are a terminal."""
    ours, theirs = pty.openpty()
    out = b""
    with begin(
        [sys.executable, "-m", "nacre", *args], cwd, world(cwd), stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        while piece := _read(ours):
            out += piece
    os.close(ours)
    return out.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed
        return b""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    cwd = tmp_path_factory.mktemp("control")
    folder = Path(nacre(cwd, "memory", "path").stdout.strip())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "evil.md").write_text(MEMORY)
    (cwd / "CLAUDE.md").write_text(f"Use port {EVIL}\n")
    assert (
        nacre(cwd, "memory", "save", f"The other port is {EVIL}", "--name", f"other {EVIL}").returncode == 0
    )
    assert nacre(cwd, "-p", f"which port {EVIL}").returncode == 0
    [log] = (cwd / "home" / "projects").glob("*/*.jsonl")
    return cwd, log.stem


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_prints_stored_text_writes_control_characters_out(
    project: tuple[Path, str], command: str
) -> None:
    cwd, session = project
    shown = on_a_terminal(cwd, *(session if word == "SESSION" else word for word in command.split()))
    assert shown.strip()
    assert not CONTROL.search(shown), shown


def test_an_answer_is_written_out_for_a_person_and_left_alone_for_a_program(
    project: tuple[Path, str],
) -> None:
    cwd, _ = project
    for form in ("text", "json", "stream-json"):
        shown = on_a_terminal(cwd, "-p", "which port is the other port?", "--output-format", form)
        assert "start" in shown and not CONTROL.search(shown), shown
    assert "\x1b]0;title" in nacre(cwd, "-p", "which port is the other port?").stdout
    for change in (["undo"], ["forget", "evil.md"]):
        assert not CONTROL.search(on_a_terminal(cwd, "memory", *change))
