"""Snipping in a session: messages get numbers, the model names some, the person is told (C29, C12b)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from nacre import prompts
from nacre.clock import Clock
from nacre.errors import ToolError
from nacre.layers.l2_microcompact.choice import DUPLICATE, REREAD
from nacre.messages.blocks import Json, JsonObject, ToolCall, ToolResult
from nacre.messages.jsonl_encode import SNIP
from nacre.messages.pairing import Item
from nacre.messages.pins import pinned
from nacre.messages.records import BlockOf, Change, Noted, Record, Replaced, Said, Undone
from nacre.messages.rewrite import drop_thinking, without_thinking
from nacre.messages.view import View, live_records
from nacre.session.attachments import Attachment
from nacre.session.ladder import Pressure
from nacre.session.layer import Layer
from nacre.session.session import Session
from nacre.tools.base import Tool, tool

NUMBERED = "message_number"
"""The kind of note that says which message has which number."""
WAITS = "snip_waits"
"""The kind of note that holds what is to go when the next turn begins (C12b)."""
TAG = "[message {number}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What of the named messages can go."""

    numbers: tuple[int, ...] = ()
    records: tuple[str, ...] = ()
    """Everything that goes, in the order of the view: messages, the replies that belong to them, numbers."""
    messages: int = 0
    """How many of these are messages."""
    stays: Mapping[int, str] = field(default_factory=dict)
    """Numbers that cannot go, each with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a snip did."""

    records: tuple[Record, ...]
    tokens: int
    """What it freed, by estimate."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """What goes together with one number."""

    number: int
    places: frozenset[int]
    calls: frozenset[str]


def next_number(view: View) -> int:
    """The number of the next message."""
    last = view.last_noted(NUMBERED)
    number = last.fact("number") if last else 0
    return number + 1 if isinstance(number, int) else 1


def choose(
    view: View,
    numbers: Iterable[int],
    *,
    held: frozenset[str] = frozenset(),
    leans: Mapping[str, str] | None = None,
) -> Choice:
    """Which of these messages can go, and what goes with them.

    `held` are calls whose results must stay. `leans` says for a call's result whose result it refers to.
    """
    look = _Look(view)
    units: list[_Unit] = []
    stays: dict[int, str] = {}
    for number in dict.fromkeys(numbers):
        found = look.unit(number, held)
        if isinstance(found, str):
            stays[number] = found
        else:
            units.append(found)
    for number in _leant_on(units, leans or {}, look.calls):
        stays[number] = "another result refers to it; name that message, too"
    units = [unit for unit in units if unit.number not in stays]
    places = look.whole({place for unit in units for place in unit.places})
    with_tags = sorted(places | {look.tags[place] for place in places if place in look.tags})
    return Choice(
        numbers=tuple(unit.number for unit in units),
        records=tuple(look.items[place].record_id for place in with_tags),
        messages=len(places),
        stays=stays,
    )


def snip(
    view: View,
    choice: Choice,
    clock: Clock,
    *,
    drops_thinking: bool = False,
    reason: str = "",
    asked: Sequence[str] = (),
) -> Outcome:
    """The records that take it out; `asked` are notes that waited for it and are settled by this."""
    wanted = set(choice.records)
    gone = [item for item in view.items if item.record_id in wanted]
    records: list[Record] = []
    if drops_thinking and gone and (thinking := tuple(without_thinking(view.items))):
        records.append(Replaced(id=clock.new_id(), at=clock.now(), changes=thinking, reason="thinking"))
    if gone:
        changes = tuple(dict.fromkeys(_removals(gone)))
        records.append(Replaced(id=clock.new_id(), at=clock.now(), changes=changes, reason=SNIP))
    tokens = view.estimate - view.after(*records).estimate
    facts: JsonObject = {
        "numbers": list[Json](choice.numbers),
        "messages": choice.messages,
        "tokens": tokens,
        "why": reason,
        "asked": list[Json](asked),
    }
    note = Noted(id=clock.new_id(), at=clock.now(), kind=SNIP, facts=facts)
    return Outcome(records=(*records, note), tokens=tokens)


def waiting(view: View) -> list[Noted]:
    """What was asked for and has not been settled yet."""
    settled = {one for note in view.noted(SNIP) for one in _listed(note.fact("asked"))}
    return [note for note in view.noted(WAITS) if note.id not in settled]


def numbers_of(note: Noted) -> list[int]:
    """The numbers a note names."""
    return [one for one in _listed(note.fact("numbers")) if isinstance(one, int)]


def last_snip(view: View) -> Replaced | None:
    """The newest snip that still counts."""
    for record in reversed(live_records(view.records)):
        if isinstance(record, Replaced) and record.reason == SNIP:
            return record
    return None


class _Look:
    """A view as numbers address it."""

    def __init__(self, view: View) -> None:
        self.items: Sequence[Item] = view.items
        self.places: dict[str, int] = {}
        self.calls: dict[str, list[int]] = {}
        """Where each call and its result stand."""
        for place, item in enumerate(self.items):
            self.places.setdefault(item.record_id, place)
            for call_id in _calls(item):
                self.calls.setdefault(call_id, []).append(place)
        self.people = _people(view)
        self.turn = max((self.places[one] for one in self.people if one in self.places), default=0)
        """Where the current turn begins; where nobody's words are in view, everything belongs to it."""
        self.numbers = {note.fact("number"): note for note in view.noted(NUMBERED)}
        self.tags = dict(self._tags())
        self.laden = {
            note.fact("record")
            for note in view.records
            if isinstance(note, Noted) and note.kind != NUMBERED and note.fact("inside")
        }
        """Records that something else than the tool's words rides in."""

    def unit(self, number: int, held: frozenset[str]) -> _Unit | str:
        """What goes with a number, or why it stays."""
        note = self.numbers.get(number)
        place = self.places.get(str(note.fact("message"))) if note else None
        if note is None:
            return "there is no such message"
        if place is None or not self.items[place].parts:
            return "it is not in view any more"
        if place >= self.turn:
            return "it belongs to the current turn"
        unit = self._round(number, place)
        if unit.calls & held:
            return "it holds a pinned result"
        if any(self.items[one].record_id in self.laden for one in unit.places):
            return "it holds more than a tool's answer"
        return unit if max(unit.places) < self.turn else "it belongs to the current turn"

    def whole(self, places: set[int]) -> set[int]:
        """With the closing replies of turns of which nothing else is left."""
        starts = [self.places[one] for one in self.people if one in self.places]
        more: set[int] = set()
        for start, end in zip(sorted(starts), sorted(starts)[1:], strict=False):
            turn = range(start, end)
            replies = {place for place in turn if self.items[place].role == "assistant"}
            worked = {place for place in turn if any(_calls(self.items[place]))}
            if start in places and worked <= places:
                more |= replies
        return places | more

    def _round(self, number: int, place: int) -> _Unit:
        """A message alone, or results with the reply that asked for them and all that answers it."""
        places = {place}
        calls = set[str]()
        todo = [place]
        while todo:
            item = self.items[todo.pop()]
            calls |= set(_calls(item))
            near = {one for call in _calls(item) for one in self.calls[call]} | self._same_reply(item)
            todo += near - places
            places |= near
        return _Unit(number, frozenset(places), frozenset(calls))

    def _same_reply(self, item: Item) -> set[int]:
        if item.reply_id is None:
            return set()
        return {place for place, other in enumerate(self.items) if other.reply_id == item.reply_id}

    def _tags(self) -> Iterator[tuple[int, int]]:
        """Where the number of a message stands, if it stands by itself."""
        for note in self.numbers.values():
            place, tag = (self.places.get(str(note.fact(name))) for name in ("message", "record"))
            if place is not None and tag is not None and place != tag:
                yield place, tag


def _people(view: View) -> list[str]:
    """The records in which a person speaks."""
    return [
        one.id
        for one in view.records
        if isinstance(one, Said)
        and (one.role, one.meta, one.aside) == ("user", False, None)
        and any(not isinstance(block, ToolResult) for block in one.blocks)
    ]


def _leant_on(units: Sequence[_Unit], leans: Mapping[str, str], standing: Iterable[str]) -> set[int]:
    """Numbers whose results are referred to by one that would stay; that one staying can hold others."""
    in_view = set(standing)
    kept = set[int]()
    while True:
        gone = {call for unit in units if unit.number not in kept for call in unit.calls}
        needed = {of for call, of in leans.items() if call in in_view and call not in gone}
        more = {unit.number for unit in units if unit.calls & needed} - kept
        if not more:
            return kept
        kept |= more


def _calls(item: Item) -> list[str]:
    return [
        block.id if isinstance(block, ToolCall) else block.call_id
        for block in (part.block for part in item.parts)
        if isinstance(block, ToolCall | ToolResult)
    ]


def _removals(items: Iterable[Item]) -> Iterator[Change]:
    for item in items:
        for part in item.parts:
            yield Change(BlockOf(part.record_id, part.index), ())


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


ORIGINALS = "originals: nacre sessions show --full"


class Snip(Layer):
    """Numbers messages as they are recorded, takes out what the model names, and what waited for a turn."""

    log_kinds = {NUMBERED: "last", WAITS: "drop", "snip": "drop"}

    def __init__(self, session: Session) -> None:
        self._session = session

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """The message's number, behind it: what was sent before keeps its bytes."""
        number = next_number(view)
        facts: JsonObject = {"number": number, "message": said.id}
        return [Attachment(kind=NUMBERED, text=TAG.format(number=number), facts=facts)]

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


def _answer(choice: Choice, freed: str, done: str) -> str:
    went = f"{done}: {_numbers(choice.numbers)} ({choice.messages} in all, with replies); {freed}."
    return f"{went} Left standing: {_why(choice)}." if choice.stays else went


def _numbers(numbers: Sequence[int]) -> str:
    return ("message " if len(numbers) == 1 else "messages ") + ", ".join(map(str, numbers))


def _why(choice: Choice) -> str:
    return "; ".join(f"message {number}: {why}" for number, why in choice.stays.items())


def _told(choice: Choice, tokens: int) -> str:
    return f"Snipped {choice.messages} messages (about {tokens:,} tokens); {ORIGINALS}."


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
