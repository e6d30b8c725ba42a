"""A permission dialog: once, always or no; anything else is no."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from nacre.formatting import printable, shorten
from nacre.tools.guard import PermissionAnswer, PermissionQuestion

SETTLE_SECONDS = 0.4
"""Keys that arrive sooner were meant for the message being typed and must not answer."""
OTHER_LINES = 12
"""Lines of a dialog besides the preview: heading, explanation, answers, frame."""
RULE_CHARS = 160
"""Columns of a rule, which may be a whole command."""
_STYLES = {"+": "$success", "-": "$error"}
_BUTTONS: tuple[tuple[PermissionAnswer, str], ...] = (
    ("once", "Yes (y)"),
    ("always", "Always (a)"),
    ("no", "No (n)"),
)


def preview_of(question: PermissionQuestion) -> Content:
    """Return the preview as lines; a diff is coloured."""
    lines = [
        Content.styled(printable(line), _STYLES.get(line[:1], "")) for line in question.preview.splitlines()
    ]
    return Content("\n").join(lines)


class QuestionDialog(ModalScreen[PermissionAnswer]):
    """Shows the preview; No is selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('once')", "once"),
        Binding("a", "answer('always')", "always"),
        Binding("n,escape", "answer('no')", "no"),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False, priority=True),
    ]

    def __init__(self, question: PermissionQuestion, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        super().__init__()
        self._question = question
        self._settle_seconds = settle_seconds
        self._is_settled = False
        self._is_void = False

    def compose(self) -> ComposeResult:
        question = self._question
        with Vertical(classes="dialog"):
            yield Static(
                Content.assemble(
                    (question.tool, "bold"), f" needs your permission ({printable(question.reason)})"
                ),
                classes="heading",
            )
            with VerticalScroll(classes="preview", can_focus=False):
                yield Static(preview_of(question))
            rule = shorten(printable(question.rule.text), RULE_CHARS)
            always = f"always would allow {rule} in this project from now on"
            yield Static(Content.styled(always, "dim"))
            with Horizontal(classes="buttons"):
                for answer, label in _BUTTONS:
                    yield Button(label, id=answer, compact=True)

    def on_mount(self) -> None:
        self.query_one("#no", Button).focus()
        self.set_timer(self._settle_seconds, self._settle) if self._settle_seconds else self._settle()

    def on_resize(self, event: Resize) -> None:
        """A preview longer than the screen scrolls; the answers stay visible."""
        width = max(1, event.size.width - 6)
        lines = sum(1 + Content(line).cell_length // width for line in self._question.preview.splitlines())
        self.query_one(".dialog").set_class(lines + OTHER_LINES > event.size.height, "tall")

    def _settle(self) -> None:
        self._is_settled = True

    def withdraw(self) -> None:
        """Close without an answer: the request was cancelled."""
        self._is_void = True
        if self.is_current:
            self.dismiss("no")

    def on_screen_resume(self) -> None:
        if self._is_void:
            self.dismiss("no")

    def action_scroll(self, lines: int) -> None:
        self.query_one(".preview").scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        pane = self.query_one(".preview")
        self.action_scroll(pages * max(1, pane.size.height - 1))

    def action_answer(self, answer: PermissionAnswer) -> None:
        if self._is_settled:
            self.dismiss(answer)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        match event.button.id:
            case "once" | "always" | "no" as answer:
                self.action_answer(answer)
            case _:
                pass
