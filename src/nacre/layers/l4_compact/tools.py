"""The tool by which a model snips messages: offered only where that is switched on (C29)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from nacre import prompts
from nacre.errors import ToolError
from nacre.tools.base import Tool, tool

NAME = "Snip"
DESCRIPTION = prompts.load(__package__, "snip")

Cut = Callable[[Sequence[int], str], Awaitable[str]]
"""Takes numbers and a reason; says what went."""


async def nothing_to_snip(numbers: Sequence[int], reason: str) -> str:
    """What a tool without a session answers."""
    raise ToolError("There is no conversation yet to take messages out of.")


class Scissors:
    """What the tool cuts with; nothing until it belongs to a session, because tools come first."""

    def __init__(self) -> None:
        self.cut: Cut = nothing_to_snip


def snip_tool(scissors: Scissors) -> Tool:
    """Takes messages out of the model's own view."""

    @tool(name=NAME, description=DESCRIPTION)
    async def snip_messages(
        messages: Annotated[list[int], "Numbers of the messages, as in [message 12]."],
        reason: Annotated[str, "Why they are not needed any more, in a few words."],
    ) -> str:
        return await scissors.cut(messages, reason)

    return snip_messages
