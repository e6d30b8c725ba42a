"""Choose and open the memory that a command works on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from nacre.memory.files.location import Location, Scope
    from nacre.memory.format.entry import MemoryChange
    from nacre.memory.memory import Memory

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., object])
AGENT = "agent:"
SCOPES = ("project", "user", "team")


class ScopeType(click.ParamType[str]):
    """The project's, the user's, the team's, or an agent type's memory (M7b, M18, M26)."""

    name = "scope"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in SCOPES and not (value.startswith(AGENT) and len(value) > len(AGENT)):
            self.fail(f"{value!r} is none of project, user, team and agent:NAME", param, ctx)
        return value


scope_option = click.option(
    "--scope",
    type=ScopeType(),
    metavar="project|user|team|agent:NAME[@user|@local]",
    default="project",
    show_default=True,
    help="Memory of this project, of all projects, of the team, or of an agent type.",
)
everywhere_option = click.option(
    "--everywhere", is_flag=True, help="Search your memories of all projects; each result names its project."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def place(options: RunOptions, scope: str) -> Location:
    """Return the location of a scope's memory without creating it."""
    from nacre.app.memory_locations import memory_paths, memory_place
    from nacre.memory.files.location import agent_location

    settings = load_settings(options)
    if scope.startswith(AGENT):
        name, _, written = scope.removeprefix(AGENT).partition("@")
        # Committed with the project by default (M26).
        scopes: dict[str, Scope] = {"": "project", "project": "project", "user": "user", "local": "local"}
        reach = scopes.get(written)
        if reach is None:
            raise ConfigError(f"{written!r} is not a scope of agent memory; use @user, @project or @local")
        return agent_location(reach, name, memory_paths(settings))
    return memory_place(settings, "user" if scope == "user" else "team" if scope == "team" else "project")


async def read_only(options: RunOptions, scope: str, *, picks_up: bool = False) -> Memory:
    """Open a memory for reading, without leaving a trace in a directory that nacre never wrote."""

    from nacre.memory.files.transaction import pick_up, recover
    from nacre.memory.memory import Memory

    location = place(options, scope)
    is_ours = location.history.exists()
    if is_ours:
        # Reading must work where writing does not: a read-only disk, a lock that is held.
        with suppress(StoreError):
            await (pick_up(location) if picks_up else recover(location))
    return Memory(location, writes_cache=is_ours)


async def writable(options: RunOptions, scope: str) -> Memory:
    """Open a memory for changes; created if missing and claimed for this project."""

    from nacre.memory.memory import Memory

    keeps_index = scope != "project" or load_settings(options).memory.keeps_index
    return await Memory.at(place(options, scope), Path.cwd(), keeps_index=keeps_index)


def by_hand(reason: str) -> MemoryChange:
    """Return a change by the user at the keyboard."""
    from nacre.memory.format.entry import MemoryChange

    return MemoryChange(author="user", reason=reason)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; the only place where these commands enter the event loop."""
    import asyncio

    found: list[T] = []

    async def kept() -> None:
        # Not as the task's result: `asyncio.run` formats that in full for an error that is never shown.
        found.append(await work)

    asyncio.run(kept())
    return found[0]
