"""Finds facts of lasting value without a model (E10).

A linear classifier decides which statements of a person are kept and as which kind of memory; a small grammar
recognises requests to remember or forget, corrections, reasons, and text that is not the person's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, tzinfo

from nacre.layers.l5_extract import grammar
from nacre.layers.l5_extract.classifier import LABELS, probabilities
from nacre.layers.l5_extract.slots import slot_of
from nacre.layers.l5_extract.statements import Statement, blanked, statements
from nacre.layers.l5_extract.values import STRONG, reports_change
from nacre.memory.dates.absolute import full_dates, with_iso_dates
from nacre.memory.dates.relative import relative_phrases, resolve_dates
from nacre.memory.format.entry import MAX_TITLE_CHARS, Kind, clipped, description_of, one_line, title_of
from nacre.messages.facts import UserQuote

MIN_KEPT = 0.9
"""Statements are kept from this probability on: held-out statements are then right in 97.5 of 100 cases."""
MIN_OUTRIGHT = 0.5
"""The same for statements that say by their words that they last."""
MIN_CHANGE = 0.1
"""A statement that may report a change may still update a memory from this probability on."""
MIN_LIKELY = 0.3
"""And from this one on also a memory whose subject it only names."""
MIN_REASON = 0.5
"""The rest of a sentence is its reason from this probability on."""
MIN_ASKED = 0.02
"""What a later request to remember is about may be a task below this probability."""
MIN_WORDS = 3
"""Shorter statements say nothing on their own; two Chinese characters count as a word."""
MIN_HAN = 4
"""Chinese characters that say something on their own."""
SAME_SHARE = 0.8
"""Statements with this share of common words and the same numbers count as one."""
MAX_QUOTED = 0.5
"""A statement with a larger share in quotation marks is a quotation."""
KINDS: tuple[Kind, ...] = ("user", "feedback", "project", "reference")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFact:
    """One fact that a person stated, or a request to forget one."""

    text: str
    """In the person's words, with dates made absolute where that is certain; empty to forget."""
    kind: Kind
    title: str
    sources: tuple[str, ...]
    """Ids of the records that state it."""
    said: date
    """The day on which it was said."""
    reason: str = ""
    scope: str = ""
    """Where it applies."""
    on: date | None = None
    """The day that it is about."""
    negates: str = ""
    """What it denies or what is to be forgotten."""
    is_update: bool = False
    """Whether it says that something changed."""
    is_weak: bool = False
    """Only worth keeping where it updates a memory."""
    corrects: bool = False
    """Whether it takes something back that was said before."""
    is_likely: bool = True
    """Whether it probably states a fact; other reports of a change only count if they are clear."""

    @property
    def description(self) -> str:
        return description_of(self.body, self.title)

    @property
    def body(self) -> str:
        parts = [self.text]
        if self.reason:
            parts.append(f"**Why:** {self.reason}")
        if self.scope:
            parts.append(f"**How to apply:** {self.scope}")
        return "\n\n".join(parts)


@dataclass(slots=True)
class _Draft:
    """A fact while the statements of a message are read."""

    kind: Kind
    text: str
    reasons: list[str] = field(default_factory=list)
    scope: str = ""
    negates: str = ""
    is_update: bool = False
    is_weak: bool = False
    corrects: bool = False
    is_likely: bool = True


def stated_facts(words: Sequence[UserQuote], *, zone: tzinfo) -> list[StatedFact]:
    """Return the facts that these messages state, in their order, each once."""
    facts: list[StatedFact] = []
    for message in words:
        for draft in _drafts(message.text):
            if draft.text or draft.negates:
                _add(facts, _made(draft, message, zone))
    return facts


def _drafts(message: str) -> list[_Draft]:
    plain = blanked(message)
    if grammar.REPLY.search(plain) or grammar.PROMPT.search(plain):
        return []
    reader = _Reader()
    for statement in statements(message):
        reader.read(statement)
    return reader.drafts


class _Reader:
    """Reads the statements of one message in their order."""

    def __init__(self) -> None:
        self.drafts: list[_Draft] = []
        self._last: _Draft | None = None
        """The fact that the statement before this one belongs to."""
        self._before = ""
        """The statement before this one."""
        self._reason = ""
        """A reason that no fact precedes."""
        self._is_listing = False
        """Whether items of a list to remember follow."""
        self._corrects = False
        """Whether the statement before this one only takes something back: "Actually no."."""

    def read(self, statement: Statement) -> None:
        if request := grammar.REMEMBER_BEFORE.search(statement.text):
            self._keep(statement.text[: request.start()].strip() or self._before)
        else:
            self._read(statement)
            self._before = statement.text

    def _keep(self, text: str) -> None:
        """Keep a statement that the person asks to remember after it was said."""
        is_kept = self._last is not None and not self._last.is_weak and text == self._before
        draft = None if is_kept else _asked(_bare(text))
        if draft is not None and 1 - probabilities(draft.text)[0] >= MIN_ASKED:
            # Instead of what was thought of the statement without the request.
            self.drafts = [one for one in self.drafts if not one.is_weak or one.text not in text]
            self._add(draft)

    def _read(self, statement: Statement) -> None:
        asked = grammar.first_match(grammar.REMEMBER, statement.text)
        if asked is not None and not statement.is_item:
            text = asked["fact"].strip()
            self._is_listing = not text
            self._add(_asked(text) if text else None)
        elif self._is_listing and statement.is_item:
            self._add(_asked(statement.text))
        else:
            self._is_listing = False
            self._read_stated(statement)

    def _read_stated(self, statement: Statement) -> None:
        label, found = _classified(statement, corrects=self._corrects)
        self._corrects = not grammar.CORRECTS.sub("", statement.text).strip()
        if label in {"none", "project"} and _is_reason(self._last, statement.text):
            label = "reason"
        if label == "none":
            self._add(None)
            if found.text:
                self.drafts.append(found)
        elif label == "reason":
            self._reason = "" if self._last else statement.text
            _attach(self._last, statement.text)
        elif self._last is not None and _is_continued(statement.text) and not found.negates:
            _attach(self._last, found.text)
        else:
            self._add(found)

    def _add(self, draft: _Draft | None) -> None:
        if draft is not None:
            if self._reason and draft.kind == "feedback":
                draft.reasons.append(self._reason)
            self.drafts.append(draft)
        self._last = draft
        self._reason = ""


def _asked(text: str) -> _Draft | None:
    """Return the fact of a request to remember; None if there is none."""
    if (
        not text
        or grammar.NOT_A_FACT.match(text)
        or _is_too_short(text)
        or grammar.QUESTION.search(text)
        or text[-1] in ":："
    ):
        return None
    shares = probabilities(text)
    return _with_changes(_Draft(max(KINDS, key=lambda kind: shares[LABELS.index(kind)]), text))


def _classified(statement: Statement, *, corrects: bool = False) -> tuple[str, _Draft]:
    """Return the label of a statement and the fact that it states; `corrects` after "Actually no."."""
    text = statement.text
    if forgotten := grammar.first_match(grammar.FORGET, text):
        rest = (forgotten["rest"] or "").strip(" ,，;；.。!！")
        kept = _Draft("feedback", rest if not _is_too_short(rest) else "", negates=forgotten["about"].strip())
        return kept.kind, kept
    text = _bare(text)
    rest = grammar.CORRECTS.sub("", statement.text).strip()
    corrects = corrects or (rest != statement.text.strip() and bool(rest))
    nothing = _Draft("user", "")
    plain = blanked(text)
    if (
        grammar.QUESTION.search(plain)
        or grammar.UNREAL.search(plain)
        or plain.count("\x00") > MAX_QUOTED * len(plain)
    ):
        return "none", nothing
    if slot_of(text):
        return "user", _with_changes(_Draft("user", text))
    if corrects and grammar.PRONOUN.search(rest):
        return "project", _Draft("project", rest, is_update=True, is_weak=True, corrects=True)
    shares = probabilities(rest if corrects else text)
    best = max(LABELS[1:], key=lambda label: shares[LABELS.index(label)])
    if best == "reason" and 1 - shares[0] >= MIN_REASON:
        return best, nothing
    corrected = grammar.first_match(grammar.CORRECTION, statement.text)
    is_denied = corrected is not None and bool(grammar.NEGATED.search(plain))
    is_weak = 1 - shares[0] < (MIN_OUTRIGHT if grammar.OUTRIGHT.search(plain) else MIN_KEPT)
    is_likely = 1 - shares[0] >= MIN_LIKELY
    may_be_change = 1 - shares[0] >= MIN_CHANGE and reports_change(plain)
    is_change = corrects or bool(STRONG.search(plain)) or may_be_change
    corrects = corrects and is_likely
    if _is_too_short(plain) or grammar.UNCLEAR.search(plain):
        return "none", nothing
    if is_weak and not is_denied and not is_change:
        # It may give another value for what is remembered.
        is_used = 1 - shares[0] >= MIN_CHANGE or _HAS_VALUE.search(plain) or reports_change(plain)
        heard = _with_changes(_Draft("project", text, is_weak=True, is_likely=False))
        return "none", heard if is_used else nothing
    if corrected is not None and not _is_too_short(corrected["fact"]):
        text = corrected["fact"]
    elif corrects and not _is_too_short(rest):
        text = rest
    kind = max(KINDS, key=lambda kind: shares[LABELS.index(kind)])
    draft = _Draft(
        kind, text, is_weak=is_weak and not is_denied, corrects=corrects, is_likely=is_likely or not is_weak
    )
    return kind, _with_changes(_reasoned(draft))


def _bare(text: str) -> str:
    """Return a statement without words such as "by the way" around it."""
    return grammar.TAIL.sub("", grammar.LEAD.sub("", text)).strip()


def _reasoned(draft: _Draft) -> _Draft:
    """Divide a rule into what is wanted, and the reason that the same sentence gives."""
    if draft.kind != "feedback":
        return draft
    for match in grammar.CLAUSE_END.finditer(draft.text):
        head = draft.text[: match.start()]
        tail = draft.text[match.end() :].strip()
        if _is_too_short(head) or _is_too_short(tail):
            continue
        shares = probabilities(tail)
        if match["because"] or (
            shares[LABELS.index("reason")] >= MIN_REASON and probabilities(head)[0] <= MIN_REASON
        ):
            draft.text = head
            draft.reasons.append(tail)
            break
    return draft


def _with_changes(draft: _Draft) -> _Draft:
    negated = grammar.NEGATED.search(draft.text)
    if negated:
        draft.negates = next((part.strip() for part in negated.groups() if part), "")
    draft.is_update = draft.corrects or bool(negated) or reports_change(draft.text)
    return draft


def _attach(draft: _Draft | None, text: str) -> None:
    """Add a statement to the fact before it: as its scope, its reason, or another sentence."""
    if draft is None:
        return
    if grammar.SCOPE.match(text):
        draft.scope = text
    elif draft.kind == "feedback":
        draft.reasons.append(text)
    else:
        draft.text = f"{draft.text} {text}"


def _is_reason(draft: _Draft | None, text: str) -> bool:
    """Whether a statement tells why the rule before it was made."""
    is_rule = draft is not None and draft.kind == "feedback"
    return is_rule and not grammar.QUESTION.search(text) and bool(grammar.REASON.search(text))


def _is_continued(text: str) -> bool:
    """Whether a statement goes on with the one before: it begins with a pronoun or is a fragment."""
    return bool(grammar.CONTINUED.match(text) or grammar.SCOPE.match(text)) or _is_too_short(text)


def _made(draft: _Draft, message: UserQuote, zone: tzinfo) -> StatedFact:
    said = message.at.astimezone(zone).date()
    text = _dated(draft.text, message.at, zone, said) if draft.text else ""
    days = full_dates(text)
    return StatedFact(
        text=text,
        kind=draft.kind,
        title=title_of(text) or clipped(text, MAX_TITLE_CHARS),
        sources=(message.record_id,),
        said=said,
        reason=" ".join(_dated(one, message.at, zone, said) for one in draft.reasons),
        scope=draft.scope,
        on=days[0] if days else None,
        negates=draft.negates,
        is_update=draft.is_update,
        is_weak=draft.is_weak,
        corrects=draft.corrects,
        is_likely=draft.is_likely,
    )


def _dated(text: str, at: datetime, zone: tzinfo, said: date) -> str:
    """Return a text with its dates written out; with the day it was said where one stays relative."""
    resolved = one_line(with_iso_dates(resolve_dates(text, at, zone)))
    left = [one for one in relative_phrases(resolved) if one.lower() not in _TIMELESS]
    if not left or said.isoformat() in resolved:
        return resolved
    bare = resolved.rstrip(".。 ")
    return f"{bare} (said {said.isoformat()}){resolved[len(bare) :].rstrip()}"


def _add(facts: list[StatedFact], new: StatedFact) -> None:
    """Add a fact; one that was stated before is replaced by the newer text."""
    for index, old in enumerate(facts):
        if new.text and _is_same(old.text, new.text):
            sources = tuple(dict.fromkeys((*old.sources, *new.sources)))
            facts[index] = replace(new, sources=sources)
            return
    facts.append(new)


def _is_same(one: str, other: str) -> bool:
    mine = set(_TERM.findall(one.casefold()))
    theirs = set(_TERM.findall(other.casefold()))
    if {term for term in mine if term.isdigit()} != {term for term in theirs if term.isdigit()}:
        return False
    return bool(mine | theirs) and len(mine & theirs) / len(mine | theirs) >= SAME_SHARE


def _is_too_short(text: str) -> bool:
    han = len(_HAN.findall(text))
    return han < MIN_HAN and han // 2 + len(_WORD.findall(_HAN.sub(" ", text))) < MIN_WORDS


_HAN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_TERM = re.compile(r"[\u4e00-\u9fff]|[^\W_]+")
_HAS_VALUE = re.compile(r"\d|https?:|@\w")
_TIMELESS = frozenset("recently lately soon nowadays 最近 近来 now".split()) | {"these days", "just now"}
"""Relative words that need no day."""
