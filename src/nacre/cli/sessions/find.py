"""Which log a person means by an id, the beginning of one, or `latest`."""

from __future__ import annotations

from pathlib import Path

from nacre.errors import SessionNotFound
from nacre.settings import Settings
from nacre.store.sessions import Sessions

LATEST = "latest"


def find_session(settings: Settings, wanted: str) -> Path:
    """The path of its log; raises `SessionNotFound` with what there is instead."""
    if wanted != LATEST:
        return Sessions(settings.home).find(wanted)
    newest = Sessions(settings.home).latest(settings.cwd)
    if newest is None:
        raise SessionNotFound(
            f"there is no session in {settings.cwd} yet; `nacre sessions list --all` shows others"
        )
    return newest
