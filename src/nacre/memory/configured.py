"""Which paths someone may configure for memory: none that opens up more than a folder of its own (M5)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import ConfigError

MIN_PARTS = 3
"""`/`, a folder, and one in it: a whole `/etc` or `/home` is nobody's memory."""

_DRIVE_ROOT = re.compile(r"[A-Za-z]:[\\/]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The two directories that memory must not take over; both real."""

    user_home: Path
    """What `~` means."""
    home: Path
    """nacre's own."""


def configured(text: str, name: str, *, bounds: Bounds, tilde: bool = False, is_base: bool = False) -> Path:
    """The real path that a setting or variable names, or a `ConfigError` that says what is wrong with it."""
    expanded = bounds.user_home / text[2:].lstrip("/") if tilde and text.startswith("~/") else Path(text)
    reason = _misspelt(text, expanded)
    if reason is None:
        # As it is written and as it is meant: neither may be too wide.
        spellings = (Path(os.path.normpath(expanded)), Path(os.path.realpath(expanded)))
        reason = next(filter(None, (_too_wide(path, bounds, is_base) for path in spellings)), None)
    if reason:
        raise ConfigError(
            f"{name} is {text!r}, which {reason}; name a folder of its own by its full path, "
            f"such as {bounds.user_home}/notes/memory"
        )
    return Path(os.path.realpath(expanded))


def _misspelt(text: str, expanded: Path) -> str | None:
    if "\0" in text:
        return "holds a NUL"
    if text.startswith(("\\\\", "//")):
        return "is a network path"
    if _DRIVE_ROOT.fullmatch(text):
        return "is a whole drive"
    if text in {"~", "~/", "~/.", "~/.."}:
        return "would make the whole home directory writable"
    if not expanded.is_absolute():
        return "is not a full path"
    return None


def _too_wide(path: Path, bounds: Bounds, is_base: bool) -> str | None:
    if len(path.parts) < MIN_PARTS:
        return "is the root of the disk or directly below it"
    if _holds(path, bounds.user_home):
        return "would make the whole home directory writable"
    # nacre's own files lie beside a memory, never in it; a base may well be the home under another name.
    if not is_base and _holds(path, bounds.home):
        return "would hold nacre's own files"
    return None


def _holds(path: Path, inner: Path) -> bool:
    """By name, or by what it is where case does not count in names."""
    return any(path == above or _is_same(path, above) for above in (inner, *inner.parents))


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
