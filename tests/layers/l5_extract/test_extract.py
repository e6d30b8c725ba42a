"""What rules found becomes a change to memory: new, corrected, added, or nothing at all (M14c)."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.layers.l5_extract.by_rule import StatedFact, stated_facts
from nacre.layers.l5_extract.extract import RuleChanges, changes_by_rule, save_changes
from nacre.layers.l5_extract.judge import Judge, NewMessages
from nacre.layers.l5_extract.slots import slot_of
from nacre.memory.checks.review import waiting
from nacre.memory.copies import ChangedFile
from nacre.memory.format.entry import MemoryChange, MemoryDraft, Origin, read_entry
from nacre.memory.memory import Memory
from nacre.memory.tools import OriginJudge
from nacre.messages.facts import UserQuote
from nacre.testing import FrozenClock

AT = datetime(2026, 11, 16, 12, tzinfo=UTC)
"""A Monday."""


class ByUser(OriginJudge):
    def origin_of(self, text: str, *, trusted: tuple[str, ...] = ()) -> Origin:
        return "user"


BY_USER = ByUser()
BY_HAND = MemoryChange(author="user", reason="by hand")


@pytest.fixture
async def memory(tmp_path: Path, clock: FrozenClock) -> Memory:
    project = tmp_path / "project"
    project.mkdir()
    return await Memory.open(project, environ={"NACRE_HOME": str(tmp_path / "home")}, clock=clock)


def stated(text: str, *, negates: str = "", is_update: bool = False) -> StatedFact:
    return StatedFact(
        text=text, kind="user", title=text.rstrip("."), sources=("m1",), said=AT.date(), negates=negates,
        is_update=is_update,
    )  # fmt: skip


async def found_in(memory: Memory, *found: StatedFact, said: str = "") -> RuleChanges:
    words = [UserQuote("m1", AT, said or "\n".join(one.text for one in found))]
    judge = Judge(messages=NewMessages(quotes=words), session="s", now=AT, zone=UTC, origins=BY_USER)
    return await changes_by_rule(memory, found, judge, session="s")


async def changes(memory: Memory, *found: StatedFact, said: str = "") -> list[ChangedFile]:
    return list((await found_in(memory, *found, said=said)).changes)


async def kept(memory: Memory, *found: StatedFact) -> list[str]:
    new = await found_in(memory, *found)
    saved = await save_changes(new.changes, removed=new.removed, mode="auto", session="s")
    return list(saved.files)


async def heard(memory: Memory, *messages: str) -> dict[str, str]:
    """Extract from messages one after the other; return the bodies by file."""
    for message in messages:
        words = [UserQuote("m1", AT, message)]
        judge = Judge(messages=NewMessages(quotes=words), session="s", now=AT, zone=UTC, origins=BY_USER)
        new = await changes_by_rule(memory, stated_facts(words, zone=UTC), judge, session="s")
        await save_changes(new.changes, removed=new.removed, mode="auto", session="s")
    return {one.file: one.body.strip() for one in await memory.list()}


async def test_a_statement_becomes_a_memory_with_its_sources_and_memory_waits(memory: Memory) -> None:
    """E8, E10: nothing is written before it is kept."""
    (one,) = await changes(memory, stated("I prefer tabs over spaces."))
    entry = read_entry(one.file, one.after)
    assert (entry.body.strip(), entry.kind, entry.sources) == (
        "I prefer tabs over spaces.",
        "user",
        ("s", "m1"),
    )
    assert one.before is None
    assert not await memory.log()


async def test_what_is_known_is_not_saved_twice(memory: Memory) -> None:
    """M14c: whatever the signs and the case."""
    await memory.save(MemoryDraft(body="The user said: I prefer tabs, over spaces!", name="Style"), BY_HAND)
    assert await changes(memory, stated("i prefer tabs over spaces.")) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("I live in Lisbon.", "I now live in Porto."),
        ("I live in Lisbon.", "我现在住在波尔图。"),
        ("My name is Ada.", "I am called Grace."),
        ("I work at Initech.", "I work for Globex."),
    ],
)
async def test_of_facts_that_hold_one_at_a_time_the_newer_takes_the_place(
    first: str, second: str, memory: Memory
) -> None:
    """M14c: one memory, the older words in the history."""
    (file,) = await kept(memory, stated(first))
    assert await kept(memory, stated(second)) == [file]
    body = read_entry(file, (memory.location.directory / file).read_bytes()).body
    assert body.strip() == second
    assert first in (await memory.diff((await memory.log())[0].id))[-1].text


async def test_what_may_hold_beside_another_gets_a_memory_of_its_own(memory: Memory) -> None:
    """M14c: two preferences do not contradict each other."""
    assert len(await kept(memory, stated("I prefer tabs."), stated("I prefer dark themes."))) == 2
    assert slot_of("I prefer tabs.") == ""


async def test_what_is_denied_takes_the_place_of_what_said_it(memory: Memory) -> None:
    """M14c: title and file name are those of the new words."""
    await kept(memory, stated("I live in Lisbon."))
    denied = stated("I no longer live in Lisbon.", negates="live in Lisbon")
    await kept(memory, denied)
    (entry,) = await memory.list()
    assert (entry.name, entry.body.strip()) == ("I no longer live in Lisbon", "I no longer live in Lisbon.")


async def test_what_a_person_wrote_at_length_is_added_to_and_never_replaced(memory: Memory) -> None:
    """M14c: their words stay."""
    await memory.save(
        MemoryDraft(body="A long story.\n\nWith two parts.", name="Where the user lives"), BY_HAND
    )
    (file,) = await kept(memory, stated("I live in Porto."))
    body = read_entry(file, (memory.location.directory / file).read_bytes()).body
    assert body == "A long story.\n\nWith two parts.\n\nI live in Porto.\n"


async def test_a_contradiction_replaces_title_file_name_and_index_line(memory: Memory) -> None:
    """M14c: nothing of the old statement is left but the history."""
    await heard(memory, "I prefer tabs over spaces.", "I prefer spaces over tabs.")
    (entry,) = await memory.list()
    assert (entry.title, entry.file) == ("I prefer spaces over tabs", "user_prefer_spaces_over_tabs.md")
    index = (memory.location.directory / "MEMORY.md").read_text()
    assert "[I prefer spaces over tabs](user_prefer_spaces_over_tabs.md)" in index
    assert "tabs_over_spaces" not in index


async def test_one_undo_takes_a_renamed_memory_back(memory: Memory) -> None:
    await heard(memory, "I prefer tabs over spaces.", "I prefer spaces over tabs.")
    await memory.undo((await memory.log())[0].id)
    assert [one.body.strip() for one in await memory.list()] == ["I prefer tabs over spaces."]


@pytest.mark.parametrize(
    ("first", "second", "gone", "there"),
    [
        ("the staging server is called heron", "the staging server is called osprey now", "heron", "osprey"),
        ("we deploy from the release branch", "we deploy from the main branch now, not release", "", "main"),
        ("代码冻结是下周三", "代码冻结改到下周五了", "2026-11-25", "2026-11-27"),
    ],
)  # fmt: skip
async def test_a_reported_change_updates_what_was_said_before(
    first: str, second: str, gone: str, there: str, memory: Memory
) -> None:
    (body,) = (await heard(memory, first, second)).values()
    assert there in body
    assert not gone or gone not in body


@pytest.mark.parametrize(
    ("first", "second", "new"),
    [
        ("Dana is the contact at the printer", "Dana left, its Rui now", "Rui"),
        ("the staging server is called heron", "staging is osprey now, they rebuilt it", "osprey"),
        ("we deploy every friday afternoon", "we switched deploys to tuesdays", "tuesdays"),
        (
            "always put allergens at the end of each dish",
            "no wait, allergens go next to the dish name",
            "next to",
        ),
        ("供应商的交期是 6 周", "供应商的交期从 6 周变成 8 周了", "8 周"),
    ],
)
async def test_no_memory_says_only_what_a_later_statement_replaced(
    first: str, second: str, new: str, memory: Memory
) -> None:
    """M14c: where hardly a word is shared, the change is written below the old statement."""
    found = await heard(memory, first, second)
    assert len(found) == 1
    assert all(new in text for text in found.values()), found


async def test_a_change_that_may_belong_to_several_memories_replaces_none(memory: Memory) -> None:
    first = await heard(memory, "Dana is the contact at the printer", "Dana owns the billing service")
    assert len(first) == 2
    after = await heard(memory, "Dana left, its Rui now")
    assert first.items() <= after.items()


@pytest.mark.parametrize("said", ["I live in fear of this codebase.", "I live in Jira these days"])
async def test_a_slot_takes_only_what_belongs_to_it(said: str, memory: Memory) -> None:
    """M14c: an idiom moves nobody."""
    assert await heard(memory, "I live in Lisbon.", said) == {"user_home.md": "I live in Lisbon."}


async def test_a_shorter_statement_never_replaces_a_richer_memory(memory: Memory) -> None:
    """M14c: the name alone says nothing against role and employer."""
    rich = "My name is Ada and I lead the compiler team at Acme."
    bodies = await heard(memory, rich, "my name is Ada Lovelace, by the way")
    assert rich in "\n".join(bodies.values())
    assert "Ada Lovelace" in "\n".join(bodies.values())


async def test_what_the_person_asks_to_forget_is_removed_or_replaced(memory: Memory) -> None:
    """M14c: without a model; memories that a person wrote are never removed."""
    await memory.save(MemoryDraft(body="Short answers in code reviews.", name="Reviews"), BY_HAND)
    told = "Forget what I said about short answers, I want the details."
    bodies = await heard(memory, "I prefer short answers.", told)
    assert sorted(bodies.values()) == ["I want the details", "Short answers in code reviews."]
    bodies = await heard(memory, "Please forget what I said about details.")
    assert list(bodies.values()) == ["Short answers in code reviews."]


async def test_in_suggest_mode_a_removal_waits_for_the_person(memory: Memory) -> None:
    await heard(memory, "I prefer short answers.")
    words = [UserQuote("m1", AT, "forget what I said about short answers")]
    judge = Judge(messages=NewMessages(quotes=words), session="s", now=AT, zone=UTC, origins=BY_USER)
    new = await changes_by_rule(memory, stated_facts(words, zone=UTC), judge, session="s")
    saved = await save_changes(new.changes, removed=new.removed, mode="suggest", session="s")
    assert saved.line.startswith("1 memory to review: ")
    assert len(await memory.list()) == 1
    assert [one.what for one in waiting(memory.location)] == ["remove"]


async def test_a_rule_is_saved_with_its_reason(memory: Memory) -> None:
    said = "Don't mock the database in tests. We got burned when mocks passed and the migration failed."
    assert await heard(memory, said) == {
        "feedback_no_mock_database_tests.md": "Don't mock the database in tests.\n\n"
        "**Why:** We got burned when mocks passed and the migration failed."
    }


async def test_what_is_not_grounded_or_a_secret_is_left_out(memory: Memory) -> None:
    """E9, M16: rules are held to the same as a model."""
    secret = "AKIA" + "QYLPMN5HFIQR7BBB"
    assert await changes(memory, stated("I live in Porto."), said="I live in Lisbon.") == []
    assert await changes(memory, stated(f"My key is {secret}.")) == []


async def test_what_was_found_is_judged_beside_the_conversation(memory: Memory) -> None:
    """E10: all that was said is looked through, which must not hold up who is talking."""
    where: list[threading.Thread] = []

    class Watched(Judge):
        def check(self, change: ChangedFile) -> None:
            where.append(threading.current_thread())

    words = [UserQuote("m1", AT, "I prefer tabs over spaces.")]
    judge = Watched(messages=NewMessages(quotes=words), session="s", now=AT, zone=UTC, origins=BY_USER)
    await changes_by_rule(memory, [stated("I prefer tabs over spaces.")], judge, session="s")
    assert where
    assert threading.main_thread() not in where
