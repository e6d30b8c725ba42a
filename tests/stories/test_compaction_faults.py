"""Sessions on a bad day: whatever becomes of summaries, and whoever is killed, they go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.compaction.faults import FILES, killed, play, settings_in

MOVES = pytest.mark.moves_prefix(reason="full compaction")


def project(tmp_path: Path) -> tuple[Path, Path]:
    cwd = tmp_path / "project"
    cwd.mkdir()
    for n in range(FILES):
        (cwd / f"part_{n}.py").write_text(f"name_{n} = {n}\n" * 300, encoding="utf-8")
    return tmp_path / "home", cwd


@pytest.mark.slow
@MOVES
@pytest.mark.parametrize("seed", range(100, 108))
def test_a_session_goes_on_whatever_becomes_of_its_summaries(tmp_path: Path, seed: int) -> None:
    """C23c to C28: empty, refused, too long, hanging, cancelled: valid, replayed equal, resumed equal."""
    _, met = asyncio.run(play(settings_in(*project(tmp_path), seed), seed, 10))
    assert met["compactions"] > 0


@pytest.mark.slow
@MOVES
@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_session_goes_on_after_a_kill_while_a_compaction_is_written(tmp_path: Path, seed: int) -> None:
    """C21, T8: a boundary without its summary is none, and what is restored is in the same record."""
    assert killed(settings_in(*project(tmp_path), seed), seed, 30) == "killed"
