"""Reads one source of settings: a file, the environment or the command line; checks every value."""

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
RULE_LISTS = frozenset({"permissions.allow", "permissions.ask", "permissions.deny"})
SHOWN_CHARS = 40
"""How much of an invalid value is shown."""
LIKENESS = 0.75
"""Similarity for suggestions: two swapped letters in a word of five are accepted."""
SAFETY_GROUPS = ("permissions", "sandbox")
"""An unknown name in or like these is an error: it may be a restriction that would silently not apply."""
OF_OTHER_PROGRAMS = frozenset(
    {"permissions.disableBypassPermissionsMode", "sandbox.failIfUnavailable", "sandbox.excludedCommands"}
    | {"sandbox.autoAllowBashIfSandboxed", "sandbox.allowUnsandboxedCommands", "sandbox.filesystem"}
)
"""Names that Claude Code reads in the same file and that are no misspellings: a warning is enough."""
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
    for name, raw in _leaves(read_document(path), str(path), problems):
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
            is_error = _is_about_safety(word.lower().replace("_", "."))
            problems.append(SettingsProblem(f"{place}{name}", f"no such setting{hint}", is_error=is_error))
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


def read_document(path: Path) -> JsonObject:
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
        value: Json = (
            json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique) if text.strip() else {}
        )
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


def _unique(pairs: list[tuple[str, Json]]) -> JsonObject:
    """Return an object; of two values by one name, the first would be lost."""
    found: JsonObject = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:80]!r} occurs twice")
        found[name] = value
    return found


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
            is_error = name not in OF_OTHER_PROGRAMS and _is_about_safety(name)
            hint = _did_you_mean(name, [*KEYS, *SAFETY_GROUPS])
            problems.append(SettingsProblem(place, f"no setting {name[:80]!r}{hint}", is_error=is_error))


def _is_about_safety(name: str) -> bool:
    """Return whether an unknown name is in a group of safety settings, or is like that group or a setting."""
    from difflib import get_close_matches  # noqa: PLC0415 - as in `_did_you_mean`

    group, _, rest = name[:80].partition(".")
    inner = [key.rpartition(".")[2] for key in KEYS if key.startswith(SAFETY_GROUPS)]
    is_bare = not rest and group in set(inner) - {"enabled"}
    return is_bare or bool(get_close_matches(group.lower(), SAFETY_GROUPS, n=1, cutoff=LIKENESS))


def sound_rules(given: SettingValue) -> Json:
    """Return the value of a setting without permission rules that are invalid."""
    if given.key.name not in RULE_LISTS or not isinstance(given.value, list):
        return given.value
    return [text for text in given.value if not _rule_error(str(text))]


def _rule_error(text: str) -> str:
    """Return why a text is no permission rule; empty if it is one."""
    # Imported only where there are rules, so that it does not slow down the start.
    from nacre.tools.rules import parse_rule  # noqa: PLC0415

    try:
        parse_rule(text, "ask")
    except ConfigError as error:
        return str(error)
    return ""


def _checked(key: SettingKey, raw: Json, place: str, problems: list[SettingsProblem]) -> Json:
    """Return the value if it is valid, else None; null counts as absent."""
    if raw is None:
        return None
    try:
        value = key.kind.checked(raw)
    except (ValueError, TypeError):
        # An `env` block or a hook may contain a secret, so that the value is not shown.
        shown = "" if isinstance(raw, dict) else f", not {_shown(raw)}"
        problems.append(
            SettingsProblem(place, f"{key.name!r} must be {key.kind.allowed}{shown}", is_error=True)
        )
        return None
    rules = value if key.name in RULE_LISTS and isinstance(value, list) else []
    wrong = [error for text in rules if (error := _rule_error(str(text)))]
    problems.extend(SettingsProblem(place, f"{key.name}: {error}", is_error=True) for error in wrong)
    return value


def _shown(value: Json) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def _did_you_mean(word: str, known: Iterable[str], *, prefix: str = "") -> str:
    # Imported only after a misspelling, so that it does not slow down the start.
    from difflib import get_close_matches  # noqa: PLC0415

    plain = {one.lower(): one for one in sorted(known)}
    close = get_close_matches(word[:80].lower(), plain, n=1, cutoff=LIKENESS)
    close = [plain[one] for one in close] or [
        one for one in plain.values() if one.endswith((f".{word}", f"_{word}"))
    ]
    if word in _RENAMED:
        close = [_RENAMED[word]]
    return f"; did you mean {prefix + close[0]!r}?" if close else ""
