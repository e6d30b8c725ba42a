"""Copy the memories and sessions of a home into a database, for `nacre db import` (S2)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from nacre.app.memory_locations import all_places
from nacre.app.shared_store import space_key
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, NacreError
from nacre.memory.files.location import Location, team_location
from nacre.memory.files.recovery import in_thread
from nacre.memory.files.transaction import held, opened
from nacre.memory.files.working_copy import import_history
from nacre.session.shared_log import changed_files
from nacre.settings import Settings
from nacre.store.postgres.database import Database, fetch
from nacre.store.postgres.schema import require_schema
from nacre.store.postgres.session_rows import SessionRows
from nacre.store.postgres.space_rows import SpaceRows, find_space, space_id
from nacre.store.sessions import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPart:
    """A space or a session, and what was done with it."""

    name: str
    count: int = 0
    """Commits of a space, bytes of a session's log; 0 if the database has it already."""
    problem: str = ""


async def import_home(
    settings: Settings, database: Database, tenant: str, user: str, *, is_dry: bool
) -> dict[str, list[ImportedPart]]:
    """Copy everything, or say what would be copied; raises `ConfigError` for an unknown tenant."""
    await require_schema(database)
    async with database.transaction(tenant) as connection:
        if not await fetch(connection, "SELECT 1 FROM nacre.tenants WHERE name = %s", [tenant]):
            raise ConfigError(f"there is no tenant {tenant!r}; create it with `nacre tenants create`")
    spaces = import_spaces(settings, database, tenant, user, is_dry=is_dry)
    sessions = import_sessions(settings, database, tenant, user, is_dry=is_dry)
    return {"spaces": [one async for one in spaces], "sessions": [one async for one in sessions]}


async def import_spaces(
    settings: Settings,
    database: Database,
    tenant: str,
    user: str,
    *,
    is_dry: bool,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[ImportedPart]:
    """Copy each memory with its history into a space of its name, or say what would be copied."""
    for name, place in spaces_of(settings).items():
        try:
            async with held(place, clock=clock) as storage:
                await in_thread(opened, storage, clock)
                wanted = space_key(tenant, user, name)
                space = await (find_space if is_dry else space_id)(database, wanted)
                rows = SpaceRows(database, tenant, space) if space else None
                yield ImportedPart(name=name, count=await import_history(storage, rows, is_dry=is_dry))
        except NacreError as error:
            yield ImportedPart(name=name, problem=str(error))


def spaces_of(settings: Settings) -> dict[str, Location]:
    """Return the memories of a home by the names of their spaces."""
    places = [place for place in all_places(settings) if place.source != "team" and place.directory.is_dir()]
    count = Counter(place.root.name for place in places if place.root)
    found: dict[str, Location] = {}
    for place in places:
        if place.root is None:
            found["user"] = place
            continue
        title = place.root.name if count[place.root.name] == 1 else str(place.root)
        found[f"project:{title}"] = place
        if (team := team_location(place)).directory.is_dir():
            found[f"team:{title}"] = team
    return found


async def import_sessions(
    settings: Settings, database: Database, tenant: str, user: str, *, is_dry: bool
) -> AsyncIterator[ImportedPart]:
    """Copy each session with its files; one that the database has is left as it is."""
    rows = SessionRows(database, tenant, user)
    present = {one.id for one in await rows.list()}
    for one in await asyncio.to_thread(Sessions(settings.home).list):
        if one.session in present or is_dry:
            count = 0 if one.session in present else one.bytes
            yield ImportedPart(name=one.session, count=count)
            continue
        try:
            count = await _import_session(rows, one.session, one.cwd or "", one.path, settings.home)
            yield ImportedPart(name=one.session, count=count)
        except (NacreError, OSError) as error:
            yield ImportedPart(name=one.session, problem=str(error))


async def _import_session(rows: SessionRows, session: str, cwd: str, path: Path, home: Path) -> int:
    content = await asyncio.to_thread(path.read_bytes)
    whole = content[: content.rfind(b"\n") + 1]
    files, _ = await asyncio.to_thread(changed_files, path.with_suffix(""), {})
    lease = await rows.create(session, cwd=cwd, home=str(home))
    try:
        await lease.append(whole, files)
    except BaseException:
        await lease.release(remove=True)
        raise
    await lease.release()
    return len(whole)
