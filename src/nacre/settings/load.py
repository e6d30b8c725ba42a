"""Reads every source of settings once and combines them, the strongest first.

policy > command line > environment > local file > project file > user file > default
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn, assert_never

from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject
from nacre.settings.schema import (
    GROUPS,
    KEYS,
    OTHER_VARIABLES,
    PREFIX,
    SettingKey,
    SettingScope,
    SettingsLevel,
)
from nacre.settings.trust import FILE, canonical, is_declined, read_trusted
from nacre.settings.values import ListEntry, Settings, SettingsProblem

POLICY_PATH = Path("/etc/nacre/settings.json")
PROJECT_FILE = Path(".nacre/settings.json")
LOCAL_FILE = Path(".nacre/settings.local.json")
_VENDOR_VARIABLES = {"anthropic.baseUrl": "ANTHROPIC_BASE_URL", "openai.baseUrl": "OPENAI_BASE_URL"}
_OUTSIDE = (SettingsLevel.POLICY, SettingsLevel.CLI, SettingsLevel.ENVIRONMENT)
_REPOSITORY = (SettingsLevel.LOCAL, SettingsLevel.PROJECT)
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
COMPRESSED_INDEX = 4
"""From this version on git's index compresses paths, so that they cannot be searched for."""


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


def load(
    cwd: Path,
    environ: Mapping[str, str],
    *,
    cli: Mapping[str, Json] | None = None,
    policy_path: Path = POLICY_PATH,
    beneath: Path | None = None,
    is_for_looking: bool = False,
) -> Settings:
    """Return the settings for a directory; invalid values are left out and listed in `problems`.

    `beneath` is another home of the user, whose settings have the lowest precedence. A file that is not JSON
    raises `ConfigError`, or is listed in `problems` if the settings are only shown (`is_for_looking`) or the
    file belongs to a directory that is not trusted; such a directory then gets the strictest settings.
    """
    cwd = cwd.resolve()
    read = from_file_lenient if is_for_looking else from_file
    outside = (
        read(policy_path, SettingsLevel.POLICY),
        from_command_line(cli or {}),
        from_environment(environ),
    )
    home = _home(outside, environ)
    root = find_root(cwd, home, environ)
    trusted = read_trusted(home)
    gate = SourceGate(
        root=root,
        trust_path=home / FILE,
        is_trusted=canonical(root) in trusted.directories,
        is_local_committed=is_committed(root / LOCAL_FILE),
    )
    homes = [home] if beneath is None or is_same(beneath, home) else [home, beneath]
    files = [gate.closed(source) for source in _files(gate, homes, read)]
    sources = [gate.admitted(source) for source in (*outside, *files)]
    # The project's settings that need trust; a user who declined it is not asked again.
    untrusted = {
        given.key.name
        for source in files
        if source.layer in _REPOSITORY and not gate.is_trusted
        for given in source.given
        if given.key.reach is SettingScope.TRUSTED
    }
    problems = [problem for source in sources for problem in source.problems]
    settings = Settings(
        home=home,
        cwd=cwd,
        project_root=root,
        is_trusted=gate.is_trusted,
        wants_trust=tuple(sorted(untrusted)) if untrusted and not is_declined(home, root) else (),
        env_names=tuple(sorted({name for source in sources for name in source.environ})),
        environ=MappingProxyType(_environ(environ, sources)),
        problems=(*problems, trusted.problem) if trusted.problem else tuple(problems),
    )
    again = partial(load, cwd, environ, cli=cli, policy_path=policy_path, beneath=beneath)
    own = (one / "settings.json" for one in homes)
    files_read = (policy_path, root / LOCAL_FILE, root / PROJECT_FILE, *own)
    return replace(_with_values(settings, sources), files=files_read, read_again=again)


def _files(
    gate: SourceGate, homes: Sequence[Path], read: Callable[[Path, SettingsLevel], SettingsSource]
) -> list[SettingsSource]:
    """Return the settings files, strongest first; the user's home directory is not a project."""
    root = gate.root
    users = [read(one / "settings.json", SettingsLevel.USER) for one in homes]
    if any(is_same(root / ".nacre", one) for one in homes):
        return users
    read_repository = read if gate.is_trusted else from_file_lenient
    return [
        read_repository(root / LOCAL_FILE, SettingsLevel.LOCAL),
        read_repository(root / PROJECT_FILE, SettingsLevel.PROJECT),
        *users,
    ]


def _home(outside: Iterable[SettingsSource], environ: Mapping[str, str]) -> Path:
    """Return the home (M1); the user's own settings cannot set it, because they are in it."""
    given = _strongest(outside).get("home")
    user = Path(environ.get("HOME") or Path.home())
    if given is None:
        return user / ".nacre"
    text = str(given.value)
    if text == "~" or text.startswith("~/"):
        return user / text[2:]
    if not Path(text).is_absolute():
        raise ConfigError(f"{given.origin}: must be an absolute path or start with ~/, not {text!r}")
    return Path(text)


def _strongest(sources: Iterable[SettingsSource]) -> dict[str, SettingValue]:
    """Return the value of the strongest source for each setting; sources come strongest first.

    A setting in a file takes precedence over a variable in its `env` block.
    """
    chosen: dict[str, SettingValue] = {}
    for source in sources:
        for given in (*source.given, *source.environ_given):
            chosen.setdefault(given.key.name, given)
    return chosen


def _environ(environ: Mapping[str, str], sources: Iterable[SettingsSource]) -> dict[str, str]:
    """Return the environment combined with the files' `env` blocks, by the precedence of settings."""
    combined: dict[str, str] = {}
    for source in reversed(list(sources)):
        if source.layer is SettingsLevel.ENVIRONMENT:
            combined |= environ
        else:
            # nacre's own variables have become settings already, by the rules for their sources.
            combined |= {n: v for n, v in source.environ.items() if not n.startswith(("NACRE_", "CLAUDE_"))}
    chosen = _strongest(sources)
    combined |= {v: str(chosen[name].value) for name, v in _VENDOR_VARIABLES.items() if name in chosen}
    return combined


def _with_values(settings: Settings, sources: Iterable[SettingsSource]) -> Settings:
    """Return the settings with the strongest values in their fields; to some lists every source adds."""
    chosen = _strongest(sources)
    lists: dict[str, tuple[ListEntry, ...]] = {}
    for source in sources:
        for given in (*source.given, *source.environ_given):
            if given.key.adds_up and isinstance(given.value, list):
                entries = tuple(ListEntry(str(text), given.origin) for text in given.value)
                lists[given.key.name] = (*lists.get(given.key.name, ()), *entries)
    top: dict[str, Json] = {}
    groups: dict[str, dict[str, Json | tuple[ListEntry, ...]]] = {}
    for given in chosen.values():
        match given.key.path:
            case ("home",) | ("environ",):
                continue
            case (name,):
                top[name] = given.value
            case (group, name):
                groups.setdefault(group, {})[name] = lists.get(given.key.name, given.value)
    filled = {group: replace(getattr(settings, group), **values) for group, values in groups.items()}
    origins = MappingProxyType({name: given.origin for name, given in chosen.items()})
    # The schema has checked each value for its field, which mypy cannot follow through a table.
    return replace(settings, origins=origins, **top, **filled)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceGate:
    """Removes values that their source may not set."""

    root: Path
    trust_path: Path
    is_trusted: bool
    is_local_committed: bool
    """The local file is committed, so that it counts as the project's."""

    def closed(self, source: SettingsSource) -> SettingsSource:
        """Return a source of an untrusted repository that has an error with the strictest settings added.

        The rest of what it restricts is unknown. Commands go on, because a repository must not stop them.
        """
        errors = [problem for problem in source.problems if problem.is_error]
        if self.is_trusted or source.layer not in _REPOSITORY or not errors:
            return source
        path = self.root / (LOCAL_FILE if source.layer is SettingsLevel.LOCAL else PROJECT_FILE)
        origin = f"{source.layer.value} {path}"
        off = [key for key in KEYS.values() if key.reach is SettingScope.OFF_ONLY]
        strict = [SettingValue(key, False, source.layer, origin) for key in off]
        strict.append(SettingValue(KEYS["permissions.ask"], ["*"], source.layer, origin))
        kept = [replace(given, value=_sound_rules(given)) for given in source.given]
        until = "until then each tool call here needs your permission, and memory is off"
        problems = [
            replace(problem, message=f"{problem.message}; {until}", is_error=False)
            if problem is errors[0]
            else replace(problem, is_error=False)
            for problem in source.problems
        ]
        return replace(source, given=(*strict, *kept), problems=tuple(problems))

    def admitted(self, source: SettingsSource) -> SettingsSource:
        """Return the source without values that it may not set; each refusal is listed as a problem."""
        if source.layer in _OUTSIDE:
            return source
        is_env_open = self.is_trusted or source.layer not in _REPOSITORY
        problems = list(source.problems)
        return replace(
            source,
            given=tuple(self._allowed(source.given, problems)),
            environ=source.environ if is_env_open else {},
            environ_given=tuple(self._allowed(source.environ_given, problems)) if is_env_open else (),
            problems=tuple(problems),
        )

    def _allowed(self, givens: Iterable[SettingValue], problems: list[SettingsProblem]) -> list[SettingValue]:
        allowed = []
        for given in givens:
            why = self._refusal(given)
            if why:
                place = given.origin.partition(" ")[2]
                problems.append(SettingsProblem(place, f"{given.key.name!r} is ignored: {why}"))
            else:
                allowed.append(given)
        return allowed

    def _refusal(self, given: SettingValue) -> str:
        """Return why a value is refused; empty if it is allowed."""
        is_repository = given.layer in _REPOSITORY
        is_project = given.layer is SettingsLevel.PROJECT or (
            given.layer is SettingsLevel.LOCAL and self.is_local_committed
        )
        match given.key.reach:
            case SettingScope.ANYWHERE:
                return ""
            case SettingScope.TRUSTED:
                how = (
                    f"this directory is not trusted; to trust it, add {str(self.root)!r} to {self.trust_path}"
                )
                return how if is_repository and not self.is_trusted else ""
            case SettingScope.NOT_PROJECT:
                return "a repository may not say where memory is written" if is_project else ""
            case SettingScope.OFF_ONLY:
                return "a repository may only switch this off" if is_project and given.value is True else ""
            case SettingScope.NOT_REPOSITORY:
                return "it cannot be set in a project's directory" if is_repository else ""
            case SettingScope.START:
                return f"it can be set only by policy, command line or {given.key.variable}"
            case _ as unknown:
                assert_never(unknown)


def find_root(cwd: Path, home: Path, environ: Mapping[str, str]) -> Path:
    """Return the nearest directory with a `.nacre/` inside the repository, else the current directory.

    Directories above the repository are ignored: anyone may write a `.nacre/` into a shared `/tmp`. So is a
    repository around the user's home or of another account: all of its files would be in the project.
    """
    top = _repository(cwd)
    if top is None or (top != cwd and not _may_be_project(top, cwd, environ)):
        return cwd
    for directory in (cwd, *cwd.parents):
        settings = directory / ".nacre"
        if directory == top or (settings.is_dir() and not is_same(settings, home)):
            return directory
    return cwd


def _may_be_project(top: Path, cwd: Path, environ: Mapping[str, str]) -> bool:
    """Return whether a repository above the current directory is one that git itself would use by default."""
    user_home = Path(environ.get("HOME") or "/").resolve()
    owners = {0, os.getuid(), cwd.stat().st_uid}
    return not user_home.is_relative_to(top) and (top / ".git").stat().st_uid in owners


def is_same(folder: Path, home: Path) -> bool:
    """Return whether a directory is the user's home."""
    return folder.resolve() == home.resolve()


def is_committed(path: Path) -> bool:
    """Return whether git tracks a file, so that it comes from the repository; True in doubt."""
    top = _repository(path.parent)
    if top is None or not path.exists():
        return False
    try:
        data = _index(top / ".git").read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    tracked = str(path.relative_to(top)).encode(errors="surrogateescape")
    return int.from_bytes(data[4:8]) >= COMPRESSED_INDEX or tracked + b"\0" in data


def _repository(directory: Path) -> Path | None:
    return next((above for above in (directory, *directory.parents) if (above / ".git").exists()), None)


def _index(git: Path) -> Path:
    """Return the path of git's index; in a worktree `.git` is a file that names the directory."""
    if git.is_dir():
        return git / "index"
    text = git.read_bytes()[:4096].decode(errors="surrogateescape")
    return git.parent / text.removeprefix("gitdir:").strip().replace("\0", "") / "index"


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


def _sound_rules(given: SettingValue) -> Json:
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
