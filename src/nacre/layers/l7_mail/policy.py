"""Where a letter goes, read off the word after `to`, and the numbers of the room: pure (A3, A4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from nacre.errors import MailError
from nacre.layers.l7_mail.letter import EVERYONE, MAX_ADDRESS_CHARS, OTHER, check_name


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSettings:
    """How patient mail is, and how much of it is taken at once."""

    lock_seconds: float = 10.0
    """A box is held for milliseconds; whoever holds it for longer is stuck."""
    poll_seconds: float = 0.005
    """Between two tries for the lock of a box: about as long as one flush to disk takes."""
    slow_look_seconds: float = 30.0
    """A bell can get lost with the process that was to ring it; then a letter waits no longer than this."""
    look_letters: int = 50
    """Letters taken at once; the rest come with the next message."""
    look_chars: int = 100_000
    """Of text taken at once, or one letter: what rides with a message must leave room for the work."""
    anew_bytes: int = 1_048_576
    """A box that was read to its end is begun anew from this size on."""
    aside_bytes: int = 16_777_216
    """How large the file of unreadable lines may grow; beyond, they are only counted."""
    aside_line_bytes: int = 65_536
    """Kept of a line that is longer than any letter: enough to see what it was."""
    socket_seconds: float = 10.0
    """For each step of a talk over a socket; both ends are on this machine."""
    socket_talks: int = 16
    """At once; each may hold one letter in memory."""


MAIL = MailSettings()


@dataclass(frozen=True, slots=True)
class Name:
    """An agent of this session or team."""

    name: str


@dataclass(frozen=True, slots=True)
class Everyone:
    """All of them but the sender."""


@dataclass(frozen=True, slots=True)
class Socket:
    """Another session on this machine."""

    path: str


@dataclass(frozen=True, slots=True)
class Bridge:
    """A session on another host."""

    id: str


Address: TypeAlias = Name | Everyone | Socket | Bridge


def address(to: str) -> Address:
    """What the word after `to` means; `MailError` when it means nothing."""
    if to == EVERYONE:
        return Everyone()
    if to.startswith(OTHER):
        raise MailError(f"{to[:80]!r} gave no address to answer to; only that session can write again")
    scheme, colon, rest = to.partition(":")
    if not colon:
        return Name(check_name(to))
    if scheme not in {"uds", "bridge"}:
        raise MailError(f"{to[:80]!r} is no address; write to a name, '*', 'uds:<path>' or 'bridge:<id>'")
    if len(to) > MAX_ADDRESS_CHARS or not rest.strip() or not rest.isprintable():
        raise MailError(
            f"{to[:80]!r} is no address: what follows {scheme}: is empty, too long or unprintable"
        )
    return Socket(rest) if scheme == "uds" else Bridge(rest)
