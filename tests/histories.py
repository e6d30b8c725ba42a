"""Commits and scrubs for tests of a history."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from nacre.clock import SYSTEM_CLOCK
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import settle
from nacre.memory.files.transaction import find_external_edits, held
from nacre.store.history import History, Scrub, Signature


def commit_files(
    history: History,
    files: Mapping[str, bytes | None],
    *,
    author: str,
    reason: str,
    session: str = "",
    at: datetime,
) -> str:
    """Record new contents (None = removed) without a memory directory; return the commit."""
    history.repository.make()
    signed = Signature(author=author, reason=reason, session=session, at=at)
    prepared = history.prepare(files, signed)
    history.repository.write(prepared.objects)
    history.repository.move_head(prepared.id)
    return prepared.id


async def pending_edits(location: Location) -> dict[str, bytes | None]:
    """Return what others changed since the last commit, without committing it."""
    async with held(location, clock=SYSTEM_CLOCK) as storage:
        settle(storage)
        return dict(find_external_edits(storage, storage.history.newest).edits)


def without_lines(*texts: str) -> Scrub:
    """Return a scrub that removes every line with one of these texts, ignoring case."""
    needles = [text.casefold() for text in texts if text]

    def scrub(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        plain = [line.decode("utf-8", "replace").casefold() for line in lines]
        kept = [
            line
            for line, text in zip(lines, plain, strict=True)
            if not any(needle in text for needle in needles)
        ]
        return data if len(kept) == len(lines) else b"".join(kept)

    return scrub
