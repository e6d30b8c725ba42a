"""A provider without a model: it follows plain requests through tool calls, offline, the same way every time.

It understands ways to say remember, forget, correct, what do you know about and when did I say, in English
and Chinese, and reads, lists and searches files; to anything else it says that no model is configured (P4).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

import anyio.lowlevel

from nacre.formatting import fenced
from nacre.messages.blocks import Block, JsonObject, Message, Text, ToolCall, ToolResult
from nacre.messages.events import REFUSAL, ProviderEvent, Reply, TextDelta, ToolCallEvent
from nacre.messages.tokens import estimate_blocks, estimate_json
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical, parse_content
from nacre.providers.base import Capabilities, Request
from nacre.providers.embedded.calls import ToolShape, intent_of, plan_call, shapes, words_of
from nacre.providers.embedded.conversation import (
    Conversation,
    as_shown,
    find_earlier,
    is_cut_pointer,
    read_conversation,
)
from nacre.providers.embedded.grammar import Intent, Language
from nacre.providers.embedded.parse import SMALL_TALK, ParsedRequest, parse_message

MODEL = "embedded"
ID_CHARS = 20
"""Of the request's hash: enough that two requests of one session never share an id."""


class EmbeddedProvider:
    """Answers from the request alone: no network, no clock, no chance."""

    @property
    def name(self) -> str:
        return MODEL

    def capabilities(self, model: str) -> Capabilities:
        return Capabilities(counts_tokens=True)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """The answer word by word, its calls, then the whole reply."""
        digest = _digest(request)
        given = answer(request, f"toolu_{MODEL}_{digest}_")
        for word in _WORDS.findall(given.text):
            yield TextDelta(word)
            await anyio.lowlevel.checkpoint()
        for call in given.calls:
            yield ToolCallEvent(call)
        blocks = _blocks(given)
        yield Reply(
            message=Message("assistant", blocks),
            usage=_usage(request, blocks),
            stop_reason="tool_use" if given.calls else REFUSAL if given.declines else "end_turn",
            id=f"msg_{MODEL}_{digest}",
            model=MODEL,
        )

    async def count_tokens(self, request: Request) -> int | None:
        """The estimate, which is also what the usage figures are made of."""
        return _base_tokens(request) + _message_tokens(request.messages)

    async def close(self) -> None:
        """Nothing to close."""


def _blocks(given: EmbeddedAnswer) -> tuple[Block, ...]:
    text: tuple[Block, ...] = (Text(given.text),) if given.text else ()
    return text + given.calls


def _usage(request: Request, blocks: tuple[Block, ...]) -> Usage:
    """As a cache of append-only prefixes counts: what the previous round sent is read, the rest is new."""
    replies = [index for index, message in enumerate(request.messages) if message.get("role") == "assistant"]
    sent_before = replies[-1] if replies else 0
    read = _base_tokens(request) + _message_tokens(request.messages[:sent_before]) if replies else 0
    prompt = _base_tokens(request) + _message_tokens(request.messages)
    return Usage(input=prompt - read, cache_read=read, output=estimate_blocks(blocks))


def _base_tokens(request: Request) -> int:
    system = estimate_blocks(parse_content(list(request.system)))
    return system + sum(estimate_json(tool) for tool in request.tools)


def _message_tokens(messages: list[JsonObject]) -> int:
    return sum(estimate_blocks(parse_content(message.get("content"))) for message in messages)


def _digest(request: Request) -> str:
    sent = canonical([request.model, list(request.system), list(request.tools), list(request.messages)])
    return hashlib.sha256(sent).hexdigest()[:ID_CHARS]


_WORDS = re.compile(
    r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]{1,2}\s*|[^\s\u3000-\u303f\u3400-\u9fff\uff00-\uffef]+\s*|\s+"
)


MAX_RESULT_CHARS = 4_000
"""A screen or two; the whole result stands in the transcript."""
MAX_RESULT_LINES = 80
"""As above, for results of many short lines."""

_FILE_TOOLS = {Intent.READ: "Read", Intent.LIST: "Glob", Intent.SEARCH: "Grep"}


@dataclass(frozen=True, slots=True)
class EmbeddedAnswer:
    """What goes into the reply."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    declines: bool = False
    """It says that it cannot do what was asked, and nothing else."""


def answer(request: Request, call_prefix: str) -> EmbeddedAnswer:
    """Tell what the tools answered, then see to what the user says now."""
    talk = read_conversation(request.messages)
    told = _tell_results(talk)
    if told and not talk.words:
        return EmbeddedAnswer(told)
    reply = _see_to(talk, shapes(request.tools), call_prefix)
    text = "\n\n".join(part for part in (told, reply.text) if part)
    return EmbeddedAnswer(text, reply.calls, declines=reply.declines and not told)


def _tell_results(talk: Conversation) -> str:
    if not talk.answered:
        return ""
    asked = parse_message(talk.said[-1] if talk.said else "")
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


def _see_to(talk: Conversation, tools: tuple[ToolShape, ...], call_prefix: str) -> EmbeddedAnswer:
    heard = parse_message(talk.words)
    if not heard.meanings and talk.recalled:
        told = "\n\n".join(f"{file}: {_shorten(words, heard.language)}" for file, words in talk.recalled)
        return EmbeddedAnswer(say(heard.language, "recalled", result=told))
    if not heard.meanings:
        return EmbeddedAnswer(say(heard.language, "unknown"), declines=True)
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
    return EmbeddedAnswer("\n\n".join(spoken), tuple(calls), declines=declines)


def _is_complete(meaning: ParsedRequest) -> bool:
    match meaning.intent:
        case Intent.REMEMBER | Intent.CORRECT:
            return bool(meaning.text)
        case Intent.FORGET:
            return bool(meaning.query)
        case _:
            return True


def _is_missing(meaning: ParsedRequest) -> bool:
    """Whether only a tool could do it, given that none was called."""
    spoken = meaning.intent in SMALL_TALK or meaning.intent in {Intent.RECALL, Intent.WHEN}
    return _is_complete(meaning) and not spoken


def _speak(meaning: ParsedRequest, talk: Conversation) -> str:
    """What is said where no tool is called: small talk, a question back, or that the tool is missing."""
    language = meaning.language
    intent = meaning.intent
    if intent in SMALL_TALK:
        return say(language, intent.value)
    if not _is_complete(meaning):
        return say(language, f"{intent.value}.what")
    if not _is_missing(meaning):
        return _look_back(meaning, talk)
    if intent in _FILE_TOOLS:
        return say(language, "files.absent", tool=_FILE_TOOLS[intent])
    return say(language, f"{intent.value}.absent")


def _look_back(meaning: ParsedRequest, talk: Conversation) -> str:
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


SENTENCES: dict[Language, dict[str, str]] = {
    "en": {
        "unknown": "No language model is configured, so I cannot answer that: set ANTHROPIC_API_KEY or"
        " OPENAI_API_KEY, or OPENAI_BASE_URL for a local server such as Ollama, or choose one with --model.",
        "recalled": "No language model is configured, but memory has something on that:\n\n{result}",
        "rest": "The rest of your message needs a language model, and none is configured.",
        "hello": "Hello. No language model is configured; ask “what can you do?” to see what works"
        " without one.",
        "thanks": "You are welcome.",
        "bye": "Goodbye.",
        "help": "Without a language model I follow plain requests: “remember that …”, “forget what I said"
        " about …”,"
        " “actually it's …, not …”, “what do you know about …?”, “when did I mention …?”, “read FILE”,"
        " “list files”,"
        " “search for …”. For everything else set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL,"
        " or pass --model.",
        "never_mind": "All right. Nothing was changed.",
        "run": "I do not run commands without a language model; I can read, list and search files.",
        "remember.what": "What exactly should be remembered? Please put it in the same sentence:"
        " “remember that …”. Nothing was saved.",
        "forget.what": "What exactly should be forgotten? Please name the subject: “forget what I said"
        " about …”."
        " Nothing was changed.",
        "correct.what": "What exactly should be corrected? Nothing was changed.",
        "remember.absent": "This session has no memory tool I can use, so nothing was saved to memory."
        " What you said is kept only in this session's transcript, if it has one; with --incognito it has"
        " none.",
        "forget.absent": "This session has no memory tool I can use, so there was nothing to forget and"
        " nothing was changed. This session's transcript, if it has one, keeps what you said earlier.",
        "correct.absent": "This session has no memory tool I can use, so no memory was corrected. Your"
        " correction is kept only in this session's transcript, if it has one; with --incognito it has none.",
        "files.absent": "This session has no {tool} tool I can use, so I cannot do that here.",
        "recall.found": "This session has no memory tool I can use, so I looked through this conversation"
        " only."
        " Earlier in this session you said: {quotes}",
        "recall.nothing": "This session has no memory tool I can use, and I find nothing about “{query}”"
        " in what you"
        " said in this conversation.",
        "when.found": "I see no clock times here, only this conversation: {quotes}",
        "when.quote": "in your message {number} you said “{sentence}”",
        "recall.quote": "“{sentence}”",
        "remember.done": "I passed “{words}” to memory. It answered: {result}",
        "forget.done": "I asked memory to forget “{words}”. It answered: {result}",
        "correct.done": "I passed the correction “{words}” to memory. It answered: {result}",
        "recall.done": "I asked memory about “{words}”. It answered: {result}",
        "read.done": "{words}:\n{result}",
        "list.done": "Files matching {words}:\n{result}",
        "search.done": "Lines matching {words}:\n{result}",
        "other.done": "{words} answered: {result}",
        "remember.error": "“{words}” was not saved. The memory tool reported an error: {result}",
        "forget.error": "Nothing is known to be forgotten about “{words}”. The memory tool reported an"
        " error: {result}",
        "correct.error": "The correction “{words}” was not recorded. The memory tool reported an error:"
        " {result}",
        "recall.error": "I could not look up “{words}”. The memory tool reported an error: {result}",
        "read.error": "I could not read {words}: {result}",
        "list.error": "I could not list {words}: {result}",
        "search.error": "I could not search for {words}: {result}",
        "other.error": "{words} reported an error: {result}",
        "empty": "(nothing)",
        "cut": "… ({lines} more lines, {chars} more characters)",
        "kept": "… (all of it is in {path})",
        "kept.cut": "… (the tool returned only a part of it, which is in {path})",
        "join": "; ",
    },
    "zh": {
        "unknown": "没有配置语言模型，我无法回答：请设置 ANTHROPIC_API_KEY 或 OPENAI_API_KEY，"
        "本地服务（例如 Ollama）请设置 OPENAI_BASE_URL，或用 --model 指定模型。",
        "recalled": "没有配置语言模型，但记忆里有相关内容：\n\n{result}",
        "rest": "消息的其余部分需要语言模型，而现在没有配置。",
        "hello": "你好。没有配置语言模型；问“你能做什么”可以看到没有模型时能用的功能。",
        "thanks": "不客气。",
        "bye": "再见。",
        "help": "没有语言模型时，我能照做这些简单的要求：“记住……”、“忘掉关于……的事”、“不对，是……不是……”、"
        "“你知道关于……什么”、“我什么时候说过……”、“读一下 文件”、“列出文件”、“搜索 ……”。"
        "其他事情请设置 ANTHROPIC_API_KEY、OPENAI_API_KEY 或 OPENAI_BASE_URL，或用 --model 指定模型。",
        "never_mind": "好的，什么都没有改动。",
        "run": "没有语言模型时我不执行命令；我可以读取、列出和搜索文件。",
        "remember.what": "具体要记住什么？请写在同一句话里：“记住……”。什么都没有保存。",
        "forget.what": "具体要忘掉什么？请说出主题：“忘掉关于……的事”。什么都没有改动。",
        "correct.what": "具体要更正什么？什么都没有改动。",
        "remember.absent": "这个会话没有我能用的记忆工具，所以没有保存到记忆里。"
        "你说的话只留在本会话的记录里（如果有记录；--incognito 没有记录）。",
        "forget.absent": "这个会话没有我能用的记忆工具，没有可以忘掉的记忆，什么都没有改动。"
        "如果本会话有记录，你说过的话仍在记录里。",
        "correct.absent": "这个会话没有我能用的记忆工具，没有更正任何记忆。"
        "你的更正只留在本会话的记录里（如果有记录；--incognito 没有记录）。",
        "files.absent": "这个会话没有我能用的 {tool} 工具，所以这里做不到。",
        "recall.found": "这个会话没有我能用的记忆工具，我只查看了这次对话。你在本会话里说过：{quotes}",
        "recall.nothing": "这个会话没有我能用的记忆工具，在这次对话里也没有找到你说过的关于“{query}”的话。",
        "when.found": "我看不到具体时间，只能看到这次对话：{quotes}",
        "when.quote": "你在第 {number} 条消息里说过“{sentence}”",
        "recall.quote": "“{sentence}”",
        "remember.done": "我把“{words}”交给了记忆。它回答：{result}",
        "forget.done": "我请记忆忘掉“{words}”。它回答：{result}",
        "correct.done": "我把更正“{words}”交给了记忆。它回答：{result}",
        "recall.done": "我向记忆查询了“{words}”。它回答：{result}",
        "read.done": "{words}：\n{result}",
        "list.done": "匹配 {words} 的文件：\n{result}",
        "search.done": "匹配 {words} 的行：\n{result}",
        "other.done": "{words} 回答：{result}",
        "remember.error": "“{words}”没有存下来。记忆工具报告了错误：{result}",
        "forget.error": "无法确认已经忘掉“{words}”。记忆工具报告了错误：{result}",
        "correct.error": "更正“{words}”没有记录下来。记忆工具报告了错误：{result}",
        "recall.error": "没能查询“{words}”。记忆工具报告了错误：{result}",
        "read.error": "没能读取 {words}：{result}",
        "list.error": "没能列出 {words}：{result}",
        "search.error": "没能搜索 {words}：{result}",
        "other.error": "{words} 报告了错误：{result}",
        "empty": "（空）",
        "cut": "……（还有 {lines} 行、{chars} 个字符）",
        "kept": "……（全部内容在 {path}）",
        "kept.cut": "……（工具只返回了一部分，在 {path}）",
        "join": "；",
    },
}


def say(language: Language, key: str, **words: str | int) -> str:
    """The sentence with its words filled in."""
    return SENTENCES[language][key].format(**words)
