"""Copy all memories of one home to another and report the result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nacre.memory.files.scan import SkippedFile
from nacre.memory.transfer.copy_home import CopyResult, DirectoryPair, HomeCopy
from nacre.messages.blocks import JsonObject

SHOWN = 10
"""Directories and names listed individually."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """The result for every memory of a home, done or planned."""

    home_copy: HomeCopy
    found: tuple[CopyResult, ...]
    without: tuple[SkippedFile, ...]
    is_dry: bool

    @property
    def count(self) -> int:
        return sum(len(one.imported.files) for one in self.found)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was refused and nothing failed."""
        return not any(one.failed or one.imported.refused for one in self.found)

    def lines(self) -> Iterator[str]:
        """Return how many were copied, from which directories, and which were not and why."""
        if self.count:
            verb = "would copy" if self.is_dry else "copied"
            memories = "memory" if self.count == 1 else "memories"
            yield f"{verb} {self.count:,} {memories} from {self.home_copy.old} to {self.home_copy.new}:"
            several = [one for one in self.found if one.imported.files]
            for one in several[:SHOWN]:
                yield f"  {len(one.imported.files):,} for {one.pair.whose}"
            if len(several) > SHOWN:
                yield f"  ... and for {len(several) - SHOWN:,} more"
        for one in self.found:
            yield from _remarks(one)
        for left in self.without:
            yield f"left: {left.file}: {left.why}"

    def as_json(self) -> JsonObject:
        """Return the result as JSON."""
        return {
            "old": str(self.home_copy.old),
            "new": str(self.home_copy.new),
            "memories": self.count,
            "directories": [_as_json(one) for one in self.found],
            "left": [{"directory": one.file, "why": one.why} for one in self.without],
            "dry_run": self.is_dry,
        }


def bring_all(home_copy: HomeCopy, *, is_dry: bool) -> Arrived:
    """Copy missing memories directory by directory, or only report them."""
    pairs, without = home_copy.directories()
    found = [home_copy.preview(one) for one in pairs] if is_dry else asyncio.run(_brought(home_copy, pairs))
    return Arrived(home_copy=home_copy, found=tuple(found), without=tuple(without), is_dry=is_dry)


async def _brought(home_copy: HomeCopy, pairs: Sequence[DirectoryPair]) -> list[CopyResult]:
    return [await home_copy.copy(one) for one in pairs]


def _remarks(one: CopyResult) -> Iterator[str]:
    source = one.pair.source
    if one.failed:
        yield f"left: {source}: {one.failed}"
    for renamed in one.imported.renamed:
        target = one.pair.target.directory
        yield f"{renamed.was} of {one.pair.whose} is another one there; it is {target / renamed.file}"
    for each in (*one.imported.refused, *one.imported.skipped):
        yield f"left: {source / each.file} {each.why}"
    if one.staying:
        names = ", ".join(one.staying[:SHOWN]) + (", ..." if len(one.staying) > SHOWN else "")
        yield f"left: {names} in {source}: local-only, and another program sends what it reads there"
    if one.has_team:
        yield f"left: the team's memory in {source}; `nacre memory sync` brings it from where it is shared"


def _as_json(one: CopyResult) -> JsonObject:
    done = one.imported
    return {
        "directory": str(one.pair.source),
        "to": str(one.pair.target.directory),
        "files": [*done.files],
        "same": [*done.same],
        "renamed": [{"was": each.was, "file": each.file} for each in done.renamed],
        "refused": [{"file": each.file, "why": each.why} for each in (*done.refused, *done.skipped)],
        "local_only": [*one.staying],
        "commit": done.commit,
        "failed": one.failed,
    }
