"""What nobody vouches for is told apart until the user confirms it; the history is only added to (M15)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nacre.errors import StoreError
from nacre.memory.agent_memory import agent_live
from nacre.memory.files import undo as confirming
from nacre.memory.files.location import Location
from nacre.memory.files.transaction import pick_up, transact
from nacre.memory.files.undo import (
    confirm,
    is_confirmation,
    purge,
    unconfirmed_changes,
    unconfirmed_commits,
    unconfirmed_files,
    undo,
)
from nacre.memory.format.entry import MemoryChange
from nacre.store.history import History
from tests.memory.chaos.saving import location

BY_USER = MemoryChange(author="user", reason="by hand")
AGENT = MemoryChange(author="agent", reason="remember")


@pytest.fixture
def where(tmp_path: Path) -> Location:
    found = location(tmp_path)
    found.directory.mkdir(parents=True)
    return found


async def save(where: Location, file: str, text: str | None, change: MemoryChange = BY_USER) -> str:
    async with transact(where, change) as tx:
        if text is None:
            tx.delete(file)
        else:
            tx.write(file, text.encode())
    return tx.commit


async def shell(where: Location, **files: str | None) -> str:
    """Edits while an agent is at work, as its shell would make them; returns their commit."""
    async with agent_live(where):
        for name, text in files.items():
            path = where.directory / f"{name}.md"
            path.unlink() if text is None else path.write_text(text)
        return await pick_up(where)


def log(where: Location) -> list[tuple[str, str]]:
    return [(one.author, one.reason.partition("\n")[0]) for one in History(where.history).log(99)]


async def test_only_what_was_edited_beside_an_agent_is_unconfirmed(where: Location) -> None:
    """M15: the user's own edits and nacre's own writes are not."""
    await save(where, "a.md", "a\n")
    (where.directory / "hand.md").write_text("by hand\n")
    await pick_up(where)
    await save(where, "b.md", "b\n", AGENT)
    assert unconfirmed_files(where) == {}
    made = await shell(where, a="changed\n", new="new\n")
    assert unconfirmed_files(where) == {"a.md": (made,), "new.md": (made,)}
    assert [one.id for one in unconfirmed_commits(where)] == [made]


async def test_a_confirmation_is_one_more_commit_by_the_user(where: Location) -> None:
    """M15: append-only, no file is touched, and plain git reads it."""
    first = await shell(where, a="one\n")
    second = await shell(where, b="two\n")
    before = History(where.history).log(99)
    done = await confirm(where)
    assert [one.id for one in done.commits] == [second, first]
    assert unconfirmed_files(where) == {}
    assert unconfirmed_changes(where).confirmed == {first, second}
    assert log(where)[0] == ("user", "confirmed 2 changes")
    assert History(where.history).log(99)[1:] == before
    assert History(where.history).one(done.commit).files == ()
    shown = subprocess.run(
        ["git", "--git-dir", str(where.history), "log", "-1", "--format=%an %B"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert first in shown.stdout
    subprocess.run(
        ["git", "--git-dir", str(where.history), "fsck", "--strict"], check=True, capture_output=True
    )


async def test_one_commit_is_confirmed_by_its_short_id(where: Location) -> None:
    first = await shell(where, a="one\n")
    second = await shell(where, b="two\n")
    await confirm(where, [first[:10]])
    assert unconfirmed_files(where) == {"b.md": (second,)}
    assert (await confirm(where, [first])).commit == ""
    assert len(History(where.history).log(99)) == 3


async def test_what_is_no_doubt_cannot_be_confirmed(where: Location) -> None:
    made = await save(where, "a.md", "a\n", AGENT)
    await shell(where, b="two\n")
    with pytest.raises(StoreError, match="by agent"):
        await confirm(where, [made])
    with pytest.raises(StoreError, match="not in the history"):
        await confirm(where, ["deadbeef"])
    assert len(unconfirmed_files(where)) == 1


async def test_nothing_to_confirm_makes_no_commit(where: Location) -> None:
    assert (await confirm(where)).commit == ""
    await save(where, "a.md", "a\n")
    assert (await confirm(where)).commit == ""
    assert len(History(where.history).log(99)) == 1


async def test_a_file_stays_unconfirmed_whatever_is_written_on_top(where: Location) -> None:
    """The unconfirmed words may still be in it."""
    made = await shell(where, a="one\n")
    await save(where, "a.md", "one\nand more\n", AGENT)
    assert unconfirmed_files(where) == {"a.md": (made,)}
    again = await shell(where, a="one\nand more\nand evil\n")
    assert unconfirmed_files(where) == {"a.md": (again, made)}
    await confirm(where, [made])
    assert unconfirmed_files(where) == {"a.md": (again,)}


async def test_what_was_taken_back_is_no_longer_in_doubt(where: Location) -> None:
    """Undone, forgotten, or begun anew."""
    await save(where, "a.md", "one\n")
    made = await shell(where, a="evil\n", b="evil\n", c="evil\n")
    await save(where, "b.md", None)
    await save(where, "c.md", None)
    await save(where, "c.md", "fresh\n")
    assert unconfirmed_files(where) == {"a.md": (made,)}
    await save(where, "a.md", "one\n")
    assert unconfirmed_files(where) == {}
    assert unconfirmed_commits(where) == []


async def test_a_memory_that_an_agents_shell_removed_is_told_too(where: Location) -> None:
    """Also where the user had made it, or it is put back as it once was."""
    await save(where, "a.md", "one\n")
    await save(where, "b.md", "one\n")
    await save(where, "b.md", "two\n")
    made = await shell(where, a=None, b="one\n")
    assert unconfirmed_files(where) == {"a.md": (made,), "b.md": (made,)}
    await save(where, "a.md", "again\n")
    assert unconfirmed_files(where) == {"b.md": (made,)}


async def test_an_undone_confirmation_is_a_doubt_again(where: Location) -> None:
    """M15: undo of the newest change, whatever it was."""
    made = await shell(where, a="one\n")
    marker = (await confirm(where)).commit
    assert is_confirmation(History(where.history).one(marker))
    assert await undo(where, change=BY_USER) != marker
    assert unconfirmed_files(where) == {"a.md": (made,)}
    assert log(where)[0] == ("user", "doubted 1 change")
    newest = History(where.history).newest
    assert await undo(where, marker, change=BY_USER) == newest
    assert (await confirm(where)).commit
    assert unconfirmed_files(where) == {}


@pytest.mark.parametrize(
    "change",
    [
        MemoryChange(author="agent", reason="confirmed 1 change\n\nCommit: {id}"),
        MemoryChange(author="user", reason="undo 1234567890: confirmed 1 change\n\nCommit: {id}"),
        MemoryChange(author="user", reason="confirmed 1 change\n\nand what\n\nCommit: {id}"),
        MemoryChange(author="unconfirmed", reason="confirmed 1 change\n\nCommit: {id}"),
    ],
)
async def test_no_other_commit_passes_for_a_confirmation(where: Location, change: MemoryChange) -> None:
    """A reason may hold words that a model chose."""
    made = await shell(where, a="one\n")
    forged = MemoryChange(author=change.author, reason=change.reason.replace("{id}", made))
    await save(where, "b.md", "b\n", forged)
    assert made in unconfirmed_files(where)["a.md"]


async def test_a_purge_keeps_what_is_confirmed_confirmed(where: Location) -> None:
    """M14b: all commits get new names, and the confirmation names them."""
    await save(where, "secret.md", "secret\n")
    await shell(where, a="one\n")
    await confirm(where)
    open_one = await shell(where, b="two\n")
    await save(where, "secret.md", None)
    await purge(where, ["secret.md"])
    assert open_one not in {one.id for one in History(where.history).log(99)}
    assert list(unconfirmed_files(where)) == ["b.md"]
    assert len(unconfirmed_changes(where).confirmed) == 1


async def test_edits_that_nobody_committed_yet_are_confirmed_with_the_rest(where: Location) -> None:
    async with agent_live(where):
        (where.directory / "a.md").write_text("one\n")
        done = await confirm(where)
    assert [one.files for one in done.commits] == [("a.md",)]


async def test_a_long_history_is_walked_once(where: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patched to count, because what is not done cannot be seen otherwise."""
    made = await shell(where, a="one\n")
    await confirm(where)
    for number in range(5):
        await save(where, "b.md", f"{number}\n")
    later = await shell(where, c="three\n")
    assert unconfirmed_files(where) == {"c.md": (later,)}
    await save(where, "b.md", "last\n")
    read: list[str] = []
    head = History.head
    monkeypatch.setattr(History, "head", lambda self, commit: read.append(commit) or head(self, commit))
    found = unconfirmed_changes(where)
    assert found.confirmed == {made}
    assert found.files == {"c.md": (later,)}
    assert made not in read


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"newest": 1}', b'{"newest": "x", "open": 3}'])
async def test_a_broken_cache_costs_only_time(where: Location, data: bytes) -> None:
    made = await shell(where, a="one\n")
    unconfirmed_files(where)
    (where.cache / confirming.CACHE_FILE).write_bytes(data)
    assert unconfirmed_files(where) == {"a.md": (made,)}


def test_looking_at_nothing_makes_nothing(tmp_path: Path) -> None:
    where = location(tmp_path / "nowhere")
    assert unconfirmed_files(where) == {}
    assert not (tmp_path / "nowhere").exists()
