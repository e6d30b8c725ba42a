"""Sessions of our own are replayed with what the tools answered, not with what we made of it."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from nacre.app.open_agent import open_agent
from nacre.devtools.replay.policies import NACRE, NONE
from nacre.devtools.replay.recorded import read_recorded
from nacre.devtools.replay.run import ReplayTerms, replay, totals
from nacre.devtools.replay.schema import Recorded
from nacre.messages.blocks import ToolResult
from nacre.settings import load
from nacre.testing import ScriptedProvider, call

LONG = {"command": "seq 1 5000"}
NUMBERS = "".join(f"{n}\n" for n in range(1, 5_001)).rstrip()


async def kept_session(folder: Path) -> Path:
    """A log of a session that offloaded, referred to and shortened results."""
    (folder / "work").mkdir()
    page = folder / "work" / "a.py"
    page.write_text("".join(f"line {n} of the file, unlike the others\n" for n in range(300)))
    environ = {
        "HOME": str(folder),
        "NACRE_HOME": str(folder / "home"),
        "PATH": os.environ["PATH"],
        "NACRE_NOTES": "false",
    }
    settings = load(folder / "work", environ, cli={"model": "claude-opus-5-5"})
    reads = call("Read", file_path=str(page))
    twice = [call("Bash", command=f"seq {first}300") for first in ("", "1 ")]
    provider = ScriptedProvider([call("Bash", **LONG), *twice, reads, "done", reads, "done"])
    async with open_agent(settings, provider=provider) as ready:
        for text in ("go", "again"):
            async for _ in ready.agent.stream(text):
                pass
            page.write_text(page.read_text().replace("line 7 ", "line seven "))
    return next((folder / "home" / "projects").glob("*/*.jsonl"))


def results(session: Recorded) -> list[str]:
    said = (said for step in session.steps for said in step.heard)
    return [block.text for one in said for block in one.blocks if isinstance(block, ToolResult)]


def test_results_come_back_whole_from_their_files_and_from_earlier_ones(tmp_path: Path) -> None:
    """C4, C7: otherwise nothing at all would look as cheap as nacre did."""
    (session,) = read_recorded(asyncio.run(kept_session(tmp_path)))
    long, first, second, page, again = results(session)
    assert long.rstrip() == NUMBERS
    assert first == second
    assert page in again and "line seven " in again
    assert session.lost_results == 0
    sums = totals(replay([session], [NONE, NACRE], ReplayTerms(model="claude-opus-5-5")))
    assert sums["none"].peak_tokens > sums["nacre"].peak_tokens + 5_000


def test_a_home_that_was_moved_brings_its_results_along(tmp_path: Path) -> None:
    log = asyncio.run(kept_session(tmp_path))
    moved = shutil.move(tmp_path / "home", tmp_path / "elsewhere")
    (session,) = read_recorded(Path(moved) / log.relative_to(tmp_path / "home"))
    assert results(session)[0].rstrip() == NUMBERS


def test_results_whose_files_are_gone_are_counted(tmp_path: Path) -> None:
    log = asyncio.run(kept_session(tmp_path))
    shutil.rmtree(log.with_suffix("") / "tool-results")
    (session,) = read_recorded(log)
    assert session.lost_results == 1
    assert results(session)[0].startswith("<persisted-output>")
