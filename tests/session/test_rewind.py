"""What files held before the agent changed them, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.errors import StoreError
from nacre.messages.blocks import JsonObject, Text
from nacre.messages.records import Compacted, Noted, Said
from nacre.messages.transcript import Transcript
from nacre.session.rewind import Rewind, points
from nacre.testing import FrozenClock


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    } | {str(path.relative_to(root)) + "/": (b"", 0) for path in root.rglob("*") if path.is_dir()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_bytes(b"one\r\n\xff\x00")
    (root / "a.txt").chmod(0o754)
    return root


@pytest.fixture(params=["on disk", "in memory"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, clock: FrozenClock) -> Rewind:
    folder = tmp_path / "session" if request.param == "on disk" else None
    return Rewind(Transcript(), clock, folder=folder)


async def say(kept: Rewind, clock: FrozenClock, words: str) -> None:
    said = Said(id=clock.new_id(), at=clock.now(), role="user", blocks=(Text(words),))
    await kept._transcript.append(said)


async def change(kept: Rewind, path: Path, content: bytes) -> None:
    await kept.keep(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


async def test_files_come_back_byte_for_byte_and_new_ones_go(
    kept: Rewind, clock: FrozenClock, root: Path
) -> None:
    """Checkpoints: /rewind undoes byte for byte, mode and directories included."""
    before = snapshot(root)
    await say(kept, clock, "first")
    await change(kept, root / "a.txt", b"two")
    await change(kept, root / "a.txt", b"three")
    await say(kept, clock, "second")
    between = snapshot(root)
    (root / "a.txt").chmod(0o600)
    await change(kept, root / "deep" / "er" / "new.txt", b"new")
    await change(kept, root / "a.txt", b"four")
    first, second = kept.points()
    assert await kept.restore(second) == [root / "a.txt", root / "deep" / "er" / "new.txt"]
    assert snapshot(root).keys() == between.keys()
    assert (root / "a.txt").read_bytes() == b"three"
    await kept.restore(first)
    assert snapshot(root) == before


async def test_a_rewind_can_itself_be_rewound(kept: Rewind, clock: FrozenClock, root: Path) -> None:
    """What stood there before a rewind is kept first."""
    await say(kept, clock, "first")
    await change(kept, root / "a.txt", b"two")
    await say(kept, clock, "go back")
    first, second = kept.points()
    await kept.restore(first)
    assert (root / "a.txt").read_bytes() == b"one\r\n\xff\x00"
    await kept.restore(second)
    assert (root / "a.txt").read_bytes() == b"two"


async def test_the_conversation_goes_back_and_the_log_keeps_it(kept: Rewind, clock: FrozenClock) -> None:
    """T2: undone, not deleted."""
    for words in ("one", "two", "three"):
        await say(kept, clock, words)
    assert await kept.forget(kept.points()[1]) == 2
    view = kept._transcript.view
    assert [item.parts[0].block for item in view.items] == [Text("one")]
    assert [point.words for point in points(kept._transcript.records)] == ["one"]
    assert len([record for record in kept._transcript.records if isinstance(record, Said)]) == 3


async def test_a_file_that_cannot_be_kept_is_not_changed(kept: Rewind, root: Path) -> None:
    """The checkpoint comes first; without it there is no edit."""
    (root / "pipe").mkdir()
    with pytest.raises(StoreError):
        await kept.keep(root / "pipe")


async def test_one_file_that_cannot_come_back_keeps_no_other_from_it(
    kept: Rewind, clock: FrozenClock, root: Path
) -> None:
    """Neither a directory that took its place nor a file where its directory was ends the rewind half-way."""
    (root / "b.txt").write_bytes(b"b")
    (root / "in").mkdir()
    (root / "in" / "c.txt").write_bytes(b"c")
    await say(kept, clock, "first")
    for name in ("a.txt", "b.txt", "in/c.txt"):
        await change(kept, root / name, b"changed")
    (root / "a.txt").unlink()
    (root / "a.txt").mkdir()
    (root / "in" / "c.txt").unlink()
    (root / "in").rmdir()
    (root / "in").write_bytes(b"a file now")
    with pytest.raises(StoreError, match=r"not everything could be put back: .*a\.txt.* \(and 1 more\)"):
        await kept.restore(kept.points()[0])
    assert (root / "b.txt").read_bytes() == b"b"
    assert (root / "in").read_bytes() == b"a file now"


async def test_going_back_again_and_again_adds_only_what_is_new(kept: Rewind, clock: FrozenClock) -> None:
    """T2: what was taken back already is not taken back once more."""
    await say(kept, clock, "one")
    for _ in range(10):
        for words in ("two", "three"):
            await say(kept, clock, words)
        assert await kept.forget(kept.points()[2]) == 1
        assert await kept.forget(kept.points()[1]) == 1
    assert len(kept._transcript.records) == 1 + 10 * 4
    assert [point.words for point in kept.points()] == ["one"]


async def test_before_the_first_message_there_is_nothing_in_view(kept: Rewind, clock: FrozenClock) -> None:
    """What the session said ahead of it goes too; a compaction that stands before it stays."""
    opening = Said(id=clock.new_id(), at=clock.now(), role="user", blocks=(Text("It is Sunday."),), meta=True)
    await kept._transcript.append(opening)
    await say(kept, clock, "one")
    assert await kept.forget(kept.points()[0]) == 2
    assert list(kept._transcript.view.items) == []
    summary = Compacted(id=clock.new_id(), at=clock.now(), summary=(Text("What was."),))
    await kept._transcript.append(summary)
    await say(kept, clock, "two")
    assert await kept.forget(kept.points()[0]) == 1
    assert [item.parts[0].block for item in kept._transcript.view.items] == [Text("What was.")]


@pytest.mark.parametrize(
    "facts",
    [
        {"path": "a.txt", "blob": None, "mode": None, "made": []},
        {"path": "a.txt", "blob": "../../evil", "mode": 0o755, "made": []},
        {"path": "a.txt", "blob": "0" * 64, "mode": None, "made": []},
    ],
)
async def test_a_log_from_elsewhere_cannot_have_files_deleted_or_overwritten(
    kept: Rewind, clock: FrozenClock, root: Path, facts: JsonObject
) -> None:
    """A log may be imported; only what this session kept itself goes back."""
    (root.parent / "evil").write_text("run me")
    before = snapshot(root)
    await say(kept, clock, "first")
    named = {**facts, "path": str(root / "a.txt")}
    await kept._transcript.append(Noted(id="n", at=clock.now(), kind="checkpoint", facts=named))
    [point] = kept.points()
    with pytest.raises(StoreError, match="kept"):
        await kept.restore(point)
    assert snapshot(root) == before


async def test_a_link_that_replaced_a_directory_leads_neither_a_checkpoint_nor_a_rewind_out(
    kept: Rewind, clock: FrozenClock, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    (root / "docs").mkdir()
    (root / "docs" / "a.txt").write_text("one")
    await say(kept, clock, "first")
    await change(kept, root / "docs" / "a.txt", b"two")
    await change(kept, root / "docs" / "new" / "b.txt", b"new")
    (root / "docs").rename(root / "docs.real")
    (root / "docs").symlink_to(outside)
    (outside / "new").mkdir()
    (outside / "new" / "b.txt").write_text("secret")
    before = snapshot(outside)
    with pytest.raises(StoreError, match="symbolic link was put"):
        await kept.keep(root / "docs" / "a.txt")
    with pytest.raises(StoreError, match="symbolic link was put"):
        await kept.restore(kept.points()[0])
    assert kept._restore_all([one for point in kept.points() for one in point.kept])
    assert snapshot(outside) == before
