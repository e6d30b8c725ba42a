"""A way in for other sessions of the same person: a socket whose letters go to this session's inbox (A3)."""

from __future__ import annotations

from pathlib import Path

FOLDER = "run"
ENDING = ".sock"


ID_CHARS = 8
"""Of a session's id: a socket's path must be short."""


def socket_path(home: Path, session: str) -> Path:
    """Where a session listens while it is open."""
    return home / FOLDER / f"{session[:ID_CHARS]}{ENDING}"
