"""The app on a screen that nobody sees: a scripted provider, a clock that stands still, keys one by one."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from textual import events
from textual.pilot import Pilot

from nacre.app.chat_session import open_chat
from nacre.app.open_agent import OpenedAgent
from nacre.cli.chat.chat import slash_commands
from nacre.providers.base import Provider
from nacre.settings import Settings, load
from nacre.testing import FrozenClock
from nacre.tui.app import ChatApp
from nacre.tui.start import Start
from tests.stories.scenes import environment

MODEL = "claude-sonnet-5-5"
QUIET = {"NACRE_NOTES": "0", "NACRE_COMPACT_PREPARE": "0", "NACRE_EXTRACT": "0", "NACRE_DREAM": "0"}
SCREENS = Path(__file__).parent / "screens"
LOOKS = 400
"""So often it is looked whether something has come: pauses are short, and a slow machine has time."""


@dataclass
class Stage:
    """The app, and whoever sits before it."""

    app: ChatApp
    pilot: Pilot[int]

    @property
    def ready(self) -> OpenedAgent:
        assert self.app.talk.ready is not None
        return self.app.talk.ready

    async def paste(self, text: str) -> None:
        """Much faster than key by key, and as good where typing is not what it is about."""
        self.app.post_message(events.Paste(text))
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        keys = {" ": "space", "/": "slash", "\n": "ctrl+j", ".": "full_stop", "-": "minus", ",": "comma"}
        await self.pilot.press(*(keys.get(char, char) for char in text))

    async def say(self, text: str) -> None:
        """Type a line, send it, and wait until nothing is under way any more."""
        await self.paste(text)
        await self.pilot.press("enter")
        await self.pilot.pause()
        await self.until(lambda: self.app.is_idle, f"{text!r} is done")

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        for _ in range(LOOKS):
            await self.pilot.pause(0.01)
            assert self.app.crash is None, self.app.crash
            if is_so():
                await self.pilot.pause()
                return
        raise AssertionError(f"{what} never came; the screen:\n{self.text}")

    async def see(self, words: str) -> str:
        await self.until(lambda: words in self.text, repr(words))
        return self.text

    @property
    def text(self) -> str:
        """What stands on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    def matches(self, name: str) -> None:
        """Hold the screen against the one that was looked at; `UPDATE_SCREENS=1` keeps it as it is now."""
        path, now = SCREENS / f"{name}.txt", _steady(self.text) + "\n"
        if os.environ.get("UPDATE_SCREENS"):
            path.write_text(now, encoding="utf-8")
        assert now == path.read_text(encoding="utf-8")


def _steady(text: str) -> str:
    """How many tokens prompts and tools take and where the test runs is no matter of the screen."""
    lines = re.sub(r"(│ ◖◗ │  ).*", r"\1DIRECTORY", text).splitlines()
    return "\n".join([*lines[:-2], *(re.sub(r"\d+(\.\d+)?[kM]?", "0", line) for line in lines[-2:])])


def settings_in(tmp_path: Path, **environ: str) -> Settings:
    cwd = tmp_path / "work"
    cwd.mkdir(exist_ok=True)
    return load(
        cwd,
        {**environment(cwd), **QUIET, "NACRE_PERMISSIONS_DEFAULT_MODE": "default", **environ},
        cli={"model": MODEL},
    )


@asynccontextmanager
async def staged(
    tmp_path: Path,
    provider: Provider,
    *,
    size: tuple[int, int] = (80, 24),
    session: str = "new",
    theme: str = "ansi-dark",
    clock: FrozenClock | None = None,
    **environ: str,
) -> AsyncIterator[Stage]:
    """An app with a session open in it; let go at the end, however the test ended."""
    settings, clock = settings_in(tmp_path, **environ), clock or FrozenClock()
    opening = partial(open_chat, provider=provider, clock=clock)
    start = Start(
        settings=settings,
        session=session,
        slash=partial(slash_commands, settings),
        open_chat=opening,
        clock=clock,
    )
    app = ChatApp(start, settle_seconds=0.0)
    app.theme = theme
    try:
        async with app.run_test(size=size) as pilot:
            stage = Stage(app, pilot)
            await stage.until(lambda: app.is_idle and app.ready is not None, "the session is open")
            yield stage
    finally:
        await app.abandon()
