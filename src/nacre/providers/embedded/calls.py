"""From what was understood to a tool call, fitted to the schema the tool in the request really has."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nacre.messages.blocks import Json, JsonObject, ToolCall
from nacre.providers.embedded.grammar import Intent
from nacre.providers.embedded.parse import ParsedRequest

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
"""Which tools serve an intent, best first; compared without case and without an MCP server's prefix."""

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
"""For each intent, which of our words go into which property: the first name the schema has. The first row is
what a call cannot do without, and what the answer quotes."""

_RULE_OF_CONDUCT = re.compile(
    r"(?:from now on|going forward|in (?:the )?future|always|never|don't|do not|use|avoid)\b|.*\bfrom now on$"
    r"|以后|今后|往后|从现在|从今|总是|不要|别|永远",
    re.IGNORECASE,
)
_OF_THE_USER = re.compile(r"(?:i|i'm|my|i've)\b|我(?!们)", re.IGNORECASE)
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9\u3400-\u9fff]+")
_REGEX_SIGNS = re.compile(r"([.^$*+?{}\[\]\\|()])")
MAX_NAME_CHARS = 40
"""A name is also a file name; a longer one says no more."""


@dataclass(frozen=True, slots=True)
class ToolShape:
    """A tool of the request, as far as a call needs to know it."""

    name: str
    properties: dict[str, Json]
    required: frozenset[str]


def shapes(tools: list[JsonObject]) -> tuple[ToolShape, ...]:
    """The tools of a request; what is not shaped like a tool is left out."""
    return tuple(_shape(tool) for tool in tools if isinstance(tool.get("name"), str))


def plan_call(meaning: ParsedRequest, tools: tuple[ToolShape, ...], call_id: str) -> ToolCall | None:
    """The call that does what was asked, or None where no tool of the request can."""
    for wanted in TOOL_NAMES.get(meaning.intent, ()):
        for tool in tools:
            if bare_name(tool.name) == wanted:
                arguments = _arguments(meaning, tool)
                if arguments is not None:
                    return ToolCall(call_id, tool.name, arguments)
    return None


def intent_of(call: ToolCall) -> Intent:
    """What a call was for, by its tool's name."""
    name = bare_name(call.name)
    return next((intent for intent, names in TOOL_NAMES.items() if name in names), Intent.UNKNOWN)


def words_of(call: ToolCall) -> str:
    """The words a call was made about; the tool's name where there are none."""
    for _, names in FIELDS.get(intent_of(call), ())[:1]:
        for name in names:
            value = call.input.get(name)
            if isinstance(value, str):
                return value
    return call.name


def bare_name(name: str) -> str:
    return name.rsplit("__", 1)[-1].casefold()


def _shape(tool: JsonObject) -> ToolShape:
    schema = tool.get("input_schema")
    fields = schema.get("properties") if isinstance(schema, dict) else None
    required = schema.get("required") if isinstance(schema, dict) else None
    return ToolShape(
        str(tool["name"]),
        fields if isinstance(fields, dict) else {},
        frozenset(item for item in required if isinstance(item, str))
        if isinstance(required, list)
        else frozenset(),
    )


def _arguments(meaning: ParsedRequest, tool: ToolShape) -> JsonObject | None:
    words = _words(meaning)
    arguments: JsonObject = {}
    for position, (source, names) in enumerate(FIELDS[meaning.intent]):
        known = [name for name in names if name in tool.properties and name not in arguments]
        target = known[0] if known else (None if tool.properties else names[0])
        if target is not None and words[source]:
            arguments[target] = words[source]
        elif position == 0:
            return None
    arguments |= _extras(meaning, tool, arguments)
    return arguments if tool.required <= arguments.keys() else None


def _words(meaning: ParsedRequest) -> dict[str, str]:
    query = meaning.query
    if meaning.intent is Intent.LIST:
        query = query or "*"
        # A bare pattern means anywhere below; "list files" means here.
        query = f"**/{query}" if query != "*" and "/" not in query else query
    if meaning.intent is Intent.SEARCH:
        query = _REGEX_SIGNS.sub(r"\\\1", query)
    return {"text": meaning.text, "query": query, "path": meaning.path}


def _extras(meaning: ParsedRequest, tool: ToolShape, arguments: JsonObject) -> JsonObject:
    """What the schema has besides: a type where it is plain, the rest only where it is demanded."""
    extras: JsonObject = {}
    kind = _kind(meaning, is_demanded="type" in tool.required)
    if kind and _allows(tool.properties.get("type"), kind):
        extras["type"] = kind
    if _allows(tool.properties.get("output_mode"), "content"):
        extras["output_mode"] = "content"
    if meaning.text:
        demanded = tool.required - arguments.keys()
        name = _NOT_IN_A_NAME.sub("-", meaning.text.casefold())[:MAX_NAME_CHARS].strip("-") or "note"
        offers: JsonObject = {"name": name, "description": meaning.text.splitlines()[0]}
        extras |= {key: value for key, value in offers.items() if key in demanded}
    return extras


def _kind(meaning: ParsedRequest, *, is_demanded: bool) -> str:
    if not meaning.text:
        return ""
    if _RULE_OF_CONDUCT.match(meaning.text):
        return "feedback"
    if _OF_THE_USER.match(meaning.text):
        return "user"
    return "project" if is_demanded else ""


def _allows(field: Json, value: str) -> bool:
    if not isinstance(field, dict):
        return False
    choices = field.get("enum")
    return value in choices if isinstance(choices, list) else field.get("type", "string") == "string"
