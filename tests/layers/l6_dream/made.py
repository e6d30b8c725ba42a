"""What the tests of layer 6 share: memories, directories, and a dream by rule."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from nacre.layers.l6_dream.by_rule import DreamRules
from nacre.layers.l6_dream.dream import DreamConfig
from nacre.memory.dates.relative import resolve_dates
from nacre.memory.files.location import Location

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def topic(
    name: str,
    body: str,
    *,
    description: str = "",
    kind: str = "project",
    modified: str = "2026-03-02T10:00:00Z",
    **more: str,
) -> bytes:
    """A memory as a file has it."""
    head = {
        "name": name,
        "description": description or body.split(".")[0],
        "type": kind,
        "modified": modified,
    }
    lines = "".join(f"{key}: {value}\n" for key, value in {**head, **more}.items())
    return f"---\n{lines}---\n\n{body}\n".encode()


DEPLOYS = topic(
    "Deploys",
    "Deploys go out on Tuesdays through the pipeline after two approvals from the platform group.",
)
OTHERS = {
    f"topic_{n}.md": topic(
        f"Hobby {word}", f"The person likes {word} and talks about it at length.", kind="user"
    )
    for n, word in enumerate(
        ("sailing", "chess", "pottery", "beekeeping", "calligraphy", "fencing", "falconry", "origami")
    )
}
FILES: Mapping[str, bytes] = {
    "MEMORY.md": b"# Memory\n\n- [Gone](gone.md) - nothing\n- [Deploys](deploys.md) - when\n",
    "deploys.md": DEPLOYS,
    "deploys_again.md": DEPLOYS,
    **OTHERS,
}
"""One memory twice, an index with a line to nothing, and eight memories that it does not list."""


def laid(base: Path, files: Mapping[str, bytes] = FILES) -> Location:
    """A memory directory with these files."""
    location = Location(
        directory=base / "memory", source="default", history=base / "history" / "m.git", cache=base / "cache"
    )
    for file, data in files.items():
        path = location.directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    location.directory.mkdir(parents=True, exist_ok=True)
    return location


def night(location: Location, **more: object) -> DreamConfig:
    """A dream by rule of this directory."""
    return DreamConfig(location=location, rules=DreamRules(now=NOW, resolve=resolve_dates), **more)  # type: ignore[arg-type]


def held(location: Location) -> dict[str, bytes]:
    """What the directory holds, but for what is hidden."""
    paths = (path for path in location.directory.rglob("*.md") if path.is_file())
    return {path.relative_to(location.directory).as_posix(): path.read_bytes() for path in paths}
