"""Which memory a command works on, and how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nacre.cli.options import RunOptions, load_settings

if TYPE_CHECKING:
    from nacre.memory.directory import Memory
    from nacre.memory.entry import Change
    from nacre.memory.location import Location

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., object])
SCOPES = ("project", "user")

scope_option = click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="project",
    show_default=True,
    help="This project's memory, or the one that holds everywhere.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def place(options: RunOptions, scope: str) -> Location:
    """Where the memory of a scope lies; nothing is made."""
    from nacre.agents.memory_places import memory_paths
    from nacre.memory.location import locate, memory_base, user_location

    paths = memory_paths(load_settings(options))
    return user_location(memory_base(paths)) if scope == "user" else locate(paths)


async def read_only(options: RunOptions, scope: str, *, picks_up: bool = False) -> Memory:
    """The memory to look at: a directory that nacre never wrote to is left without a trace."""
    from contextlib import suppress

    from nacre.errors import StoreError
    from nacre.memory.directory import Memory
    from nacre.memory.transaction import pick_up, recover

    location = place(options, scope)
    if location.history.exists():
        # Looking is possible where writing is not: a disk that is read-only, a lock that is held.
        with suppress(StoreError):
            await (pick_up(location) if picks_up else recover(location))
    return Memory(location)


async def writable(options: RunOptions, scope: str) -> Memory:
    """The memory to change: made if it is not there, and claimed for this project."""
    from pathlib import Path

    from nacre.memory.directory import Memory

    return await Memory.at(place(options, scope), Path.cwd())


def by_hand(reason: str) -> Change:
    """A change that the person at the keyboard asked for."""
    from nacre.memory.entry import Change

    return Change(author="user", reason=reason)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; the command line's one step into the event loop."""
    import asyncio

    return asyncio.run(work)
