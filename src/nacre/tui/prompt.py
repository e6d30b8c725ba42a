"""The input: several lines, history, and completion of slash commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from nacre.store.input_history import GOES_ON

NAME_CELLS = 12
"""Columns for a command's name in the menu."""


def completions(text: str, commands: Mapping[str, str]) -> list[str]:
    """Return the commands that match the typed text; empty if more than one word was typed."""
    if not text.startswith("/") or any(char.isspace() for char in text):
        return []
    return [name for name in commands if name.startswith(text[1:].casefold())]


class TypedHistory:
    """The input history, one step up or down at a time; the current text is its last entry."""

    def __init__(self, typed: Iterable[str]) -> None:
        self.typed = list(typed)
        self._at = len(self.typed)
        self._unsent = ""

    def add(self, text: str) -> None:
        if not self.typed or self.typed[-1] != text:
            self.typed.append(text)
        self._at = len(self.typed)
        self._unsent = ""

    def up(self, now: str) -> str | None:
        """Return the previous entry, or None."""
        if self._at == 0:
            return None
        if self._at == len(self.typed):
            self._unsent = now
        self._at -= 1
        return self.typed[self._at]

    def down(self) -> str | None:
        """Return the next entry, finally the text being typed, or None."""
        if self._at == len(self.typed):
            return None
        self._at += 1
        return self._unsent if self._at == len(self.typed) else self.typed[self._at]


class Area(TextArea):
    """A text area; Enter sends, Ctrl+J or Shift+Enter starts a new line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+j,shift+enter,alt+enter", "newline", "new line", show=False)
    ]

    def __init__(self) -> None:
        super().__init__(
            id="area",
            compact=True,
            highlight_cursor_line=False,
            placeholder="Say something, or / for commands",
        )

    @property
    def prompt(self) -> Prompt:
        assert isinstance(self.parent, Prompt), "the area is made by a prompt"
        return self.parent

    def on_key(self, event: events.Key) -> None:
        if event.key == "enter" or (event.key == "ctrl+j" and self.prompt.is_early):
            event.prevent_default().stop()
            self.prompt.entered()
        elif event.key == "tab":
            # The focus must not leave the input.
            event.prevent_default().stop()
            self.prompt.complete()
        elif event.key == "escape" and self.prompt.is_completing:
            event.prevent_default().stop()
            self.prompt.hide_menu()

    def action_newline(self) -> None:
        self.insert("\n")

    def action_cursor_page_up(self) -> None:
        self.app.action_page(-1)  # type: ignore[attr-defined]

    def action_cursor_page_down(self) -> None:
        self.app.action_page(1)  # type: ignore[attr-defined]

    def action_cursor_up(self, select: bool = False) -> None:
        if not self.prompt.up(is_first=self.cursor_at_first_line):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if not self.prompt.down(is_last=self.cursor_at_last_line):
            super().action_cursor_down(select)


class Prompt(Vertical):
    """The input and its completion menu."""

    @dataclass
    class Sent(Message):
        """The user sent a message."""

        text: str

    def __init__(self, commands: Mapping[str, str], typed: Sequence[str]) -> None:
        super().__init__(id="prompt")
        self.past = TypedHistory(typed)
        self.quiet = asyncio.Event()
        """Set while nothing is being typed."""
        self.quiet.set()
        self.is_early = True
        """Until a session is open, Enter arrives as Ctrl+J, because the terminal is still in line mode."""
        self._commands = commands
        self._area = Area()
        self._menu = OptionList(id="menu", compact=True)
        self._menu.can_focus = False
        self._menu.display = False

    def compose(self) -> ComposeResult:
        yield self._menu
        yield self._area

    def on_mount(self) -> None:
        self._area.focus()

    @property
    def text(self) -> str:
        return self._area.text

    @text.setter
    def text(self, text: str) -> None:
        self._area.text = text
        self._area.move_cursor(self._area.document.end)

    @property
    def is_completing(self) -> bool:
        return bool(self._menu.display)

    def take(self, text: str) -> None:
        """Take the focus, with text typed elsewhere."""
        self._area.focus()
        self._area.insert(text)

    def drop(self) -> bool:
        """Empty the input so that undo restores it; returns False if it was empty."""
        return bool(self.text and self._area.clear())

    def after_keys(self, act: Callable[[], None]) -> None:
        """Run after the input has processed all keys."""
        self._area.call_later(lambda: self.call_later(lambda: self.app.call_later(act)))

    def delete_right(self) -> None:
        self._area.action_delete_right()

    def on_text_area_changed(self) -> None:
        self.quiet.clear() if self.text.strip() else self.quiet.set()
        found = completions(self.text, self._commands)
        is_whole = found == [self.text[1:]]
        self._menu.display = bool(found) and not is_whole
        if self.is_completing:
            rows = [(name, self._commands[name]) for name in found]
            self._menu.set_options(
                Option(Content.assemble((f"/{name}".ljust(NAME_CELLS), "bold"), says), id=name)
                for name, says in rows
            )
            self._menu.highlighted = 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take(event.option_id or "")

    def hide_menu(self) -> None:
        self._menu.display = False

    def complete(self) -> None:
        """Insert the highlighted command."""
        option = self._menu.highlighted_option if self.is_completing else None
        if option is not None:
            self._take(option.id or "")

    def _take(self, name: str) -> None:
        self.text = f"/{name} "
        self.hide_menu()
        self._area.focus()

    def entered(self) -> None:
        """Send the text; an incomplete command becomes the highlighted one."""
        if self.is_completing and self._menu.highlighted_option is not None:
            self.text = f"/{self._menu.highlighted_option.id}"
        self.hide_menu()
        if self.text.endswith(GOES_ON):
            self.text = self.text[:-1] + "\n"
            return
        text = self.text
        self.text = ""
        if text.strip():
            self.past.add(text)
            self.post_message(self.Sent(text))

    def up(self, *, is_first: bool) -> bool:
        """Whether a step up moved in the menu or the history."""
        if self.is_completing:
            self._menu.action_cursor_up()
            return True
        return is_first and self._recalled(self.past.up(self.text))

    def down(self, *, is_last: bool) -> bool:
        if self.is_completing:
            self._menu.action_cursor_down()
            return True
        return is_last and self._recalled(self.past.down())

    def _recalled(self, text: str | None) -> bool:
        if text is not None:
            self.text = text
            self._area.call_next(self.hide_menu)  # it was whole when it was typed
        return text is not None
