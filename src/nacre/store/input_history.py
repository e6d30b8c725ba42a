"""Typed input: its history across sessions, one file of lines as in readline, and its short forms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from nacre.store import disk

FILE = "chat_history"
MAX_LINES = 1_000
"""Older lines are no more useful than the transcripts that also contain them."""
GOES_ON = "\\"
"""At the end of a line: the next one belongs to the same message."""

_REMEMBER = re.compile(r"#[ \t]*([^\W\d][^\n]*)")
"""One line; `#12` is an issue, `##` and a line with others below it a heading."""


def remember_command(text: str) -> str | None:
    """Return `/remember TEXT` for a line `#TEXT`, else None."""
    found = _REMEMBER.fullmatch(text.strip())
    return f"/remember {found[1]}" if found else None


def read_typed(home: Path) -> list[str]:
    """Return typed messages, the oldest first; empty if the file cannot be read."""
    try:
        lines = (home / FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found: list[str] = []
    rest = ""
    for line in lines:
        if line.endswith(GOES_ON):
            rest += line[:-1] + "\n"
            continue
        found.append(rest + line)
        rest = ""
    return [*found, *([rest.rstrip("\n")] if rest else [])]


def write_typed(home: Path, messages: Sequence[str]) -> None:
    """Write the lines for the next session, readable by their owner only; raises `OSError`."""
    lines = [line for one in messages for line in one.replace("\n", f"{GOES_ON}\n").split("\n")][-MAX_LINES:]
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    data = "".join(f"{line}\n" for line in lines).encode(errors="replace")
    # All or nothing, because a full disk must not lose the old lines; two chats may end at the same time.
    disk.replace_file(home / FILE, data)
