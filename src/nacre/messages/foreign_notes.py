"""Lines of other programs in a session log: titles, tags and the like."""

from __future__ import annotations

from dataclasses import replace

from nacre.clock import Clock
from nacre.messages.records import Noted
from nacre.messages.view import View

FOREIGN = ("foreign/", "attachment/", "system/")
"""Lines of another program, kept where they stand; those of `LISTED` are written again."""
LISTED = tuple(
    f"foreign/{name}"
    for name in (
        "custom-title", "ai-title", "tag", "agent-name", "agent-color", "agent-setting", "mode",
        "worktree-state", "pr-link", "last-prompt",
    )
)  # fmt: skip
"""What lists of sessions show: readers of another program look for it at the end of a log only."""


def listed_again(view: View, clock: Clock) -> tuple[Noted, ...]:
    """Title, tags and the like, to be appended behind a compaction; they go into the log as they came."""
    last = (view.last_noted(kind) for kind in LISTED)
    return tuple(replace(note, id=clock.new_id(), at=clock.now()) for note in last if note)
