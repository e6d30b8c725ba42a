"""The panel of an empty conversation, and the line that says what happens now."""

from __future__ import annotations

from pathlib import Path

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from nacre.formatting import printable
from nacre.version import VERSION

LOGO = ("╭─◜◝─╮", "│ ◖◗ │", "╰─◟◞─╯")
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS = 0.2
TRIES = (
    ("what files are here?", "looks around"),
    ("remember that I prefer tabs", "is known in every later session"),
    ("/context", "what fills the window (/help: all commands)"),
)


class ActivityLine(Static):
    """What happens now, with a mark that moves; hidden while nothing does."""

    def __init__(self) -> None:
        super().__init__(id="activity", markup=False)
        self._text = ""
        self._frame = 0
        self._timer: Timer | None = None

    def show(self, text: str) -> None:
        """Show what happens; an empty text hides the line."""
        self._text = text
        self.set_class(bool(text), "-on")
        if text and self._timer is None:
            self._timer = self.set_interval(FRAME_SECONDS, self._step)
        elif not text and self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._draw()

    def _step(self) -> None:
        self._frame += 1
        self._draw()

    def _draw(self) -> None:
        mark = FRAMES[self._frame % len(FRAMES)]
        self.update(Content.assemble((f"{mark} ", "$accent"), (printable(self._text), "dim")))


class StartPanel(Static):
    """Shown until the first message."""

    def __init__(self, directory: Path) -> None:
        super().__init__(id="start", markup=False)
        home = str(Path.home())
        path = str(directory)
        self._where = f"~{path[len(home) :]}" if path.startswith(home) else path
        self._model = "starting …"
        self._remembered = ""
        self._show()

    def tell(self, model: str, remembered: str) -> None:
        """Show the model and what is remembered, once a session is open."""
        self._model = model
        self._remembered = remembered
        self._show()

    def _show(self) -> None:
        beside = (
            Content.assemble(("nacre ", "bold"), (VERSION, "dim")),
            Content(printable(self._where)),
            Content.styled(printable(self._model), "dim"),
        )
        lines = [
            Content.assemble((drawn, "$secondary"), "  ", words)
            for drawn, words in zip(LOGO, beside, strict=True)
        ]
        lines += [Content(), Content(self._remembered or " "), Content()]
        lines += [Content.assemble("  ", (words.ljust(30), "$accent"), (why, "dim")) for words, why in TRIES]
        self.update(Content("\n").join(lines))


def remembered_line(count: int) -> str:
    """Return how many memories this project has."""
    if not count:
        return "nothing is remembered here yet"
    return f"{count} {'memory' if count == 1 else 'memories'} of this project (F2)"
