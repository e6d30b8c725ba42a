"""Extraction with a model or by rule: changes to memory files, and how they are saved (E5 to E9)."""

from __future__ import annotations

import asyncio
import contextlib
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from nacre import prompts
from nacre.errors import ToolError
from nacre.layers.l5_extract.by_rule import StatedFact
from nacre.layers.l5_extract.changes import (
    changed_statement,
    covers,
    current,
    with_named_values,
    with_new_values,
    without_denial,
    without_old_values,
)
from nacre.layers.l5_extract.judge import Judge
from nacre.layers.l5_extract.policy import EXTRACT, Consent, ExtractSettings
from nacre.layers.l5_extract.replacement import says_change
from nacre.layers.l5_extract.slots import SLOTS, slot_of
from nacre.layers.l5_extract.values import STRONG, is_elliptic
from nacre.loop.fork import Fork, ForkResult, ForkTask, RequestSource
from nacre.memory.checks.review import Proposal, propose
from nacre.memory.copies import ChangedFile, MemoryCopies
from nacre.memory.files.folder import TEAM_PREFIX, version_of
from nacre.memory.files.scan import manifest_line
from nacre.memory.files.transaction import Transaction
from nacre.memory.format.entry import (
    Entry,
    MemoryChange,
    MemoryDraft,
    compose,
    derived_file_name,
    description_of,
    file_title,
    read_entry,
    title_of,
    whole_text,
)
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.memory import Memory
from nacre.memory.recall.select import MAX_MANIFEST_LINES
from nacre.memory.similarity import Subjects, terms
from nacre.messages.blocks import ToolCall, ToolResult
from nacre.messages.records import Said
from nacre.messages.untrusted_text import neutralise
from nacre.messages.view import View
from nacre.tools.policy import Narrowing
from nacre.tools.rules import EDITORS
from nacre.tools.shell import EXTRACTION

SOURCE: RequestSource = "extract_memories"
"""The purpose under which the cost of the fork is recorded."""
TOOLS = frozenset({"Bash", "Edit", "Glob", "Grep", "Read", "Write"})
DIRECTIVE = prompts.load("nacre.layers.l5_extract", "extract")
NONE_YET = "(none yet)"
_TEXT_CALL = re.compile(
    r"[\"']?(?:name|tool|function)[\"']?\s*:\s*[\"'](?:Write|Edit|Read|remember)\b|<tool_call>|<tools>"
)
"""A call that a weak model wrote as text."""
SCRATCH = "extract"
"""Folder in the cache of a memory for the copies that a fork writes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractResult:
    """The changes of one run."""

    changes: Sequence[ChangedFile]
    """New file contents; none of them is saved yet."""
    removed: Sequence[ChangedFile] = ()
    """Files to remove."""
    forked: ForkResult | None = None
    """None if rules were used."""
    rejected: Sequence[str] = ()
    """Files that were rejected because of ungrounded or lost claims."""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """How often a file was refused, by reason."""


async def extract_with_model(
    view: View,
    memories: Sequence[Memory],
    *,
    manifest: str,
    fork: Fork,
    judge: Judge,
    settings: ExtractSettings = EXTRACT,
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
            max_rounds=settings.max_rounds,
            ends_with_edits=True,
            max_output=settings.max_output,
            view=view,
            seen_to=judge.messages.after,
            copies=copies.copies,
        )
        forked = await fork(task)
        # In a thread, because each file is compared with all tool output.
        changes = await asyncio.to_thread(
            lambda: [replace(one, after=judge.signed(one)) for one in copies.changed()]
        )
    return ExtractResult(
        changes=changes, forked=forked, rejected=tuple(judge.rejected), refusals=judge.refusals
    )


def has_only_invalid_calls(result: ExtractResult, places: Sequence[Path]) -> bool:
    """Return whether a fork tried to call tools and no call was valid: all failed or were text.

    Files outside of `places` were edited for another task that shared the request.
    """
    forked = result.forked
    if forked is None or result.rejected:
        return False
    said = (one for one in forked.view.records if isinstance(one, Said))
    blocks = (block for one in said for block in one.blocks if isinstance(block, ToolResult))
    failed = {block.call_id: block.is_error for block in blocks}
    calls = [
        call
        for reply in forked.replies
        for call in reply.tool_calls
        if failed.get(call.id, True) or call.name not in EDITORS or _is_inside(call, places)
    ]
    if not calls:
        return any(_TEXT_CALL.search(reply.text) for reply in forked.replies)
    return all(failed.get(call.id, True) for call in calls)


def _is_inside(call: ToolCall, places: Sequence[Path]) -> bool:
    path = Path(str(call.input.get("file_path", "")))
    return any(path.is_relative_to(place) for place in places)


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
    removed: tuple[str, ...] = ()
    """Memories that were forgotten, without those that only got another name."""
    team: int = 0
    """The number of files of the team."""
    is_proposed: bool = False

    @property
    def line(self) -> str:
        """For the person: what was saved, and how to undo it."""
        files = (*self.files, *self.removed)
        if self.is_proposed:
            return f"{_count(files)} to review: {', '.join(files)} (nacre memory review)"
        parts = [("saved", self.files), ("removed", self.removed)]
        done = [f"{verb} {_count(names)}: {', '.join(names)}" for verb, names in parts if names]
        return f"{', '.join(done)} (undo: {'; '.join(self.undo)})"

    @property
    def undo(self) -> list[str]:
        """The commands that undo it."""
        return [
            f"nacre memory undo {'--scope team ' * _is_team(memory)}{commit[:SHORT_COMMIT]}"
            for memory, commit in self.commits
        ]


async def save_changes(
    changes: Sequence[ChangedFile],
    *,
    removed: Sequence[ChangedFile] = (),
    mode: Consent,
    session: str,
) -> SavedMemories:
    """Save the changes, one commit per memory, or propose them to the person (E6, E7)."""
    saved = SavedMemories(
        files=tuple(f"{_prefix(one.memory)}{one.file}" for one in changes),
        removed=() if changes else tuple(one.file for one in removed),
        team=sum(_is_team(one.memory) for one in changes),
        is_proposed=mode != "auto",
    )
    if mode != "auto":
        for one in (*changes, *removed):
            proposal = Proposal(
                file=one.file,
                before=one.before,
                after=one.after or None,
                author="extract",
                reason=REASON,
                session=session,
                sources=read_entry(one.file, one.after or one.before or b"").sources,
            )
            propose(one.memory.location, proposal, clock=one.memory.clock)
        return saved
    for memory in dict.fromkeys(one.memory for one in (*changes, *removed)):
        files = {one.file: (one.after, version_of(one.before)) for one in changes if one.memory is memory}
        gone = {one.file: version_of(one.before) for one in removed if one.memory is memory}
        change = MemoryChange(author="extract", reason=REASON, session=session)
        commit = await memory.put_all(files, change, removed=gone)
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
        entries = [one for one in (await memory.scan()).entries if one.is_trusted and one.file not in without]
        names += [one.file for one in entries]
        shown = (replace(one, file=f"{_prefix(memory)}{one.file}") for one in entries)
        lines += [neutralise(manifest_line(one)) for one in islice(shown, MAX_MANIFEST_LINES)]
    room = MAX_MANIFEST_CHARS
    for count, line in enumerate(lines[:MAX_MANIFEST_LINES]):
        room -= len(line) + 1
        if room < 0:
            return "\n".join(lines[:count]), tuple(names)
    return "\n".join(lines[:MAX_MANIFEST_LINES]), tuple(names)


def _count(files: Sequence[str]) -> str:
    return f"{len(files)} memor{'y' if len(files) == 1 else 'ies'}"


def _is_team(memory: Memory) -> bool:
    return memory.location.source == "team"


def _prefix(memory: Memory) -> str:
    return TEAM_PREFIX if _is_team(memory) else ""


_SIGNS = re.compile(r"[^\w]+")
MIN_SHARED_TERMS = 2
"""Content words that a change must share with the memory that it updates."""
MIN_SHARED = 0.4
"""And their share of the words of the shorter of the two."""
SINCE = "**Since {day}:** {text}"
SAID = "**Said {day}:** {text}"
"""Another value for the same, without a word that something changed."""
SUPERSEDED = "**Superseded {day}:** {text}"
"""What no longer holds, below what does."""
EARLIER = "**Said earlier:** {text}"
"""The same where no word says that something changed."""
CHANGED = " (changed)"
"""After the title of a memory whose change does not name its subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChanges:
    """What stated facts change in a memory; nothing of it is saved yet."""

    changes: Sequence[ChangedFile] = ()
    removed: Sequence[ChangedFile] = ()
    """Memories that the person asked to forget, and files that a renamed memory leaves behind."""


async def changes_by_rule(
    memory: Memory, facts: Sequence[StatedFact], judge: Judge, *, session: str
) -> RuleChanges:
    """Return the files with the facts that are not known yet added; nothing is saved (M14c).

    A statement that was extracted before is replaced by a newer one that contradicts or repeats it, together
    with its title and file name. A richer memory stays and gets the new statement as a line.
    """
    entries = await memory.list()
    known = [_plain(one.body) for one in entries]
    new = [one for one in facts if not one.text or not any(_plain(one.text) in text for text in known)]
    if not new:
        return RuleChanges()
    # Nothing is written in this transaction: it keeps others from changing the files meanwhile.
    async with memory.transact(MemoryChange(author="extract", reason="looking", session=session)) as tx:
        placement = _Placement(memory, {one.file: one for one in entries}, judge, tx)
        await asyncio.to_thread(placement.place_all, new)

    def accepted() -> RuleChanges:
        found = []
        removed = {file: one for file, one in placement.removed.items() if file not in placement.renamed}
        for one in placement.changes.values():
            with contextlib.suppress(ToolError):
                judge.check(one)
                found.append(one)
                removed |= {
                    old: placement.removed[old] for old, to in placement.renamed.items() if to == one.file
                }
        return RuleChanges(changes=found, removed=tuple(removed.values()))

    return await asyncio.to_thread(accepted)


class _Placement:
    """Finds the memory that each fact belongs to, and composes its new text."""

    def __init__(self, memory: Memory, entries: dict[str, Entry], judge: Judge, tx: Transaction) -> None:
        self.changes: dict[str, ChangedFile] = {}
        self.removed: dict[str, ChangedFile] = {}
        self.renamed: dict[str, str] = {}
        """Old file names and the new ones."""
        self._last: tuple[tuple[str, ...], str] | None = None
        """The message of the last change and the memory that it was about."""
        self._memory = memory
        self._entries = entries
        self._judge = judge
        self._tx = tx
        self._subjects = Subjects(memory.location.directory)
        self._subjects.catch_up(tx)

    def place_all(self, facts: Sequence[StatedFact]) -> None:
        for fact in facts:
            self._place(fact)

    def _place(self, fact: StatedFact) -> None:
        """Add, update or remove the memory of one fact."""
        if not fact.text:
            for known in self._about(fact.negates):
                self._remove(known.file)
            return
        title = slot_of(fact.text) or fact.title
        file = "" if fact.is_update and is_elliptic(fact.text) else self._same(fact, title)
        entry = self._entries.get(file)
        named = self._changed(fact) if entry is None else None
        if named:
            self._update(named, fact)
            return
        if entry is None and fact.is_weak:
            return
        if entry is None:
            self._write(self._subjects.free_name(_file_title(fact), self._tx), fact, None)
        elif not is_statement(entry):
            self._write(file, fact, entry, body=f"{entry.body.rstrip()}\n\n{fact.body}")
        elif fact.is_update and entry.title not in SLOTS and len(_lost(entry, fact)) > 1:
            self._update(entry, fact)
        elif _is_richer(entry, fact):
            self._write(file, fact, entry, body=f"{entry.body.rstrip()}\n\n{fact.body}")
        else:
            self._replace(file, fact, entry)

    def _update(self, old: Entry, fact: StatedFact) -> None:
        """Write a change into the memory that it is about, so that its line in the index says it, too.

        The new value takes the place of the old one. Where it is not clear which replaces which, the change
        comes first, and the old sentence is marked as superseded.
        """
        day = fact.said.isoformat()
        first, *rest = current(old.body).split("\n\n")
        line = (SINCE if fact.is_update else SAID).format(day=day, text=fact.text)
        below = "\n\n".join([first, *rest, line])
        kept = [one for one in rest if one.startswith(("**Why", "**How"))]
        name = f"{old.title.removesuffix(CHANGED)}{CHANGED}" if is_elliptic(fact.text) else fact.title
        write = partial(self._write, old.file, fact, old)

        def changed(text: str, former: str) -> None:
            new = replace(fact, text=text)
            before = (SUPERSEDED if is_change else EARLIER).format(day=day, text=former)
            says_more = not set(terms(former)) <= set(terms(text))
            body = "\n\n".join([new.body, *([before] if says_more else []), *kept])
            write(name=name, body=body, description=new.description)

        # Other reports of a change change no value: what was said before stays whole below.
        is_certain = fact.is_likely or fact.corrects or bool(STRONG.search(fact.text))
        text = without_denial(fact.text, first)
        is_change = fact.is_update or says_change(fact.text)
        former = without_old_values(first, fact.text) if is_change and is_certain else first
        ways: list[Callable[[], None]] = [
            partial(changed, text, former),
            partial(changed, fact.text, first),
            partial(write, body=below),
        ]
        values = with_new_values if is_certain else with_named_values
        now = values(first, fact.text) if fact.is_update and not kept else ""
        is_whole = fact.is_update and is_certain and not kept and covers(fact.text, first)
        if fact.is_update and set(fact.sources) <= set(old.sources) and not is_whole:
            # The message goes on with what it says instead.
            ways.insert(0, partial(write, body="\n\n".join([f"{first} {fact.text}", *rest])))
        elif now:
            text = description_of(now, title_of(now))
            ways.insert(0, partial(write, name=title_of(now), body=f"{now}\n\n{line}", description=text))
            ways.insert(0, partial(self._rewrite, old, fact, now, line))
        if is_whole:
            ways.insert(0, lambda: self._replace(old.file, fact, old))
        self._write_first(ways)

    def _rewrite(self, old: Entry, fact: StatedFact, now: str, line: str) -> None:
        """Write a statement with its new values under a name that says them."""
        title = title_of(now)
        description = description_of(now, title)
        file = old.file
        if file not in self.changes and file == derived_file_name(old):
            file = self._subjects.free_name(file_title(old.kind, title), self._tx)
        self._write(file, fact, old, name=title, body=f"{now}\n\n{line}", description=description)
        if file != old.file:
            self._remove(old.file)
            self.renamed[old.file] = file

    def _write_first(self, ways: Sequence[Callable[[], None]]) -> None:
        """Write a change in the first of several ways that the check accepts, else in the last."""
        for write in ways:
            changes = dict(self.changes)
            removed = dict(self.removed)
            renamed = dict(self.renamed)
            entries = dict(self._entries)
            write()
            new = [one for file, one in self.changes.items() if one is not changes.get(file)]
            with contextlib.suppress(ToolError):
                for one in new:
                    self._judge.check(one)
                return
            if write is not ways[-1]:
                self.changes = changes
                self.removed = removed
                self.renamed = renamed
                self._entries = entries

    def _same(self, fact: StatedFact, title: str) -> str:
        """Return the file of the memory that a fact contradicts, updates or repeats; empty if none."""
        if contradicted := self._about(fact.negates):
            return contradicted[0].file
        if slot := slot_of(fact.text):
            same = next((one.file for one in self._entries.values() if one.title == slot), "")
            return same or next(
                (one.file for one in self._statements() if SLOTS[slot][1].search(one.body)), ""
            )
        if fact.is_update and fact.is_likely and (updated := self._updated(fact)):
            return updated
        file = self._subjects.same(title, fact.description) or ""
        return file if file in self._entries else ""

    def _updated(self, fact: StatedFact) -> str:
        """Return the statement of the same kind that shares most words with one that reports a change."""
        mine = _words(fact.body)
        best = (MIN_SHARED, "")
        for entry in self._statements():
            theirs = _words(entry.body)
            common = len(mine & theirs)
            if (entry.kind == fact.kind or fact.corrects) and common >= MIN_SHARED_TERMS:
                best = max(best, (common / min(len(mine), len(theirs)), entry.file))
        return best[1]

    def _changed(self, fact: StatedFact) -> Entry | None:
        """Return the statement that a change is about, if it is not of the same form."""
        others = [one for one in self._statements() if one.title not in SLOTS]
        others.sort(key=lambda one: one.file in self.changes, reverse=True)
        found = changed_statement(
            fact.text,
            others,
            session=self._judge.session,
            corrects=fact.corrects,
        )
        if found is None and fact.is_update and self._last and self._last[0] == fact.sources:
            # The message goes on: no more tabs, they break, then: use spaces from now on.
            return self._entries.get(self._last[1])
        self._last = (fact.sources, found.file) if found else None
        return found

    def _about(self, words: str) -> list[Entry]:
        """Return the statements that contain all of these words."""
        wanted = set(terms(words))
        return [one for one in self._statements() if wanted and wanted <= set(terms(whole_text(one)))]

    def _statements(self) -> list[Entry]:
        return [one for one in self._entries.values() if is_statement(one)]

    def _replace(self, file: str, fact: StatedFact, entry: Entry) -> None:
        """Write the new statement in the place of an old one, under a name that says it."""
        slot = slot_of(fact.text)
        name = slot or fact.title
        if slot or file in self.changes or terms(entry.title) == terms(name):
            self._write(file, fact, entry, name=name)
            return
        target = self._subjects.free_name(_file_title(fact), self._tx)
        self._write(target, fact, entry, name=name)
        self._remove(file)
        self.renamed[file] = target

    def _write(
        self,
        file: str,
        fact: StatedFact,
        entry: Entry | None,
        *,
        name: str = "",
        body: str = "",
        description: str = "",
    ) -> None:
        """Compose a file from a fact; with `body`, the fact is added to a memory that keeps its title."""
        draft = MemoryDraft(
            body=body or fact.body,
            kind=None if body else fact.kind,
            name=name or ("" if body else slot_of(fact.text) or fact.title),
            description=description if body else fact.description,
            sources=(self._judge.session, *fact.sources),
        )
        before = self._tx.read(file)[0]
        old = self._tx.read(entry.file)[0] if entry else None
        if entry is not None and entry.file in self.changes:
            old = self.changes[entry.file].after
        previous = MarkdownFile.parse(old) if old is not None else None
        after = compose(draft, file=file, now=self._judge.now, previous=previous)
        self.changes[file] = ChangedFile(
            memory=self._memory, file=file, before=before, after=after, moved_from=old
        )
        self._entries[file] = read_entry(file, after)

    def _remove(self, file: str) -> None:
        before = self._tx.read(file)[0]
        self._entries.pop(file, None)
        if before is None:
            self.changes.pop(file, None)
        else:
            self.removed[file] = ChangedFile(memory=self._memory, file=file, before=before, after=b"")


def _file_title(fact: StatedFact) -> str:
    slot = slot_of(fact.text)
    return f"user {SLOTS[slot][2]}" if slot else file_title(fact.kind, fact.title)


def is_statement(entry: Entry) -> bool:
    """Whether a memory is one statement that was extracted from a conversation, with its reason and scope."""
    lines = [line for line in entry.body.splitlines() if line.strip()]
    return bool(entry.sources) and all(
        place == 0
        or line.startswith(("**Why:**", "**How to apply:**", "**Since ", "**Said ", "**Superseded "))
        for place, line in enumerate(lines)
    )


def _is_richer(entry: Entry, fact: StatedFact) -> bool:
    """Whether a memory would lose more words than a new statement has, without those that it denies."""
    return len(_lost(entry, fact)) > max(len(set(terms(fact.body))), MIN_SHARED_TERMS)


def _lost(entry: Entry, fact: StatedFact) -> set[str]:
    return set(terms(entry.body)) - set(terms(fact.body)) - set(terms(fact.negates))


def _words(text: str) -> set[str]:
    """Return the terms of a text without numbers and dates, which a change replaces."""
    return {term for term in terms(text) if term.isalpha()}


def _plain(text: str) -> str:
    return _SIGNS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
