"""One `nacre sim` for all stories that run the real program; each story brings its own script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stories.processes import Sim, end, pids, running_sim


@pytest.fixture(scope="session")
def one_sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    with running_sim(tmp_path_factory.mktemp("sim")) as sim:
        yield sim


@pytest.fixture
def sim(one_sim: Sim) -> Sim:
    one_sim.script()
    return one_sim


@pytest.fixture
def pid_file(tmp_path: Path) -> Iterator[Path]:
    """Where a command that never ends says who it is; whoever is left is ended after the test."""
    path = tmp_path / "pids"
    yield path
    end(pids(path))
