"""Notes and compaction with a model that a person serves: what must hold whatever it answers.

Set NACRE_TEST_BASE_URL and NACRE_TEST_MODEL; docs/how-to/local-model.md says how. A weak model may fail at
every summary: then rules do it, and everything below holds all the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.layers.l4_compact.layer import undo_compaction
from nacre.layers.l4_compact.quotes import checked, is_said
from nacre.messages.blocks import Text
from nacre.messages.events import Notice, TurnDone
from nacre.messages.facts import Facts
from nacre.messages.records import Compacted
from nacre.messages.view import View
from nacre.session.compaction import CompactionRequest
from nacre.settings import Settings, load
from nacre.tools.base import Tool

# Read before the nets take such variables away.
ADDRESS, MODEL = os.environ.get("NACRE_TEST_BASE_URL", ""), os.environ.get("NACRE_TEST_MODEL", "")
KEY = os.environ.get("NACRE_TEST_API_KEY", "")
WINDOW = int(os.environ.get("NACRE_TEST_WINDOW", "16384"))

pytestmark = [
    pytest.mark.real_model,
    pytest.mark.skipif(
        not (ADDRESS and MODEL),
        reason="needs a model: set NACRE_TEST_BASE_URL and NACRE_TEST_MODEL (docs/how-to/local-model.md)",
    ),
]

RULES = (
    "Rule one, for everything that follows: answer with one short sentence and call no tool.",
    "Rule two: the harbour of Sund is called Kettleby Haven in all we write.",
    "Rule three: no ferry leaves before 06:40, whatever the timetable says.",
)
FOCUS = "the ferries of Kettleby Haven"
QUOTED = re.compile(r"\b(?:user|person) (?:said|wrote|asked|told)\b[^\"“\n]{0,20}[\"“]([^\"”\n]+)[\"”]")
"""What a summary says a person said, found without the code that checks it."""
FACT = "we deploy to staging only on Tuesdays, never on Fridays."
SMALL = 8_192
SHORT_REPLY = 100
"""Output tokens: a weak model that repeats itself ends soon."""
PASTE_TOKENS = 600
MAX_PASTES = 40
"""More than enough to fill the window."""


@pytest.fixture(autouse=True)
def closed_sockets() -> None:
    """Instead of the net under all other tests: the server may be elsewhere, for somebody named it."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "project").mkdir()
    environ = {
        "NACRE_HOME": str(tmp_path / "home"),
        "OPENAI_BASE_URL": ADDRESS,
        "NACRE_MODEL": f"openai/{MODEL}",
        "NACRE_MAX_CONTEXT_TOKENS": str(WINDOW),
        # A small window needs room for the summary behind what it is about.
        "NACRE_AUTOCOMPACT_PCT": "75",
        "NACRE_MAX_OUTPUT_TOKENS": "400",
        "NACRE_COMPACTION_SUMMARY_TOKENS": "2000",
    }
    if KEY:
        environ["OPENAI_API_KEY"] = KEY
    return load(tmp_path / "project", environ)


@pytest.mark.moves_prefix(reason="full compaction")
async def test_a_compaction_with_a_focus_keeps_words_invents_none_and_can_be_undone(
    settings: Settings,
) -> None:
    """C18, C20, C23: by whoever it was made."""
    async with talking(settings) as ready:
        session = ready.agent.session
        for rule in RULES:
            await said(ready, rule)
        for number in range(MAX_PASTES):
            if session.tokens >= session.thresholds.warning - PASTE_TOKENS:
                break
            await said(ready, timetable(number))
        before = session.view
        done = await ready.compact.compact(CompactionRequest(focus=FOCUS))
        told(ready, f"{done.line} ({done.kind})")
        assert done.after < done.before
        assert_honest(session.view, done.record, RULES)

        await said(ready, "In one sentence: when does the first ferry leave, and from where?")
        assert_honest(session.view, done.record, RULES)

        assert (await undo_compaction(session)) == done.record
        assert list(session.view.messages)[: len(before.messages) - 1] == list(before.messages)[:-1]
        undone, name = session.view.messages, session.id
    async with open_agent(settings, tools=what_notes_need, session=name) as again:
        assert list(again.agent.session.view.messages) == list(undone)


@pytest.mark.moves_prefix(reason="full compaction")
async def test_a_conversation_that_fills_its_window_goes_on_by_itself(settings: Settings) -> None:
    """C16, C25, C26: from notes, with a summary or by rule; no turn fails for want of room."""
    async with talking(settings) as ready:
        session = ready.agent.session
        for rule in RULES:
            await said(ready, rule)
        for number in range(MAX_PASTES):
            if boundaries(session.view):
                break
            await said(ready, timetable(number))
        assert boundaries(session.view), "the window never got full"
        await said(ready, "In one sentence: what is the harbour called?")
        assert session.tokens < session.thresholds.effective
        assert_honest(session.view, boundaries(session.view)[-1], RULES)


@pytest.mark.moves_prefix(reason="full compaction")
async def test_a_small_window_holds_saving_recall_notes_two_compactions_a_resume_and_a_dream(
    settings: Settings,
) -> None:
    """The small profile from end to end: what the person asked to remember is never lost."""
    settings = replace(settings, max_context_tokens=SMALL, max_output_tokens=SHORT_REPLY, is_interactive=True)
    async with open_agent(settings) as ready:
        assert len(ready.agent.session.base.tools) == 6
        await said(ready, f"Remember that {FACT}")
        told(ready, f"tools: {getattr(ready.agent.provider, 'support', None)}")
    async with open_agent(settings) as ready:
        session = ready.agent.session
        saved = [entry.body for entry in await ready.memories[0].list()]
        print(saved)
        assert any("Tuesdays" in body for body in saved), "saved by the model, or by rule at the end"
        await said(ready, "On which day do we deploy to staging?")
        recalled = ready.recalled()
        assert recalled is not None and recalled.picks
        for number in range(MAX_PASTES):
            if len(boundaries(session.view)) == 2:
                break
            await said(ready, timetable(number))
        assert len(boundaries(session.view)) == 2
        print([(one.extra["by"], one.pre_tokens, one.post_tokens) for one in boundaries(session.view)])
        assert session.folder is not None
        assert (session.folder / "session-memory" / "summary.md").read_text()
        name = session.id
        view = session.view
    async with open_agent(settings, session=name) as ready:
        assert list(ready.agent.session.view.messages) == list(view.messages)
        await said(ready, "In one sentence: what is this about?")
        assert ready.dream is not None
        ready.dream.begin()
        await ready.background.drain()
        print(ready.dream.last)
        assert any("Tuesdays" in entry.body for entry in await ready.memories[0].list())


@asynccontextmanager
async def talking(settings: Settings) -> AsyncIterator[OpenedAgent]:
    async with open_agent(settings, tools=what_notes_need) as ready:
        assert ready.choice is not None and ready.choice.provider_name == "openai"
        yield ready


def what_notes_need(usual: Sequence[Tool]) -> list[Tool]:
    """Of a small window the definitions of all tools would take nearly half."""
    return [tool for tool in usual if tool.name in {"Edit", "Read"}]


async def said(ready: OpenedAgent, text: str) -> None:
    """One turn; whatever a model does with it, it ends as turns end."""
    outcome = None
    async for event in ready.agent.stream(text):
        match event:
            case TurnDone():
                outcome = event.outcome
            case Notice():
                print(event.text)
            case _:
                pass
    assert outcome in {"answered", "turn_limit", "empty"}


def told(ready: OpenedAgent, line: str) -> None:
    """Shown with `pytest -s`: which way it went is worth knowing, and no reason to fail."""
    print(line, *(notice.text for notice in ready.agent.session.notices()), sep="\n")


def boundaries(view: View) -> list[Compacted]:
    return [record for record in view.records if isinstance(record, Compacted)]


def assert_honest(view: View, record: Compacted, rules: tuple[str, ...]) -> None:
    """Every rule stands there to the letter, and nothing that nobody said is said to have been."""
    blocks = [part.block for item in view.items for part in item.parts]
    shown = "\n".join(block.text for block in blocks if isinstance(block, Text))
    assert [rule for rule in rules if rule not in shown] == []
    words = [one.text for one in Facts.of(view.records).words]
    standing = "\n\n".join(block.text for block in record.summary if isinstance(block, Text))
    prose = standing.partition("## What the user said")[0]
    assert checked(prose, words).dropped == []
    assert [one for one in QUOTED.findall(prose) if not is_said(one, words)] == []


def timetable(number: int) -> str:
    """A long paste that no two times is the same."""
    lines = (
        f"Boat {number}-{n}: leaves berth {n % 7} at {6 + n % 16:02}:{n * 7 % 60:02}." for n in range(30)
    )
    return "\n".join(["Keep this timetable in mind.", *lines])
