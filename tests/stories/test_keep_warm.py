"""`nacre chat` keeps the cache warm while the person thinks; `nacre -p` never does (C8b)."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cli.program import nacre
from tests.stories.processes import MODEL, Sim, eventually, logs
from tests.stories.terminal import CTRL_D, PROMPT, terminal

SOON = {"NACRE_KEEP_WARM_MARGIN_SECONDS": "299"}
"""A refresh is due one second after the request."""
CHEAP = {"input": 2_000_000.0, "output": 1.0, "write_5m": 2_500_000.0, "write_1h": 4e6, "read": 1_000.0}
"""Reads cost next to nothing beside a write: worth it although hardly anybody is back in that very second."""
PAUSE = {"keepWarm": {"maxUsd": 1_000, "maxShare": 1}}


def prices(home: Path) -> None:
    home.mkdir(exist_ok=True)
    table = {"models": {MODEL: {"prices": [CHEAP]}}, **PAUSE}
    (home / "settings.json").write_text(json.dumps(table))


def refreshes(sim: Sim) -> int:
    return sum(request["body"]["max_tokens"] == 0 for request in sim.log())


@pytest.mark.slow
def test_while_the_person_thinks_the_cache_is_refreshed_and_the_next_turn_says_so(
    sim: Sim, tmp_path: Path
) -> None:
    """C8b: the loop runs while the terminal waits for a line; what it spent is told and written down."""
    prices(tmp_path / "home")
    sim.script("One.", "Two.")
    with terminal(tmp_path, "chat", **sim.environ(**SOON)) as person:
        person.see(PROMPT)
        person.type("hello " * 400 + "\n")
        person.see("One.")
        person.see(PROMPT)
        eventually(lambda: refreshes(sim) >= 1, "a refresh")
        person.type("and now?\n")
        assert "kept the cache warm " in person.see("Two.")
        person.see(PROMPT)
        person.type(CTRL_D)
        assert person.ends() == 0
    (log,) = logs(tmp_path)
    assert '"keep_warm"' in log.read_text()
    sent = refreshes(sim)
    time.sleep(2.5)  # one more would be due a second after the last request
    assert refreshes(sim) == sent, "no refresh after the program is left"


@pytest.mark.slow
def test_a_single_prompt_never_waits_for_anybody(sim: Sim, tmp_path: Path) -> None:
    """C8b: `-p` ends with its answer."""
    prices(tmp_path / "home")
    sim.script("One.")
    done = nacre(tmp_path, "-p", "hello " * 400, **sim.environ(**SOON))
    assert (done.returncode, done.stdout.strip()) == (0, "One.")
    assert (len(sim.log()), refreshes(sim)) == (1, 0)
