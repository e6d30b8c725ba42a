"""Tool results on disk beside a session's log: one file a call, written once, read back, pruned (C4, C8)."""

from __future__ import annotations

from pathlib import Path

FOLDER = "tool-results"
"""Where a session keeps them, beside its log."""


class Shelf:
    """The results of one session that are on disk; without a folder nothing can be kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def path(self, call_id: str, *, structured: bool = False) -> Path | None:
        """Where the result of a call is or would be; an id can hold anything, a file name cannot."""
        raise NotImplementedError

    def put(self, call_id: str, text: str, *, structured: bool = False) -> Path:
        """Keep a text whole; the same id keeps what it has. Raises `StoreError` when the disk refuses."""
        raise NotImplementedError
