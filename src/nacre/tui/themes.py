"""Themes of the full-screen chat; all but high contrast use the colours of the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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
