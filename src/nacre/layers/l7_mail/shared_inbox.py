"""The inbox of a session in a database, to which processes on other machines write (A3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nacre.errors import MailError, StoreError
from nacre.layers.l7_mail.inbox import START, InboxPosition, UnreadLetters
from nacre.layers.l7_mail.letter import Letter, parse, written
from nacre.layers.l7_mail.policy import MAIL, MailSettings
from nacre.layers.l7_mail.wakeup import MemoryWakeup, Wakeup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nacre.store.postgres.letter_rows import LetterRows

GENERATION = "rows"
POLL_SECONDS = 2.0
"""How often a waiting receiver looks for letters of other processes."""


class SharedInbox:
    """The letters to one session of a user."""

    def __init__(self, rows: LetterRows, *, settings: MailSettings = MAIL) -> None:
        self._rows = rows
        self._settings = settings
        self._settled = START
        self._wakeups: set[MemoryWakeup] = set()

    def put(self, letter: Letter) -> None:
        """Add a letter; when this returns, it is committed."""
        line = written(letter)
        with _as_mail_error():
            self._rows.put(letter.id, line.decode())
        for wakeup in tuple(self._wakeups):
            wakeup.notify()

    def waiting(self, known: Container[str] = ()) -> UnreadLetters:
        """Return the letters that were not settled, up to the limit."""
        with _as_mail_error():
            rows = self._rows.waiting(self._settings.look_letters + 1)
        taken: list[Letter] = []
        chars = passed = 0
        position = self._settled
        for number, line in rows:
            letter = parse(line.encode())
            if letter.id not in known:
                chars += len(letter.text)
                if len(taken) == self._settings.look_letters or (taken and chars > self._settings.look_chars):
                    break
                taken.append(letter)
            passed += 1
            position = InboxPosition(GENERATION, number)
        return UnreadLetters(tuple(taken), position, has_more=passed < len(rows))

    def settle(self, position: InboxPosition) -> None:
        """Mark the letters up to a position as received."""
        if position.generation == GENERATION and position.offset > self._settled.offset:
            with _as_mail_error():
                if self._rows.settle(position.offset):
                    self._settled = position

    def wakeup(self) -> Wakeup:
        """Return a wakeup for letters of this process at once, and of others within seconds."""
        wakeup = _PolledWakeup(self._newest, on_close=self._wakeups.discard)
        self._wakeups.add(wakeup)
        return wakeup

    def _newest(self) -> int:
        with _as_mail_error():
            return self._rows.newest()


class _PolledWakeup(MemoryWakeup):
    def __init__(self, newest: Callable[[], int], *, on_close: Callable[[MemoryWakeup], None]) -> None:
        super().__init__(on_close=on_close)
        self._newest = newest
        self._seen = newest()

    async def wait(self, seconds: float | None = None) -> bool:
        left = seconds
        while not self.is_closed:
            step = POLL_SECONDS if left is None else min(left, POLL_SECONDS)
            await super().wait(step)
            before = self._seen
            self._seen = await asyncio.to_thread(self._newest)
            if self._seen != before:
                return True
            left = None if left is None else left - step
            if left is not None and left <= 0:
                return False
        return False


@contextmanager
def _as_mail_error() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise MailError(str(error)) from error
