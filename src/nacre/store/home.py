"""nacre's home, and the name of the project folder of a working directory (M1, M2)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from nacre.errors import ConfigError

MAX_PLAIN_UNITS = 200
"""Longer slugs get a hash: most file systems refuse names over 255 bytes."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_KEPT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")


def slug(path: str) -> str:
    """Return the folder name of a path: every UTF-16 unit outside [A-Za-z0-9] becomes a dash."""
    # Lone surrogates represent undecodable bytes of a path; each counts as one unit.
    encoded = path.encode("utf-16-le", "surrogatepass")
    units = [encoded[i] | encoded[i + 1] << 8 for i in range(0, len(encoded), 2)]
    plain = "".join(chr(unit) if chr(unit) in _KEPT else "-" for unit in units)
    if len(plain) <= MAX_PLAIN_UNITS:
        return plain
    # The string hash of Java, common in JavaScript: 32-bit two's complement, here its absolute value.
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFF_FFFF
    number = 0x1_0000_0000 - value if value & 0x8000_0000 else value
    digits = ""
    while number or not digits:
        number, last = divmod(number, 36)
        digits = _DIGITS[last] + digits
    return f"{plain[:MAX_PLAIN_UNITS]}-{digits}"


def home(environ: Mapping[str, str]) -> Path:
    """Return nacre's home: NACRE_HOME, else CLAUDE_CONFIG_DIR, else ~/.nacre."""
    named = environ.get("NACRE_HOME") or environ.get("CLAUDE_CONFIG_DIR")
    if not named:
        return Path(environ.get("HOME") or Path.home()) / ".nacre"
    expanded = Path(named).expanduser()
    if not expanded.is_absolute():
        raise ConfigError(f"NACRE_HOME must be an absolute path or start with ~/, not {named!r}")
    return expanded


def canonical(cwd: str | os.PathLike[str]) -> str:
    """Return the working directory for the folder name: absolute, with symlinks resolved."""
    return os.path.realpath(cwd)


def same_folder(name: str, cwd_slug: str) -> bool:
    """Return whether a project folder may belong to this slug; runtimes differ in the hash (M2)."""
    if len(cwd_slug) <= MAX_PLAIN_UNITS:
        return name == cwd_slug
    return name[: MAX_PLAIN_UNITS + 1] == cwd_slug[: MAX_PLAIN_UNITS + 1] and len(name) > MAX_PLAIN_UNITS


def is_session_of(log_cwd: str | None, cwd: str) -> bool:
    """Return whether a log in the folder of a canonical directory is of it; two can share a slug (M2).

    `log_cwd` is the directory that the log names. A log from elsewhere was moved there by a person.
    """
    return log_cwd is None or canonical(log_cwd) == cwd or slug(canonical(log_cwd)) != slug(cwd)
