"""Commands and keys that only the full-screen chat has."""

from __future__ import annotations

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
