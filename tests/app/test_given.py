"""What a caller hands `open_agent` by mistake is told in one line, before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.settings import load
from nacre.testing import ScriptedProvider
from nacre.tools.base import Tool, tool


@tool(read_only=True)
async def look(at: str) -> str:
    """Looks."""
    return f"seen {at}"


async def undecorated(at: str) -> str:
    return at


class Half:
    """Some of a provider."""

    name = "half"

    def stream(self, request: object) -> None:
        """Streams nothing."""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"provider": "claude"}, "provider takes an object, not 'claude'; leave it out and name a model"),
        ({"provider": ScriptedProvider}, "not the class itself; write ScriptedProvider(…)"),
        ({"provider": Half()}, "a Half is not a provider: it has no capabilities, count_tokens, close"),
        ({"tools": [print]}, "print is not a tool; decorate an async function with @nacre.tool"),
        ({"tools": [look, undecorated]}, "undecorated is not a tool"),
        ({"tools": "Read"}, "'R' is not a tool"),
        ({"tools": look}, "tools takes a list of tools, not a Tool; put it into one"),
        ({"tools": lambda usual: [*usual, print]}, "print is not a tool"),
        ({"tools": lambda usual: None}, "tools takes a list of tools, not a NoneType"),
        ({"session": None}, "session takes 'new', 'latest', 'unkept' or an id, not a NoneType"),
        ({"settings": {"model": "m"}}, "settings takes what nacre.settings.load returns, not a dict"),
    ],
)
async def test_a_wrong_argument_is_told_in_one_line(
    given: dict[str, object], told: str, tmp_path: Path, home: Path
) -> None:
    settings = load(tmp_path, {"NACRE_HOME": str(home)})
    with pytest.raises(TypeError) as refused:
        async with open_agent(**{"settings": settings, "session": "unkept", **given}):  # type: ignore[arg-type]
            pass
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_any_collection_of_tools_will_do(tmp_path: Path, home: Path) -> None:
    settings = load(tmp_path, {"NACRE_HOME": str(home)})
    given: list[object] = [[], [look], (look,), {"look": look}.values()]
    for tools in given:
        async with open_agent(
            settings,
            provider=ScriptedProvider(),
            tools=tools,  # type: ignore[arg-type]
            session="unkept",
        ) as ready:
            assert all(isinstance(one, Tool) for one in ready.agent.tools.values())
