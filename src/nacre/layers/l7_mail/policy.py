"""The settings of mail, and the addresses of letters (A3, A4). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from nacre.errors import MailError
from nacre.layers.l7_mail.letter import EVERYONE, MAX_ADDRESS_CHARS, OTHER, check_name


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSettings:
    """Time and size limits of mail."""

    lock_seconds: float = 10.0
    """A mailbox is locked for milliseconds; a process that holds it longer hangs."""
    poll_seconds: float = 0.005
    """Interval between tries for the lock: about the time of one flush to disk."""
    slow_look_seconds: float = 30.0
    """Polling interval, in case a wakeup is lost with the process that should have sent it."""
    look_letters: int = 50
    """Letters read at once; the rest come with the next message."""
    look_chars: int = 100_000
    """Characters read at once, or one letter: attachments must leave room for the work."""
    anew_bytes: int = 1_048_576
    """A mailbox of this size that was read to its end is replaced by a new one."""
    aside_bytes: int = 16_777_216
    """Limit of the file of unreadable lines; beyond it they are only counted."""
    aside_line_bytes: int = 65_536
    """Bytes kept of a line that is longer than any letter."""
    socket_seconds: float = 10.0
    """Time limit for each step of an exchange over a socket on this machine."""
    socket_talks: int = 16
    """Concurrent connections; each may hold one letter in memory."""


MAIL = MailSettings()


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """An agent of this session or team, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class AllAgents:
    """All agents except the sender."""


@dataclass(frozen=True, slots=True)
class SocketAddress:
    """Another session on this machine."""

    path: str


@dataclass(frozen=True, slots=True)
class BridgeAddress:
    """Another session of the same user, on any machine, by its id or the beginning of it."""

    session: str


Address: TypeAlias = AgentAddress | AllAgents | SocketAddress | BridgeAddress


def address(to: str) -> Address:
    """Parse the `to` of a letter; raises `MailError` if it is not an address."""
    if to == EVERYONE:
        return AllAgents()
    if to.startswith(OTHER):
        raise MailError(f"{to[:80]!r} gave no address to answer to; only that session can write again")
    scheme, colon, rest = to.partition(":")
    if not colon:
        return AgentAddress(check_name(to))
    if scheme not in {"uds", "bridge"}:
        raise MailError(f"{to[:80]!r} is no address; write to a name, '*' or 'uds:<path>'")
    if len(to) > MAX_ADDRESS_CHARS or not rest.strip() or not rest.isprintable():
        raise MailError(
            f"{to[:80]!r} is no address: what follows {scheme}: is empty, too long or unprintable"
        )
    return SocketAddress(rest) if scheme == "uds" else BridgeAddress(rest)
