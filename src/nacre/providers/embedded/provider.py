"""A provider without a language model: it serves simple requests through tool calls, offline.

It recognises requests to remember, forget, correct and recall, in English and Chinese, and reads, lists and
searches files; to anything else it answers that no model is configured (P4).
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import NamedTuple

from nacre.formatting import fenced
from nacre.messages.blocks import Block, Json, JsonObject, Message, Text, ToolCall
from nacre.messages.events import REFUSAL, ProviderEvent, Reply, TextDelta, ToolCallEvent
from nacre.messages.tokens import estimate_blocks, estimate_json
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical, parse_content
from nacre.providers.base import Capabilities, Request
from nacre.providers.embedded.conversation import (
    Conversation,
    RecalledText,
    as_shown,
    find_earlier,
    find_recalled,
    read_conversation,
)
from nacre.providers.embedded.parse import SMALL_TALK, ParsedRequest, parse_message
from nacre.providers.embedded.phrases import Intent, Language

MODEL = "embedded"
ID_CHARS = 20
"""Of the request's hash: enough for unique ids within a session."""


class EmbeddedProvider:
    """Answers from the request alone: no network, no clock, no randomness."""

    @property
    def name(self) -> str:
        return MODEL

    def capabilities(self, model: str) -> Capabilities:
        return Capabilities(counts_tokens=True)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Yield the answer word by word, its tool calls, then the whole reply."""
        sent = canonical([request.model, list(request.system), list(request.tools), list(request.messages)])
        digest = hashlib.sha256(sent).hexdigest()[:ID_CHARS]
        given = _answer(request, f"toolu_{MODEL}_{digest}_")
        for word in _STREAM_PIECES.findall(given.text):
            yield TextDelta(word)
            await asyncio.sleep(0)
        for call in given.calls:
            yield ToolCallEvent(call)
        text: tuple[Block, ...] = (Text(given.text),) if given.text else ()
        blocks = text + given.calls
        yield Reply(
            message=Message("assistant", blocks),
            usage=_usage(request, blocks),
            stop_reason="tool_use" if given.calls else REFUSAL if given.declines else "end_turn",
            id=f"msg_{MODEL}_{digest}",
            model=MODEL,
        )

    async def count_tokens(self, request: Request) -> int | None:
        """Return the estimate that the usage figures are made of."""
        return _prompt_tokens(request, request.messages)

    async def close(self) -> None:
        """Nothing to close."""


def _usage(request: Request, blocks: tuple[Block, ...]) -> Usage:
    """Count as a prefix cache does: the messages of the previous round are read, the rest is new."""
    replies = [index for index, message in enumerate(request.messages) if message.get("role") == "assistant"]
    read = _prompt_tokens(request, request.messages[: replies[-1]]) if replies else 0
    prompt = _prompt_tokens(request, request.messages)
    return Usage(input=prompt - read, cache_read=read, output=estimate_blocks(blocks))


def _prompt_tokens(request: Request, messages: list[JsonObject]) -> int:
    system = estimate_blocks(parse_content(list(request.system)))
    tools = sum(estimate_json(tool) for tool in request.tools)
    return system + tools + sum(estimate_blocks(parse_content(one.get("content"))) for one in messages)


_STREAM_PIECES = re.compile(
    r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]{1,2}\s*|[^\s\u3000-\u303f\u3400-\u9fff\uff00-\uffef]+\s*|\s+"
)

MAX_RESULT_CHARS = 4_000
"""A screen or two; the whole result is in the transcript."""
MAX_RESULT_LINES = 80
"""As above, for results of many short lines."""

HERE = "{*,*/*}"
"""The pattern of a list of files without one; Glob finds no folders, but their files show them."""
_FILE_TOOLS = {Intent.READ: "Read", Intent.LIST: "Glob", Intent.SEARCH: "Grep"}


@dataclass(frozen=True, slots=True)
class EmbeddedAnswer:
    """The content of a reply."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    declines: bool = False
    """It only says that the request cannot be done."""


def _answer(request: Request, call_prefix: str) -> EmbeddedAnswer:
    """Report the tool results, then answer the user's new message."""
    conversation = read_conversation(request.messages)
    report = _report_results(conversation)
    if report and not conversation.words:
        return EmbeddedAnswer(report)
    reply = _reply_to(conversation, _tool_shapes(request.tools), call_prefix)
    text = "\n\n".join(part for part in (report, reply.text) if part)
    return EmbeddedAnswer(text, reply.calls, declines=reply.declines and not report)


def _report_results(conversation: Conversation) -> str:
    if not conversation.answered:
        return ""
    asked = parse_message(conversation.earlier[-1] if conversation.earlier else "")
    language = asked.language
    lines: list[str] = []
    for call, result in conversation.answered:
        intent = _intent_of(call)
        topic = "other" if intent is Intent.UNKNOWN else intent.value
        shown, path, is_incomplete = as_shown(result.text, conversation.results)
        is_verbatim = intent in _FILE_TOOLS and not result.is_error
        quoted = _shorten(shown.lstrip("\n").rstrip(), language, is_verbatim=is_verbatim)
        quoted = quoted or _say(language, "empty")
        if path:
            quoted += "\n" + _say(language, "kept.cut" if is_incomplete else "kept", path=path)
        key = f"{topic}.{'error' if result.is_error else 'done'}"
        key = "list.here" if key == "list.done" and _main_argument(call) == HERE else key
        lines.append(_say(language, key, words=_main_argument(call), result=quoted))
    if asked.requests and asked.has_rest:
        lines.append(_say(language, "rest"))
    return "\n\n".join(lines)


def _shorten(text: str, language: Language, *, is_verbatim: bool = False) -> str:
    lines = text.splitlines()
    beginning = "\n".join(lines[:MAX_RESULT_LINES])[:MAX_RESULT_CHARS]
    shown = fenced(beginning) if is_verbatim and beginning else beginning
    if beginning == "\n".join(lines):
        return shown
    lines_left = len(lines) - len(beginning.splitlines())
    return f"{shown}\n{_say(language, 'cut', lines=lines_left, chars=len(text) - len(beginning))}"


def _reply_to(conversation: Conversation, tools: tuple[ToolShape, ...], call_prefix: str) -> EmbeddedAnswer:
    parsed = parse_message(conversation.words)
    found = conversation.recalled or find_recalled(conversation.recalled_before, conversation.words)
    if not parsed.requests and found:
        memories = (_recalled(one, parsed.language) for one in found)
        return EmbeddedAnswer(_say(parsed.language, "recalled", result="\n\n".join(memories)))
    if not parsed.requests:
        return EmbeddedAnswer(_say(parsed.language, "unknown"), declines=True)
    calls: list[ToolCall] = []
    texts: list[str] = []
    for request in parsed.requests:
        call = _plan_call(request, tools, f"{call_prefix}{len(calls)}") if _is_complete(request) else None
        if call is None:
            texts.append(_reply_without_tool(request, conversation))
        else:
            calls.append(call)
    if parsed.has_rest and not calls:
        texts.append(_say(parsed.language, "rest"))
    declines = not calls and all(_needs_tool(request) for request in parsed.requests)
    return EmbeddedAnswer("\n\n".join(texts), tuple(calls), declines=declines)


def _recalled(one: RecalledText, language: Language) -> str:
    age = _say(language, "age", days=one.age_days) if one.age_days else ""
    return f"{one.file}{age}: {_shorten(one.text, language)}"


def _is_complete(request: ParsedRequest) -> bool:
    if request.intent in {Intent.REMEMBER, Intent.CORRECT}:
        return bool(request.text)
    return bool(request.query) or request.intent is not Intent.FORGET


def _needs_tool(request: ParsedRequest) -> bool:
    """Return whether the request can only be done with a tool."""
    is_answered = request.intent in SMALL_TALK or request.intent in {Intent.RECALL, Intent.WHEN}
    return _is_complete(request) and not is_answered


def _reply_without_tool(request: ParsedRequest, conversation: Conversation) -> str:
    """Return small talk, a question back, quotes of this conversation, or that the tool is missing."""
    language = request.language
    intent = request.intent
    if intent in SMALL_TALK:
        return _say(language, intent.value)
    if not _is_complete(request):
        return _say(language, f"{intent.value}.what")
    if intent in _FILE_TOOLS:
        return _say(language, "files.absent", tool=_FILE_TOOLS[intent])
    if _needs_tool(request):
        return _say(language, f"{intent.value}.absent")
    found = find_earlier(conversation.earlier, request.query)
    if not found:
        return _say(language, "recall.nothing", query=request.query)
    quotes = _say(language, "join").join(
        _say(language, f"{intent.value}.quote", number=number, sentence=sentence)
        for number, sentence in found
    )
    return _say(language, f"{intent.value}.found", quotes=quotes)


TOOL_NAMES: dict[Intent, tuple[str, ...]] = {
    Intent.REMEMBER: ("remember", "save_memory", "memory_save"),
    Intent.FORGET: ("forget", "forget_memory", "memory_forget"),
    Intent.CORRECT: ("correct", "correct_memory", "memory_correct", "remember"),
    Intent.RECALL: ("recall", "search_memory", "memory_search"),
    Intent.WHEN: ("recall", "search_memory", "memory_search"),
    Intent.READ: ("read", "read_file"),
    Intent.LIST: ("glob",),
    Intent.SEARCH: ("grep",),
}
"""The tools for an intent, best first; compared without case and without the prefix of an MCP server."""

_SUBJECT = ("query", "name", "topic", "subject", "question", "text")
_WORDS = ("text", "content", "fact", "body", "memory", "note", "value")
_PLACE = ("path", "directory", "dir", "file")

FIELDS: dict[Intent, tuple[tuple[str, tuple[str, ...]], ...]] = {
    Intent.REMEMBER: (("text", _WORDS),),
    Intent.FORGET: (("query", _SUBJECT),),
    Intent.CORRECT: (("text", _WORDS), ("query", _SUBJECT)),
    Intent.RECALL: (("query", _SUBJECT),),
    Intent.WHEN: (("query", _SUBJECT),),
    Intent.READ: (("path", ("file_path", "path", "file", "filename")),),
    Intent.LIST: (("query", ("pattern", "glob", "query")), ("path", _PLACE)),
    Intent.SEARCH: (("query", ("pattern", "regex", "query")), ("path", _PLACE)),
}
"""For each intent, a field of the parsed request and the property it fills: the first that the schema has.

The first row is required, and the answer quotes it."""

_FEEDBACK = re.compile(
    r"(?:from now on|going forward|in (?:the )?future|always|never|don't|do not|use|avoid)\b|.*\bfrom now on$"
    r"|以后|今后|往后|从现在|从今|总是|不要|别|永远",
    re.IGNORECASE,
)
_ABOUT_USER = re.compile(r"(?:i|i'm|my|i've)\b|我(?!们)", re.IGNORECASE)
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9\u3400-\u9fff]+")
_REGEX_CHARACTERS = re.compile(r"([.^$*+?{}\[\]\\|()])")
MAX_NAME_CHARS = 40
"""A name is also a file name."""


class ToolShape(NamedTuple):
    """The name and schema of a tool in the request."""

    name: str
    properties: dict[str, Json]
    required: frozenset[str]


def _tool_shapes(tools: list[JsonObject]) -> tuple[ToolShape, ...]:
    """Return the tools of a request; entries without a name are left out."""
    shapes: list[ToolShape] = []
    for tool in tools:
        if not isinstance(name := tool.get("name"), str):
            continue
        schema = tool.get("input_schema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        required = schema.get("required") if isinstance(schema, dict) else None
        names = [item for item in required if isinstance(item, str)] if isinstance(required, list) else []
        shapes.append(ToolShape(name, properties if isinstance(properties, dict) else {}, frozenset(names)))
    return tuple(shapes)


def _plan_call(request: ParsedRequest, tools: tuple[ToolShape, ...], call_id: str) -> ToolCall | None:
    """Return the call that does what was asked, or None where no tool of the request can."""
    for wanted in TOOL_NAMES.get(request.intent, ()):
        for tool in tools:
            if _bare_name(tool.name) == wanted:
                arguments = _arguments(request, tool)
                if arguments is not None:
                    return ToolCall(call_id, tool.name, arguments)
    return None


def _intent_of(call: ToolCall) -> Intent:
    """Return the intent that a call served, by the name of its tool."""
    name = _bare_name(call.name)
    return next((intent for intent, names in TOOL_NAMES.items() if name in names), Intent.UNKNOWN)


def _main_argument(call: ToolCall) -> str:
    """Return the main argument of a call; the name of the tool where it has none."""
    names = FIELDS[intent][0][1] if (intent := _intent_of(call)) in FIELDS else ()
    return next((value for name in names if isinstance(value := call.input.get(name), str)), call.name)


def _bare_name(name: str) -> str:
    return name.rsplit("__", 1)[-1].casefold()


def _arguments(request: ParsedRequest, tool: ToolShape) -> JsonObject | None:
    query = request.query
    if request.intent is Intent.LIST:
        # A bare pattern means anywhere below; "list files" means here, with what is in the folders.
        if query in {"", "*"}:
            query = HERE
        elif "/" not in query:
            query = f"**/{query}"
    if request.intent is Intent.SEARCH:
        query = _REGEX_CHARACTERS.sub(r"\\\1", query)
    words = {"text": request.text, "query": query, "path": request.path}
    arguments: JsonObject = {}
    for position, (source, names) in enumerate(FIELDS[request.intent]):
        available = [name for name in names if name in tool.properties and name not in arguments]
        target = available[0] if available else (None if tool.properties else names[0])
        if target is not None and words[source]:
            arguments[target] = words[source]
        elif position == 0:
            return None
    arguments |= _further_arguments(request, tool, arguments)
    return arguments if tool.required <= arguments.keys() else None


def _further_arguments(request: ParsedRequest, tool: ToolShape, arguments: JsonObject) -> JsonObject:
    """Return the memory type where it is clear, and a name and a description where they are required."""
    further: JsonObject = {}
    if _allows(tool.properties.get("output_mode"), "content"):
        further["output_mode"] = "content"
    if not request.text:
        return further
    if _FEEDBACK.match(request.text):
        kind = "feedback"
    elif _ABOUT_USER.match(request.text):
        kind = "user"
    else:
        kind = "project" if "type" in tool.required else ""
    if kind and _allows(tool.properties.get("type"), kind):
        further = {"type": kind, **further}
    name = _NOT_IN_A_NAME.sub("-", request.text.casefold())[:MAX_NAME_CHARS].strip("-") or "note"
    offers: JsonObject = {"name": name, "description": request.text.splitlines()[0]}
    return further | {key: offers[key] for key in offers if key in tool.required - arguments.keys()}


def _allows(field: Json, value: str) -> bool:
    if not isinstance(field, dict):
        return False
    choices = field.get("enum")
    return value in choices if isinstance(choices, list) else field.get("type", "string") == "string"


SENTENCES: dict[Language, dict[str, str]] = {
    "en": {
        "unknown": "No language model is configured, so I cannot answer that: set ANTHROPIC_API_KEY or"
        " OPENAI_API_KEY, or OPENAI_BASE_URL for a local server such as Ollama, or choose one with --model.",
        "age": " ({days} days old)",
        "recalled": "No language model is configured, but memory has something on that:\n\n{result}",
        "rest": "The rest of your message needs a language model, and none is configured.",
        "hello": "Hello. No language model is configured; ask “what can you do?” to see what works"
        " without one.",
        "thanks": "You are welcome.",
        "bye": "Goodbye.",
        "help": "Without a language model I follow plain requests: “remember that …”, “forget what I said"
        " about …”, “actually it's …, not …”, “what do you know about …?”, “when did I mention …?”, “read"
        " FILE”, “list files”, “search for …”. For everything else set ANTHROPIC_API_KEY, OPENAI_API_KEY or"
        " OPENAI_BASE_URL, or pass --model.",
        "never_mind": "All right. Nothing was changed.",
        "run": "I do not run commands without a language model; I can read, list and search files.",
        "remember.what": "What exactly should be remembered? Please put it in the same sentence:"
        " “remember that …”. Nothing was saved.",
        "forget.what": "What exactly should be forgotten? Please name the subject: “forget what I said about"
        " …”. Nothing was changed.",
        "correct.what": "What exactly should be corrected? Nothing was changed.",
        "remember.absent": "This session has no memory tool I can use, so nothing was saved to memory. What"
        " you said is kept only in this session's transcript, if it has one; with --incognito it has none.",
        "forget.absent": "This session has no memory tool I can use, so there was nothing to forget and"
        " nothing was changed. This session's transcript, if it has one, keeps what you said earlier.",
        "correct.absent": "This session has no memory tool I can use, so no memory was corrected. Your"
        " correction is kept only in this session's transcript, if it has one; with --incognito it has none.",
        "files.absent": "This session has no {tool} tool I can use, so I cannot do that here.",
        "recall.found": "This session has no memory tool I can use, so I looked through this conversation"
        " only. Earlier in this session you said: {quotes}",
        "recall.nothing": "This session has no memory tool I can use, and I find nothing about “{query}” in"
        " what you said in this conversation.",
        "when.found": "I see no clock times here, only this conversation: {quotes}",
        "when.quote": "in your message {number} you said “{sentence}”",
        "recall.quote": "“{sentence}”",
        "remember.done": "I passed “{words}” to memory. It answered: {result}",
        "forget.done": "I asked memory to forget “{words}”. It answered: {result}",
        "correct.done": "I passed the correction “{words}” to memory. It answered: {result}",
        "recall.done": "I asked memory about “{words}”. It answered: {result}",
        "read.done": "{words}:\n{result}",
        "list.done": "Files matching {words}:\n{result}",
        "list.here": "Files here and in the folders:\n{result}",
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
        "age": "（{days} 天前）",
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
        "list.here": "这里和各文件夹中的文件：\n{result}",
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


def _say(language: Language, key: str, **words: str | int) -> str:
    """Return a sentence with its values filled in."""
    return SENTENCES[language][key].format(**words)
