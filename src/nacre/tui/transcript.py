"""The conversation on the screen: words as they stream, calls on one line each that opens."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import MountError, Widget
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownStream

from nacre.messages.view import View
from nacre.plain import human_count, printable
from nacre.tui.pieces import Asked, Called, Piece, Resulted, Told, Void, Words

KEPT_ON_SCREEN = 400
"""Pieces that can be scrolled back to: more make every key slower, and the log has them all."""
OFFLOADED = "offload"
_MARKS = {
    "info": ("· ", "dim"),
    "warning": ("! ", "$warning"),
    "error": ("! ", "$error"),
    "bold": ("", "bold"),
    "plain": ("", ""),
}
"""What a line begins with, and its style."""


class Line(Static):
    """A line or a few that do not change."""

    def __init__(self, content: Content, *, classes: str = "line") -> None:
        super().__init__(content, classes=classes)


class CallRow(Static, can_focus=True):
    """One tool call; Enter, a click or Ctrl+O opens it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "open", "open", show=False)]

    def __init__(self, called: Called) -> None:
        super().__init__(classes="call")
        self.called = called
        self.resulted: Resulted | None = None
        self.kept = ""
        """Where the whole result lies, if it was offloaded."""
        self.is_open = False
        self._show()

    def answer(self, resulted: Resulted) -> None:
        self.resulted = resulted
        self._show()

    def keep(self, where: str) -> None:
        self.kept = where
        self._show()

    def action_open(self) -> None:
        self.is_open = not self.is_open
        self.set_class(self.is_open, "-open")
        self._show()

    def on_click(self) -> None:
        self.action_open()

    def _show(self) -> None:
        parts: list[Content] = [
            Content.assemble((f"{'▾' if self.is_open else '▸'} ", "$secondary"), self.called.line)
        ]
        if self.is_open and self.called.detail:
            parts.append(Content.styled(_indented(self.called.detail), "dim"))
        if self.resulted is not None:
            style = "$error" if self.resulted.is_error else "dim"
            told = _indented(self.resulted.detail) if self.is_open else f"  └ {self.resulted.line}"
            parts.append(Content.styled(told, style))
        if self.kept:
            parts.append(Content.styled(f"  ⇲ {self.kept}", "$secondary"))
        self.update(Content("\n").join(parts))


class Transcript(VerticalScroll, can_focus=False):
    """Takes pieces in the order they come and stays at the end, unless somebody has scrolled up."""

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self._stream: MarkdownStream | None = None
        self._reply: Markdown | None = None
        self._thought: Static | None = None
        self._thinking = ""
        self._calls: dict[str, CallRow] = {}
        self._waiting: list[Told] = []
        self._one_at_a_time = asyncio.Lock()

    def on_mount(self) -> None:
        self.anchor()

    @property
    def _is_shown(self) -> bool:
        """Whether there is a screen still; what comes after its end stands in the log."""
        return self.is_running and self.is_attached

    async def add(self, piece: Piece) -> None:
        """Show one more piece; a line that comes while words stream waits until they have ended."""
        if not self._is_shown:
            return
        async with self._one_at_a_time:
            if isinstance(piece, Told) and self._stream is not None:
                self._waiting.append(piece)
            else:
                await self._add(piece)

    async def finish(self) -> None:
        """What streams has come to its end."""
        if not self._is_shown:
            return
        async with self._one_at_a_time:
            await self._finish()

    async def _add(self, piece: Piece) -> None:
        match piece:
            case Words(text, is_thinking=True):
                await self._think(text)
            case Words(text):
                await self._say(text)
            case Asked(text):
                await self._finish()
                words = Content.assemble(("> ", "bold $accent"), (text, "bold"))
                await self._put(Line(words, classes="asked"))
                self.anchor()
            case Called(id=call):
                await self._finish()
                self._calls[call] = CallRow(piece)
                await self._put(self._calls[call])
            case Resulted(id=call):
                if (row := self._calls.get(call)) is not None:
                    row.answer(piece)
            case Told():
                await self._finish()
                await self._tell(piece)
            case Void(reason):
                await self._void(reason)

    async def _finish(self) -> None:
        stream, self._stream, self._reply = self._stream, None, None
        self._thought, self._thinking = None, ""
        if stream is not None:
            with suppress(MountError):  # the program was ended while words were on their way
                await stream.stop()
        waiting, self._waiting = self._waiting, []
        for piece in waiting:
            await self._tell(piece)

    async def _tell(self, piece: Told) -> None:
        mark, style = _MARKS[piece.level]
        await self._put(Line(Content.styled(f"{mark}{piece.text}", style), classes=f"line {piece.level}"))

    def settle(self, view: View) -> None:
        """Say of calls whose results were offloaded where they lie."""
        for note in view.noted(OFFLOADED):
            row = self._calls.get(str(note.fact("call")))
            if row is not None and not row.kept:
                tokens = note.fact("tokens_kept_out")
                told = f"{human_count(tokens)} tokens kept" if isinstance(tokens, int) else "kept"
                row.keep(printable(f"{told} in {note.fact('path')}"))

    def toggle_last(self) -> None:
        """Open or close the newest call."""
        if self._calls:
            list(self._calls.values())[-1].action_open()

    async def clear(self) -> None:
        await self.finish()
        self._calls.clear()
        await self.remove_children()
        self.anchor()

    async def _say(self, text: str) -> None:
        if self._stream is None:
            await self._finish()
            if not text.strip():
                return
            self._reply = Markdown(classes="reply", open_links=False)
            await self._put(self._reply)
            self._stream = Markdown.get_stream(self._reply)
        await self._stream.write(text)

    async def _think(self, text: str) -> None:
        if self._thought is None:
            await self._finish()
            self._thought = Static(classes="thought", markup=False)
            await self._put(self._thought)
        self._thinking += text
        self._thought.update(Content.styled(self._thinking.strip("\n"), "dim italic"))

    async def _void(self, reason: str) -> None:
        reply = self._reply
        await self._finish()
        if reply is not None:
            await reply.remove()
        await self._put(Line(Content.styled(f"… starting over: {reason}", "$warning")))

    async def _put(self, widget: Widget) -> None:
        if not self._is_shown:
            return  # it went while something was waited for
        await self.mount(widget)
        extra = len(self.children) - KEPT_ON_SCREEN
        if extra > 0:
            gone = set(self.children[:extra])
            self._calls = {call: row for call, row in self._calls.items() if row not in gone}
            await self.remove_children(list(gone))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
