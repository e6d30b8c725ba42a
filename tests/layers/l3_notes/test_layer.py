"""Notes in a session: when a fork is sent for them, what it may touch, and what a resumed session finds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.model_layers import add_notes
from nacre.app.open_agent import LATEST, NEW, OpenedAgent, open_agent
from nacre.errors import ProviderError
from nacre.layers.l3_notes.layer import NOTES, Notes
from nacre.layers.l3_notes.notes import NotesFile, is_by_rule
from nacre.layers.l3_notes.policy import NotesSettings
from nacre.layers.l3_notes.template import TEMPLATE, sections
from nacre.loop.fork import ForkResult, ForkTask
from nacre.messages.blocks import JsonObject, Message, Text, ToolCall, ToolResult
from nacre.messages.events import Event, Notice, Reply
from nacre.messages.records import Compacted, Noted, Record, Undone
from nacre.messages.usage import Usage
from nacre.providers.base import Request
from nacre.session.background import Background
from nacre.session.session import Base, Session
from nacre.settings import Settings, load
from nacre.testing import FrozenClock, ScriptedProvider, call, say, together
from tests.layers.l3_notes.scenes import EditingFork

FORKS = pytest.mark.moves_prefix(reason="requests of forks stand between those of the conversation")
SOON = NotesSettings(first_tokens=500, growth_tokens=500)
LONG = "a long story " * 400
"""More than enough for an update."""
LAST_LINE = TEMPLATE.sections[9].description


def settings_in(cwd: Path, notes: NotesSettings = SOON) -> Settings:
    environ = {"HOME": str(cwd), "NACRE_HOME": str(cwd / "home"), "PATH": "/usr/bin:/bin"}
    environ["NACRE_BACKGROUND_IDLE_SECONDS"] = "0"
    return replace(load(cwd, environ), notes=notes)


@asynccontextmanager
async def talking(
    provider: ScriptedProvider, cwd: Path, *, session: str = NEW, notes: NotesSettings = SOON
) -> AsyncIterator[OpenedAgent]:
    settings = settings_in(cwd, notes)
    async with open_agent(settings, provider=provider, session=session) as ready:
        yield ready


async def played(ready: OpenedAgent, text: str) -> list[Event]:
    """A turn, and what it started."""
    events = [event async for event in ready.agent.stream(text)]
    await ready.background.wait("notes")
    return events


def notes_in(cwd: Path) -> Path:
    (path,) = cwd.glob("home/projects/*/*/session-memory/summary.md")
    return path


def path_asked_for(request: Request) -> str:
    """The file that a directive names."""
    words = str(request.messages[-1]["content"])
    return words.partition("The notes are the file ")[2].partition(". As it stands")[0]


def edits(*lines: str) -> object:
    """A fork's reply: add lines to the end of the notes."""

    def reply(request: Request) -> object:
        new = "\n".join((LAST_LINE, *lines))
        return call("Edit", file_path=path_asked_for(request), old_string=LAST_LINE, new_string=new)

    return reply


def results(request: Request) -> list[JsonObject]:
    content = request.messages[-1]["content"]
    assert isinstance(content, list)
    return [block for block in content if isinstance(block, dict) and block["type"] == "tool_result"]


@FORKS
async def test_a_fork_edits_the_notes_of_a_session_that_has_grown(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    """C14, F1, F2: with real tools on the real file; the conversation shows nothing of it but an anchor."""
    provider.script(say("I see"), edits("- heard a story"), say("yes"))  # type: ignore[arg-type]
    async with talking(provider, tmp_path) as ready:
        await played(ready, LONG)
        session = ready.agent.session
        reply = session.view.items[-1].record_id
        assert sections(notes_in(tmp_path).read_text(), TEMPLATE)[9].body == "- heard a story"
        await played(ready, "and?")
        (note,) = session.view.noted(NOTES)
        assert (note.fact("covers"), note.fact("by")) == (reply, "model")
        assert note.fact("tokens") == pytest.approx(session.tokens, rel=0.2)
        assert "heard a story" not in str(session.view.messages)
    assert provider.calls == 3, "no request only to say that it is done"


@FORKS
async def test_notes_that_a_model_never_condenses_are_cut_and_the_person_is_told_once(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    """C15: with real tools on the real file; the log names the sections."""
    small = replace(SOON, growth_share=0.0, section_tokens=100, total_tokens=300)
    notices: list[str] = []
    async with talking(provider, tmp_path, notes=small) as ready:
        for n in range(8):
            lines = [f"- step {n}.{m} {'x' * 60}" for m in range(5)]
            provider.script(say("I see"), edits(*lines))  # type: ignore[arg-type]
            events = await played(ready, LONG)
            notices += [event.text for event in events if isinstance(event, Notice)]
            body = sections(notes_in(tmp_path).read_text(), TEMPLATE)[9].body
            assert body.startswith(lines[0])
            assert len(body) <= 600
        await ready.background.flush()
        cuts = [note.fact("cut") for note in ready.agent.session.view.noted(NOTES)]
    assert cuts == [None, *[["Worklog"]] * 7]
    assert len([one for one in notices if "did not condense" in one]) == 1


async def test_where_nobody_goes_on_after_the_answer_no_notes_are_paid_for(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    """C14: `nacre -p`; the next prompt that goes on with the session finds out what is due by itself."""
    provider.script(say("I see"))
    async with talking(provider, tmp_path) as ready:
        ready.agent.session.is_one_shot = True
        await played(ready, LONG)
        assert is_by_rule(notes_in(tmp_path).read_text())
    assert provider.calls == 1


@FORKS
async def test_the_fork_can_change_no_other_file(provider: ScriptedProvider, tmp_path: Path) -> None:
    """C14, F3: not beside the notes, not in the project, with no other tool; it is told what it may do."""
    (tmp_path / "code.py").write_text("x = 1\n", encoding="utf-8")

    def tries(request: Request) -> object:
        notes = path_asked_for(request)
        beside = str(Path(notes).with_name("other.md"))
        Path(beside).write_text("mine\n", encoding="utf-8")
        return together(
            call("Edit", file_path=str(tmp_path / "code.py"), old_string="x", new_string="y"),
            call("Edit", file_path=beside, old_string="mine", new_string="yours"),
            call("Write", file_path=notes, content="all mine"),
            call("Bash", command=f"echo > {notes}"),
            edits("- well")(request),  # type: ignore[operator]
        )

    provider.script(say("I see"), tries, say("noted"))  # type: ignore[arg-type]
    async with talking(provider, tmp_path) as ready:
        await played(ready, LONG)
    answers = results(provider.requests[2])
    assert [bool(one.get("is_error")) for one in answers] == [True, True, True, True, False]
    assert "You may use: Edit, Read. Write only below" in str(answers[0])
    assert (tmp_path / "code.py").read_text() == "x = 1\n"
    assert notes_in(tmp_path).with_name("other.md").read_text() == "mine\n"
    assert sections(notes_in(tmp_path).read_text(), TEMPLATE)[9].body == "- well"


@FORKS
async def test_the_fork_does_not_read_what_the_session_would_have_to_ask_for(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    cwd, secret = tmp_path / "work", tmp_path / "diary.txt"
    cwd.mkdir()
    secret.write_text("the heron sleeps at noon\n", encoding="utf-8")

    def tries(request: Request) -> object:
        return together(
            call("Read", file_path=str(secret)),
            call("Bash", command=f"cat {secret}"),
            call("Read", file_path=path_asked_for(request)),
            edits("- well")(request),  # type: ignore[operator]
        )

    provider.script(say("I see"), tries, say("noted"))  # type: ignore[arg-type]
    async with talking(provider, cwd) as ready:
        await played(ready, LONG)
    answers = results(provider.requests[-1])
    assert [bool(one.get("is_error")) for one in answers] == [True, True, False, False]
    assert f"{secret} is outside the project, and this task cannot ask for permission" in str(answers[0])
    assert "sleeps at noon" not in str([request.messages for request in provider.requests])


async def test_short_conversations_and_switched_off_notes_cost_nothing(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    """C14: and without automatic compaction there are none at all, unless that is asked for."""
    provider.script(say("hi"))
    async with talking(provider, tmp_path, notes=NotesSettings()) as ready:
        await played(ready, "hello")
    assert provider.calls == 1
    session = Session(Base("m", "", []))
    settings = settings_in(tmp_path)
    off = replace(settings, switches=replace(settings.switches, compact=False))
    background = Background(session)
    assert add_notes(session, off, folder=tmp_path, background=background) is None
    asked = replace(off, notes=NotesSettings(always=True))
    assert add_notes(session, asked, folder=tmp_path, background=background) is not None
    assert add_notes(session, settings, folder=None, background=background) is None


@FORKS
async def test_a_resumed_session_finds_its_notes_and_goes_on_from_there(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    """C16: file and anchor; growth counts from the last update."""
    provider.script(say("I see"), edits("- heard a story"))  # type: ignore[arg-type]
    async with talking(provider, tmp_path) as ready:
        await played(ready, LONG)
    provider.script(say("nothing new"))
    async with talking(provider, tmp_path, session=LATEST) as ready:
        session = ready.agent.session
        noting = Notes(NotesFile(notes_in(tmp_path)), settings=SOON)
        noting.open(session)
        draft = noting.draft(session.view)
        assert draft is not None
        assert (draft.kind, draft.text) == ("notes", "# Worklog\n- heard a story")
        assert draft.covers == session.view.items[-1].record_id
        await played(ready, "anything new?")
    assert provider.calls == 3, "no update was due"


@FORKS
async def test_notes_rest_after_three_failures_and_the_person_hears_it_once(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    """F5."""
    async with talking(provider, tmp_path) as ready:
        told: list[str] = []
        for _ in range(6):
            provider.script(say("ok"))
            if ready.background.failures("notes") < 3:
                provider.script(say("I would rather not"))
            told += [one.text for one in await played(ready, LONG) if isinstance(one, Notice)]
    assert provider.left == 0
    assert told == [
        "Session notes are no longer brought up to date, because 3 updates in a row failed; "
        "a compaction will be made without them."
    ]


async def test_notes_are_kept_by_rule_until_a_model_writes_them(tmp_path: Path) -> None:
    """C17: for free, on every turn, in a file that says who wrote it."""
    settings = replace(settings_in(tmp_path), model="embedded")
    async with open_agent(settings) as ready:
        for text in ("remember the lexer", "and the parser"):
            await played(ready, text)
        text = notes_in(tmp_path).read_text()
    assert is_by_rule(text)
    assert "and the parser" in sections(text, TEMPLATE)[2].body
    assert sections(text, TEMPLATE)[0].body == "remember the lexer"


# From here on without a provider: a fork that does as it is told, on a session that is fed by hand.


class Bench:
    """A session with notes whose fork is ours."""

    def __init__(self, folder: Path, *edits: object, records: list[Record] | None = None) -> None:
        self.clock = FrozenClock()
        self.session = Session(Base("m", "", []), records or [], clock=self.clock)
        self.background = Background(self.session)
        self.file = NotesFile.of(folder)
        self.fork = EditingFork(self.file, *edits)  # type: ignore[arg-type]
        self.noting = self.noting_with(self.fork)
        self.session.add_layers(self.noting)

    def noting_with(self, fork: object) -> Notes:
        settings = NotesSettings(first_tokens=10_000)
        return Notes(self.file, background=self.background, fork=fork, settings=settings)  # type: ignore[arg-type]

    async def reply(self, tokens: int, *calls: str) -> None:
        """A reply after which the context holds so many tokens."""
        if not self.session.view.items:
            await self.session.add_user("go")
        made = (ToolCall(one, "Bash", {"command": one}) for one in calls)
        message = Message("assistant", (Text("well"), *made))
        usage = Usage(input=tokens)
        reply = Reply(message=message, usage=usage, stop_reason=None, id=self.clock.new_id(), model="m")
        await self.session.record(reply)
        if calls:
            await self.session.add_results([ToolResult(one, (Text("ok"),)) for one in calls])

    async def settled(self) -> int:
        await self.background.wait("notes")
        return len(self.fork.errands)


def added(line: str) -> object:
    return lambda text: text + line + "\n"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, *(added(f"- {n}") for n in range(9)))


async def test_updates_are_due_in_mid_turn_by_calls_and_growth(bench: Bench) -> None:
    """C14: asked after every reply."""
    counts = []
    for n, tokens in enumerate((9_000, 10_000, 12_000, 15_500, 16_000, 20_500)):
        await bench.reply(tokens, f"c{n}")
        counts.append(await bench.settled())
    assert counts == [0, 1, 1, 1, 2, 2]
    await bench.reply(21_500)
    assert await bench.settled() == 3


async def test_updates_follow_one_another_and_never_overlap(tmp_path: Path) -> None:
    """C14: what was said meanwhile makes another one due when the first has ended."""
    bench = Bench(tmp_path)
    gate, at_once, most = asyncio.Event(), 0, 0

    async def fork(errand: ForkTask) -> ForkResult:
        nonlocal at_once, most
        at_once, most = at_once + 1, max(most, at_once + 1)
        await gate.wait()
        bench.file.write(bench.file.read() + f"- {len(bench.fork.errands)}\n")
        bench.fork.errands.append(errand)
        at_once -= 1
        return ForkResult(source=errand.source, replies=[], usage=Usage(), first=Usage())

    bench.session.remove_layer(bench.noting)
    bench.session.add_layers(bench.noting_with(fork))
    await bench.reply(10_000)
    assert bench.background.is_running("notes")
    await asyncio.sleep(0.01)
    for tokens in (16_000, 22_000, 28_000):
        await bench.reply(tokens)
    gate.set()
    assert await bench.settled() == 2
    assert most == 1
    assert bench.file.read().endswith("- 0\n- 1\n")


async def test_a_failure_is_tried_again_only_after_more_growth_and_success_resets(tmp_path: Path) -> None:
    """F5: three in a row, not three in all."""
    edits = (ProviderError("away"), ProviderError("away"), added("- x"), ProviderError("away"), added("- y"))
    bench = Bench(tmp_path, *edits)
    for tokens in (10_000, 11_000, 16_000, 22_000, 28_000, 35_000):
        await bench.reply(tokens)
        await bench.settled()
    assert len(bench.fork.errands) == 5
    assert bench.background.failures("notes") == 0


async def test_after_a_compaction_growth_counts_from_what_it_left(bench: Bench) -> None:
    """C14: 150,000 tokens that are gone do not have to come back first."""
    await bench.reply(150_000)
    assert await bench.settled() == 1
    await bench.background.flush()
    await bench.session.transcript.append(
        Compacted(id="k", at=bench.clock.now(), summary=(Text("so far"),), post_tokens=20_000)
    )
    await bench.reply(22_000)
    assert await bench.settled() == 1
    await bench.reply(27_000)
    assert await bench.settled() == 1
    await bench.reply(27_500)
    assert await bench.settled() == 2


async def test_behind_a_compaction_the_carried_anchor_counts(tmp_path: Path) -> None:
    """C21: a session resumed there; what the notes cover is gone, so that they are no draft."""
    note = Noted(
        id="n", at=FrozenClock().now(), kind=NOTES, facts={"covers": "x", "tokens": 150_000, "by": "model"}
    )
    boundary = Compacted(
        id="k", at=FrozenClock().now(), summary=(Text("so far"),), post_tokens=20_000, carries=(note,)
    )
    bench = Bench(tmp_path, added("- more"), records=[boundary])
    bench.file.write(TEMPLATE.text + "\n- old\n")
    assert bench.noting.draft(bench.session.view) is None
    await bench.reply(24_000)
    assert await bench.settled() == 0
    await bench.reply(25_000)
    assert await bench.settled() == 1
    assert bench.noting.draft(bench.session.view) is not None


async def test_what_a_turn_waits_for(tmp_path: Path) -> None:
    """C16: an update under way or about to be, but none that hangs."""
    bench = Bench(tmp_path)
    gate = asyncio.Event()

    async def fork(errand: ForkTask) -> ForkResult:
        await gate.wait()
        bench.file.write(bench.file.read() + "- done\n")
        return ForkResult(source=errand.source, replies=[], usage=Usage(), first=Usage())

    noting = bench.noting_with(fork)
    bench.session.remove_layer(bench.noting)
    bench.session.add_layers(noting)
    await noting.wait()
    await bench.reply(10_000)
    assert noting.is_under_way, "although it has not begun"
    assert noting.under_way_seconds == 0
    await noting.wait(0.01)
    bench.clock.advance(59)
    assert noting.under_way_seconds == 59
    bench.clock.advance(1)
    async with asyncio.timeout(5):
        await noting.wait(60)
    assert noting.is_under_way
    gate.set()
    await bench.settled()
    assert (noting.is_under_way, noting.under_way_seconds) == (False, 0)
    draft = noting.draft(bench.session.view)
    assert draft is not None
    assert draft.text == "# Worklog\n- done"


async def test_rules_write_only_over_what_rules_wrote(bench: Bench) -> None:
    """C17: neither over a model's notes, nor over a person's edit; and only where something changed."""
    await bench.session.add_user("look at the lexer")
    await bench.noting.before_stop("", continued=False)
    first = bench.file.path.stat()
    await bench.noting.before_stop("", continued=False)
    assert bench.file.path.stat().st_ino == first.st_ino, "nothing changed, so nothing was written"
    await bench.session.add_user("and at the parser")
    await bench.noting.before_stop("", continued=False)
    by_rule = bench.file.read()
    assert is_by_rule(by_rule)
    assert "and at the parser" in by_rule
    assert bench.noting.draft(bench.session.view) is None
    bench.file.write(by_rule.replace("lexer", "laxer"))
    await bench.session.add_user("third")
    await bench.noting.before_stop("", continued=False)
    assert "third" not in bench.file.read()
    await bench.reply(10_000)
    await bench.settled()
    written = bench.file.read()
    await bench.noting.before_stop("", continued=False)
    assert bench.file.read() == written


async def test_an_undone_message_is_gone_from_notes_by_rule(bench: Bench) -> None:
    await bench.session.add_user("keep this")
    await bench.session.add_user("a slip")
    slip = bench.session.view.items[-1].record_id
    await bench.noting.before_stop("", continued=False)
    assert "a slip" in bench.file.read()
    await bench.session.transcript.append(Undone(id="x", at=bench.clock.now(), target=slip))
    await bench.noting.before_stop("", continued=False)
    assert "a slip" not in bench.file.read()
    assert "keep this" in bench.file.read()


async def test_a_disk_that_refuses_stops_no_turn_and_is_told_once(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "session-memory").write_text("in the way", encoding="utf-8")
    await bench.session.add_user("go")
    for _ in range(2):
        await bench.noting.before_stop("", continued=False)
    (notice,) = bench.session.notices()
    assert notice.text.startswith("Session notes cannot be kept: ")
    assert bench.noting.draft(bench.session.view) is None


async def test_a_skeleton_of_what_was_done_since_rides_in_the_directive(bench: Bench) -> None:
    """C17: only what came after the last update."""
    await bench.reply(10_000, "make one")
    await bench.settled()
    await bench.reply(16_000, "make two", "make three")
    await bench.reply(17_000)
    assert await bench.settled() == 2
    first, second = (errand.directive for errand in bench.fork.errands)
    assert "- Bash: make one" in first
    assert "- Bash: make one" not in second
    assert "- Bash: make two\n- Bash: make three" in second
