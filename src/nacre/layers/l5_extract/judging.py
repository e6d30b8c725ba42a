"""What of a fork's writing becomes memory: grounded in what was said, signed with its sources (E8, E9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo

from nacre import prompts
from nacre.errors import StoreError, ToolError
from nacre.memory.checks.grounding import (
    is_blank,
    is_supported,
    sources,
    uncorrected_claims,
    ungrounded_claims,
)
from nacre.memory.copies import ChangedFile
from nacre.memory.format.entry import Entry, MemoryDraft, Origin, compose, read_entry
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.memory import refuse_secrets
from nacre.memory.team.rules import refuse_for_team
from nacre.messages.facts import UserQuote

UNGROUNDED = prompts.load("nacre.layers.l5_extract", "ungrounded")
LOSES = prompts.load("nacre.layers.l5_extract", "loses")
LEAVE_IT = "Not saved, as before; leave it."
INDEX_REFUSED = (
    "Not saved: leave MEMORY.md alone. The line of each memory that you save is added automatically."
)
EMPTY = "A memory says something: there is no text below its frontmatter."


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The messages that memories may come from, by whose words they hold (M16b)."""

    words: Sequence[UserQuote] = ()
    """A person's own."""
    replies: Sequence[str] = ()
    """The agent's, what it called included."""
    outside: Sequence[str] = ()
    """What tools said: of use, but nobody vouches for it."""
    attached: Sequence[str] = ()
    """What nacre itself told the model: known already, and never a source."""
    count: int = 0
    """Messages as the model sees them."""
    last: str = ""
    """The newest record of them."""
    calls: Sequence[tuple[str, str]] = ()
    """What was called: the tool, and the command where it is one."""


@dataclass(slots=True, kw_only=True)
class Judge:
    """Looks at every file a fork writes, and once more at what comes of all of them."""

    heard: Heard
    session: str
    now: datetime
    zone: tzinfo
    origin_of: Callable[[str], Origin]
    names: Sequence[str] = ()
    """Files that exist: a memory may link to them."""
    grounds: bool = True
    """Whether claims are looked up at all."""
    rejected: dict[str, list[str]] = field(default_factory=dict)
    """By file, what of it nobody had said, or what it would have lost."""

    def check(self, change: ChangedFile) -> None:
        """Raise `ToolError` for what may not become a memory; the same objection is explained once."""
        self._check(change)
        self.rejected.pop(change.file, None)

    def check_rewrite(self, change: ChangedFile) -> None:
        """`check`, and a memory that is there keeps what it names, unless the person corrected it."""
        self._check(change)
        if change.before is not None and self.grounds:
            before = read_entry(change.file, change.before)
            after = read_entry(change.file, self.signed(change))
            said = [one.text for one in self.heard.words]
            self._refuse_claims(
                change.file, uncorrected_claims(_whole(before), _whole(after), said=said), LOSES
            )
        self.rejected.pop(change.file, None)

    def signed(self, change: ChangedFile) -> bytes:
        """The file as it is kept: with its origin, its sources, and no field that a fork may not set."""
        entry = read_entry(change.file, change.after)
        text = _whole(entry)
        previous = MarkdownFile.parse(change.before) if change.before is not None else None
        draft = MemoryDraft(
            body=entry.body,
            kind=entry.kind,
            name=self._supported(entry.name, entry, change),
            description=self._supported(entry.description, entry, change),
            origin=self._origin(text, _old(change)),
            sources=(self.session, *self.sources(text)),
        )
        return compose(draft, file=change.file, now=self.now, previous=previous)

    def sources(self, text: str) -> list[str]:
        """The records it came from; where no words are its own, the last that were said before it."""
        return sources(text, self.heard.words) or [one.record_id for one in self.heard.words[-1:]]

    def _check(self, change: ChangedFile) -> None:
        if change.file.rpartition("/")[2] == INDEX_FILE:
            raise ToolError(INDEX_REFUSED)
        text = change.after.decode(errors="replace")
        try:
            refuse_secrets(text)
            if change.memory.location.source == "team":
                refuse_for_team(change.file, self.signed(change))
        except StoreError as error:
            raise ToolError(f"Not saved: {error}.") from error
        entry = read_entry(change.file, change.after)
        if is_blank(entry.body):
            raise ToolError(EMPTY)
        self._refuse_claims(change.file, self._new_claims(change, entry), UNGROUNDED)

    def _supported(self, line: str, entry: Entry, change: ChangedFile) -> str:
        """A title or description as a fork wrote it; empty, and so derived anew, where it is free text.

        Every prompt holds it as a line of the index.
        """
        texts = [entry.body, _old(change), *(one.text for one in self.heard.words)]
        return line if not self.grounds or is_supported(line, texts) else ""

    def _new_claims(self, change: ChangedFile, entry: Entry) -> list[str]:
        return self._claims(_whole(entry), _old(change)) if self.grounds else []

    def _refuse_claims(self, file: str, claims: list[str], why: str) -> None:
        """Raise `ToolError` where there are any; why is explained once for a file."""
        if not claims:
            return
        is_told = file in self.rejected
        self.rejected[file] = claims
        raise ToolError(LEAVE_IT if is_told else prompts.render(why, claims=", ".join(claims)))

    def _claims(self, text: str, old: str) -> list[str]:
        """What a text claims that nobody said, or that only repeats what nacre had attached (M16b)."""
        heard = self.heard
        own = self._ungrounded(text, [one.text for one in heard.words], old)
        if not own:
            return []
        others = set(self._ungrounded(text, [*heard.replies, *heard.outside], old))
        said = [one.text for one in heard.words]
        everywhere = set(self._ungrounded(text, [*said, *heard.replies, *heard.outside], old))
        repeated = set(own) - set(self._ungrounded(text, [*said, *heard.attached], old))
        return [one for one in own if one in everywhere or (one not in others and one in repeated)]

    def _origin(self, text: str, old: str) -> Origin:
        """`untrusted` also where a claim stands nowhere but in what a tool said."""
        heard = self.heard
        ours = [*(one.text for one in heard.words), *heard.replies]
        if heard.outside and self._ungrounded(text, ours, old):
            return "untrusted"
        return self.origin_of(text)

    def _ungrounded(self, text: str, said: Sequence[str], old: str) -> list[str]:
        at = self.heard.words[-1].at if self.heard.words else self.now
        return ungrounded_claims(text, said=[*said, *self.names], old=old, at=at, zone=self.zone)


def _whole(entry: Entry) -> str:
    return "\n".join(part for part in (entry.name, entry.description, entry.body) if part)


def _old(change: ChangedFile) -> str:
    if change.before is None:
        return ""
    entry = read_entry(change.file, change.before)
    return _whole(replace(entry, name=entry.title))
