"""Prefetches a summary in the background, so that a turn rarely waits for one (C28)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nacre.errors import SpendCapReached
from nacre.messages.draft import Draft
from nacre.messages.view import View
from nacre.session.background import SUMMARY, Background

NAME = SUMMARY
"""Name of the background task."""
BEHIND_SHARE = 0.5
"""Share of the view; with more than this added since, a prefetched summary frees too little."""


class SummaryPrefetch:
    """Holds one draft, made for the view at its start."""

    def __init__(
        self,
        background: Background,
        make: Callable[[View], Awaitable[Draft]],
        *,
        failed: Callable[[Exception], None],
    ) -> None:
        """`failed` is called with the error of a failed summary, to count it (C25)."""
        self._background = background
        self._make = make
        self._failed = failed
        self._ready: Draft | None = None
        self._done = asyncio.Event()

    @property
    def is_under_way(self) -> bool:
        return self._background.is_running(NAME)

    def is_ready(self, view: View) -> bool:
        """Return whether the draft can be used for this view: it covers most of it."""
        covers = self._ready.covers if self._ready is not None else None
        if not covers or not view.has_record(covers):
            return False
        place = max(n for n, item in enumerate(view.items) if item.record_id == covers)
        behind = sum(item.tokens for item in view.items[place + 1 :])
        return behind <= BEHIND_SHARE * view.estimate

    def begin(self, view: View) -> None:
        """Start a summary unless one is ready or running; an empty view needs none."""
        is_begun = self.is_under_way and not self._background.is_deferred(NAME)
        if self.is_ready(view) or is_begun or not view.items:
            return
        # A draft for a view that was compacted or rewound since is useless.
        self._ready = None
        self._done.clear()
        self._background.defer(NAME, lambda: self._prepare(view))

    def take(self, view: View) -> Draft | None:
        """Return the draft if it can be used for this view; only once."""
        is_ready = self.is_ready(view)
        ready = self._ready
        self._ready = None
        return ready if is_ready else None

    async def wait(self, seconds: float) -> None:
        """Wait until the summary is ready or has failed, or the time is over; one not begun is dropped."""
        if not self._background.drop(NAME) and self.is_under_way:
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
