"""The commands on the page about moving here are run as they stand, and say what the page says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.store.home import slug
from tests.architecture.pages import fences

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "migrate.md"
DEPLOYS = "---\nname: deploys\ndescription: when deploys go out\n---\n\nDeploys go out on Tuesdays.\n"
FACT = {"id": "m-1", "memory": "Likes hiking in the Alps.", "user_id": "me", "metadata": {"type": "user"}}
SAID = {
    "type": "user",
    "uuid": "11111111-1111-4111-8111-111111111111",
    "parentUuid": None,
    "sessionId": "22222222-2222-4222-8222-222222222222",
    "timestamp": "2026-11-01T10:00:00.000Z",
    "message": {"role": "user", "content": "hello"},
}


@pytest.mark.slow
def test_the_commands_on_the_page_do_what_it_says(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = [line for kind, _, body in fences(text) if kind == "console" for line in body.splitlines()]
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    done = subprocess.run(
        ["sh", "-ec", "\n".join(commands)],
        env=_surroundings(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = iter(done.stdout.splitlines())
    for line in (line for line in lines if not line.startswith("$ ")):
        assert any(each.startswith(line) for each in told), f"{line!r} was not said:\n{done.stdout}"


def _surroundings(home: Path) -> dict[str, str]:
    project = home / "app"
    project.mkdir()
    (project / "mem0-export.json").write_text(json.dumps([FACT]), encoding="utf-8")
    kept = home / ".claude" / "projects" / slug(str(project))
    (kept / "memory").mkdir(parents=True)
    (kept / "memory" / "MEMORY.md").write_text("- [deploys](deploys.md) — when deploys go out\n")
    (kept / "memory" / "deploys.md").write_text(DEPLOYS, encoding="utf-8")
    log = kept / f"{SAID['sessionId']}.jsonl"
    log.write_text(json.dumps({**SAID, "cwd": str(project)}) + "\n", encoding="utf-8")
    programs = home / "bin"
    programs.mkdir()
    (programs / "nacre").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nacre "$@"\n', encoding="utf-8")
    (programs / "nacre").chmod(0o755)
    return {"HOME": str(home), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
