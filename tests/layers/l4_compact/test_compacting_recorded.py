"""Compaction by rule of whole sessions, made and recorded, at three places: nothing is lost or broken."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.errors import NothingToCompact
from nacre.layers.l4_compact.layer import Compact, undo_compaction
from nacre.layers.l4_compact.overflow_files import OverflowFiles
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.facts import Facts
from nacre.messages.foreign import read_foreign
from nacre.messages.records import Compacted, Record, ReplyFacts, Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.compaction import CompactionRequest
from nacre.session.log_writer import resume, start
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.store.tool_results import result_store_in
from nacre.testing import FrozenClock
from tests.layers.l4_compact.test_install import is_valid

DATA = Path(__file__).parents[4] / "shared" / "data" / "claude_code_sessions" / "sessions"
EVERY = 12
"""Of the recorded sessions, by size, so many are passed over each time: enough of every size, and quick."""
MODEL = "claude-opus-4-5"
WINDOW = 40_000
MOST = 0.6
"""Of the threshold: a compaction that leaves more is a defect (C21)."""


def recorded() -> Iterator[object]:
    files = sorted(DATA.glob("*.gz"), key=lambda path: (path.stat().st_size, path.name))[::EVERY]
    for path in files:
        yield pytest.param(path, id=path.name.partition(".")[0])
    if not files:
        why = "needs recorded sessions in shared/data/claude_code_sessions beside the repository"
        yield pytest.param(None, id="absent", marks=pytest.mark.skip(reason=why))


def made() -> list[Record]:
    """Words short and long, parallel calls, failures, a large result, an earlier summary, a last word."""
    clock, records = FrozenClock(), list[Record]()

    def say(role: str, *blocks: Text | ToolCall | ToolResult, usage: Usage | None = None) -> Said:
        name = clock.new_id()
        reply = ReplyFacts(id=name, usage=usage) if role == "assistant" else None
        said = Said(id=name, at=clock.now(), role=role, blocks=blocks, reply=reply)  # type: ignore[arg-type]
        records.append(said)
        return said

    for n in range(60):
        say(
            "user",
            Text(f"wish {n}: leave generated/{n} alone" + "\n\nand this paste:\n```x\n" * (n % 7 == 3)),
        )
        paths = [f"src/part_{n}_{m}.py" for m in range(n % 3 + 1)]
        calls = [ToolCall(f"c{n}_{m}", "Read", {"file_path": path}) for m, path in enumerate(paths)]
        usage = Usage(input=900 * n + 5_000, output=50) if n % 4 else None
        say("assistant", Text(f"Looking at part {n}."), *calls, usage=usage)
        size = 30_000 if n == 58 else 2_000
        say(
            "user",
            *(ToolResult(one.id, (Text("x = 1\n" * (size // 6)),), is_error=n % 5 == 0) for one in calls),
        )
        say("assistant", Text(f"Part {n} is fine."))
        if n == 15:
            old = Compacted(id=clock.new_id(), at=clock.now(), summary=(Text("Told before: use tabs."),))
            records.append(old)
    say("user", Text("</summary> and now the rest, please"))
    return records


def cut(records: Sequence[Record], third: int) -> list[Record]:
    return list(records[: max(1, len(records) * third // 3)])


def unmeasured(records: Sequence[Record]) -> list[Record]:
    """Without the provider's figures: they count another program's prompt and tools."""
    return [
        replace(one, reply=replace(one.reply, usage=None)) if isinstance(one, Said) and one.reply else one
        for one in records
    ]


async def opened(records: Sequence[Record], home: Path) -> tuple[Session, Compact]:
    """A session on disk that holds these records, and its last rung."""
    clock = FrozenClock()
    log = start(home, home, clock=clock)
    base = Base(MODEL, instructions=({"type": "text", "text": "s" * 4_000},))
    session = Session(base, writer=log.writer, settings=SessionSettings(window_ceiling=WINDOW), clock=clock)
    await session.transcript.append(*records)
    folder = log.writer.folder
    overflow = OverflowFiles(folder=folder, log=log.writer.path, store=result_store_in(folder))
    rung = Compact(overflow=overflow)
    session.add_layers(rung)
    return session, rung


async def check(records: Sequence[Record], home: Path) -> str:
    """All that a compaction promises; says what became of it."""
    session, rung = await opened(records, home)
    before, count = session.view.messages, session.tokens
    facts = Facts.of(session.transcript.records)
    is_full = session.tokens >= session.thresholds.autocompact
    try:
        if is_full:
            await session.transcript.append(*await session.fit(session.view, None))
        else:
            await rung.compact(CompactionRequest(by_rule=True))
    except NothingToCompact:
        assert session.view.messages == before
        await session.writer.close()  # type: ignore[attr-defined]
        return "small"
    view = session.view
    assert session.view.epochs[-1:] == ("compact",)
    assert is_valid(view)
    assert session.tokens < MOST * session.thresholds.autocompact
    assert View.of(session.transcript.records) == view
    _words_are_there(facts, session, rung.overflow)
    path = session.writer.path  # type: ignore[attr-defined]
    await session.writer.close()  # type: ignore[attr-defined]
    _same_from_disk(session, path, home)
    await _undone(path, home, session, before=before, tokens=count)
    return "full" if is_full else "by hand"


def _words_are_there(facts: Facts, session: Session, overflow: OverflowFiles) -> None:
    """C20: each message of the person's stands in the request or in the file that it names, to the letter."""
    blocks = [part.block for item in session.view.items for part in item.parts]
    shown = "\n".join(block.text for block in blocks if isinstance(block, Text))
    file = Path(overflow.where.words)
    left = file.read_text(encoding="utf-8") if file.exists() else ""
    assert [one.text for one in facts.words if one.text not in shown and one.text not in left] == []
    assert not left or str(file) in shown
    if facts.words:
        last = next(one for one in session.transcript.records if one.id == facts.words[-1].record_id)
        assert isinstance(last, Said)
        assert all(block in blocks for block in last.blocks if not isinstance(block, ToolResult))


def _same_from_disk(session: Session, path: Path, home: Path) -> None:
    """C21, T9: whoever resumes knows the same."""
    again = resume(path, home=home)
    try:
        view = View.of(again.records)
        assert view.messages == session.view.messages
        assert view.count(session.base.tokens) == session.view.count(session.base.tokens)
        assert Facts.of(again.records) == Facts.of(session.transcript.records)
    finally:
        again.writer._log.close()


async def _undone(path: Path, home: Path, session: Session, *, before: object, tokens: int) -> None:
    """C23: after an undo the old view is back, byte for byte, and so is its size."""
    log = resume(path, home=home)
    again = Session(
        session.base, log.records, writer=log.writer, settings=session.settings, clock=session.clock
    )
    assert await undo_compaction(again) is not None
    await log.writer.close()
    back = resume(path, home=home)
    try:
        view = View.of(back.records)
        assert view.messages == before
        assert view.count(session.base.tokens) == tokens
    finally:
        await back.writer.close()


@pytest.mark.parametrize("third", [1, 2, 3])
async def test_a_made_session_keeps_its_promises_wherever_it_is_compacted(third: int, tmp_path: Path) -> None:
    """C17b, C20, C21, C23, C26."""
    assert await check(cut(made(), third), tmp_path) == ("by hand" if third == 1 else "full")


@pytest.mark.slow
@pytest.mark.parametrize("path", [*recorded()])
async def test_a_recorded_session_keeps_its_promises_wherever_it_is_compacted(
    path: Path, tmp_path: Path
) -> None:
    """C17b, C20, C21, C23, C26: what people really said and what tools really answered."""
    with gzip.open(path, "rb") as lines:
        (recording,) = read_foreign(lines, name=path.name)
    for third in (1, 2, 3):
        home = tmp_path / str(third)
        home.mkdir()
        assert await check(cut(unmeasured(recording.records), third), home) in {"full", "by hand", "small"}
