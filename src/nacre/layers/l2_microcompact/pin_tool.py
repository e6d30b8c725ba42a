"""The tool with which a model pins a result; optional, because it costs tokens in every request."""

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
"""Characters of the call that the answer shows."""


class Pinboard:
    """Records the pins of a session; tools are built before the session, so it is bound later."""

    def __init__(self) -> None:
        self._transcript: Transcript | None = None
        self._clock: Clock = SYSTEM_CLOCK

    def belong_to(self, transcript: Transcript, clock: Clock) -> None:
        """Bind to a session: pins are recorded in this transcript."""
        self._transcript = transcript
        self._clock = clock

    async def pin(self, about: str, *, on: bool) -> AnsweredCall:
        """Pin or unpin the newest result whose call contains the text."""
        found = newest(self._transcript.view, about) if self._transcript else None
        if self._transcript is None or found is None:
            raise ToolError(f"No result in view belongs to a call with {about!r}." if about else NONE)
        await self._transcript.append(pin(found.id, self._clock, on=on, by="model"))
        return found


NONE = "There is no result in view yet."


def newest(view: View, about: str = "") -> AnsweredCall | None:
    """Return the newest result whose call, name or arguments, contains the text."""
    return next((one for one in reversed(answered_calls(view.items)) if about in shown(one)), None)


def shown(one: AnsweredCall) -> str:
    """Return a call as one line."""
    return f"{one.call.name} {canonical(one.call.input).decode()}"


def pin_tool(board: Pinboard) -> Tool:
    """Return the tool that pins or unpins a result."""

    @tool(name=NAME, description=DESCRIPTION)
    async def pin_result(
        about: Annotated[str, "A word of the call whose result is meant."] = "",
        keep: Annotated[bool, "False lets the result go again."] = True,
    ) -> str:
        found = await board.pin(about, on=keep)
        return f"{'Pinned' if keep else 'Let go'}: the result of {shown(found)[:SHOWN_CHARS]}"

    return pin_result
