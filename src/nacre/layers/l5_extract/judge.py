"""Checks what a fork writes against the new messages, and adds origin and sources to it (E2, E8, E9)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from itertools import groupby
from typing import NoReturn

from nacre import prompts
from nacre.context.privacy import TRUSTED_TOOLS, by_tools
from nacre.errors import StoreError, ToolError
from nacre.memory.checks.additions import SourceSentences
from nacre.memory.checks.faithful import Sources
from nacre.memory.checks.grounding import (
    is_blank,
    is_supported,
    source_records,
    uncorrected_claims,
    ungrounded_claims,
)
from nacre.memory.checks.statements import Statements, lost_sentences
from nacre.memory.copies import ChangedFile
from nacre.memory.dates.relative import resolve_dates
from nacre.memory.format.entry import (
    Entry,
    MemoryDraft,
    Origin,
    compose,
    derived_file_name,
    file_subject,
    read_entry,
    whole_text,
)
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.memory import refuse_secrets
from nacre.memory.team.rules import refuse_for_team
from nacre.memory.tools import OriginJudge
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.facts import Facts, UserQuote
from nacre.messages.records import Compacted, Noted, Record, Said
from nacre.messages.view import View
from nacre.session.layer import INSIDE, digest

UNGROUNDED = prompts.load("nacre.layers.l5_extract", "ungrounded")
LOSES = prompts.load("nacre.layers.l5_extract", "loses")
LEAVE_IT = "Not saved, as before; leave it."
INDEX_REFUSED = (
    "Not saved: leave MEMORY.md alone. The line of each memory that you save is added automatically."
)
MISNAMED = "Not saved: the name of the file says what its text does not say; name it {better}."
EMPTY = "A memory says something: there is no text below its frontmatter."


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessages:
    """The messages that memories may come from, by origin (M16b)."""

    quotes: Sequence[UserQuote] = ()
    """Messages of the person."""
    replies: Sequence[str] = ()
    """Replies of the agent, and the arguments of its tool calls."""
    tool_texts: Sequence[str] = ()
    """Untrusted output of tools."""
    attached: Sequence[str] = ()
    """Texts that nacre added: already in memory, never a source."""
    count: int = 0
    """Number of messages as the model sees them."""
    last: str = ""
    """Id of the newest record."""
    after: str | None = None
    """Id of the record before the first message; None: they are all of the conversation."""
    calls: Sequence[tuple[str, str]] = ()
    """Tool names, each with the command of a shell call."""


def messages_since(view: View, cursor: str | None) -> NewMessages:
    """Return the messages of a view after the cursor; all of them if its message is gone (E2)."""
    items = view.items
    start = next((n for n in range(len(items), 0, -1) if items[n - 1].record_id == cursor), 0)
    new_ids = {item.record_id for item in items[start:]}
    records = view.records
    inside = {str(one.fact(INSIDE)) for one in records if isinstance(one, Noted) and one.fact(INSIDE)}
    new = [one for one in records if isinstance(one, Said) and one.aside is None and one.id in new_ids]
    blocks = [block for one in new if one.role == "assistant" for block in one.blocks]
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    return NewMessages(
        quotes=Facts.of(new).words,
        replies=tuple(
            block.text if isinstance(block, Text) else json.dumps(block.input, ensure_ascii=False)
            for block in blocks
            if isinstance(block, Text | ToolCall)
        ),
        tool_texts=tuple(text for text in by_tools(new, inside) if text.strip()),
        attached=tuple(_attached(records, inside)),
        count=sum(1 for _ in groupby(items[start:], key=lambda item: item.role)),
        last=items[-1].record_id if items else "",
        after=items[start - 1].record_id if start else None,
        calls=tuple((call.name, str(call.input.get("command", ""))) for call in calls),
    )


def has_news(records: Sequence[Record], cursor: str | None) -> bool:
    """Whether a person wrote something after the cursor; reads backwards and stops at the first answer."""
    for one in reversed(records):
        if one.id == cursor:
            return False
        if not isinstance(one, Said) or one.role != "user" or one.meta or one.aside is not None:
            continue
        if any(isinstance(block, Text) for block in one.blocks):
            return True
    return False


def _attached(records: Sequence[Record], inside: set[str]) -> Iterator[str]:
    """Yield the texts that nacre added: attachments, also in results, summaries, output of its own tools."""
    trusted: set[str] = set()
    for one in records:
        if isinstance(one, Compacted):
            yield from (block.text for block in one.summary if isinstance(block, Text))
        if not isinstance(one, Said) or one.aside is not None:
            continue
        for block in one.blocks:
            if isinstance(block, Text) and one.meta:
                yield block.text
            elif isinstance(block, ToolCall) and block.name in TRUSTED_TOOLS:
                trusted.add(block.id)
            elif isinstance(block, ToolResult):
                texts = (part.text for part in block.content if isinstance(part, Text))
                yield from (text for text in texts if block.call_id in trusted or digest(text) in inside)


@dataclass(slots=True, kw_only=True)
class Judge:
    """Checks every file that a fork writes, and adds origin and sources to the accepted ones."""

    messages: NewMessages
    session: str
    now: datetime
    zone: tzinfo
    origins: OriginJudge
    names: Sequence[str] = ()
    """Existing files, which a memory may link to."""
    grounds: bool = True
    """Whether claims are checked."""
    rejected: dict[str, list[str]] = field(default_factory=dict)
    """The ungrounded or lost claims of each rejected file."""
    refusals: Counter[str] = field(default_factory=Counter)
    """How often a file was refused, by reason."""

    def check(self, change: ChangedFile) -> None:
        """Raise `ToolError` for a file that may not become a memory; an objection is explained once."""
        self._check(change)
        self.rejected.pop(change.file, None)

    def check_rewrite(self, change: ChangedFile) -> None:
        """Like `check`, for a text of a model: a sentence says no more than one sentence of the messages.

        An existing memory must also keep what it names, unless the person corrected it.
        """
        self._check(change)
        if self.grounds:
            self._refuse_claims(change.file, self._added(change), UNGROUNDED)
        if change.before is not None and self.grounds:
            before = read_entry(change.file, change.before)
            after = read_entry(change.file, self.signed(change))
            said = [one.text for one in self.messages.quotes]
            old = whole_text(before)
            new = whole_text(after)
            lost = lost_sentences(before.body, now=Statements([new]))
            self._refuse_claims(change.file, uncorrected_claims(old, new, said=said, lost=lost), LOSES)
        self.rejected.pop(change.file, None)

    def signed(self, change: ChangedFile) -> bytes:
        """Return the file as it is saved: with origin and sources, without fields that a fork may not set."""
        entry = read_entry(change.file, change.after)
        text = whole_text(entry)
        previous = MarkdownFile.parse(change.before) if change.before is not None else None
        draft = MemoryDraft(
            body=entry.body,
            kind=entry.kind,
            name=self._supported(entry.name, entry, change),
            description=self._supported(entry.description, entry, change),
            origin=self._origin(text, _trusted(change)),
            sources=(self.session, *self.sources(text)),
            is_supported=self.origins.supports(entry.body),
        )
        return compose(draft, file=change.file, now=self.now, previous=previous)

    def sources(self, text: str) -> list[str]:
        """Return the ids of the records that a text came from, at least the last one of the person."""
        return source_records(text, self.messages.quotes) or [
            one.record_id for one in self.messages.quotes[-1:]
        ]

    def _check(self, change: ChangedFile) -> None:
        if change.file.rpartition("/")[2] == INDEX_FILE:
            self._refuse("index", INDEX_REFUSED)
        text = change.after.decode(errors="replace")
        why = "secret"
        try:
            refuse_secrets(text, file="" if change.before else change.file)
            self.origins.origin_of(text)  # refuses a credential that a tool result shows
            if change.memory.location.source == "team":
                why = "team"
                refuse_for_team(change.file, self.signed(change))
        except StoreError as error:
            self._refuse(why, f"Not saved: {error}.")
        entry = read_entry(change.file, change.after)
        if is_blank(entry.body):
            self._refuse("empty", EMPTY)
        if change.before is None and self.grounds:
            better = derived_file_name(entry)
            is_named = self.origins.supported_title(file_subject(change.file), entry.body)
            if not is_named and change.file.rpartition("/")[2] != better:
                self._refuse("misnamed", MISNAMED.format(better=better))
        if self.grounds:
            claims = self._claims(whole_text(entry), _old(change)) or self._altered(entry, _old(change))
            self._refuse_claims(change.file, claims, UNGROUNDED)

    def _supported(self, line: str, entry: Entry, change: ChangedFile) -> str:
        """Return a title or description; empty, so that it is derived again, if no text supports it.

        It becomes a line of the index, which is part of every prompt.
        """
        if not self.grounds:
            return line
        texts = [entry.body, _old(change), *(one.text for one in self.messages.quotes)]
        is_known = is_supported(line, texts) and not Sources(texts).altered(line, new_words="any")
        return self.origins.supported_title(line, f"{entry.body}\n{_trusted(change)}") if is_known else ""

    def _refuse_claims(self, file: str, claims: list[str], why: str) -> None:
        """Raise `ToolError` if there are claims; the reason is explained once per file."""
        if not claims:
            return
        is_explained = file in self.rejected
        self.rejected[file] = claims
        text = LEAVE_IT if is_explained else prompts.render(why, claims=", ".join(claims))
        self._refuse("lossy" if why == LOSES else "ungrounded", text)

    def _refuse(self, why: str, text: str) -> NoReturn:
        self.refusals[why] += 1
        raise ToolError(text)

    def _claims(self, text: str, old: str) -> list[str]:
        """Return the claims that are in no message, or only in texts that nacre attached (M16b)."""
        messages = self.messages
        own = self._ungrounded(text, [one.text for one in messages.quotes], old)
        if not own:
            return []
        others = set(self._ungrounded(text, [*messages.replies, *messages.tool_texts], old))
        said = [one.text for one in messages.quotes]
        everywhere = set(self._ungrounded(text, [*said, *messages.replies, *messages.tool_texts], old))
        repeated = set(own) - set(self._ungrounded(text, [*said, *messages.attached], old))
        return [one for one in own if one in everywhere or (one not in others and one in repeated)]

    def _altered(self, entry: Entry, old: str) -> list[str]:
        """Return the sentences that change what the person said, or have a part without a source."""
        messages = self.messages
        sources = Sources(self._said(), old=[old], others=[*messages.replies, *messages.tool_texts])
        return sources.altered(entry.body)

    def _added(self, change: ChangedFile) -> list[str]:
        """Return the parts of sentences that say more than any one sentence of the messages."""
        messages = self.messages
        texts = [*self._said(), _old(change), *messages.replies, *messages.tool_texts]
        at = messages.quotes[-1].at if messages.quotes else self.now
        return SourceSentences(texts, at=at).additions(read_entry(change.file, change.after).body)

    def _said(self) -> list[str]:
        """Return what the person said, and the same with dates as a memory writes them."""
        quotes = self.messages.quotes
        return [
            *(one.text for one in quotes),
            *(resolve_dates(one.text, one.at, self.zone) for one in quotes),
        ]

    def _origin(self, text: str, old: str) -> Origin:
        """Return the origin of a text; `untrusted` also if a claim is only in tool output."""
        messages = self.messages
        ours = [*(one.text for one in messages.quotes), *messages.replies]
        if messages.tool_texts and self._ungrounded(text, ours, old):
            return "untrusted"
        return self.origins.origin_of(text, trusted=(old,) if old else ())

    def _ungrounded(self, text: str, said: Sequence[str], old: str) -> list[str]:
        at = self.messages.quotes[-1].at if self.messages.quotes else self.now
        return ungrounded_claims(text, said=[*said, *self.names], old=old, at=at, zone=self.zone)


def _trusted(change: ChangedFile) -> str:
    """Return the text before a change, if it may be relied on."""
    entry = read_entry(change.file, change.before or change.moved_from or b"")
    return _old(change) if entry.is_trusted else ""


def _old(change: ChangedFile) -> str:
    before = change.before if change.before is not None else change.moved_from
    if before is None:
        return ""
    entry = read_entry(change.file, before)
    return whole_text(replace(entry, name=entry.title))
