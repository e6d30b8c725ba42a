"""The settings of nacre that are compared, from the cheapest to the one that forgets least.

They were chosen on every other recording, by name, beginning with the first; the tables are about the rest.
Two of them (`no summary` and `kept`) were tried on the first half only after the tables had been seen once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.replay.agent_framework_peer import ContextWindow
from bench.replay.langchain_peer import ClearToolUses, Summarization, SummarizationWithTail
from bench.replay.openai_agents_peer import Trimmer
from bench.replay.peer import Library, Peer, Room
from bench.replay.pydantic_peer import Tiered
from nacre.replay.policies import CLAUDE_CODE, NACRE, NONE, TRUNCATE, Ladder
from nacre.replay.stand_in import CompactionSettings

LEAN = replace(NACRE, name="nacre, lean", compaction=CompactionSettings(tail_tokens=10_000, room_share=0.4))
"""A short tail: cheapest of those that ask for a summary."""
ROOMY = replace(
    NACRE, name="nacre, roomy", compaction=CompactionSettings(tail_tokens=80_000, room_share=0.75)
)
"""A long tail, as far as three quarters of the room allow it."""
FULL = replace(NACRE, name="nacre, full", compaction=CompactionSettings(tail_tokens=80_000, room_share=0.95))
"""As much of the window as there is; it is rewritten more often."""
BARE = replace(
    NACRE,
    name="nacre, no summary",
    compaction=CompactionSettings(summary_tokens=0, tail_tokens=80_000, room_share=0.95),
)
"""The same without asking any model: a line says that something was left out."""
assert NACRE.clearing is not None
KEPT = replace(BARE, name="nacre, no summary, kept", clearing=replace(NACRE.clearing, full=False))
"""The same, and what was read stays until it is left out: edits need it word for word."""
PLAIN = replace(
    NACRE,
    name="nacre, plain",
    offload=None,
    clearing=None,
    compaction=CompactionSettings(tail_tokens=100_000, room_share=0.85),
)
"""Nothing offloaded and nothing cleared; kept warm, and compacted with the longest tail."""
OURS: tuple[Ladder, ...] = (LEAN, NACRE, ROOMY, FULL, BARE, KEPT, PLAIN)
REFERENCES: tuple[Ladder, ...] = (NONE, TRUNCATE, CLAUDE_CODE)


@dataclass(frozen=True, slots=True)
class Named:
    """A library and the package it comes in."""

    name: str
    package: str
    make: Callable[[Room], Library]

    @property
    def peer(self) -> Peer:
        return Peer(self.name, self.make)


PEERS = (
    Named("LangChain, summarization", "langchain", Summarization),
    Named("LangChain, summarization with tail", "langchain", SummarizationWithTail),
    Named("LangChain, clear tool uses", "langchain", ClearToolUses),
    Named("pydantic-ai-harness, tiered", "pydantic-ai-harness", Tiered),
    Named("OpenAI Agents, output trimmer", "openai-agents", Trimmer),
    Named("agent-framework, context window", "agent-framework-core", ContextWindow),
)
