"""Where an agent's letters wait: what a file on disk and a tray in memory have in common (A3, A5)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Container
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from nacre.errors import MailError
from nacre.layers.l7_mail.letter import Letter, checked
from nacre.layers.l7_mail.policy import MAIL, MailSettings


@dataclass(frozen=True, slots=True)
class Place:
    """Up to where an inbox was read; it holds for the same generation of the inbox only."""

    generation: str = ""
    offset: int = 0
    mark: str = ""
    """Stands for the bytes before it, so that a box that was cut and has grown again is not mistaken."""


NOWHERE = Place()
"""Before anything was read."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What was found behind the cursor."""

    letters: tuple[Letter, ...]
    """In order; those of one sender as they were sent."""
    place: Place
    """To `settle` once the letters stand in the receiver's transcript."""
    aside: int = 0
    """How many unreadable lines this look has set aside."""
    more: bool = False
    """There was more than is taken at once: settle and look again."""


class Bell(Protocol):
    """Rings when something may have come; one waits at it at a time."""

    async def rung(self, seconds: float | None = None) -> bool:
        """Wait until there may be something new; false when the time is over or the bell closed."""
        ...

    def close(self) -> None:
        """Take it down; a second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Inbox(Protocol):
    """One agent's letters. Take a bell, look, wait at the bell: then nothing that comes is missed."""

    def put(self, letter: Letter) -> None:
        """Add a letter; when this returns, it is as safe as the inbox can keep it, and the bell has rung."""
        ...

    def waiting(self, known: Container[str] = ()) -> Waiting:
        """What came since the cursor, without letters whose ids are known."""
        ...

    def settle(self, place: Place) -> None:
        """Move the cursor to a place that `waiting` gave, never backwards."""
        ...

    def bell(self) -> Bell:
        """A new bell at this inbox."""
        ...


GENERATION = "tray"


class Tray:
    """The inbox of one agent in this process; any thread may put something into it."""

    def __init__(self, *, settings: MailSettings = MAIL) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._letters: list[Letter] = []
        self._settled = 0
        """How many letters were received and are gone from the list."""
        self._bells: set[TrayBell] = set()

    def put(self, letter: Letter) -> None:
        """Add a letter and ring."""
        sound = checked(letter)
        with self._lock:
            self._letters.append(sound)
            bells = list(self._bells)
        for bell in bells:
            bell.ring()

    def waiting(self, known: Container[str] = ()) -> Waiting:
        """The letters that were not settled, as many as are taken at once."""
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
        place = Place(GENERATION, start + passed)
        return Waiting(tuple(taken.values()), place, more=passed < len(letters))

    def settle(self, place: Place) -> None:
        """Let go of what was received."""
        with self._lock:
            received = place.offset - self._settled
            if place.generation == GENERATION and 0 < received <= len(self._letters):
                del self._letters[:received]
                self._settled = place.offset

    def bell(self) -> Bell:
        """A bell that rings here until it is closed."""
        bell = TrayBell(self)
        with self._lock:
            self._bells.add(bell)
        return bell

    def take_down(self, bell: TrayBell) -> None:
        """Ring it no more."""
        with self._lock:
            self._bells.discard(bell)


class TrayBell:
    """A bell within the process; rung from any thread, heard in whatever loop waits."""

    def __init__(self, tray: Tray) -> None:
        self._tray = tray
        self._lock = threading.Lock()
        self._was_rung = False
        self._is_closed = False
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    async def rung(self, seconds: float | None = None) -> bool:
        """Wait for a ring."""
        event = asyncio.Event()
        with self._lock:
            if self._waiter is not None:
                raise MailError("somebody waits at this bell already; take another one from the inbox")
            self._waiter = (asyncio.get_running_loop(), event)
            if self._was_rung or self._is_closed:
                event.set()
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiter = None
                was_rung = self._was_rung
                self._was_rung = False
        return was_rung

    def ring(self) -> None:
        """Let whoever waits look."""
        with self._lock:
            self._was_rung = True
            self._wake()

    def close(self) -> None:
        """Ring no more, and let go whoever waits."""
        with self._lock:
            self._is_closed = True
            self._wake()
        self._tray.take_down(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wake(self) -> None:
        # Under the lock: who waits takes its loop away under the same, so the loop still runs.
        if self._waiter is not None:
            loop, event = self._waiter
            loop.call_soon_threadsafe(event.set)
