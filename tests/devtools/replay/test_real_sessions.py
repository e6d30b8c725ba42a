"""Real recorded sessions, where they lie beside the repository: all is valid, ours announces everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.devtools.replay.policies import CLAUDE_CODE, NACRE, NONE, TRUNCATE
from nacre.devtools.replay.recorded import read_recorded
from nacre.devtools.replay.run import ReplayTerms, replay, totals
from nacre.inspect.sources import files_in

DATA = Path(__file__).parents[4] / "shared" / "data"
TERMS = ReplayTerms(model="claude-opus-5-5")
SESSIONS = 2
"""Enough to meet clears and compactions, few enough for every run of the tests."""

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no folder shared/data beside the repository")


@pytest.mark.slow
def test_real_sessions_stay_valid_and_announced_under_every_policy() -> None:
    """C12b, C32, P7."""
    files = sorted(
        (DATA / "claude_code_sessions" / "sessions").glob("*.gz"), key=lambda path: -path.stat().st_size
    )
    sessions = [one for path in files[:SESSIONS] for one in read_recorded(path)]
    sums = totals(replay(sessions, [NONE, TRUNCATE, CLAUDE_CODE, NACRE], TERMS))
    for name, tally in sums.items():
        assert tally.invalid == tally.unannounced == 0, name
        assert tally.overflow == 0 or name == "none"
    none, ours = sums["none"], sums["nacre"]
    assert none.used.pairs_kept == none.used.pairs > 0
    assert none.used.edits_kept == none.used.edits > 0
    assert none.overflow > 0
    assert ours.cost_usd < none.cost_usd
    assert ours.used.pairs_kept > 0.9 * ours.used.pairs


@pytest.mark.parametrize("folder", ["swe_agent_trajs", "openhands_style_trajs", "claude_code_sessions/raw"])
def test_recordings_of_other_programs_can_be_replayed(folder: str) -> None:
    """T7: every form that can be imported."""
    files = files_in(DATA / folder)
    assert files
    for path in files[:3]:
        sums = totals(replay(read_recorded(path)[:1], [NONE, NACRE], TERMS))
        assert sums["none"].requests > 0
        assert sums["nacre"].invalid == sums["nacre"].unannounced == 0
