"""What stands on disk of agents: whole at every moment, read with doubt, and true after a crash."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.agents.registry import (
    AgentRegistry,
    AgentState,
    IdleTimeout,
    meta_path,
    own_process,
    read_states,
    with_process_status,
    write_state,
)
from nacre.app.agents import UNFINISHED, recover
from nacre.errors import StoreError, ToolError

AT = datetime(2026, 1, 1, tzinfo=UTC)
ONE = AgentState(id="0a", name="one", type="general", started=AT)


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    full = replace(
        ONE, status="completed", result="Ünicode\nlines", tokens=7, cost_usd=0.125, background=True, told=1,
        pid=12, process_start="x", seconds=3.25, team="loom", branch="b", worktree="/w",
    )  # fmt: skip
    write_state(tmp_path, full)
    assert read_states(tmp_path) == [full]
    assert (meta_path(tmp_path, "0a").stat().st_mode & 0o777) == 0o600
    assert not list((tmp_path / "subagents").glob(".*"))


@given(st.binary(max_size=200))
def test_bad_files_are_nobody(data: bytes) -> None:
    folder = Path(os.environ["NACRE_HOME"]) / "bad"
    path = meta_path(folder, "bad")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    assert read_states(folder) == []


def test_what_is_no_agent_is_left_out(tmp_path: Path) -> None:
    write_state(tmp_path, ONE)
    folder = tmp_path / "subagents"
    said = json.loads(meta_path(tmp_path, "0a").read_text())
    for name, changes in {"x": {"status": "odd"}, "y": {"started": "never"}, "z": {"name": ""}}.items():
        meta_path(tmp_path, name).write_text(json.dumps({**said, **changes}))
    os.mkfifo(folder / "agent-pipe.meta.json")
    (folder / "agent-dir.meta.json").mkdir()
    (folder / "agent-0a.jsonl").write_text("{}")
    assert read_states(tmp_path) == [ONE]
    assert read_states(tmp_path / "nowhere") == []


def test_a_disk_that_refuses_is_told_and_stops_no_work(tmp_path: Path) -> None:
    (tmp_path / "subagents").write_text("a file in the way")
    with pytest.raises(StoreError, match="subagents"):
        write_state(tmp_path, ONE)
    registry = AgentRegistry(folder=tmp_path)
    assert registry.put(ONE) is registry.states["one"]


def test_from_outside_the_dead_are_not_at_work() -> None:
    pid, start = own_process()
    here = replace(ONE, pid=pid, process_start=start)
    assert with_process_status(here).status == "running"
    assert with_process_status(replace(here, process_start="another")).status == "stopped"
    assert with_process_status(replace(here, pid=0, status="completed")).status == "completed"


def test_who_was_at_work_in_a_dead_process_did_not_finish() -> None:
    """Resume: waited for or not, it is told once; who was idle or done stays as it was told."""
    registry = AgentRegistry()
    others = [
        replace(ONE, name="done", status="completed", background=True, told=1),
        replace(ONE, name="idle", status="idle", background=True, told=1, pattern="teammate"),
        replace(ONE, name="failed", status="failed", background=True),
    ]
    recover(registry, [ONE, *others])
    found = {name: (one.status, one.is_untold) for name, one in registry.states.items()}
    assert found == {
        "one": ("stopped", True), "done": ("completed", False),
        "idle": ("stopped", False), "failed": ("failed", True),
    }  # fmt: skip
    assert registry.states["one"].result == UNFINISHED


def test_names_are_made_up_and_never_given_twice() -> None:
    registry = AgentRegistry()
    registry.put(replace(ONE, name="general-1"))
    assert registry.named("", "general") == "general-2"
    assert registry.named("", "plugin:code review") == "plugin-code-review-1"
    assert registry.named("ada", "general") == "ada"
    for name in ("general-1", "main", "*", "a/b", "..", "", "x" * 65):
        if name:
            with pytest.raises(ToolError):
                registry.named(name, "general")


@pytest.mark.slow
async def test_silence_ends_the_pulse_and_whoever_works_below_keeps_it() -> None:
    above = IdleTimeout(0.3)
    below = IdleTimeout(10, above=above)
    async with asyncio.timeout(None) as limit:
        with above.watched(limit):
            for _ in range(5):
                await asyncio.sleep(0.1)
                below.beat()
            with below.held():
                await asyncio.sleep(0.5)
    assert not limit.expired()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            with above.watched(limit):
                await asyncio.sleep(5)
