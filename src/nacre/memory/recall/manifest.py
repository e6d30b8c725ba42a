"""The memories a selector chooses from: a line each, newest first, each name meaning one file (R3, R4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from nacre.memory.files.folder import TEAM, TEAM_PREFIX
from nacre.memory.files.scan import manifest_line
from nacre.memory.format import entry as wording
from nacre.memory.recall.base import Ranked
from nacre.messages.untrusted_text import neutralise

MAX_MANIFEST_LINES = 200
"""What a small model reads in one go without losing the middle (R3)."""
MAX_MANIFEST_CHARS = 100_000
"""About 25,000 tokens: 200 lines are far shorter unless somebody made them long on purpose."""
USER_PREFIX = "user/"
"""How a file of the person's own memory for all projects is called beside a project's."""
_USER_FOLDER = "memory"
_PROJECTS = "projects"
"""A project's memory lies in `projects/<slug>/memory`, the person's in `memory` right below the home."""
_NO_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is shown, and which memory each name in it means."""

    text: str
    names: Mapping[str, Ranked]


def manifest(candidates: Sequence[Ranked]) -> Manifest:
    """The first 200 candidates, newest first; where there are more, the ranking has chosen (R9)."""
    names: dict[str, Ranked] = {}
    lines: list[tuple[datetime, str, str]] = []
    room = MAX_MANIFEST_CHARS
    for name, ranked in _named(candidates):
        line = manifest_line(replace(ranked.entry, file=name, description=_plain(ranked.entry.description)))
        room -= len(line) + 1
        if room < 0 or len(lines) == MAX_MANIFEST_LINES:
            break
        names[name] = ranked
        lines.append((ranked.entry.written or _NO_TIME, name, line))
    # By name first: the second sort keeps that order among files of one moment.
    lines.sort(key=lambda one: one[1])
    lines.sort(key=lambda one: one[0], reverse=True)
    return Manifest("\n".join(line for _, _, line in lines), names)


def _named(candidates: Sequence[Ranked]) -> Iterator[tuple[str, Ranked]]:
    """Each memory once, under a name that no other has: the short one, else the whole path."""
    prefixes = _prefixes(candidates)
    taken: set[str] = set()
    seen: set[Path] = set()
    for one in candidates:
        if one.path in seen:
            continue
        seen.add(one.path)
        for spelling in (prefixes[one.directory] + one.entry.file, str(one.path)):
            if (name := _plain(spelling)) not in taken:
                taken.add(name)
                yield name, one
                break


def _prefixes(candidates: Sequence[Ranked]) -> dict[Path, str]:
    """What stands before the files of each directory; one that is alone beside a team's needs nothing."""
    directories = dict.fromkeys(one.directory for one in candidates)
    own = [one for one in directories if one.name != TEAM]
    prefixes = {one: TEAM_PREFIX for one in directories if one.name == TEAM}
    return prefixes | {one: USER_PREFIX if len(own) > 1 and _is_users(one) else "" for one in own}


def _is_users(directory: Path) -> bool:
    return directory.name == _USER_FOLDER and directory.parent.parent.name != _PROJECTS


def _plain(text: str) -> str:
    """One line that cannot pass for the program's own words."""
    return neutralise(wording.one_line(text))
