"""What a dream did becomes one commit, on top of whatever others did meanwhile, or nothing at all (D6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import VersionConflict
from nacre.layers.l6_dream.copy import Copy, Step, is_index
from nacre.layers.l6_dream.lock import Held
from nacre.memory.entry import Change
from nacre.memory.location import Location
from nacre.memory.pointers import INDEX_FILE, Index
from nacre.memory.transaction import Transaction, in_thread, transact
from nacre.memory.undo import reversed_text
from nacre.memory.watch import Watch

MAX_REASONS = 200
"""Steps told in the commit, which `git log` shows whole; the rest is counted."""


async def apply(
    location: Location,
    copy: Copy,
    *,
    held: Held | None,
    session: str = "",
    clock: Clock = SYSTEM_CLOCK,
    watch: Watch | None = None,
) -> str:
    """Make it so, and return the commit; `VersionConflict` where somebody else's edits stand in the way."""
    changed = copy.changed
    if not changed:
        return ""
    change = Change(author="dream", reason=reason_of(copy.told()), session=session)
    tx: Transaction | None = None
    try:
        async with transact(location, change, clock=clock, watch=watch) as tx:
            if held is not None and not held.is_ours:
                raise VersionConflict("another process took this dream for abandoned and began its own")
            await in_thread(_write, tx, copy, changed)
    except asyncio.CancelledError:
        # A commit that was under way is completed: who stops us then comes too late, and must be told so.
        if tx is None or not tx.commit:
            raise
    return tx.commit


def reason_of(steps: tuple[Step, ...]) -> str:
    """What a commit says of a dream: a line to list, and every step with its reason."""
    counts = {name: sum(step.action == name for step in steps) for name in ("added", "changed", "removed")}
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    lines = [f"- {step.file}: {step.action}: {step.reason}" for step in steps[:MAX_REASONS]]
    more = [f"- and {len(steps) - MAX_REASONS} more"] if len(steps) > MAX_REASONS else []
    return "\n".join([f"consolidated memory: {said}", "", *lines, *more])


def _write(tx: Transaction, copy: Copy, changed: Mapping[str, bytes | None]) -> None:
    _check_heirs(tx, copy, changed)
    indexes = []
    for file, data in changed.items():
        present, version = tx.read(file)
        wanted = data if present == copy.base.get(file) else _merged(file, copy.base.get(file), data, present)
        if wanted is None:
            tx.delete(file, if_version=version)
        elif wanted != present:
            tx.write(file, wanted, if_version=version, keep_time=file not in copy.by_model)
        if wanted is not None and is_index(file):
            indexes.append(file)
    for file in indexes:
        _drop_dangling(tx, file)


def _merged(file: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes | None:
    """What a file becomes that both changed: theirs on top of ours, where that can be had."""
    if ours == theirs:
        return ours
    if base is not None and ours is not None and theirs is not None:
        # The way from theirs back to what both began with, taken back: that is what they changed.
        both = reversed_text(ours, after=base, before=theirs)
        if both is not None:
            return both
    raise VersionConflict(f"{file} was changed by someone else meanwhile; the dream is put off")


def _check_heirs(tx: Transaction, copy: Copy, changed: Mapping[str, bytes | None]) -> None:
    """What a removed memory said must still be where it was said to be."""
    for step in copy.steps:
        if step.action != "removed" or step.into in changed or step.into not in copy.now:
            continue
        if tx.read(step.into)[0] != copy.base.get(step.into):
            raise VersionConflict(
                f"{step.into} was changed by someone else meanwhile, and {step.file} was to go in favour "
                "of it; the dream is put off"
            )


def _drop_dangling(tx: Transaction, file: str) -> None:
    """A memory that somebody forgot meanwhile loses its line here, too."""
    data, _ = tx.read(file)
    folder = file.removesuffix(INDEX_FILE)
    index = Index.parse(data or b"")
    for line in index.pointers:
        whole = folder + line.file
        if not whole.startswith("team/") and tx.read(whole)[0] is None:
            index = Index.parse(index.without(line.file))
    if index.data != data:
        tx.write(file, index.data)
