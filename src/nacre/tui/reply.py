"""A reply on the screen: finished blocks are laid out once, and updates are combined while it streams."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from textual.content import Content
from textual.geometry import Size
from textual.timer import Timer
from textual.widget import Widget

from nacre.tui.markdown import rendered, split_open

PART_LINES = 30
"""Lines after which a reply continues in another widget: each update draws a whole widget."""
FLUSH_SECONDS = 0.1
"""Shortest time between two updates."""
FLUSH_SHARE = 8
"""An update that took long is followed by a pause this many times as long, so that keys are never late."""
MAX_FLUSH_SECONDS = 2.0


class ReplyPart(Widget):
    """Some blocks of a reply; the last one may still grow."""

    def __init__(self, text: str = "", *, classes: str = "reply", style: str = "") -> None:
        super().__init__(classes=classes)
        self._style = style
        self._finished = [(text, False)] if text else []
        """Each with whether it continues the one before without an empty line."""
        self._open = ("", False)
        self._width = 0
        self._lines: list[Content] = []
        """The lines of the finished blocks at this width."""
        self._shown: Content | None = None

    def show(self, finished: str, open_text: str, *, is_continued: bool = False) -> int:
        """Add finished blocks and replace the open one; returns the number of finished lines."""
        if finished.strip():
            text = (finished, self._open[1])
            self._finished.append(text)
            self._add_lines(self._lines, *text)
            self._open = (open_text, is_continued)
        else:
            self._open = (open_text, self._open[1])
        self._shown = None
        self.refresh(layout=True)
        # Before the first layout only the lines of the source are known.
        return len(self._lines) or sum(text.count("\n") for text, _ in self._finished)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._laid_out(width).plain.count("\n") + 1 if width else 0

    def render(self) -> Content:
        return self._laid_out(self.content_size.width or self._width)

    def _laid_out(self, width: int) -> Content:
        if width != self._width:
            self._width = width
            self._lines = []
            for text, is_continued in self._finished:
                self._add_lines(self._lines, text, is_continued)
            self._shown = None
        if self._shown is None:
            lines = list(self._lines)
            self._add_lines(lines, *self._open)
            self._shown = Content("\n").join(lines).stylize(self._style)
        return self._shown

    def _add_lines(self, lines: list[Content], text: str, is_continued: bool) -> None:
        if text.strip() and self._width:
            if lines and not is_continued:
                lines.append(Content())
            lines += rendered(text, self._width)


class ReplyStream:
    """Receives the text of one reply and shows it in parts."""

    def __init__(
        self, owner: Widget, put: Callable[[Widget], Awaitable[None]], *, classes: str, style: str = ""
    ) -> None:
        self._owner = owner
        self._put = put
        self._classes = classes
        self._style = style
        self.parts: list[ReplyPart] = []
        self._text = ""
        """Text that is not in a finished block yet."""
        self._is_full = True
        self._timer: Timer | None = None
        self._next_flush = 0.0

    async def write(self, text: str) -> None:
        """Add text; it is shown at once, or with the next update."""
        self._text += text
        wait = self._next_flush - time.monotonic()
        if wait <= 0:
            await self.flush()
        elif self._timer is None:
            self._timer = self._owner.set_timer(wait, self.flush)

    async def flush(self) -> None:
        """Show what has arrived."""
        self._stop_timer()
        if not self._text.strip():
            return
        begun = time.monotonic()
        if self._is_full:
            self._is_full = False
            self.parts.append(ReplyPart(classes=self._classes, style=self._style))
            await self._put(self.parts[-1])
        split = split_open(self._text)
        self._text = split.open
        part = self.parts[-1]
        if part.show(split.finished, split.open, is_continued=split.is_continued) >= PART_LINES:
            # The open block goes to the next part.
            part.show("", "")
            self._is_full = True
            self._classes = f"{self._classes.split()[0]}{' -continued' * split.is_continued}"
            await self.flush()
        cost = time.monotonic() - begun
        self._next_flush = time.monotonic() + min(MAX_FLUSH_SECONDS, max(FLUSH_SECONDS, FLUSH_SHARE * cost))

    async def finish(self) -> None:
        """Show the rest; nothing is added afterwards."""
        await self.flush()
        self._stop_timer()
        if self.parts:
            # Textual keeps the height that a widget had before its first idle moment.
            self.parts[-1].call_after_refresh(self.parts[-1].refresh, layout=True)

    async def remove(self) -> None:
        """Take the reply from the screen."""
        self._stop_timer()
        for part in self.parts:
            await part.remove()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
