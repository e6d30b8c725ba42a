"""Clones of one project that share a team's memory, and the places they share it through."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from nacre.clock import Clock
from nacre.memory.files.location import Location, MemoryPaths, locate, team_location
from nacre.memory.format.entry import Kind, MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.memory.team.choice import remote_of
from nacre.memory.team.sync import SyncReport, sync

BY_HAND = MemoryChange(author="user", reason="by hand")
BRANCH = "nacre-team-memory"


def git(*arguments: str, stdin: bytes = b"") -> str:
    """Run git as nobody in particular, with nobody's settings."""
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip
    ran = subprocess.run(["git", *arguments], input=stdin, capture_output=True, check=True, env=environ)
    return ran.stdout.decode().strip()


def bare_repository(path: Path) -> Path:
    git("init", "--quiet", "--bare", str(path))
    return path


def clone(repository: Path, path: Path) -> Path:
    git("clone", "--quiet", str(repository), str(path))
    return path


@dataclass(frozen=True)
class Clone:
    """One person's copy: a home and a project of their own."""

    location: Location
    place: str
    clock: Clock

    @classmethod
    async def made(cls, base: Path, name: str, place: str, clock: Clock) -> Clone:
        (base / name).mkdir(parents=True, exist_ok=True)
        project = locate(MemoryPaths(home=base / f"home-{name}", cwd=base / name))
        one = cls(team_location(project), place, clock)
        await one.memory()
        return one

    async def memory(self) -> Memory:
        return await Memory.at(self.location, self.location.directory, clock=self.clock)

    async def save(self, file: str, text: str, *, kind: Kind | None = "project") -> None:
        draft = MemoryDraft(body=text, file=file, name=file.removesuffix(".md"), kind=kind)
        await (await self.memory()).save(draft, BY_HAND)

    async def forget(self, file: str) -> None:
        await (await self.memory()).forget(file, BY_HAND)

    def write(self, file: str, text: str) -> None:
        """With any editor."""
        path = self.location.directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    async def sync(self, *, is_dry: bool = False) -> SyncReport:
        remote = await remote_of(self.place, self.location, clock=self.clock)
        return await sync(self.location, remote, clock=self.clock, is_dry=is_dry)

    def lose_record(self) -> None:
        (self.location.cache / "team.json").unlink()

    @property
    def files(self) -> dict[str, str]:
        root = self.location.directory
        return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(root.rglob("*.md"))}

    @property
    def bodies(self) -> dict[str, str]:
        """What each memory says, without its head."""
        return {
            file: text.rpartition("---\n")[2].strip()
            for file, text in self.files.items()
            if not file.endswith("MEMORY.md")
        }
