"""Commands and keys that only the full-screen chat has."""

from __future__ import annotations

import re

from textual.binding import Binding, BindingType
from textual.content import Content

from nacre.tui.pieces import NoticeLine

OWN_COMMANDS = {
    "memories": "look through memory: read, edit, history, undo, review (F2)",
    "work": "what goes on in the background: watch it, end it (F4)",
    "theme": "colours: /theme dark, light, contrast or plain",
}
"""Commands that only the full screen has."""
OPENS_AT_ONCE = frozenset({"/memories", "/work", "/resume"})
"""Those of them that open while a turn works."""
LEAVES = frozenset({"/exit", "/quit"})
KEY_BINDINGS: list[BindingType] = [
    Binding("ctrl+c", "stop", "stop", show=False, priority=True),
    Binding("ctrl+d", "leave_or_delete", "leave", show=False, priority=True),
    Binding("ctrl+q", "leave", "leave", show=False, priority=True),
    Binding("ctrl+o", "toggle_last", "open the newest call", show=False, priority=True),
    Binding("shift+tab", "next_mode", "mode", show=False, priority=True),
    Binding("ctrl+up", "app.focus_previous", "calls", show=False, priority=True),
    Binding("ctrl+g", "edit_prompt", "your editor", show=False, priority=True),
    Binding("ctrl+r", "search_typed", "earlier input", show=False, priority=True),
    Binding("f2", "memories", "memory", show=False),
    Binding("f3", "sessions", "sessions", show=False),
    Binding("f4", "work", "background", show=False),
    Binding("f5", "confirm", "confirm what was saved last", show=False),
    Binding("pageup", "page(-1)", show=False),
    Binding("pagedown", "page(1)", show=False),
]
KEYS = {
    "@": "completes a file or folder; Tab completes, too",
    "!command": "runs it in the shell; the model is not told",
    "#text": "saves it as a memory",
    "↑ ↓": "earlier input; Ctrl+R searches it",
    "Ctrl+J": "begins a new line; Ctrl+G opens your editor",
    "Ctrl+O": "opens the newest call; Ctrl+↑ goes to those above, Enter opens one",
    "Shift+Tab": "what needs no question: ask, accept edits, plan, read only",
    "PgUp PgDn": "scroll",
    "F2 F3 F4": "memory, sessions, work in the background",
    "F5": "confirms an unverified memory",
    "Ctrl-C": "stops; Ctrl-D leaves",
}

OWN_HELP = NoticeLine(
    "\n".join(
        [
            *(f"/{name:<9} {says}" for name, says in OWN_COMMANDS.items()),
            "",
            *(f"{key:<10} {does}" for key, does in KEYS.items()),
        ]
    ),
    "plain",
)


def key_hints(text: str) -> Content:
    """Return keys with what they do, such as `w why · Esc close`, the keys in colour."""
    parts = []
    for hint in text.split(" · "):
        key, space, does = hint.partition(" ")
        parts.append(Content.assemble((key, "$accent"), (space + does, "dim")))
    return Content.styled(" · ", "dim").join(parts)


def coloured_help(line: str) -> Content:
    """Return a line of output with the command or key that it begins with in colour."""
    begin = next((key for key in KEYS if line.startswith(f"{key} ")), "")
    name = re.match(r"/[a-z]+(?= )", line)
    return Content(line).stylize("$accent", 0, len(name[0]) if name else len(begin))
