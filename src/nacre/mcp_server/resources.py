"""Memory as resources: the index and every memory that somebody vouches for, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from nacre.agents.memory_places import Whose
from nacre.mcp_server.memory_tools import in_scope, read_memory
from nacre.mcp_server.project import Project
from nacre.memory.directory import INDEX_FILE
from nacre.memory.neutral import one_line

BASE = "nacre://memory/"
PAGE = 200
"""Resources told at once: what a person can choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One resource in a listing."""

    uri: str
    name: str
    description: str
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some of all resources, and where the next page begins; nothing where there is none."""

    items: tuple[Described, ...] = ()
    cursor: str | None = None


async def listed(project: Project, after: str | None = None) -> Page:
    """The resources behind a cursor: indexes first, then memories by name.

    What nobody vouches for is not offered: its own words would stand in the listing (M16b).
    """
    if not project.settings.memory.is_on:
        return Page()
    scopes: list[Whose] = ["project", "team", "user"] if project.places.has_team else ["project", "user"]
    found: dict[str, Described] = {}
    for whose in scopes:
        if project.place(whose).directory.is_dir():
            index = in_scope(whose, INDEX_FILE)
            found[f"0{index}"] = _described(index, f"The index of the {whose}'s memory", "One line a memory.")
            for entry in await project.entries(whose):
                if entry.origin != "untrusted":
                    name = in_scope(whose, entry.file)
                    found[f"1{name}"] = _described(name, entry.title, entry.description, size=entry.bytes)
    keys = sorted(key for key in found if after is None or key > after)
    cursor = keys[PAGE - 1] if len(keys) > PAGE else None
    return Page(tuple(found[key] for key in keys[:PAGE]), cursor)


async def read(project: Project, uri: str) -> str:
    """What stands behind an address of `listed`; `StoreError` when nothing does."""
    return await read_memory(project, name_of(uri))


def name_of(uri: str) -> str:
    """The name of a memory as the tools take it."""
    return unquote(uri.removeprefix(BASE))


def _described(name: str, title: str, description: str, *, size: int | None = None) -> Described:
    return Described(
        uri=BASE + quote(name, safe="/:"), name=one_line(title), description=one_line(description), bytes=size
    )
