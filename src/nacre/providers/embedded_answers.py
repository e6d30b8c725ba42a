"""What the embedded provider answers to a request: words, tool calls, or both; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nacre.messages.blocks import ToolCall, ToolResult
from nacre.plain import fenced
from nacre.providers.base import Request
from nacre.providers.embedded_calls import ToolShape, intent_of, plan_call, shapes, words_of
from nacre.providers.embedded_conversation import Conversation, find_earlier, read_conversation
from nacre.providers.embedded_phrases import Intent, Language
from nacre.providers.embedded_reading import SMALL_TALK, Meaning, understand
from nacre.providers.embedded_results import as_shown, is_cut_pointer
from nacre.providers.embedded_sentences import say

MAX_RESULT_CHARS = 4_000
"""A screen or two; the whole result stands in the transcript."""
MAX_RESULT_LINES = 80
"""As above, for results of many short lines."""

_FILE_TOOLS = {Intent.READ: "Read", Intent.LIST: "Glob", Intent.SEARCH: "Grep"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes into the reply."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    declines: bool = False
    """It says that it cannot do what was asked, and nothing else."""


def answer(request: Request, call_prefix: str) -> Answer:
    """Tell what the tools answered, then see to what the user says now."""
    talk = read_conversation(request.messages)
    told = _tell_results(talk)
    if told and not talk.words:
        return Answer(told)
    reply = _see_to(talk, shapes(request.tools), call_prefix)
    text = "\n\n".join(part for part in (told, reply.text) if part)
    return Answer(text, reply.calls, declines=reply.declines and not told)


def _tell_results(talk: Conversation) -> str:
    if not talk.answered:
        return ""
    asked = understand(talk.said[-1] if talk.said else "")
    told = [_tell(call, result, asked.language, talk.results) for call, result in talk.answered]
    if asked.meanings and asked.has_rest:
        told.append(say(asked.language, "rest"))
    return "\n\n".join(told)


def _tell(call: ToolCall, result: ToolResult, language: Language, earlier: Mapping[str, str]) -> str:
    intent = intent_of(call)
    topic = "other" if intent is Intent.UNKNOWN else intent.value
    outcome = "error" if result.is_error else "done"
    shown, path = as_shown(result.text, earlier)
    is_verbatim = intent in _FILE_TOOLS and not result.is_error
    quoted = _shorten(shown.lstrip("\n").rstrip(), language, is_verbatim=is_verbatim) or say(
        language, "empty"
    )
    if path:
        kept = "kept.cut" if is_cut_pointer(result.text) else "kept"
        quoted += "\n" + say(language, kept, path=path)
    return say(language, f"{topic}.{outcome}", words=words_of(call), result=quoted)


def _shorten(text: str, language: Language, *, is_verbatim: bool = False) -> str:
    lines = text.splitlines()
    kept = "\n".join(lines[:MAX_RESULT_LINES])[:MAX_RESULT_CHARS]
    shown = fenced(kept) if is_verbatim and kept else kept
    if kept == "\n".join(lines):
        return shown
    lines_left = len(lines) - len(kept.splitlines())
    return f"{shown}\n{say(language, 'cut', lines=lines_left, chars=len(text) - len(kept))}"


def _see_to(talk: Conversation, tools: tuple[ToolShape, ...], call_prefix: str) -> Answer:
    heard = understand(talk.words)
    if not heard.meanings and talk.recalled:
        told = "\n\n".join(f"{file}: {_shorten(words, heard.language)}" for file, words in talk.recalled)
        return Answer(say(heard.language, "recalled", result=told))
    if not heard.meanings:
        return Answer(say(heard.language, "unknown"), declines=True)
    calls: list[ToolCall] = []
    spoken: list[str] = []
    for meaning in heard.meanings:
        call = plan_call(meaning, tools, f"{call_prefix}{len(calls)}") if _is_complete(meaning) else None
        if call is None:
            spoken.append(_speak(meaning, talk))
        else:
            calls.append(call)
    if heard.has_rest and not calls:
        spoken.append(say(heard.language, "rest"))
    declines = not calls and all(_is_missing(meaning) for meaning in heard.meanings)
    return Answer("\n\n".join(spoken), tuple(calls), declines=declines)


def _is_complete(meaning: Meaning) -> bool:
    match meaning.intent:
        case Intent.REMEMBER | Intent.CORRECT:
            return bool(meaning.text)
        case Intent.FORGET:
            return bool(meaning.query)
        case _:
            return True


def _is_missing(meaning: Meaning) -> bool:
    """Whether only a tool could do it, given that none was called."""
    spoken = meaning.intent in SMALL_TALK or meaning.intent in {Intent.RECALL, Intent.WHEN}
    return _is_complete(meaning) and not spoken


def _speak(meaning: Meaning, talk: Conversation) -> str:
    """What is said where no tool is called: small talk, a question back, or that the tool is missing."""
    language, intent = meaning.language, meaning.intent
    if intent in SMALL_TALK:
        return say(language, intent.value)
    if not _is_complete(meaning):
        return say(language, f"{intent.value}.what")
    if not _is_missing(meaning):
        return _look_back(meaning, talk)
    if intent in _FILE_TOOLS:
        return say(language, "files.absent", tool=_FILE_TOOLS[intent])
    return say(language, f"{intent.value}.absent")


def _look_back(meaning: Meaning, talk: Conversation) -> str:
    language = meaning.language
    found = find_earlier(talk.said, meaning.query)
    if not found:
        return say(language, "recall.nothing", query=meaning.query)
    kind = meaning.intent.value
    quotes = say(language, "join").join(
        say(language, f"{kind}.quote", number=earlier.number, sentence=earlier.sentence)
        if meaning.intent is Intent.WHEN
        else say(language, f"{kind}.quote", sentence=earlier.sentence)
        for earlier in found
    )
    return say(language, f"{kind}.found", quotes=quotes)
