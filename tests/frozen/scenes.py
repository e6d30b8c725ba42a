"""A project and a home in which whole sessions run with the same bytes each time.

Paths have a fixed length, because token estimates depend on it; times, ids and the time zone are fixed, and
no answer depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import Any

import anyio
import pytest

from nacre import open_memory
from nacre.app import layers as joining
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.context import recall as recalling
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.messages.events import Event
from nacre.session.compaction import CompactionRequest
from nacre.settings import Settings, load
from nacre.testing import FrozenClock

MODEL = "claude-sonnet-5-5"
START = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""A Monday at noon: the same date in every time zone."""
SAFETY_SECONDS = 60.0
PATIENCE_SECONDS = 30.0
"""Instead of the milliseconds that recall has in a turn: what it finds must not depend on the machine."""
QUIET = {
    "NACRE_NOTES": "0",
    "NACRE_COMPACT_PREPARE": "0",
    "NACRE_EXTRACT": "0",
    "NACRE_DREAM": "0",
    "NACRE_RECALL": "0",
}
"""Nothing but the conversation sends requests, and no memory is attached."""


@dataclass(frozen=True)
class Scene:
    """Where one story takes place, and by which clock."""

    root: Path
    clock: FrozenClock = field(default_factory=lambda: FrozenClock(START))

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def home(self) -> Path:
        return self.root / "home"

    def write(self, name: str, text: str) -> Path:
        """A file of the project."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self._settle(path)
        return path

    def environ(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        return {
            "HOME": str(self.root),
            "NACRE_HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
            "NACRE_PERMISSIONS_DEFAULT_MODE": "bypassPermissions",
            "NACRE_BACKGROUND_IDLE_SECONDS": "0",
            **(given or {}),
        }

    def settings(
        self, given: Mapping[str, str] | None = None, *, model: str | None = MODEL, interactive: bool = False
    ) -> Settings:
        cli = {} if model is None else {"model": model}
        return replace(load(self.work, self.environ(given), cli=cli), is_interactive=interactive)

    @asynccontextmanager
    async def opened(self, settings: Settings, **given: Any) -> AsyncIterator[OpenedAgent]:
        """An agent with the real loop, session and layers; only the provider and the clock are not real."""
        given.setdefault("clock", self.clock)
        with anyio.fail_after(SAFETY_SECONDS):
            async with open_agent(settings, **given) as ready:
                yield ready

    def settle_times(self) -> None:
        """Give every file of the home the time of the clock: the model is told how old memories are."""
        for path in self.home.rglob("*"):
            if path.is_file() and not path.is_symlink():
                self._settle(path)

    def _settle(self, path: Path) -> None:
        at = self.clock.now().timestamp()
        os.utime(path, (at, at))

    async def said(self, ready: OpenedAgent, *texts: str, gate: anyio.Event | None = None) -> list[Event]:
        """One turn for each text; background work ends before the next one begins.

        A gate is opened once the turn is over: what it holds up must not end within it.
        """
        events: list[Event] = []
        for text in texts:
            events += [event async for event in ready.agent.stream(text)]
            if gate is not None:
                gate.set()
            await at_rest(ready)
            self.settle_times()
        return events

    def plain(self, text: str) -> str:
        """Text without what differs from run to run: the path of the scene and its slug."""
        return text.replace(str(self.root), "/ROOT").replace(slug(self.root), "-ROOT")


def slug(path: Path) -> str:
    """How a path is written in the name of a folder."""
    return "".join(one if one.isascii() and one.isalnum() else "-" for one in str(path))


async def at_rest(ready: OpenedAgent) -> None:
    """Come back when nothing runs in the background any more."""
    while running := ready.background.running():
        for name in running:
            await ready.background.wait(name)
        await asyncio.sleep(0)


async def compact(ready: OpenedAgent, *, by_rule: bool = False, focus: str = "") -> None:
    """As if a person had asked for it."""
    await ready.compact.compact(CompactionRequest(by_rule=by_rule, focus=focus))


async def write_plan(ready: OpenedAgent, text: str) -> None:
    await ready.plan.write(text)


async def remember(scene: Scene, text: str) -> None:
    """Save a memory of the project without a session."""
    memory = await open_memory(scene.settings(), clock=scene.clock)
    await memory.save(MemoryDraft(body=text), MemoryChange(author="user", reason="by hand"))
    scene.settle_times()


@contextmanager
def new_scene() -> Iterator[Scene]:
    """An empty project and an empty home, removed at the end."""
    root = Path(tempfile.mkdtemp(prefix="nacre-frozen-", dir="/tmp")).resolve()
    try:
        scene = Scene(root)
        for name in ("objects", "refs"):
            (scene.work / ".git" / name).mkdir(parents=True)
        (scene.work / ".git" / "HEAD").write_text("ref: refs/heads/trunk\n")
        scene.home.mkdir()
        yield scene
    finally:
        rmtree(root, ignore_errors=True)


@contextmanager
def steady() -> Iterator[None]:
    """UTC, and time limits that no machine reaches.

    Patched because the limits are wall time on purpose: in a session a late memory goes with a later message.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        patch.setattr(recalling, "LOCAL_CAP_SECONDS", PATIENCE_SECONDS)
        patch.setattr(recalling, "WARM_SECONDS", PATIENCE_SECONDS)
        patch.setattr(joining, "RECALL_DRIFT_SECONDS", PATIENCE_SECONDS)
        yield
    time.tzset()
