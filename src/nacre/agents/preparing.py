"""A summary made ahead in the background, so that no turn waits for one that could have been ready (C28)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nacre.agents.background import Background
from nacre.messages.summary import Draft
from nacre.messages.view import View

NAME = "compact"
"""Under which the work is known to whoever looks after it."""


class Preparation:
    """One draft at a time, for the view as it was when it was begun."""

    def __init__(
        self,
        background: Background,
        make: Callable[[View], Awaitable[Draft]],
        *,
        failed: Callable[[Exception], None],
    ) -> None:
        """`failed` is told why one came to nothing, so that somebody counts (C25)."""
        self._background = background
        self._make = make
        self._failed = failed
        self._ready: Draft | None = None
        self._done = asyncio.Event()

    @property
    def is_under_way(self) -> bool:
        return self._background.is_running(NAME)

    @property
    def is_ready(self) -> bool:
        return self._ready is not None

    def begin(self, view: View) -> None:
        """Start, unless one is ready or being made; an empty view has nothing to sum up."""
        if self._ready is not None or self.is_under_way or not view.items:
            return
        self._done.clear()
        self._background.start(NAME, self._prepare(view))

    def take(self, view: View) -> Draft | None:
        """The draft, if what it covers still stands in the view; it is given once."""
        ready, self._ready = self._ready, None
        return ready if ready is not None and ready.covers and view.has_record(ready.covers) else None

    async def wait(self, seconds: float) -> None:
        """Until it is there, has failed, or the time is over."""
        if self.is_under_way:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._done.wait()

    async def _prepare(self, view: View) -> None:
        try:
            self._ready = await self._make(view)
        except Exception as error:
            self._failed(error)
            raise
        finally:
            self._done.set()
