"""A small model judges what the local index is not sure of, while the message waits for a moment (R1, R5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from nacre.context.recall import Recall, RecallOptions, Selector
from nacre.loop.round import message_record
from nacre.memory.format.entry import Entry
from nacre.memory.recall.base import RankedMemory, RecallQuery
from nacre.messages.blocks import Text
from nacre.messages.events import ProviderEvent
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.testing import FrozenClock, ScriptedProvider, say

MESSAGE = "when do releases go out?"


class Ranked:
    """An index with given confidences."""

    def __init__(self, directory: Path, **confidences: float) -> None:
        self.confidences = confidences
        self.directory = directory
        for name in confidences:
            (directory / f"{name}.md").write_text(f"What {name} says.")

    def refresh(self) -> None: ...

    def rank(self, query: RecallQuery, *, limit: int) -> list[RankedMemory]:
        return [
            RankedMemory(
                entry=Entry(file=f"{name}.md"), directory=self.directory, score=1.0, confidence=confidence
            )
            for name, confidence in self.confidences.items()
        ]

    def everything(self) -> list[RankedMemory]:
        return self.rank(RecallQuery(text="", now=FrozenClock().now()), limit=50)

    def deepen(self, *, seconds: float) -> int:
        return 0


class Delayed(ScriptedProvider):
    """Answers when it is allowed to."""

    def __init__(self, *names: str) -> None:
        chosen = ", ".join(f'"{name}.md"' for name in names)
        super().__init__([say(f'{{"selected_memories": [{chosen}]}}')])
        self.gate = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        await self.gate.wait()
        async for event in super().stream(request):
            yield event


def recall_of(index: Ranked, small: ScriptedProvider, *, wait: float = 5.0) -> Recall:
    selector = Selector(provider=small, model="small", is_remote=False, wait_seconds=wait)
    return Recall([index], clock=FrozenClock(), options=RecallOptions(selector=selector))


async def attached(recall: Recall, message: str = MESSAGE) -> list[str]:
    """The files that a message gets."""
    said = message_record("user", (Text(message),), FrozenClock())
    texts = [one.text for one in await recall.attach(said, View())]
    return list(_names("\n".join(texts)))


def _names(text: str) -> Sequence[str]:
    return [
        line.removeprefix("What ").removesuffix(" says.") for line in text.splitlines() if "What " in line
    ]


async def test_in_time_the_small_model_decides_about_all_that_is_not_nearly_certain(tmp_path: Path) -> None:
    """It takes away a weak local pick and adds what shares no words."""
    small = Delayed("other")
    small.gate.set()
    recall = recall_of(Ranked(tmp_path, sure=0.95, weak=0.6, other=0.1), small)
    assert await attached(recall) == ["sure", "other"]
    assert "weak.md" in str(small.requests[0].messages)
    assert "sure.md" not in str(small.requests[0].messages)
    assert recall.last is not None
    assert [(one.file, one.why) for one in recall.last.left_out] == [("weak.md", "not chosen")]
    await recall.close()


async def test_where_all_local_picks_are_nearly_certain_nothing_waits(tmp_path: Path) -> None:
    small = Delayed("other")
    recall = recall_of(Ranked(tmp_path, sure=0.95, other=0.1), small, wait=60)
    assert await asyncio.wait_for(attached(recall), 10) == ["sure"]
    await recall.close()


async def test_without_an_answer_in_time_the_local_picks_are_attached(tmp_path: Path) -> None:
    small = Delayed("other")
    recall = recall_of(Ranked(tmp_path, sure=0.95, weak=0.6, other=0.1), small, wait=0.02)
    assert await attached(recall) == ["sure", "weak"]
    await recall.close()


async def test_a_failed_request_leaves_the_local_picks(tmp_path: Path) -> None:
    """R6"""
    recall = recall_of(Ranked(tmp_path, weak=0.6, other=0.1), ScriptedProvider([say("I cannot say.")]))
    assert await attached(recall) == ["weak"]
    await recall.close()


@pytest.mark.parametrize(
    ("message", "confidence", "expected"),
    [
        ("and what about the release notes?", 0.3, ["other"]),
        ("now something else entirely", 0.1, []),
        ("ok", 0.1, ["other"]),
    ],
    ids=["it fits", "it does not", "the subject goes on"],
)
async def test_a_late_answer_is_attached_only_if_it_fits_the_next_message(
    message: str, confidence: float, expected: list[str], tmp_path: Path
) -> None:
    small = Delayed("other")
    index = Ranked(tmp_path, other=0.1)
    recall = recall_of(index, small, wait=0.02)
    assert await attached(recall) == []
    small.gate.set()
    async with asyncio.timeout(10):
        while any(task.get_name() == "select memories" for task in asyncio.all_tasks()):
            await asyncio.sleep(0.01)
    small.gate.clear()
    index.confidences["other"] = confidence
    assert await attached(recall, message) == expected
    await recall.close()
