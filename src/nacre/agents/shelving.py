"""Where a session keeps tool results, and where sessions it goes on with kept theirs (C8)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from nacre.messages.blocks import Json
from nacre.store.results import FOLDER, Shelf


def shelf_in(folder: Path | None) -> Shelf:
    """The shelf of a session; one that leaves nothing on disk has none to speak of."""
    return Shelf(folder / FOLDER if folder else None)


def shelves_named(folders: Iterable[Json], home: Path) -> set[Path]:
    """Of the folders a log names, those that sessions of this home keep results in.

    A branch goes on with what its origin kept; but a log can come from anywhere, and must open nothing else.
    """
    places = {Path(os.path.normpath(str(folder))) for folder in folders}
    return {one for one in places if one.name == FOLDER and one.is_relative_to(home / "projects")}
