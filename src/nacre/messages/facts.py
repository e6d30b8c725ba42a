"""Facts read from a conversation without a model: user quotes and actions, one line each.

Facts are a fold over records. A compaction carries the facts it showed (a note of kind `FACTS`), so that a
session resumed after it has the same facts as one that never ended (C17, C20, C21): the facts after a
compaction depend only on what it carries and the records it keeps in view.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias, cast, get_args

from nacre.messages.actions import ActionCategory, answer_of, line_of, one_line, outcome_of, report_of
from nacre.messages.blocks import Json, JsonObject, Text, ToolCall, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Record, Said
from nacre.messages.user_quotes import own_words
from nacre.messages.view import live_records

FACTS = "facts"
"""Kind of the note with the facts that a compaction showed."""
MAX_REPLY = 200
"""Characters of a reply in its line."""
MAX_SPEECH = 4_000
"""Characters of a reply if there is room."""
ADDRESS = re.compile(r"https?://[^\s\"'<>`)\]}…]+")


@dataclass(frozen=True, slots=True)
class UserQuote:
    """The user's own words in one message, verbatim."""

    record_id: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """One call with its outcome, or one closing reply, in a line or two."""

    id: str
    """Id of the call or record."""
    tool: str
    """Tool name; empty for a reply."""
    line: str
    """The action with its names: `Edit src/a.py: "def f(" -> "def g("`."""
    outcome: str = ""
    """Empty on success; `exit 1`, or the line of the error."""
    kind: ActionCategory = "other"
    about: str = ""
    """The file, command, pattern or URL."""
    detail: str = ""
    """Detail to show if there is room: new lines of an edit, a reply's text, a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts so far, oldest first."""

    words: tuple[UserQuote, ...] = ()
    actions: tuple[Action, ...] = ()
    left_words: int = 0
    """Messages that earlier compactions had no room for."""
    left_actions: int = 0
    _fold: _FactsFold | None = field(default=None, init=False, compare=False, repr=False)
    """State from which `after` continues; None for facts read from a note."""

    @staticmethod
    def of(records: Iterable[Record]) -> Facts:
        """Return the facts of a log, or of the part after its last compaction."""
        fold = _FactsFold()
        for record in live_records(list(records)):
            fold.place(record)
        fold.read_again()
        return fold.facts()

    def after(self, *records: Record) -> Facts:
        """Return the facts with new records; only `of` takes undone records into account."""
        fold = self._fold.copy() if self._fold is not None else _FactsFold(self)
        for record in records:
            fold.take(record)
        return fold.facts()

    def without(self, items: Iterable[Item]) -> Facts:
        """Return the facts that are not in these items and must be shown with them."""
        kept: set[str] = set()
        for item in items:
            kept.add(item.record_id)
            kept.update(part.block.id for part in item.parts if isinstance(part.block, ToolCall))
        # A summary among the items shows its own facts and names what it left out.
        summaries = self._fold.summarised_in(kept) if self._fold is not None else []
        kept.update(one.record_id for facts in summaries for one in facts.words)
        kept.update(one.id for facts in summaries for one in facts.actions)
        return replace(
            self,
            words=tuple(one for one in self.words if one.record_id not in kept),
            actions=tuple(one for one in self.actions if one.id not in kept),
            left_words=self.left_words - sum(facts.left_words for facts in summaries),
            left_actions=self.left_actions - sum(facts.left_actions for facts in summaries),
        )

    def files(self, *, only_edited: bool = False) -> list[str]:
        """Files read or changed, each once, the latest last."""
        kinds = {"edit"} if only_edited else {"edit", "read"}
        return _each_once(one.about for one in self.actions if one.kind in kinds)

    def commands(self) -> list[Action]:
        return [one for one in self.actions if one.kind == "command"]

    def errors(self) -> list[Action]:
        """Failed actions, including commands."""
        return [one for one in self.actions if one.outcome]

    def urls(self) -> list[str]:
        """URLs opened or named, each once, the latest last."""
        texts = [*(one.text for one in self.words), *(f"{one.about} {one.line}" for one in self.actions)]
        return _each_once(found.rstrip(".,;:!?") for text in texts for found in ADDRESS.findall(text))

    def as_json(self) -> JsonObject:
        return {
            "words": [[one.record_id, one.at.isoformat(), one.text] for one in self.words],
            "deeds": [
                [one.id, one.tool, one.line, one.outcome, one.kind, one.about, one.detail]
                for one in self.actions
            ],
            "left_words": self.left_words,
            "left_deeds": self.left_actions,
        }

    @staticmethod
    def of_json(stored: JsonObject) -> Facts:
        """Parse a note; invalid parts are left out."""
        words = (_words(row) for row in _rows(stored.get("words")))
        actions = (_action(row) for row in _rows(stored.get("deeds")))
        return Facts(
            words=tuple(one for one in words if one is not None),
            actions=tuple(one for one in actions if one is not None),
            left_words=_count(stored.get("left_words")),
            left_actions=_count(stored.get("left_deeds")),
        )


def carried(record: Compacted) -> Facts | None:
    """Return the facts of a compaction; None for another program's or a collapsed span."""
    notes = [note for note in record.carries if note.kind == FACTS]
    return Facts.of_json(notes[-1].facts) if notes else None


Source: TypeAlias = "Said | Facts"
"""Source of facts: a record, or the facts that a compaction carries."""


class _FactsFold:
    """The sources of facts in the view, and the facts read from them."""

    def __init__(self, known: Facts | None = None) -> None:
        self.entries: list[tuple[str, tuple[Source, ...]]] = []
        """For each item of the view its id and its source."""
        if known is not None:
            self.entries.append(("", (known,)))
        self.read_again()

    def copy(self) -> _FactsFold:
        other = _FactsFold()
        other.entries = list(self.entries)
        other.words, other.actions = dict(self.words), dict(self.actions)
        other.calls, other.from_summary = dict(self.calls), set(self.from_summary)
        other.left_words = self.left_words
        other.left_actions = self.left_actions
        other.speech = self.speech
        return other

    def facts(self) -> Facts:
        facts = Facts(
            words=tuple(self.words.values()),
            actions=tuple(self.actions.values()),
            left_words=self.left_words,
            left_actions=self.left_actions,
        )
        object.__setattr__(facts, "_fold", self)
        return facts

    def summarised_in(self, ids: Set[str]) -> list[Facts]:
        """Return the facts of the summaries among these entries."""
        return [
            source
            for entry_id, sources in self.entries
            if entry_id in ids
            for source in sources
            if isinstance(source, Facts)
        ]

    def take(self, record: Record) -> None:
        """Add a record; constant cost except for a compaction."""
        self.place(record)
        match record:
            case Said(aside=None):
                self._say(record)
            case Compacted():
                self.read_again()
            case _:
                pass

    def place(self, record: Record) -> None:
        """Apply a record to the sources as to the view."""
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
                # A collapsed span: its records are read again on resume, so its facts stay.
                sources = tuple(one for _, inside in self.entries[start:end] for one in inside)
            self.entries[start:end] = [(record.summary_id or record.id, sources)]

    def read_again(self) -> None:
        self.words: dict[str, UserQuote] = {}
        self.actions: dict[str, Action] = {}
        self.calls: dict[str, ToolCall] = {}
        """Calls without a result."""
        self.from_summary: set[str] = set()
        """Ids known only because a compaction carried them."""
        self.left_words = self.left_actions = 0
        self.speech: _Speech | None = None
        """The current reply."""
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
                self.from_summary.add(words.record_id)
        for action in facts.actions:
            if action.id not in self.actions:
                self.actions[action.id] = action
                self.from_summary.add(action.id)
        self.left_words += facts.left_words
        self.left_actions += facts.left_actions

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
        """Text before a tool call is a remark; only other text can close a turn."""
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
                self.actions[speech.id] = Action(speech.id, "", line, kind=speech.kind, detail=detail)
            elif isinstance(block, ToolCall):
                speech = replace(speech, kind="remark")
                if speech.text and speech.id in self.actions:
                    self.actions[speech.id] = replace(self.actions[speech.id], kind="remark")
                self._call(block)
            self.speech = speech

    def _call(self, call: ToolCall) -> None:
        self._own(call.id)
        if call.id not in self.actions:
            line = line_of(call)
            self.actions[call.id] = Action(
                call.id, call.name, line.text, kind=line.kind, about=line.about, detail=line.detail
            )
            self.calls[call.id] = call

    def _answer(self, result: ToolResult) -> None:
        call = self.calls.pop(result.call_id, None)
        action = self.actions.get(result.call_id)
        if call is None or action is None:
            return
        answer = answer_of(call, result)
        line = f"{action.line} -> {answer}" if answer else action.line
        outcome = outcome_of(result)
        detail = action.detail if outcome else action.detail or report_of(call, action.kind, result)
        self.actions[call.id] = replace(action, line=line, outcome=outcome, detail=detail)

    def _own(self, record_id: str) -> None:
        """Drop the carried fact of a record in view, which has its own position."""
        if record_id in self.from_summary:
            self.from_summary.discard(record_id)
            self.words.pop(record_id, None)
            self.actions.pop(record_id, None)


@dataclass(frozen=True, slots=True)
class _Speech:
    """The text of one reply, over all its records."""

    id: str
    """Id of its first record."""
    reply_id: str | None
    text: str = ""
    kind: ActionCategory = "reply"


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


def _action(row: Json) -> Action | None:
    match row:
        case [str(call_id), str(tool), str(line), str(outcome), str(kind), str(about), str(detail)]:
            known = cast("ActionCategory", kind) if kind in get_args(ActionCategory) else "other"
            return Action(call_id, tool, line, outcome, known, about, detail)
        case _:
            return None


def _count(stored: Json) -> int:
    return stored if isinstance(stored, int) and not isinstance(stored, bool) and stored >= 0 else 0
