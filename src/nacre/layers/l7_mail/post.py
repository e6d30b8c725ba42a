"""Sending: from the word after `to` to the inbox, socket or bridge that it means (A3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Protocol, TypeAlias, assert_never

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import MailError, NacreError
from nacre.layers.l7_mail import policy, uds
from nacre.layers.l7_mail.inbox import Inbox
from nacre.layers.l7_mail.letter import MAIN, RESPONSES, Kind, Letter, brief, check_party, checked

SHOWN_NAMES = 8
"""Of those that could have been meant, so that a line stays one."""


class Bridge(Protocol):
    """Takes a letter to a session on another host; `MailError` when it cannot."""

    async def __call__(self, to: str, letter: Letter) -> None: ...


Wake: TypeAlias = Callable[[str], Awaitable[None]]


async def nobody(name: str) -> None:
    """For those who need no waking: they look by themselves."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent: receivers and ids in the same order."""

    to: tuple[str, ...]
    ids: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What went wrong after a letter was safe: it stays in its inbox all the same."""


class Post:
    """One agent's way to the others."""

    def __init__(
        self,
        sender: str,
        *,
        find: Callable[[str], Inbox | None],
        everyone: Callable[[], Sequence[str]],
        wake: Wake = nobody,
        bridge: Bridge | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.sender = check_party(sender)
        self._find = find
        self._everyone = everyone
        self._wake = wake
        self._bridge = bridge
        self._clock = clock
        self._outside = self.sender

    def answer_at(self, address: str) -> None:
        """From now on letters to other sessions name this address, so that they can be answered."""
        self._outside = check_party(address)

    async def send(
        self,
        to: str,
        text: str,
        *,
        summary: str = "",
        kind: Kind = "text",
        approves: bool | None = None,
        answers: str = "",
    ) -> Sent:
        """Send a letter; when this returns, every receiver's inbox holds it for good."""
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
        letter = checked(letter)  # before the address, so that a wrong letter to many is refused once
        match policy.address(to):
            case policy.Name(name):
                return await self._to_one(name, letter)
            case policy.Everyone():
                return await self._to_all(letter)
            case policy.Socket(path):
                await uds.send(path, replace(letter, sender=self._outside))
            case policy.Bridge(host):
                await self._over_the_bridge(host, replace(letter, sender=self._outside))
            case other:
                assert_never(other)
        return Sent((to,), (letter.id,))

    async def _to_one(self, name: str, letter: Letter) -> Sent:
        if name == self.sender:
            raise MailError("a letter to oneself is not sent; write to another agent")
        inbox = self._find(name)
        if inbox is None:
            raise MailError(self._unknown(name))
        await _kept(inbox, replace(letter, to=name))
        try:
            await self._wake(name)
        except NacreError as error:
            return Sent((name,), (letter.id,), (f"{name} has the letter but could not be woken: {error}",))
        return Sent((name,), (letter.id,))

    async def _to_all(self, letter: Letter) -> Sent:
        if letter.kind in RESPONSES:
            raise MailError(f"a {letter.kind} answers one agent; write to it by name")
        names = [name for name in self._everyone() if name != self.sender]
        if not names:
            raise MailError("there is nobody else to write to")
        sent: list[Sent] = []
        failed: list[str] = []
        for name in names:
            try:
                sent.append(await self._to_one(name, replace(letter, id=self._clock.new_id())))
            except MailError as error:
                failed.append(f"{name} ({error})")
        reached = tuple(each.to[0] for each in sent)
        if failed:
            raise MailError(
                f"sent to {', '.join(reached) or 'nobody'}; not to {'; '.join(failed)}; write to those alone"
            )
        notes = tuple(note for each in sent for note in each.notes)
        return Sent(reached, tuple(each.ids[0] for each in sent), notes)

    async def _over_the_bridge(self, to: str, letter: Letter) -> None:
        if self._bridge is None:
            raise MailError("no bridge to other hosts is set up here; write to a name, '*' or 'uds:<path>'")
        await self._bridge(to, letter)

    def known_names(self) -> Sequence[str]:
        """Who can be written to, for somebody who got a name wrong."""
        return self._everyone()

    def _unknown(self, name: str) -> str:
        names = [each for each in self.known_names() if each != self.sender]
        near = get_close_matches(name, names, n=3, cutoff=0.5)
        if near:
            return f"there is no agent {name!r}; did you mean {' or '.join(near)}?"
        shown = ", ".join(sorted(names)[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
        return f"there is no agent {name!r}; " + (f"there are {shown}" if names else "there is nobody else")


async def _kept(inbox: Inbox, letter: Letter) -> None:
    """Put it in from a thread, to the end even when cancelled: a letter is in an inbox or it is not."""
    running = asyncio.ensure_future(asyncio.to_thread(inbox.put, letter))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # looked at, so that nobody warns of it
        raise
