"""Two people share a team's memory through git or through a folder (M18)."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre.memory.checks.lint import lint
from nacre.memory.files.undo import undo
from nacre.memory.purge.memory import erase
from nacre.memory.team.remote import RefusedFile
from nacre.memory.team.sync import SyncReport
from nacre.testing import FrozenClock
from tests.memory.clones import BRANCH, BY_HAND, Clone, bare_repository, git
from tests.scale import scaled

SECRET = "AKIA" + "QYLPMN5HFIQR7BBB"
Pair = tuple[Clone, Clone]
NOTHING = SyncReport()


@pytest.fixture(params=["git", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "git":
        return str(bare_repository(tmp_path / "shared.git"))
    (tmp_path / "shared").mkdir()
    return f"folder:{tmp_path / 'shared'}"


@pytest.fixture
def person(tmp_path: Path, place: str, clock: FrozenClock) -> Callable[[str], Awaitable[Clone]]:
    return lambda name: Clone.made(tmp_path, name, place, clock)


@pytest.fixture
async def pair(person: Callable[[str], Awaitable[Clone]]) -> Pair:
    """Ana and Bo, in step, with one memory."""
    ana, bo = await person("ana"), await person("bo")
    await ana.save("deploys.md", "We deploy on Monday.")
    await ana.sync()
    await bo.sync()
    return ana, bo


@pytest.mark.slow
async def test_what_one_saves_the_other_gets_byte_for_byte(pair: Pair) -> None:
    """M18: whole files by content hash, as one transaction by `team`."""
    ana, bo = pair
    assert ana.files == bo.files != {}
    assert (await bo.sync(), await ana.sync()) == (NOTHING, NOTHING)
    await bo.save("deploys.md", "We deploy on Tuesday.")
    await bo.save("sub/tea.md", "Green.")
    assert (await bo.sync()).pushed == ("MEMORY.md", "deploys.md", "sub/tea.md")
    report = await ana.sync()
    assert (report.pulled, report.conflicts) == (("MEMORY.md", "deploys.md", "sub/tea.md"), ())
    assert ana.files == bo.files
    newest, *_ = await (await ana.memory()).log(limit=1)
    assert (newest.id, newest.author, newest.reason) == (report.commit, "team", "synced with the team")
    assert newest.files == ("MEMORY.md", "deploys.md", "sub/tea.md")


@pytest.mark.slow
async def test_what_one_forgets_is_gone_for_everybody_and_stays_gone(
    pair: Pair, person: Callable[[str], Awaitable[Clone]]
) -> None:
    """M18: a deletion travels as a tombstone."""
    ana, bo = pair
    old = bo.files["deploys.md"]
    cy = await person("cy")
    await cy.sync()
    await ana.forget("deploys.md")
    assert (await ana.sync()).withdrawn == ("deploys.md",)
    assert (await bo.sync()).deleted == ("deploys.md",)
    assert bo.bodies == {}
    assert "deploys" not in bo.files["MEMORY.md"]
    cy.lose_record()  # and still has the old file
    report = await cy.sync()
    assert (report.deleted, report.pushed) == (("deploys.md",), ())
    dee = await person("dee")  # comes late, with a copy from somewhere
    dee.write("deploys.md", old)
    assert (await dee.sync()).deleted == ("deploys.md",)
    assert [one.bodies for one in (ana, bo, cy, dee)] == [{}] * 4


async def test_a_deletion_is_sent_although_the_record_was_lost_meanwhile(pair: Pair) -> None:
    ana, bo = pair
    await ana.forget("deploys.md")
    ana.lose_record()
    assert (await ana.sync()).withdrawn == ("deploys.md",)
    await bo.sync()
    assert bo.bodies == {}


async def test_a_forgotten_memory_can_be_brought_back_for_everybody(pair: Pair) -> None:
    ana, bo = pair
    await ana.forget("deploys.md")
    await ana.sync()
    await bo.sync()
    await undo(bo.location, change=BY_HAND)
    assert "deploys.md" in (await bo.sync()).pushed
    await ana.sync()
    assert ana.bodies == bo.bodies == {"deploys.md": "We deploy on Monday."}
    assert "(deploys.md)" in ana.files["MEMORY.md"]


async def test_what_is_purged_here_does_not_come_back(pair: Pair) -> None:
    """M14b, M18: nothing of it is left in the cache, but that it was there is still known."""
    ana, bo = pair
    await erase(await ana.memory(), "deploys.md", BY_HAND)
    cached = b"".join(path.read_bytes() for path in ana.location.cache.rglob("*") if path.is_file())
    assert b"Monday" not in cached
    assert not (ana.location.cache / "remote.git").exists()
    report = await ana.sync()
    assert (report.withdrawn, report.pulled) == (("deploys.md",), ())
    assert (await bo.sync()).deleted == ("deploys.md",)


async def test_two_changed_texts_are_both_kept_and_it_is_said(pair: Pair) -> None:
    """M18: conflicts keep both and say so; everybody ends with the same."""
    ana, bo = pair
    await ana.save("deploys.md", "We deploy on Tuesday.")
    await bo.save("deploys.md", "We deploy on Friday.")
    await ana.sync()
    report = await bo.sync()
    [conflict] = report.conflicts
    assert (conflict.file, conflict.copy) == ("deploys.md", conflict.copy)
    assert conflict.copy.startswith("deploys_theirs_")
    assert bo.bodies == {"deploys.md": "We deploy on Friday.", conflict.copy: "We deploy on Tuesday."}
    assert (await ana.sync()).conflicts == ()
    assert ana.files == bo.files
    hooks = [line for line in bo.files["MEMORY.md"].splitlines() if line.startswith("- ")]
    assert [f"({file})" in line for file, line in zip(sorted(bo.bodies), hooks, strict=True)] == [True, True]
    assert "Friday" in hooks[0]
    assert {problem.kind for problem in lint(bo.location.directory)} == {"duplicate-name"}


async def test_a_changed_text_outlives_its_deletion(pair: Pair) -> None:
    ana, bo = pair
    await ana.forget("deploys.md")
    await bo.save("deploys.md", "We deploy on Friday.")
    await ana.sync()
    assert [one.why for one in (await bo.sync()).conflicts] == ["changed here and forgotten there; it stays"]
    assert "deploys.md" in (await ana.sync()).pulled
    assert ana.bodies == bo.bodies == {"deploys.md": "We deploy on Friday."}
    assert "(deploys.md)" in ana.files["MEMORY.md"]
    await bo.save("deploys.md", "Never on Friday.")
    await bo.sync()
    await ana.forget("deploys.md")
    assert await ana.sync() != NOTHING
    assert ana.bodies == {"deploys.md": "Never on Friday."}
    assert ana.files == bo.files


async def test_the_same_text_saved_twice_is_no_conflict(
    person: Callable[[str], Awaitable[Clone]], clock: FrozenClock
) -> None:
    ana, bo = await person("ana"), await person("bo")
    await ana.save("deploys.md", "We deploy on Monday.")
    clock.advance(3600)
    await bo.save("deploys.md", "We deploy on Monday.")
    await ana.sync()
    assert (await bo.sync()).conflicts == ()
    await ana.sync()
    assert ana.files == bo.files


async def test_without_the_record_nothing_is_doubled(pair: Pair) -> None:
    """M18: the record is safe to lose."""
    ana, bo = pair
    await ana.save("deploys.md", "We deploy on Tuesday.")
    await ana.sync()
    bo.lose_record()
    assert (await bo.sync()).conflicts == ()
    await bo.save("deploys.md", "We deploy on Friday.")
    bo.lose_record()
    assert (await bo.sync()).conflicts == ()
    await ana.sync()
    assert ana.bodies == bo.bodies == {"deploys.md": "We deploy on Friday."}


async def test_a_lost_folder_comes_back_and_forgets_nothing(pair: Pair) -> None:
    ana, bo = pair
    before = bo.files
    shutil.rmtree(ana.location.directory)
    await ana.memory()
    assert (await ana.sync()).withdrawn == ()
    ana.lose_record()
    shutil.rmtree(ana.location.directory)
    await ana.memory()
    assert (await ana.sync()).withdrawn == ()
    assert ana.files == before
    assert (await bo.sync(), bo.files) == (NOTHING, before)


async def test_a_lost_place_is_filled_again(pair: Pair, place: str) -> None:
    ana, bo = pair
    if place.startswith("folder:"):
        shutil.rmtree(place.removeprefix("folder:"))
        Path(place.removeprefix("folder:")).mkdir()
    else:
        git("-C", place, "update-ref", "-d", f"refs/heads/{BRANCH}")
    before = ana.files
    assert (await ana.sync()).pushed == ("MEMORY.md", "deploys.md")
    assert await bo.sync() == NOTHING
    assert ana.files == bo.files == before


async def test_secrets_never_leave_and_the_rest_goes(pair: Pair) -> None:
    """M16, M18: named by kind and line, never by value."""
    ana, bo = pair
    ana.write("keys.md", f"---\ntype: reference\n---\n\n{SECRET}\n")
    await ana.save("tea.md", "Green.")
    report = await ana.sync()
    assert report.pushed == ("MEMORY.md", "tea.md")
    assert report.refused == (RefusedFile("keys.md", "holds AWS access key in line 5; it is not shared"),)
    assert SECRET not in str(report)
    await bo.sync()
    assert set(bo.bodies) == {"deploys.md", "tea.md"}
    ana.write("deploys.md", ana.files["deploys.md"] + SECRET)  # one that is shared already
    assert {one.file for one in (await ana.sync()).refused} == {"deploys.md", "keys.md"}
    await bo.save("deploys.md", "We deploy on Friday.")
    await bo.sync()
    assert SECRET in (await ana.sync(), ana.files["deploys.md"])[1]
    assert bo.bodies["deploys.md"] == "We deploy on Friday."


async def test_what_is_private_untrusted_or_about_a_person_stays(pair: Pair) -> None:
    """M16b, M18, M27: neither its text nor its line in the index goes."""
    ana, bo = pair
    ana.write("tea.md", "---\nname: Tea\ntype: user\n---\n\nLikes green tea.\n")
    ana.write("web.md", "---\nname: Web\ntype: project\norigin: untrusted\n---\n\nA page said so.\n")
    ana.write("mine.md", "---\nname: Mine\ntype: project\nlocal-only: true\n---\n\nOnly here.\n")
    ana.write(
        "MEMORY.md", ana.files["MEMORY.md"] + "- [Mine](mine.md) - only here\n- [Tea](tea.md) - green\n"
    )
    report = await ana.sync()
    assert (report.pushed, report.stayed) == ((), ("mine.md",))
    assert [one.file for one in report.refused] == ["tea.md", "web.md"]
    assert "not confirmed" in report.refused[1].why
    await bo.save("deploys.md", "We deploy on Friday.")
    await bo.sync()
    await ana.sync()
    assert set(bo.files) == {"MEMORY.md", "deploys.md"}
    assert "mine.md" not in bo.files["MEMORY.md"]
    assert "(mine.md)" in ana.files["MEMORY.md"]
    assert "(tea.md)" in ana.files["MEMORY.md"]
    assert (await ana.sync()).pushed == ()


async def test_a_dry_run_says_the_same_and_does_nothing(pair: Pair) -> None:
    ana, bo = pair
    await ana.save("tea.md", "Green.")
    await bo.save("deploys.md", "We deploy on Friday.")
    await bo.sync()
    before = ana.files
    dry = await ana.sync(is_dry=True)
    assert (ana.files, await bo.sync()) == (before, NOTHING)
    report = await ana.sync()
    assert report.commit
    assert (dry.pulled, dry.pushed) == (report.pulled, report.pushed)
    assert report.pulled == ("MEMORY.md", "deploys.md")


async def test_another_place_has_a_record_of_its_own(pair: Pair, tmp_path: Path, clock: FrozenClock) -> None:
    ana, _ = pair
    (tmp_path / "other").mkdir()
    moved = Clone(ana.location, f"folder:{tmp_path / 'other'}", clock)
    assert (await moved.sync()).pushed == ("MEMORY.md", "deploys.md")


acts = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["save", "save", "forget", "sync", "sync", "lose"]),
        st.sampled_from(["a.md", "b.md", "sub/c.md"]),
    ),
    max_size=25,
)


@settings(max_examples=scaled(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=acts)
async def test_whatever_three_people_do_nothing_is_lost_and_all_end_alike(
    acts: list[tuple[int, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """M18: a text is gone only if somebody who had it changed or forgot it.

    It is gone for all then; only where it was kept as the second text of a conflict, it may still be.
    """
    base, clock = tmp_path_factory.mktemp("three"), FrozenClock()
    (base / "shared").mkdir()
    people = [await Clone.made(base, name, f"folder:{base / 'shared'}", clock) for name in ("a", "b", "c")]
    texts: set[str] = set()
    ended: set[str] = set()
    for number, (who, act, file) in enumerate(acts):
        one = people[who]
        ended_here = one.bodies.get(file)
        if act == "save":
            text = f"Text number {number}."
            await one.save(file, text)
            texts.add(text)
        elif act == "forget" and ended_here:
            await one.forget(file)
        elif act == "sync":
            await one.sync()
        elif act == "lose" and (one.location.cache / "team.json").exists():
            one.lose_record()
        if act in {"save", "forget"} and ended_here:
            ended.add(ended_here)
    for one in (*people, *people, *people):
        await one.sync()
    assert people[0].files == people[1].files == people[2].files
    bodies = people[0].bodies
    assert texts - ended <= set(bodies.values()) <= texts
    assert not ended & {text for file, text in bodies.items() if "_theirs_" not in file}
    assert [(await one.sync()).pushed for one in people] == [()] * 3
    kinds = {problem.kind for problem in lint(people[0].location.directory)}
    assert not kinds & {"dangling-pointer", "unlisted"}
