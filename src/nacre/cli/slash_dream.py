"""`/dream` in a chat: begin one beside the conversation, say how far it is, end it (D5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.agents.dreaming import WORK
from nacre.cli.dream_showing import report_lines, status_lines
from nacre.cli.output import print_error, printable

if TYPE_CHECKING:
    from nacre.agents.opening import Ready

KILL, STATUS = "kill", "status"


async def dream_now(ready: Ready, text: str) -> None:
    """Begin a dream, or do what the words behind `/dream` say with the one that is under way."""
    dreaming = ready.dreaming
    if dreaming is None:
        print_error("dreams are switched off, or there is no memory here; `nacre doctor` says which")
    elif text == KILL:
        is_ended = await ready.background.cancel(WORK)
        print("the dream has ended; memory is as it was" if is_ended else "no dream is under way here")
    elif text == STATUS:
        state = dreaming.last
        lines = status_lines(state, dreaming.consolidated, {})
        for line in (*lines, *(report_lines(state) if state.status == "completed" else ())):
            print(printable(line))
    elif dreaming.begin():
        print("a dream has begun beside the conversation; /dream status says how far it is")
    else:
        print("a dream is under way already; /dream status says how far it is")
