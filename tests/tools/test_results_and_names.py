"""What functions return reaches the model as JSON; names and extra arguments are checked early."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel

from nacre import tool
from nacre.errors import ToolError
from nacre.tools.base import as_tools


class Weather(BaseModel):
    city: str
    degrees: float


@dataclass
class Pair:
    left: Weather
    right: list[Weather]


BERGEN = Weather(city="Bergen", degrees=7.5)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (BERGEN, '{"city":"Bergen","degrees":7.5}'),
        ([BERGEN], '[{"city":"Bergen","degrees":7.5}]'),
        (
            Pair(BERGEN, [BERGEN]),
            '{"left":{"city":"Bergen","degrees":7.5},"right":[{"city":"Bergen","degrees":7.5}]}',
        ),
        (Path("/a/b"), "/a/b"),
        (None, ""),
        ({"a": 1}, '{"a":1}'),
    ],
)
async def test_models_and_dataclasses_are_sent_as_json(answer: object, text: str) -> None:
    @tool
    def look() -> object:
        """Look."""
        return answer

    assert await look.call({}) == text


def test_a_name_that_providers_refuse_is_refused_when_the_list_is_made() -> None:
    @tool(name="look up")
    def look() -> str:
        """Look."""
        return ""

    with pytest.raises(TypeError, match="'look up' is no tool name"):
        as_tools([look])


async def test_harmless_extra_arguments_are_ignored_with_a_note() -> None:
    seen: list[str] = []

    @tool
    def write(path: str) -> str:
        """Write."""
        seen.append(path)
        return "done"

    @tool(read_only=True)
    def read(path: str) -> str:
        """Read."""
        return path

    assert await write.call({"path": "a", "timeout": 5}) == (
        "done\n(ignored: timeout is no argument of write)"
    )
    assert await read.call({"path": "a", "limit": 5, "x": 1}) == (
        "a\n(ignored: limit, x are no arguments of read)"
    )
    with pytest.raises(ToolError, match="cwd is not an argument"):
        await write.call({"path": "b", "cwd": "/tmp"})
    with pytest.raises(ToolError, match="path is missing"):
        await write.call({"timeout": 5})
    assert seen == ["a"]
