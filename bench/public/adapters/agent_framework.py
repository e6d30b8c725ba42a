"""Agent Framework: the topics of its memory provider, and its compaction strategy; no model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.public.adapter import SHOWN, Adapter, Hit, SavedMemory, Turn
from bench.replay.agent_framework_peer import ContextWindow


class AgentFramework(Adapter):
    name = "agent-framework"
    package = "agent-framework-core"
    how = "`MemoryFileStore` and the selection of `MemoryContextProvider`; `ContextWindowCompactionStrategy`"
    library = ContextWindow

    def __init__(self, folder: Path, *, project: Path | None = None) -> None:
        super().__init__(folder, project=project)
        with warnings.catch_warnings():
            # It calls its memory experimental.
            warnings.simplefilter("ignore")
            import agent_framework as af

            self._af: Any = af
            self._store = af.MemoryFileStore(folder / "agent-framework", owner_state_key="owner")
            self._provider: Any = af.MemoryContextProvider(store=self._store, selection_limit=SHOWN)
        self._session = af.AgentSession()
        self._session.state["owner"] = "bench"
        self._entries: list[Any] = []
        self._texts: dict[str, str] = {}

    def save(self, memory: SavedMemory) -> str:
        number = len(self._entries)
        slug, moment = f"memory-{number}", memory.modified.isoformat()
        topic, summary = memory.title or slug, memory.summary or memory.text
        self._write(topic, summary, memory.text, moment)
        self._entries.append(self._af.MemoryIndexEntry(topic, slug, summary, moment))
        self._texts[slug] = memory.whole
        return slug

    def search(self, message: str) -> list[Hit]:
        messages = [self._af.Message(role="user", contents=[message])]
        found = self._provider._select_topics(entries=self._entries, input_messages=messages)
        return [Hit(entry.slug, self._texts[entry.slug]) for entry in found]

    def write(self, statement: str, said: Sequence[Turn]) -> bool:
        self._write("Matter", statement, statement, said[-1].at.isoformat())
        topics = self._store.list_topics(self._session, source_id="memory")
        return any(statement in one.memories for one in topics)

    def _write(self, topic: str, summary: str, text: str, moment: str) -> None:
        record = self._af.MemoryTopicRecord(
            topic=topic, summary=summary, memories=[text], updated_at=moment, session_ids=["bench"]
        )
        self._store.write_topic(self._session, record, source_id="memory")
