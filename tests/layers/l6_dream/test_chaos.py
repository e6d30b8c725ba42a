"""Dreams that die at any step, and several at once: nothing is lost, nothing is done twice (D2, D6)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.layers.l6_dream.made import FILES

SCRIPT = Path(__file__).parent / "crashing.py"
ROOT = Path(__file__).parents[3]
FINAL = sorted(FILES.keys() - {"deploys_again.md"})
STEP = 7
"""Every so many touches of the disk one is killed; which ones differs by the file it begins at."""


def ran(base: Path, *arguments: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(base), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=600,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_wherever_a_dream_is_killed_nothing_is_lost_and_the_next_one_can_begin(tmp_path: Path) -> None:
    """D2, D6: memory is as before or as after; the lock is free, with its old time unless all was done."""
    seen = ran(tmp_path / "m", "1", str(STEP))
    assert len(seen) > 10
    assert not seen[-1]["killed"]
    for one in seen:
        assert one["held"] is False
        assert one["missing"] == []
        assert one["is_before"] is (one["dreams"] == 0), one
        assert one["dreams"] in (0, 1)
        assert one["time_is_old"] or one["dreams"] == 1, one
        assert one["status"] != "running"
        assert one["again"] == 0
        assert one["final"] == FINAL
        assert one["history_is_whole"], one
        assert one["dreams_in_all"] == 1, one
        assert one["left_over"] == []
        assert one["copies"] is False


@pytest.mark.slow
def test_of_many_that_begin_at_once_one_dreams(tmp_path: Path) -> None:
    """D2: the others find it held, or come later and find nothing to do."""
    (seen,) = ran(tmp_path / "m", "race", "5")
    assert seen["dreams"] == 1
    assert seen["files"] == FINAL
    endings = seen["endings"]
    assert isinstance(endings, list)
    assert endings.count(0) == 1
    assert set(endings) <= {0, 1, 2}
