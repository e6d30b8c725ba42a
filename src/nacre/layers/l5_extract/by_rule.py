"""Finds facts of lasting value without a model, in English and Chinese, by conservative rules (E10).

Every fact is a sentence of the person, unchanged but for its dates. Questions, assumptions, guesses,
quotations, pasted text and requests for the current task are left out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, tzinfo
from functools import cache
from importlib.resources import files
from typing import Any

from nacre.memory.dates.absolute import full_dates
from nacre.memory.dates.relative import resolve_dates
from nacre.memory.format.entry import MAX_DESCRIPTION_CHARS, Kind, clipped, one_line
from nacre.messages.facts import UserQuote

MIN_WORDS = 3
"""Shorter statements are ignored; two Chinese characters count as a word."""
MIN_HAN = 4
MIN_EVENT_WORDS = 7
"""An event in fewer words refers to an earlier message."""
NAME_WORDS = 6
NAME_CHARS = 60
"""Limit of a file name."""
HAN_NAME_CHARS = 12
MIN_CLEAR_WORDS = 22
"""A longer statement usually contains what its pronouns refer to."""
SAME_SHARE = 0.8
"""Statements with this share of common words and the same numbers count as one."""


@dataclass(frozen=True, slots=True)
class StatedFact:
    """One fact that a person stated."""

    text: str
    """The sentence, with dates made absolute where that is certain."""
    kind: Kind
    name: str
    """A slug of the subject."""
    description: str
    sources: tuple[str, ...]
    """Ids of the records that state it."""
    on: date | None
    """The day that it is about."""
    negates: str = ""
    """What it denies."""


def stated_facts(words: Sequence[UserQuote], *, zone: tzinfo) -> list[StatedFact]:
    """Return the facts that these messages state, in their order, each once."""
    facts: list[StatedFact] = []
    for message in words:
        for text, kind in _facts(message.text):
            _add(facts, _made(text, kind, message, zone))
    return facts


def _facts(message: str) -> Iterator[tuple[str, Kind]]:
    sentences = statements(message)
    if not sentences:
        return
    phrases = chinese() if _is_chinese(message) else english()
    plain = blanked(message)
    if phrases.reply.search(plain):
        return
    is_prompt = bool(phrases.prompt.search(plain))
    is_code = "```" in message or bool(phrases.machine.search(message))
    rules = [one for one in phrases.rules if not (is_code and one.is_event)]
    is_listing = False
    for sentence in sentences:
        asked = phrases.remember.match(sentence.text)
        if asked is not None and not sentence.is_item:
            fact = asked["fact"].strip()
            is_listing = not fact
            if fact and not is_prompt and _is_fact(fact, phrases):
                yield fact, _kind_of(fact, phrases, default="project")
        elif is_listing and sentence.is_item and not is_prompt:
            if _is_long_enough(sentence.text):
                yield sentence.text, _kind_of(sentence.text, phrases, default="user")
        elif not is_prompt:
            is_listing = False
            yield from _stated(sentence, phrases, rules)


def _is_fact(text: str, phrases: Phrases) -> bool:
    if phrases.not_a_fact.match(text) or not _is_long_enough(text):
        return False
    return not _QUESTION.search(text) and text[-1] not in ":："


def _stated(
    sentence: Sentence, phrases: Phrases, rules: Sequence[StatementRule]
) -> Iterator[tuple[str, Kind]]:
    corrected = phrases.correction.match(sentence.text)
    text = sentence.text if corrected is None else corrected["fact"]
    if corrected is None:
        text = phrases.question.sub("", text) if _QUESTION.search(text) else text
        lead = phrases.lead.match(text)
        text = text[lead.end() if lead else 0 :].strip()
    plain = blanked(text)
    if not _is_long_enough(plain) or _QUESTION.search(plain) or phrases.unsure.match(plain):
        return
    if preference := _preference(sentence.text, phrases):
        yield sentence.text, preference.kind
    elif rule := _rule_for(plain, phrases, rules):
        yield text, rule.kind
    elif corrected is not None and phrases.negated.search(plain):
        yield text, "project"


def _preference(text: str, phrases: Phrases) -> StatementRule | None:
    """Return the rule for a preference in the whole sentence: `yes, exactly` is part of one."""
    plain = blanked(text)
    if _QUESTION.search(plain):
        return None
    return next((rule for rule in phrases.rules if rule.is_wish and rule.match(plain)), None)


def _rule_for(plain: str, phrases: Phrases, rules: Sequence[StatementRule]) -> StatementRule | None:
    size = _length(plain)
    is_unclear = bool(phrases.task.search(plain)) or (
        size < MIN_CLEAR_WORDS and phrases.unclear.search(plain)
    )
    is_request = bool(phrases.request.match(plain))
    is_vague = (size < MIN_EVENT_WORDS and not _is_chinese(plain)) or not phrases.specific.search(plain)
    for rule in rules:
        if (is_unclear and not rule.is_wish) or (is_vague and rule.is_event):
            continue
        match = rule.match(plain)
        # After a request, another clause may still state a fact.
        if match and (not is_request or rule.is_wish or rule.is_hint or match.start() > 0):
            return rule
    return None


def _kind_of(fact: str, phrases: Phrases, *, default: Kind) -> Kind:
    """Return the kind of a fact that the person asked to remember: by rule, else by its subject."""
    matching = next((rule.kind for rule in phrases.rules if not rule.is_hint and rule.match(fact)), None)
    if matching is not None:
        return matching
    if _ADDRESS.search(fact):
        return "reference"
    if _IMPERATIVE.match(fact):
        return "feedback"
    return "user" if _FIRST_PERSON.search(fact) else default


def _made(text: str, kind: Kind, message: UserQuote, zone: tzinfo) -> StatedFact:
    resolved = one_line(resolve_dates(text, message.at, zone))
    negated = (chinese() if _is_chinese(text) else english()).negated.search(text)
    days = full_dates(resolved)
    return StatedFact(
        text=resolved,
        kind=kind,
        name=_name(resolved),
        description=clipped(resolved, MAX_DESCRIPTION_CHARS),
        sources=(message.record_id,),
        on=days[0] if days else None,
        negates=next((part.strip() for part in negated.groups() if part), "") if negated else "",
    )


def _add(facts: list[StatedFact], new: StatedFact) -> None:
    """Add a fact; one that was stated before is replaced by the newer text."""
    for index, old in enumerate(facts):
        if _is_same(old.text, new.text):
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


def _name(text: str) -> str:
    """Return a file name from the subject, without dates: another day is not another subject."""
    text = _DAY.sub(" ", text)
    if _is_chinese(text):
        return "".join(_HAN_NAME.findall(text))[:HAN_NAME_CHARS] or "fact"
    terms = [word.replace("'", "").replace("’", "") for word in _WORD.findall(text.lower())]
    telling = [word for word in terms if word not in _EMPTY_WORDS] or terms
    return "-".join(telling[:NAME_WORDS])[:NAME_CHARS].strip("-") or "fact"


def _is_long_enough(text: str) -> bool:
    return _length(text) >= MIN_WORDS or len(_HAN.findall(text)) >= MIN_HAN


def _length(text: str) -> int:
    """Return the length in words."""
    han = len(_HAN.findall(text))
    return han // 2 + len(_WORD.findall(_HAN.sub(" ", text) if han else text))


def _is_chinese(text: str) -> bool:
    """Whether most of a text is in Chinese characters; text with kana is Japanese."""
    return not _KANA.search(text) and len(_HAN.findall(text)) > len(_WORD.findall(_HAN.sub(" ", text)))


_HAN = re.compile(r"[\u4e00-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN_NAME = re.compile(r"[\u4e00-\u9fffA-Za-z0-9]+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_TERM = re.compile(r"[\u4e00-\u9fff]|[^\W_]+")
_QUESTION = re.compile(r"[?？][\"'”’)」]*\s*$|吗[。.!！]*$")
_ADDRESS = re.compile(r"https?://\S|#[a-z][\w-]+")
_IMPERATIVE = re.compile(r"^(?:to|always|never|don['’]t|do not|use|不要|别|总是|用|要)\b", re.IGNORECASE)
_FIRST_PERSON = re.compile(r"\b(?:i|i['’]m|my|me|we|our)\b|我", re.IGNORECASE)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}|\d{4}年(?:\d{1,2}月)?(?:\d{1,2}日)?")
_EMPTY_WORDS = frozenset(
    """
    a an the i i'm im ive i've am is are was were be been being my me we our us it its that this these those
    and or but so to of in on at for with from by as also just actually really recently have has had do did
    which who some very about into than then there them they he she his her you your
    """.split()
)


@dataclass(frozen=True, slots=True)
class StatementRule:
    """A pattern of statements that are kept, and the kind of memory they become."""

    kind: Kind
    phrase: re.Pattern[str]
    needs: re.Pattern[str] | None = None
    """What the statement must contain, too."""
    is_wish: bool = False
    """A preference about how to work: it may look like a request."""
    is_event: bool = False
    """Something that happened: not kept from messages about code and errors."""
    is_hint: bool = False
    """A fact that is mentioned in a statement about something else."""

    def match(self, statement: str) -> re.Match[str] | None:
        """Return the match of the phrase, if the statement has all that it needs."""
        match = self.phrase.search(statement)
        if match and self.needs is not None and not self.needs.search(statement):
            return None
        return match


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """The patterns of one language."""

    rules: tuple[StatementRule, ...]
    remember: re.Pattern[str]
    """The person asks to remember something."""
    not_a_fact: re.Pattern[str]
    """What follows `remember` when it is not such a request."""
    lead: re.Pattern[str]
    """Introductory words before a statement."""
    unsure: re.Pattern[str]
    """A question, condition or guess."""
    task: re.Pattern[str]
    """About the current task."""
    request: re.Pattern[str]
    """What the person wants now."""
    prompt: re.Pattern[str]
    """The message is a role play or about a text: its first person may not be the user."""
    unclear: re.Pattern[str]
    """Not understandable without earlier messages."""
    specific: re.Pattern[str]
    """A name, number, title, date or relative: an event without any of these says too little."""
    machine: re.Pattern[str]
    """The message is about code or errors: events in it are state of the task (M13)."""
    reply: re.Pattern[str]
    """Text of an assistant."""
    question: re.Pattern[str]
    """A question at the end of a statement."""
    correction: re.Pattern[str]
    negated: re.Pattern[str]
    """What a statement denies."""


@cache
def english() -> Phrases:
    return _read("english")


@cache
def chinese() -> Phrases:
    return _read("chinese")


def _read(name: str) -> Phrases:
    text = files("nacre.layers.l5_extract").joinpath("data", f"{name}.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    parts = {key: _alternatives(words) for key, words in table["words"].items()}
    for key, part in table["parts"].items():
        parts[key] = _filled(part, parts)
    patterns = {key: _compiled(pattern, parts) for key, pattern in table["patterns"].items()}
    return Phrases(rules=tuple(_rule(one, parts) for one in table["rules"]), **patterns)


def _rule(row: Mapping[str, Any], parts: Mapping[str, str]) -> StatementRule:
    return StatementRule(
        kind=row["kind"],
        phrase=_compiled(row["phrase"], parts),
        needs=_compiled(row["needs"], parts) if "needs" in row else None,
        is_wish=row.get("is_wish", False),
        is_event=row.get("is_event", False),
        is_hint=row.get("is_hint", False),
    )


def _compiled(pattern: str, parts: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile(_filled(pattern, parts), re.IGNORECASE)


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    joined = "".join(line.removeprefix("  ") for line in pattern.splitlines())
    return re.sub(r"<<(\w+)>>", lambda match: parts[match[1]], joined)


def _alternatives(words: str) -> str:
    """Return a pattern for one of the words, the longest first, so that none hides another."""
    ranked = sorted(set(words.split()), key=lambda word: (-len(word), word))
    return "(?:" + "|".join(re.escape(word.replace("_", " ")) for word in ranked) + ")"


MAX_MESSAGE_CHARS = 1_500
"""A longer message contains a document, whose first person may not be the user."""
MAX_SENTENCE_CHARS = 600
"""A longer sentence does not state one fact."""
MAX_ITEMS = 8
"""A message with more list items is a document."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a message."""

    text: str
    is_item: bool = False
    """Whether it is an item of a list."""


def statements(message: str) -> list[Sentence]:
    """Return the sentences of a message; none if it is mostly quoted or pasted text."""
    plain = _FENCE.sub("\n\n", message.replace("\r\n", "\n")).strip()
    if len(plain) > MAX_MESSAGE_CHARS or _is_pasted(plain):
        return []
    return [one for one in _sentences(plain) if 0 < len(one.text) <= MAX_SENTENCE_CHARS]


def blanked(text: str) -> str:
    """Return the text with everything in quotation marks masked, at the same length."""
    return _QUOTED.sub(lambda match: match[0][0] + "\x00" * (len(match[0]) - 2) + match[0][-1], text)


def _is_pasted(text: str) -> bool:
    lines = text.splitlines()
    speakers = {match[1].lower() for line in lines if (match := _SPEAKER.match(line))}
    items = sum(1 for line in lines if _ITEM.match(line))
    return len(speakers) > 1 or items > MAX_ITEMS or bool(_LETTER.search(text))


def _sentences(text: str) -> Iterator[Sentence]:
    for line in text.splitlines():
        if not line.strip() or _QUOTE.match(line) or _CODE.match(line) or _SPEAKER.match(line):
            continue
        item = _ITEM.match(line)
        body = line[item.end() :] if item else line
        for start, end in _spans(body):
            yield Sentence(body[start:end].strip(), is_item=item is not None)


def _spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence of a line; a full stop inside quotation marks is ignored."""
    masked = blanked(line)
    start = 0
    for match in _STOP.finditer(masked):
        if _ABBREVIATION.search(masked[start : match.start() + 1]):
            continue
        yield start, match.end()
        start = match.end()
    yield start, len(line)


_FENCE = re.compile(r"^\s*(```|~~~).*?(?:^\s*\1\s*$|\Z)", re.MULTILINE | re.DOTALL)
_QUOTE = re.compile(r"^\s*(?:>|\|)")
_CODE = re.compile(
    r"^(?: {4}|\t)\S|^\s*[{}<$#]|.*[{};]\s*$|^\s*(?:import|from \S+ import|def|class|SELECT)\b"
)
_ITEM = re.compile(r"^\s*(?:[-*•+]|\d{1,2}[.)、])\s+")
_SPEAKER = re.compile(
    r"^\s*(?:\*\*)?([A-Z][\w.-]*(?: [A-Z][\w.-]*)?"
    r"|user|assistant|human|ai|我|你|他|她|用户|助手)(?:\*\*)?\s*[:：]\s*\S"
)
"""A name and a colon: a line of a dialogue or a form."""
_LETTER = re.compile(
    r"^\s*(?:dear|hi|hello|hey) [\w .]{1,40},\s*$"
    r"|^\s*(?:best|kind|warm)?\s*regards,?\s*$|^\s*sincerely,?|^\s*(?:subject|from|to|sent):\s",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTED = re.compile(r"\"[^\"\n]{2,}\"|“[^”\n]+”|「[^」\n]+」|『[^』\n]+』|`[^`\n]+`")
_STOP = re.compile(r"(?:[.!?]+[\"”')\]]*(?=\s|$)|…+(?=\s|$)|[。！？；!?]+[”」』）]*(?=[^\x00-\x7f]|\s|$))\s*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|sr|jr|vs|etc|e\.g|i\.e|eg|ie|approx|no|vol|fig|inc|ltd|co|dept|a\.m|p\.m|u\.s|u\.k)|\b[A-Z])\.$",
    re.IGNORECASE,
)
