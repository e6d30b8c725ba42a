"""What `nacre serve` has at `/mcp`: one person's files, or the spaces of a key in a database (S8)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from nacre.app.memory_locations import all_places
from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject
from nacre.settings import Settings
from nacre.settings.values import MemorySettings

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from nacre.integrations.mcp_server.shared import SharedMemories, SharedMemory
    from nacre.server.administration import SendMail
    from nacre.server.api import MakeMcp, RecordMcpWrite
    from nacre.server.keys import ApiKey
    from nacre.server.spaces import Spaces


def files_mcp(settings: Settings) -> MakeMcp:
    """Return what makes the application for one person's files."""
    # Not the roots that a client names: they would be directories of this machine.
    roots = [place.root for place in all_places(settings) if place.root is not None and place.root.is_dir()]
    projects = tuple(dict.fromkeys((settings.cwd, *roots)))

    def make(can_write: bool, local: bool, record: RecordMcpWrite) -> Starlette:
        from nacre.integrations.mcp_server.base import ServerOptions
        from nacre.integrations.mcp_server.http import mcp_application

        asked = ServerOptions(
            projects=projects, cwd=settings.cwd, read_only=not can_write, local=local, on_write=record
        )
        return mcp_application(asked)

    return make


def database_mcp(settings: Settings, spaces: Spaces, mail: SendMail) -> MakeMcp:
    """Return what makes the application for a database: each request has its key in its scope."""
    opened = _Opened(settings, spaces, mail)

    def make(can_write: bool, local: bool, record: RecordMcpWrite) -> Starlette:
        from nacre.integrations.mcp_server.base import ServerOptions
        from nacre.integrations.mcp_server.http import mcp_application
        from nacre.integrations.mcp_server.shared import SharedStore

        asked = ServerOptions(read_only=not can_write, local=local, on_write=record)
        return mcp_application(asked, shared=SharedStore(open=opened.open, send=opened.send))

    return make


class _Opened:
    """Opens what the key of a request may use."""

    def __init__(self, settings: Settings, spaces: Spaces, mail: SendMail) -> None:
        # How one person of this machine wants their own memory does not count.
        self._settings = replace(settings, memory=MemorySettings())
        self._spaces = spaces
        self._mail = mail

    async def open(self, request: Mapping[str, Any], wanted: str | None) -> SharedMemories:
        """Open the space that the tool names, else the address with `?space=`, else the person's own."""
        from nacre.integrations.mcp_server.shared import SharedMemories
        from nacre.server.spaces import DEFAULT_SPACE, NAMED_KINDS
        from nacre.store.sessions import Sessions

        key = _key(request)
        asked = parse_qs(request.get("query_string", b"").decode("latin-1")).get("space", [])
        name = asked[-1] if asked else DEFAULT_SPACE
        if wanted:
            kind, colon, _ = wanted.partition(":")
            is_whole = wanted == DEFAULT_SPACE or (colon and kind in NAMED_KINDS)
            name = wanted if is_whole else f"project:{wanted}"
        project = await self._memory(key, name)
        user = project if name == DEFAULT_SPACE else await self._memory(key, DEFAULT_SPACE)
        team = name.replace("project:", "team:", 1) if name.startswith("project:") else ""
        has_team = bool(team) and (key.allows("member") or team in await self._spaces.names(key))

        async def session_logs() -> Sequence[Path]:
            if name != DEFAULT_SPACE:  # as in the API: a project here has no directory that sessions name
                return []
            home = (await self._spaces.home(key)).home
            return await asyncio.to_thread(lambda: [one.path for one in Sessions(home).list()])

        return SharedMemories(
            settings=self._settings,
            project=project,
            user=user,
            team=await self._memory(key, team) if has_team else None,
            session_logs=session_logs,
        )

    async def send(self, request: Mapping[str, Any], to: str, text: str, summary: str) -> JsonObject:
        """Send a letter in the name of the key's user."""
        from pydantic import ValidationError

        from nacre.server.schema import MailText

        try:
            letter = MailText(to=to, text=text, summary=summary)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise ToolError(f"{first['loc'][0]}: {first['msg']}") from error
        return await self._mail(_key(request), letter)

    async def _memory(self, key: ApiKey, name: str) -> SharedMemory:
        from nacre.integrations.mcp_server.shared import SharedMemory

        space = await self._spaces.open(key, name)
        return SharedMemory(memory=space.memory, changing=space.changing, hidden=await space.hidden(key))


def _key(request: Mapping[str, Any]) -> ApiKey:
    from nacre.server.api import KEY

    found: ApiKey = request[KEY]
    return found
