"""Commands and keys that only the full-screen chat has."""

from __future__ import annotations

from textual.binding import Binding, BindingType

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
KEYS = """\
@ completes files, !command runs one in the shell, #text saves a memory, Ctrl+G opens your editor.
Ctrl+J begins a new line, ↑ and ↓ bring back what was typed before, Ctrl+R searches it, Tab completes.
Ctrl+O opens the newest call; Ctrl+↑ goes to the calls above, Enter opens one.
Shift+Tab changes what is allowed without a question: ask, accept edits, plan, read only.
PgUp PgDn scroll, F2 memory, F3 sessions, F4 background, F5 confirms an unverified memory.
Ctrl-C stops, Ctrl-D leaves."""

OWN_HELP = NoticeLine(
    "\n".join([*(f"/{name:<9} {says}" for name, says in OWN_COMMANDS.items()), KEYS]), "plain"
)
