"""Purges after whole sessions: no value is left in any file, and a killed purge can be repeated (M14b)."""

from __future__ import annotations

import shutil
import signal
import subprocess
from datetime import time
from pathlib import Path

import pytest

from bench.machine import bars
from bench.purge import Sizes, holding, measure, purge
from nacre.memory.checks.review import Proposal, propose, waiting
from nacre.memory.daily_log import LogLine, forget_line
from nacre.memory.files.location import Location, MemoryPaths, locate
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.memory.purge.memory import erase, interrupted_purges, purge_target, write_journal
from nacre.memory.purge.memory import purge_target_of_line as target_of_line
from tests.cli.program import nacre
from tests.scale import scaled

HAND = MemoryChange(author="user", reason="by hand")
SECRET = "kF9#qLz2!mVw"
SENTENCE = f"The staging database password is {SECRET} as of today."


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.moves_prefix(reason="one scripted model answers several forks")
def test_no_value_of_a_purged_memory_is_left_in_any_file() -> None:
    """Values of many kinds, through every layer of real sessions; also with kills at the steps of a purge."""
    purged = min(scaled(3), 24)
    kills = scaled(4)
    figures = measure(Sizes(memories=purged + 4, purged=purged, killed=kills))
    assert figures["killed"] >= kills - 1  # two runs may differ by a step
    assert all(one["met"] for one in bars(figures)), figures


def place(home: Path, cwd: Path) -> Location:
    return locate(MemoryPaths(home=home, cwd=cwd))


async def saved(home: Path, cwd: Path, text: str = SENTENCE, file: str = "staging.md") -> Memory:
    cwd.mkdir(parents=True, exist_ok=True)
    memory = await Memory.at(place(home, cwd), cwd)
    draft = MemoryDraft(body=text, file=file, name=file.removesuffix(".md"))
    await memory.save(draft, HAND, allow_secret=True)
    return memory


async def test_a_value_that_a_memory_of_another_project_has_too_is_named_and_stays(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await saved(home, tmp_path)
    other = await saved(home, tmp_path / "other", f"Ask Wu for {SECRET} if need be.", "wu.md")
    before = (other.location.directory / "wu.md").read_bytes()
    ended = nacre(tmp_path, "memory", "forget", "staging.md", "--purge", "--yes")
    assert ended.returncode == 1
    assert f"{other.location.directory / 'wu.md'}: also in another memory; not removed" in ended.stderr
    assert (other.location.directory / "wu.md").read_bytes() == before


async def test_a_name_of_the_project_stays_and_is_reported_but_a_password_goes(tmp_path: Path) -> None:
    """A name in one file only, and a password in many, are no words of the project."""
    home = tmp_path / "home"
    await saved(home, tmp_path, f"{SENTENCE} The tables are quetzal_ledger_sync and heron_ledger_sync.")
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(f"quetzal_ledger_sync = '{SECRET}'\n")
    (tmp_path / "c.py").write_text("heron_ledger_sync = 1\n")
    read = nacre(tmp_path, "-p", "read a.py")
    assert "quetzal_ledger_sync" in read.stdout
    assert "heron" in nacre(tmp_path, "-p", "read c.py").stdout
    ended = nacre(tmp_path, "memory", "forget", "staging.md", "--purge", "--yes")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "one of its words is also in a.py and 1 more file" in ended.stdout
    assert holding(home, "quetzal_ledger_sync")
    assert holding(home, SECRET) == holding(home, "heron_ledger_sync") == []


async def test_proposals_for_other_memories_stay(tmp_path: Path) -> None:
    memory = await saved(tmp_path / "home", tmp_path)
    for file, text in (("staging.md", SENTENCE), ("tea.md", "Green tea."), ("x.md", f"Not {SECRET}.")):
        change = Proposal(file=file, before=None, after=text.encode(), author="dream", reason="seen")
        propose(memory.location, change)
    ended = nacre(tmp_path, "memory", "forget", "staging.md", "--purge", "--yes")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [one.file for one in waiting(memory.location)] == ["tea.md"]


async def test_a_purge_that_was_interrupted_is_named_and_completed(tmp_path: Path) -> None:
    """Killed when the memory was gone from its directory and its history, but not from the sessions."""
    home = tmp_path / "home"
    memory = await saved(home, tmp_path)
    write_journal(memory, purge_target(memory, "staging.md"))
    await erase(memory, "staging.md", HAND)
    log = home / "projects" / "-x" / "s.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(f'{{"type": "assistant", "message": {{"content": "It is {SECRET}."}}}}\n')
    assert interrupted_purges(memory.location.cache) == ["staging.md"]
    assert "a purge of staging.md was interrupted" in nacre(tmp_path, "doctor").stdout
    ended = nacre(tmp_path, "memory", "forget", "staging", "--purge", "--yes")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert holding(home, SECRET) == []
    assert not (memory.location.cache / "purging").exists()


async def test_an_interrupted_purge_of_a_line_does_not_take_the_next_line(tmp_path: Path) -> None:
    memory = await saved(tmp_path / "home", tmp_path, "Green tea.", "tea.md")
    file = "logs/2026/01/2026-01-02.md"
    log = memory.location.directory / file
    log.parent.mkdir(parents=True)
    log.write_text(f"- 10:00 {SENTENCE}\n- 11:00 Wu waters the plants on Friday afternoons.\n")
    line = LogLine(file=file, line=1, end=1, text=SENTENCE, at=time(10))
    write_journal(memory, target_of_line(memory, line))
    await forget_line(memory, line, HAND)
    ended = nacre(tmp_path, "memory", "forget", f"{file}:1", "--purge", "--yes")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Wu waters" in log.read_text()
    assert holding(tmp_path / "home", SECRET) == []


@pytest.mark.slow
async def test_a_purge_by_title_that_was_killed_late_is_completed_by_the_same_words(tmp_path: Path) -> None:
    """Killed soon after the memory is erased, and at the last steps; other memories have similar words."""
    title = "Password of the staging database"
    work = tmp_path / "work"
    memory = await saved(tmp_path / "home", work)
    await memory.save(MemoryDraft(body=SENTENCE, file="staging.md", name=title), HAND, allow_secret=True)
    for number in range(3):
        draft = MemoryDraft(body=f"Password database {number}.", name=f"Staging database {number}")
        await memory.save(draft, HAND)
    (tmp_path / "home").rename(tmp_path / "saved")

    def killed_at(step: int) -> subprocess.CompletedProcess[str]:
        shutil.rmtree(tmp_path / "home", ignore_errors=True)
        shutil.copytree(tmp_path / "saved", tmp_path / "home", symlinks=True)
        return purge(tmp_path, title, kill_at=step)

    steps = int(killed_at(-1).stderr.rpartition("steps=")[2])
    for step in (steps - 5, steps - 1):  # the last but one deletes the journal
        first = killed_at(step)
        assert first.returncode == -signal.SIGKILL
        again = purge(tmp_path, title)
        assert (again.returncode, again.stderr) == (0, ""), step
        assert "nothing was found" in again.stdout
        assert holding(tmp_path / "home", SECRET) == []
    ended = killed_at(steps)
    assert "nothing was found" in ended.stdout  # reported before the journal was deleted
    assert holding(tmp_path / "home", SECRET) == []


@pytest.mark.parametrize("name", ["memo_15.md", "memo_15"])
async def test_a_complete_purge_that_is_repeated_says_that_nothing_has_this_name(
    tmp_path: Path, name: str
) -> None:
    for number in (14, 15, 16):
        await saved(tmp_path / "home", tmp_path, f"{SENTENCE} {number}", f"memo_{number}.md")
    nacre(tmp_path, "memory", "forget", name, "--purge", "--yes")
    again = nacre(tmp_path, "memory", "forget", name, "--purge", "--yes")
    assert again.returncode == 1
    assert f"no memory and no file of the history is called {name!r}: it is already purged" in again.stderr
    assert "similar: memo_1" in again.stderr


async def test_a_title_that_two_memories_have_is_not_purged(tmp_path: Path) -> None:
    memory = await saved(tmp_path / "home", tmp_path)
    for file in ("a.md", "b.md"):
        await memory.save(MemoryDraft(body=f"Tea {file}", file=file, name="Green tea"), HAND)
    ended = nacre(tmp_path, "memory", "forget", "green tea", "--purge", "--yes")
    assert ended.returncode == 1
    assert "may mean several memories" in ended.stderr
    assert "name the file, because this cannot be undone" in ended.stderr
    assert sorted(one.file for one in await memory.list()) == ["a.md", "b.md", "staging.md"]


async def test_a_memory_with_a_title_of_an_interrupted_purge_goes_first(tmp_path: Path) -> None:
    """The name of a memory that exists means that one, and not what the interrupted purge has left."""
    memory = await saved(tmp_path / "home", tmp_path)
    await memory.save(MemoryDraft(body="Green tea.", file="old.md", name="Tea"), HAND)
    write_journal(memory, purge_target(memory, "old.md"))
    await erase(memory, "old.md", HAND)
    await memory.save(MemoryDraft(body="Black and strong.", file="new.md", name="Tea"), HAND)
    assert "erased new.md" in nacre(tmp_path, "memory", "forget", "tea", "--purge", "--yes").stdout
    assert "erased old.md" in nacre(tmp_path, "memory", "forget", "tea", "--purge", "--yes").stdout
