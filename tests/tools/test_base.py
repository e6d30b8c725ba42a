"""A plain async function becomes a tool: schema from its hints, arguments checked, errors that help."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

import pytest
from inline_snapshot import snapshot
from pydantic import Field, TypeAdapter

from nacre.errors import ToolError
from nacre.messages.blocks import Text, ToolResult
from nacre.messages.wire import canonical
from nacre.tools import base
from nacre.tools.base import tool


async def look(
    place: Annotated[str, "Where to look."],
    depth: int = 2,
    mode: Literal["near", "far"] = "near",
    *,
    title: list[int] | None = None,
) -> str:
    """Look around.

    Twice if needed.
    """
    return f"{place} {depth} {mode} {title}"


def test_the_definition_comes_from_the_signature_and_the_docstring():
    assert tool(look).definition == snapshot(
        {
            "name": "look",
            "description": "Look around.\n\nTwice if needed.",
            "input_schema": {
                "type": "object",
                "properties": {
                    "place": {"type": "string", "description": "Where to look."},
                    "depth": {"default": 2, "type": "integer"},
                    "mode": {"default": "near", "enum": ["near", "far"], "type": "string"},
                    "title": {"items": {"type": "integer"}, "type": "array"},
                },
                "required": ["place"],
                "additionalProperties": False,
            },
        }
    )


def test_the_schema_has_the_same_bytes_in_every_run():
    """House rule 11: tool definitions are the first bytes of the prefix."""
    code = (
        "from nacre.tools.base import tool\n"
        "from nacre.messages.wire import canonical\n"
        "import sys\n"
        "async def f(b: str, a: dict[str, int], c: set[str] | None = None):\n"
        "    'Words.'\n"
        "sys.stdout.write(canonical(tool(f).definition).decode())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1
    assert b'"b"' in runs.pop()


def test_importing_the_module_does_not_import_pydantic():
    code = "import sys, nacre.tools, nacre.tools.base, nacre.tools.run; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@dataclass(frozen=True)
class Step:
    """One step of many."""

    title: Annotated[str, "Not in the schema."]
    done: bool = False
    after: list[str] | None = None


@dataclass(frozen=True)
class Undocumented:
    title: str


async def plain(
    text: str,
    number: Annotated[float, "How much."],
    steps: Annotated[list[Step] | None, "All steps."] = None,
    values: dict[str, str | bool] | str = "",
    mode: Literal["near", "far"] | None = None,
    count: int = 3,
    *,
    flag: bool = True,
) -> str:
    """Do."""
    return f"{text} {number} {steps} {values} {mode} {count} {flag}"


async def no_parameters() -> None:
    """Do."""


async def limited(count: Annotated[int, Field(ge=1)] = 1) -> None:
    """Do."""


async def one_choice(mode: Literal["near"], number: Literal[1, 2] = 1) -> None:
    """Do."""


async def unusual(days: set[date], undocumented: Undocumented, ratio: float = 0.5) -> None:
    """Do."""


@pytest.mark.parametrize("function", [look, plain, no_parameters, limited, one_choice, unusual])
def test_the_schema_is_the_one_that_pydantic_generates(function):
    generated = base._input_schema(TypeAdapter(function).json_schema(), function)
    assert json.dumps(tool(function).input_schema) == json.dumps(generated)


async def test_arguments_are_checked_and_passed_by_name():
    assert await tool(look).call({"place": "here", "depth": "7", "title": [1]}) == "here 7 near [1]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "look: place is missing (a string)"),
        ({"place": 3}, "look: place: expected a string, got 3"),
        ({"place": "a", "depth": "deep"}, "look: depth: expected an integer, got 'deep'"),
        ({"place": "a", "mode": "up"}, 'look: mode: expected one of "near", "far", got \'up\''),
        ({"place": "a", "speed": 1}, "look: speed is not an argument (takes place, depth, mode, title)"),
        ({"depth": None, "x": 1, "y": 2}, None),
    ],
)
async def test_a_wrong_argument_is_named_with_what_is_expected(arguments, message):
    with pytest.raises(ToolError) as caught:
        await tool(look).call(arguments)
    text = str(caught.value)
    assert "\n" not in text
    if message is None:
        assert text.startswith(
            "look: place is missing (a string); depth: expected an integer, got None; x is"
        )
        assert text.endswith("; and 1 more")
    else:
        assert text == message


async def test_a_huge_wrong_value_is_quoted_only_in_part():
    with pytest.raises(ToolError) as caught:
        await tool(look).call({"place": ["x" * 1_000_000]})
    assert len(str(caught.value)) < 200


async def test_the_decorator_takes_another_name_and_whether_it_only_reads():
    @tool(name="Shout", description="Says it louder.", read_only=True)
    async def shout(text: str) -> str:
        return text.upper()

    assert (shout.name, shout.description, shout.read_only) == ("Shout", "Says it louder.", True)
    assert await shout.call({"text": "a"}) == "A"


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("text", "text"),
        (None, ""),
        ({"b": [1, None]}, '{"b":[1,null]}'),
        (ToolResult("", (Text("x"),)), ToolResult("", (Text("x"),))),
        (frozenset({1}), "[1]"),
    ],
)
async def test_what_a_function_returns_becomes_an_answer(value, answer):
    @tool
    async def give() -> object:
        """Give it."""
        return value

    assert await give.call({}) == answer


async def test_an_error_inside_the_function_is_not_mistaken_for_wrong_arguments():
    @tool
    async def fail(text: str) -> str:
        """Fail."""
        raise ValueError("inner " + text)

    with pytest.raises(ValueError, match="inner x"):
        await fail.call({"text": "x"})


def test_what_cannot_be_a_tool_is_refused_when_it_is_made():
    async def silent() -> str:
        return ""

    async def many(*args: int) -> str:
        """Takes a list."""
        return ""

    async def bare(x) -> str:
        """No hint."""
        return ""

    for function, reason in ((silent, "docstring"), (many, "by name"), (bare, "type hint")):
        with pytest.raises(TypeError, match=reason):
            tool(function)


def test_a_parameter_called_title_survives():
    assert b'"title"' in canonical(tool(look).input_schema)
