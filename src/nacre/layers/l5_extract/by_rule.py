"""Facts of lasting worth found without a model, in English and Chinese: conservative rules (E10).

Every text is the person's own sentence, word for word but for its dates. What is asked, supposed, guessed,
quoted, pasted or wanted for the task at hand is left out.
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
"""A shorter statement says nothing by itself; two characters of Chinese count as a word."""
MIN_HAN = 4
MIN_EVENT_WORDS = 7
"""What happened, told in fewer words, is about something that was said before."""
NAME_WORDS = 6
NAME_CHARS = 60
"""As long as a file's name may be."""
HAN_NAME_CHARS = 12
MIN_CLEAR_WORDS = 22
"""A longer statement mostly says itself what its pronouns stand for."""
SAME = 0.8
"""Above this share of words in common, and with the same numbers, two statements are one."""


@dataclass(frozen=True, slots=True)
class Found:
    """One fact that a person stated."""

    text: str
    """Their sentence, with its dates made absolute where that is certain."""
    kind: Kind
    name: str
    """A slug of what it is about."""
    description: str
    sources: tuple[str, ...]
    """The records it was said in."""
    on: date | None
    """The day it speaks of."""
    negates: str = ""
    """What it says is not so, or no longer."""


def found(words: Sequence[UserQuote], *, zone: tzinfo) -> list[Found]:
    """What these messages state that is worth keeping, in their order, each fact once."""
    kept: list[Found] = []
    for message in words:
        for text, kind in _facts(message.text):
            _add(kept, _made(text, kind, message, zone))
    return kept


def _facts(message: str) -> Iterator[tuple[str, Kind]]:
    sentences = statements(message)
    if not sentences:
        return
    phrases = chinese() if _is_chinese(message) else english()
    plain = blanked(message)
    if phrases.reply.search(plain):
        return
    is_prompt = bool(phrases.prompt.search(plain))
    rules = (
        [one for one in phrases.rules if not one.is_event] if _is_code(message, phrases) else phrases.rules
    )
    is_listing = False
    for sentence in sentences:
        told = phrases.remember.match(sentence.text)
        if told is not None and not sentence.is_item:
            is_listing = not told["fact"].strip()
            fact = None if is_listing or is_prompt else _remembered(told, phrases)
            if fact is not None:
                yield fact
        elif is_listing and sentence.is_item and not is_prompt:
            if _says_something(sentence.text):
                yield sentence.text, _kind_of(sentence.text, phrases, default="user")
        elif not is_prompt:
            is_listing = False
            yield from _stated(sentence, phrases, rules)


def _is_code(message: str, phrases: Phrases) -> bool:
    return "```" in message or bool(phrases.machine.search(message))


def _remembered(told: re.Match[str], phrases: Phrases) -> tuple[str, Kind] | None:
    fact = told["fact"].strip()
    if phrases.not_a_fact.match(fact) or not _says_something(fact) or _ASKS.search(fact) or fact[-1] in ":：":
        return None
    return fact, _kind_of(fact, phrases, default="project")


def _stated(sentence: Sentence, phrases: Phrases, rules: Sequence[Rule]) -> Iterator[tuple[str, Kind]]:
    corrected = phrases.correction.match(sentence.text)
    text = sentence.text if corrected is None else corrected["fact"]
    if corrected is None:
        text = phrases.question.sub("", text) if _ASKS.search(text) else text
        text = text[_lead_end(text, phrases) :].strip()
    plain = blanked(text)
    if not _says_something(plain) or _ASKS.search(plain) or phrases.unsure.match(plain):
        return
    if confirmed := _wish(sentence.text, phrases):
        yield sentence.text, confirmed.kind
    elif rule := _rule_for(plain, phrases, rules):
        yield text, rule.kind
    elif corrected is not None and phrases.negated.search(plain):
        yield text, "project"


def _wish(text: str, phrases: Phrases) -> Rule | None:
    """A wish in the sentence as it stands: `yes, exactly` belongs to one."""
    plain = blanked(text)
    if _ASKS.search(plain):
        return None
    return next((rule for rule in phrases.rules if rule.is_wish and rule.match(plain)), None)


def _rule_for(plain: str, phrases: Phrases, rules: Sequence[Rule]) -> Rule | None:
    size = _length(plain)
    is_dark = bool(phrases.task.search(plain)) or (size < MIN_CLEAR_WORDS and phrases.unclear.search(plain))
    is_request = bool(phrases.request.match(plain))
    is_thin = (size < MIN_EVENT_WORDS and not _is_chinese(plain)) or not phrases.specific.search(plain)
    for rule in rules:
        if (is_dark and not rule.is_wish) or (is_thin and rule.is_event):
            continue
        match = rule.match(plain)
        # Behind what the person wants now, another clause may still state something.
        if match and (not is_request or rule.is_wish or rule.is_hint or match.start() > 0):
            return rule
    return None


def _kind_of(fact: str, phrases: Phrases, *, default: Kind) -> Kind:
    """Of what a person wants to be remembered: by the rules, else by who it is about."""
    matching = next((rule.kind for rule in phrases.rules if not rule.is_hint and rule.match(fact)), None)
    if matching is not None:
        return matching
    if _ADDRESS.search(fact):
        return "reference"
    if _IMPERATIVE.match(fact):
        return "feedback"
    return "user" if _FIRST_PERSON.search(fact) else default


def _lead_end(text: str, phrases: Phrases) -> int:
    lead = phrases.lead.match(text)
    return lead.end() if lead else 0


def _made(text: str, kind: Kind, message: UserQuote, zone: tzinfo) -> Found:
    resolved = one_line(resolve_dates(text, message.at, zone))
    negated = (chinese() if _is_chinese(text) else english()).negated.search(text)
    days = full_dates(resolved)
    return Found(
        text=resolved,
        kind=kind,
        name=_name(resolved),
        description=clipped(resolved, MAX_DESCRIPTION_CHARS),
        sources=(message.record_id,),
        on=days[0] if days else None,
        negates=next((part.strip() for part in negated.groups() if part), "") if negated else "",
    )


def _add(kept: list[Found], new: Found) -> None:
    """A fact that was said before takes its place, in its later words."""
    for place, old in enumerate(kept):
        if _is_same(old.text, new.text):
            sources = tuple(dict.fromkeys((*old.sources, *new.sources)))
            kept[place] = replace(new, sources=sources)
            return
    kept.append(new)


def _is_same(one: str, other: str) -> bool:
    mine = set(_TERM.findall(one.casefold()))
    theirs = set(_TERM.findall(other.casefold()))
    if {term for term in mine if term.isdigit()} != {term for term in theirs if term.isdigit()}:
        return False
    return bool(mine | theirs) and len(mine & theirs) / len(mine | theirs) >= SAME


def _name(text: str) -> str:
    """Of what it is about, without its dates: a later day is no other subject."""
    text = _DAY.sub(" ", text)
    if _is_chinese(text):
        return "".join(_HAN_NAME.findall(text))[:HAN_NAME_CHARS] or "fact"
    terms = [word.replace("'", "").replace("’", "") for word in _WORD.findall(text.lower())]
    telling = [word for word in terms if word not in _EMPTY_WORDS] or terms
    return "-".join(telling[:NAME_WORDS])[:NAME_CHARS].strip("-") or "fact"


def _says_something(text: str) -> bool:
    return _length(text) >= MIN_WORDS or len(_HAN.findall(text)) >= MIN_HAN


def _length(text: str) -> int:
    """In words."""
    han = len(_HAN.findall(text))
    return han // 2 + len(_WORD.findall(_HAN.sub(" ", text) if han else text))


def _is_chinese(text: str) -> bool:
    """More of it is written in Chinese characters than in words of letters; kana is Japanese."""
    return not _KANA.search(text) and len(_HAN.findall(text)) > len(_WORD.findall(_HAN.sub(" ", text)))


_HAN = re.compile(r"[\u4e00-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN_NAME = re.compile(r"[\u4e00-\u9fffA-Za-z0-9]+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_TERM = re.compile(r"[\u4e00-\u9fff]|[^\W_]+")
_ASKS = re.compile(r"[?？][\"'”’)」]*\s*$|吗[。.!！]*$")
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
class Rule:
    """What a statement looks like that is worth keeping, and of which kind it is."""

    kind: Kind
    phrase: re.Pattern[str]
    needs: re.Pattern[str] | None = None
    """What else must stand in the statement."""
    is_wish: bool = False
    """About how to work: it may use the words of a request."""
    is_event: bool = False
    """Something that happened or is going on: not kept from talk about code and errors."""
    is_hint: bool = False
    """A fact said in passing, in a statement about something else."""

    def match(self, statement: str) -> re.Match[str] | None:
        """Where the phrase stands, if all it needs is there."""
        found = self.phrase.search(statement)
        if found and self.needs is not None and not self.needs.search(statement):
            return None
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """All that is known of one language."""

    rules: tuple[Rule, ...]
    remember: re.Pattern[str]
    """The person says that something is to be kept, and what."""
    not_a_fact: re.Pattern[str]
    """What stands behind `remember` when nothing is to be kept."""
    lead: re.Pattern[str]
    """Manners and turns before a statement."""
    unsure: re.Pattern[str]
    """A question, a condition, or a guess."""
    task: re.Pattern[str]
    """About the task at hand."""
    request: re.Pattern[str]
    """What the person wants now."""
    prompt: re.Pattern[str]
    """The message is a game or about a text: nobody knows who speaks in it."""
    unclear: re.Pattern[str]
    """Nobody could understand it who does not know what was said before."""
    specific: re.Pattern[str]
    """A name, a number, a title, a date, one of the family: without any of these an event says too little."""
    machine: re.Pattern[str]
    """The message is about code or its errors: what happened there is the task's state (M13)."""
    reply: re.Pattern[str]
    """The words of an assistant, pasted or played."""
    question: re.Pattern[str]
    """A question at the end of a statement."""
    correction: re.Pattern[str]
    negated: re.Pattern[str]
    """What a statement says is not so, or no longer."""


@cache
def english() -> Phrases:
    return _read("english")


@cache
def chinese() -> Phrases:
    return _read("chinese")


def _read(name: str) -> Phrases:
    text = files("nacre.layers.l5_extract").joinpath("data", f"{name}.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    parts = {key: _either(words) for key, words in table["words"].items()}
    for key, part in table["parts"].items():
        parts[key] = _filled(part, parts)
    patterns = {key: _compiled(pattern, parts) for key, pattern in table["patterns"].items()}
    return Phrases(rules=tuple(_rule(one, parts) for one in table["rules"]), **patterns)


def _rule(row: Mapping[str, Any], parts: Mapping[str, str]) -> Rule:
    return Rule(
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


def _either(words: str) -> str:
    """One of the words; the longest first, so that none hides another."""
    ranked = sorted(set(words.split()), key=lambda word: (-len(word), word))
    return "(?:" + "|".join(re.escape(word.replace("_", " ")) for word in ranked) + ")"


MAX_MESSAGE_CHARS = 1_500
"""A longer message holds a document: whose first person it speaks in, no rule can tell."""
MAX_SENTENCE_CHARS = 600
"""A longer sentence is no statement of one fact."""
MAX_ITEMS = 8
"""A message with more list items is a document."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One statement, word for word, and where it stands."""

    text: str
    is_item: bool = False
    """Of a list."""


def statements(message: str) -> list[Sentence]:
    """What the person states, in order; nothing when the message is mostly somebody else's text."""
    plain = _FENCE.sub("\n\n", message.replace("\r\n", "\n")).strip()
    if len(plain) > MAX_MESSAGE_CHARS or _is_pasted(plain):
        return []
    return [one for one in _sentences(plain) if 0 < len(one.text) <= MAX_SENTENCE_CHARS]


def blanked(text: str) -> str:
    """The text with everything between quotation marks made unreadable, in the same length."""
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
    """Where each sentence of a line begins and ends; a stop inside quotation marks ends none."""
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
"""A name and a colon: a line of a dialogue, or of a form."""
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
