"""Memories of many users in a database: a call works on the spaces of the key of its request (S8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from nacre import prompts
from nacre.app.memory_locations import MemoryPlaces, Whose
from nacre.integrations.mcp_server.base import CALLER, Answer, Offered, ServerOptions
from nacre.integrations.mcp_server.project import Project, Projects
from nacre.memory.checks.local_only import LocalOnlyEntries
from nacre.memory.files.location import Location
from nacre.memory.memory import Memory
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import CheckDrift
from nacre.messages.blocks import JsonObject
from nacre.settings import Settings
from nacre.tools.base import Tool, tool

SEND = prompts.load(__package__, "tool_mail_send_shared")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """The memory of one space, brought to the newest state."""

    memory: Memory
    changing: asyncio.Lock
    hidden: LocalOnlyEntries


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemories:
    """What one call works on."""

    settings: Settings
    project: SharedMemory
    """The space that the request or the tool names."""
    user: SharedMemory
    """The person's own, which may be the same."""
    team: SharedMemory | None
    session_logs: Callable[[], Awaitable[Sequence[Path]]]


OpenMemories: TypeAlias = Callable[[Mapping[str, Any], str | None], Awaitable[SharedMemories]]
"""Opens what a request may use: its ASGI scope, and the project that the tool names."""
SendLetter: TypeAlias = Callable[[Mapping[str, Any], str, str, str], Awaitable[JsonObject]]
"""Sends a letter: the ASGI scope of the request, the receiver, the text and its summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStore:
    """A database behind the tools."""

    open: OpenMemories
    send: SendLetter

    def projects(self, options: ServerOptions) -> Projects:
        return _SharedProjects(options, self.open)

    def mail_tool(self) -> Offered:
        """Return what writes to a session; clients have no mailbox of their own."""
        return Offered(_send(self.send), "Write to a session", idempotent=False)


class _SharedProjects(Projects):
    """Opens what the key of each request may use; the caller keeps it open within its limits."""

    def __init__(self, options: ServerOptions, open_: OpenMemories) -> None:
        super().__init__(options)
        self._open_memories = open_

    async def one(self, wanted: str | None = None) -> Project:
        return _SharedProject(await self._open_memories(CALLER.get().request, wanted), self.options)


class _SharedProject(Project):
    """The memories of one call, each with the index that its space keeps."""

    def __init__(self, opened: SharedMemories, options: ServerOptions) -> None:
        self._memories: dict[Whose, SharedMemory] = {"project": opened.project, "user": opened.user}
        if opened.team is not None:
            self._memories["team"] = opened.team
        project = opened.project.memory.location
        places = MemoryPlaces(
            project=project,
            user=opened.user.memory.location,
            team=opened.team.memory.location if opened.team else project,
            has_team=opened.team is not None,
        )
        super().__init__(opened.settings, options, places=places, clock=opened.project.memory.clock)
        self._session_logs = opened.session_logs

    def changing(self, whose: Whose) -> asyncio.Lock:
        return self._memories[whose].changing

    async def session_logs(self) -> list[Path]:
        return [*await self._session_logs()]

    def scopes(self, only: Whose | None = None) -> tuple[Whose, ...]:
        if only is None and self.places.user == self.places.project:
            return ("project",)
        return super().scopes(only)

    async def staying(self) -> LocalOnlyEntries:
        return LocalOnlyEntries(tuple(one for each in self._memories.values() for one in each.hidden.entries))

    async def hidden(self, whose: Whose) -> frozenset[str]:
        return self._memories[whose].hidden.files

    async def writing(self, whose: Whose) -> Memory:
        return self.reading(whose)

    def begin(self) -> None:
        """The index is loaded by the first search, and kept with its space."""

    async def _is_indexed(self) -> bool:
        return True

    def _ranker(self, place: Location) -> LocalIndex:
        return next(each.memory.ranker for each in self._memories.values() if each.memory.location is place)

    def _drift(self) -> CheckDrift | None:
        return None  # the files that a memory names are on the clients' machines

    def _reading(self, whose: Whose) -> Memory:
        self.place(whose)
        return self._memories[whose].memory


def _send(deliver: SendLetter) -> Tool:
    @tool(name="mail_send", description=SEND)
    async def send(
        to: Annotated[str, "The beginning of a session's id."],
        message: Annotated[str, "The letter."],
        summary: Annotated[str | None, "One line for display; else the first line."] = None,
    ) -> Answer:
        sent = await deliver(CALLER.get().request, to, message, summary or "")
        return Answer.of(f"Sent to session {to}; it waits until an agent reads it there.", sent)

    return send
