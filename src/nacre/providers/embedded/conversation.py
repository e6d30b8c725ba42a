"""What the embedded provider reads off a request's messages: the user's own words, calls and results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nacre.messages.blocks import Block, JsonObject, Text, ToolCall, ToolResult
from nacre.messages.wire import parse_content
from nacre.providers.embedded.grammar import Intent
from nacre.providers.embedded.parse import parse_sentence, split_sentences

LETTER = "teammate-message"
"""The tag around another agent's words; it names the sender."""
INJECTED_TAGS = (
    "system-reminder",
    "summary",
    "session-notes",
    "command-name",
    "command-message",
    "command-args",
    "local-command-stdout",
    LETTER,
)
"""Text in a user message that the user did not write."""
_MEMORY = re.compile(r'<memory path="([^"\n]*)"[^>\n]*>\n(.*?)\n</memory>', re.DOTALL)
MAX_QUOTES = 3
"""More would bury the one that was meant."""
MIN_SHARE = 0.5
"""A sentence is about the subject when it has at least half of the subject's words."""
MIN_STEM = 4
"""Shorter words are compared as they are."""


@dataclass(frozen=True, slots=True)
class EarlierSentence:
    """A sentence the user said before."""

    number: int
    """Which of the user's messages, from 1."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request's messages, as far as an answer needs them."""

    words: str = ""
    """What the user says now; empty in a round that only brings results."""
    said: tuple[str, ...] = ()
    """What the user said before, one per message."""
    answered: tuple[tuple[ToolCall, ToolResult], ...] = ()
    """Calls of the last reply, each with its result."""
    recalled: tuple[tuple[str, str], ...] = ()
    """Memories that came with the message: each one's file and words."""
    results: Mapping[str, str] = field(default_factory=dict)
    """What tools answered, all of them, by the id of the call."""


def read_conversation(messages: Sequence[JsonObject]) -> Conversation:
    """The user's words and the results that wait for an answer."""
    said: list[str] = []
    calls: dict[str, ToolCall] = {}
    results: dict[str, str] = {}
    last: tuple[Block, ...] = ()
    for message in messages:
        blocks = parse_content(message.get("content"))
        if message.get("role") == "user":
            last = blocks
            results |= {block.call_id: block.text for block in blocks if isinstance(block, ToolResult)}
            said.append(own_words(blocks))
        else:
            last = ()
            calls |= {block.id: block for block in blocks if isinstance(block, ToolCall)}
    words = said.pop() if messages and messages[-1].get("role") == "user" else ""
    answered = tuple(
        (calls.get(block.call_id, ToolCall(block.call_id, "tool", {})), block)
        for block in last
        if isinstance(block, ToolResult)
    )
    recalled = tuple(one for block in last if isinstance(block, Text) for one in _recalled(block.text))
    return Conversation(words, tuple(text for text in said if text), answered, recalled, results)


def own_words(blocks: Sequence[Block]) -> str:
    """What the user wrote, without what was injected around it."""
    texts = (_without_injected(block.text).strip() for block in blocks if isinstance(block, Text))
    return "\n".join(text for text in texts if text)


def _recalled(text: str) -> list[tuple[str, str]]:
    """The memories in a text that was injected; one that a person typed is not believed."""
    if not text.startswith("<system-reminder>"):
        return []
    return [(path.rpartition("/")[2], words.strip()) for path, words in _MEMORY.findall(text)]


def _without_injected(text: str) -> str:
    # By hand: a pattern would look for the end of every opening again, and take minutes on a long paste.
    for tag in INJECTED_TAGS:
        kept: list[str] = []
        start = 0
        opens = f"<{tag} from=" if tag == LETTER else f"<{tag}>"
        while (opening := text.find(opens, start)) >= 0 and (end := text.find(f"</{tag}>", opening)) >= 0:
            kept.append(text[start:opening])
            start = end + len(f"</{tag}>")
        text = "".join(kept) + text[start:]
    return text


def find_earlier(said: Sequence[str], query: str) -> tuple[EarlierSentence, ...]:
    """The user's sentences about a subject, best and latest chosen, told in their order."""
    wanted = terms(query)
    about_me = query.casefold() in _ME
    scored: list[tuple[float, int, EarlierSentence]] = []
    for number, text in enumerate(said, start=1):
        for sentence in split_sentences(text):
            share = float(bool(_I_SAY.search(sentence))) if about_me else _share(wanted, sentence)
            if share >= MIN_SHARE and not _is_question(sentence):
                scored.append((share, len(scored), EarlierSentence(number, sentence)))
    best = sorted(scored, key=lambda item: item[:2], reverse=True)[:MAX_QUOTES]
    return tuple(earlier for _, _, earlier in sorted(best, key=lambda item: item[1]))


def terms(text: str) -> frozenset[str]:
    """The words of a text that can be compared; Chinese in pairs of characters."""
    lowered = text.casefold()
    words = {_stem(word) for word in _LETTERS.findall(lowered) if word not in _LITTLE_WORDS}
    pairs = {
        run[index : index + 2]
        for run in _HAN_RUN.findall(lowered)
        for index in range(max(len(run) - 1, 1))
    }  # fmt: skip
    return frozenset(words | pairs)


def _share(wanted: frozenset[str], sentence: str) -> float:
    return len(wanted & terms(sentence)) / len(wanted) if wanted else 0.0


def _stem(word: str) -> str:
    stem = _SUFFIX.sub("", word)
    return stem if len(stem) >= MIN_STEM else word


def _is_question(sentence: str) -> bool:
    meaning = parse_sentence(sentence)
    return meaning is not None and meaning.intent in {Intent.RECALL, Intent.WHEN, Intent.FORGET}


_ME = frozenset({"me", "myself", "us", "我", "我自己", "我们"})
_I_SAY = re.compile(r"\b(?:i|i'm|my|we|our|me)\b|我", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_\u3400-\u9fff]+|\d[\d.]*")
_HAN_RUN = re.compile(r"[\u3400-\u9fff]+")
_SUFFIX = re.compile(r"(?:ing|ed|es|s)$")
_LITTLE_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by did do does for from had has have how i in is it its me my of on or our s"
        " so t that the this to us was we were what when where which who will with you your",
    )
)


_POINTER = re.compile(
    r"<persisted-output>\n(?P<about>[^\n]*)\n(?P<path>[^\n]+)\n.*?\n\n(?P<preview>.*)"
    r"\n\[\.\.\.\]\n</persisted-output>\s*",
    re.DOTALL,
)
_REFERENCE = re.compile(
    r"\[(?:Unchanged: the text of|The same [\d,]+ characters as) .*\((?P<call>[^()\s]+)\)"
)


def is_cut_pointer(text: str) -> bool:
    """Whether the file that a pointer names holds only what a tool returned of its result."""
    pointer = _POINTER.fullmatch(text)
    return pointer is not None and "it is not complete:" in pointer["about"]


def as_shown(text: str, earlier: Mapping[str, str]) -> tuple[str, str | None]:
    """The words to show, and the file with more of them if these are only the first.

    `earlier` holds the texts of earlier results by the id of their call.
    """
    if pointer := _POINTER.fullmatch(text):
        return pointer["preview"], pointer["path"]
    reference = _REFERENCE.match(text)
    return (earlier.get(reference["call"], text) if reference else text), None
