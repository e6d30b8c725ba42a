"""What fills the window, said without opening anything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.app.memory_locations import instruction_paths
from nacre.app.open_agent import open_agent
from nacre.context.environment import environment
from nacre.inspect.context_usage import (
    KINDS,
    calibrated,
    contents,
    contents_of,
    opening_parts,
    out_of_view,
    parts,
)
from nacre.layers.l4_compact.install import STANDING
from nacre.loop.round import message_record
from nacre.memory.instructions.load import load_instructions
from nacre.memory.startup_text import MemoryFacts, memory_part, render_context, render_memory
from nacre.messages.blocks import Json, Text, Thinking, ToolCall, ToolResult
from nacre.messages.records import Change, Compacted, Noted, Record, Replaced, ReplyFacts, ResultOf, Said
from nacre.messages.tokens import Calibration, estimate_block, estimate_text
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.layer import Attachment, with_attachments
from nacre.session.session import OPENING, Base, Session
from nacre.settings import Settings, load
from nacre.testing import FrozenClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MEMORY = "- [Cats](cats.md) — how many there are\n" * 20


def project(folder: Path, fetches: str = "0") -> Settings:
    """A directory with instructions and a memory."""
    folder.mkdir(exist_ok=True)
    (folder / "CLAUDE.md").write_text("Say please. " * 100, encoding="utf-8")
    return load(folder, {"HOME": str(folder), "NACRE_MODEL": "embedded", "NACRE_WEB_FETCH": fetches})


def everything_below(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(one), one.stat().st_mtime_ns, one.stat().st_size) for one in folder.rglob("*"))


@pytest.mark.parametrize("fetches", ["0", "1"])
async def test_what_is_foreseen_is_what_a_session_then_begins_with(tmp_path: Path, fetches: str) -> None:
    """C34: system prompt with the manual, tools with those of memory, instructions, index, surroundings."""
    settings = project(tmp_path / "work", fetches)
    foreseen = await contents(settings, None)
    async with open_agent(settings) as ready:
        memory = ready.memories[0].location.directory
        begun = contents_of(ready.agent.session)
    assert dict(foreseen.parts) == dict(begun.parts)
    assert {name for name, tokens in begun.parts.items() if tokens} == {
        "system", "tools", "instructions", "memory", "surroundings",
    }  # fmt: skip
    memory.mkdir(parents=True, exist_ok=True)
    (memory / "MEMORY.md").write_text(MEMORY, encoding="utf-8")
    grown = await contents(settings, None)
    assert grown.parts["memory"] - foreseen.parts["memory"] >= estimate_text(MEMORY) - 20
    assert grown.parts["instructions"] == foreseen.parts["instructions"]


async def test_looking_ahead_leaves_no_trace(tmp_path: Path) -> None:
    """C32: not even the memory directory is made."""
    settings = project(tmp_path / "work")
    before = everything_below(tmp_path)
    await contents(settings, None)
    assert everything_below(tmp_path) == before


def note(kind: str, **facts: Json) -> Noted:
    return Noted(id=f"note {kind} {facts.get('call')}", at=NOW, kind=kind, facts=facts)


def said(record_id: str, *blocks: object, role: str = "user", meta: bool = False) -> Said:
    return Said(id=record_id, at=NOW, role=role, blocks=tuple(blocks), meta=meta)  # type: ignore[arg-type]


def called(call_id: str, result: str) -> list[Record]:
    call = ToolCall(call_id, "Bash", {"command": "ls"})
    return [
        said(f"call {call_id}", Text("Let me look."), call, role="assistant"),
        said(f"result {call_id}", ToolResult(call_id, (Text(result),))),
    ]


def nonzero(view: View) -> dict[str, int]:
    return {name: tokens for name, tokens in parts(view).items() if tokens}


def test_words_and_results_are_filed_by_what_became_of_them() -> None:
    """Whole results, pointers, cleared ones; words of the person and of the model; thinking."""
    pointer, cleared, whole = "p" * 400, "c" * 80, "w" * 4_000
    records = [
        said("u", Text("hello" * 8)),
        *called("a", "old " * 1_000),
        *called("b", pointer),
        note("offload", call="b", tokens_kept_out=9_000),
        *called("d", "same"),
        note("duplicate", call="d", tokens_kept_out=50),
        said("t", Thinking("hm" * 100), role="assistant"),
        *called("e", whole),
        Replaced(
            id="r",
            at=NOW,
            changes=(Change(ResultOf("a"), (ToolResult("a", (Text(cleared),)),)),),
            reason="clear",
        ),
        note("clear", calls=["a"], tokens=980, reason="idle"),
    ]
    view = View.of(records)
    calls = 4 * estimate_block(ToolCall("a", "Bash", {"command": "ls"}))
    assert nonzero(view) == {
        "user_text": 10,
        "assistant_text": 4 * 3,
        "thinking": 50,
        "tool_calls": calls,
        "tool_results": 1_000,
        "offloaded": 100 + 1,
        "cleared": 20,
    }
    assert sum(parts(view).values()) == view.estimate
    assert out_of_view(view) == {"offloaded": 9_050, "cleared": 980}


def test_what_was_left_out_and_then_cleared_is_counted_once() -> None:
    """C7, C34: a reference goes with the result it refers to."""
    gone = tuple(Change(ResultOf(call), (ToolResult(call, (Text("cleared"),)),)) for call in "ad")
    view = View.of(
        [
            *called("a", "old " * 1_000),
            *called("d", "same"),
            note("duplicate", call="d", tokens_kept_out=50),
            Replaced(id="r", at=NOW, changes=gone, reason="clear"),
            note("clear", calls=["a", "d"], tokens=980, reason="idle"),
        ]
    )
    assert out_of_view(view) == {"offloaded": 0, "cleared": 980}


@pytest.mark.parametrize("rewrite", [None, Replaced(id="x", at=NOW, changes=(), reason="clear")])
def test_figures_on_two_sides_of_a_rewrite_say_nothing_about_estimates(rewrite: Record | None) -> None:
    """C2: what was taken away between two requests is no error of the estimate of what was added."""
    first, second = (
        Said(id=name, at=NOW, role="assistant", blocks=(), reply=ReplyFacts(id=name, usage=Usage(input=size)))
        for name, size in (("m1", 1_000), ("m2", 1_200))
    )
    between = [said("u", Text("x" * 400)), *([rewrite] if rewrite else [])]
    found = calibrated([first, *between, second])
    assert (found == Calibration()) == (rewrite is not None)


def test_after_a_compaction_nothing_of_what_it_took_is_listed() -> None:
    view = View.of(
        [
            *called("b", "pointer"),
            note("offload", call="b", tokens_kept_out=9_000),
            Compacted(id="c", at=NOW, summary=(Text("s" * 40),), summary_id="cs"),
        ]
    )
    assert nonzero(view) == {"summary": 10}
    assert out_of_view(view) == {"offloaded": 0, "cleared": 0}


def test_notes_that_stand_for_a_conversation_count_as_notes() -> None:
    """C16, C34: the words and deeds beside them are the summary's."""
    blocks = (Text(f"{STANDING}\n\n" + "n" * 400), Text("## What was done\n\n" + "d" * 40))
    view = View.of([Compacted(id="c", at=NOW, summary=blocks, summary_id="cs", kind="notes")])
    found = nonzero(view)
    assert set(found) == {"notes", "summary"}
    assert found["notes"] > 100 > found["summary"]
    full = View.of([Compacted(id="c", at=NOW, summary=blocks, summary_id="cs")])
    assert set(nonzero(full)) == {"summary"}


@pytest.mark.parametrize("inside", [False, True])
def test_what_rides_with_a_message_is_filed_by_what_it_is(inside: bool, clock: FrozenClock) -> None:
    """Recalled memories, changed instructions and a new day, behind the results or inside the last."""
    first, results = called("a", "r" * 400)
    assert isinstance(results, Said)
    extras = [
        Attachment(kind="recalled", text="m" * 80, facts={"bytes": 80}),
        Attachment(kind="instructions", text="i" * 160),
        Attachment(kind="day", text="d" * 20),
        Attachment(kind="side_query", facts={"purpose": "memdir_relevance"}),
        Attachment(kind="instructions", facts={"only": "for the log"}),
    ]
    records = with_attachments(results, extras, clock, inside_results=inside)
    found = nonzero(View.of([first, *records]))
    assert {name: found.get(name) for name in ("memory", "instructions", "surroundings", "tool_results")} == {
        "memory": 20,
        "instructions": 40,
        "surroundings": 5,
        "tool_results": 100,
    }
    assert "user_text" not in found


def test_a_note_without_words_leaves_the_persons_message_theirs(clock: FrozenClock) -> None:
    spoken = message_record("user", (Text("words" * 4),), clock)
    records = with_attachments(spoken, [Attachment(kind="instructions", facts={"told": "elsewhere"})], clock)
    assert nonzero(View.of(records)) == {"user_text": 5}


OPENINGS: Sequence[tuple[bool, bool]] = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize(("instructed", "remembers"), OPENINGS)
def test_the_opening_words_are_taken_apart_again(instructed: bool, remembers: bool, tmp_path: Path) -> None:
    """Instructions, memory and surroundings stand in one message (M25)."""
    settings = project(tmp_path)
    (tmp_path / "CLAUDE.md").write_text(f"Never say: Your memory directory is `{tmp_path}`.\n" * 30)
    facts = MemoryFacts(directory=tmp_path) if remembers else None
    files = load_instructions(instruction_paths(settings)) if instructed else None
    context = render_context(files, MEMORY, memory_facts=facts)
    expected = render_memory(facts, MEMORY) if facts else ""
    assert memory_part(context) == expected
    opening = "\n".join(part for part in (context, environment(tmp_path, NOW)) if part)
    found = opening_parts(opening)
    assert found["memory"] == estimate_text(expected)
    assert bool(found["instructions"]) is (instructed or remembers)
    assert found["surroundings"] == estimate_text(environment(tmp_path, NOW))
    record = said("o", Text(opening), meta=True)
    assert {name: parts(View.of([record, note(OPENING, record="o")]))[name] for name in found} == found


def test_an_open_session_is_told_like_one_on_disk(clock: FrozenClock) -> None:
    """`/context` and `nacre context` share the figures."""
    records = [
        said("u", Text("hello")),
        *called("b", "p" * 400),
        note("offload", call="b", tokens_kept_out=7),
    ]
    found = contents_of(Session(Base("claude-opus-5-5", "system", []), records, clock=clock))
    assert set(KINDS) < set(found.parts) and sum(found.parts.values()) == found.used
    assert (found.parts["offloaded"], found.out_of_view["offloaded"]) == (100, 7)
    assert found.layers["offload"].times == 1
