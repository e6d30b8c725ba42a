"""What can be typed after a slash in a chat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from nacre.agents.fit import breakdown
from nacre.agents.session import InMemory, Session
from nacre.cli.output import human_age, human_count, print_error, print_table
from nacre.clock import SYSTEM_CLOCK
from nacre.settings import Settings
from nacre.store.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Leave:
    """The person is done."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """Go on with another session, or with a new one."""

    session: str | None = None


Ending: TypeAlias = Leave | Reopen | None


class Command(NamedTuple):
    """One slash command and its line in /help."""

    act: Callable[[str, Session, Settings], Ending]
    summary: str


def obey(line: str, session: Session, settings: Settings) -> Ending:
    """Do what a line that begins with a slash says; an ending tells the chat to go elsewhere."""
    name, _, rest = line[1:].strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        print_error(f"no command /{name}; /help lists them (put a space before a message that begins with /)")
        return None
    return command.act(rest.strip(), session, settings)


def _help(_: str, __: Session, ___: Settings) -> Ending:
    print_table([(f"/{name}", command.summary) for name, command in COMMANDS.items()])
    return None


def _context(_: str, session: Session, __: Settings) -> Ending:
    limits, used = session.thresholds, session.tokens
    parts = {
        "system and tools": session.base.tokens,
        **breakdown(session.view),
        "free": max(0, limits.window - used),
    }
    print_table(
        [(name, human_count(part), f"{part / limits.window:.1%}") for name, part in parts.items() if part],
        right=(1, 2),
    )
    print(f"{human_count(used)} of {human_count(limits.window)} tokens in use")
    return None


def _cost(_: str, session: Session, __: Settings) -> Ending:
    meter, usage = session.meter, session.meter.usage
    print_table(
        [
            ("requests", str(meter.requests)),
            ("input", human_count(usage.input)),
            ("written to the cache", human_count(usage.cache_write)),
            ("read from the cache", human_count(usage.cache_read)),
            ("output", human_count(usage.output)),
            ("cache hit rate", f"{usage.hit_rate:.1%}"),
            ("money", f"${meter.cost_usd:.4f}"),
        ],
        right=(1,),
    )
    if meter.unpriced:
        print(f"{meter.unpriced} requests went to a model without a known price and count as $0")
    return None


def _clear(_: str, session: Session, __: Settings) -> Ending:
    stays = bool(session.view.items) and not isinstance(session.keeper, InMemory)
    print(f"new session; the old one stays: /resume {session.id[:8]}" if stays else "new session")
    return Reopen()


def _resume(wanted: str, session: Session, settings: Settings) -> Ending:
    if isinstance(session.keeper, InMemory):
        # Even a listing leaves a trace: it keeps what it has read for the next one.
        print_error("this chat leaves nothing on disk and opens nothing there; start another for that")
        return None
    sessions = Sessions(settings.home)
    if wanted:
        found = sessions.find(wanted).stem
        if found == session.id:
            print("you are in that session")
            return None
        return Reopen(found)
    now = SYSTEM_CLOCK.now()
    listed = [each for each in sessions.list(settings.cwd) if each.messages and each.session != session.id]
    print_table(
        [
            (each.session[:8], human_age(each.modified, now), f"{each.messages} messages", each.title or "")
            for each in listed[:10]
        ]
    )
    print("type /resume ID" if listed else "there is no other session in this directory")
    return None


def _exit(_: str, __: Session, ___: Settings) -> Ending:
    return Leave()


COMMANDS = {
    "help": Command(_help, "this list"),
    "context": Command(_context, "what fills the window"),
    "cost": Command(_cost, "tokens and money of this session"),
    "clear": Command(_clear, "start a new, empty session; the old one stays resumable"),
    "resume": Command(_resume, "go on with another session: /resume ID; without ID lists them"),
    "exit": Command(_exit, "leave (also Ctrl-D)"),
}
