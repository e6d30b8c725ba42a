"""A dialog for background work: watch it, open a report, stop it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from nacre.app.chat_session import end_agent
from nacre.app.open_agent import OpenedAgent
from nacre.app.session_text import ENDED, PILLS
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import NacreError
from nacre.formatting import human_count, printable, shorten
from nacre.session.background import AGENT_PURPOSE

TICK_SECONDS = 1.0
"""Seconds between two updates."""
RUNNING = "●"
ENDED_MARK = "○"
"""Prefix of ended work: a dimmed row would be unreadable when selected."""
DOING_CHARS = 40
"""Columns of an activity."""


@dataclass(frozen=True, slots=True)
class WorkRow:
    """Running or ended work."""

    kind: Literal["work", "agent"]
    name: str
    line: str
    detail: str
    is_running: bool

    def is_same(self, other: WorkRow) -> bool:
        """Whether both rows stand for the same work."""
        return (self.kind, self.name) == (other.kind, other.name)


def rows_of(ready: OpenedAgent, clock: Clock = SYSTEM_CLOCK) -> list[WorkRow]:
    """Return running work and agents first, then ended ones, newest first."""
    work = [each for each in ready.background.running() if not each.startswith(f"{AGENT_PURPOSE} ")]
    found = [
        WorkRow("work", name, f"{PILLS.get(name.partition(' ')[0], name)}…", "at work", True) for name in work
    ]
    now = clock.now()
    for state in ready.team.states() if ready.team else ():
        seconds = (now - state.started).total_seconds() if state.is_running else state.seconds
        does = state.doing or "at work" if state.is_running else ENDED.get(state.status, state.status)
        spent = f"{seconds:.0f} s, {human_count(state.tokens)} tokens, ${state.cost_usd:.4f}"
        line = f"{state.name} ({state.type}): {shorten(does, DOING_CHARS)} ({spent})"
        detail = "\n".join(part for part in (state.description, state.doing, state.result) if part)
        found.append(WorkRow("agent", state.name, printable(line), detail, state.is_running))
    ended = [
        WorkRow(
            "work", one.name, printable(f"{one.name} {one.ending} ({one.seconds:.0f} s)"), one.error, False
        )
        for one in reversed(ready.background.outcomes)
        if not one.name.startswith(f"{AGENT_PURPOSE} ")
    ]
    return sorted([*found, *ended], key=lambda row: not row.is_running)


async def end_work(ready: OpenedAgent, row: WorkRow) -> str:
    """Stop the work of a row; returns the message to show."""
    if row.kind == "work":
        is_ended = await ready.background.cancel(row.name)
        return f"{row.name} was stopped" if is_ended else f"{row.name} has ended already"
    assert ready.team is not None, "whoever is listed belongs to a team"
    return await end_agent(ready, ready.team.shared.registry.find(row.name))


class WorkDialog(ModalScreen[None]):
    """The list, and details of the highlighted row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k,delete", "kill", "end it"),
        Binding("escape,q,f4", "dismiss", "close"),
        Binding("pagedown,space", "scroll(1)", show=False, priority=True),
        Binding("pageup", "scroll(-1)", show=False, priority=True),
    ]

    def __init__(self, ready: OpenedAgent, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        self._ready = ready
        self._clock = clock
        self._rows: Sequence[WorkRow] = ()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static(Content.styled("Work in the background", "bold"), classes="heading")
            yield OptionList(id="rows", compact=True, markup=False)
            with VerticalScroll(classes="preview", can_focus=False):
                yield Static(id="detail", markup=False)
            yield Static(Content.styled("↑↓ choose · PgUp PgDn scroll · k end it · Esc", "dim"), id="told")

    def on_mount(self) -> None:
        self._look()
        self.query_one("#rows").focus()
        self.set_interval(TICK_SECONDS, self._look)

    def _look(self) -> None:
        rows = rows_of(self._ready, self._clock)
        shown = self.query_one("#rows", OptionList)
        if rows == self._rows:
            return
        at = self._place(rows, shown.highlighted or 0)
        self._rows = rows
        shown.set_options(
            Option(Content(f"{RUNNING if row.is_running else ENDED_MARK} {row.line}")) for row in rows
        )
        shown.highlighted = at
        if not rows:
            self.query_one("#detail", Static).update("nothing goes on, and nothing has yet")

    def _place(self, rows: Sequence[WorkRow], at: int) -> int | None:
        """Return the current index of the selected row: `k` must never stop another one because the list
        moved."""
        chosen = self._rows[at] if at < len(self._rows) else None
        found = [place for place, row in enumerate(rows) if chosen is not None and row.is_same(chosen)]
        return found[0] if found else min(at, len(rows) - 1) if rows else None

    def action_scroll(self, pages: int) -> None:
        pane = self.query_one(".preview")
        pane.scroll_relative(y=pages * max(1, pane.size.height - 1), animate=False)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        detail = self._rows[event.option_index].detail
        self.query_one("#detail", Static).update("\n".join(printable(line) for line in detail.splitlines()))

    def action_kill(self) -> None:
        at = self.query_one("#rows", OptionList).highlighted
        if at is not None and at < len(self._rows):
            self.run_worker(self._end(self._rows[at]), name="end", group="end")

    async def _end(self, row: WorkRow) -> None:
        try:
            told = await end_work(self._ready, row)
        except NacreError as error:
            told = str(error)
        self._look()
        self.query_one("#told", Static).update(Content.styled(printable(told), "$warning"))
