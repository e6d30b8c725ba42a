"""Which directories the user trusts, and which files outside a project its instructions may include (M23).

Both are lists in the home. Trust holds for exactly one directory, so that a repository cloned below a trusted
one is not trusted. Consent holds for one real path, so that a link that changes needs consent again.
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
    """The trusted directories, and a problem with their file."""

    directories: frozenset[str] = frozenset()
    problem: SettingsProblem | None = None


def is_trusted(home: Path, directory: Path) -> bool:
    """Return whether the user trusts this directory."""
    return canonical(directory) in read_trusted(home).directories


def trust(home: Path, directory: Path) -> None:
    """Trust a directory; raises `ConfigError` if the list cannot be read or written."""
    _add(home, FILE, directory)


def decline(home: Path, directory: Path) -> None:
    """Record that the user does not trust a directory."""
    _add(home, DECLINED_FILE, directory)


def is_declined(home: Path, directory: Path) -> bool:
    """Return whether the user declined to trust this directory."""
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
    """Return the list; an invalid file counts as empty and is reported, never deleted."""
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
    """Return the absolute path of a directory with links resolved."""
    return str(directory.resolve())


def _unreadable(path: Path) -> SettingsProblem:
    message = "not a JSON list of directories, so nothing is trusted; correct it or move it away"
    return SettingsProblem(str(path), message, is_error=False)


CONSENT_FILE = "consent.json"
_FOLDER = "/"
"""The suffix of folders: consent for a file does not hold for a folder of the same name."""


def consented(home: Path, root: Path) -> frozenset[Path]:
    """Return the real paths outside a project that its instructions may include; folders with their content.

    A list that cannot be read counts as empty, so that the person is asked again.
    """
    try:
        return frozenset(
            _real(text) for text in _read(home / CONSENT_FILE).get(canonical(root), []) if _holds(text)
        )
    except ConfigError:
        return frozenset()


def consent(home: Path, root: Path, path: Path) -> Path:
    """Record that a project may include a file or a folder; return its real path."""
    real = Path(os.path.realpath(path))
    if not real.exists():
        raise ConfigError(f"there is no {path} to allow; `nacre instructions list` shows what waits")
    _change(home, root, add=str(real) + _FOLDER * real.is_dir())
    return real


def withdraw(home: Path, root: Path, path: Path) -> bool:
    """Withdraw consent; return whether there was any."""
    real = os.path.realpath(path)
    named = {str(path), real, str(path) + _FOLDER, real + _FOLDER}
    return _change(home, root, drop=frozenset(named))


def _change(home: Path, root: Path, *, add: str = "", drop: frozenset[str] = frozenset()) -> bool:
    """Change the list of a project; return whether it is different now."""
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
            disk.replace_file(path, os.fsencode(text), temp_name=f".{CONSENT_FILE}.tmp")
    except StoreError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(disk.explain(error, path)) from error
    return True


def _real(text: str) -> Path:
    return Path(text.rstrip(_FOLDER))


def _holds(text: str) -> bool:
    """Return whether the path is unchanged: no link, and still a folder or not."""
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
