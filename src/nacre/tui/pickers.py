"""Lists to choose from: typing narrows them, and a preview shows the highlighted row."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.worker import Worker

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.formatting import clean, human_age, human_count, printable, shorten
from nacre.tui.commands import key_hints

if TYPE_CHECKING:
    from nacre.session.rewind import RewindPoint
    from nacre.store.summaries import SessionSummary

MAX_ROWS = 200
"""Rows of a list; a longer one is narrowed by typing, not read."""
ROW_CHARS = 200
TITLE_CHARS = 44
"""Columns of a title."""
SEARCH_SECONDS = 0.2
"""Pause in typing after which texts are searched."""
LEAST_SEARCHED = 2
"""A shorter text is looked for in the rows only."""
PREVIEW_BYTES = 4_000_000
"""A log with more than this after its last compaction is not read for a preview."""
PREVIEW_MESSAGES = 12
PREVIEW_CHARS = 600
"""Characters shown of each of them."""


@dataclass(frozen=True, slots=True)
class PickerRow:
    """A row, and the value that choosing it returns."""

    value: str
    line: str
    is_now: bool = False
    """Whether it is what is in force, and highlighted at first."""


Preview: TypeAlias = Callable[[str], Awaitable[Content]]
"""Returns what the preview shows of a value."""
Search: TypeAlias = Callable[[str], Awaitable[Collection[str]]]
"""Returns the values that hold a text that their rows may not show."""


class Picker(ModalScreen[str | None]):
    """Ends with the value of the selected row, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+r", "dismiss", "close"),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
    ]

    def __init__(
        self,
        title: str,
        rows: Sequence[PickerRow],
        *,
        wanted: str = "",
        preview: Preview | None = None,
        search: Search | None = None,
        is_note: bool = False,
    ) -> None:
        """`wanted` is the first text to search for; `is_note` says that previews are a few lines."""
        super().__init__()
        self._title = title
        self._rows = rows
        self._wanted = wanted
        self._preview = preview
        self._search = search
        self._is_note = is_note
        self._found: list[PickerRow] = []

    def compose(self) -> ComposeResult:
        is_long = self._is_note or self._preview is None
        with Vertical(classes=f"dialog tall{' long' * is_long}"):
            yield Static(Content.styled(self._title, "bold"), classes="heading", id="title")
            yield Input(self._wanted, placeholder="type to search", id="wanted", compact=True)
            yield OptionList(id="rows", compact=True, markup=False)
            if self._preview:
                with VerticalScroll(classes=f"preview{' note' * self._is_note}", can_focus=False):
                    yield Static(id="detail", markup=False)
            keys = "↑↓ choose · Enter take it" + " · PgUp/PgDn scroll" * bool(self._preview) + " · Esc close"
            if not self._rows:
                yield Static("there is nothing to choose")
            yield Static(key_hints(keys if self._rows else "Esc close"))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to choose."""
        return not self._rows

    def on_mount(self) -> None:
        self.query_one(".dialog").set_class(self.is_empty, "-empty")
        self.query_one("#wanted").display = bool(self._rows)
        self.query_one("#rows").can_focus = False
        self._list(self._wanted, ())
        self.query_one("#wanted").focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list(event.value, ())
        if self._search is not None and len(event.value.strip()) >= LEAST_SEARCHED:
            _: Worker[None] = self.run_worker(
                partial(self._look_for, event.value), group="search", exclusive=True
            )
        else:
            self.workers.cancel_group(self, "search")

    async def _look_for(self, text: str) -> None:
        assert self._search is not None, "only called with a search"
        await asyncio.sleep(SEARCH_SECONDS)
        self._list(text, await self._search(text.strip()))

    def _list(self, text: str, also: Collection[str]) -> None:
        """Show the rows that match: all words in the row, or a value that was found otherwise."""
        words = text.casefold().split()
        now = next((row.value for row in self._rows if row.is_now), "")
        before = self._found[at].value if (at := self._at) is not None else now
        self._found = [
            row
            for row in self._rows
            if row.value in also or all(word in row.line.casefold() for word in words)
        ][:MAX_ROWS]
        rows = self.query_one("#rows", OptionList)
        rows.set_options(Content(printable(row.line)[:ROW_CHARS]) for row in self._found)
        again = [place for place, row in enumerate(self._found) if row.value == before]
        rows.highlighted = again[0] if again else 0 if self._found else None
        count = f" · {len(self._found):,} of {len(self._rows):,}" if words else ""
        self.query_one("#title", Static).update(Content.assemble((self._title, "bold"), (count, "dim")))
        if not self._found and self._preview:
            self.query_one("#detail", Static).update("")

    @property
    def _at(self) -> int | None:
        at = self.query_one("#rows", OptionList).highlighted
        return at if at is not None and at < len(self._found) else None

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if self._preview is not None and event.option_index < len(self._found):
            value = self._found[event.option_index].value
            _: Worker[None] = self.run_worker(partial(self._look, value), group="preview", exclusive=True)

    async def _look(self, value: str) -> None:
        assert self._preview is not None, "only called with a preview"
        self.query_one("#detail", Static).update(await self._preview(value))
        self.query_one(".preview").scroll_home(animate=False)

    def on_input_submitted(self) -> None:
        self.dismiss(None if self._at is None else self._found[self._at].value)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._found[event.option_index].value)

    def action_move(self, by: int) -> None:
        rows = self.query_one("#rows", OptionList)
        rows.action_cursor_down() if by > 0 else rows.action_cursor_up()

    def action_page(self, pages: int) -> None:
        if self._preview is None:
            rows = self.query_one("#rows", OptionList)
            if self._at is not None:
                rows.highlighted = max(0, min(len(self._found) - 1, self._at + pages * rows.size.height))
            return
        pane = self.query_one(".preview")
        pane.scroll_relative(y=pages * max(1, pane.size.height - 1), animate=False)


def typed_picker(typed: Sequence[str], wanted: str) -> Picker:
    """Return a list of earlier input, newest first."""
    texts = dict.fromkeys(reversed(typed))
    return Picker("Earlier input", [PickerRow(one, " ".join(one.split())) for one in texts], wanted=wanted)


def session_row(each: SessionSummary, clock: Clock = SYSTEM_CLOCK) -> str:
    """Return id, age, length and title of a session on one line."""
    age = human_age(each.modified, clock.now())
    title = shorten(printable(each.title or ""), TITLE_CHARS)
    return f"{each.session[:8]}  {age:>6}  {human_count(each.messages):>4} messages  {title}"


def session_picker(sessions: Sequence[SessionSummary], clock: Clock = SYSTEM_CLOCK) -> Picker:
    """Return a list of sessions, searched by title and by what was said."""
    paths = {each.session: each.path for each in sessions}

    async def preview(session: str) -> Content:
        return await asyncio.to_thread(_last_messages, paths[session])

    return Picker(
        "Go on with another session",
        [PickerRow(each.session, session_row(each, clock)) for each in sessions],
        preview=preview,
        search=lambda text: asyncio.to_thread(_sessions_with, paths.values(), text),
    )


def _sessions_with(paths: Collection[Path], text: str) -> set[str]:
    """Return the ids of the sessions in which a text was said."""
    from nacre.errors import NacreError
    from nacre.store.sessions import query, search_log

    wanted = query(text)
    found = set()
    for path in paths:
        try:
            if next(search_log(path, wanted), None) is not None:
                found.add(path.stem)
        except (NacreError, OSError):  # deleted since it was listed
            continue
    return found


def _last_messages(path: Path) -> Content:
    from nacre.errors import NacreError
    from nacre.messages.records import Said
    from nacre.session.read_session import read_view

    try:
        looked = read_view(path, most=PREVIEW_BYTES)
    except (NacreError, OSError) as error:
        return Content.styled(printable(f"it cannot be read: {error}"), "$error")
    if looked is None:
        return Content.styled("too long for a preview; `nacre sessions show` prints it", "dim")
    said = [
        one
        for one in looked.loaded.records
        if isinstance(one, Said) and not one.aside and not one.meta and one.message.text.strip()
    ]
    lines = []
    for one in said[-PREVIEW_MESSAGES:]:
        text = clean(one.message.text.strip())
        text = text if len(text) <= PREVIEW_CHARS else f"{text[:PREVIEW_CHARS]} …"
        lines.append(Content.styled(f"> {text}", "bold") if one.role == "user" else Content(text))
    return Content("\n\n").join(lines)


class RewindPicker(ModalScreen[str | None]):
    """Ends with the command that rewinds to the selected message, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "close"),
        Binding("f", "choose('files')", "files only"),
        Binding("c", "choose('conversation')", "conversation only"),
    ]

    def __init__(self, points: Sequence[RewindPoint], clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        self._points = points
        self._clock = clock

    def compose(self) -> ComposeResult:
        now = self._clock.now()
        with Vertical(classes="dialog tall long"):
            yield Static(Content.styled("Go back to before a message", "bold"), classes="heading")
            rows = [
                f"{human_age(one.at, now):>6}  {len(one.files):>3} files  {printable(one.words)}"
                for one in self._points
            ]
            yield OptionList(*(Content(row) for row in rows), id="rows", compact=True, markup=False)
            if rows:
                yield Static(Content.styled("what shell commands did stays", "dim"))
            else:
                yield Static("there is no message yet")
            words = "Enter both · c conversation only · f files only · Esc close"
            yield Static(key_hints(words if rows else "Esc close"))

    def on_mount(self) -> None:
        rows = self.query_one("#rows", OptionList)
        rows.focus()
        rows.highlighted = len(self._points) - 1 if self._points else None
        self.query_one(".dialog").set_class(not self._points, "-empty")

    def on_option_list_option_selected(self) -> None:
        self.action_choose("")

    def action_choose(self, what: str) -> None:
        at = self.query_one("#rows", OptionList).highlighted
        if at is not None:
            self.dismiss(f"/rewind {at + 1} {what}".rstrip())
