"""A list of sessions to resume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.formatting import human_age, human_count, printable, shorten
from nacre.store.summaries import SessionSummary

TITLE_CHARS = 44
"""Columns of a title."""


def session_row(each: SessionSummary, clock: Clock = SYSTEM_CLOCK) -> str:
    """Return id, age, length and title of a session on one line."""
    age = human_age(each.modified, clock.now())
    title = shorten(printable(each.title or ""), TITLE_CHARS)
    return f"{each.session[:8]}  {age:>6}  {human_count(each.messages):>4} messages  {title}"


class SessionPicker(ModalScreen[str | None]):
    """Ends with the id of the selected session, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "close")]

    def __init__(self, sessions: Sequence[SessionSummary], clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        self._sessions = sessions
        self._clock = clock

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall long"):
            yield Static(Content.styled("Go on with another session", "bold"), classes="heading")
            rows = [
                Option(Content(session_row(each, self._clock)), id=each.session) for each in self._sessions
            ]
            yield OptionList(*rows, id="rows", compact=True, markup=False)
            words = "↑↓ choose · Enter goes on with it · Esc close"
            yield Static(
                Content.styled(words if self._sessions else "there is no other session here · Esc", "dim")
            )

    def on_mount(self) -> None:
        self.query_one("#rows").focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)
