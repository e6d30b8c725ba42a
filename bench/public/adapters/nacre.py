"""nacre without a model: recall, drift check, extraction by rule, and the check of what a model writes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from bench.public.adapter import Adapter, Hit, SavedMemory, Turn
from bench.writers import is_accepted
from nacre.app.extract_once import extract_by_rule
from nacre.devtools.replay.policies import NACRE_CHAT
from nacre.devtools.replay.schema import Maker
from nacre.errors import StoreError
from nacre.layers.l5_extract.judge import NewMessages
from nacre.memory.files.location import Location
from nacre.memory.format.entry import KINDS, MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.messages.facts import UserQuote
from nacre.settings import load
from nacre.testing import FrozenClock
from nacre.version import VERSION

BY_USER = MemoryChange(author="user", reason="the benchmark")


class Nacre(Adapter):
    name = "nacre"
    how = "recall by words; extraction by rule; statements checked as those of a model that extracts"
    with_vectors = False

    def __init__(self, folder: Path, *, project: Path | None = None) -> None:
        super().__init__(folder, project=project)
        directory = folder / "memory"
        directory.mkdir(parents=True)
        place = Location(
            directory=directory.resolve(), source="default", history=folder / "history.git",
            cache=folder / "cache", root=project,
        )  # fmt: skip
        self._clock = FrozenClock()
        self._runner = asyncio.Runner()
        self._memory = self._runner.run(Memory.at(place, project or folder, clock=self._clock))
        if not self.with_vectors:
            self._memory._ranker._meaning = None
        self._quotes: list[UserQuote] = []
        environ = {"HOME": str(folder), "NACRE_HOME": str(folder), "PATH": os.environ["PATH"]}
        self._settings = load(folder, environ)

    @classmethod
    def policy(cls) -> Maker | None:
        return NACRE_CHAT

    @classmethod
    def version(cls) -> str:
        return f"nacre {VERSION}"

    def save(self, memory: SavedMemory) -> str:
        self._at(memory.modified)
        kind = memory.kind if memory.kind in KINDS else "project"
        draft = MemoryDraft(
            body=memory.text, name=memory.title, description=memory.summary, kind=kind  # type: ignore[arg-type]
        )  # fmt: skip
        with suppress(StoreError):  # a text that seems to hold a credential
            return self._runner.run(self._memory.save(draft, BY_USER)).entry.file
        return ""

    def search(self, message: str) -> list[Hit]:
        self._at(self.now)
        picks = self._runner.run(self._memory.recall(message)).picks
        return [
            Hit(
                one.ranked.file,
                one.text,
                has_warning=bool(one.drift and (one.drift.gone or one.drift.unchecked)),
            )
            for one in picks
        ]

    def write(self, statement: str, said: Sequence[Turn]) -> bool:
        replies = [turn.text for turn in said if turn.role == "assistant"]
        messages = NewMessages(quotes=_quotes(said), replies=replies, count=len(said), last="x")
        return is_accepted(statement, messages, said[-1].at, self._memory)

    def chat(self, turn: Turn) -> None:
        if turn.role != "user":
            return
        self._at(turn.at)
        self._quotes.append(UserQuote(record_id=str(len(self._quotes)), at=turn.at, text=turn.text))
        heard = NewMessages(quotes=self._quotes[-1:], count=1, last=self._quotes[-1].record_id)
        self._runner.run(extract_by_rule(self._memory, heard, session="bench", settings=self._settings))

    def contents(self) -> list[tuple[str, str]]:
        entries = self._runner.run(self._memory.list())
        return [(str(one.kind or ""), f"{one.description}\n{one.body}") for one in entries]

    def close(self) -> None:
        self._runner.close()

    def _at(self, moment: datetime) -> None:
        self._clock._now = moment


class NacreEmbed(Nacre):
    name = "nacre-embed"
    how = "as nacre, with the extra `embed`; what does not search is the same"
    with_vectors = True
    write, chat = Adapter.write, Adapter.chat

    @classmethod
    def policy(cls) -> None:
        return None


def _quotes(said: Sequence[Turn]) -> list[UserQuote]:
    return [
        UserQuote(record_id=str(number), at=turn.at, text=turn.text)
        for number, turn in enumerate(said)
        if turn.role == "user"
    ]
