"""Output of compactions for the chat and `nacre compact`, and the selection of messages."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nacre.cli.output import has_colour, printable
from nacre.errors import NothingToCompact, TranscriptError
from nacre.messages.draft import WHOLE, ItemSpan
from nacre.messages.rounds import cuts
from nacre.session.compaction import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nacre.messages.blocks import JsonObject
    from nacre.messages.pairing import Item
    from nacre.session.compaction import Compaction

TICK_SECONDS = 1.0
"""Seconds between two updates of the elapsed time."""
SHORT_ID = 8
"""Characters of an id in a command to be typed again."""
WORTH_SAYING = 0.1
"""Seconds below which no duration is shown."""
NAMED_FILES = 5
"""Files named individually; the rest is counted."""
HOW = {
    "full": "with a model's summary",
    "notes": "from the session's notes",
    "rules": "by rule, without a model",
}


def span_of(items: Sequence[Item], *, start: str | None = None, end: str | None = None) -> ItemSpan:
    """Return the part from a message on or up to one, moved so that calls and results stay together."""
    if start is not None:
        first = _safe(items, place_of(items, start))
        return ItemSpan(first=first) if first else WHOLE
    if end is None:
        return WHOLE
    keeps_from = _safe(items, place_of(items, end))
    if keeps_from == 0:
        raise NothingToCompact(f"nothing comes before message {end}; name a later one")
    return ItemSpan(keeps_from=keeps_from)


def place_of(items: Sequence[Item], wanted: str) -> int:
    """Return the index of a message named by its number in `nacre sessions show`, its id or an id prefix.

    A short number is never an id prefix: random ids begin with digits, too.
    """
    if wanted.isdecimal() and 1 <= int(wanted) <= len(items):
        return int(wanted) - 1
    is_prefix = wanted and not (wanted.isdecimal() and len(wanted) < SHORT_ID)
    found = [place for place, item in enumerate(items) if item.record_id == wanted] or [
        place for place, item in enumerate(items) if is_prefix and item.record_id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    several = f"{len(found)} messages have ids that begin with" if found else "no message in view matches"
    raise TranscriptError(
        f"{several} {wanted!r}; `nacre sessions show ID` numbers them from 1 to {len(items)}"
    )


def _safe(items: Sequence[Item], place: int) -> int:
    return max(cut for cut in cuts(items) if cut <= place)


@asynccontextmanager
async def progress() -> AsyncIterator[Callable[[str], None]]:
    """Return a function that shows the current step with its duration, on a terminal only."""
    if not has_colour(sys.stderr):
        yield lambda _: None
        return
    line = _ProgressLine()
    ticking = asyncio.create_task(line.tick())
    try:
        yield line.say
    finally:
        ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticking
        line.clear()


class _ProgressLine:
    """A temporary line on stderr."""

    def __init__(self) -> None:
        self._stage = "compacting"
        self._ticks = 0

    def say(self, stage: str) -> None:
        self._stage = stage
        self._show()

    async def tick(self) -> None:
        while True:
            self._show()
            await asyncio.sleep(TICK_SECONDS)
            self._ticks += 1

    def clear(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show(self) -> None:
        seconds = f" {self._ticks * TICK_SECONDS:.0f} s" if self._ticks else ""
        print(f"\r{printable(self._stage)}…{seconds}\x1b[K", end="", file=sys.stderr, flush=True)


def compaction_lines(done: Compaction, session: str, *, undo: str, words_file: str = "") -> list[str]:
    """Describe the result of a compaction; `undo` is the command that undoes it."""
    share = f" ({done.after / done.before:.0%})" if done.before else ""
    took = f" in {done.seconds:.1f} s" if done.seconds >= WORTH_SAYING else ""
    lines = [f"compacted {HOW[done.kind]}: about {done.before:,} tokens became {done.after:,}{share}{took}"]
    kept = [
        f"{counted(done.kept_before, 'message')} before it" if done.kept_before else "",
        f"{counted(done.kept_messages, 'message')} at the end" if done.kept_messages else "",
    ]
    if any(kept):
        lines.append(f"  kept as it was: {' and '.join(filter(None, kept))}")
    if done.words_kept or done.words_left:
        file = printable(words_file) or "a file"
        more = f"; {done.words_left:,} more in {file}" if done.words_left else ""
        none = f"none here; {counted(done.words_left, 'message')} of yours in {file}"
        kept_words = f"{counted(done.words_kept, 'message')} of yours{more}" if done.words_kept else none
        lines.append(f"  word for word: {kept_words}")
    if done.files:
        names = ", ".join(printable(name) for name in done.files[:NAMED_FILES])
        more = f" and {len(done.files) - NAMED_FILES} more" if len(done.files) > NAMED_FILES else ""
        lines.append(f"  read again from disk: {names}{more}")
    if done.dropped:
        lines.append(f"  taken out of the summary: {counted(done.dropped, 'quotation')} that nobody said")
    lines.append(f"Nothing is lost: `nacre sessions show {session[:SHORT_ID]} --full` has it all; {undo}")
    return lines


def compaction_json(done: Compaction, session: str) -> JsonObject:
    return {
        "session": session,
        "record": done.record.id,
        "kind": done.kind,
        "before": done.before,
        "after": done.after,
        "kept_before": done.kept_before,
        "kept_messages": done.kept_messages,
        "words_kept": done.words_kept,
        "words_left": done.words_left,
        "files": list(done.files),
        "dropped": done.dropped,
        "seconds": round(done.seconds, 3),
    }
