"""Extraction with a model or by rule: changes to memory files, and how they are saved (E5 to E9)."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from nacre import prompts
from nacre.errors import ToolError
from nacre.layers.l5_extract.by_rule import StatedFact
from nacre.layers.l5_extract.judge import Judge
from nacre.layers.l5_extract.policy import EXTRACT, Consent
from nacre.loop.fork import Fork, ForkResult, ForkTask, RequestSource
from nacre.memory.checks.review import Proposal, propose
from nacre.memory.copies import ChangedFile, MemoryCopies
from nacre.memory.files.folder import TEAM_PREFIX, version_of
from nacre.memory.files.scan import manifest_line
from nacre.memory.files.transaction import Transaction
from nacre.memory.format.entry import Entry, MemoryChange, MemoryDraft, compose, read_entry
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.memory import Memory
from nacre.memory.recall.select import MAX_MANIFEST_LINES
from nacre.memory.similarity import Subjects, terms
from nacre.messages.untrusted_text import neutralise
from nacre.messages.view import View
from nacre.tools.policy import Narrowing
from nacre.tools.shell import EXTRACTION

SOURCE: RequestSource = "extract_memories"
"""The purpose under which the cost of the fork is recorded."""
TOOLS = frozenset({"Bash", "Edit", "Glob", "Grep", "Read", "Write"})
DIRECTIVE = prompts.load("nacre.layers.l5_extract", "extract")
NONE_YET = "(none yet)"
SCRATCH = "extract"
"""Folder in the cache of a memory for the copies that a fork writes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractResult:
    """The changes of one run."""

    changes: Sequence[ChangedFile]
    """New file contents; none of them is saved yet."""
    forked: ForkResult | None = None
    """None if rules were used."""
    rejected: Sequence[str] = ()
    """Files that were rejected because of ungrounded or lost claims."""


async def extract_with_model(
    view: View,
    memories: Sequence[Memory],
    *,
    manifest: str,
    fork: Fork,
    judge: Judge,
    max_rounds: int = EXTRACT.max_rounds,
) -> ExtractResult:
    """Let a fork of the conversation write memories into copies of the files, and return its changes.

    In `memories`, an inner directory comes before the one around it; the prompt names the last.
    """
    location = memories[-1].location
    prompt = directive(location.directory, manifest, count=judge.messages.count)
    scratch = location.cache / SCRATCH / judge.session
    with MemoryCopies(memories, scratch, judge.check_rewrite) as copies:
        task = ForkTask(
            source=SOURCE,
            directive=prompt,
            access=Narrowing(tools=TOOLS, writes_in=copies.places, commands=EXTRACTION),
            max_rounds=max_rounds,
            view=view,
            copies=copies.copies,
        )
        forked = await fork(task)
        # In a thread, because each file is compared with all tool output.
        changes = await asyncio.to_thread(
            lambda: [replace(one, after=judge.signed(one)) for one in copies.changed()]
        )
    return ExtractResult(changes=changes, forked=forked, rejected=tuple(judge.rejected))


def directive(directory: Path, manifest: str, *, count: int) -> str:
    """Return the prompt at the end of the conversation that asks for memories."""
    return prompts.render(
        DIRECTIVE, directory=str(directory), manifest=manifest or NONE_YET, count=str(count)
    )


Hidden: TypeAlias = Callable[[Memory], Awaitable[frozenset[str]]]
"""Returns the files of a memory that the model must not see (M27)."""
REASON = "drawn from the conversation"
SHORT_COMMIT = 10
"""Length of a commit id as `nacre memory log` shows it."""
MAX_MANIFEST_CHARS = 20_000
"""Limit of the manifest in the prompt, which is not cached: about 5,000 tokens."""


async def nothing_hidden(memory: Memory) -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMemories:
    """The files that one run saved or proposed."""

    files: tuple[str, ...] = ()
    """With the prefix of the team where it applies; without indexes."""
    commits: tuple[tuple[Memory, str], ...] = ()
    """The changed memories and their commits."""
    team: int = 0
    """The number of files of the team."""
    is_proposed: bool = False

    @property
    def line(self) -> str:
        """For the person: what was saved, and how to undo it."""
        several = f"{len(self.files)} memor{'y' if len(self.files) == 1 else 'ies'}"
        names = ", ".join(self.files)
        if self.is_proposed:
            return f"{several} to review: {names} (nacre memory review)"
        return f"saved {several}: {names} (undo: {'; '.join(self.undo)})"

    @property
    def undo(self) -> list[str]:
        """The commands that undo it."""
        return [
            f"nacre memory undo {'--scope team ' * _is_team(memory)}{commit[:SHORT_COMMIT]}"
            for memory, commit in self.commits
        ]


async def save_changes(changes: Sequence[ChangedFile], *, mode: Consent, session: str) -> SavedMemories:
    """Save the changes, one commit per memory, or propose them to the person (E6, E7)."""
    saved = SavedMemories(
        files=tuple(f"{_prefix(one.memory)}{one.file}" for one in changes),
        team=sum(_is_team(one.memory) for one in changes),
        is_proposed=mode != "auto",
    )
    if mode != "auto":
        for one in changes:
            proposal = Proposal(
                file=one.file,
                before=one.before,
                after=one.after,
                author="extract",
                reason=REASON,
                session=session,
                sources=read_entry(one.file, one.after).sources,
            )
            propose(one.memory.location, proposal, clock=one.memory.clock)
        return saved
    for memory in dict.fromkeys(one.memory for one in changes):
        files = {one.file: (one.after, version_of(one.before)) for one in changes if one.memory is memory}
        commit = await memory.put_all(files, MemoryChange(author="extract", reason=REASON, session=session))
        if commit:
            saved = replace(saved, commits=(*saved.commits, (memory, commit)))
    return saved


async def memory_manifest(memories: Sequence[Memory], hidden: Hidden) -> tuple[str, tuple[str, ...]]:
    """Return one line per memory, newest first, as many as fit, and the names of all visible files."""
    lines: list[str] = []
    names: list[str] = []
    for memory in reversed(memories):
        without = await hidden(memory)
        # Untrusted and local-only memories are not shown (M16b, M27).
        entries = [
            one
            for one in (await memory.scan()).entries
            if one.origin != "untrusted" and one.file not in without
        ]
        names += [one.file for one in entries]
        shown = (replace(one, file=f"{_prefix(memory)}{one.file}") for one in entries)
        lines += [neutralise(manifest_line(one)) for one in islice(shown, MAX_MANIFEST_LINES)]
    room = MAX_MANIFEST_CHARS
    for count, line in enumerate(lines[:MAX_MANIFEST_LINES]):
        room -= len(line) + 1
        if room < 0:
            return "\n".join(lines[:count]), tuple(names)
    return "\n".join(lines[:MAX_MANIFEST_LINES]), tuple(names)


def _is_team(memory: Memory) -> bool:
    return memory.location.source == "team"


def _prefix(memory: Memory) -> str:
    return TEAM_PREFIX if _is_team(memory) else ""


_SIGNS = re.compile(r"[^\w]+")


async def changes_by_rule(
    memory: Memory, facts: Sequence[StatedFact], judge: Judge, *, session: str
) -> list[ChangedFile]:
    """Return the files with the facts that are not known yet added; nothing is saved (M14c).

    A memory of one line that an older statement on the subject made is replaced; to a longer one the fact is
    added as a line.
    """
    entries = await memory.list()
    known = [_plain(one.body) for one in entries]
    new = [one for one in facts if not any(_plain(one.text) in text for text in known)]
    if not new:
        return []
    # Nothing is written in this transaction: it keeps others from changing the files meanwhile.
    async with memory.transact(MemoryChange(author="extract", reason="looking", session=session)) as tx:
        statements = [one for one in entries if _is_one_statement(one)]
        changes = await asyncio.to_thread(_placed, memory, new, statements, judge, tx)
    return await asyncio.to_thread(lambda: [one for one in changes if _is_accepted(one, judge)])


def _placed(
    memory: Memory, facts: Sequence[StatedFact], statements: Sequence[Entry], judge: Judge, tx: Transaction
) -> list[ChangedFile]:
    """Return a change for each fact: to a memory that it contradicts or is about, or of a new file."""
    subjects = Subjects(memory.location.directory)
    subjects.catch_up(tx)
    changes: dict[str, ChangedFile] = {}
    for fact in facts:
        name = slot_of(fact.text) or fact.name
        negated = set(terms(fact.negates))
        contradicted = (one.file for one in statements if negated and negated <= set(terms(one.body)))
        same = next(contradicted, "") or subjects.same(name, fact.description)
        file = same or subjects.free_name(name, tx)
        before, _ = tx.read(file)
        current = changes[file].after if file in changes else before
        after = _composed(fact, file, current, judge)
        changes[file] = ChangedFile(memory=memory, file=file, before=before, after=after)
    return list(changes.values())


def _composed(fact: StatedFact, file: str, current: bytes | None, judge: Judge) -> bytes:
    draft = MemoryDraft(
        body=fact.text,
        kind=fact.kind,
        name=slot_of(fact.text) or fact.name,
        description=fact.description,
        sources=(judge.session, *fact.sources),
    )
    if current is None:
        return compose(draft, file=file, now=judge.now)
    entry = read_entry(file, current)
    draft = replace(draft, name=slot_of(fact.text))  # the file already has a title
    if not _is_one_statement(entry):
        body = f"{entry.body.rstrip()}\n\n{fact.text}"
        draft = replace(draft, body=body, name="", description="", kind=None)
    return compose(draft, file=file, now=judge.now, previous=MarkdownFile.parse(current))


def _is_one_statement(entry: Entry) -> bool:
    """Whether a memory is one line that was extracted from a conversation."""
    return bool(entry.sources) and len([line for line in entry.body.splitlines() if line.strip()]) == 1


def _is_accepted(change: ChangedFile, judge: Judge) -> bool:
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
"""Patterns of statements that belong to one memory, by its title; the same in both languages."""


def slot_of(text: str) -> str:
    """Return the title of the one memory that such a statement belongs to; empty if there is none."""
    return next((title for title, form in SLOTS.items() if form.search(text)), "")
