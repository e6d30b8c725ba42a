"""What session notes cost, and what they spare: compactions that find a summary ready, and nobody waits.

A whole agent for a hundred turns, on the clock of `compaction.blocking`: it moves only when a tool takes its
time, or when nothing goes on because somebody waits. Every request is billed by the provider's cache rules.
The model is made up: it writes notes and summaries of a fixed length that say nothing, so that the figures
are about money and time, not about how good the words are.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from bench.compaction.blocking import (
    ROUND_SECONDS,
    SUMMARY_SECONDS,
    Slow,
    SlowClock,
    look_tool,
    pass_time,
    watched,
)
from bench.compaction.lossy import lossy
from bench.compaction.ours import environment, is_for_summary
from bench.machine import bar
from nacre import prompts
from nacre.app import model_layers
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.cache.models import profile
from nacre.devtools.cache_models.anthropic_render import estimate
from nacre.devtools.cache_models.anthropic_rules import simulate
from nacre.devtools.cache_models.anthropic_state import Cache, Call
from nacre.layers.l3_notes.notes import NotesFile
from nacre.layers.l3_notes.template import TEMPLATE, UPDATE, sections
from nacre.messages.blocks import Block, Json, JsonObject, Message, Text, ToolCall
from nacre.messages.events import ProviderEvent, Reply, ToolCallEvent
from nacre.messages.records import Compacted
from nacre.messages.tokens import estimate_text
from nacre.messages.usage import Usage
from nacre.messages.wire import render_block
from nacre.providers.base import Request
from nacre.session.log_writer import SessionLogWriter
from nacre.settings import load

MODEL = "claude-opus-5-5"
CALLS = 3
"""Tool calls of a turn before it is answered."""
EXTRACTION_SECONDS = 4.0
"""One look that finds nothing: what most turns come to, and the least that an extraction costs."""
NOTES_SECONDS = 10.0
"""An update writes about 500 tokens, a third of what a summary takes its 25 seconds for."""
REPLY_CHARS = 1_000
"""About 250 tokens that an agent thinks and says around a call."""
STATE_CHARS, LINE_CHARS = 1_000, 240
"""An update rewrites the current state (about 250 tokens) and adds a line (60) to another section."""
PATIENCE = 600
"""Ticks, three seconds, without anything happening: billing a large request takes long on a busy machine."""
PER = 100
"""Turns that a price is given for."""
STATE = 1
"""The section that every update rewrites: how things are now."""
BEGINS = UPDATE.partition("\n")[0]
"""How the request for an update begins."""
EXTRACTION_BEGINS = prompts.load("nacre.layers.l5_extract", "extract").partition("\n")[0]
LIMIT_SHARE = 0.05
"""Of the cost of the conversation itself."""
ON = {
    "NACRE_DISABLE_AUTO_MEMORY": "0",
    "NACRE_NOTES": "true",
    "NACRE_COMPACT_PREPARE": "true",
    "NACRE_EXTRACT": "true",
    "NACRE_EXTRACT_NON_INTERACTIVE": "true",
}
SMALL = "claude-haiku-5-5"
"""The vendor's small model, which a chat with a key of the vendor uses by default where that costs less."""
WITH_SMALL = {
    "ANTHROPIC_API_KEY": "not used",
    "NACRE_SMALL_MODEL": SMALL,
    "NACRE_RECALL_SELECTOR": "false",
}
WAYS: dict[str, dict[str, str]] = {
    "default": {**ON, **WITH_SMALL},
    "no small model": ON,
    "at once": {**ON, "NACRE_BACKGROUND_IDLE_SECONDS": "0"},
    "summary made ahead": {"NACRE_NOTES": "false", "NACRE_COMPACT_PREPARE": "true"},
    "summary when needed": {"NACRE_NOTES": "false", "NACRE_COMPACT_PREPARE": "false"},
}
"""Notes and extraction in one request per pause, to the small model or as a fork of the session; each as soon
as it is due; neither of them but a summary begun before the window is full, and one requested when needed."""
PAUSE_TURNS = 5
PAUSE_SECONDS = 240.0
"""After every fifth turn the person is away for four minutes and a half."""
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Sizes:
    turns: int = PER
    windows: tuple[int, ...] = (100_000, 200_000)
    growth: int = 1_500
    """Tokens that one tool's answer adds."""
    ways: tuple[str, ...] = tuple(WAYS)


FULL = Sizes()
TINY = Sizes(turns=3, windows=(30_000,), growth=2_000, ways=(DEFAULT,))


def measure(sizes: Sizes = FULL) -> JsonObject:
    """Every window and way: what was paid for what, and who waited for how long."""
    runs = [asyncio.run(_run(sizes, window, way)) for window in sizes.windows for way in sizes.ways]
    ours = [run for run in runs if run["way"] == DEFAULT]
    share = max(
        (_number(run, "notes_usd") + _number(run, "extraction_usd")) / _number(run, "conversation_usd")
        for run in ours
    )
    waited = sum(_number(run, "waited_seconds") for run in ours)
    return {
        "turns": sizes.turns,
        "growth_tokens": sizes.growth,
        "summary_seconds": SUMMARY_SECONDS,
        "notes_seconds": NOTES_SECONDS,
        "round_seconds": ROUND_SECONDS,
        "runs": list[Json](runs),
        "bars": [
            bar("seconds that turns waited", waited, at_most=0),
            bar(
                "notes and extraction, of the cost of the conversation", round(share, 3), at_most=LIMIT_SHARE
            ),
        ],
    }


@dataclass
class Noter(Slow):
    """A model that also keeps notes, and whose every request is billed."""

    file: NotesFile | None = None
    updates: int = 0
    side_requests: int = 0
    """To the small model."""
    extractions: int = 0
    paid: dict[str, float] = field(default_factory=dict)
    """Dollars by what they were paid for."""
    used: dict[str, Usage] = field(default_factory=dict)
    caches: dict[str, Cache] = field(default_factory=dict)
    """One for each model."""

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        kind, seconds, blocks = self._answer(request)
        begun = self.clock.seconds()
        if seconds:
            await self.clock.sleep(seconds)
        usage = self._bill(request, kind, begun, blocks)
        calls = [block for block in blocks if isinstance(block, ToolCall)]
        for call in calls:
            yield ToolCallEvent(call)
        yield Reply(
            message=Message("assistant", blocks),
            usage=usage,
            stop_reason="tool_use" if calls else "end_turn",
            id=f"msg_{self.asked}_{self.summaries}_{self.updates}_{len(request.messages)}",
            model=request.model,
        )

    def _answer(self, request: Request) -> tuple[str, float, tuple[Block, ...]]:
        """What is asked for, how long it takes, and what is said."""
        if is_for_summary(request):
            self.summaries += 1
            return "summaries", SUMMARY_SECONDS, (Text(lossy().tagged),)
        if _is_for_notes(request.messages[-1]):
            self.updates += 1
            return "notes", NOTES_SECONDS, self._edits()
        if _begins(request.messages[-1], EXTRACTION_BEGINS):
            self.extractions += 1
            return "extraction", EXTRACTION_SECONDS, (Text("There is nothing to keep."),)
        self.asked += 1
        said = Text(_words(f"Step {self.asked} went as it should. ", REPLY_CHARS))
        if self.asked % (CALLS + 1) == 0:
            return "conversation", 0.0, (said,)
        call = ToolCall(f"call_{self.asked}", "Look", {"command": f"part_{self.asked:05d}"})
        return "conversation", 0.0, (said, call)

    def _edits(self) -> tuple[Block, ...]:
        """How things are now, and one of the other sections, in turn."""
        assert self.file is not None
        there = sections(self.file.read(), TEMPLATE)
        others = [place for place in range(len(there)) if place != STATE]
        state, other = there[STATE], there[others[self.updates % len(others)]]
        now = _words(f"Update {self.updates}: the work is where it was to be expected. ", STATE_CHARS)
        line = _words(f"- Update {self.updates} adds what was found on the way, in a line. ", LINE_CHARS)
        changes = (
            (f"{state.description}\n\n{state.body}".rstrip(), f"{state.description}\n\n{now}"),
            (other.description, f"{other.description}\n\n{line}"),
        )
        return tuple(
            ToolCall(
                f"edit_{self.updates}_{place}",
                "Edit",
                {"file_path": str(self.file.path), "old_string": old, "new_string": new},
            )
            for place, (old, new) in enumerate(changes)
        )

    def _bill(self, request: Request, kind: str, begun: float, blocks: tuple[Block, ...]) -> Usage:
        now = self.clock.seconds()
        call = Call(
            body=request.body(),
            betas=request.betas,
            start=begun,
            first_token=now,
            end=now,
            output_tokens=sum(_tokens(render_block(block)) for block in blocks),
        )
        model = request.model
        cache = self.caches.get(model, Cache())
        outcome = simulate(cache, call, profile=profile(model), count=_tokens)
        assert outcome.refusal is None, outcome.refusal
        self.caches[model] = outcome.cache
        self.side_requests += model == SMALL
        self.paid[kind] = self.paid.get(kind, 0.0) + (outcome.cost_usd or 0.0)
        self.used[kind] = self.used.get(kind, Usage()) + outcome.usage
        self.largest = max(self.largest, outcome.prompt_tokens)
        return outcome.usage


async def _run(sizes: Sizes, window: int, way: str) -> JsonObject:
    clock = SlowClock()
    noter, waits = Noter(clock), list[float]()
    with tempfile.TemporaryDirectory(prefix="nacre-notes-") as name:
        folder = Path(name)
        (folder / "project").mkdir()
        environ = environment(folder, window) | WAYS[way]
        settings = load(folder / "project", environ, cli={"model": MODEL})
        look = look_tool(clock, sizes.growth)
        tools = {"Edit", "Read", "Write"}
        opened = open_agent(
            settings,
            provider=noter,
            tools=lambda usual: [*(one for one in usual if one.name in tools), look],
            clock=clock,
        )
        # Requests to the small model are answered and billed by the same object.
        with patch.object(model_layers, "build", lambda choice, environ: noter):
            async with opened as ready:
                writer = ready.agent.session.writer
                assert isinstance(writer, SessionLogWriter)
                noter.file = NotesFile.of(writer.folder)
                if way == DEFAULT:
                    # As in a chat, whose refreshes make it needless that a fork renews the cache.
                    ready.agent.session.keep_warm = settings.keep_warm
                playing = asyncio.create_task(_play(ready, clock, sizes.turns))
                await watched(playing, noter, waits, still_ticks=PATIENCE)
                records = ready.agent.session.view.records
                made = [str(one.extra.get("by")) for one in records if isinstance(one, Compacted)]
    return {"window": window, "way": way, **_told(noter, sizes.turns, made, waits)}


async def _play(ready: OpenedAgent, clock: SlowClock, turns: int) -> None:
    for turn in range(1, turns + 1):
        async for _ in ready.agent.stream(f"Turn {turn}: go on, but leave src/part_{turn}.py alone."):
            pass
        if turn % PAUSE_TURNS == 0:
            clock.advance(PAUSE_SECONDS)
            ready.background.start_deferred()
        await pass_time(clock)


def _told(noter: Noter, turns: int, made: list[str], waits: list[float]) -> JsonObject:
    conversation, notes, summaries, extraction = (
        noter.paid.get(kind, 0.0) for kind in ("conversation", "notes", "summaries", "extraction")
    )
    used = noter.used.get("notes", Usage())
    return {
        "requests": noter.asked,
        "largest_request": noter.largest,
        "conversation_usd": round(conversation, 4),
        "updates": noter.updates,
        "side_requests": noter.side_requests,
        "notes_usd": round(notes, 4),
        "notes_usd_per_100_turns": round(notes * PER / turns, 4),
        "notes_hit_rate": round(used.hit_rate, 4),
        "summaries": noter.summaries,
        "summaries_usd": round(summaries, 4),
        "extractions": noter.extractions,
        "extraction_usd": round(extraction, 4),
        "total_usd": round(sum(noter.paid.values()), 4),
        "compactions": len(made),
        "compactions_from_notes": made.count("notes"),
        "compactions_by_rule": made.count("rules"),
        "waited": len(waits),
        "waited_seconds": round(sum(waits), 1),
    }


def _tokens(block: JsonObject) -> int:
    """Return the tokens of a block; the strings of a call count as text, not as dense JSON."""
    if block.get("type") != "tool_use" or not isinstance(block["input"], dict):
        return estimate(block)
    return sum(estimate_text(f"{name} {value}") for name, value in block["input"].items())


def _words(line: str, chars: int) -> str:
    return (line * (chars // len(line) + 1))[:chars].rstrip()


def _is_for_notes(message: JsonObject) -> bool:
    return _begins(message, BEGINS)


def _begins(message: JsonObject, words: str) -> bool:
    return message["role"] == "user" and words in json.dumps(message["content"])


def _number(run: JsonObject, name: str) -> float:
    found = run[name]
    assert isinstance(found, int | float)
    return found
