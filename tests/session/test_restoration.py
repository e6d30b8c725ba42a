"""What a compaction carries: a session resumed behind it knows what a live one knows (C21, T9)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent
from nacre.context.environment import CurrentDate
from nacre.context.skill_list import SKILL, loaded_skills
from nacre.inspect.savings import booked
from nacre.layers.l3_notes.layer import NOTES, Notes
from nacre.layers.l7_mail.layer import MAIL, received
from nacre.layers.l7_mail.letter import Letter
from nacre.loop.round import message_record
from nacre.messages.blocks import Json, JsonObject, Text, ToolCall, ToolResult
from nacre.messages.facts import FACTS
from nacre.messages.jsonl import Envelope, decode, encode
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Noted, ReplyFacts, Said, Undone
from nacre.messages.results import pin, pinned
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.cache_ttl import LIFETIME, noted_lifetime
from nacre.session.compaction import CompactionRequest
from nacre.session.layer import DAY, INSTRUCTIONS, digests_in
from nacre.session.log_writer import resume, start
from nacre.session.meter import METER, SIDE_QUERY, Meter
from nacre.session.read_session import read_log, spent
from nacre.session.restoration import carried, carry_rules, listed_again
from nacre.session.session import OPENING, Base, Session
from nacre.store.summaries import summarise
from nacre.testing import Cast, FrozenClock, ScriptedProvider, call, say, together
from nacre.tools.tasks import TASKS, Task, restored, stored
from tests.frozen.scenes import Scene, new_scene, steady

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
            message_record("user", (ToolResult(call.id, (Text("result"),)),), self.clock),
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
    writer = start(home, Path("/somewhere"), clock=clock).writer
    base = Base(MODEL, opening="<system-reminder>Where you are.</system-reminder>")
    session = Session(base, writer=writer, clock=clock)
    yield Life(session, clock)
    writer._log.close()


async def resumed(life: Life, home: Path) -> Session:
    """The same session in another process, read from its boundary on."""
    writer = life.session.writer
    await writer.close()
    opened = resume(writer.path, home=home, clock=life.clock)  # type: ignore[attr-defined]
    await opened.writer.close()
    assert len(opened.records) < len(life.session.transcript.records)
    return Session(life.session.base, opened.records, clock=life.clock)


def tasks_of(view: View) -> tuple[Task, ...]:
    return restored(view.noted(TASKS)[-1].fact("tasks")).tasks


@pytest.mark.parametrize("kept", [0, 3, 7])
async def test_who_resumes_behind_a_boundary_knows_what_a_live_session_knows(
    life: Life, home: Path, kept: int
) -> None:
    """C21, T9: task list, pins, lifetime, opening, instructions, date, notes, facts, money."""
    await life.turn("one")
    tasks = (Task("look", "done"), Task("mend", "in_progress"))
    await life.note(TASKS, {"tasks": stored(tasks)})
    await life.note(LIFETIME, {"lifetime": "1h"})
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
        assert session.is_opened
        opening = view.last_noted(OPENING)
        assert opening is not None
        assert view.has_record(str(opening.fact("record")))
        assert digests_in(view.noted(INSTRUCTIONS)) == {"/p/CLAUDE.md": "new"}
        assert [note.facts for note in view.noted(FACTS)] == [{"words": ["one"]}]
        assert view.noted(NOTES)[-1].facts == {"covers": "x"}
        assert (
            await CurrentDate(life.clock).attach(message_record("user", (Text("x"),), life.clock), view) == []
        )
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
    path = life.session.writer.path  # type: ignore[attr-defined]
    after = await resumed(life, home)
    back = read_log(path)
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
    path = life.session.writer.path  # type: ignore[attr-defined]
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


SKILL_FILE = "---\nname: deploy\ndescription: How to deploy.\n---\n\nAsk first.\n"
TYPE_FILE = "---\nname: reviewer\ndescription: Reviews.\n---\n\nReview.\n"


def letter(scene: Scene, name: str) -> Letter:
    return Letter(id=name, sender="other:bob", to="main", text="How far are you?", at=scene.clock.now())


@pytest.mark.moves_prefix(reason="compaction, and forks")
async def test_every_kind_of_note_that_an_agent_writes_is_declared() -> None:
    """C21: with every switch on, in the logs of a session and of the agents that it starts."""
    hook: Json = [{"hooks": [{"type": "command", "command": "echo from a hook"}]}]
    with new_scene() as scene, steady():
        scene.write("CLAUDE.md", "Answer in one line.\n")
        scene.write("a.txt", "one line\n")
        scene.write("long.txt", "".join(f"line {number} of a long file\n" for number in range(4_000)))
        scene.write(".claude/skills/deploy/SKILL.md", SKILL_FILE)
        scene.write(".claude/agents/reviewer.md", TYPE_FILE)
        (scene.home / "settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": hook}}))
        works = [
            together(
                call("Read", file_path="a.txt"),
                call("TaskList", tasks=[{"title": "look", "state": "pending"}]),
                call("Skill", skill="deploy"),
                call("Bash", command="cat long.txt"),
                call("remember", text="The person drinks green tea."),
            ),
            call("Edit", file_path="a.txt", old_string="one", new_string="two"),
            call("Agent", description="count", prompt="Count it.", name="counter", run_in_background=True),
            say("Done."),
        ]
        main = ScriptedProvider(works, otherwise=say("Done."))
        provider = Cast(main, {"Count it.": ScriptedProvider(otherwise=say("Three."))})
        settings = scene.settings({"NACRE_CACHE_TTL": "auto"}, interactive=True)
        async with scene.opened(settings, provider=provider) as ready:
            assert ready.plan is not None and ready.mail is not None
            await ready.plan.write("1. Look.")
            await scene.said(ready, "do all of it; the person drinks green tea")
            scene.clock.advance(90_000)
            ready.mail.inbox("main").put(letter(scene, "l1"))
            await scene.said(ready, "which tea does the person drink?")
            await scene.said(ready, "go on")
            await ready.compact.compact(CompactionRequest())
            await scene.said(ready, "go on")
        paths = [*scene.home.glob("projects/*/*.jsonl"), *scene.home.glob("projects/*/*/subagents/*.jsonl")]
        logs = [back for path in paths if (back := read_log(path)) is not None]
        records = [one for log in logs for one in log.records]
    carried = (note for one in records if isinstance(one, Compacted) for note in one.carries)
    kinds = {note.kind for note in (*records, *carried) if isinstance(note, Noted)}
    assert kinds <= carry_rules().keys()
    assert kinds >= {
        OPENING, METER, FACTS, DAY, INSTRUCTIONS, LIFETIME, SIDE_QUERY, TASKS, MAIL, SKILL,
        "agent", "agent_types", "checkpoint", "compaction", "extraction", "extract_cursor", "hook",
        "offload", "plan", "recalled", "skills",
    }  # fmt: skip


@dataclass(frozen=True)
class Kept:
    """State that a layer keeps in log notes."""

    switch: str
    """Without it the layer takes no part."""
    notes: tuple[tuple[str, JsonObject], ...]
    """As the layer writes them."""
    read: Callable[[OpenedAgent], object]
    state: object
    """What `read` returns in a session that was never compacted."""


def loaded(name: str) -> tuple[str, JsonObject]:
    return (SKILL, {"name": name, "path": f"/skills/{name}/SKILL.md", "arguments": ""})


def covered(ready: OpenedAgent) -> str | None:
    noting = ready.agent.session.layer(Notes)
    assert noting is not None
    return noting._covers


def extracted(ready: OpenedAgent) -> str | None:
    assert ready.extract is not None
    return ready.extract._cursor


TASKS_LEFT = (Task("look", "done"), Task("mend", "in_progress"))
KEPT = {
    "notes": Kept("NACRE_NOTES", ((NOTES, {"covers": "r9", "by": "model"}),), covered, "r9"),
    "extraction": Kept(
        "NACRE_EXTRACT", (("extract_cursor", {"covers": "r9", "commits": {}}),), extracted, "r9"
    ),
    "skills": Kept(
        "NACRE_SKILLS",
        (loaded("deploy"), loaded("review"), loaded("deploy")),
        lambda ready: list(loaded_skills(ready.agent.session.view)),
        ["review", "deploy"],
    ),
    "mail": Kept(
        "NACRE_AGENTS",
        ((MAIL, {"ids": ["l1"], "from": ["other:bob"]}),),
        lambda ready: received(ready.agent.session.view),
        {"l1"},
    ),
    "tasks": Kept(
        "NACRE_SKILLS",
        ((TASKS, {"tasks": []}), (TASKS, {"tasks": stored(TASKS_LEFT)})),
        lambda ready: ready.toolset.board.tasks,
        TASKS_LEFT,
    ),
}


@pytest.mark.slow
@pytest.mark.moves_prefix(reason="compaction")
@pytest.mark.parametrize("is_on", [False, True], ids=["off", "on"])
@pytest.mark.parametrize("name", list(KEPT))
async def test_a_layer_that_was_off_during_a_compaction_goes_on_as_if_it_had_been_on(
    name: str, is_on: bool
) -> None:
    """C21: a session may be compacted with other switches than it is resumed with."""
    one = KEPT[name]
    with new_scene() as scene, steady():
        usual = scene.settings(interactive=True)
        given = {one.switch: "1" if is_on else "0"}
        provider = ScriptedProvider(otherwise=say("word " * 3_000))
        async with scene.opened(usual, provider=provider) as ready:
            session = ready.agent.session
            await scene.said(ready, "one", "two")
            await ready.background.flush()
            for kind, facts in one.notes:
                note = Noted(id=scene.clock.new_id(), at=scene.clock.now(), kind=kind, facts=facts)
                await session.transcript.append(note)
        resumed = {"provider": provider, "session": session.id}
        async with scene.opened(usual, **resumed) as ready:
            assert one.read(ready) == one.state
        async with scene.opened(scene.settings(given, interactive=True), **resumed) as ready:
            await ready.compact.compact(CompactionRequest(by_rule=True))
        async with scene.opened(usual, **resumed) as ready:
            assert len(ready.agent.session.transcript.records) < len(session.transcript.records)
            assert one.read(ready) == one.state


async def test_a_kind_that_no_layer_declares_is_carried_as_its_last_note(life: Life, home: Path) -> None:
    """So does a session that was written with a layer that this program does not have."""
    await life.turn("one")
    await life.note("somebody's own", {"n": 1})
    await life.note("somebody's own", {"n": 2})
    for kind in ("foreign/custom-title", "attachment/file", "system/local_command"):
        await life.note(kind, {"text": "theirs"})
    record = await life.compacts(0)
    carried = {note.kind: note.facts for note in record.carries}
    assert carried.keys() == {OPENING, METER, "somebody's own"}
    assert carried["somebody's own"] == {"n": 2}
    assert [note.facts for note in (await resumed(life, home)).view.noted("somebody's own")] == [{"n": 2}]
