"""Resolve the setting `memory.teamRemote`: a git remote by name or address, or a folder (M18)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError
from nacre.memory.files.location import Location
from nacre.memory.team.folder import LOCK_WAIT, FolderRemote
from nacre.memory.team.git import GitRemote
from nacre.memory.team.remote import REPOSITORY, TeamRemote
from nacre.tools.git import SECONDS, run_git

SETTING = "memory.teamRemote"
FOLDER = "folder:"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_URL = re.compile(r"(?:https?|ssh|git|file)://(?!-)\S+")
_SCP = re.compile(r"(?:\w[\w.-]*@)?\w[\w.-]*:(?!:|//|-)\S+")
_PROGRAM = re.compile(r"[A-Za-z0-9+.-]*::")
"""`ext::` and similar: an address that starts a program."""


async def remote_of(
    setting: str | None, team: Location, *, clock: Clock = SYSTEM_CLOCK, seconds: float | None = None
) -> TeamRemote:
    """Return the remote of a team's memory; `seconds` limits each step."""
    text = (setting or "").strip()
    if not text:
        raise ConfigError(
            f"there is no place to share the team's memory through; set {SETTING} to the name of a git "
            "remote of the project, to an address, or to folder:/path"
        )
    if text.startswith(FOLDER):
        # An unknown user's ~ stays and is refused.
        folder = Path(os.path.expanduser(text.removeprefix(FOLDER)))  # noqa: ASYNC240, PTH111
        if not folder.is_absolute() or "\0" in text:
            raise ConfigError(
                f"{SETTING}: a folder is named by its whole path, such as folder:/mnt/team/memory"
            )
        return FolderRemote(folder, clock=clock, wait=LOCK_WAIT if seconds is None else seconds)
    address = text if _is_address(text) else await _named(text, team.root)
    repository = team.cache / REPOSITORY
    return GitRemote(address, repository, clock=clock, seconds=SECONDS if seconds is None else seconds)


def _is_address(text: str) -> bool:
    """Return whether this is an address that git may use unchanged; an unsafe one is refused."""
    if text.startswith("-") or _PROGRAM.match(text) or not text.isprintable():
        raise ConfigError(
            f"{SETTING} is nothing that git may be given; use a name, an address or folder:/path"
        )
    if text.startswith("~/"):
        raise ConfigError(f"{SETTING}: write the path out, or say folder:{text} if it is a plain folder")
    return text.startswith("/") or bool(_URL.fullmatch(text) or _SCP.fullmatch(text))


async def _named(name: str, root: Path | None) -> str:
    """Return the address of a remote in the project's git configuration, checked like a typed one."""
    if not _NAME.fullmatch(name) or root is None:
        raise ConfigError(f"{SETTING} is {name!r}, which is no name, no address and no folder:/path")
    asked = await run_git(root, "config", "--local", "--no-includes", "--get", f"remote.{name}.url")
    address = asked.out.decode(errors="replace").strip()
    if asked.code or not address:
        raise ConfigError(
            f"{root} has no git remote called {name!r}; `git remote -v` lists those there are, and "
            f"{SETTING} also takes an address or folder:/path"
        )
    try:
        is_address = _is_address(address)
    except ConfigError as error:
        raise ConfigError(
            f"the git remote {name!r} of {root} is not used: its address would start a program"
        ) from error
    # Anything else than an address is a path relative to the project.
    return address if is_address else str(root / address)
