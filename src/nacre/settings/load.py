"""Reads every source of settings once and combines them, the strongest first.

policy > command line > environment > local file > project file > user file > default
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import assert_never

from nacre.errors import ConfigError
from nacre.messages.blocks import Json
from nacre.settings.schema import SettingScope, SettingsLevel
from nacre.settings.sources import (
    SettingsSource,
    SettingValue,
    from_command_line,
    from_environment,
    from_file,
    from_file_lenient,
)
from nacre.settings.trust import FILE, Trusted, canonical, is_declined, read_trusted
from nacre.settings.values import ListEntry, Settings, SettingsProblem

POLICY_PATH = Path("/etc/nacre/settings.json")
PROJECT_FILE = Path(".nacre/settings.json")
LOCAL_FILE = Path(".nacre/settings.local.json")
_VENDOR_VARIABLES = {"anthropic.baseUrl": "ANTHROPIC_BASE_URL", "openai.baseUrl": "OPENAI_BASE_URL"}


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
    raises `ConfigError`, or is listed in `problems` if the settings are only shown (`is_for_looking`).
    """
    cwd = cwd.resolve()
    read = from_file_lenient if is_for_looking else from_file
    outside = (
        read(policy_path, SettingsLevel.POLICY),
        from_command_line(cli or {}),
        from_environment(environ),
    )
    home = _home(outside, environ)
    root = find_root(cwd, home)
    trusted = read_trusted(home)
    gate = _gate(root, home, trusted)
    files = _files(root, home, beneath, read)
    sources = [gate.admitted(source) for source in (*outside, *files)]
    return _built(
        Settings(
            home=home,
            cwd=cwd,
            project_root=root,
            is_trusted=gate.is_trusted,
            wants_trust=_wanting(files, home, root) if not gate.is_trusted else (),
            env_names=tuple(sorted({name for source in sources for name in source.environ})),
            environ=MappingProxyType(_environ(environ, sources)),
            problems=_problems(sources, trusted),
        ),
        sources,
    )


def _gate(root: Path, home: Path, trusted: Trusted) -> SourceGate:
    return SourceGate(
        root=root,
        trust_path=home / FILE,
        is_trusted=canonical(root) in trusted.directories,
        is_local_committed=is_committed(root / LOCAL_FILE),
    )


def _wanting(files: Iterable[SettingsSource], home: Path, root: Path) -> tuple[str, ...]:
    """Return the project's settings that need trust, unless the user already declined it."""
    names = {
        given.key.name
        for source in files
        if source.layer in (SettingsLevel.LOCAL, SettingsLevel.PROJECT)
        for given in source.given
        if given.key.reach is SettingScope.TRUSTED
    }
    return () if not names or is_declined(home, root) else tuple(sorted(names))


def _problems(sources: Iterable[SettingsSource], trusted: Trusted) -> tuple[SettingsProblem, ...]:
    found = [problem for source in sources for problem in source.problems]
    return (*found, trusted.problem) if trusted.problem else tuple(found)


def _files(
    root: Path, home: Path, beneath: Path | None, read: Callable[[Path, SettingsLevel], SettingsSource]
) -> list[SettingsSource]:
    """Return the settings files, strongest first; the user's home directory is not a project."""
    homes = [home] if beneath is None or is_same(beneath, home) else [home, beneath]
    users = [read(one / "settings.json", SettingsLevel.USER) for one in homes]
    if any(is_same(root / ".nacre", one) for one in homes):
        return users
    return [
        read(root / LOCAL_FILE, SettingsLevel.LOCAL),
        read(root / PROJECT_FILE, SettingsLevel.PROJECT),
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


def _added_up(sources: Iterable[SettingsSource]) -> dict[str, tuple[ListEntry, ...]]:
    """Return the lists to which every source adds, strongest first."""
    lists: dict[str, tuple[ListEntry, ...]] = {}
    for source in sources:
        for given in (*source.given, *source.environ_given):
            if given.key.adds_up and isinstance(given.value, list):
                more = tuple(ListEntry(str(text), given.origin) for text in given.value)
                lists[given.key.name] = (*lists.get(given.key.name, ()), *more)
    return lists


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


def _built(settings: Settings, sources: list[SettingsSource]) -> Settings:
    """Return the settings with the strongest values in their fields."""
    chosen = _strongest(sources)
    lists = _added_up(sources)
    top: dict[str, Json] = {}
    parts: dict[str, dict[str, Json | tuple[ListEntry, ...]]] = {}
    for given in chosen.values():
        match given.key.path:
            case ("home",) | ("environ",):
                continue
            case (name,):
                top[name] = given.value
            case (part, name):
                parts.setdefault(part, {})[name] = lists.get(given.key.name, given.value)
    filled = {part: replace(getattr(settings, part), **values) for part, values in parts.items()}
    origins = MappingProxyType({name: given.origin for name, given in chosen.items()})
    # The schema has checked each value for its field, which mypy cannot follow through a table.
    return replace(settings, origins=origins, **top, **filled)  # type: ignore[arg-type]


_OUTSIDE = (SettingsLevel.POLICY, SettingsLevel.CLI, SettingsLevel.ENVIRONMENT)
_REPOSITORY = (SettingsLevel.LOCAL, SettingsLevel.PROJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceGate:
    """Removes values that their source may not set."""

    root: Path
    trust_path: Path
    is_trusted: bool
    is_local_committed: bool
    """The local file is committed, so that it counts as the project's."""

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


COMPRESSED_INDEX = 4
"""From this version on git's index compresses paths, so that they cannot be searched for."""


def find_root(cwd: Path, home: Path) -> Path:
    """Return the nearest directory with a `.nacre/` inside the repository, else the current directory.

    Directories above the repository are ignored: anyone may write a `.nacre/` into a shared `/tmp`.
    """
    top = _repository(cwd)
    if top is None:
        return cwd
    for directory in (cwd, *cwd.parents):
        settings = directory / ".nacre"
        if directory == top or (settings.is_dir() and not is_same(settings, home)):
            return directory
    return cwd


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
