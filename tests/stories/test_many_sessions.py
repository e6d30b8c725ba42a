"""Many sessions in one process stay within the descriptors that a system gives a process."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from nacre import open_agent
from nacre.settings import load
from nacre.testing import ScriptedProvider

SESSIONS = 100
LIMIT = 256


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def held() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
@pytest.mark.parametrize(
    ("sessions", "projects", "most"),
    [
        (8, 1, 1),
        pytest.param(SESSIONS, 1, 1, marks=pytest.mark.slow),
        pytest.param(SESSIONS, SESSIONS, 2, marks=pytest.mark.slow),
    ],
)
async def test_a_hundred_sessions_run_a_turn_each_with_256_descriptors(
    tmp_path: Path, few_descriptors: None, sessions: int, projects: int, most: int
) -> None:
    """Each holds its lease; its process holds one marker for each project and one queue of file events."""
    environ = {"NACRE_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    before = held()
    async with AsyncExitStack() as stack:
        opened = []
        for number in range(sessions):
            folder = tmp_path / f"project-{number % projects}"
            folder.mkdir(exist_ok=True)
            settings = load(folder, environ)
            provider = ScriptedProvider([f"Answer {number}."])
            opened.append(await stack.enter_async_context(open_agent(settings, provider=provider)))
        assert held() - before <= most * sessions + 2
        turns = await asyncio.gather(*(each.agent.run("Hello") for each in opened))
        assert [turn.output for turn in turns] == [f"Answer {number}." for number in range(sessions)]
        assert held() - before <= most * sessions + 12
    logs = list((tmp_path / "home" / "projects").glob("*/*.jsonl"))
    assert len(logs) == sessions
    assert all(b"Answer " in path.read_bytes() for path in logs)
