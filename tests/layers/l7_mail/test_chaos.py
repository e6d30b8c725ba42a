"""Mail while everything goes wrong at once; the whole size is a benchmark (A5)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.mail_chaos import together
from tests.scale import scaled

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.soak
def test_letters_among_processes_that_are_killed_arrive_once_and_in_order(tmp_path: Path) -> None:
    """A5: kill -9 of senders and receivers, torn writes, a full disk, corrupted boxes and cursors."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.mail_chaos", str(tmp_path), str(scaled(1_600)), str(os.getpid())],
        cwd=ROOT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert (found["lost"], found["twice"], found["out_of_order"]) == (0, 0, 0), found
    assert found["acknowledged"] >= scaled(1_600)
    assert found["delivered"] == found["acknowledged"] + found["delivered_unacknowledged"]
    # What was to go wrong did.
    assert min(found["kills"], found["killed_in_mid_write"], found["refused_by_a_full_disk"]) > 0, found
    assert found["set_aside"] > 0


@pytest.mark.slow
async def test_twenty_agents_of_one_process_lose_nothing(tmp_path: Path) -> None:
    """A5."""
    found = await together(tmp_path, 20, 600)
    assert (found["lost"], found["twice"], found["out_of_order"]) == (0, 0, 0)
    assert found["acknowledged"] == 600
