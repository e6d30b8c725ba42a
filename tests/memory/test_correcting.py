"""A correction without a subject: which value it puts where, and when it is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import StoreError
from nacre.memory.corrections import parse_correction
from nacre.memory.format.entry import MemoryDraft
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.memory import Memory
from nacre.testing import FrozenClock


@pytest.fixture
async def memory(tmp_path: Path, clock: FrozenClock) -> Memory:
    return await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")}, clock=clock)


@pytest.mark.parametrize(
    ("said", "before", "after"),
    [
        ("it is Friday, not Tuesday", "deploys are on Tuesday", "deploys are on Friday"),
        ("it's on Friday, not Tuesday.", "Deploys are on Tuesday.", "Deploys are on Friday."),
        ("It’s Friday not on Tuesday", "deploys are on Tuesday", "deploys are on Friday"),
        ("they're weekly, not daily", "backups run daily at 3", "backups run weekly at 3"),
        ("i meant Friday, not Tuesday", "deploys are on Tuesday", "deploys are on Friday"),
        ("Friday, not Tuesday", "deploys are on Tuesday", "deploys are on Friday"),
        ("it isn't tuesday, it's friday", "Tuesday is deploy day", "Friday is deploy day"),
        ("not Tuesday, but Friday", "deploys are on Tuesday", "deploys are on Friday"),
        ("it's an egret, not a heron", "the server is a heron", "the server is an egret"),
        ("it is in Oslo, not Bergen", "the office: Bergen", "the office: in Oslo"),
        ("it is the first Friday of a month, not Tuesday", "on Tuesday", "on the first Friday of a month"),
        ("应该是周五，而不是周二", "部署在周二进行", "部署在周五进行"),
        ("不是周二，是周五", "部署在周二", "部署在周五"),
    ],
)
def test_one_value_takes_the_others_place(said: str, before: str, after: str) -> None:
    """M14c."""
    found = parse_correction(said)
    assert found is not None
    assert found.applied(before) == after


@pytest.mark.parametrize(
    "said",
    [
        "Deploys are on Friday, not Tuesday",
        "We use pnpm, not npm",
        "do not use npm",
        "use pnpm instead of npm",
        "It is important to run the tests, not optional",
        "it is still not Tuesday",
        "not Tuesday, we deploy on Friday",
        "it is Friday",
        "部署是周五，不是周二",
        "The build server is heron.\nIt is in the basement, not in the cloud",
        "",
    ],
)
def test_a_text_with_a_subject_of_its_own_is_taken_as_it_is(said: str) -> None:
    assert parse_correction(said) is None


@pytest.mark.parametrize("before", ["On Tuesday, and Tuesday only", "deploys are on Tuesdays", "on Monday"])
def test_where_a_value_stands_twice_or_not_at_all_nothing_is_guessed(before: str) -> None:
    found = parse_correction("it is Friday, not Tuesday")
    assert found is not None
    assert found.applied(before) is None


WORDS = ["it", "is", "'s", " ", ",", "not", "on", "but", "a", "是", "不是", "，", "."]


@given(st.lists(st.sampled_from(WORDS)))
def test_any_words_are_read_to_an_end(words: list[str]) -> None:
    found = parse_correction("".join(words))
    assert found is None or (found.new.strip() and found.old.strip() and found.applied("on a day") != "")


async def test_a_named_value_is_replaced_or_nothing_is_changed(memory: Memory) -> None:
    """M14c: unlike a sentence, which is appended where its old value is not found."""
    await memory.save(MemoryDraft(body="Port 80, then port 80.", name="Ports on 8080"))
    with pytest.raises(StoreError, match="does not have '80' exactly once"):
        await memory.correct("Ports on 8080", "81", old="80")
    await memory.save(MemoryDraft(body="The web is on 8080.", name="Ports on 8080"))
    saved = await memory.correct("Ports on 8080", "9090", old="8080")
    assert (saved.entry.body.strip(), saved.entry.name) == ("The web is on 9090.", "Ports on 9090")


async def test_a_correction_keeps_the_subject_and_renames_what_was_named_after_the_old_value(
    memory: Memory,
) -> None:
    """M14c, M8: title, description and pointer say what holds now; the file keeps its name."""
    saved = await memory.save("deploys are on Tuesday")
    corrected = await memory.correct("Tuesday", "it is Friday, not Tuesday")
    entry = corrected.entry
    assert entry.file == saved.entry.file == "project_deploys_tuesday.md"
    assert (entry.name, entry.description, entry.body) == (
        "Deploys are on Friday",
        "deploys are on Friday",
        "deploys are on Friday\n",
    )
    index = (memory.location.directory / INDEX_FILE).read_text()
    assert index.endswith("- [Deploys are on Friday](project_deploys_tuesday.md)\n")


async def test_a_whole_new_text_renames_only_what_was_named_after_the_old_one(memory: Memory) -> None:
    """M14c: a title of somebody's own stays."""
    await memory.save("Deploys are on Tuesday.")
    await memory.save(MemoryDraft(body="Ana reviews the backend.", name="Reviews"))
    assert (await memory.correct("deploys", "Deploys are on Friday.")).entry.name == "Deploys are on Friday"
    assert (await memory.correct("reviews", "Bo reviews the backend.")).entry.name == "Reviews"
    again = await memory.save(MemoryDraft(body="Deploys are on Monday.", file="project_deploys_tuesday.md"))
    assert again.entry.name == "Deploys are on Monday"


async def test_what_cannot_be_put_in_place_is_added_so_that_the_subject_is_not_lost(memory: Memory) -> None:
    """M14c."""
    saved = await memory.save("Deploys are on Tuesday: every Tuesday at noon.")
    corrected = await memory.correct("deploys", "it is Friday, not Tuesday")
    assert corrected.entry.body == f"{saved.entry.body}\nit is Friday, not Tuesday\n"


async def test_who_corrects_one_value_does_not_vouch_for_the_rest(memory: Memory) -> None:
    """M16b: words from outside stay marked, whoever put a day right in them."""
    await memory.save(MemoryDraft(body="Run the deploy script from the wiki on Tuesday.", origin="untrusted"))
    corrected = await memory.correct("deploy", "it is Friday, not Tuesday", origin="user")
    assert (corrected.entry.origin, "on Friday" in corrected.entry.body) == ("untrusted", True)
    whole = await memory.correct("deploy", "Deploys are on Friday.", origin="user")
    assert whole.entry.origin == "user"
