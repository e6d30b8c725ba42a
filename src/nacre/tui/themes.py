"""Themes of the full-screen chat; all but high contrast use the colours of the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from textual.app import App
from textual.filter import DimFilter, LineFilter
from textual.theme import Theme

from nacre.store import disk

FILE = "theme"
"""Name of the file in the home that holds the chosen theme."""
LIGHT_BACKGROUNDS = frozenset({"7", "15"})
"""White and bright white in COLORFGBG."""
NAMES = {
    "dark": "ansi-dark",
    "light": "ansi-light",
    "contrast": "nacre-contrast",
    "plain": "nacre-plain",
}
"""Textual's name of each theme."""
CONTRAST = Theme(
    name="nacre-contrast",
    primary="#00ffff",
    secondary="#ffff00",
    accent="#ff80ff",
    warning="#ffaf00",
    error="#ff8080",
    success="#80ff80",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#000000",
    dark=True,
)
PLAIN = Theme(
    name="nacre-plain",
    primary="ansi_default",
    secondary="ansi_default",
    accent="ansi_default",
    warning="ansi_default",
    error="ansi_default",
    success="ansi_default",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    dark=True,
)


VARIABLES = {
    "ansi-dark": {"results": "ansi_yellow", "added": "ansi_default", "removed": "ansi_red"},
    "ansi-light": {"results": "ansi_magenta", "added": "ansi_default", "removed": "ansi_red"},
    "nacre-contrast": {
        "results": "#ffaf00",
        "added": "#ffffff on #004d00",
        "removed": "#ffffff on #660000",
        "asked": "#ffffff",
        "asked-ground": "#303030",
    },
    "nacre-plain": {"results": "ansi_default", "added": "ansi_default", "removed": "ansi_default"},
}
"""Of each theme: the colour of tool results in the bars, the styles of added and removed lines, and the
colours of the user's messages."""
TINTED = {
    "ansi-dark": {
        "added": "#d7e8dc on #1c3527",
        "removed": "#f0c4c4 on #402024",
        "asked": "#f0f0f0",
        "asked-ground": "#303236",
    },
    "ansi-light": {
        "added": "#1f2a22 on #d9f5e0",
        "removed": "#8c1d18 on #ffe1df",
        "asked": "#1a1a1a",
        "asked-ground": "#ebedf0",
    },
}
"""The same where the terminal has 24-bit colours.

The foreground is set, too, since the background of the terminal is not known."""
UNDIM = DimFilter(dim_factor=1.0)
"""Draws dim text like any other."""


class ThemedApp(App[int]):
    """An app with these themes."""

    def __init__(self) -> None:
        super().__init__(ansi_color=True)  # else NO_COLOR means black on black
        for theme in (CONTRAST, PLAIN):
            self.register_theme(theme)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        tinted = TINTED.get(self.theme, {}) if self.console.color_system == "truecolor" else {}
        plain = {"asked": "ansi_default", "asked-ground": "ansi_default"}
        return {**plain, **VARIABLES.get(self.theme, VARIABLES["ansi-dark"]), **tinted}

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return [UNDIM, *filters] if self.theme == NAMES["contrast"] else filters


def theme_for(environ: Mapping[str, str], home: Path) -> str:
    """Return the chosen theme, or else the one for the terminal's background."""
    try:
        chosen = (home / FILE).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        chosen = ""
    if chosen in NAMES:
        return NAMES[chosen]
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return NAMES["light" if background in LIGHT_BACKGROUNDS else "dark"]


def keep_theme(name: str, home: Path) -> None:
    """Store the chosen theme for the next chats."""
    disk.make_folder(home)
    disk.replace_file(home / FILE, name.encode(), temp_name=f".{FILE}.tmp")


def theme_line(theme: str) -> str:
    """Return a line with the current theme and the commands that choose another."""
    now = next((name for name, each in NAMES.items() if each == theme), theme)
    return f"the theme is {now}; /theme {', /theme '.join(NAMES)} change it"
