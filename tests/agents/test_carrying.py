"""What a compaction carries: a session resumed behind it knows what a live one knows (C21, T9)."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from nacre.agents.announcing import INSTRUCTIONS, told_in
from nacre.agents.carrying import FATES, FOREIGN, LISTED, NOTES, carried, listed_again
from nacre.agents.dating import DAY, Calendar
from nacre.agents.hands import TASKS
from nacre.agents.kept import resume, start
from nacre.agents.lifetimes import noted_lifetime
from nacre.agents.looking import look_back, spent
from nacre.agents.meter import METER, SIDE_QUERY, Meter
from nacre.agents.savings import booked
from nacre.agents.session import OPENING, Base, Session
from nacre.cache.lifetime import LIFETIME
from nacre.layers.l2_microcompact.declarative import DECLARED, declared
from nacre.layers.l2_microcompact.pins import PIN, pin, pinned
from nacre.layers.l2_microcompact.server_edits import EDIT, Edit, edits
from nacre.loop.round import heard
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.facts import FACTS
from nacre.messages.jsonl import Envelope, decode, encode
from nacre.messages.pairing import Item
from nacre.messages.records import Change, Compacted, Noted, Replaced, ReplyFacts, ResultOf, Said, Undone
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.store.summaries import summarise
from nacre.testing import FrozenClock
from nacre.tools.tasks import Task, restored, stored

SOURCES = Path(__file__).parents[2] / "src" / "nacre"
MODEL = "claude-opus-5-5"
SUMMARY = "summary-1"


@dataclass
class Life:
    """A session that is lived through, record by record, on disk."""

    session: Session
    clock: FrozenClock
    replies: int = 0

    async def note(self, kind: str, facts: JsonObject) -> None:
        note = Noted(id=self.clock.new_id(), at=self.clock.now(), kind=kind, facts=facts)
        await self.session.transcript.append(note)

    async def turn(self, text: str) -> None:
        """Words, a reply with a call, its result, a reply."""
        await self.session.add_user(text)
        self.replies += 1
        call = ToolCall(f"call-{self.replies}", "Read", {})
        await self.session.transcript.append(
            self._reply(f"a{self.replies}", (call,)),
            heard("user", (ToolResult(call.id, (Text("result"),)),), self.clock),
            self._reply(f"b{self.replies}", (Text("done"),)),
        )

    async def compacts(
        self, kept: int, more: Sequence[Noted] = (), facts: JsonObject | None = None
    ) -> Compacted:
        """With so many items kept."""
        view = self.session.view
        items: Sequence[Item] = view.items[len(view.items) - kept :]
        record = Compacted(
            id=self.clock.new_id(),
            at=self.clock.now(),
            summary=(Text("all of it"),),
            summary_id=SUMMARY,
            keeps_from=items[0].record_id if items else None,
            carries=carried(view, summary_id=SUMMARY, clock=self.clock, facts=facts, more=more, kept=items),
        )
        await self.session.transcript.append(record)
        return record

    def _reply(self, name: str, blocks: tuple[Text | ToolCall, ...]) -> Said:
        usage = Usage(input=1_000 + self.replies, output=10)
        facts = ReplyFacts(id=name, model=MODEL, usage=usage)
        return Said(id=self.clock.new_id(), at=self.clock.now(), role="assistant", blocks=blocks, reply=facts)


@pytest.fixture
def life(home: Path, clock: FrozenClock) -> Iterator[Life]:
    keeper = start(home, Path("/somewhere"), clock=clock).keeper
    base = Base(model=MODEL, opening="<system-reminder>Where you are.</system-reminder>")
    session = Session(base, keeper=keeper, clock=clock)
    yield Life(session, clock)
    keeper._log.close()


async def resumed(life: Life, home: Path) -> Session:
    """The same session in another process, read from its boundary on."""
    keeper = life.session.keeper
    await keeper.close()
    opened = resume(keeper.path, home=home, clock=life.clock)  # type: ignore[attr-defined]
    await opened.keeper.close()
    assert len(opened.records) < len(life.session.transcript.records)
    return Session(life.session.base, opened.records, clock=life.clock)


def tasks_of(view: View) -> tuple[Task, ...]:
    return restored(view.noted(TASKS)[-1].fact("tasks")).tasks


@pytest.mark.parametrize("kept", [0, 3, 7])
async def test_who_resumes_behind_a_boundary_knows_what_a_live_session_knows(
    life: Life, home: Path, kept: int
) -> None:
    """C21, T9: task list, pins, lifetime, declaration, opening, instructions, date, notes, facts, money."""
    await life.turn("one")
    tasks = (Task("look", "done"), Task("mend", "in_progress"))
    await life.note(TASKS, {"tasks": stored(tasks)})
    await life.note(LIFETIME, {"lifetime": "1h"})
    await life.note(DECLARED, {"config": {"edits": []}})
    await life.note(NOTES, {"covers": "x"})
    await life.note(INSTRUCTIONS, {"files": {"/p/CLAUDE.md": "old"}, "record": "gone"})
    await life.note(INSTRUCTIONS, {"files": {"/p/web/AGENTS.md": "seen no more"}, "record": "gone"})
    await life.note(SIDE_QUERY, {"purpose": "memdir_relevance", "model": MODEL, "usage": {"input": 500}})
    await life.turn("two")
    await life.session.transcript.append(pin("call-2", life.clock))
    told = Noted(id="t", at=life.clock.now(), kind=INSTRUCTIONS, facts={"files": {"/p/CLAUDE.md": "new"}})
    day = Noted(id="d", at=life.clock.now(), kind=DAY, facts={"date": "2026-01-01"})
    await life.compacts(kept, more=[told, day], facts={"words": ["one"]})
    await life.turn("three")
    live, after = life.session, await resumed(life, home)
    assert after.view.messages == live.view.messages
    for session in (live, after):
        view = session.view
        assert tasks_of(view) == tasks
        assert noted_lifetime(view) == "1h"
        assert declared(view) == {"edits": []}
        assert session.is_opened
        opening = view.last_noted(OPENING)
        assert opening is not None
        assert view.has_record(str(opening.fact("record")))
        assert told_in(view.noted(INSTRUCTIONS)) == {"/p/CLAUDE.md": "new"}
        assert [note.facts for note in view.noted(FACTS)] == [{"words": ["one"]}]
        assert view.noted(NOTES)[-1].facts == {"covers": "x"}
        assert await Calendar(life.clock, view).beside(heard("user", (Text("x"),), life.clock), view) == []
    in_view = frozenset(life.session.view._body.calls)
    assert pinned(live.view) & in_view == pinned(after.view) & in_view
    assert ("call-2" in pinned(after.view)) is (kept > 0)
    assert after.meter == Meter.of(live.transcript.records)
    assert after.meter.requests == 7


async def test_what_a_session_cost_is_the_same_however_much_of_its_log_is_read(
    life: Life, home: Path
) -> None:
    """T9, C34: over two compactions, one of them undone again; nothing counts twice, nothing is lost."""
    await life.turn("one")
    await life.compacts(3)
    await life.turn("two")
    second = await life.compacts(0)
    await life.turn("three")
    await life.session.transcript.append(
        Undone(id=life.clock.new_id(), at=life.clock.now(), target=second.id)
    )
    await life.turn("four")
    path = life.session.keeper.path  # type: ignore[attr-defined]
    after = await resumed(life, home)
    back = look_back(path)
    assert back is not None
    plain = Meter.of(one for one in back.records if not isinstance(one, Compacted))
    assert plain.requests == 8
    for meter in (after.meter, Meter.of(back.records), spent(path), Meter.of(booked(path))):
        assert replace(meter, cost_usd=0.0) == replace(plain, cost_usd=0.0)
        assert meter.cost_usd == pytest.approx(plain.cost_usd)


def test_a_meter_survives_its_note() -> None:
    meter = Meter().after(Usage(input=7, cache_write=3), MODEL).after(Usage(), "nobody", purpose="keep_warm")
    assert Meter.of_json(json.loads(json.dumps(meter.as_json()))) == meter
    assert Meter.of_json({"requests": "x", "usage": 3, "cost_usd": None}) == Meter()


async def test_an_edit_of_the_providers_cache_ends_with_the_bytes_it_was_sent_with(
    life: Life, home: Path
) -> None:
    """C10: also one that is read again with the kept tail; a later one stands in both."""
    await life.turn("one")
    await life.turn("two")
    change = Change(ResultOf("call-1"), (ToolResult("call-1", (Text("gone"),)),))
    await life.session.transcript.append(
        Replaced(id=life.clock.new_id(), at=life.clock.now(), changes=(change,), reason="clear")
    )
    await life.note(EDIT, {"calls": ["call-2"], "after": 1})
    assert edits(life.session.view)
    record = await life.compacts(3)
    assert EDIT not in {note.kind for note in record.carries}
    assert not edits(life.session.view)
    await life.note(EDIT, {"calls": ["call-2"], "after": 2})
    after = await resumed(life, home)
    assert edits(after.view) == edits(life.session.view) == [Edit(calls=("call-2",), after=2)]


async def test_a_given_note_stands_for_the_one_that_would_be_carried(life: Life) -> None:
    await life.turn("one")
    await life.note(NOTES, {"covers": "old"})
    new = Noted(id="n", at=life.clock.now(), kind=NOTES, facts={"covers": "new"})
    record = await life.compacts(0, more=[new])
    (note,) = (note for note in record.carries if note.kind == NOTES)
    assert note.facts == {"covers": "new"}


async def test_every_carried_note_has_an_id_of_its_own(life: Life) -> None:
    await life.turn("one")
    await life.note(TASKS, {"tasks": []})
    first = await life.compacts(3)
    second = await life.compacts(1)
    ids = [note.id for record in (first, second) for note in record.carries]
    assert len(set(ids)) == len(ids) > 4
    assert not set(ids) & {record.id for record in life.session.transcript.records}


async def test_titles_are_written_again_as_they_came(life: Life, home: Path) -> None:
    """C21, T2b: other readers look for them at the end of a log, and lists of our own find the last one."""
    await life.turn("one")
    path = life.session.keeper.path  # type: ignore[attr-defined]
    line: JsonObject = {"type": "custom-title", "customTitle": "Mend the loom", "sessionId": path.stem}
    await life.note("foreign/custom-title", {**line, "customTitle": "Loom"})
    await life.note("foreign/custom-title", line)
    await life.note("foreign/file-history-snapshot", {"type": "file-history-snapshot"})
    await life.compacts(0)
    again = listed_again(life.session.view, life.clock)
    await life.session.transcript.append(*again)
    *_, last = path.read_bytes().splitlines()
    assert json.loads(last) == line
    assert len(again) == 1
    assert summarise(path).title == "Mend the loom"
    view = (await resumed(life, home)).view
    assert listed_again(view, life.clock)[0].facts == line


def test_a_boundary_tells_other_readers_how_long_it_took(clock: FrozenClock) -> None:
    """C22: in their names; what is read back is what was written."""
    extra: JsonObject = {"durationMs": 1_234, "lastSummarizedUuid": "r9", "why": "full"}
    record = Compacted(
        id="c", at=clock.now(), summary=(Text("s"),), summary_id=SUMMARY, keeps_from="r10", extra=extra,
        carries=(Noted(id="n", at=clock.now(), kind=METER, facts=Meter().as_json()),),
    )  # fmt: skip
    written = encode(record, envelope=Envelope(session_id="s", cwd="/"), parent="r11")
    metadata = json.loads(written.splitlines()[0])["compactMetadata"]
    assert metadata["durationMs"] == 1_234
    assert metadata["lastSummarizedUuid"] == "r9"
    assert metadata["preservedSegment"] == {"headUuid": "r10", "anchorUuid": SUMMARY, "tailUuid": "r11"}
    assert "why" not in metadata
    assert decode(written.splitlines(keepends=True)).records == [record]


def test_every_kind_of_note_has_its_fate() -> None:
    """C21: a new kind must say what becomes of it at a compaction."""
    found = {kind: place for path in sorted(SOURCES.rglob("*.py")) for kind, place in _kinds(path)}
    unknown = {kind: place for kind, place in found.items() if kind not in FATES}
    assert not unknown, "say in agents/carrying.py whether a compaction carries these, and why"
    assert {OPENING, TASKS, PIN, "recalled", "side_query", "offload_refused", "checkpoint"} <= found.keys()
    assert all(kind.startswith(FOREIGN) for kind in LISTED)


NOTE_MAKERS = frozenset({"Noted", "Extra", "Act"})
"""Whatever is made of these ends as a note of that kind."""
BY_PLACE = frozenset({"_note"})
"""Methods whose first argument is the kind of a note they make."""
PASSED_ON = {
    "agents/riding.py": "an `Extra` becomes a note",
    "agents/turn.py": "an `Extra` becomes a note",
    "agents/offloading.py": "an `Act` becomes an `Extra`",
    "agents/compacting.py": "by `_note`, which is looked at itself",
    "agents/carrying.py": "notes are carried under their own kind",
    "agents/restore.py": "kinds of the opening, which are carried",
    "messages/jsonl.py": "lines of other programs, kinds as in FOREIGN",
    "messages/jsonl_parse.py": "notes are read as they were written",
    "messages/foreign/recording.py": "lines of other programs",
}
"""Where the kind of a note is not named but handed on."""


def _kinds(path: Path) -> Iterator[tuple[str, str]]:
    """The kinds of notes that a module makes, each with where."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    inside = path.relative_to(SOURCES).as_posix()
    for call in ast.walk(module):
        if not isinstance(call, ast.Call):
            continue
        kinds = [keyword.value for keyword in call.keywords if keyword.arg == "kind"]
        if getattr(call.func, "attr", "") in BY_PLACE:
            kinds = call.args[:1]
        elif getattr(call.func, "id", "") not in NOTE_MAKERS:
            continue
        for kind in (value for given in kinds for value in _values(given, module, path)):
            if kind is None:
                assert inside in PASSED_ON, (
                    f"{inside}:{call.lineno} makes notes of a kind nobody can read off"
                )
            else:
                yield kind, f"{inside}:{call.lineno}"


def _values(given: ast.expr, module: ast.Module, path: Path) -> list[str | None]:
    """What an expression may be; none where that cannot be told."""
    match given:
        case ast.Constant(value=str(kind)):
            return [kind]
        case ast.IfExp(body=first, orelse=second):
            return [*_values(first, module, path), *_values(second, module, path)]
        case ast.Name(id=name):
            return _named(name, module, path)
        case _:
            return [None]


def _named(name: str, module: ast.Module, path: Path) -> list[str | None]:
    """What a name stands for: assigned here, or imported from another module of ours."""
    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                return _values(value, module, path)
            case ast.ImportFrom(module=str(source), names=names) if source.startswith("nacre."):
                for alias in (one for one in names if (one.asname or one.name) == name):
                    other = SOURCES.parent / (source.replace(".", "/") + ".py")
                    return _named(alias.name, ast.parse(other.read_text(encoding="utf-8")), other)
    return [None]
