"""What a user's message asks of the embedded provider: pure, by the phrase tables, never by guessing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nacre.providers.embedded.chinese import CHINESE
from nacre.providers.embedded.english import ENGLISH
from nacre.providers.embedded.grammar import Grammar, Intent, Language, PhraseRule

MAX_SENTENCE_CHARS = 1_000
"""A longer sentence is pasted text, not a request; it also bounds the time a pattern may take."""
MAX_SENTENCES = 12
"""A message with more is a document: only its first sentence can be a request."""
MAX_MEANINGS = 4
"""More calls than this in one reply would be a list read as commands."""

SMALL_TALK = frozenset({Intent.HELLO, Intent.THANKS, Intent.BYE, Intent.HELP, Intent.NEVER_MIND, Intent.RUN})
"""Answered in words, without a tool."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """One thing the user asks for, in the user's own words."""

    intent: Intent
    language: Language
    text: str = ""
    """The fact to keep."""
    query: str = ""
    """The subject to look for."""
    path: str = ""


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """All that was understood of one message."""

    language: Language
    meanings: tuple[ParsedRequest, ...] = ()
    has_rest: bool = False
    """Some of the message was not understood."""


def parse_message(message: str) -> ParsedMessage:
    """The requests in a message; nothing where a phrase is not clearly one."""
    message = message.strip()
    headed = _match_headed(message)
    if headed is not None:
        return ParsedMessage(headed.language, (headed,))
    plain = _FENCE.sub("\n", message)
    sentences = split_sentences(plain)
    if len(sentences) > MAX_SENTENCES:
        sentences = sentences[:1]
    found, has_rest = _read_sentences(sentences)
    actions = tuple(meaning for meaning in found if meaning.intent not in SMALL_TALK)[:MAX_MEANINGS]
    if actions:
        return ParsedMessage(actions[0].language, actions, has_rest or plain != message)
    if found and not has_rest:
        return ParsedMessage(found[-1].language, (found[-1],))
    return ParsedMessage(language_of(message), (), bool(message))


def language_of(text: str) -> Language:
    """Chinese when it has more Chinese characters than words of letters; kana means Japanese, so not."""
    if _KANA.search(text):
        return "en"
    han = len(_HAN.findall(text))
    return "zh" if han and han >= len(_WORD.findall(text)) else "en"


def split_sentences(text: str) -> list[str]:
    """The sentences of a text; an abbreviation or a version number does not end one."""
    return [part for part in (piece.strip() for piece in _BREAK.split(text)) if part]


def parse_sentence(sentence: str) -> ParsedRequest | None:
    """What one sentence asks for, or None."""
    if len(sentence) > MAX_SENTENCE_CHARS:
        return None
    grammars = (CHINESE, ENGLISH) if _HAN.search(sentence) else (ENGLISH, CHINESE)
    for grammar in grammars:
        for body in _bodies(sentence, grammar):
            meaning = _match(grammar.rules, body, grammar.language)
            if meaning is not None:
                return meaning
    return None


def _match_headed(message: str) -> ParsedRequest | None:
    head = message[:MAX_SENTENCE_CHARS]
    for grammar in (ENGLISH, CHINESE):
        start = _end_of(grammar.lead, head)
        meaning = _match(grammar.headed, message[start:], grammar.language, keeps_end=True)
        if meaning is not None:
            return meaning
    return None


def _read_sentences(sentences: list[str]) -> tuple[list[ParsedRequest], bool]:
    found: list[ParsedRequest] = []
    rest: list[str] = []
    for sentence in sentences:
        meaning = parse_sentence(sentence)
        if meaning is None and rest:
            # "No. My name is Ana." is one correction in two sentences.
            joined = parse_sentence(f"{rest[-1]} {sentence}")
            if joined is not None and joined.intent is Intent.CORRECT:
                meaning = joined
                rest.pop()
        if meaning is None:
            rest.append(sentence)
            continue
        if (
            meaning.intent is Intent.REMEMBER
            and not meaning.text
            and rest
            and not _ENDS_ASKING.search(rest[-1])
        ):
            # "My name is Ana. Please remember that." points back.
            meaning = replace(meaning, text=rest.pop().rstrip(_ENDS))
        found.append(meaning)
    return found, bool(rest)


def _bodies(sentence: str, grammar: Grammar) -> Iterator[str]:
    """The sentence without what is only manners, from the least to the most taken away."""
    plain = grammar.tail.sub("", sentence) or sentence
    yield plain
    led = plain[_end_of(grammar.lead, plain) :]
    if led and led != plain:
        yield led
    polite = grammar.polite.match(led)
    if polite and led[polite.end() :]:
        yield _QUESTION_TAIL.sub("", led[polite.end() :])


def _end_of(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.match(text)
    return found.end() if found else 0


def _match(
    rules: tuple[PhraseRule, ...], body: str, language: Language, *, keeps_end: bool = False
) -> ParsedRequest | None:
    # One character for one character, so that a span in `spelled` is the same span in the user's own words.
    spelled = body.translate(_SPELLING)
    bare = spelled if keeps_end else spelled.rstrip(_ENDS)
    for rule in rules:
        found = rule.match(spelled, without_end=bare)
        if found is None:
            continue
        words = {
            name: body[slice(*found.span(name))].strip() for name in found.re.groupindex if found.group(name)
        }
        return _meaning(rule.intent, language, words)
    return None


def _meaning(intent: Intent, language: Language, words: dict[str, str]) -> ParsedRequest:
    text = words.get("text", "")
    query = words.get("query", "")
    if not query and intent is Intent.CORRECT:
        subject = _SUBJECT.match(text)
        query = (subject["subject"] or subject["subject_zh"]) if subject else text
    if not query and intent in {Intent.RECALL, Intent.WHEN}:
        query = _SELF[language]
    of_files = intent in {Intent.READ, Intent.LIST, Intent.SEARCH}
    subject_words = _unquote(query) if of_files else clean_query(query)
    return ParsedRequest(
        intent, language, text=text, query=subject_words, path=_unquote(words.get("path", ""))
    )


def clean_query(query: str) -> str:
    """The subject without the little words around it."""
    before = ""
    while query and query != before:
        before = query
        query = _QUERY_EDGE.sub("", query).strip(_EDGES)
    return query or before


def _unquote(words: str) -> str:
    return words.strip().strip("`'\"“”「」") or words


_SELF: dict[Language, str] = {"en": "me", "zh": "我"}
"""What a question without a subject is about: "what do you know?", "who am I?"."""
_FENCE = re.compile(r"```.*?```", re.DOTALL)
_HAN = re.compile(r"[\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_WORD = re.compile(r"[A-Za-z]+")
_BREAK = re.compile(
    r"(?<=[。！？])\s*|(?<=[!?])\s+|\n"
    r"|(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\betc\.)"
    r"(?<=\.)\s+(?=[A-Z\u3400-\u9fff\"“'`])"
)
_ENDS = " \t\n.!?。！？…~～"
_EDGES = ' \t\n.!?。！？…,，;；:："“”「」`'
_ENDS_ASKING = re.compile(r"[?？]\s*$|[吗呢]\s*$")
_QUESTION_TAIL = re.compile(r"\s*(?:吗|么|呢)?\s*[?？]\s*$|吗\s*$")
_SPELLING = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
_SUBJECT = re.compile(
    r"(?P<subject>[^,;]{1,60}?)(?:\s+(?:is|are|was|were)\b|'s\s)|(?P<subject_zh>[^，,；;]{1,20}?)(?:是|在"
    r"|叫)",
    re.IGNORECASE,
)
_QUERY_EDGE = re.compile(
    r"^(?:the|a|an|my|our|your|any|what|which|who|where|that|about)\s+|\s+(?:is|are|was|were|please|again"
    r"|any ?more|so far)$"
    r"|^(?:我的|我们的|我家的|那个|这个|关于|有关)(?=.)|(?<=.)(?:是什么|是谁|是哪个|的事情|的事儿|的事|的)$",
    re.IGNORECASE,
)
