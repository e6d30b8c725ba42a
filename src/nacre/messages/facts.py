"""What can be read off a conversation without a model: a person's words, and what was done, line by line.

Facts are a fold over records. A compaction carries what it showed of them (a note of kind `FACTS`), so that
a session that is resumed behind it knows the same as one that never ended (C17, C20, C21): what is known
after a compaction depends on nothing but what it carries and the records it keeps in view.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias, cast, get_args

from nacre.messages.actions import DeedKind, answer_of, line_of, one_line, outcome_of, report_of
from nacre.messages.blocks import Json, JsonObject, Text, ToolCall, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Record, Said
from nacre.messages.user_quotes import own_words
from nacre.messages.view import live_records

FACTS = "facts"
"""The kind of note that holds what a compaction showed."""
MAX_REPLY = 200
"""Characters of a reply in its line: what it comes to is said at its beginning."""
MAX_SPEECH = 4_000
"""Characters of a reply where there is room: the names in it are those that are needed again."""
ADDRESS = re.compile(r"https?://[^\s\"'<>`)\]}…]+")


@dataclass(frozen=True, slots=True)
class UserQuote:
    """What a person said in one message, word for word; nothing that a program put beside it."""

    record_id: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """One call and how it ended, or one closing reply, in a line or two."""

    id: str
    """Of the call, or of the record."""
    tool: str
    """Empty for a reply."""
    line: str
    """What was done, with its names: `Edit src/a.py: "def f(" -> "def g("`."""
    outcome: str = ""
    """Empty when all went well; `exit 1`, or the line of an error that says why."""
    kind: DeedKind = "other"
    about: str = ""
    """The file, the command, the pattern or the address."""
    detail: str = ""
    """What is worth showing where there is room: the new lines of an edit, a reply's words, a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything read off so far, oldest first."""

    words: tuple[UserQuote, ...] = ()
    deeds: tuple[Action, ...] = ()
    left_words: int = 0
    """Messages that earlier compactions had no room for."""
    left_deeds: int = 0
    _fold: _FactsFold | None = field(default=None, init=False, compare=False, repr=False)
    """What `after` goes on from; facts made by hand, or read from a note, are closed."""

    @staticmethod
    def of(records: Iterable[Record]) -> Facts:
        """The facts of a log, or of the stretch behind its last compaction."""
        fold = _FactsFold()
        for record in live_records(list(records)):
            fold.place(record)
        fold.read_again()
        return fold.facts()

    def after(self, *records: Record) -> Facts:
        """With what happened since; an undone record no longer counts only where `of` folds it."""
        fold = self._fold.copy() if self._fold is not None else _FactsFold(self)
        for record in records:
            fold.take(record)
        return fold.facts()

    def without(self, items: Iterable[Item]) -> Facts:
        """Only what does not stand in these items anyway: what a compaction that keeps them has to show."""
        kept: set[str] = set()
        for item in items:
            kept.add(item.record_id)
            kept.update(part.block.id for part in item.parts if isinstance(part.block, ToolCall))
        # A summary among them shows what it carries, and says itself what it had no room for.
        told = self._fold.told_in(kept) if self._fold is not None else []
        kept.update(one.record_id for facts in told for one in facts.words)
        kept.update(one.id for facts in told for one in facts.deeds)
        return replace(
            self,
            words=tuple(one for one in self.words if one.record_id not in kept),
            deeds=tuple(one for one in self.deeds if one.id not in kept),
            left_words=self.left_words - sum(facts.left_words for facts in told),
            left_deeds=self.left_deeds - sum(facts.left_deeds for facts in told),
        )

    def files(self, *, only_edited: bool = False) -> list[str]:
        """The files that were read or changed, each once, the latest last."""
        kinds = {"edit"} if only_edited else {"edit", "read"}
        return _each_once(one.about for one in self.deeds if one.kind in kinds)

    def commands(self) -> list[Action]:
        return [one for one in self.deeds if one.kind == "command"]

    def errors(self) -> list[Action]:
        """What went wrong, commands that failed included."""
        return [one for one in self.deeds if one.outcome]

    def urls(self) -> list[str]:
        """Every address that was opened or named, each once, the latest last."""
        texts = [*(one.text for one in self.words), *(f"{one.about} {one.line}" for one in self.deeds)]
        return _each_once(found.rstrip(".,;:!?") for text in texts for found in ADDRESS.findall(text))

    def as_json(self) -> JsonObject:
        return {
            "words": [[one.record_id, one.at.isoformat(), one.text] for one in self.words],
            "deeds": [
                [one.id, one.tool, one.line, one.outcome, one.kind, one.about, one.detail]
                for one in self.deeds
            ],
            "left_words": self.left_words,
            "left_deeds": self.left_deeds,
        }

    @staticmethod
    def of_json(stored: JsonObject) -> Facts:
        """Total: what has another shape is left out."""
        words = (_words(row) for row in _rows(stored.get("words")))
        deeds = (_deed(row) for row in _rows(stored.get("deeds")))
        return Facts(
            words=tuple(one for one in words if one is not None),
            deeds=tuple(one for one in deeds if one is not None),
            left_words=_count(stored.get("left_words")),
            left_deeds=_count(stored.get("left_deeds")),
        )


def carried(record: Compacted) -> Facts | None:
    """What a compaction showed; none: it is another program's, or stands for nothing but its span."""
    notes = [note for note in record.carries if note.kind == FACTS]
    return Facts.of_json(notes[-1].facts) if notes else None


Source: TypeAlias = "Said | Facts"
"""Where facts come from: a record, or what a compaction carries."""


class _FactsFold:
    """What stands in the view, as sources of facts, and what was read off them so far."""

    def __init__(self, known: Facts | None = None) -> None:
        self.entries: list[tuple[str, tuple[Source, ...]]] = []
        """One for each item of the view: its id, and what is known from it."""
        if known is not None:
            self.entries.append(("", (known,)))
        self.read_again()

    def copy(self) -> _FactsFold:
        other = _FactsFold()
        other.entries = list(self.entries)
        other.words, other.deeds = dict(self.words), dict(self.deeds)
        other.calls, other.told = dict(self.calls), set(self.told)
        other.left_words = self.left_words
        other.left_deeds = self.left_deeds
        other.speech = self.speech
        return other

    def facts(self) -> Facts:
        facts = Facts(
            words=tuple(self.words.values()),
            deeds=tuple(self.deeds.values()),
            left_words=self.left_words,
            left_deeds=self.left_deeds,
        )
        object.__setattr__(facts, "_fold", self)
        return facts

    def told_in(self, ids: Set[str]) -> list[Facts]:
        """What the summaries among these entries show."""
        return [
            source
            for entry_id, sources in self.entries
            if entry_id in ids
            for source in sources
            if isinstance(source, Facts)
        ]

    def take(self, record: Record) -> None:
        """One more record; only a compaction costs more than that record holds."""
        self.place(record)
        match record:
            case Said(aside=None):
                self._say(record)
            case Compacted():
                self.read_again()
            case _:
                pass

    def place(self, record: Record) -> None:
        """Let it stand among the sources as it stands in the view."""
        if isinstance(record, Said) and record.aside is None:
            self.entries.append((record.id, (record,)))
        elif isinstance(record, Compacted):
            first = self._position(record.first, default=-1)
            start = max(0, first)
            end = max(start, self._position(record.keeps_from, default=len(self.entries)))
            shown = carried(record)
            if shown is not None:
                sources: tuple[Source, ...] = (shown,)
            elif first < 0:
                sources = ()
            else:
                # A part was put in other words. Whoever resumes reads its records, too: nothing is forgotten.
                sources = tuple(one for _, inside in self.entries[start:end] for one in inside)
            self.entries[start:end] = [(record.summary_id or record.id, sources)]

    def read_again(self) -> None:
        self.words: dict[str, UserQuote] = {}
        self.deeds: dict[str, Action] = {}
        self.calls: dict[str, ToolCall] = {}
        """Those whose result has not come."""
        self.told: set[str] = set()
        """Ids known only because a compaction carried them."""
        self.left_words = self.left_deeds = 0
        self.speech: _Speech | None = None
        """The reply that is being given."""
        for _, sources in self.entries:
            for source in sources:
                if isinstance(source, Facts):
                    self._carry(source)
                else:
                    self._say(source)

    def _position(self, record_id: str | None, *, default: int) -> int:
        if record_id is None:
            return default
        return next((place for place, (one, _) in enumerate(self.entries) if one == record_id), default)

    def _carry(self, facts: Facts) -> None:
        for words in facts.words:
            if words.record_id not in self.words:
                self.words[words.record_id] = words
                self.told.add(words.record_id)
        for deed in facts.deeds:
            if deed.id not in self.deeds:
                self.deeds[deed.id] = deed
                self.told.add(deed.id)
        self.left_words += facts.left_words
        self.left_deeds += facts.left_deeds

    def _say(self, said: Said) -> None:
        if said.role == "assistant":
            self._hear(said)
            return
        if said.role != "user":
            return
        for block in said.blocks:
            if isinstance(block, ToolResult):
                self._answer(block)
        if self.speech is not None and self.speech.reply_id is None:
            self.speech = None
        text = "" if said.meta else own_words(said.blocks)
        if text:
            self._own(said.id)
            self.words.setdefault(said.id, UserQuote(said.id, said.at, text))

    def _hear(self, said: Said) -> None:
        """What a reply says before it calls something is a remark; only the rest can close a turn."""
        reply_id = said.reply.id if said.reply else None
        for block in said.blocks:
            speech = self.speech
            if speech is None or speech.reply_id != reply_id:
                speech = _Speech(said.id, reply_id)
            if isinstance(block, Text) and block.text.strip():
                text = f"{speech.text}\n\n{block.text}".strip()[:MAX_SPEECH]
                speech = replace(speech, text=text)
                self._own(speech.id)
                line = one_line(text, MAX_REPLY)
                detail = "" if line == text else text
                self.deeds[speech.id] = Action(speech.id, "", line, kind=speech.kind, detail=detail)
            elif isinstance(block, ToolCall):
                speech = replace(speech, kind="remark")
                if speech.text and speech.id in self.deeds:
                    self.deeds[speech.id] = replace(self.deeds[speech.id], kind="remark")
                self._call(block)
            self.speech = speech

    def _call(self, call: ToolCall) -> None:
        self._own(call.id)
        if call.id not in self.deeds:
            line = line_of(call)
            self.deeds[call.id] = Action(
                call.id, call.name, line.text, kind=line.kind, about=line.about, detail=line.detail
            )
            self.calls[call.id] = call

    def _answer(self, result: ToolResult) -> None:
        call = self.calls.pop(result.call_id, None)
        deed = self.deeds.get(result.call_id)
        if call is None or deed is None:
            return
        answer = answer_of(call, result)
        line = f"{deed.line} -> {answer}" if answer else deed.line
        outcome = outcome_of(result)
        detail = deed.detail if outcome else deed.detail or report_of(call, deed.kind, result)
        self.deeds[call.id] = replace(deed, line=line, outcome=outcome, detail=detail)

    def _own(self, record_id: str) -> None:
        """A record in view tells more than what was once shown of it, and stands at its own place."""
        if record_id in self.told:
            self.told.discard(record_id)
            self.words.pop(record_id, None)
            self.deeds.pop(record_id, None)


@dataclass(frozen=True, slots=True)
class _Speech:
    """What one reply says, in however many records."""

    id: str
    """Of its first record."""
    reply_id: str | None
    text: str = ""
    kind: DeedKind = "reply"


def _each_once(names: Iterable[str]) -> list[str]:
    last = dict[str, None]()
    for name in names:
        last.pop(name, None)
        last[name] = None
    return list(last)


def _rows(stored: Json) -> Sequence[Json]:
    return stored if isinstance(stored, list) else []


def _words(row: Json) -> UserQuote | None:
    match row:
        case [str(record_id), str(at), str(text)]:
            try:
                return UserQuote(record_id, datetime.fromisoformat(at), text)
            except ValueError:
                return None
        case _:
            return None


def _deed(row: Json) -> Action | None:
    match row:
        case [str(call_id), str(tool), str(line), str(outcome), str(kind), str(about), str(detail)]:
            known = cast("DeedKind", kind) if kind in get_args(DeedKind) else "other"
            return Action(call_id, tool, line, outcome, known, about, detail)
        case _:
            return None


def _count(stored: Json) -> int:
    return stored if isinstance(stored, int) and not isinstance(stored, bool) and stored >= 0 else 0
