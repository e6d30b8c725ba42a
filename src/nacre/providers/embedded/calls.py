"""Build the tool call for a parsed request from the schemas of the tools in the model request."""

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


@dataclass(frozen=True, slots=True)
class ToolShape:
    """The name and schema of a tool in the request."""

    name: str
    properties: dict[str, Json]
    required: frozenset[str]


def tool_shapes(tools: list[JsonObject]) -> tuple[ToolShape, ...]:
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


def plan_call(request: ParsedRequest, tools: tuple[ToolShape, ...], call_id: str) -> ToolCall | None:
    """Return the call that does what was asked, or None where no tool of the request can."""
    for wanted in TOOL_NAMES.get(request.intent, ()):
        for tool in tools:
            if _bare_name(tool.name) == wanted:
                arguments = _arguments(request, tool)
                if arguments is not None:
                    return ToolCall(call_id, tool.name, arguments)
    return None


def intent_of(call: ToolCall) -> Intent:
    """Return the intent that a call served, by the name of its tool."""
    name = _bare_name(call.name)
    return next((intent for intent, names in TOOL_NAMES.items() if name in names), Intent.UNKNOWN)


def words_of(call: ToolCall) -> str:
    """Return the main argument of a call; the name of the tool where it has none."""
    for _, names in FIELDS.get(intent_of(call), ())[:1]:
        for name in names:
            value = call.input.get(name)
            if isinstance(value, str):
                return value
    return call.name


def _bare_name(name: str) -> str:
    return name.rsplit("__", 1)[-1].casefold()


def _arguments(request: ParsedRequest, tool: ToolShape) -> JsonObject | None:
    query = request.query
    if request.intent is Intent.LIST:
        query = query or "*"
        # A bare pattern means anywhere below; "list files" means here.
        query = f"**/{query}" if query != "*" and "/" not in query else query
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
