"""Follow a conversation that a framework keeps: what it says goes in, what the model should see comes out.

The framework's history stays whole. A session of ours is told what is new in it, and its view, which only
grows between two announced rewrites, says what to send in its place: same history, same bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from nacre.adapters.layering import Layers, opened
from nacre.agents.session import Base, Session
from nacre.loop.round import heard
from nacre.messages.blocks import Block, Message, Role, Text
from nacre.messages.events import Reply
from nacre.messages.records import ReplyFacts, Said
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical, render_blocks

MAX_FOLLOWED = 64
"""Conversations remembered at a time; one that comes back later is read again from its beginning."""
DIGEST_BYTES = 16
"""128 bits: no two histories will ever collide by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One message of the framework, as nacre sees it."""

    role: Role
    blocks: tuple[Block, ...]
    usage: Usage | None = None
    """Of a reply, if the provider said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One message as it stands for the model now."""

    role: Role
    blocks: tuple[Block, ...]
    place: int | None = None
    """Which of the framework's messages it is; none for one of nacre's own."""
    is_same: bool = False
    """Nothing of it was changed, so that the framework's own can be sent."""

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))


class Following:
    """One conversation and the session that follows it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.told: list[Told] = []
        self._places: dict[str, int] = {}
        """Where in the framework's history a record came from."""

    async def shown(self, told: Sequence[Told]) -> list[Standing]:
        """What to send for this history, which begins with all that was told before."""
        for place in range(len(self.told), len(told)):
            await self._take(told[place], place, is_last=place == len(told) - 1)
        await self.session.prepare()
        return [self._standing(item.record_id, item.role, tuple(part.block for part in item.parts))
                for item in self.session.view.items if item.parts]  # fmt: skip

    async def _take(self, told: Told, place: int, *, is_last: bool) -> None:
        session, before = self.session, len(self.session.transcript.records)
        if told.role == "assistant":
            await self._take_reply(told)
        elif len(told.blocks) == 1 and isinstance(told.blocks[0], Text) and is_last:
            await session.add_user(told.blocks[0].text)
        else:
            said = heard("user", told.blocks, session.clock)
            # Nothing rides with what was answered long ago: it would be a rewrite of what was sent.
            await session.transcript.append(*await (session.keep(said) if is_last else session.sift(said)))
        first = next(one for one in session.transcript.records[before:] if isinstance(one, Said))
        self._places[first.id] = place
        self.told.append(told)

    async def _take_reply(self, told: Told) -> None:
        session = self.session
        if told.usage is not None:
            await session.record(Reply(message=Message("assistant", told.blocks), usage=told.usage))
            return
        # Nobody said what it cost: the estimates go on from the last figure there was.
        now, new_id = session.clock.now(), session.clock.new_id()
        reply = Said(id=new_id, at=now, role="assistant", blocks=told.blocks, reply=ReplyFacts())
        await session.transcript.append(reply)

    def _standing(self, record: str, role: Role, blocks: tuple[Block, ...]) -> Standing:
        place = self._places.get(record)
        is_same = place is not None and self.told[place].blocks == blocks
        return Standing(role=role, blocks=blocks, place=place, is_same=is_same)


class Follower:
    """Finds the session that follows a history, by what the history says; a new one gets a new session."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._known: OrderedDict[bytes, Following] = OrderedDict()
        """By the chain of everything told so far, the one used longest ago first."""

    async def shown(self, told: Sequence[Told], base: Callable[[], Base]) -> list[Standing]:
        """What to send in place of a history; whatever was taken out or added is told of."""
        if not told:
            return []
        chain = _chain(told)
        following = self._found(chain) or Following(opened(base(), self._layers))
        try:
            return await following.shown(told)
        finally:
            self._known[chain[len(following.told) - 1]] = following
            while len(self._known) > MAX_FOLLOWED:
                self._known.popitem(last=False)
            for notice in following.session.notices():
                self._layers.tell(notice.text)

    def _found(self, chain: Sequence[bytes]) -> Following | None:
        """The session that was told the most of this history, and nothing else."""
        known = (self._known.pop(link, None) for link in reversed(chain))
        return next((found for found in known if found is not None), None)


def _chain(told: Sequence[Told]) -> list[bytes]:
    """For every message a digest of it and all before it."""
    chain = [b""]
    for one in told:
        said = one.role.encode() + canonical(render_blocks(one.blocks))
        chain.append(blake2b(chain[-1] + said, digest_size=DIGEST_BYTES).digest())
    return chain[1:]
