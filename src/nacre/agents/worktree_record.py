"""Whose a worktree is: a small file beside it, there before it and gone after it, so that none is lost."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from nacre.clock import Clock
from nacre.messages.blocks import JsonObject
from nacre.process import is_alive, start_time
from nacre.store import disk

FOLDER = "worktrees"
"""Below nacre's home: a folder for each repository, with its worktrees and their records."""
MAX_BYTES = 65_536
"""A longer one was not written by nacre."""
_NAME = "agent-*.json"
State: TypeAlias = Literal["making", "ready"]
"""`making`: nobody can have worked in it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """Where an agent works."""

    path: Path
    branch: str
    base: str
    """The commit it was made from."""
    repository: Path
    """The directory it was made for, in the repository's main checkout or another one."""
    inside: str = ""
    """Where in its checkout that directory lies."""

    @property
    def cwd(self) -> Path:
        """The same place in here, where the commit has it."""
        place = self.path / self.inside
        return place if place.is_dir() else self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A worktree, and who had it made."""

    tree: Worktree
    state: State = "making"
    session: str = ""
    pid: int = 0
    start: str = ""
    """What tells the process from another one of its number."""
    host: str = ""
    at: datetime

    @property
    def is_ownerless(self) -> bool:
        """Whether the process is gone; of another machine's nobody here can say."""
        return self.host == socket.gethostname() and not is_alive(self.pid, self.start)


def our_record(tree: Worktree, session: str, clock: Clock) -> Record:
    """The record of a worktree that this process makes."""
    pid = os.getpid()
    host = socket.gethostname()
    return Record(tree=tree, session=session, pid=pid, start=start_time(pid), host=host, at=clock.now())


def record_path(path: Path) -> Path:
    """Where the record of a worktree lies."""
    return path.with_name(f"{path.name}.json")


def write_record(record: Record) -> None:
    """Put it there, whole or not at all."""
    tree = record.tree
    path = record_path(record.tree.path)
    facts: JsonObject = {
        "state": record.state,
        "branch": tree.branch,
        "base": tree.base,
        "repository": str(tree.repository),
        "inside": tree.inside,
        "session": record.session,
        "pid": record.pid,
        "processStart": record.start,
        "host": record.host,
        "at": record.at.isoformat(),
    }
    data = json.dumps(facts, indent=1).encode() + b"\n"
    disk.replace_file(path, data, temp_name=f".{path.name}.tmp")


def records(home: Path) -> Iterator[Record]:
    """All there are below a home, those of processes at work included; what is no record is passed over."""
    for path in sorted((Path(os.path.realpath(home)) / FOLDER).glob(f"*/{_NAME}")):
        found = _read(path)
        if found is not None:
            yield found


def _read(path: Path) -> Record | None:
    try:
        with os.fdopen(disk.open_regular(path, os.O_RDONLY), "rb") as file:
            facts = json.loads(file.read(MAX_BYTES))
        return _parsed(path.with_suffix(""), facts)
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None


def _parsed(path: Path, facts: JsonObject) -> Record:
    state = str(facts["state"])
    at = datetime.fromisoformat(str(facts["at"]))
    pid = facts["pid"]
    words = {key: str(facts[key]) for key in ("branch", "base", "repository", "inside")}
    if state not in get_args(State) or type(pid) is not int or not words["branch"]:
        raise ValueError("no record")
    return Record(
        tree=Worktree(path=path, repository=Path(words.pop("repository")), **words),
        state=cast("State", state),
        session=str(facts["session"]),
        pid=pid,
        start=str(facts["processStart"]),
        host=str(facts["host"]),
        at=at if at.tzinfo else at.replace(tzinfo=UTC),
    )
