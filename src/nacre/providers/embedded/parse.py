"""Parse a user's message into requests with the phrase tables: deterministic, and without guesses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from nacre.providers.embedded.phrases import CHINESE, ENGLISH, Grammar, Intent, Language, PhraseRule

MAX_SENTENCE_CHARS = 1_000
"""A longer sentence is pasted text, not a request; this also bounds the time of a pattern match."""
MAX_SENTENCES = 12
"""A message with more is a document: only its first sentence can be a request."""
MAX_REQUESTS = 4
"""More calls than this in one reply would be a list read as commands."""

SMALL_TALK = frozenset({Intent.HELLO, Intent.THANKS, Intent.BYE, Intent.HELP, Intent.NEVER_MIND, Intent.RUN})
"""Answered with text, without a tool."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """One request of the user, in the user's own words."""

    intent: Intent
    language: Language
    text: str = ""
    """The fact to remember."""
    query: str = ""
    """The subject to search for."""
    path: str = ""


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """The requests of one message."""

    language: Language
    requests: tuple[ParsedRequest, ...] = ()
    has_rest: bool = False
    """Part of the message matched no phrase."""


def parse_message(message: str) -> ParsedMessage:
    """Return the requests in a message; none where no phrase clearly matches."""
    message = message.strip()
    head = message[:MAX_SENTENCE_CHARS]
    for grammar in (ENGLISH, CHINESE):
        body = message[_end_of(grammar.lead, head) :]
        headed = _match(grammar.headed, body, grammar.language, keeps_end=True)
        if headed is not None:
            return ParsedMessage(headed.language, (headed,))
    plain = _FENCE.sub("\n", message)
    sentences = split_sentences(plain)
    found, has_rest = _parse_sentences(sentences if len(sentences) <= MAX_SENTENCES else sentences[:1])
    actions = tuple(request for request in found if request.intent not in SMALL_TALK)[:MAX_REQUESTS]
    if actions:
        return ParsedMessage(actions[0].language, actions, has_rest or plain != message)
    if found and not has_rest:
        return ParsedMessage(found[-1].language, (found[-1],))
    # Kana mean Japanese, which is answered in English.
    han = 0 if _KANA.search(message) else len(_HAN.findall(message))
    language: Language = "zh" if han and han >= len(_WORD.findall(message)) else "en"
    return ParsedMessage(language, (), bool(message))


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences; an abbreviation or a version number does not end one."""
    return [part for part in (piece.strip() for piece in _BREAK.split(text)) if part]


def parse_sentence(sentence: str) -> ParsedRequest | None:
    """Return the request of one sentence, or None."""
    if len(sentence) > MAX_SENTENCE_CHARS:
        return None
    grammars = (CHINESE, ENGLISH) if _HAN.search(sentence) else (ENGLISH, CHINESE)
    for grammar in grammars:
        for body in _bodies(sentence, grammar):
            request = _match(grammar.rules, body, grammar.language)
            if request is not None:
                return request
    return None


def _parse_sentences(sentences: list[str]) -> tuple[list[ParsedRequest], bool]:
    """Return the requests, and whether a sentence without one remains."""
    found: list[ParsedRequest] = []
    rest: list[str] = []
    for sentence in sentences:
        request = parse_sentence(sentence)
        if request is None and rest:
            # "No. My name is Ana." is one correction in two sentences.
            joined = parse_sentence(f"{rest[-1]} {sentence}")
            if joined is not None and joined.intent is Intent.CORRECT:
                request = joined
                rest.pop()
        if request is None:
            rest.append(sentence)
            continue
        points_back = request.intent is Intent.REMEMBER and not request.text
        if points_back and rest and not _ENDS_ASKING.search(rest[-1]):
            # "My name is Ana. Please remember that."
            request = replace(request, text=rest.pop().rstrip(_ENDS))
        found.append(request)
    return found, bool(rest)


def _bodies(sentence: str, grammar: Grammar) -> Iterator[str]:
    """Yield the sentence without its polite parts, from the least to the most removed."""
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
        if rule.unless and _compiled(rule.unless).search(spelled):
            continue
        found = _compiled(rule.pattern).fullmatch(bare)
        if found is None:
            continue
        words = {
            name: body[slice(*found.span(name))].strip() for name in found.re.groupindex if found.group(name)
        }
        text = words.get("text", "")
        query = words.get("query", "")
        if not query and rule.intent is Intent.CORRECT:
            subject = _SUBJECT.match(text)
            query = (subject["subject"] or subject["subject_zh"]) if subject else text
        if not query and rule.intent in {Intent.RECALL, Intent.WHEN}:
            query = _SELF[language]
        is_of_files = rule.intent in {Intent.READ, Intent.LIST, Intent.SEARCH}
        query = _unquote(query) if is_of_files else _clean_query(query)
        path = _unquote(words.get("path", ""))
        return ParsedRequest(rule.intent, language, text=text, query=query, path=path)
    return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # On first use: compiling all tables takes longer than the rest of the program's start.
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _clean_query(query: str) -> str:
    """Return the subject without articles, pronouns and punctuation around it."""
    before = ""
    while query and query != before:
        before = query
        query = _QUERY_EDGE.sub("", query).strip(_EDGES)
    return query or before


def _unquote(words: str) -> str:
    return words.strip().strip("`'\"“”「」") or words


_SELF: dict[Language, str] = {"en": "me", "zh": "我"}
"""The subject of a question that names none: "what do you know?", "who am I?"."""
_FENCE = re.compile(r"```.*?```", re.DOTALL)
_HAN = re.compile(r"[\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_WORD = re.compile(r"[A-Za-z]+")
_BREAK = re.compile(
    r"(?<=[。！？])\s*|(?<=[!?])\s+|\n"
    r"|(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\betc\.)(?<=\.)\s+(?=[A-Z\u3400-\u9fff\"“'`])"
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
