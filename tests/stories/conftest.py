"""One `nacre sim` for all stories that run the real program; each story brings its own script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import nacre.layers.l5_extract.layer  # noqa: F401 - imported only by sessions that extract
from nacre.errors import NacreError
from nacre.messages.records import Noted
from nacre.session.read_session import read_log
from nacre.session.restoration import FOREIGN_KINDS, carry_rules
from tests.stories.processes import Sim, end, pids, running_sim


@pytest.fixture(scope="session")
def one_sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    with running_sim(tmp_path_factory.mktemp("sim")) as sim:
        yield sim


@pytest.fixture
def sim(one_sim: Sim) -> Sim:
    one_sim.script()
    return one_sim


@pytest.fixture(autouse=True)
def only_declared_notes(tmp_path: Path) -> Iterator[None]:
    """Every kind of note in the logs of a story belongs to a layer or to the session (C21).

    Otherwise a compaction would carry it like an unknown one, whatever it is about.
    """
    yield
    logs = [path for path in tmp_path.rglob("*.jsonl") if path.parent.parent.name == "projects"]
    kinds: set[str] = set()
    for log in logs:
        with suppress(NacreError):  # some stories spoil a log on purpose
            back = read_log(log)
            kinds |= {one.kind for one in (back.records if back else ()) if isinstance(one, Noted)}
    ours = {kind for kind in kinds if not kind.startswith(FOREIGN_KINDS)}
    assert ours <= carry_rules().keys(), (
        "declare these kinds in the `log_kinds` of the layer that writes them"
    )


@pytest.fixture
def pid_file(tmp_path: Path) -> Iterator[Path]:
    """Where a command that never ends says who it is; whoever is left is ended after the test."""
    path = tmp_path / "pids"
    yield path
    end(pids(path))
