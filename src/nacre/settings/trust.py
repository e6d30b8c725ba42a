"""Which directories the user trusts: a short list in the home, by canonical path.

Trust holds for exactly one directory, so that a repository cloned below a trusted one is not trusted with it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import ConfigError, StoreError
from nacre.settings.values import Problem
from nacre.store import disk
from nacre.store.locks import one_writer

FILE = "trust.json"
DECLINED_FILE = "declined.json"
"""Directories the user was asked about and did not trust; they are not asked again."""


@dataclass(frozen=True, slots=True)
class Trusted:
    """The list as read, and what was wrong with its file."""

    directories: frozenset[str] = frozenset()
    problem: Problem | None = None


def is_trusted(home: Path, directory: Path) -> bool:
    """Whether the user trusts this very directory."""
    return canonical(directory) in read_trusted(home).directories


def trust(home: Path, directory: Path) -> None:
    """Add a directory to the list; a list that cannot be read is left alone and the user is told."""
    _add(home, FILE, directory)


def decline(home: Path, directory: Path) -> None:
    """Remember that the user does not trust a directory."""
    _add(home, DECLINED_FILE, directory)


def is_declined(home: Path, directory: Path) -> bool:
    """Whether the user was asked about this directory and said no."""
    return canonical(directory) in read_trusted(home, DECLINED_FILE).directories


def _add(home: Path, name: str, directory: Path) -> None:
    path = home / name
    try:
        with one_writer(path):
            trusted = read_trusted(home, name)
            if trusted.problem is not None:
                raise ConfigError(trusted.problem.line)
            if canonical(directory) in trusted.directories:
                return
            listed = sorted({*trusted.directories, canonical(directory)})
            text = json.dumps(listed, indent=2, ensure_ascii=False) + "\n"
            disk.replace_file(path, os.fsencode(text), temp_name=f".{name}.tmp")
    except StoreError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); check its permissions") from error


def read_trusted(home: Path, name: str = FILE) -> Trusted:
    """The list; a file that is not one counts as empty and is reported, never deleted."""
    path = home / name
    try:
        value = json.loads(os.fsdecode(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return Trusted()
    except (OSError, ValueError, RecursionError):
        return Trusted(problem=_unreadable(path))
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return Trusted(problem=_unreadable(path))
    return Trusted(frozenset(value))


def canonical(directory: Path) -> str:
    """The one spelling of a directory: absolute, links resolved."""
    return str(directory.resolve())


def _unreadable(path: Path) -> Problem:
    message = "not a JSON list of directories, so nothing is trusted; correct it or move it away"
    return Problem(str(path), message, is_error=False)
