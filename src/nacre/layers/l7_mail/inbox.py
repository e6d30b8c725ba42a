"""The inbox of an agent: the interface of mailboxes on disk and in memory, and the one in memory (A3, A5)."""

from __future__ import annotations

import threading
from collections.abc import Container
from dataclasses import dataclass
from typing import Protocol

from nacre.layers.l7_mail.letter import Letter, checked
from nacre.layers.l7_mail.policy import MAIL, MailSettings
from nacre.layers.l7_mail.wakeup import MemoryWakeup, Wakeup


@dataclass(frozen=True, slots=True)
class InboxPosition:
    """A position up to which an inbox was read; valid for one generation of the inbox."""

    generation: str = ""
    offset: int = 0
    mark: str = ""
    """A hash of the bytes before it, so that a mailbox that was truncated and has grown is recognised."""


START = InboxPosition()
"""The position before anything was read."""


@dataclass(frozen=True, slots=True)
class UnreadLetters:
    """The letters after the cursor."""

    letters: tuple[Letter, ...]
    """In order; those of one sender as they were sent."""
    position: InboxPosition
    """The position to `settle` once the letters are in the receiver's transcript."""
    unreadable: int = 0
    """The number of unreadable lines that were set aside."""
    has_more: bool = False
    """There are more than are returned at once: settle and read again."""


class Inbox(Protocol):
    """The letters of one agent. Take a wakeup, read, then wait for the wakeup: so no letter is missed."""

    def put(self, letter: Letter) -> None:
        """Add a letter and notify all wakeups; when this returns, it is stored."""
        ...

    def waiting(self, known: Container[str] = ()) -> UnreadLetters:
        """Return the letters after the cursor, without those whose ids are known."""
        ...

    def settle(self, position: InboxPosition) -> None:
        """Move the cursor to a position that `waiting` returned, never backwards."""
        ...

    def wakeup(self) -> Wakeup:
        """Return a new wakeup for this inbox."""
        ...


GENERATION = "tray"


class MemoryInbox:
    """The inbox of an agent in this process; safe to use from any thread."""

    def __init__(self, *, settings: MailSettings = MAIL) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._letters: list[Letter] = []
        self._settled = 0
        """The number of letters that were received and removed from the list."""
        self._wakeups: set[MemoryWakeup] = set()

    def put(self, letter: Letter) -> None:
        """Add a letter and notify all wakeups."""
        valid = checked(letter)
        with self._lock:
            self._letters.append(valid)
            wakeups = list(self._wakeups)
        for wakeup in wakeups:
            wakeup.notify()

    def waiting(self, known: Container[str] = ()) -> UnreadLetters:
        """Return the letters that were not settled, up to the limit."""
        with self._lock:
            letters = tuple(self._letters)
            start = self._settled
        taken: dict[str, Letter] = {}
        chars = passed = 0
        for letter in letters:
            if letter.id not in known and letter.id not in taken:
                chars += len(letter.text)
                is_full = len(taken) == self._settings.look_letters or chars > self._settings.look_chars
                if taken and is_full:
                    break
                taken[letter.id] = letter
            passed += 1
        position = InboxPosition(GENERATION, start + passed)
        return UnreadLetters(tuple(taken.values()), position, has_more=passed < len(letters))

    def settle(self, position: InboxPosition) -> None:
        """Remove the letters before a position."""
        with self._lock:
            received = position.offset - self._settled
            if position.generation == GENERATION and 0 < received <= len(self._letters):
                del self._letters[:received]
                self._settled = position.offset

    def wakeup(self) -> Wakeup:
        """Return a wakeup that is notified of each letter until it is closed."""
        wakeup = MemoryWakeup(on_close=self._remove)
        with self._lock:
            self._wakeups.add(wakeup)
        return wakeup

    def _remove(self, wakeup: MemoryWakeup) -> None:
        with self._lock:
            self._wakeups.discard(wakeup)
