"""Which directories the user trusts: a short list in the home, by canonical path.

Trust holds for exactly one directory, so that a repository cloned below a trusted one is not trusted with it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import ConfigError, StoreError
from nacre.messages.blocks import Json
from nacre.settings.values import SettingsProblem
from nacre.store import disk
from nacre.store.locks import one_writer

FILE = "trust.json"
DECLINED_FILE = "declined.json"
"""Directories the user was asked about and did not trust; they are not asked again."""


@dataclass(frozen=True, slots=True)
class Trusted:
    """The list as read, and what was wrong with its file."""

    directories: frozenset[str] = frozenset()
    problem: SettingsProblem | None = None


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


def _unreadable(path: Path) -> SettingsProblem:
    message = "not a JSON list of directories, so nothing is trusted; correct it or move it away"
    return SettingsProblem(str(path), message, is_error=False)


CONSENT_FILE = "consent.json"
_FOLDER = "/"
"""How a folder ends; consent for a file does not become one for a folder that takes its name."""


def consented(home: Path, root: Path) -> frozenset[Path]:
    """Real paths outside a project that its instructions may name; a folder stands for all below it.

    A file that cannot be read counts as no consent at all: then the person is asked again.
    """
    try:
        return frozenset(
            _real(text) for text in _read(home / CONSENT_FILE).get(canonical(root), []) if _holds(text)
        )
    except ConfigError:
        return frozenset()


def consent(home: Path, root: Path, path: Path) -> Path:
    """Remember that a project may pull in a file or a folder; returns the real path that was meant."""
    real = Path(os.path.realpath(path))
    if not real.exists():
        raise ConfigError(f"there is no {path} to allow; `nacre instructions list` shows what waits")
    _change(home, root, add=str(real) + _FOLDER * real.is_dir())
    return real


def withdraw(home: Path, root: Path, path: Path) -> bool:
    """Take consent back; says whether there was any."""
    real = os.path.realpath(path)
    named = {str(path), real, str(path) + _FOLDER, real + _FOLDER}
    return _change(home, root, drop=frozenset(named))


def _change(home: Path, root: Path, *, add: str = "", drop: frozenset[str] = frozenset()) -> bool:
    """Whether the list is another one now."""
    path = home / CONSENT_FILE
    try:
        with one_writer(path):
            known = _read(path)
            before = known.get(canonical(root), [])
            after = sorted(({*before} | ({add} if add else set())) - drop)
            if after == sorted(before):
                return False
            kept = {name: texts for name, texts in {**known, canonical(root): after}.items() if texts}
            text = json.dumps(kept, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            disk.replace_file(path, os.fsencode(text), temp_name=f".{FILE}.tmp")
    except StoreError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(disk.explain(error, path)) from error
    return True


def _real(text: str) -> Path:
    return Path(text.rstrip(_FOLDER))


def _holds(text: str) -> bool:
    """Whether what was agreed to is still what it was: a folder, or no folder, at this very place."""
    path = _real(text)
    return os.path.realpath(path) == str(path) and path.is_dir() == text.endswith(_FOLDER)


def _read(path: Path) -> dict[str, list[str]]:
    try:
        value: Json = json.loads(os.fsdecode(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); correct it or move it away") from error
    if not isinstance(value, dict):
        raise _odd(path)
    known: dict[str, list[str]] = {}
    for root, texts in value.items():
        if not isinstance(texts, list):
            raise _odd(path)
        known[root] = [text for text in texts if isinstance(text, str)]
        if len(known[root]) != len(texts):
            raise _odd(path)
    return known


def _odd(path: Path) -> ConfigError:
    return ConfigError(f"{path}: must hold a list of paths for each project; correct it or move it away")
