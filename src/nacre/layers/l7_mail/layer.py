"""Attaches the letters of an agent to the next message of its session, each once (A3, A5).

A letter is received when the transcript has its id. Only then the cursor of the inbox moves, so that a
process that is killed at any point loses no letter and shows none twice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from nacre import prompts
from nacre.errors import MailError, ToolError
from nacre.formatting import counted
from nacre.layers.l7_mail.inbox import START, Inbox, InboxPosition, UnreadLetters
from nacre.layers.l7_mail.letter import RESPONSES, TERMINAL, Letter
from nacre.layers.l7_mail.post import PlanApproval
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.records import Record, Said
from nacre.messages.untrusted_text import neutralise, one_line
from nacre.messages.view import View
from nacre.session.layer import Attachment, Layer
from nacre.session.session import Session
from nacre.tools.base import Tool
from nacre.tools.policy import HARMLESS
from nacre.tools.shell import explain

TAG = "teammate-message"
LETTERS = prompts.load(__package__, "letters")
SHUTDOWN = prompts.load(__package__, "shutdown_request")
PLAN = prompts.load(__package__, "plan_approval_request")
WAITS = (
    "Not done: you wait until {asked} approves your plan. End your turn; the answer wakes you. If it is a "
    "refusal, send another plan."
)
"""For a model that changes something before its plan is approved."""


def render_letters(letters: Sequence[Letter]) -> str:
    """Return the text that shows letters to the model; empty if there are none."""
    if not letters:
        return ""
    return prompts.render(LETTERS, letters="\n\n".join(_rendered(letter) for letter in letters))


def _rendered(letter: Letter) -> str:
    about = f' summary="{one_line(letter.summary)}"' if letter.summary else ""
    answers = f' answers="{letter.answers}"' if letter.kind in RESPONSES else ""
    head = f'<{TAG} from="{one_line(letter.sender)}" id="{letter.id}" kind="{letter.kind}"{answers}{about}>'
    return f"{head}\n{_body(letter)}\n</{TAG}>"


def _body(letter: Letter) -> str:
    words = neutralise(letter.text).strip()
    match letter.kind:
        case "text":
            return words
        case "shutdown_request":
            asked = prompts.render(SHUTDOWN, id=letter.id)
            return f"{asked}\nReason: {words}" if words else asked
        case "shutdown_response":
            return _verdict("will shut down", "will not shut down", letter, words)
        case "plan_approval_request":
            return f"{prompts.render(PLAN, id=letter.id)}\nPlan: {words}"
        case "plan_approval_response":
            return _verdict("The plan is approved.", "The plan is not approved.", letter, words)
        case other:
            assert_never(other)


def _verdict(yes: str, no: str, letter: Letter, words: str) -> str:
    said = yes if letter.approves else no
    if said[0].islower():
        said = f"{one_line(letter.sender)} {said}."
    return f"{said}\n{words}" if words else said


MAIL = "mail"
"""The kind of log note with the ids and senders of letters in a message."""
MAX_WAKES = 10
"""How often letters wake an agent without input from a person; two agents could answer each other forever."""
TOO_OFTEN = (
    f"{{name}} was woken by messages {MAX_WAKES} times without input from you; further messages wait in its "
    "inbox. Ask the session to write to it, or run `nacre agents send {name} MESSAGE`, to let it go on."
)
"""For the person."""
NOT_WOKEN = (
    f"it was woken {MAX_WAKES} times without input from the user; messages to it wait until the user says "
    "something and it is written to again"
)
"""For a model that wrote to it."""
MAX_DELIVERIES = 30
"""How often letters are delivered to an agent without input from a person, to wake it or while it works;
agents that write to each other in every round would never end their turns."""
TOO_MANY = (
    f"{{name}} received messages {MAX_DELIVERIES} times without input from you; further messages wait in its "
    "inbox. Say something, or run `nacre agents send {name} MESSAGE`, to let it go on."
)
"""For the person."""
NOT_DELIVERED = (
    f"it received messages {MAX_DELIVERIES} times without input from the user; messages to it wait until the "
    "user says something"
)
"""For a model that wrote to it."""
NOTED_BEHIND = 4
"""Records at the end of a log in which letters without a note are searched after a crash."""
_OURS = LETTERS.partition("{{")[0]
"""The start of every text that shows letters."""
_ID = re.compile(r'^<teammate-message from="[^"\n]*" id="([A-Za-z0-9._-]+)"', re.MULTILINE)


@dataclass(slots=True, eq=False)
class DeliveryLimit:
    """Limits how often letters wake and reach an agent without input from a person."""

    count: int = 0
    delivered: int = 0
    held: set[str] = field(default_factory=set)
    """Ids of letters that came after the limit was reached; they are delivered with the next wake."""
    is_notified: bool = False
    """Whether the person was notified that the limit is reached."""
    heard: set[str] = field(default_factory=set)
    """Ids of letters from a person that counted as input."""

    def reset(self) -> None:
        """Reset the counts after input from a person."""
        self.count = 0
        self.delivered = 0
        self.is_notified = False

    @property
    def reasons(self) -> tuple[str, str]:
        """Messages that say why letters are held, for the person and for a model."""
        return (TOO_OFTEN, NOT_WOKEN) if self.count >= MAX_WAKES else (TOO_MANY, NOT_DELIVERED)

    def new(self, letters: Sequence[Letter]) -> list[Letter]:
        """Return the letters that are not held already."""
        return [letter for letter in letters if letter.id not in self.held]

    def allows(self, new: Sequence[Letter]) -> bool:
        """Whether new letters may wake the agent; those that may not are held."""
        self._hear(new)
        if self.count < MAX_WAKES and self.delivered < MAX_DELIVERIES:
            return True
        self.held |= {letter.id for letter in new}
        return False

    def delivers(self, letters: Sequence[Letter]) -> bool:
        """Whether letters may be attached in the running turn; counts the delivery if so."""
        self._hear(letters)
        if self.delivered >= MAX_DELIVERIES:
            return False
        self.delivered += 1
        self.held.clear()
        return True

    def _hear(self, letters: Sequence[Letter]) -> None:
        persons = {letter.id for letter in letters if letter.sender == TERMINAL}
        if persons - self.heard:
            self.heard |= persons
            self.reset()

    def woken(self) -> None:
        """Count a wake, with which all letters are delivered."""
        self.count += 1
        self.held.clear()


class Mail(Layer):
    """Attaches letters; the last layer, so that nothing comes between reading them and recording."""

    log_kinds = {  # without these, letters would be shown again (A5) and a lead would forget its team (A6)
        MAIL: "last", "reported": "last", "leads": "last",
    }  # fmt: skip

    def __init__(self, session: Session, *inboxes: Inbox) -> None:
        self.inboxes = list(inboxes)
        """The inboxes of this session: its own, and one for each of its teams."""
        self.shows: Callable[[Letter], bool] = lambda letter: True
        """Whether a letter is shown to the model; a hidden one still counts as received."""
        self.may_deliver: Callable[[Sequence[Letter]], Awaitable[bool]] | None = None
        """Whether letters may be attached in the running turn; otherwise they stay in the inbox."""
        self.on_letters: Callable[[Sequence[Letter]], Awaitable[None]] | None = None
        """Called with the letters that a message gets, before the cursor moves behind them."""
        self.on_prompt: Callable[[], Awaitable[None]] | None = None
        """Called on input from a person."""
        self.holds_turns = False
        """This session is not woken for letters: its last turn continues with those that have come."""
        self.plan = PlanApproval()
        """The plan that this agent waits for, if it sent one; shared with its `Post`."""
        self._session = session
        self._unnoted = _unnoted(session.transcript.records[-NOTED_BEHIND:])
        self._taken: dict[Inbox, tuple[frozenset[str], InboxPosition]] = {}
        self._settled: dict[Inbox, InboxPosition] = {}
        self._last_error = ""

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """Return the new letters."""
        return await self.arrived(view)

    async def pending(self) -> Sequence[Attachment]:
        """Return letters that came during the last turn of a session."""
        is_last = self.holds_turns and self._session.is_one_shot
        arrived = await self.arrived(self._session.view) if is_last else ()
        return [one for one in arrived if one.text]

    async def arrived(self, view: View) -> list[Attachment]:
        """Return the letters that are not in the transcript yet, as one attachment."""
        known = received(view) | self._unnoted
        letters: list[Letter] = []
        for inbox in self.inboxes:
            found = await self._look(inbox, known)
            letters += found.letters
            known |= {letter.id for letter in found.letters}
        if not letters:
            return []
        shown = [letter for letter in letters if self.shows(letter)]
        if shown and self.may_deliver is not None and not await self.may_deliver(shown):
            return []
        if self.on_letters is not None:
            await self.on_letters(letters)
        for letter in shown:
            self.plan.hear(letter)
        lines = [f"{letter.sender}: {letter.summary or letter.kind}" for letter in shown]
        for line in lines[:-1]:  # the last one is the notice of the attachment, which follows these
            self._session.notify(line)
        facts: JsonObject = {"ids": [one.id for one in letters], "from": [one.sender for one in letters]}
        return [
            Attachment(kind=MAIL, text=render_letters(shown), facts=facts, notice=lines[-1] if lines else "")
        ]

    def wrap_tools(self, tools: Mapping[str, Tool], *, fork: str = "") -> Mapping[str, Tool]:
        """Refuse calls that change something while the agent waits for the approval of its plan."""
        return tools if fork else {name: self._held_back(tool) for name, tool in tools.items()}

    def _held_back(self, tool: Tool) -> Tool:
        if tool.read_only or tool.name in HARMLESS - {"Agent"}:
            return tool

        async def call(arguments: JsonObject) -> ToolResult | str:
            is_reading = tool.name == "Bash" and explain(str(arguments.get("command", ""))).read_only
            if self.plan.request and not is_reading:
                raise ToolError(WAITS.format(asked=self.plan.asked))
            return await tool.call(arguments)

        return replace(tool, call=call)

    async def before_prompt(self, text: str) -> None:
        if self.on_prompt is not None:
            await self.on_prompt()

    async def before_request(self) -> None:
        await self.settle()

    async def after_turn(self) -> None:
        await self.settle()

    async def settle(self) -> None:
        """Move the cursors behind the letters that are in the transcript."""
        if not self._taken:
            return
        known = self.known()
        safe = [(inbox, position) for inbox, (ids, position) in self._taken.items() if ids <= known]
        if not safe:
            return
        # After a power failure the cursor must not be ahead of the transcript.
        await self._session.writer.sync()
        for inbox, position in safe:
            await asyncio.to_thread(inbox.settle, position)
            self._settled[inbox] = position
            del self._taken[inbox]

    async def catch_up(self) -> None:
        """Settle letters that an earlier process of this session received without moving the cursor."""
        for inbox in self.inboxes:
            found = await self._look(inbox, self.known())
            if found.letters:
                self._taken.pop(inbox, None)
        await self.settle()

    async def waiting(self) -> list[Letter]:
        """Return the letters that are not in the transcript and would be shown to the model."""
        known = self.known()
        found = [letter for inbox in self.inboxes for letter in (await self._look(inbox, known)).letters]
        return [letter for letter in found if self.shows(letter)]

    def known(self) -> set[str]:
        """Return the ids of all received letters."""
        return received(self._session.view) | self._unnoted

    async def _look(self, inbox: Inbox, known: set[str]) -> UnreadLetters:
        try:
            found = await asyncio.to_thread(inbox.waiting, frozenset(known))
        except MailError as error:
            if str(error) != self._last_error:
                self._session.notify(f"letters cannot be read: {error}")
            self._last_error = str(error)
            return UnreadLetters((), START)
        if found.unreadable:
            lines = counted(found.unreadable, "line")
            self._session.notify(f"{lines} of an inbox cannot be read as letters; set aside")
        if found.position != self._settled.get(inbox, START):
            self._taken[inbox] = (frozenset(letter.id for letter in found.letters), found.position)
        return found


def received(view: View) -> set[str]:
    """Return the ids of all letters in the transcript."""
    ids = (note.fact("ids") for note in view.noted(MAIL))
    return {str(one) for several in ids if isinstance(several, list) for one in several}


def _unnoted(records: Sequence[Record]) -> set[str]:
    """Return the ids of letters at the end of a log whose note may be missing."""
    return {
        found
        for one in records
        if isinstance(one, Said) and one.role == "user"
        for text in _texts(one)
        if text.startswith(_OURS)
        for found in _ID.findall(text)
    }


def _texts(said: Said) -> list[str]:
    own = [block.text for block in said.blocks if isinstance(block, Text) and said.meta]
    results = (block for block in said.blocks if isinstance(block, ToolResult))
    return [*own, *(part.text for one in results for part in one.content if isinstance(part, Text))]
