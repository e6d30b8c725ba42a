"""The tool by which a model pins a result: offered on request only, for it costs tokens in every request."""

from __future__ import annotations

from typing import Annotated

from nacre import prompts
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ToolError
from nacre.messages.results import AnsweredCall, answered_calls, pin
from nacre.messages.transcript import Transcript
from nacre.messages.view import View
from nacre.messages.wire import canonical
from nacre.tools.base import Tool, tool

NAME = "Pin"
DESCRIPTION = prompts.load(__package__, "pin")
SHOWN_CHARS = 120
"""Of a call's arguments in the answer: enough to see that the right one was meant."""


class Pinboard:
    """Where the pins of a session go; it has none until it belongs to one, because tools come first."""

    def __init__(self) -> None:
        self._transcript: Transcript | None = None
        self._clock: Clock = SYSTEM_CLOCK

    def belong_to(self, transcript: Transcript, clock: Clock) -> None:
        """From now on pins are recorded there."""
        self._transcript = transcript
        self._clock = clock

    async def pin(self, about: str, *, on: bool) -> AnsweredCall:
        """Pin the newest result whose call holds these words, or let it go."""
        found = newest(self._transcript.view, about) if self._transcript else None
        if self._transcript is None or found is None:
            raise ToolError(f"No result in view belongs to a call with {about!r}." if about else NONE)
        await self._transcript.append(pin(found.id, self._clock, on=on, by="model"))
        return found


NONE = "There is no result in view yet."


def newest(view: View, about: str = "") -> AnsweredCall | None:
    """The newest result whose call, by tool or argument, holds these words."""
    return next((one for one in reversed(answered_calls(view.items)) if about in shown(one)), None)


def shown(one: AnsweredCall) -> str:
    """A call in one line."""
    return f"{one.call.name} {canonical(one.call.input).decode()}"


def pin_tool(board: Pinboard) -> Tool:
    """Pins a result, or lets it go."""

    @tool(name=NAME, description=DESCRIPTION)
    async def pin_result(
        about: Annotated[str, "A word of the call whose result is meant."] = "",
        keep: Annotated[bool, "False lets the result go again."] = True,
    ) -> str:
        found = await board.pin(about, on=keep)
        return f"{'Pinned' if keep else 'Let go'}: the result of {shown(found)[:SHOWN_CHARS]}"

    return pin_result
