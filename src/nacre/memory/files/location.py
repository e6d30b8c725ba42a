"""Locations of memory: a project's, the user's, the team's and an agent's own (M1-M5, M7b, M26)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from nacre.errors import ConfigError, StoreError
from nacre.memory.files import identity
from nacre.memory.files.roots import canonical_root, checkout_root
from nacre.store import disk
from nacre.store.home import MAX_PLAIN_UNITS, same_folder, slug

if TYPE_CHECKING:
    from nacre.store.postgres.space_rows import SpaceRows

Scope: TypeAlias = Literal["user", "project", "local"]
"""Scope of an agent's own memory (M26)."""

HASH_LENGTHS = (8, 16, 64)
"""Hex digits that distinguish two roots of one slug: longer only if even that name is taken."""
SAMPLED_LOGS = 5
"""Number of logs of a folder that are read for their directory; any one of them has it."""
SAMPLED_BYTES = 65_536
"""The working directory is in the first lines of a log."""

_AGENT_TYPE = re.compile(r"\w[\w.-]{0,79}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A memory directory and its files elsewhere."""

    directory: Path
    """The folder of Markdown files; real, absolute."""
    source: str
    """`override`, `setting`, `remote`, `memoryHome`, `default`, `user`, `team`, `agent` or `path`."""
    history: Path
    """The bare git repository with every change (M15), outside the memory folder."""
    cache: Path
    """Locks, journal and derived index, outside the memory folder."""
    root: Path | None = None
    """The canonical git root or working directory it belongs to; None for the user's own memory."""
    rows: SpaceRows | None = field(default=None, compare=False, repr=False)
    """The rows of which it is a working copy, on a server with a database (S4)."""

    @property
    def identity_file(self) -> Path:
        """Next to the memory in a project's own folder; elsewhere for a directory that is not nacre's."""
        return (self.directory.parent if self._is_in_project else self.cache) / identity.FILE

    @property
    def owner(self) -> Path:
        """The owner in the identity file: the project, or the directory if no one project owns it."""
        return self.root if self.root and self._is_in_project else self.directory

    @property
    def base(self) -> Path:
        """The folder with all histories and caches: the home, or the one that replaces it."""
        return self.history.parents[1]

    @property
    def _is_in_project(self) -> bool:
        return self.source in {"default", "remote", "memoryHome"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPaths:
    """All settings that determine where memory is, read from settings and environment."""

    home: Path
    cwd: Path
    path_override: str | None = None
    """`NACRE_MEMORY_PATH_OVERRIDE`."""
    directory_setting: str | None = None
    """`autoMemoryDirectory`, never from a repository's own settings."""
    directory_origin: str = "the settings"
    """Where that setting was found, for the error message."""
    remote_directory: str | None = None
    """`NACRE_REMOTE_MEMORY_DIR`."""
    home_setting: str | None = None
    """`memoryHome`, never from a file in a project's directory."""
    home_origin: str = "the settings"
    """Where that setting was found, for the error message."""
    user_home: Path | None = None
    """Meaning of `~`; None for the account's own directory."""


def locate(paths: MemoryPaths) -> Location:
    """Return the memory of the project around the working directory; the first of M4's sources decides."""
    root = canonical_root(paths.cwd)
    if paths.path_override:
        directory = configured(paths.path_override, "NACRE_MEMORY_PATH_OVERRIDE", bounds=_bounds(paths))
        return _apart(_own_base(paths), directory, source="override", root=root)
    if paths.directory_setting:
        name = f"autoMemoryDirectory in {paths.directory_origin}"
        directory = configured(paths.directory_setting, name, bounds=_bounds(paths), tilde=True)
        return _apart(_own_base(paths), directory, source="setting", root=root)
    source = "remote" if paths.remote_directory else "memoryHome" if paths.home_setting else "default"
    return project_location(memory_base(paths), root, source=source)


def project_location(base: Path, root: Path, *, source: str = "default") -> Location:
    """Return the memory of a canonical root below a base, whether it exists or not (M2)."""
    folder = _project_folder(base, root)
    return Location(
        directory=folder / "memory",
        source=source,
        history=base / "history" / f"{folder.name}.git",
        cache=base / "cache" / folder.name,
        root=root,
    )


def directory_location(path: str | os.PathLike[str], home: Path) -> Location:
    """Return the memory in a directory that a program names; its history and locks are below the home."""
    directory = _real(Path(path).expanduser())
    reason = _too_wide(directory, Bounds(user_home=_real(Path.home()), home=_real(home)), is_base=False)
    if reason:
        raise ConfigError(f"{str(path)!r} cannot hold a memory: it {reason}; name a folder of its own")
    return _apart(_real(home), directory, source="path")


def memory_base(paths: MemoryPaths) -> Path:
    """Return the home, or the folder that replaces it because it does not last or is shared (M4)."""
    if not paths.remote_directory:
        return _own_base(paths)
    return configured(paths.remote_directory, "NACRE_REMOTE_MEMORY_DIR", bounds=_bounds(paths), is_base=True)


def user_location(base: Path) -> Location:
    """Return the memory that applies in every project (M7b)."""
    base = _real(base)
    return Location(
        directory=base / "memory",
        source="user",
        history=base / "history/user.git",  # no slug of an absolute path is called so
        cache=base / "cache/user",
    )


def team_location(project: Location) -> Location:
    """Return the memory that all users of the repository share, next to the private files (M18)."""
    # The dot keeps the names distinct from every slug.
    return Location(
        directory=project.directory / "team",
        source="team",
        history=project.history.with_name(f"{project.history.stem}.team.git"),
        cache=project.cache.with_name(f"{project.cache.name}.team"),
        root=project.root,
    )


def agent_location(scope: Scope, agent_type: str, paths: MemoryPaths) -> Location:
    """Return the memory of an agent type (M26); in a repository it must really be inside."""
    name = agent_type.replace(":", "-")
    if not _AGENT_TYPE.fullmatch(name):
        raise ConfigError(
            f"{agent_type!r} cannot name an agent's memory; use letters, digits, '-', '_', '.' and ':' only"
        )
    base = memory_base(paths)
    root = canonical_root(paths.cwd)
    if scope == "user":
        return _apart(base, base / "agent-memory" / name, source="agent")
    if scope == "local" and paths.remote_directory:
        folder = _project_folder(base, root)
        return _apart(base, folder / "agent-memory-local" / name, source="agent", root=root)
    inside = root if scope == "local" else checkout_root(paths.cwd)
    kind = "agent-memory-local" if scope == "local" else "agent-memory"
    directory = _real(inside / ".claude" / kind / name)
    # The link may come from the repository, and may lead anywhere.
    if not directory.is_relative_to(inside):
        raise ConfigError(f"{inside}/.claude/{kind}/{name} is a symlink out of {inside}; remove the link")
    return _apart(base, directory, source="agent", root=root)


def prepare(location: Location) -> str | None:
    """Create the directory, for its owner only; return the reason in one line if it is not writable."""
    real = _real(location.directory)
    if real != location.directory:
        return (
            f"{location.directory} is a symlink to {real}; memory is read-only until "
            "autoMemoryDirectory names that folder"
        )
    try:
        _make_real(location.directory)
    except OSError as error:
        return disk.explain(error, location.directory)
    if not os.access(location.directory, os.R_OK | os.W_OK | os.X_OK):
        return f"no permission to write to {location.directory}; check its owner and its mode"
    return identity.objection(location.identity_file, location.owner)


def claim(location: Location, cwd: Path) -> identity.Identity:
    """Record the owner of this memory before the first write (M2, M27)."""
    return identity.claim(location.identity_file, root=location.owner, cwd=cwd)


def _own_base(paths: MemoryPaths) -> Path:
    """Return the user's choice, or the home; also the base for histories and locks of own directories.

    Programs that share a memory must share its locks, or each would write as if it were alone.
    """
    if not paths.home_setting:
        return _real(paths.home)
    name = f"memoryHome in {paths.home_origin}"
    return configured(paths.home_setting, name, bounds=_bounds(paths), tilde=True, is_base=True)


def _bounds(paths: MemoryPaths) -> Bounds:
    return Bounds(user_home=_real(paths.user_home or Path.home()), home=_real(paths.home))


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _apart(base: Path, directory: Path, *, source: str, root: Path | None = None) -> Location:
    """Return a directory that several projects may share: history and locks are named after its path."""
    name = f"{slug(str(directory))}.{_digest(directory)[: HASH_LENGTHS[0]]}"
    return Location(
        directory=directory,
        source=source,
        history=base / "history" / f"{name}.git",
        cache=base / "cache" / name,
        root=root,
    )


def _project_folder(base: Path, root: Path) -> Path:
    """Return the folder of a root: the one that names it as owner, else the first without an owner (M2)."""
    projects = _real(base / "projects")
    plain = slug(str(root))
    names = [plain, *(f"{plain}-{_digest(root)[:length]}" for length in HASH_LENGTHS)]
    owners = {name: _owner_of(projects / name) for name in names}
    for name, owner in owners.items():
        if owner is not None and owner.belongs_to(root):
            return projects / name
    if len(plain) > MAX_PLAIN_UNITS and not (projects / plain).is_dir():
        # Folders of a long path with the hash of another runtime.
        names_there = []
        with contextlib.suppress(OSError):
            names_there = sorted(os.listdir(projects))  # noqa: PTH208 (only the names are wanted)
        for folder in (projects / name for name in names_there if same_folder(name, plain)):
            owner = _owner_of(folder)
            if owner.belongs_to(root) if owner else _has_log_of(folder, root):
                return folder
    return projects / next(name for name, owner in owners.items() if owner is None or name == names[-1])


def _owner_of(folder: Path) -> identity.Identity | None:
    """Return the owner of a folder. An unreadable claim counts as none: it is read, but not written."""
    try:
        return identity.read_identity(folder / identity.FILE)
    except StoreError:
        return None


def _has_log_of(folder: Path, root: Path) -> bool:
    """Return whether a session in this folder ran in the root: many long paths begin alike."""
    quoted = json.dumps(str(root), ensure_ascii=False)[:-1]
    ran_here = re.compile(rf'"cwd":\s?{re.escape(quoted)}["/]')
    for log in sorted(folder.glob("*.jsonl"))[:SAMPLED_LOGS]:
        try:
            descriptor = disk.open_regular(log, os.O_RDONLY)
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as source:
            if ran_here.search(os.fsdecode(source.read(SAMPLED_BYTES))):
                return True
    return False


def _digest(path: Path) -> str:
    return hashlib.blake2b(os.fsencode(path), digest_size=32).hexdigest()


def _make_real(directory: Path) -> None:
    """Create a folder and its parents without following a link planted meanwhile."""
    there = directory
    while not os.path.lexists(there):
        there = there.parent
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(there, flags)
    try:
        for name in directory.relative_to(there).parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, disk.FOLDER_MODE, dir_fd=descriptor)
            below = os.open(name, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
    finally:
        os.close(descriptor)


MIN_PARTS = 3
"""`/`, a folder, and one in it: a whole `/etc` or `/home` is no memory."""

_DRIVE_ROOT = re.compile(r"[A-Za-z]:[\\/]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The two directories that a memory must not cover; both real."""

    user_home: Path
    """Meaning of `~`."""
    home: Path
    """nacre's own."""


def configured(text: str, name: str, *, bounds: Bounds, tilde: bool = False, is_base: bool = False) -> Path:
    """Return the real path of a setting or variable, or raise a `ConfigError` with the reason."""
    expanded = bounds.user_home / text[2:].lstrip("/") if tilde and text.startswith("~/") else Path(text)
    wrong = {
        "holds a NUL": "\0" in text,
        "is a network path": text.startswith(("\\\\", "//")),
        "is a whole drive": _DRIVE_ROOT.fullmatch(text),
        "would make the whole home directory writable": text in {"~", "~/", "~/.", "~/.."},
        "is not a full path": not expanded.is_absolute(),
    }
    reason = next((why for why, is_wrong in wrong.items() if is_wrong), None)
    if reason is None:
        # As written and as resolved: neither may be too wide.
        spellings = (Path(os.path.normpath(expanded)), Path(os.path.realpath(expanded)))
        reason = next(filter(None, (_too_wide(path, bounds, is_base) for path in spellings)), None)
    if reason:
        raise ConfigError(
            f"{name} is {text!r}, which {reason}; name a folder of its own by its full path, "
            f"such as {bounds.user_home}/notes/memory"
        )
    return Path(os.path.realpath(expanded))


def _too_wide(path: Path, bounds: Bounds, is_base: bool) -> str | None:
    if len(path.parts) < MIN_PARTS:
        return "is the root of the disk or directly below it"

    def holds(inner: Path) -> bool:
        # By name, or by identity if the file system ignores case.
        return any(path == above or disk.is_same_file(path, above) for above in (inner, *inner.parents))

    if holds(bounds.user_home):
        return "would make the whole home directory writable"
    # nacre's own files are next to a memory, never in it; a base may be the home under another name.
    if not is_base and holds(bounds.home):
        return "would hold nacre's own files"
    return None
