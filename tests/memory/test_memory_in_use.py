"""A memory that somebody works on is marked and watched as long as they do, and no longer."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from nacre.errors import StoreError
from nacre.memory.agent_memory import open_live
from nacre.memory.files.location import user_location
from nacre.memory.files.transaction import LIVE
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.testing import FrozenClock


async def test_the_mark_lasts_as_long_as_the_stack(tmp_path: Path) -> None:
    """M15"""
    place = user_location(tmp_path / "home")
    async with AsyncExitStack() as stack:
        memory = await open_live(place, tmp_path, stack, clock=FrozenClock(), keeps_index=False)
        assert len(list((place.cache / LIVE).iterdir())) == 1
        assert memory.watch is not None
        await memory.save(MemoryDraft(body="Tea is green."), MemoryChange(author="agent", reason="remember"))
    assert list((place.cache / LIVE).iterdir()) == []
    assert memory.watch.touched() is None
    assert not (place.directory / "MEMORY.md").exists()


async def test_what_cannot_be_opened_leaves_no_mark(tmp_path: Path) -> None:
    """M15: a file stands where the folder should be."""
    place = user_location(tmp_path / "home")
    place.directory.parent.mkdir()
    place.directory.write_text("in the way")
    async with AsyncExitStack() as stack:
        with pytest.raises(StoreError):
            await open_live(place, tmp_path, stack, clock=FrozenClock())
    assert not (place.cache / LIVE).exists()
