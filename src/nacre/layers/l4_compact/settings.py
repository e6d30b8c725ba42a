"""How a conversation that is too long is cut down: settings, read before anything else is loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSettings:
    """How a conversation that is too long is cut down."""

    tail_tokens: int = 20_000
    """The newest rounds that stay word for word: on recorded sessions they kept most of what was needed."""
    words_tokens: int = 8_000
    """A person's words, verbatim, at most."""
    past_tokens: int = 16_000
    """Words and actions together, a few lines for each call: in recorded sessions more kept little more."""
    names_tokens: int = 6_000
    """An index of the names that nothing else shows, a tenth of the room beside the tail at most; 0: none."""
    summary_tokens: int = 20_000
    """Output of the request for a summary."""
    summary_room: int = 40_000
    """Room for a conversation, below which a model with a price is not asked for notes and summaries
    automatically: compactions are so frequent there that both would cost a tenth of it or more."""
    room_share: float = 0.5
    """Of threshold minus base: all that stands after a compaction fits into it (C21)."""
    room_tokens: int = 40_000
    """At most, however large the window: more is written to the cache and read with every request, and in
    recorded sessions kept no more of what was needed."""
    max_files: int = 5
    """Files read lately that are read again from disk."""
    file_tokens: int = 5_000
    """Of each of them: enough to go on with; what is cut can be read."""
    files_tokens: int = 50_000
    """Of all of them together."""
    max_retries: int = 3
    """Shorter and shorter requests for a summary, where the whole was too long (C24)."""
    drop_share: float = 0.2
    """Of the rounds, dropped before a retry when the provider does not say how much was too much."""
    max_failures: int = 3
    """Failed summaries in a row; then none is asked for by itself any more (C25)."""
    thrash_turns: int = 3
    """Full again within so many turns of a compaction is thrashing, so many times running (C25)."""
    wait_seconds: float = 15.0
    """How long a turn past the blocking limit waits for a summary that is being prepared."""
    summary_seconds: float = 180.0
    """A summary that takes longer hangs."""
    least_share: float = 0.1
    """Of the view: a compaction that frees less is not worth the prefix it moves."""
