"""One `nacre sim` for all stories that run the real program; each story brings its own script."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stories.processes import Sim, running_sim


@pytest.fixture(scope="session")
def one_sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    with running_sim(tmp_path_factory.mktemp("sim")) as sim:
        yield sim


@pytest.fixture
def sim(one_sim: Sim) -> Sim:
    one_sim.script()
    return one_sim
