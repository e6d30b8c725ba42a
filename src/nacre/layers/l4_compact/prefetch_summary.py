"""A summary made ahead in the background, so that no turn waits for one that could have been ready (C28)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nacre.errors import SpendCapReached
from nacre.messages.draft import Draft
from nacre.messages.view import View
from nacre.session.background import Background

NAME = "compact"
"""Under which the work is known to whoever looks after it."""
BEHIND_SHARE = 0.5
"""Of the view: where more than this was said since, a summary of the rest makes too little room."""


class SummaryPrefetch:
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

    def is_ready(self, view: View) -> bool:
        """Whether there is one that can stand for this view: what it covers is there, and most is covered."""
        covers = self._ready.covers if self._ready is not None else None
        if not covers or not view.has_record(covers):
            return False
        place = max(n for n, item in enumerate(view.items) if item.record_id == covers)
        behind = sum(item.tokens for item in view.items[place + 1 :])
        return behind <= BEHIND_SHARE * view.estimate

    def begin(self, view: View) -> None:
        """Start, unless one is ready or being made; an empty view has nothing to sum up."""
        if self.is_ready(view) or self.is_under_way or not view.items:
            return
        # One for a view that was compacted or taken back meanwhile is of no use any more.
        self._ready = None
        self._done.clear()
        self._background.start(NAME, self._prepare(view))

    def take(self, view: View) -> Draft | None:
        """The draft, if it can stand for this view; it is given once."""
        is_ready = self.is_ready(view)
        ready = self._ready
        self._ready = None
        return ready if is_ready else None

    async def wait(self, seconds: float) -> None:
        """Until it is there, has failed, or the time is over."""
        if self.is_under_way:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._done.wait()

    async def _prepare(self, view: View) -> None:
        try:
            self._ready = await self._make(view)
        except SpendCapReached:
            raise  # nothing was tried, so that nothing failed
        except Exception as error:
            self._failed(error)
            raise
        finally:
            self._done.set()
