"""Text in the user's own editor, while the screen is suspended."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from nacre.app.editor import edited_by_hand
from nacre.errors import ConfigError, NacreError


def edited_elsewhere(app: App[Any], name: str, text: str) -> str:
    """Return the text as the user's editor saved it."""
    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        copy = Path(folder) / name
        copy.write_text(text, encoding="utf-8")
        failed: NacreError | None = None
        try:
            with app.suspend():
                # An error that left this block would leave the screen suspended.
                try:
                    edited_by_hand(copy)
                except NacreError as error:
                    failed = error
        except SuspendNotSupported:
            failed = ConfigError("this terminal cannot run an editor; edit here")
        if failed is not None:
            raise failed
        return copy.read_text(encoding="utf-8", errors="replace")
