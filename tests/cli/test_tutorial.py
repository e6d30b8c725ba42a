"""The tutorial, played: what a reader types up to the simulator works, and what it shows is what comes."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.pages import fences
from tests.cli.program import begin, world

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
TOLD = re.compile(r"(● |· |  └ Saved|undid .{10} )(.*)")
"""Lines that are the same for everybody: calls, what was recalled, saved and taken back."""


def blocks(number: int) -> list[list[str]]:
    """The lines of each console block of a section."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)[number]
    return [body.splitlines() for kind, _, body in fences(section) if kind == "console"]


def typed(lines: list[str]) -> str:
    return "\n".join(line[2:] for line in lines if line.startswith("> ")) + "\n"


def run(cwd: Path, arguments: list[str], given: str = "") -> str:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    command = [sys.executable, "-m", "nacre", *arguments]
    with begin(command, cwd, world(cwd), text=True, **pipes) as process:
        out, _ = process.communicate(given, timeout=60)
    assert process.returncode == 0, (arguments, out)
    return str(out)


def shown(lines: list[str]) -> list[str]:
    """What stands on the page and must come out."""
    return [found[2] for line in lines if (found := TOLD.fullmatch(line))]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "nacre"
    shutil.copytree(ROOT / "src" / "nacre" / "messages", folder / "src")
    shutil.copy(ROOT / "Makefile", folder)
    return folder


@pytest.mark.slow
def test_the_first_six_sections_of_the_tutorial_do_what_they_show(checkout: Path) -> None:
    first, more, refused = blocks(1)
    told, asked, commands = blocks(2)
    said = run(checkout, ["chat", "--line"], "".join(map(typed, (first, more, refused, told))))
    assert [line for line in shown([*first, *refused, *told]) if line not in said] == []
    said = run(checkout, ["chat", "--line"], typed(asked))
    today = re.compile(r"\d{4}-\d\d-\d\d")
    assert [line for line in shown(asked) if today.sub("", line) not in today.sub("", said)] == []
    rest = [line for number in range(3, 7) for block in blocks(number) for line in block]
    outs = [
        run(checkout, shlex.split(line.partition("nacre ")[2]), "list files" if " -p - " in line else "")
        for line in (one.replace("/tmp/", f"{checkout}/") for one in (*commands, *rest))
        if re.match(r"\$ .*nacre ", line)
    ]
    printed = "\n".join(outs)
    for line in (
        *shown(commands),
        "Kept out of the window: about ",
        "search for make_cli",
    ):
        assert line in printed
