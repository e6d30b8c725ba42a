"""Tells the person in a chat of the agents beside the conversation, without being in the way of typing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from nacre.agents.registry import AgentState
from nacre.app.session_text import ended_line, waiting_line
from nacre.cli.chat.render import TurnPrinter
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.messages.events import Notice

TICK_SECONDS = 1.0
"""Between two looks at the clock of whoever is waited for."""


class Beside:
    """Hears of every change of an agent, in the thread where the session runs."""

    def __init__(
        self,
        states: Callable[[], Sequence[AgentState]],
        above: Callable[[str], bool],
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`above` shows a line over the one that is being typed, and says whether it could."""
        self.printer: TurnPrinter | None = None
        """Of the turn that is under way; none while the person has the word."""
        self._states = states
        self._above = above
        self._clock = clock
        self._running: set[str] = set()
        self._untold: list[str] = []

    def changed(self, state: AgentState) -> None:
        """A line that goes away while somebody is waited for; one that stays when another one ended."""
        if state.is_running:
            self._running.add(state.name)
        elif state.name in self._running:
            self._running.discard(state.name)
            if state.background:
                self._tell(ended_line(state))
        self._pass_on(self.printer)

    @asynccontextmanager
    async def shown(self, printer: TurnPrinter) -> AsyncIterator[None]:
        """While a turn is under way: its printer shows what happens, and how long it waits for whom."""
        self.printer = printer
        ticking = asyncio.create_task(self._tick(printer), name="whom a turn waits for")
        try:
            yield
        finally:
            self.printer = None
            ticking.cancel()
            await asyncio.wait({ticking})

    def untold(self) -> list[str]:
        """What came while it could not be shown."""
        lines = self._untold
        self._untold = []
        return lines

    async def _tick(self, printer: TurnPrinter) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if any(each.is_running and not each.background for each in self._states()):
                self._pass_on(printer)

    def _pass_on(self, printer: TurnPrinter | None) -> None:
        if printer is not None:
            printer.passing(waiting_line(self._states(), self._clock.now()))

    def _tell(self, line: str) -> None:
        if self.printer is not None:
            self.printer.show(Notice(line))
        elif not self._above(f"· {line}"):
            self._untold.append(line)
