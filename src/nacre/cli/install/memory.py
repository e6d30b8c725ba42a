"""Share one memory between nacre and Claude Code: the setting, and the copy of memories (M1)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from nacre.app.memory_locations import decided_by, memory_paths, memory_place
from nacre.cli.install.claude_code import FileChange, added, removed, standing
from nacre.cli.install.json_edit import Addition
from nacre.integrations.claude_code.input import client_home, settings_for
from nacre.memory.files.location import memory_base
from nacre.memory.transfer.copy_home import HomeCopy
from nacre.settings import Settings, load

KEY = ("memoryHome",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """The changes that share one memory or undo that; None if there are none."""

    change: FileChange | None = None
    passage: HomeCopy | None = None


def sharing(environ: Mapping[str, str], cwd: Path) -> Sharing:
    """Return the changes that let nacre use the memory of the client's hooks."""
    own = load(cwd, environ)
    theirs = settings_for(cwd, environ)
    old = memory_base(memory_paths(own))
    new = memory_base(memory_paths(theirs))
    if old == new:
        return Sharing()
    return Sharing(
        change=added(_file(own), [Addition(keys=KEY, value=str(new))], client_home(environ)),
        passage=HomeCopy(old=old, new=new, keeps_index=own.memory.keeps_index, leaves_local=True),
    )


def unsharing(environ: Mapping[str, str], cwd: Path) -> Sharing:
    """Return the change that removes the setting if it is still as written; memories stay."""
    own = load(cwd, environ)
    client = client_home(environ)
    if standing(_file(own), KEY, client) != str(client):
        return Sharing()
    return Sharing(
        change=removed(_file(own), client),
        passage=HomeCopy(
            old=client, new=Path(os.path.realpath(own.home)), keeps_index=own.memory.keeps_index
        ),
    )


def where_it_is(environ: Mapping[str, str], cwd: Path) -> str:
    """Say where the memory of this project is for both programs, and which setting decides that."""
    own = load(cwd, environ)
    theirs = settings_for(cwd, environ)
    here = memory_place(own, "project")
    there = memory_place(theirs, "project")
    if here.directory == there.directory:
        return f"One memory for both, below {memory_base(memory_paths(own))} ({decided_by(own, here)})"
    return (
        f"This project's memory is {there.directory} in Claude Code ({decided_by(theirs, there)}), but "
        f"{here.directory} in nacre ({decided_by(own, here)})"
    )


def still_shared(environ: Mapping[str, str], cwd: Path) -> str:
    """Say that nacre still uses the client's memory because the user configured it; else nothing."""
    own = load(cwd, environ)
    if not own.memory.home or memory_base(memory_paths(own)) != client_home(environ):
        return ""
    return f"nacre goes on using the memory in {own.memory.home} (memoryHome: {own.origin('memoryHome')})"


def aside(environ: Mapping[str, str], cwd: Path) -> str:
    """Say which home nacre uses without the client's variable, and how to share that one; else nothing."""
    own = load(cwd, environ)
    usual = Path(environ.get("HOME") or Path.home()) / ".nacre"
    if own.origin("home") != "environment CLAUDE_CONFIG_DIR" or not usual.is_dir():
        return ""
    return (
        f"Where CLAUDE_CONFIG_DIR is not set, nacre's home is {usual}; to have it share that memory, too: "
        f"NACRE_HOME={quote(str(usual))} nacre install claude-code"
    )


def _file(own: Settings) -> Path:
    return own.home / "settings.json"
