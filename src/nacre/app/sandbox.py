"""The sandbox of a session, from its settings."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.errors import ConfigError
from nacre.settings import Settings
from nacre.settings.values import ListEntry

if TYPE_CHECKING:
    from nacre.tools.sandbox import Sandbox


def session_sandbox(settings: Settings) -> Sandbox:
    """Return the sandbox for commands; directories that count as part of the project are writable."""
    from nacre.tools.sandbox import Sandbox, homes  # noqa: PLC0415 - off by default

    given = settings.sandbox
    root = settings.project_root
    return Sandbox(
        root=root.resolve(),
        homes=homes(settings.home, settings.environ),
        readable=real_directories(root, given.readable),
        writable=real_directories(root, (*given.writable, *settings.permissions.additional_directories)),
        network=given.network,
    )


def missing_directories(settings: Settings) -> str:
    """Return a line on directories for the sandbox that do not exist; empty if there are none."""
    given = settings.sandbox
    root = settings.project_root
    lists = {"sandbox.readable": given.readable, "sandbox.writable": given.writable}
    missing = [
        f"{name} {path}"
        for name, listed in lists.items()
        for path in real_directories(root, listed)
        if not path.exists()
    ]
    what = "a directory that does not exist" if len(missing) == 1 else "directories that do not exist"
    return f"the settings name {what} for the sandbox: {', '.join(missing)}" if missing else ""


def real_directories(root: Path, listed: Iterable[ListEntry]) -> tuple[Path, ...]:
    """Return directories of a setting as real paths; relative ones start at the project."""
    found = []
    for one in listed:
        try:
            found.append(Path(os.path.realpath(root / Path(one.text).expanduser())))
        except (RuntimeError, ValueError, OSError) as error:
            raise ConfigError(f"{one.origin}: {one.text!r} names no directory ({error})") from None
    return tuple(found)
