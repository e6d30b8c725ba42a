"""Tools: functions with type hints, and the description and schema that the model gets."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from functools import cache, wraps
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Literal,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from nacre.errors import ToolError
from nacre.messages.blocks import Json, JsonObject, Text, ToolResult
from nacre.messages.wire import canonical

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

Function: TypeAlias = Callable[..., object]

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names of tools that every provider accepts; others are refused with the first request."""

MAX_SECONDS = 900.0
"""Longer than the longest command that Bash allows, plus the time to end it."""
EXTRA = "unexpected_keyword_argument"
"""Pydantic's type of error for an argument that the function does not have."""
REMARKS = frozenset({"comment", "description", "explanation", "reason", "reasoning", "thought", "timeout"})
"""Arguments that models add by habit; ignored also where the tool changes something, as they change nothing.

Any other extra argument of such a tool could mean something else than the call would do without it.
"""
SHOWN_PROBLEMS = 3
"""How many wrong arguments an error names."""
SHOWN_VALUE_CHARS = 60
"""How much of a wrong value an error quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the model can call."""

    name: str
    description: str
    input_schema: JsonObject
    call: Callable[[JsonObject], Awaitable[ToolResult | str]]
    """Takes the model's arguments; a `ToolError` or any other exception becomes an error result."""
    read_only: bool = False
    """Changes nothing: may run concurrently with others, and while the reply is still streamed."""
    together: bool = False
    """Its calls run concurrently with each other, once the reply that makes them is on disk."""
    max_seconds: float | None = MAX_SECONDS
    """A longer call is cancelled; None for a tool with a timeout of its own."""
    max_result_chars: float | None = None
    """Longer results are offloaded; at most the limit of the settings, unless infinite: then never."""
    guarded: bool = False
    """A guard decides about every call and may ask the user."""
    clearable: bool = False
    """Its results can be obtained again, so old ones may be cleared; not needed for nacre's own tools."""
    deferred: bool = False
    """Its definition is not in the prompt until ToolSearch loads it, where the model supports that (P12)."""

    @property
    def definition(self) -> JsonObject:
        """The definition in a request."""
        deferred: JsonObject = {"defer_loading": True} if self.deferred else {}
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
            **deferred,
        }


async def call_with_timeout(tool: Tool, arguments: JsonObject) -> ToolResult | str:
    """Call a tool; `ToolError` if it takes longer than it may."""
    try:
        async with asyncio.timeout(tool.max_seconds) as limit:
            return await tool.call(arguments)
    except TimeoutError:
        if not limit.expired():
            raise
        raise ToolError(f"{tool.name} was stopped after {tool.max_seconds:g} s.") from None


@overload
def tool(
    function: Function, *, name: str | None = None, description: str | None = None, read_only: bool = False
) -> Tool: ...


@overload
def tool(
    function: None = None, *, name: str | None = None, description: str | None = None, read_only: bool = False
) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
) -> Tool | Callable[[Function], Tool]:
    """Make a tool from a function: its type hints are the schema, its docstring the description.

    A parameter is described by a plain string in its hint: `path: Annotated[str, "Where to look."]`.
    A function that is not async runs in a thread.
    """
    if function is None:
        return lambda decorated: tool(decorated, name=name, description=description, read_only=read_only)
    name = name or str(getattr(function, "__name__", "tool"))
    description = description or inspect.getdoc(function)
    if not description:
        raise TypeError(f"{name} needs a docstring: it is what the model reads about the tool")
    hints = get_type_hints(function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}:
            raise TypeError(f"{name}: {parameter} cannot be given by name, so a model cannot give it")
        if parameter.name not in hints:
            raise TypeError(f"{name}: {parameter.name} needs a type hint")
    schema, call = _schema_and_call(function, name, read_only=read_only)
    return Tool(name=name, description=description, input_schema=schema, call=call, read_only=read_only)


def as_tools(tools: Iterable[Tool | Function]) -> list[Tool]:
    """Return tools as they are and functions as tools; raises `TypeError` for anything else."""
    if isinstance(tools, Tool) or callable(tools):
        raise TypeError(f"tools takes a list; write tools=[{getattr(tools, '__name__', 'mine')}]")
    if not isinstance(tools, Iterable):
        raise TypeError(f"tools takes a list of functions and @tool objects, not a {type(tools).__name__}")
    made: dict[str, Tool] = {}
    for given in tools:
        if not isinstance(given, Tool) and not inspect.isroutine(given):
            raise TypeError(f"tools takes functions and @tool objects, not a {type(given).__name__}")
        one = given if isinstance(given, Tool) else tool(given)
        if not NAME.fullmatch(one.name):
            raise TypeError(
                f"{one.name!r} is no tool name; use 1 to 64 letters, digits, _ or - with @tool(name=…)"
            )
        if one.name in made:
            raise TypeError(f"two tools are named {one.name}; rename one with @tool(name=…)")
        made[one.name] = one
    return list(made.values())


def _schema_and_call(
    function: Function, name: str, *, read_only: bool
) -> tuple[JsonObject, Callable[[JsonObject], Awaitable[ToolResult | str]]]:
    @wraps(function)
    async def in_thread(*values: object, **named: object) -> object:
        return await asyncio.to_thread(function, *values, **named)

    run = function if inspect.iscoroutinefunction(function) else in_thread

    @cache
    def adapter() -> TypeAdapter[object]:
        # Importing pydantic and building the adapters takes a sixth of a start; only a call needs them.
        from pydantic import TypeAdapter  # noqa: PLC0415

        return TypeAdapter[object](cast("type[object]", run))

    try:
        defs: JsonObject = {}
        generated = _plain_object(run, defs)
        generated |= {"$defs": defs} if defs else {}
    except LookupError:
        generated = cast("JsonObject", adapter().json_schema())
    schema = _input_schema(generated, run)

    async def call(arguments: JsonObject) -> ToolResult | str:
        from pydantic import ValidationError  # noqa: PLC0415 - see adapter
        from pydantic_core import ArgsKwargs  # noqa: PLC0415 - see adapter

        ignored: list[str] = []
        try:
            running = adapter().validate_python(ArgsKwargs((), arguments))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)
            ignored = [str(one["loc"][0]) for one in problems if one["type"] == EXTRA]
            if len(ignored) < len(problems) or not (read_only or REMARKS.issuperset(ignored)):
                raise ToolError(_explain(problems, name, schema)) from None
            known = {key: value for key, value in arguments.items() if key not in ignored}
            running = adapter().validate_python(ArgsKwargs((), known))
        answer = await cast("Awaitable[object]", running)
        result = answer if isinstance(answer, ToolResult | str) else _as_text(answer)
        return _with_note(result, name, ignored) if ignored else result

    return schema, call


def _with_note(result: ToolResult | str, name: str, ignored: list[str]) -> ToolResult | str:
    """Return a result followed by a line on the arguments that were ignored."""
    are = "is no argument" if len(ignored) == 1 else "are no arguments"
    note = f"(ignored: {', '.join(ignored)} {are} of {name})"
    if isinstance(result, str):
        return f"{result}\n{note}" if result else note
    return replace(result, content=(*result.content, Text(note)))


def _as_text(answer: object) -> str:
    """Return a result as JSON, also models and dataclasses at any depth; other objects as their `str`."""
    if answer is None:
        return ""
    try:
        return canonical(cast("Json", answer)).decode()
    except (TypeError, ValueError):
        pass
    has_fields = is_dataclass(answer) or hasattr(type(answer), "model_dump")
    if not (has_fields or isinstance(answer, Mapping | list | tuple | set | frozenset)):
        return str(answer)
    from pydantic_core import PydanticSerializationError, to_jsonable_python  # noqa: PLC0415 - see adapter

    try:
        return canonical(cast("Json", to_jsonable_python(answer, serialize_unknown=False))).decode()
    except (PydanticSerializationError, TypeError, ValueError):
        return str(answer)


_PLAIN_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def _plain_object(function: Callable[..., object], defs: JsonObject) -> JsonObject:
    """Return the schema of the parameters of a function or dataclass exactly as pydantic generates it.

    Adds the schemas of dataclasses to `defs`. Raises `LookupError` if only pydantic knows a hint.
    """
    hints = get_type_hints(function, include_extras=True)
    properties: JsonObject = {}
    required: list[Json] = []
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name]
        if get_origin(hint) is Annotated and all(isinstance(note, str) for note in hint.__metadata__):
            hint = get_args(hint)[0]
        schema = _plain_schema(hint, defs)
        if parameter.default is parameter.empty:
            required.append(name)
        elif type(parameter.default) in {str, int, bool, NoneType}:
            schema["default"] = parameter.default
        else:
            raise LookupError(name)
        properties[name] = dict(sorted(schema.items()))
    return {"properties": properties, "required": required, "type": "object"}


def _plain_schema(hint: object, defs: JsonObject) -> JsonObject:
    arguments = get_args(hint)
    match get_origin(hint):
        case None if is_dataclass(hint) and isinstance(hint, type):
            if hint.__name__ in defs or not hint.__doc__ or any("pydantic" in name for name in dir(hint)):
                raise LookupError(hint)
            defs[hint.__name__] = {}
            schema = _plain_object(hint, defs)
            defs[hint.__name__] = {"description": inspect.cleandoc(hint.__doc__), **schema}
            return {"$ref": f"#/$defs/{hint.__name__}"}
        case None if isinstance(hint, type):
            return {"type": _PLAIN_TYPES[hint]}
        case origin if origin is Literal and len(arguments) > 1 and {*map(type, arguments)} == {str}:
            return {"enum": [*arguments], "type": "string"}
        case origin if origin is Union or origin is UnionType:
            return {"anyOf": [_plain_schema(one, defs) for one in arguments]}
        case origin if origin is list:
            return {"items": _plain_schema(arguments[0], defs), "type": "array"}
        case origin if origin is dict and arguments[0] is str:
            return {"additionalProperties": _plain_schema(arguments[1], defs), "type": "object"}
    raise LookupError(hint)


def _input_schema(generated: JsonObject, function: Function | type) -> JsonObject:
    """Return the schema in declared order: it is at the very front of every request."""
    bare = cast("JsonObject", _without_titles(generated))
    properties = cast("dict[str, JsonObject]", bare.get("properties") or {})
    for parameter, hint in get_type_hints(function, include_extras=True).items():
        words = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, str)]
        if words and parameter in properties:
            properties[parameter] = {**properties[parameter], "description": " ".join(words)}
    required = [key for key in properties if key in cast("list[Json]", bare.get("required") or [])]
    schema: JsonObject = {
        "type": "object",
        "properties": {key: one if key in required else _optional(one) for key, one in properties.items()},
        "required": [*required],
        "additionalProperties": False,
    }
    return {**schema, "$defs": bare["$defs"]} if "$defs" in bare else schema


def result_schema(kind: type) -> JsonObject:
    """Return the schema of a dataclass that a tool returns; a field that is None may be left out."""
    defs: JsonObject = {}
    generated = _plain_object(kind, defs)
    schema = _input_schema({**generated, "$defs": defs} if defs else generated, kind)
    del schema["additionalProperties"]  # fields may be added
    return schema


def _optional(schema: JsonObject) -> JsonObject:
    """Return the schema of an optional parameter without an empty default and, if that is null, without null.

    Leaving the parameter out means the same, and null is still accepted.
    """
    if "default" not in schema or schema["default"]:
        return schema
    bare = {key: value for key, value in schema.items() if key != "default"}
    options = bare.get("anyOf")
    if schema["default"] is not None or not isinstance(options, list):
        return bare
    others = [one for one in options if one != {"type": "null"}]
    if len(others) == 1 and isinstance(others[0], dict):
        rest = {key: value for key, value in bare.items() if key != "anyOf"}
        return {**others[0], **rest}
    return {**bare, "anyOf": others}


def _without_titles(schema: Json) -> Json:
    """Remove titles, which repeat the names, cost tokens and depend on the pydantic version."""
    match schema:
        case dict():
            bare: JsonObject = {}
            for key, value in schema.items():
                if key in {"default", "const", "enum", "examples"}:
                    bare[key] = value
                elif key in {"properties", "$defs", "patternProperties"} and isinstance(value, dict):
                    # Here the keys are names chosen by the author, possibly "title".
                    bare[key] = {name: _without_titles(item) for name, item in value.items()}
                elif key != "title":
                    bare[key] = _without_titles(value)
            return bare
        case list():
            return [_without_titles(item) for item in schema]
        case _:
            return schema


def _explain(problems: list[ErrorDetails], name: str, schema: JsonObject) -> str:
    """Return one line that names each wrong argument and the expected value."""
    properties = cast("dict[str, JsonObject]", schema["properties"])
    lines = [_explain_one(problem, properties) for problem in problems[:SHOWN_PROBLEMS]]
    more = len(problems) - SHOWN_PROBLEMS
    return f"{name}: " + "; ".join(lines) + (f"; and {more} more" if more > 0 else "")


def _explain_one(problem: ErrorDetails, properties: Mapping[str, JsonObject]) -> str:
    argument = str(problem["loc"][0]) if problem["loc"] else "the arguments"
    expected = _expectation(properties.get(argument, {}))
    if problem["type"].startswith("missing") and len(problem["loc"]) == 1:
        return f"{argument} is missing ({expected})"
    if problem["type"] == EXTRA:
        return f"{argument} is not an argument (takes {', '.join(properties) or 'none'})"
    place = ".".join(str(part) for part in problem["loc"])
    value = " ".join(repr(problem["input"])[: SHOWN_VALUE_CHARS + 1].split())
    if len(value) > SHOWN_VALUE_CHARS:
        value = value[:SHOWN_VALUE_CHARS] + "…"
    reason = problem["msg"][:1].lower() + problem["msg"][1:]
    return f"{place}: {f'expected {expected}' if place == argument else reason}, got {value}"


def _expectation(schema: JsonObject) -> str:
    match schema:
        case {"enum": list(values)}:
            return "one of " + ", ".join(canonical(value).decode() for value in values)
        case {"const": value}:
            return canonical(value).decode()
        case {"anyOf": list(options)}:
            return " or ".join(_expectation(option) for option in options if isinstance(option, dict))
        case {"type": str(kind)}:
            return {"null": "null"}.get(kind, f"an {kind}" if kind[0] in "aio" else f"a {kind}")
        case _:
            return "another value"
