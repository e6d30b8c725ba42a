"""Sends letters to the inboxes of agents and to sockets of other sessions (A3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeAlias, assert_never

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import MailError, NacreError
from nacre.layers.l7_mail import policy
from nacre.layers.l7_mail.inbox import Inbox
from nacre.layers.l7_mail.letter import MAIN, RESPONSES, Kind, Letter, brief, check_party, checked

SHOWN_NAMES = 8
"""Names that an error message lists."""


Wake: TypeAlias = Callable[[str], Awaitable[None]]


async def no_wake(name: str) -> None:
    """For receivers that poll their inbox themselves."""


@dataclass(frozen=True, slots=True)
class SentLetters:
    """Receivers and ids of sent letters, in the same order."""

    to: tuple[str, ...]
    ids: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Problems after a letter was stored; it stays in the inbox."""


@dataclass(slots=True)
class PlanApproval:
    """The plan that an agent has sent for approval and waits for."""

    request: str = ""
    """Id of the letter; empty if nothing is waited for."""
    asked: str = ""
    """Who decides."""

    def hear(self, letter: Letter) -> None:
        """Stop waiting if the letter approves the plan; after a refusal another plan is to be sent."""
        is_answer = letter.kind == "plan_approval_response" and letter.answers == self.request
        if is_answer and letter.approves and letter.sender == self.asked:
            self.request = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """Finds the inboxes of sessions on other machines."""

    find: Callable[[str], Awaitable[Inbox]]
    reply_address: str
    """Address of this session, so that others can answer."""


class Post:
    """Sends the letters of one agent."""

    def __init__(
        self,
        sender: str,
        *,
        find: Callable[[str], Inbox | None],
        everyone: Callable[[], Sequence[str]],
        wake: Wake = no_wake,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.sender = check_party(sender)
        self._find = find
        self._everyone = everyone
        self._wake = wake
        self._clock = clock
        self._reply_address = self.sender
        self.plan = PlanApproval()
        self.bridge: Bridge | None = None
        """Finds sessions on other machines, if there is a store that they share."""

    def answer_at(self, address: str) -> None:
        """Use this address as the sender of letters to other sessions, so that they can answer."""
        self._reply_address = check_party(address)

    async def send(
        self,
        to: str,
        text: str,
        *,
        summary: str = "",
        kind: Kind = "text",
        approves: bool | None = None,
        answers: str = "",
    ) -> SentLetters:
        """Send a letter; when this returns, it is stored in the inbox of every receiver."""
        letter = Letter(
            id=self._clock.new_id(),
            sender=self.sender,
            to=MAIN,
            text=text,
            summary=brief(summary) or brief(text.strip().partition("\n")[0]),
            kind=kind,
            approves=approves,
            answers=answers,
            at=self._clock.now(),
        )
        letter = checked(letter)  # before the address, so that an invalid letter to many is refused once
        sent = await self._sent(to, letter)
        if kind == "plan_approval_request":
            self.plan.request = letter.id
            self.plan.asked = to
        return sent

    async def _sent(self, to: str, letter: Letter) -> SentLetters:
        match policy.address(to):
            case policy.AgentAddress(name):
                return await self._to_one(name, letter)
            case policy.AllAgents():
                return await self._to_all(letter)
            case policy.SocketAddress(path):
                from nacre.layers.l7_mail import uds  # noqa: PLC0415 - few letters go to another process

                await uds.send(path, replace(letter, sender=self._reply_address))
            case policy.BridgeAddress(session):
                if self.bridge is None:
                    raise MailError(
                        "no bridge to other hosts is set up here; write to a name, '*' or 'uds:<path>'"
                    )
                await _put(await self.bridge.find(session), replace(letter, sender=self.bridge.reply_address))
            case other:
                assert_never(other)
        return SentLetters((to,), (letter.id,))

    async def _to_one(self, name: str, letter: Letter) -> SentLetters:
        if name == self.sender:
            raise MailError("a letter to oneself is not sent; write to another agent")
        inbox = self._find(name)
        if inbox is None:
            raise MailError(self._unknown(name))
        await _put(inbox, replace(letter, to=name))
        try:
            await self._wake(name)
        except NacreError as error:
            return SentLetters(
                (name,), (letter.id,), (f"{name} has the letter but could not be woken: {error}",)
            )
        return SentLetters((name,), (letter.id,))

    async def _to_all(self, letter: Letter) -> SentLetters:
        if letter.kind in RESPONSES or letter.kind == "plan_approval_request":
            raise MailError(f"a {letter.kind} goes to one agent; write to it by name")
        names = [name for name in self._everyone() if name != self.sender]
        if not names:
            raise MailError("there is no other agent to write to")
        sent: list[SentLetters] = []
        failed: list[str] = []
        for name in names:
            try:
                sent.append(await self._to_one(name, replace(letter, id=self._clock.new_id())))
            except MailError as error:
                failed.append(f"{name} ({error})")
        reached = tuple(each.to[0] for each in sent)
        if failed:
            raise MailError(
                f"sent to {', '.join(reached) or 'none'}; not to {'; '.join(failed)}; write to those alone"
            )
        notes = tuple(note for each in sent for note in each.notes)
        return SentLetters(reached, tuple(each.ids[0] for each in sent), notes)

    def known_names(self) -> Sequence[str]:
        """Return the names that can be written to."""
        return self._everyone()

    def _unknown(self, name: str) -> str:
        names = [each for each in self.known_names() if each != self.sender]
        near = get_close_matches(name, names, n=3, cutoff=0.5)
        if near:
            return f"there is no agent {name!r}; did you mean {' or '.join(near)}?"
        shown = ", ".join(sorted(names)[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
        return f"there is no agent {name!r}; " + (
            f"there are {shown}" if names else "there are no other agents"
        )


async def _put(inbox: Inbox, letter: Letter) -> None:
    """Store a letter from a thread; a cancelled call waits until that has ended."""
    running = asyncio.ensure_future(asyncio.to_thread(inbox.put, letter))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # retrieved, so that asyncio logs no warning
        raise
