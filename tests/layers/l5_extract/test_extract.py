"""What rules found becomes a change to memory: new, corrected, added, or nothing at all (M14c)."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.layers.l5_extract.by_rule import StatedFact
from nacre.layers.l5_extract.extract import changes_by_rule, slot_of
from nacre.layers.l5_extract.judge import Judge, NewMessages
from nacre.memory.copies import ChangedFile
from nacre.memory.files.folder import version_of
from nacre.memory.format.entry import MemoryChange, MemoryDraft, read_entry
from nacre.memory.memory import Memory
from nacre.messages.facts import UserQuote
from nacre.testing import FrozenClock

AT = datetime(2026, 11, 15, 12, tzinfo=UTC)
BY_HAND = MemoryChange(author="user", reason="by hand")


@pytest.fixture
async def memory(tmp_path: Path, clock: FrozenClock) -> Memory:
    project = tmp_path / "project"
    project.mkdir()
    return await Memory.open(project, environ={"NACRE_HOME": str(tmp_path / "home")}, clock=clock)


def stated(text: str, *, name: str = "", negates: str = "") -> StatedFact:
    return StatedFact(text, "user", name or "-".join(text.lower().split()[:4]), text, ("m1",), None, negates)


async def changes(memory: Memory, *found: StatedFact, said: str = "") -> list[ChangedFile]:
    words = [UserQuote("m1", AT, said or "\n".join(one.text for one in found))]
    judge = Judge(
        messages=NewMessages(quotes=words), session="s", now=AT, zone=UTC, origin_of=lambda _: "user"
    )
    return await changes_by_rule(memory, found, judge, session="s")


async def kept(memory: Memory, *found: StatedFact) -> list[str]:
    done = await changes(memory, *found)
    files = {one.file: (one.after, version_of(one.before)) for one in done}
    await memory.put_all(files, MemoryChange(author="extract", reason="heard", session="s"))
    return list(files)


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
    """M14c: the title stays, the words are the new ones."""
    (file,) = await kept(memory, stated("I live in Lisbon."))
    denied = stated("I no longer live in Lisbon.", name="no-longer", negates="live in Lisbon")
    assert await kept(memory, denied) == [file]
    entry = read_entry(file, (memory.location.directory / file).read_bytes())
    assert (entry.name, entry.body.strip()) == ("Where the user lives", "I no longer live in Lisbon.")


async def test_what_a_person_wrote_at_length_is_added_to_and_never_replaced(memory: Memory) -> None:
    """M14c: their words stay."""
    await memory.save(
        MemoryDraft(body="A long story.\n\nWith two parts.", name="Where the user lives"), BY_HAND
    )
    (file,) = await kept(memory, stated("I live in Porto."))
    body = read_entry(file, (memory.location.directory / file).read_bytes()).body
    assert body == "A long story.\n\nWith two parts.\n\nI live in Porto.\n"


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
    judge = Watched(
        messages=NewMessages(quotes=words), session="s", now=AT, zone=UTC, origin_of=lambda _: "user"
    )
    await changes_by_rule(memory, [stated("I prefer tabs over spaces.")], judge, session="s")
    assert where
    assert threading.main_thread() not in where
