"""Print a turn in line mode: streamed text, one line per tool call, one status line at the end."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nacre.app.session_text import call_line, result_line
from nacre.cli.output import has_colour, human_count, printable
from nacre.formatting import clean, shorten
from nacre.messages.events import (
    Event,
    Notice,
    StartedOver,
    TextDelta,
    ThinkingDelta,
    ToolCallEvent,
    ToolResultEvent,
    Waiting,
)
from nacre.session.session import Session

MIN_PASSING = 10
"""Minimum columns of a temporary line."""

_STYLES = {"dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1"}


def styled(text: str, style: str, *, colour: bool) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colour and text else text


class TurnPrinter:
    """Prints the events of one turn as they arrive."""

    def __init__(self) -> None:
        self._colour = has_colour()
        self._in_line = False
        self._thinking = False
        self._held: list[Event] | None = None
        self._freed = asyncio.Event()
        self._is_passing = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Reserve the screen for other output; events are shown afterwards."""
        self.end()
        self._freed.clear()
        is_first = self._held is None
        self._held = self._held or []
        try:
            yield
        finally:
            if is_first:
                waiting = self._held or []
                self._held = None
                for event in waiting:
                    self.show(event)
                self._freed.set()

    async def free(self) -> None:
        """Wait until the screen is free, then show the events that arrived meanwhile."""
        while self._held is not None:
            await self._freed.wait()

    def show(self, event: Event) -> None:
        if self._held is not None:
            self._held.append(event)
            return
        match event:
            case TextDelta(text):
                self._words(text, thinking=False)
            case ThinkingDelta(text):
                self._words(text, thinking=True)
            case ToolCallEvent(call):
                self._line(f"● {call_line(call)}", "cyan")
            case ToolResultEvent(_, result):
                self._line(f"  └ {result_line(result)}", "red" if result.is_error else "dim")
            case Waiting(seconds, reason):
                self._line(f"… {reason}; trying again in {seconds:.0f} s", "yellow")
            case StartedOver(reason):
                self._line(f"… starting over: {reason}", "yellow")
            case Notice(text, level):
                self._line(f"! {text}", "yellow") if level == "warning" else self._line(f"· {text}", "dim")
            case _:
                pass

    def passing(self, line: str) -> None:
        """Show a line that the next output replaces; only on a terminal and at the start of a line."""
        if self._held is not None or self._in_line or not self._colour:
            return
        width = max(MIN_PASSING, shutil.get_terminal_size().columns - 1)
        shown = styled(shorten(printable(line), width), "dim", colour=True)
        sys.stdout.write(f"\r{shown}\x1b[K")
        sys.stdout.flush()
        self._is_passing = bool(line)

    def end(self) -> None:
        """Finish the current line."""
        self._wipe()
        if self._in_line:
            print(flush=True)
        self._in_line = self._thinking = False

    def _wipe(self) -> None:
        if self._is_passing:
            self._is_passing = False
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()

    def _words(self, text: str, *, thinking: bool) -> None:
        self._wipe()
        if thinking != self._thinking:
            self.end()
        self._thinking = thinking
        shown = clean(text)
        sys.stdout.write(styled(shown, "dim", colour=self._colour) if thinking else shown)
        sys.stdout.flush()
        self._in_line = not text.endswith("\n")

    def _line(self, text: str, style: str) -> None:
        self.end()
        print(styled(printable(text), style, colour=self._colour), flush=True)


def status_line(session: Session, working: Sequence[str] = (), agents: Sequence[str] = ()) -> str:
    """Return context usage, cache hit rate, cost, background work and agents in one line."""
    limits = session.thresholds
    meter = session.meter
    used = session.tokens
    price = f"{meter.about}${meter.cost_usd:.4f}" + ("+" if meter.unpriced else "")
    price += f" (${meter.refresh_usd:.4f} to keep warm)" if meter.refreshes else ""
    warning = "  — close to the window's end" if used >= limits.warning else ""
    pill = "".join(f" · {name}…" for name in working)
    pill += "".join(f" · {printable(each)}…" for each in agents)
    return (
        f"context {human_count(used)}/{human_count(limits.window)} ({used / limits.window:.0%})"
        f" · cache {meter.usage.hit_rate:.0%} · {price} · session {session.id[:8]}{pill}{warning}"
    )
