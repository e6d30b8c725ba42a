"""Find a session log by id, id prefix or `latest`."""

from __future__ import annotations

from pathlib import Path

from nacre.errors import SessionNotFound
from nacre.settings import Settings
from nacre.store.sessions import Sessions

LATEST = "latest"


def find_session(settings: Settings, wanted: str) -> Path:
    """Return the path of the log; raises `SessionNotFound` with the alternatives."""
    if wanted != LATEST:
        return Sessions(settings.home).find(wanted)
    newest = Sessions(settings.home).latest(settings.cwd)
    if newest is None:
        raise SessionNotFound(
            f"there is no session in {settings.cwd} yet; `nacre sessions list --all` shows others"
        )
    return newest
