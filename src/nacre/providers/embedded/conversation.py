"""Read a request's messages for the embedded provider: the user's own words, tool calls and results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nacre.messages.blocks import Block, JsonObject, Text, ToolCall, ToolResult
from nacre.messages.wire import parse_content
from nacre.providers.embedded.parse import parse_sentence, split_sentences
from nacre.providers.embedded.phrases import Intent

LETTER = "teammate-message"
"""The tag around a message of another agent; it names the sender."""
INJECTED_TAGS = (
    *"system-reminder summary session-notes command-name command-message command-args".split(),
    *("local-command-stdout", LETTER),
)
"""Text in a user message that the user did not write."""
_MEMORY = re.compile(
    r'<memory path="([^"\n]*)"(?: written="([^"\n]*)")?[^>\n]*>\n(.*?)\n</memory>', re.DOTALL
)
_CAUTION = re.compile(r"Written [^:\n]*: this is how things looked on that day[^\n]*\n+")
"""What a model is told about an old memory before its text; a person needs only the age."""
_DAYS = re.compile(r"(\d+) days ago")
MAX_QUOTES = 3
"""More would hide the relevant one."""
MIN_SHARE = 0.5
"""A sentence is about the subject when it has at least half of the subject's words."""
MIN_STEM = 4
"""Shorter words are compared as they are."""


@dataclass(frozen=True, slots=True)
class RecalledText:
    """A memory that is attached to a message."""

    file: str
    text: str
    """Without the caution for a model."""
    age_days: int
    """0 for one of today or yesterday."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The parts of a request's messages that an answer needs."""

    words: str = ""
    """The user's new message; empty in a round that only has tool results."""
    earlier: tuple[str, ...] = ()
    """The user's earlier messages."""
    answered: tuple[tuple[ToolCall, ToolResult], ...] = ()
    """The calls of the last reply, each with its result."""
    recalled: tuple[RecalledText, ...] = ()
    """The memories attached to the message."""
    recalled_before: tuple[RecalledText, ...] = ()
    """Those attached to earlier messages, which are not attached again."""
    results: Mapping[str, str] = field(default_factory=dict)
    """The text of every tool result, by the id of its call."""


def read_conversation(messages: Sequence[JsonObject]) -> Conversation:
    """Return the user's words and the results that the next reply must report."""
    said: list[str] = []
    calls: dict[str, ToolCall] = {}
    results: dict[str, str] = {}
    recalled: list[RecalledText] = []
    before: list[RecalledText] = []
    last: tuple[Block, ...] = ()
    for message in messages:
        blocks = parse_content(message.get("content"))
        if message.get("role") == "user":
            last = blocks
            results |= {block.call_id: block.text for block in blocks if isinstance(block, ToolResult)}
            said.append(_own_words(blocks))
            before += recalled
            recalled = _attached(blocks)
        else:
            last = ()
            calls |= {block.id: block for block in blocks if isinstance(block, ToolCall)}
    words = said.pop() if messages and messages[-1].get("role") == "user" else ""
    answered = tuple(
        (calls.get(block.call_id, ToolCall(block.call_id, "tool", {})), block)
        for block in last
        if isinstance(block, ToolResult)
    )
    if not last:
        before += recalled
        recalled = []
    earlier = tuple(text for text in said if text)
    return Conversation(words, earlier, answered, tuple(recalled), tuple(before), results)


def _attached(blocks: Sequence[Block]) -> list[RecalledText]:
    """Return the memories in injected text: a `<memory>` tag that a person typed is ignored."""
    return [
        RecalledText(
            file=path.rpartition("/")[2],
            text=_CAUTION.sub("", text.strip(), count=1),
            age_days=int(days[1]) if (days := _DAYS.fullmatch(age)) else 0,
        )
        for block in blocks
        if isinstance(block, Text) and block.text.startswith("<system-reminder>")
        for path, age, text in _MEMORY.findall(block.text)
    ]


def find_recalled(memories: Sequence[RecalledText], query: str) -> list[RecalledText]:
    """Return the memories of earlier messages that have the words of a question, best first."""
    wanted = _terms(query)
    shares = [len(wanted & _terms(one.text)) / len(wanted) if wanted else 0.0 for one in memories]
    order = sorted(range(len(shares)), key=lambda place: -shares[place])
    return [memories[place] for place in order if shares[place] >= MIN_SHARE][:MAX_QUOTES]


def _own_words(blocks: Sequence[Block]) -> str:
    """Return the text that the user wrote, without injected text around it."""
    texts: list[str] = []
    for block in blocks:
        if not isinstance(block, Text):
            continue
        text = block.text
        # A regular expression would search the end of every opening again: minutes on a long paste.
        for tag in INJECTED_TAGS:
            pieces: list[str] = []
            start = 0
            opens = f"<{tag} from=" if tag == LETTER else f"<{tag}>"
            while (opening := text.find(opens, start)) >= 0 and (end := text.find(f"</{tag}>", opening)) >= 0:
                pieces.append(text[start:opening])
                start = end + len(f"</{tag}>")
            text = "".join(pieces) + text[start:]
        texts.append(text.strip())
    return "\n".join(text for text in texts if text)


def find_earlier(messages: Sequence[str], query: str) -> list[tuple[int, str]]:
    """Return the best and latest sentences about a subject in their order, each with its message's number."""
    wanted = _terms(query)
    about_me = query.casefold() in _ME
    scored: list[tuple[float, int, int, str]] = []
    for number, text in enumerate(messages, start=1):
        for sentence in split_sentences(text):
            if about_me:
                share = float(bool(_I_SAY.search(sentence)))
            else:
                share = len(wanted & _terms(sentence)) / len(wanted) if wanted else 0.0
            if share < MIN_SHARE:
                continue
            parsed = parse_sentence(sentence)
            if parsed is None or parsed.intent not in _QUESTIONS:
                scored.append((share, len(scored), number, sentence))
    best = sorted(scored, reverse=True)[:MAX_QUOTES]
    return [(number, sentence) for _, _, number, sentence in sorted(best, key=lambda item: item[1])]


def _terms(text: str) -> frozenset[str]:
    """Return the words of a text for comparison, without a suffix; Chinese as pairs of characters."""
    lowered = text.casefold()
    words = [word for word in _LETTERS.findall(lowered) if word not in _LITTLE_WORDS]
    stems = [stem if len(stem := _SUFFIX.sub("", word)) >= MIN_STEM else word for word in words]
    runs = _HAN_RUN.findall(lowered)
    return frozenset(stems).union(
        run[index : index + 2] for run in runs for index in range(max(len(run) - 1, 1))
    )


_QUESTIONS = frozenset({Intent.RECALL, Intent.WHEN, Intent.FORGET})
_ME = frozenset({"me", "myself", "us", "我", "我自己", "我们"})
_I_SAY = re.compile(r"\b(?:i|i'm|my|we|our|me)\b|我", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_\u3400-\u9fff]+|\d[\d.]*")
_HAN_RUN = re.compile(r"[\u3400-\u9fff]+")
_SUFFIX = re.compile(r"(?:ing|ed|es|s)$")
_LITTLE_WORDS = frozenset(
    "a an and are as at be by did do does for from had has have how i in is it its me my of on or our s"
    " so t that the this to us was we were what when where which who will with you your".split()
)
_POINTER = re.compile(
    r"<persisted-output>\n(?P<about>[^\n]*)\n(?P<path>[^\n]+)\n.*?\n\n(?P<preview>.*)\n\[\.\.\.\]\n</persisted-output>\s*",
    re.DOTALL,
)
_REFERENCE = re.compile(
    r"\[(?:Unchanged: the text of|The same [\d,]+ characters as) .*\((?P<call>[^()\s]+)\)"
)


def as_shown(text: str, earlier: Mapping[str, str]) -> tuple[str, str | None, bool]:
    """Return the text of a result to show, the file with more of it, and whether that file is incomplete.

    `earlier` holds the texts of earlier results by the id of their call.
    """
    if pointer := _POINTER.fullmatch(text):
        return pointer["preview"], pointer["path"], "it is not complete:" in pointer["about"]
    reference = _REFERENCE.match(text)
    return (earlier.get(reference["call"], text) if reference else text), None, False
