"""What a call would do, shown to a person before they say yes: a diff, a command, an address."""

from __future__ import annotations

import difflib
from pathlib import Path

from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject
from nacre.messages.wire import canonical
from nacre.tools.edit import replaced
from nacre.tools.files import decode, printable, read_whole
from nacre.tools.workspace import Workspace, in_thread

MAX_LINES = 60
"""Of a diff: what does not fit on a screen is not read, only agreed to."""
MAX_CHARS = 8_000


async def preview(tool: str, arguments: JsonObject, workspace: Workspace) -> str:
    """The call as a person should see it; what cannot be shown is shown as it was given."""
    match tool:
        case "Bash":
            return str(arguments.get("command", ""))
        case "WebFetch":
            return str(arguments.get("url", ""))
        case "Edit" | "Write":
            named = str(arguments.get("file_path", ""))
            path = workspace.locate(named)
            return await in_thread(lambda stop: _diff(tool, arguments, path, named))
        case _:
            lines = (f"{name}: {canonical(value).decode()}" for name, value in sorted(arguments.items()))
            return _short("\n".join(lines) or "(no arguments)")


def _diff(tool: str, arguments: JsonObject, path: Path, named: str) -> str:
    try:
        before = decode(read_whole(path, named)[0], named)[0] if path.exists() else ""
    except ToolError as error:
        return f"{named}: {error}"
    if tool == "Write":
        after = str(arguments.get("content", ""))
    else:
        after, places = replaced(
            before, str(arguments.get("old_string", "")), str(arguments.get("new_string", ""))
        )
        if not places:
            return f"{named}: the text to replace is not in the file, so nothing would change"
    lines = list(
        difflib.unified_diff(
            printable(before).splitlines(), printable(after).splitlines(), named, named, lineterm="", n=2
        )
    )
    shown = lines[:MAX_LINES]
    more = [f"… {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    return _short("\n".join([*shown, *more]) or f"{named}: no change")


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + " …"
