"""How many files of nacre have a function that one action enters: what a reader opens to follow it.

Every action runs twice in one process; only the second is traced, so that imports and what they call do not
count. The agent has all its layers, real files and a scripted model.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import nacre
from bench.machine import bar
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.layers.l5_extract.layer import WORK
from nacre.memory.memory import Memory
from nacre.messages.blocks import Json, JsonObject
from nacre.session.compaction import CompactionRequest
from nacre.settings import Settings, load
from nacre.testing import ScriptedProvider, call, say

SOURCE = str(Path(nacre.__file__).parent)
MOST = {"turn": 60, "compaction": 35, "save": 16, "recall": 18, "extraction": 40}
"""The aims: files per action that a reader can follow."""
TOPIC = """---
name: Staging database
description: Staging runs PostgreSQL 17
type: project
---

The staging server runs PostgreSQL 17.
"""
Action = Callable[[Path], Awaitable[set[str]]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """There is one size."""


FULL = Sizes()
TINY = Sizes()


def measure(sizes: Sizes = FULL) -> JsonObject:
    found: dict[str, set[str]] = {}
    # Before any thread starts: one that is running already would not be traced.
    threading.setprofile(TRACER)
    sys.setprofile(TRACER)
    try:
        for name, action in ACTIONS.items():
            for _ in range(2):
                with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
                    found[name] = asyncio.run(action(Path(folder)))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # the stubs do not say that None ends it
    files: dict[str, Json] = {name: [*sorted(entered)] for name, entered in found.items()}
    return {
        "files": files,
        "bars": [bar(f"files entered by one {name}", len(found[name]), at_most=MOST[name]) for name in found],
    }


class _Tracer:
    """Collects the files of nacre with a function that is entered, in any thread."""

    def __init__(self) -> None:
        self._entered: set[str] | None = None

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if self._entered is None or event != "call" or code.co_name == "<module>":
            return
        if code.co_filename.startswith(SOURCE):
            self._entered.add(str(Path(code.co_filename).relative_to(SOURCE)))

    @contextmanager
    def collected(self) -> Iterator[set[str]]:
        self._entered = entered = set()
        try:
            yield entered
        finally:
            self._entered = None


TRACER = _Tracer()


@asynccontextmanager
async def _opened(folder: Path, *replies: str) -> AsyncIterator[OpenedAgent]:
    """An agent whose model calls in the background are off; they would be counted with the turn."""
    off = dict.fromkeys(("extract", "notes", "compact_prepare", "dream"), False)
    settings = _settings(folder)
    settings = replace(settings, switches=replace(settings.switches, **off))
    async with open_agent(settings, provider=ScriptedProvider([*map(say, replies)])) as ready:
        yield ready


async def _ask(ready: OpenedAgent, text: str) -> None:
    async for _ in ready.agent.stream(text):
        pass


def _settings(folder: Path) -> Settings:
    project = folder / "project"
    project.mkdir()
    environ = {"HOME": str(folder), "NACRE_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}
    environ["NACRE_PERMISSIONS_DEFAULT_MODE"] = "bypassPermissions"
    environ["NACRE_BACKGROUND_IDLE_SECONDS"] = "0"
    return replace(load(project, environ), is_interactive=True)


async def turn(folder: Path) -> set[str]:
    """One turn without tools, from the prompt to the last layer's work."""
    async with _opened(folder, "Hello.", "Hello again.") as ready:
        await _ask(ready, "hello")
        with TRACER.collected() as entered:
            await _ask(ready, "and again")
    return entered


async def compaction(folder: Path) -> set[str]:
    """A compaction by rule of a short session."""
    async with _opened(folder, *("A short answer. " * 400 for _ in range(8))) as ready:
        for number in range(8):
            await _ask(ready, f"Question {number}: {'what about the next part of the plan? ' * 40}")
        with TRACER.collected() as entered:
            await ready.compact.compact(CompactionRequest(by_rule=True, trigger="manual"))
    return entered


async def save(folder: Path) -> set[str]:
    memory = Memory(folder / "memory")
    await memory.save("The deploy password is rotated every Monday.")
    with TRACER.collected() as entered:
        await memory.save("The staging server runs PostgreSQL 17.")
    return entered


async def recall(folder: Path) -> set[str]:
    memory = Memory(folder / "memory")
    await memory.save("The staging server runs PostgreSQL 17.")
    await memory.recall("Which database does staging run?")
    with TRACER.collected() as entered:
        assert await memory.recall("Which database runs on the staging server?")
    return entered


async def extraction(folder: Path) -> set[str]:
    """One extraction by a model, from the end of a turn to the commit."""
    provider = ScriptedProvider()
    async with open_agent(_settings(folder), provider=provider) as ready:
        file = ready.memories[0].location.directory / "staging.md"
        # All before the turn: the extraction may begin before the turn's last event is handled.
        provider.script(say("Noted."), call("Write", file_path=str(file), content=TOPIC), say("Saved."))
        await _ask(ready, "Our staging server runs PostgreSQL 17.")
        with TRACER.collected() as entered:
            await ready.background.wait(WORK)
        assert file.exists()
    return entered


ACTIONS: dict[str, Action] = {
    "turn": turn,
    "compaction": compaction,
    "save": save,
    "recall": recall,
    "extraction": extraction,
}
