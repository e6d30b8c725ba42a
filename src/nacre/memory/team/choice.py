"""Resolve where memory is shared: a git remote by name or address, or a folder (M18, M18b)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError
from nacre.memory.files.location import Location
from nacre.memory.team.folder import LOCK_WAIT, FolderRemote
from nacre.memory.team.git import TEAM_BRANCH, GitRemote
from nacre.memory.team.remote import REPOSITORY, TeamRemote
from nacre.tools.git import SECONDS, run_git

TEAM_SETTING = "memory.teamRemote"
OWN_SETTING = "memory.syncRemote"
FOLDER = "folder:"
MAX_NAME_CHARS = 100

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_URL = re.compile(r"(?:https?|ssh|git|file)://(?!-)\S+")
_SCP = re.compile(r"(?:\w[\w.-]*@)?\w[\w.-]*:(?!:|//|-)\S+")
_PROGRAM = re.compile(r"[A-Za-z0-9+.-]*::")
"""`ext::` and similar: an address that starts a program."""


async def remote_of(
    setting: str | None,
    place: Location,
    *,
    name: str = "",
    clock: Clock = SYSTEM_CLOCK,
    seconds: float | None = None,
) -> TeamRemote:
    """Return the remote of a team's memory, or of one's own; `seconds` limits each step.

    `name` is what the person's other machines call a project (`project_name`); without one it is derived.
    """
    text = (setting or "").strip()
    is_team = place.source == "team"
    key = TEAM_SETTING if is_team else OWN_SETTING
    if not text:
        whose = "the team's memory" if is_team else "your memory"
        by_name = "the name of a git remote of the project, to " if is_team else ""
        raise ConfigError(
            f"there is no place to share {whose} through; set {key} to {by_name}an address of a git "
            "repository, or to folder:/path"
        )
    part = "" if is_team else await part_of(place, name)
    if text.startswith(FOLDER):
        # An unknown user's ~ stays and is refused.
        folder = Path(os.path.expanduser(text.removeprefix(FOLDER)))  # noqa: ASYNC240, PTH111
        if not folder.is_absolute() or "\0" in text:
            raise ConfigError(f"{key}: a folder is named by its whole path, such as folder:/mnt/team/memory")
        wait = LOCK_WAIT if seconds is None else seconds
        return FolderRemote(folder, inside=part, clock=clock, wait=wait)
    # One's own memory never goes to a remote of a project, which others can read.
    address = text if _is_address(text, key) else await _named(text, place.root if is_team else None, key)
    return GitRemote(
        address,
        place.cache / REPOSITORY,
        branch=TEAM_BRANCH if is_team else f"nacre-memory-{part.replace('/', '-')}",
        clock=clock,
        seconds=SECONDS if seconds is None else seconds,
    )


async def part_of(place: Location, name: str = "") -> str:
    """Return what one's other machines call this memory: `user`, or `project/` and the project's name."""
    return "user" if place.source == "user" else f"project/{await project_name(place.root, name)}"


async def project_name(root: Path | None, name: str = "") -> str:
    """Return the name by which several machines know a project: the given one, or its `origin`'s."""
    if name:
        if not _PLAIN_NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot name a project; use letters, digits, '-', '_' and '.'")
        return name
    address = ""
    if root is not None:
        asked = await run_git(root, "config", "--local", "--no-includes", "--get", "remote.origin.url")
        address = "" if asked.code else asked.out.decode(errors="replace").strip()
    plain = re.sub(r"^\w+://", "", address).rpartition("@")[2].rstrip("/").removesuffix(".git")
    found = re.sub(r"[^A-Za-z0-9._]+", "-", plain).strip("-.")[-MAX_NAME_CHARS:].lower()
    if not found:
        raise ConfigError(
            "this project has no git remote `origin`, by which your other machines could know it; "
            "name it with --name, the same on each machine"
        )
    return found


def _is_address(text: str, key: str) -> bool:
    """Return whether this is an address that git may use unchanged; an unsafe one is refused."""
    if text.startswith("-") or _PROGRAM.match(text) or not text.isprintable():
        raise ConfigError(f"{key} is nothing that git may be given; use a name, an address or folder:/path")
    if text.startswith("~/"):
        raise ConfigError(f"{key}: write the path out, or say folder:{text} if it is a plain folder")
    return text.startswith("/") or bool(_URL.fullmatch(text) or _SCP.fullmatch(text))


async def _named(name: str, root: Path | None, key: str) -> str:
    """Return the address of a remote in the project's git configuration, checked like a typed one."""
    if not _NAME.fullmatch(name) or root is None:
        raise ConfigError(f"{key} is {name!r}, which is no address and no folder:/path")
    asked = await run_git(root, "config", "--local", "--no-includes", "--get", f"remote.{name}.url")
    address = asked.out.decode(errors="replace").strip()
    if asked.code or not address:
        raise ConfigError(
            f"{root} has no git remote called {name!r}; `git remote -v` lists those there are, and "
            f"{key} also takes an address or folder:/path"
        )
    try:
        is_address = _is_address(address, key)
    except ConfigError as error:
        raise ConfigError(
            f"the git remote {name!r} of {root} is not used: its address would start a program"
        ) from error
    # Anything else than an address is a path relative to the project.
    return address if is_address else str(root / address)
