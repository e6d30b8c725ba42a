"""The input: several lines, history, and completion of slash commands."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.option_list import Option

from nacre.formatting import printable
from nacre.store.input_history import GOES_ON
from nacre.tui.vim import VimKeys

if TYPE_CHECKING:
    from nacre.messages.blocks import Image

SIGN = "❯"
NORMAL_SIGN = "N"
"""In the normal mode of vim keys."""
MAX_PATHS = 50
"""Paths offered at once."""
FOLDED_LINES = 10
FOLDED_CHARS = 2_000
"""A longer paste is shown as its size."""
NAME_CELLS = 12
"""Columns for a command's name in the menu."""


def completions(text: str, commands: Mapping[str, str]) -> list[str]:
    """Return the commands that match the typed text; empty if more than one word was typed."""
    if not text.startswith("/") or any(char.isspace() for char in text):
        return []
    return [name for name in commands if name.startswith(text[1:].casefold())]


def path_completions(text: str, root: Path) -> list[str]:
    """Return the files and folders that match an `@path` at the end of the text, as `@path`."""
    token = text.rsplit(maxsplit=1)[-1] if text and not text[-1].isspace() else ""
    if not token.startswith("@"):
        return []
    folder, slash, begun = token[1:].rpartition("/")
    try:
        entries = sorted(os.scandir(root / folder), key=lambda each: each.name)
        found = [
            f"@{folder}{slash}{each.name}{'/' * each.is_dir()}"
            for each in entries
            if each.name.startswith(begun) and (begun or not each.name.startswith("."))
        ]
    except OSError:
        return []
    return found[:MAX_PATHS]


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

    def __init__(self, vim: VimKeys | None = None) -> None:
        """`vim` translates keys, if the user wants that."""
        self.vim = vim
        super().__init__(
            id="area",
            compact=True,
            highlight_cursor_line=False,
            placeholder="Say something, or / for commands",
        )

    @property
    def prompt(self) -> Prompt:
        return next(each for each in self.ancestors if isinstance(each, Prompt))

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
        elif self.vim is not None and event.key == "escape":
            event.prevent_default().stop()
            self.vim.escape()
            self.prompt.show_sign()
        elif self.vim is not None and self.vim.mode == "normal" and event.is_printable:
            event.prevent_default().stop()
            for action in self.vim.press(event.character or ""):
                getattr(self, f"action_{action}")()
            self.prompt.show_sign()

    @property
    def _next_word(self) -> tuple[int, int]:
        """Where the next word begins, or the end of the line."""
        row, column = self.cursor_location
        found = re.compile(r"\w+\s*|[^\w\s]+\s*|\s+").match(self.document[row], column)
        return row, found.end() if found else column

    def action_next_word(self) -> None:
        self.move_cursor(self._next_word)

    def action_delete_to_next_word(self) -> None:
        self.delete(self.cursor_location, self._next_word)

    def action_cursor_begin(self) -> None:
        self.move_cursor((0, 0))

    def action_cursor_end(self) -> None:
        self.move_cursor(self.document.end)

    def on_paste(self, event: events.Paste) -> None:
        """Show pictures and long pastes by a label; they are sent whole."""
        from nacre.app.pictures import dropped_pictures

        # Many terminals paste line ends as Enter.
        event.text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        if pictures := dropped_pictures(event.text):
            event.prevent_default().stop()
            self.insert(self.prompt.attach(pictures))
        elif event.text.count("\n") >= FOLDED_LINES or len(event.text) >= FOLDED_CHARS:
            event.prevent_default().stop()
            self.insert(self.prompt.fold(event.text))

    def action_paste(self) -> None:
        """Paste what was copied here, or attach the picture in the clipboard, which no terminal pastes."""
        if self.app.clipboard:
            super().action_paste()
        else:
            self.run_worker(self.prompt.paste_picture(), group="picture", exclusive=True)

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

    @dataclass
    class Refused(Message):
        """A picture cannot be attached."""

        reason: str

    def __init__(
        self,
        commands: Mapping[str, str],
        typed: Sequence[str],
        root: Path = Path(),
        *,
        has_vim_keys: bool = False,
    ) -> None:
        """`root` is the directory of paths after `@`."""
        super().__init__(id="prompt")
        self._root = root
        self._folded: dict[str, str] = {}
        """Long pastes by what is shown of them."""
        self._pictures: dict[str, Image] = {}
        """Pictures by their labels."""
        self.past = TypedHistory(typed)
        self.quiet = asyncio.Event()
        """Set while nothing is being typed."""
        self.quiet.set()
        self.is_early = True
        """Until a session is open, Enter arrives as Ctrl+J, because the terminal is still in line mode."""
        self._commands = commands
        self._area = Area(VimKeys() if has_vim_keys else None)
        self._sign = Static(SIGN, id="sign", markup=False)
        self._menu = OptionList(id="menu", compact=True)
        self._menu.can_focus = False
        self._menu.display = False

    def compose(self) -> ComposeResult:
        yield self._menu
        with Horizontal(id="line"):
            yield self._sign
            yield self._area

    def on_mount(self) -> None:
        self._area.focus()

    def show_sign(self) -> None:
        """Show whether keys are letters or, in normal mode, commands."""
        vim = self._area.vim
        self._sign.update(NORMAL_SIGN if vim is not None and vim.mode == "normal" else SIGN)

    def offer(self, commands: Mapping[str, str]) -> None:
        """Complete these commands from now on."""
        self._commands = commands
        self.on_text_area_changed()

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

    def replace(self, text: str | None) -> None:
        """Replace the input by a text that was chosen elsewhere, if any."""
        self.text = self.text if text is None else text

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
        found = [(f"/{name}", self._commands[name]) for name in completions(self.text, self._commands)]
        found = found or [(path, "") for path in path_completions(self.text, self._root)]
        is_whole = [name for name, _ in found] == [self.text]
        self._menu.display = bool(found) and not is_whole
        if self.is_completing:
            self._menu.set_options(
                Option(Content.assemble((name.ljust(NAME_CELLS), "bold"), says), id=name)
                for name, says in found
            )
            self._menu.highlighted = 0

    def attach(self, pictures: Sequence[Path]) -> str:
        """Keep pictures for the message that names them and return their labels, or a path that is none."""
        from nacre.messages.media import as_image

        labels = []
        for path in pictures:
            try:
                labels.append(self.keep_picture(as_image(path.read_bytes()), path.name))
            except (OSError, ValueError) as error:
                self.post_message(self.Refused(str(error)))
                labels.append(str(path))
        return " ".join(labels) + " "

    def keep_picture(self, picture: Image, name: str) -> str:
        """Keep a picture until the chat ends, and return the label that stands for it."""
        label = f"[picture {len(self._pictures) + 1}: {printable(name)}]"
        self._pictures[label] = picture
        return label

    async def paste_picture(self) -> None:
        """Attach the picture in the clipboard."""
        from nacre.app.pictures import clipboard_advice, clipboard_picture

        picture = await clipboard_picture(self._root, os.environ)
        if picture is None:
            self.post_message(self.Refused(clipboard_advice()))
        else:
            self.take(self.keep_picture(picture, "clipboard") + " ")

    def pictures_in(self, text: str) -> list[Image]:
        """Return the pictures whose labels are in a text."""
        return [picture for label, picture in self._pictures.items() if label in text]

    def fold(self, text: str) -> str:
        """Keep a long paste and return what is shown of it."""
        lines = len(text.splitlines())
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        shown = f"[paste {len(self._folded) + 1}: {size}]"
        self._folded[shown] = text
        return shown

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
        before = self.text[: -len(self.text.rsplit(maxsplit=1)[-1])] if name.startswith("@") else ""
        self.text = before + name + " " * (not name.endswith("/"))
        if not name.endswith("/"):
            self.hide_menu()
        self._area.focus()

    def entered(self) -> None:
        """Send the text; an incomplete command becomes the highlighted one."""
        if self.is_completing and self._menu.highlighted_option is not None:
            name = self._menu.highlighted_option.id or ""
            if name.startswith("@"):
                self._take(name)
                return
            self.text = name
        self.hide_menu()
        if self.text.endswith(GOES_ON):
            self.text = self.text[:-1] + "\n"
            return
        text = self.text
        for shown, pasted in self._folded.items():
            text = text.replace(shown, pasted)
        self._folded = {}
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


class ChatScreen(Screen[None]):
    """The screen below the dialogs; its input has no cursor while one is open."""

    def on_screen_suspend(self) -> None:
        self.query_one(Prompt).add_class("-below")

    def on_screen_resume(self) -> None:
        for prompt in self.query(Prompt):  # not there yet when the chat starts
            prompt.remove_class("-below")
