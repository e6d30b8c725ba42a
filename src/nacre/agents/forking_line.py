"""One goes ahead, the others follow: requests with the same beginning pay for it once (A1, C31b)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

WAIT_SECONDS = 10.0
"""How long the others wait for the first: a reply has begun by then, or the provider is not well."""


class Line:
    """Where requests that begin alike wait until the first of them is being answered."""

    def __init__(self, *, seconds: float = WAIT_SECONDS) -> None:
        self._ahead: dict[bytes, asyncio.Event] = {}
        self._seconds = seconds

    @asynccontextmanager
    async def stand(self, beginning: bytes) -> AsyncGenerator[asyncio.Event, None]:
        """Come in when it is one's turn; whoever is inside sets the event once an answer begins.

        Where the first ends without an answer, the next goes ahead in its place.
        """
        while (ahead := self._ahead.get(beginning)) is not None and not ahead.is_set():
            try:
                async with asyncio.timeout(self._seconds):
                    await ahead.wait()
            except TimeoutError:
                break
        began = asyncio.Event()
        if beginning not in self._ahead:
            under_way = {key: event for key, event in self._ahead.items() if not event.is_set()}
            self._ahead = {**under_way, beginning: began}
        try:
            yield began
        finally:
            if self._ahead.get(beginning) is began and not began.is_set():
                del self._ahead[beginning]
            began.set()
