"""Private memory and the team's as one: what is found in both, and which of the two a name means (M18)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nacre.errors import StoreError
from nacre.memory.files.folder import TEAM_PREFIX
from nacre.memory.format.entry import Entry
from nacre.memory.memory import MAX_FOUND, Memory, named, the_one
from nacre.memory.similarity import Found


@dataclass(frozen=True, slots=True)
class Scopes:
    """One person's memory of a project, and the team's if there is one."""

    private: Memory
    team: Memory | None = None

    async def search(self, query: str) -> list[Found]:
        """The entries of both that have to do with some words, best first."""
        found = list(await self.private.search(query))
        for one in await self.team.search(query) if self.team else ():
            theirs = replace(one.entry, file=f"{TEAM_PREFIX}{one.entry.file}")
            found.append(replace(one, entry=theirs))
        return sorted(found, key=lambda one: -one.score)[:MAX_FOUND]

    async def find(self, wanted: str) -> tuple[Memory, str, str]:
        """The memory that holds what is meant, its file there, and what comes before its name elsewhere."""
        team = self.team
        if team is None:
            return self.private, (await self.private.find(wanted)).file, ""
        if wanted.startswith(TEAM_PREFIX):
            return team, (await team.find(wanted.removeprefix(TEAM_PREFIX))).file, TEAM_PREFIX
        mine = [one.file for one in named(wanted, await self.private.list())]
        theirs = [one.file for one in named(wanted, await team.list())]
        if mine and theirs and wanted not in mine:
            several = ", ".join((*mine, *(f"{TEAM_PREFIX}{file}" for file in theirs)))
            raise StoreError(f"{wanted!r} may mean several memories: {several}; name the file")
        if theirs and not mine:
            return team, theirs[0], TEAM_PREFIX
        file = the_one(wanted, await self._entries()).file
        if file.startswith(TEAM_PREFIX):
            return team, file.removeprefix(TEAM_PREFIX), TEAM_PREFIX
        return self.private, file, ""

    async def _entries(self) -> list[Entry]:
        mine = await self.private.list()
        if self.team is None:
            return mine
        return [*mine, *(replace(one, file=f"{TEAM_PREFIX}{one.file}") for one in await self.team.list())]
