"""Tools: functions with type hints, and the description and schema that the model gets."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias, cast, get_type_hints, overload

from nacre.errors import ToolError
from nacre.messages.blocks import Json, JsonObject, ToolResult
from nacre.messages.wire import canonical

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Function: TypeAlias = Callable[..., object]

MAX_SECONDS = 900.0
"""Longer than the longest command that Bash allows, plus the time to end it."""
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

    @property
    def definition(self) -> JsonObject:
        """The definition in a request."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}


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
    schema, call = _schema_and_call(_as_async(function), name)
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
        if one.name in made:
            raise TypeError(f"two tools are named {one.name}; rename one with @tool(name=…)")
        made[one.name] = one
    return list(made.values())


def _as_async(function: Function) -> Callable[..., Awaitable[object]]:
    if inspect.iscoroutinefunction(function):
        return function

    @wraps(function)
    async def in_thread(*values: object, **named: object) -> object:
        return await asyncio.to_thread(function, *values, **named)

    return in_thread


def _schema_and_call(
    function: Callable[..., Awaitable[object]], name: str
) -> tuple[JsonObject, Callable[[JsonObject], Awaitable[ToolResult | str]]]:
    # Not at import: pydantic takes longer to import than the rest of nacre.
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415
    from pydantic_core import ArgsKwargs  # noqa: PLC0415

    adapter = TypeAdapter[object](cast("type[object]", function))
    schema = _input_schema(cast("JsonObject", adapter.json_schema()), function)

    async def call(arguments: JsonObject) -> ToolResult | str:
        try:
            running = adapter.validate_python(ArgsKwargs((), arguments))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)
            raise ToolError(_explain(problems, name, schema)) from None
        return _as_answer(await cast("Awaitable[object]", running))

    return schema, call


def _input_schema(generated: JsonObject, function: Function) -> JsonObject:
    """Return the schema in declared order: it is at the very front of every request."""
    bare = cast("JsonObject", _without_titles(generated))
    properties = cast("dict[str, JsonObject]", bare.get("properties") or {})
    for parameter, hint in get_type_hints(function, include_extras=True).items():
        words = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, str)]
        if words and parameter in properties:
            properties[parameter] = {**properties[parameter], "description": " ".join(words)}
    schema: JsonObject = {
        "type": "object",
        "properties": cast("JsonObject", properties),
        "required": [key for key in properties if key in cast("list[Json]", bare.get("required") or [])],
        "additionalProperties": False,
    }
    return {**schema, "$defs": bare["$defs"]} if "$defs" in bare else schema


def _without_titles(schema: Json) -> Json:
    """Remove titles, which repeat the names, cost tokens and depend on the pydantic version."""
    match schema:
        case dict():
            return {key: _bare_member(key, value) for key, value in schema.items() if key != "title"}
        case list():
            return [_without_titles(item) for item in schema]
        case _:
            return schema


def _bare_member(key: str, value: Json) -> Json:
    if key in {"default", "const", "enum", "examples"}:
        return value
    if key in {"properties", "$defs", "patternProperties"} and isinstance(value, dict):
        # Here the keys are names chosen by the author, possibly "title".
        return {name: _without_titles(item) for name, item in value.items()}
    return _without_titles(value)


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
    if problem["type"] == "unexpected_keyword_argument":
        return f"{argument} is not an argument (takes {', '.join(properties) or 'none'})"
    place = ".".join(str(part) for part in problem["loc"])
    value = " ".join(repr(problem["input"])[: SHOWN_VALUE_CHARS + 1].split())
    if len(value) > SHOWN_VALUE_CHARS:
        value = value[:SHOWN_VALUE_CHARS] + "…"
    reason = problem["msg"][:1].lower() + problem["msg"][1:]
    return (
        f"{place}: expected {expected}, got {value}"
        if place == argument
        else f"{place}: {reason}, got {value}"
    )


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


def _as_answer(value: object) -> ToolResult | str:
    """Return text unchanged and other values as JSON where possible."""
    match value:
        case ToolResult() | str():
            return value
        case None:
            return ""
        case _:
            try:
                return canonical(cast("Json", value)).decode()
            except (TypeError, ValueError):
                return str(value)
