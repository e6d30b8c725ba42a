"""Reads the sources of settings: files, environment and command line, with their problems."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject
from nacre.settings.schema import GROUPS, KEYS, OTHER_VARIABLES, PREFIX, SettingKey, SettingsLevel
from nacre.settings.values import SettingsProblem

MAX_FILE_BYTES = 1_000_000
"""Limit for a settings file, so that a link to an endless device does not block the start."""
SHOWN_CHARS = 40
"""How much of an invalid value is shown."""
LIKENESS = 0.75
"""Similarity for suggestions: two swapped letters in a word of five are accepted."""
_RENAMED = {"roles.main": "model"}
FOREIGN_SECRETS = frozenset({"apikey", "api_key", "authtoken", "auth_token", "token"})


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A checked value of one setting from one source."""

    key: SettingKey
    value: Json
    layer: SettingsLevel
    origin: str


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """All values of one source."""

    layer: SettingsLevel
    given: tuple[SettingValue, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    """A file's `env` block."""
    environ_given: tuple[SettingValue, ...] = ()
    """Settings from the variables in that block."""
    problems: tuple[SettingsProblem, ...] = ()


def from_file(path: Path, layer: SettingsLevel) -> SettingsSource:
    """Read a settings file; empty if there is none. Raises `ConfigError` if it cannot be read."""
    found: list[SettingValue] = []
    problems: list[SettingsProblem] = []
    environ: dict[str, str] = {}
    for name, raw in _leaves(_document(path), str(path), problems):
        key = KEYS[name]
        value = _checked(key, raw, str(path), problems)
        if value is None:
            continue
        found.append(SettingValue(key, value, layer, f"{layer.value} {path}"))
        if name == "env" and isinstance(value, dict):
            environ = {variable: str(text) for variable, text in value.items()}
    inner = from_environment(environ, layer, place=f"{layer.value} {path} env.")
    return SettingsSource(layer, tuple(found), environ, inner.given, (*problems, *inner.problems))


def from_file_lenient(path: Path, layer: SettingsLevel) -> SettingsSource:
    """Read a settings file; one that cannot be read is empty, with a problem."""
    try:
        return from_file(path, layer)
    except ConfigError as error:
        place, _, message = str(error).partition(": ")
        return SettingsSource(layer, problems=(SettingsProblem(place, message, is_error=True),))


def from_environment(
    environ: Mapping[str, str],
    layer: SettingsLevel = SettingsLevel.ENVIRONMENT,
    *,
    place: str = "environment ",
) -> SettingsSource:
    """Read settings from variables; nacre's names take precedence over those of other programs (M7)."""
    found: list[SettingValue] = []
    problems: list[SettingsProblem] = []
    for key in KEYS.values():
        name = next((n for n in (key.variable, *key.aliases) if environ.get(n, "").strip()), None)
        if name is None or key.name == "env":
            continue
        try:
            found.append(SettingValue(key, key.kind.read(environ[name]), layer, f"{place}{name}"))
        except (ValueError, TypeError):
            message = f"must be {key.kind.allowed}, not {_shown(environ[name])}"
            problems.append(SettingsProblem(f"{place}{name}", message, is_error=True))
    known = {key.variable.removeprefix(PREFIX) for key in KEYS.values()} | OTHER_VARIABLES
    for name in sorted(environ):
        word = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and word not in known:
            hint = _did_you_mean(word, known, prefix=PREFIX)
            problems.append(SettingsProblem(f"{place}{name}", f"no such setting{hint}"))
    return SettingsSource(layer, tuple(found), problems=tuple(problems))


def from_command_line(values: Mapping[str, Json]) -> SettingsSource:
    """Read settings from command-line options, by the names of the settings."""
    problems: list[SettingsProblem] = []
    found = []
    for name, raw in values.items():
        value = _checked(KEYS[name], raw, "command line", problems)
        if value is not None:
            found.append(SettingValue(KEYS[name], value, SettingsLevel.CLI, "command line"))
    return SettingsSource(SettingsLevel.CLI, tuple(found), problems=tuple(problems))


def _document(path: Path) -> JsonObject:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
        raise ConfigError(
            f"{path}: is not a plain file of at most {MAX_FILE_BYTES:,} bytes; remove or replace it"
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
        value: Json = json.loads(text, parse_constant=_refuse) if text.strip() else {}
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}:{error.colno}"
        raise ConfigError(f"{where}: not valid JSON ({error.msg}); correct it there") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: a value cannot be read ({_shown(str(error))}); correct it there"
        ) from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path}:1:1: must be a JSON object; write {{}} to begin with")
    return value


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _leaves(
    document: JsonObject, place: str, problems: list[SettingsProblem], prefix: str = ""
) -> Iterator[tuple[str, Json]]:
    """Yield the settings in a document by their full names; unknown names are added to the problems."""
    for word, value in document.items():
        name = prefix + word
        if name in KEYS:
            yield name, value
        elif name in GROUPS and isinstance(value, dict):
            yield from _leaves(value, place, problems, f"{name}.")
        elif name in GROUPS:
            problems.append(SettingsProblem(place, f"{name!r} must be a JSON object", is_error=True))
        elif word.lower() in FOREIGN_SECRETS:
            hint = 'keys are read from the environment, or from "env" in the user\'s own settings'
            problems.append(
                SettingsProblem(place, f"{name!r} is never read from settings: {hint}", is_error=True)
            )
        else:
            problems.append(SettingsProblem(place, f"no setting {name[:80]!r}{_did_you_mean(name, KEYS)}"))


def _checked(key: SettingKey, raw: Json, place: str, problems: list[SettingsProblem]) -> Json:
    """Return the value if it is valid, else None; null counts as absent."""
    if raw is None:
        return None
    try:
        return key.kind.checked(raw)
    except (ValueError, TypeError):
        # An `env` block or a hook may contain a secret, so that the value is not shown.
        shown = "" if isinstance(raw, dict) else f", not {_shown(raw)}"
        problems.append(
            SettingsProblem(place, f"{key.name!r} must be {key.kind.allowed}{shown}", is_error=True)
        )
        return None


def _shown(value: Json) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def _did_you_mean(word: str, known: Iterable[str], *, prefix: str = "") -> str:
    # Imported only after a misspelling, so that it does not slow down the start.
    from difflib import get_close_matches  # noqa: PLC0415

    close = get_close_matches(word[:80], sorted(known), n=1, cutoff=LIKENESS)
    if word in _RENAMED:
        close = [_RENAMED[word]]
    return f"; did you mean {prefix + close[0]!r}?" if close else ""
