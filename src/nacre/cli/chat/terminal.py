"""The terminal in line mode: input with history, and a turn printed as it arrives."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self

from nacre.app.call_text import call_line, result_line
from nacre.cli.output import has_colour, human_count, is_terminal, printable
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
from nacre.store.input_history import FILE, GOES_ON, MAX_LINES


class InputHistory:
    """Reads lines; stores them in `<home>/chat_history` unless the session is ephemeral."""

    def __init__(self, home: Path, *, keeps: bool) -> None:
        self._path = home / FILE
        self._keeps = keeps
        self._readline = _readline()
        self._prompt: str | None = None
        """The prompt string."""
        self._typed_next = ""
        """Text that the next input line starts with."""

    def __enter__(self) -> Self:
        if self._readline and self._keeps:
            with contextlib.suppress(OSError):
                self._readline.read_history_file(self._path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not (self._readline and self._keeps):
            return
        # A history that cannot be written must not end the session with an error.
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._readline.set_history_length(MAX_LINES)
            self._readline.write_history_file(self._path)
            self._path.chmod(0o600)

    def ask(self, prompt: str) -> str:
        """Read one line; a backslash at its end continues it."""
        line = self._typed(prompt)
        while line.endswith(GOES_ON):
            line = line[:-1] + "\n" + self._typed("… " if prompt else "")
        return line

    def type_next(self, text: str) -> None:
        """Let the next input line start with this text; an input line holds only the first line of it."""
        self._typed_next = printable(text.partition("\n")[0])

    def above(self, line: str) -> bool:
        """Show a line above the input line; returns False if there is no input line or the terminal cannot.

        Called from another thread than the one that reads the input.
        """
        prompt = self._prompt
        if prompt is None or self._readline is None or not has_colour():
            return False
        typed = prompt + self._readline.get_line_buffer()
        if len(typed) >= shutil.get_terminal_size().columns:
            return False  # it stands on several rows, of which only the last could be taken away
        sys.stdout.write(f"\r\x1b[K{line}\n{typed}")
        sys.stdout.flush()
        return True

    def _typed(self, prompt: str) -> str:
        self._prompt = prompt
        typed = self._typed_next
        self._typed_next = ""
        if self._readline is not None and typed:
            self._readline.set_startup_hook(partial(self._readline.insert_text, typed))
        try:
            return input(prompt)
        finally:
            self._prompt = None
            if self._readline is not None and typed:
                self._readline.set_startup_hook()

    def answer(self, prompt: str) -> str:
        """Read the answer to a question; ignores what was typed before it and is not stored."""
        _drop_typed_ahead()
        if self._readline is None:
            return input(prompt)
        self._readline.set_auto_history(False)
        try:
            return input(prompt)
        finally:
            self._readline.set_auto_history(True)


def _drop_typed_ahead() -> None:
    """Discard what was typed ahead: it was meant for the next message and must not answer a question."""
    try:
        import termios
    except ImportError:
        return
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    return readline


PASSING_SECONDS = 3
"""Silence after which a temporary line counts the seconds."""
FIRST_LINE_SECONDS = 10.0
"""Silence before the first line on a terminal that cannot replace one; the pauses between lines double."""
MIN_PASSING = 10
"""Minimum columns of a temporary line."""

_STYLES = {"dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1"}


def styled(text: str, style: str, *, colour: bool) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colour and text else text


SIGNS = {"call": "●", "result": "└", "wait": "…", "warning": "!", "notice": "·"}
SPOKEN = {"call": "Tool:", "result": "Result:", "wait": "Wait:", "warning": "Warning:", "notice": "Notice:"}
"""The same for screen readers."""


class TurnPrinter:
    """Prints the events of one turn as they arrive."""

    def __init__(self, *, in_words: bool = False) -> None:
        """`in_words` is for screen readers: words instead of signs."""
        self._signs = SPOKEN if in_words else SIGNS
        self._in_words = in_words
        self._is_answering = False
        """Whether words of the reply were announced since the last other line."""
        self._colour = has_colour()
        self._in_line = False
        self._thinking = False
        self._held: list[Event] | None = None
        self._freed = asyncio.Event()
        self._is_passing = False
        self._silent_since = time.monotonic()
        self._next_line = FIRST_LINE_SECONDS

    def start(self) -> None:
        """Begin to count the seconds without output."""
        self._silent_since = time.monotonic()
        self._next_line = FIRST_LINE_SECONDS

    def tick(self) -> None:
        """Show how long nothing has come: in a temporary line, or on a dumb terminal in a few lines."""
        seconds = time.monotonic() - self._silent_since
        if self._held is not None or self._in_line or not is_terminal():
            return
        if self._colour:
            self.passing(f"working {seconds:.0f} s" if seconds >= PASSING_SECONDS else "")
        elif seconds >= self._next_line:
            self._next_line *= 2
            print(f"{self._signs['wait']} working {seconds:.0f} s", flush=True)

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
        self.start()
        match event:
            case TextDelta(text):
                self._words(text, thinking=False)
            case ThinkingDelta(text):
                self._words(text, thinking=True)
            case ToolCallEvent(call):
                self._line(f"{self._signs['call']} {call_line(call)}", "cyan")
            case ToolResultEvent(call, result):
                first, *others = result_line(result, call.name).split("\n")
                for line in (f"  {self._signs['result']} {first}", *(f"    {each}" for each in others)):
                    self._line(line, "red" if result.is_error else "dim")
            case Waiting(seconds, reason):
                self._line(f"{self._signs['wait']} {reason}; trying again in {seconds:.0f} s", "yellow")
            case StartedOver(reason):
                self._line(f"{self._signs['wait']} starting over: {reason}", "yellow")
            case Notice(text, level):
                style = "yellow" if level == "warning" else "dim"
                self._line(f"{self._signs['warning' if level == 'warning' else 'notice']} {text}", style)
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
        self._in_line = self._thinking = self._is_answering = False

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
        if self._in_words and not self._is_answering:
            sys.stdout.write("Thinking: " if thinking else "Answer: ")
        self._is_answering = True
        shown = clean(text)
        sys.stdout.write(styled(shown, "dim", colour=self._colour) if thinking else shown)
        sys.stdout.flush()
        self._in_line = not text.endswith("\n")

    def _line(self, text: str, style: str) -> None:
        self.end()
        print(styled(printable(text), style, colour=self._colour), flush=True)


def turn_line(session: Session, working: Sequence[str] = (), agents: Sequence[str] = ()) -> str:
    """Return the end of a turn in a sentence, for screen readers."""
    share = session.tokens / session.thresholds.window
    beside = [*working, *agents]
    at_work = f" In the background: {', '.join(map(printable, beside))}." if beside else ""
    return f"Turn ended. Context {share:.0%} full, cost so far {session.meter.price()}.{at_work}"


def status_line(session: Session, working: Sequence[str] = (), agents: Sequence[str] = ()) -> str:
    """Return context usage, cache hit rate, cost, background work and agents in one line."""
    limits = session.thresholds
    meter = session.meter
    used = session.tokens
    price = meter.price()
    price += f" (${meter.refresh_usd:.4f} to keep warm)" if meter.refreshes else ""
    warning = "  — close to the window's end" if used >= limits.warning else ""
    pill = "".join(f" · {name}…" for name in working)
    pill += "".join(f" · {printable(each)}…" for each in agents)
    return (
        f"context {human_count(used)}/{human_count(limits.window)} ({used / limits.window:.0%})"
        f" · cache {meter.usage.hit_rate:.0%} · {price} · session {session.id[:8]}{pill}{warning}"
    )
