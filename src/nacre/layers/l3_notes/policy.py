"""Decides when session notes are due: pure, no clock, no disk (C14)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesSettings:
    """How notes are kept."""

    always: bool = False
    """Keep them even where nothing is compacted by itself, and nothing will ever stand on them."""
    least_room: int = 40_000
    """Room for a conversation, below which a model with a price keeps no notes (C24b). A chat takes it from
    `compaction.summaryRoom`."""
    first_tokens: int = 75_000
    """A shorter conversation needs no notes: it fits twice over, and most sessions end before that. Half of
    the room before a compaction is enough, where that is less."""
    growth_tokens: int = 5_000
    """What must have been added since the last update for another to say anything new; a quarter of the room
    before a compaction, where that is less."""
    growth_share: float = 0.25
    """The same as a share of the conversation, where that is more: an update reads all of it again, and one
    every 5,000 tokens cost four fifths of what a long conversation did."""
    max_growth_tokens: int = 25_000
    """However long it is: a compaction keeps what the notes do not know word for word, and must have room."""
    min_calls: int = 3
    """Calls since the last update; a reply without any is a pause just as good."""
    section_tokens: int = 2_000
    """A section beyond this is a log, not a note."""
    total_tokens: int = 12_000
    """All sections together: what a compaction can afford to carry."""
    actions_tokens: int = 1_500
    """What an update is reminded of, line by line: it is paid for at the full price each time."""
    min_tail_tokens: int = 10_000
    """Kept word for word behind what the notes cover (C16)."""
    min_tail_texts: int = 5
    """Messages with text kept behind it."""
    max_tail_tokens: int = 40_000
    wait_seconds: float = 15.0
    """How long a turn past the blocking limit waits for an update that is under way."""
    stale_seconds: float = 60.0
    """An update older than this is considered stuck and is not waited for."""
    max_rounds: int = 5
    """Model calls of one update: read, edit in parallel, mend."""
    max_output: int = 20_000
    """Output tokens of one model call."""
    max_failures: int = 3
    """In a row; then notes rest for the session, with one notice (F5)."""


NACRE = NotesSettings()
FIRST_SHARE = 0.5
GROWTH_SHARE = 0.25
"""Shares of the room before a compaction; figures for large windows would never be reached in small ones."""
NOTES_SHARE = 0.25
"""Share of that room for all notes, which an update quotes and a compaction carries."""
LEAST_NOTES_TOKENS = 1_000
"""Tokens of all notes in the smallest window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesInputs:
    """State of the session after a reply."""

    tokens: int
    """Tokens of the whole context."""
    head_tokens: int = 0
    """Tokens of system prompt and tools, which need no notes."""
    limit_tokens: int | None = None
    """Context size at which the conversation is compacted; None if that is far away."""
    since_tokens: int | None = None
    """Context size at the last update, or after a later compaction; None before the first."""
    calls: int = 0
    """Tool calls since then."""
    is_pause: bool = True
    """The last reply called no tool."""
    is_running: bool = False
    """An update is running; the question is repeated when it ends."""
    failures: int = 0
    """In a row."""
    has_price: bool = False
    """Whether the model has a price."""


def due(moment: NotesInputs, settings: NotesSettings = NACRE) -> bool:
    """Return whether there is enough new for a model to update the notes."""
    if moment.is_running or moment.failures >= settings.max_failures:
        return False
    room = inf if moment.limit_tokens is None else max(0, moment.limit_tokens - moment.head_tokens)
    if moment.has_price and room < settings.least_room and not settings.always:
        return False
    if moment.since_tokens is None:
        return moment.tokens - moment.head_tokens >= min(settings.first_tokens, room * FIRST_SHARE)
    noted = moment.since_tokens - moment.head_tokens
    share = min(int(noted * settings.growth_share), settings.max_growth_tokens)
    least = min(settings.growth_tokens, room * GROWTH_SHARE)
    has_grown = moment.tokens - moment.since_tokens >= max(least, share)
    return has_grown and (moment.is_pause or moment.calls >= settings.min_calls)


def fitted(settings: NotesSettings, *, room: int) -> NotesSettings:
    """Return the settings with the budget of all notes for a window with so much room (C15)."""
    total = max(LEAST_NOTES_TOKENS, int(room * NOTES_SHARE))
    return replace(settings, total_tokens=min(settings.total_tokens, total))


def is_wanted(*, switch: bool, compacts: bool, settings: NotesSettings = NACRE) -> bool:
    """Return whether a session keeps notes: only with automatic compaction, or `always`."""
    return switch and (compacts or settings.always)
