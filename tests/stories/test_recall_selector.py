"""A small model judges what the local index is not sure of, while the message waits for a moment (R1, R5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.context.recall import MAX_FAILURES, Recall, RecallOptions, Selector
from nacre.devtools.sim import Script, SimClock, Simulator
from nacre.devtools.sim.replies import parse_script
from nacre.inspect.context_usage import contents_now
from nacre.loop.round import message_record
from nacre.memory.format.entry import Entry
from nacre.memory.memory import Memory, MemoryChange, MemoryDraft
from nacre.memory.recall.base import RankedMemory, RecallQuery
from nacre.messages.blocks import Text
from nacre.messages.events import ProviderEvent
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.settings import load
from nacre.testing import FrozenClock, ScriptedProvider, say
from tests.stories.scenes import environment, quiet
from tests.stories.scenes import say as talk

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


async def test_after_several_failures_in_a_row_it_is_not_asked_again(tmp_path: Path) -> None:
    """R6: a server that has no such model delays no further message."""
    small = ScriptedProvider(otherwise=lambda request: say("I cannot say."))
    recall = recall_of(Ranked(tmp_path, weak=0.6, other=0.1), small)
    for _ in range(MAX_FAILURES + 2):
        assert await attached(recall) == ["weak"]
    assert len(small.requests) == MAX_FAILURES
    await recall.close()


DRINKS = "The person drinks green tea."
DRINKS_FILE = "user_person_drinks_green_tea.md"
GUEST = "what would be nice to serve our guest?"


@pytest.mark.parametrize(
    ("environ", "asks"),
    [
        ({"NACRE_RECALL_SELECTOR": "auto"}, True),
        ({"NACRE_RECALL_SELECTOR": "auto", "NACRE_RECALL_SELECTOR_WAIT_MS": "0"}, True),
        ({"NACRE_RECALL_SELECTOR": "false"}, False),
    ],
    ids=["with a key", "without a wait", "switched off"],
)
async def test_with_a_key_the_small_model_of_the_vendor_chooses(
    environ: dict[str, str], asks: bool, tmp_path: Path
) -> None:
    """R5: nothing else is configured; what it costs is shown with the costs of the session."""
    cwd = quiet(tmp_path / "work")
    reply = f'{{"selected_memories": ["{DRINKS_FILE}"]}}'
    # Long enough for a selector that is not waited for to ask before the turn ends.
    main = parse_script([{"text": "Green tea.", "delay": 1.0}])
    async with Simulator(Script(main, parse_script([reply])), clock=SimClock(real=True)) as sim:
        keys = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": sim.url}
        waits = {"NACRE_RECALL_SELECTOR_WAIT_MS": "10000"}
        settings = load(
            cwd, {**environment(cwd), **keys, **waits, **environ}, cli={"model": "claude-opus-5-5"}
        )
        memory = await Memory.open(cwd, environ=settings.environ)
        await memory.save(MemoryDraft(body=DRINKS), MemoryChange(author="user", reason="by hand"))
        async with open_agent(settings) as ready:
            await talk(ready.agent, GUEST)
            layers = contents_now(ready.agent.session).layers
        sent = {str(one.body["model"]): str(one.body["messages"]) for one in sim.log}
    is_waited_for = environ.get("NACRE_RECALL_SELECTOR_WAIT_MS") != "0"
    assert ("claude-haiku-5-5" in sent) == asks
    assert ("From your memory" in sent["claude-opus-5-5"]) == (asks and is_waited_for)
    if asks and is_waited_for:
        assert layers["recall"].times == 1 and layers["recall"].spent_usd > 0


async def test_a_program_that_brings_its_own_provider_sends_nothing_elsewhere(tmp_path: Path) -> None:
    """R5: a key in the environment is no permission to use another model beside the given one."""
    cwd = quiet(tmp_path / "work")
    auto = {"ANTHROPIC_API_KEY": "k", "NACRE_RECALL_SELECTOR": "auto"}
    settings = load(cwd, {**environment(cwd), **auto})
    memory = await Memory.open(cwd, environ=settings.environ)
    await memory.save(MemoryDraft(body=DRINKS), MemoryChange(author="user", reason="by hand"))
    async with open_agent(settings, provider=ScriptedProvider([say("Tea.")])) as ready:
        assert ready.recall is not None and ready.recall._selector is None
        await talk(ready.agent, GUEST)
