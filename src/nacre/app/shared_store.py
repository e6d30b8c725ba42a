"""Memories and sessions of one person of many: in a folder of the home, or in a database (S1, S3)."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, MailError
from nacre.formatting import how_to_install
from nacre.layers.l7_mail.post import Bridge
from nacre.memory.files.location import Location
from nacre.memory.memory import Memory
from nacre.settings import Settings

if TYPE_CHECKING:
    from nacre.agents.mail_room import MailRoom
    from nacre.layers.l7_mail.inbox import Inbox
    from nacre.store.postgres.database import Database
    from nacre.store.postgres.session_rows import SessionRows
    from nacre.store.postgres.space_rows import SpaceKey

KINDS = ("user", "project", "team", "agent")
SCHEMES = ("postgresql://", "postgres://")
COPIES = "server/copies"
"""Folder of the home with the working copies of what is in a database."""
USERS = "users"
_PLAIN = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,79}")
"""Names that are their own folder, also where case is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStore:
    """The settings with which a person's agent is opened, and the rows of their sessions, if any."""

    settings: Settings
    sessions: SessionRows | None = None


def space_key(tenant: str, user: str, space: str) -> SpaceKey:
    """Return the key of a space by the name that a user gives it; raises `ConfigError` for another name."""
    from nacre.store.postgres.database import MAX_NAME_CHARS  # noqa: PLC0415 - only with a database
    from nacre.store.postgres.space_rows import SpaceKey  # noqa: PLC0415 - as above

    kind, _, title = space.partition(":")
    is_valid = kind in KINDS and bool(title.strip()) == (kind != "user") and len(title) <= MAX_NAME_CHARS
    if not is_valid or not title.isprintable():
        raise ConfigError(f"{space!r} is no space; use user, project:NAME, team:NAME or agent:NAME")
    # The team's memory is everyone's in the tenant; all else is its user's.
    return SpaceKey(tenant, None if kind == "team" else user, kind, title)


async def space_location(database: Database, folder: Path, wanted: SpaceKey) -> Location:
    """Return the working copy of a space below a folder; the space is made if it does not exist."""
    from nacre.store.postgres.space_rows import SpaceRows, space_id  # noqa: PLC0415 - only with a database

    space = await space_id(database, wanted)
    return Location(
        directory=folder / space / "memory",
        source=wanted.kind if wanted.kind != "project" else "path",
        history=folder / space / "history" / "memory.git",
        cache=folder / space / "cache" / "memory",
        rows=SpaceRows(database, wanted.tenant, space),
    )


async def open_space(
    database: Database, folder: Path, wanted: SpaceKey, *, clock: Clock = SYSTEM_CLOCK
) -> Memory:
    """Open a space as a working copy below a folder; it is made if it does not exist."""
    location = await space_location(database, folder, wanted)
    return await Memory.at(location, folder, clock=clock)


def database_at(url: str, *, idle: int | None = None) -> Database:
    """Return the database at an address; raises `ConfigError` for another text or a missing package."""
    if not url.startswith(SCHEMES):
        raise ConfigError("a store is named by an address such as postgresql://USER:PASSWORD@HOST/NAME")
    if find_spec("psycopg") is None:
        raise ConfigError(f"a database needs psycopg; install it with: {how_to_install('postgres')}")
    from nacre.store.postgres.database import MAX_IDLE, Database  # noqa: PLC0415 - only with a database

    return Database(url, idle=MAX_IDLE if idle is None else idle)


async def open_user_store(
    settings: Settings, stack: AsyncExitStack, *, store: str = "", tenant: str = "", user: str = ""
) -> UserStore:
    """Return where the sessions and memories of a person are: of a database's tenant, or of this home."""
    check_person(store=store, tenant=tenant, user=user)
    if not user:
        return UserStore(settings=settings)
    if not store:
        return UserStore(settings=settings_of_person(settings, user))
    from nacre.store.postgres.schema import require_schema  # noqa: PLC0415 - only with a database
    from nacre.store.postgres.session_rows import SessionRows  # noqa: PLC0415 - as above

    database = database_at(store)
    stack.push_async_callback(database.close)
    await require_schema(database)
    folder = settings.home / COPIES
    await remove_erased(database, folder)
    location = await space_location(database, folder, space_key(tenant, user, "user"))
    rows = SessionRows(database, tenant, user)
    return UserStore(settings=settings_at(settings, copies_of_user(folder, rows), location), sessions=rows)


async def remove_erased(database: Database, folder: Path) -> None:
    """Remove this machine's copies of what was erased from the database."""
    from nacre.store.postgres.archive import erased_folders  # noqa: PLC0415 - only with a database

    for name in await erased_folders(database):
        if (folder / name).is_dir():
            await asyncio.to_thread(shutil.rmtree, folder / name, ignore_errors=True)


def add_bridge(mail: MailRoom, rows: SessionRows, session: str) -> None:
    """Let a session get letters through the database, and write to the person's sessions elsewhere."""

    async def find(wanted: str) -> Inbox:
        return (await inbox_of(rows, wanted))[1]

    mail.mailing.inboxes.append(_inbox(rows, session))
    mail.post.bridge = Bridge(find=find, reply_address=f"bridge:{session}")


async def inbox_of(rows: SessionRows, wanted: str) -> tuple[str, Inbox]:
    """Return a session of the person by its id or the beginning of it, and its inbox."""
    found = [one.id for one in await rows.list() if one.id.startswith(wanted)]
    found = [one for one in found if one == wanted] or found
    if len(found) != 1:
        number = "several sessions begin" if found else "no session begins"
        raise MailError(f"{number} with {wanted[:100]!r}; write to one by its whole id")
    return found[0], _inbox(rows, found[0])


def _inbox(rows: SessionRows, session: str) -> Inbox:
    from nacre.layers.l7_mail.shared_inbox import SharedInbox  # noqa: PLC0415 - only with a database
    from nacre.store.postgres.letter_rows import LetterRows  # noqa: PLC0415 - as above

    return SharedInbox(LetterRows(rows.database, rows.tenant, rows.user, session))


def check_person(*, store: str, tenant: str, user: str) -> None:
    """Raise `ConfigError` for a store without a person, or a tenant without a store."""
    if store and not (tenant and user):
        raise ConfigError("a database has the memories of many; name tenant= and user=")
    if tenant and not store:
        raise ConfigError("tenants are in a database; name it with its address, or leave out tenant=")
    if user and (not user.strip() or not user.isprintable()):
        raise ConfigError("user= takes a name of printable characters, such as an account's id")


def settings_of_person(settings: Settings, user: str) -> Settings:
    """Return settings with a home of one person's own below the home."""
    home = settings.home / USERS / _folder_name(user)
    location = Location(
        directory=home / "memory",
        source="path",
        history=home / "history" / "memory.git",
        cache=home / "cache" / "memory",
    )
    return settings_at(settings, home, location)


def copies_of_user(folder: Path, rows: SessionRows) -> Path:
    """Return the home with the copies of a user's sessions."""
    return folder / folder_of_user(rows.tenant, rows.user)


def folder_of_user(tenant: str, user: str) -> str:
    """Return the folder of a user's sessions among the copies; it does not tell the name."""
    return f"{USERS}/" + _folder_name(f"{tenant}\n{user}")


def settings_at(settings: Settings, home: Path, location: Location) -> Settings:
    """Return settings with the home and the memory of one person."""
    memory = replace(settings.memory, location=location, home=None, remote_directory=None, team=False)
    return replace(settings, home=home, memory=memory)


def _folder_name(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return name
    return f"id={hashlib.blake2b(name.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"
