"""Snipping in a session: messages get numbers, the model names some, the person is told (C29, C12b)."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.agents.fit import Pressure
from nacre.agents.hands import Hands
from nacre.agents.layer import Layer
from nacre.agents.riding import Extra
from nacre.agents.session import Session
from nacre.errors import ToolError
from nacre.layers.l2_microcompact.choice import DUPLICATE, REREAD
from nacre.layers.l4_compact.snip import (
    NUMBERED,
    TAG,
    WAITS,
    Choice,
    choose,
    last_snip,
    next_number,
    numbers_of,
    snip,
    waiting,
)
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.pins import pinned
from nacre.messages.records import Noted, Record, Said, Undone
from nacre.messages.rewrite import drop_thinking
from nacre.messages.view import View
from nacre.settings import Settings

ORIGINALS = "originals: nacre sessions show --full"


class Snipping(Layer):
    """Numbers messages as they are recorded, takes out what the model names, and what waited for a turn."""

    log_kinds = {NUMBERED: "last", WAITS: "drop", "snip": "drop"}

    def __init__(self, session: Session) -> None:
        self._session = session

    async def attach(self, said: Said, view: View) -> Sequence[Extra]:
        """The message's number, behind it: what was sent before keeps its bytes."""
        number = next_number(view)
        facts: JsonObject = {"number": number, "message": said.id}
        return [Extra(kind=NUMBERED, text=TAG.format(number=number), facts=facts)]

    async def cut(self, numbers: Sequence[int], reason: str) -> str:
        """Take messages out, at once where the model allows it; says what went and what that freed."""
        session = self._session
        choice = self._choice(session.view, numbers)
        if not choice.records:
            raise ToolError(f"Nothing was taken out: {_why(choice) or 'no message was named'}.")
        if session.profile.binds_thinking:
            return await self._wait(choice, reason)
        outcome = snip(session.view, choice, session.clock, reason=reason)
        await session.transcript.append(*outcome.records)
        session.notify(_told(choice, outcome.tokens))
        return _answer(choice, f"about {outcome.tokens:,} tokens are free now", "Taken out")

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        """Whether something waited and this is the moment: a turn begins."""
        return (pressure.starts_turn or not pressure.profile.binds_thinking) and bool(waiting(view))

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        """Take out what waited, as far as it can still go."""
        notes = waiting(view)
        choice = self._choice(view, [number for note in notes for number in numbers_of(note)])
        why = "; ".join(str(note.fact("why")) for note in notes)
        outcome = snip(
            view,
            choice,
            self._session.clock,
            drops_thinking=pressure.profile.binds_thinking,
            reason=why,
            asked=[note.id for note in notes],
        )
        if choice.records:
            self._session.notify(_told(choice, outcome.tokens))
        return outcome.records

    async def undo(self) -> str | None:
        """Bring back what the last snip took out; a line for the person, or nothing where there was none."""
        session = self._session
        last = last_snip(session.view)
        if last is None:
            return None
        clock = session.clock
        undone = Undone(id=clock.new_id(), at=clock.now(), target=last.id)
        records: list[Record] = [undone]
        if session.profile.binds_thinking:
            # What was thought since is bound to the view without these messages (C12b).
            records += drop_thinking(session.view.after(undone).items, clock)
        await session.transcript.append(*records)
        return "The messages of the last snip are back."

    def _choice(self, view: View, numbers: Sequence[int]) -> Choice:
        leans = {
            str(note.fact("call")): str(note.fact("of"))
            for kind in (DUPLICATE, REREAD)
            for note in view.noted(kind)
        }
        return choose(view, numbers, held=pinned(view), leans=leans)

    async def _wait(self, choice: Choice, reason: str) -> str:
        session = self._session
        tokens = snip(session.view, choice, session.clock).tokens
        facts: JsonObject = {"numbers": list[Json](choice.numbers), "why": reason}
        note = Noted(id=session.clock.new_id(), at=session.clock.now(), kind=WAITS, facts=facts)
        await session.transcript.append(note)
        return _answer(choice, f"about {tokens:,} tokens become free", "Taken out when the next turn begins")


def join_snipping(session: Session, settings: Settings, hands: Hands) -> Snipping | None:
    """Let the model snip, if that is switched on."""
    if not settings.switches.snip:
        return None
    snipping = Snipping(session)
    session.layers.append(snipping)
    hands.scissors.cut = snipping.cut
    return snipping


def _answer(choice: Choice, freed: str, done: str) -> str:
    went = f"{done}: {_numbers(choice.numbers)} ({choice.messages} in all, with replies); {freed}."
    return f"{went} Left standing: {_why(choice)}." if choice.stays else went


def _numbers(numbers: Sequence[int]) -> str:
    return ("message " if len(numbers) == 1 else "messages ") + ", ".join(map(str, numbers))


def _why(choice: Choice) -> str:
    return "; ".join(f"message {number}: {why}" for number, why in choice.stays.items())


def _told(choice: Choice, tokens: int) -> str:
    return f"Snipped {choice.messages} messages (about {tokens:,} tokens); {ORIGINALS}."
