"""What rules found as changes to memory: what is known is left, what was corrected replaced (M14c)."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nacre.errors import ToolError
from nacre.layers.l5_extract.by_rule import Found
from nacre.layers.l5_extract.judging import Judge
from nacre.memory.copies import ChangedFile
from nacre.memory.files.transaction import Transaction
from nacre.memory.format.entry import Entry, MemoryChange, MemoryDraft, compose, read_entry
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.memory import Memory
from nacre.memory.similarity import Subjects, terms

_SIGNS = re.compile(r"[^\w]+")


async def ruled(memory: Memory, found: Sequence[Found], judge: Judge, *, session: str) -> list[ChangedFile]:
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
    async with memory.transact(MemoryChange(author="extract", reason="looking", session=session)) as tx:
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

    def all(self, found: Sequence[Found]) -> list[ChangedFile]:
        subjects = Subjects(self.memory.location.directory)
        subjects.catch_up(self.tx)
        changes: dict[str, ChangedFile] = {}
        for one in found:
            name = slot_of(one.text) or one.name
            same = self._denied(one) or subjects.same(name, one.description)
            file = same or subjects.free_name(name, self.tx)
            before, _ = self.tx.read(file)
            standing = changes[file].after if file in changes else before
            after = _composed(one, file, standing, self.judge)
            changes[file] = ChangedFile(memory=self.memory, file=file, before=before, after=after)
        return list(changes.values())

    def _denied(self, found: Found) -> str:
        """The memory that says what this denies."""
        denied = set(terms(found.negates))
        fitting = (one.file for one in self.statements if denied and denied <= set(terms(one.body)))
        return next(fitting, "")


def _composed(found: Found, file: str, standing: bytes | None, judge: Judge) -> bytes:
    draft = MemoryDraft(
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
    return compose(draft, file=file, now=judge.now, previous=MarkdownFile.parse(standing))


def _is_one_statement(entry: Entry) -> bool:
    """Whether a memory is a line that was once drawn from a conversation, like the one to come."""
    return bool(entry.sources) and len([line for line in entry.body.splitlines() if line.strip()]) == 1


def _is_sound(change: ChangedFile, judge: Judge) -> bool:
    try:
        judge.check(change)
    except ToolError:
        return False
    return True


def _plain(text: str) -> str:
    return _SIGNS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


_NOW = r"(?:now |currently )?"
SLOTS: Mapping[str, re.Pattern[str]] = {
    "Where the user lives": re.compile(
        rf"\bI(?:'m| am|'ve| have)? {_NOW}(?:live|living|reside|moved|based) (?:in|to)\b"
        r"|我(?:现在|目前)?(?:住在|搬到|搬去)",
        re.IGNORECASE,
    ),
    "The user's name": re.compile(
        r"\bmy name(?:'s| is)\b|\bI(?:'m| am) called\b|我叫|我的名字(?:是|叫)", re.IGNORECASE
    ),
    "Where the user works": re.compile(
        rf"\bI(?:'m| am)? {_NOW}(?:work|working|employed) (?:at|for)\b"
        r"|我(?:现在|目前)?在[^，。,.]{1,15}(?:工作|上班)",
        re.IGNORECASE,
    ),
    "The user's birthday": re.compile(r"\bmy birthday(?:'s| is)\b|我的生日(?:是|在)", re.IGNORECASE),
    "The user's time zone": re.compile(r"\bmy time ?zone(?:'s| is)\b|我的时区是", re.IGNORECASE),
}
"""By the title such a memory has, whatever it says at the time; the same in both languages."""


def slot_of(text: str) -> str:
    """The title of the one memory that such a statement belongs to; empty where there may be several."""
    return next((title for title, form in SLOTS.items() if form.search(text)), "")
