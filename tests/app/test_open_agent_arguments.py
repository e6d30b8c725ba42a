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


async def undescribed(at: str) -> str:
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
        ({"tools": [print]}, "print: *args cannot be given by name, so a model cannot give it"),
        ({"tools": [look, undescribed]}, "undescribed needs a docstring"),
        ({"tools": "Read"}, "tools takes functions and @tool objects, not a str"),
        ({"tools": look}, "tools takes a list; write tools=["),
        ({"tools": lambda usual: [*usual, print]}, "print: *args cannot be given by name"),
        ({"tools": lambda usual: None}, "tools takes a list of functions and @tool objects, not a NoneType"),
        ({"session": None}, "session takes 'new', 'latest' or an id, not a NoneType"),
        ({"settings": "m"}, "settings takes a mapping such as {'model': …}, not 'm'"),
    ],
)
async def test_a_wrong_argument_is_told_in_one_line(
    given: dict[str, object], told: str, tmp_path: Path, home: Path
) -> None:
    settings = load(tmp_path, {"NACRE_HOME": str(home)})
    with pytest.raises(TypeError) as refused:
        async with open_agent(**{"settings": settings, "ephemeral": True, **given}):  # type: ignore[arg-type]
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
            ephemeral=True,
        ) as ready:
            assert all(isinstance(one, Tool) for one in ready.agent.tools.values())
