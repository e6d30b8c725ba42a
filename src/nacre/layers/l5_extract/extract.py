"""Memories drawn from a conversation by a fork: it works on copies, and what it writes is judged (E5, E9)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nacre import prompts
from nacre.layers.l5_extract.judging import Judge
from nacre.layers.l5_extract.policy import NACRE, ExtractSettings
from nacre.loop.fork import Fork, ForkResult, ForkTask, RequestSource
from nacre.memory.copies import ChangedFile, MemoryCopies
from nacre.memory.memory import Memory
from nacre.messages.view import View
from nacre.tools.policy import Narrowing
from nacre.tools.shell import EXTRACTION

SOURCE: RequestSource = "extract_memories"
"""Under this name the fork is booked."""
TOOLS = frozenset({"Bash", "Edit", "Glob", "Grep", "Read", "Write"})
DIRECTIVE = prompts.load("nacre.layers.l5_extract", "extract")
NONE_YET = "(none yet)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """The memories there are, as a fork is told of them."""

    memories: Sequence[Memory]
    """An inner directory before the one around it; the last is the one it is told of."""
    manifest: str
    scratch: Path
    """A folder for the copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """What came of one run."""

    changes: Sequence[ChangedFile]
    """Files as they shall be; none of them is in memory yet."""
    forked: ForkResult | None = None
    """None where rules did it."""
    rejected: Sequence[str] = ()
    """Files that were not saved: nobody had said what they claim, or they lost what they had named."""


async def extract(
    view: View, stock: Stock, *, fork: Fork, judge: Judge, settings: ExtractSettings = NACRE
) -> Extracted:
    """Have a fork of the conversation write down what of it will matter later; memory itself stays."""
    directory = stock.memories[-1].location.directory
    with MemoryCopies(stock.memories, stock.scratch, judge.check_rewrite) as desk:
        errand = ForkTask(
            source=SOURCE,
            directive=directive(directory, stock.manifest, count=judge.heard.count),
            may=Narrowing(tools=TOOLS, writes_in=desk.places, commands=EXTRACTION),
            max_rounds=settings.max_rounds,
            view=view,
            copies=desk.copies,
        )
        forked = await fork(errand)
        changes = await asyncio.to_thread(_signed, desk, judge)
    return Extracted(changes=changes, forked=forked, rejected=tuple(judge.rejected))


def _signed(desk: MemoryCopies, judge: Judge) -> list[ChangedFile]:
    """In a thread, because all that tools said is looked through for each of them."""
    return [replace(one, after=judge.signed(one)) for one in desk.changed()]


def directive(directory: Path, manifest: str, *, count: int) -> str:
    """The one message at the end of the conversation that asks for memories."""
    return prompts.render(
        DIRECTIVE, directory=str(directory), manifest=manifest or NONE_YET, count=str(count)
    )
