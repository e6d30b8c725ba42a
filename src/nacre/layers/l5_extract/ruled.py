"""What rules found as changes to memory: what is known is left, what was corrected replaced (M14c)."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nacre.errors import ToolError
from nacre.layers.l5_extract.by_rule import Found
from nacre.layers.l5_extract.judging import Judge
from nacre.layers.l5_extract.slots import slot_of
from nacre.memory.copies import Changed
from nacre.memory.directory import Memory
from nacre.memory.entry import Change, Draft, Entry, compose, read_entry
from nacre.memory.frontmatter import Document
from nacre.memory.likeness import terms
from nacre.memory.subjects import Subjects
from nacre.memory.transaction import Transaction

_SIGNS = re.compile(r"[^\w]+")


async def ruled(memory: Memory, found: Sequence[Found], judge: Judge, *, session: str) -> list[Changed]:
    """Every file as it would be with what was found; memory itself stays as it is.

    A memory that holds nothing but an older statement on the subject says the new one instead; what was
    written at length gets it as a line of its own.
    """
    entries = await memory.list()
    known = [_plain(one.body) for one in entries]
    new = [one for one in found if not any(_plain(one.text) in text for text in known)]
    if not new:
        return []
    # Nothing is written in it: held for one look at which memory is about what.
    async with memory.transact(Change(author="extract", reason="looking", session=session)) as tx:
        placing = _Placing(memory, [one for one in entries if _is_one_statement(one)], judge, tx)
        changes = await asyncio.to_thread(placing.all, new)
    return await asyncio.to_thread(lambda: [one for one in changes if _is_sound(one, judge)])


@dataclass(frozen=True, slots=True)
class _Placing:
    """Finds the file for each statement, while nobody else can change them."""

    memory: Memory
    statements: Sequence[Entry]
    """Memories that are one statement: a newer one may take their place."""
    judge: Judge
    tx: Transaction

    def all(self, found: Sequence[Found]) -> list[Changed]:
        subjects = Subjects(self.memory.location.directory)
        subjects.catch_up(self.tx)
        changes: dict[str, Changed] = {}
        for one in found:
            name = slot_of(one.text) or one.name
            same = self._denied(one) or subjects.same(name, one.description)
            file = same or subjects.free_name(name, self.tx)
            before, _ = self.tx.read(file)
            standing = changes[file].after if file in changes else before
            after = _composed(one, file, standing, self.judge)
            changes[file] = Changed(memory=self.memory, file=file, before=before, after=after)
        return list(changes.values())

    def _denied(self, found: Found) -> str:
        """The memory that says what this denies."""
        denied = set(terms(found.negates))
        fitting = (one.file for one in self.statements if denied and denied <= set(terms(one.body)))
        return next(fitting, "")


def _composed(found: Found, file: str, standing: bytes | None, judge: Judge) -> bytes:
    draft = Draft(
        body=found.text,
        kind=found.kind,
        name=slot_of(found.text) or found.name,
        description=found.description,
        sources=(judge.session, *found.sources),
    )
    if standing is None:
        return compose(draft, file=file, now=judge.now)
    there = read_entry(file, standing)
    draft = replace(draft, name=slot_of(found.text))  # what it is about is said already
    if not _is_one_statement(there):
        body = f"{there.body.rstrip()}\n\n{found.text}"
        draft = replace(draft, body=body, name="", description="", kind=None)
    return compose(draft, file=file, now=judge.now, previous=Document.parse(standing))


def _is_one_statement(entry: Entry) -> bool:
    """Whether a memory is a line that was once drawn from a conversation, like the one to come."""
    return bool(entry.sources) and len([line for line in entry.body.splitlines() if line.strip()]) == 1


def _is_sound(change: Changed, judge: Judge) -> bool:
    try:
        judge.check(change)
    except ToolError:
        return False
    return True


def _plain(text: str) -> str:
    return _SIGNS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
