"""The settings of nacre that are compared, from the cheapest to the one that forgets least.

They were chosen on every other recording, by name, beginning with the first; the tables are about the rest.
`nacre-chat` is a chat with default settings: notes, memories and summaries by the model; `nacre-tools` adds
the results of nacre's own tools; `nacre-model` asks for summaries only. The others call no model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.replay.agent_framework_peer import ContextWindow
from bench.replay.langchain_peer import ClearToolUses, Summarization, SummarizationWithTail
from bench.replay.openai_agents_peer import Trimmer
from bench.replay.peer import Library, Peer, Room
from bench.replay.pydantic_peer import Tiered
from nacre.devtools.replay.policies import (
    CLAUDE_CODE,
    NACRE,
    NACRE_CHAT,
    NACRE_MODEL,
    NACRE_TOOLS,
    NONE,
    TRUNCATE,
    ByLayers,
    Ladder,
)
from nacre.devtools.replay.side_work import SideWorkSettings
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l2_microcompact.settings import MicrocompactSettings
from nacre.layers.l4_compact.policy import CompactSettings


def _layers(*, tail_tokens: int = 20_000, room_share: float = 0.5, room_tokens: int = 200_000) -> ByLayers:
    """Compaction by rule with fewer words and actions, and so much of the newest rounds and of the room."""
    return ByLayers(
        settings=CompactSettings(
            past_tokens=8_000, tail_tokens=tail_tokens, room_share=room_share, room_tokens=room_tokens
        )
    )


LEAN = replace(NACRE, name="nacre, lean", compaction=_layers(room_share=0.4, room_tokens=30_000))
"""Cheapest: what stands after a compaction leaves the most room."""
KEPT = replace(
    NACRE,
    name="nacre, kept",
    clearing=MicrocompactSettings(keep=20, edited_tokens=48_000),
    compaction=_layers(tail_tokens=30_000, room_share=0.6),
)
"""Less of what was done and more of the newest rounds and results, which edits need word for word."""
PLAIN = replace(NACRE, name="nacre, plain", offload=None, clearing=None, compaction=_layers())
"""Nothing offloaded and nothing cleared; kept warm and compacted."""
PLAIN_ROOMY = replace(
    PLAIN,
    name="nacre, plain, roomy",
    compaction=_layers(tail_tokens=80_000, room_share=0.85),
)
"""The same with the longest tail."""
FORKS = replace(NACRE_CHAT, name="nacre-chat, no small model", side_work=SideWorkSettings(small_model="none"))
"""Notes and memories by forks of the session, as where no small model of the vendor is known."""
UNREFRESHED = replace(NACRE_CHAT, name="nacre-chat, no refreshes", warming=None)
"""Where a request without output is refused, as with thinking on: only notes and memories renew the cache."""
LARGE = replace(NACRE_CHAT, name="nacre-chat, results to 32,000", offload=OffloadSettings(max_chars=32_000))
"""Results of commands up to 32,000 characters stay, where much of them is needed later."""
CHATS = (NACRE_MODEL, NACRE_CHAT, NACRE_TOOLS, FORKS, UNREFRESHED, LARGE)
OURS: tuple[Ladder, ...] = (LEAN, NACRE, *CHATS, KEPT, PLAIN, PLAIN_ROOMY)
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
