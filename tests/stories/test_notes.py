"""Notes through the official SDK: a fork reads the parent's cache and writes what a compaction needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.devtools.sim import Simulator
from nacre.layers.l3_notes.layer import NOTES
from nacre.layers.l3_notes.template import TEMPLATE, sections
from nacre.session.compaction import CompactionRequest
from nacre.session.log_writer import SessionLogWriter
from tests.stories.scenes import BAR, CLAUDE, call, calls, project, say, talking_to

STATE = TEMPLATE.sections[1].description
FORMER = "The reading of four modules is finished."


def with_early_notes(folder: Path, **notes: int) -> Path:
    home = project(folder) / "home"
    home.mkdir(exist_ok=True)
    off = dict.fromkeys(("compact_prepare", "extract", "dream"), False)
    (home / "settings.json").write_text(json.dumps({"switches": off, "notes": notes}), encoding="utf-8")
    return folder


async def test_a_session_writes_its_notes_beside_the_work_and_a_compaction_stands_on_them(
    tmp_path: Path,
) -> None:
    """C14, C16, F4: the fork reads the parent's request from the cache; then no summary is asked for."""
    cwd = with_early_notes(tmp_path / "work", firstTokens=5_000)
    async with Simulator() as sim, talking_to(sim, CLAUDE, cwd, notes=True) as ready:
        writer = ready.agent.session.writer
        assert isinstance(writer, SessionLogWriter)
        notes = writer.folder / "session-memory" / "summary.md"
        edit = call("Edit", file_path=str(notes), old_string=STATE, new_string=f"{STATE}\n\n{FORMER}")
        sim.extend([calls(call("Read", file_path="README.md")), "Read."])
        await say(ready.agent, "read the readme")
        assert "read the readme" in notes.read_text(), "by rule, so far"
        sim.extend(["a word " * 3_000, calls(edit), "The notes are up to date."])
        await say(ready.agent, "tell me a story")
        await ready.background.wait("notes")
        parent, fork, _ = sim.log[-3:]
        assert fork.usage.cache_read >= BAR * parent.usage.prompt
        assert [one.body for one in sections(notes.read_text(), TEMPLATE) if one.body] == [FORMER]
        assert ready.background.failures("notes") == 0
        before = len(sim.log)
        done = await ready.compact.compact(CompactionRequest())
        assert len(sim.log) == before, "nobody was asked"
        assert done.kind == "notes"
        assert FORMER in str(done.record.summary)
        await ready.background.flush()
        assert ready.agent.session.view.last_noted(NOTES) is not None


@pytest.mark.parametrize(("role", "asked"), [("", 1), ("embedded", 0)])
async def test_whoever_plays_the_role_writes_the_notes(tmp_path: Path, role: str, asked: int) -> None:
    """P2, F7: with the embedded engine in that role rules write them, and the model is not asked."""
    cwd = with_early_notes(tmp_path / "work", firstTokens=5_000)
    home = cwd / "home" / "settings.json"
    given = json.loads(home.read_text(encoding="utf-8"))
    home.write_text(json.dumps(given | ({"roles": {"notes": role}} if role else {})), encoding="utf-8")
    async with Simulator() as sim, talking_to(sim, CLAUDE, cwd, notes=True) as ready:
        sim.extend(["a word " * 3_000, "Nothing to note."])
        await say(ready.agent, "tell me a story")
        await ready.background.wait("notes")
        assert len(sim.log) == 1 + asked
