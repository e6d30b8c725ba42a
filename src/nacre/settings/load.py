"""Reads every source of settings once and combines them, the strongest first.

policy > command line > environment > local file > project file > user file > Claude Code's files > default
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, assert_never

from nacre.errors import ConfigError
from nacre.messages.blocks import Json
from nacre.settings.schema import (
    KEYS,
    SettingScope,
    SettingsLevel,
)
from nacre.settings.sources import (
    SettingsSource,
    SettingValue,
    from_command_line,
    from_environment,
    from_file,
    from_file_lenient,
    read_document,
    sound_rules,
)
from nacre.settings.trust import FILE, canonical, is_declined, read_trusted
from nacre.settings.values import ListEntry, Settings, SettingsProblem

if TYPE_CHECKING:
    from nacre.settings.claude_settings import ClaudeFile

POLICY_PATH = Path("/etc/nacre/settings.json")
PROJECT_FILE = Path(".nacre/settings.json")
LOCAL_FILE = Path(".nacre/settings.local.json")
_VENDOR_VARIABLES = {"anthropic.baseUrl": "ANTHROPIC_BASE_URL", "openai.baseUrl": "OPENAI_BASE_URL"}
_OUTSIDE = (SettingsLevel.POLICY, SettingsLevel.CLI, SettingsLevel.ENVIRONMENT)
_REPOSITORY = (SettingsLevel.LOCAL, SettingsLevel.PROJECT)
_CLAUDE_FILES = {SettingsLevel.LOCAL: "settings.local.json", SettingsLevel.PROJECT: "settings.json"}
"""In Claude Code's folder of a directory."""
COMPRESSED_INDEX = 4
"""From this version on git's index compresses paths, so that they cannot be searched for."""


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
    claude = _claude(gate, _strongest(sources), cwd, homes, environ)
    untrusted = gate.needs_trust((*files, *claude.found))
    problems = [problem for source in (*sources, *claude.sources) for problem in source.problems]
    settings = Settings(
        home=home,
        cwd=cwd,
        project_root=root,
        is_trusted=gate.is_trusted,
        wants_trust=() if is_declined(home, root) else untrusted,  # a user who declined is not asked again
        env_names=tuple(sorted({name for source in sources for name in source.environ})),
        environ=MappingProxyType(_environ(environ, sources)),
        problems=(*problems, trusted.problem) if trusted.problem else tuple(problems),
        claude_notes=claude.notes,
    )
    again = partial(load, cwd, environ, cli=cli, policy_path=policy_path, beneath=beneath)
    own = (one / "settings.json" for one in homes)
    files_read = (policy_path, root / LOCAL_FILE, root / PROJECT_FILE, *own)
    settings = _with_values(settings, [*sources, *claude.sources])
    if claude.hooks:
        from nacre.settings.claude_settings import merged_hooks  # noqa: PLC0415 - few have such files

        settings = replace(settings, hooks=merged_hooks(settings.hooks, claude.hooks))
    return replace(settings, files=files_read, read_again=again)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClaudeSources:
    """Claude Code's files, strongest first."""

    found: tuple[SettingsSource, ...] = ()
    """Before the gate."""
    sources: tuple[SettingsSource, ...] = ()
    """What the gate admits, without the hooks."""
    hooks: tuple[Json, ...] = ()
    """Those of all files, because they add up."""
    notes: tuple[SettingsProblem, ...] = ()


def _claude(
    gate: SourceGate,
    own: Mapping[str, SettingValue],
    cwd: Path,
    homes: Sequence[Path],
    environ: Mapping[str, str],
) -> _ClaudeSources:
    """Return what is read from Claude Code's files; nothing if that is switched off."""
    if "claudeSettings" in own and own["claudeSettings"].value is False:
        return _ClaudeSources()
    files = [
        (layer, path, _claude_file(path, cwd, gate.root))
        for layer, path in _claude_paths(gate, cwd, homes, environ)
        if _may_exist(path)
    ]
    found, admitted, hooks = [], [], []
    notes = [note for _, _, file in files for note in file.notes]
    for layer, path, file in files:
        origin = f"{layer.value} {path}"
        given = tuple(SettingValue(KEYS[name], value, layer, origin) for name, value in file.values.items())
        source = SettingsSource(layer, given)
        open_source = replace(gate, is_local_committed=is_committed(path)).admitted(source)
        found.append(source)
        # What trust would open is no problem to repeat at each start: the user is asked once.
        notes += open_source.problems
        is_closed = layer in _REPOSITORY and not gate.is_trusted
        problems = file.problems if is_closed else (*file.problems, *file.hook_problems)
        hooks += [one.value for one in open_source.given if one.key.name == "hooks"]
        kept = tuple(one for one in open_source.given if one.key.name != "hooks")
        admitted.append(SettingsSource(layer, kept, problems=problems))
    is_open = [file.disables_hooks for layer, _, file in files if gate.is_trusted or layer not in _REPOSITORY]
    if next((one for one in is_open if one is not None), False):
        notes += [SettingsProblem("Claude Code", "disableAllHooks is set, so its hooks do not run")] * bool(
            hooks
        )
        hooks = []
    return _ClaudeSources(found=tuple(found), sources=tuple(admitted), hooks=tuple(hooks), notes=tuple(notes))


def _claude_paths(
    gate: SourceGate, cwd: Path, homes: Sequence[Path], environ: Mapping[str, str]
) -> Iterator[tuple[SettingsLevel, Path]]:
    """Yield Claude Code's files, strongest first: of the working directory, the project, the user.

    A home of nacre's own that is Claude Code's has been read as such.
    """
    given = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    home = Path(given) if given else Path(environ["HOME"]) / ".claude" if environ.get("HOME") else None
    folders = [folder / ".claude" for folder in dict.fromkeys((cwd, gate.root))]
    known = [*homes, *([home] if home is not None else [])]
    for layer, name in _CLAUDE_FILES.items():
        for folder in folders:
            if not any(is_same(folder, one) for one in known):
                yield layer, folder / name
    if home is not None and not any(is_same(home, one) for one in homes):
        yield SettingsLevel.USER, home / "settings.json"


def _may_exist(path: Path) -> bool:
    """Return whether something has this path; one that cannot be looked at counts."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _claude_file(path: Path, cwd: Path, root: Path) -> ClaudeFile:
    from nacre.settings.claude_settings import read_claude_file, unreadable  # noqa: PLC0415 - few have one

    try:
        return read_claude_file(read_document(path), path, cwd=cwd, root=root)
    except ConfigError as error:
        return unreadable(error)


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

    def needs_trust(self, sources: Iterable[SettingsSource]) -> tuple[str, ...]:
        """Return the settings of an untrusted repository that need trust."""
        if self.is_trusted:
            return ()
        repository = (source for source in sources if source.layer in _REPOSITORY)
        given = (one for source in repository for one in source.given)
        return tuple(sorted({one.key.name for one in given if one.key.reach is SettingScope.TRUSTED}))

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
        kept = [replace(given, value=sound_rules(given)) for given in source.given]
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
    """Return whether a directory is the user's home; a link to itself is no directory."""
    try:
        return folder.resolve() == home.resolve()
    except (OSError, RuntimeError):
        return False


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
