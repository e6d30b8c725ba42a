"""Sandbox for commands: bubblewrap on Linux, sandbox-exec on macOS.

A command sees the system read-only, writes only in the project, in directories that the user named and in an
empty `/tmp`, and sees neither a home nor, unless allowed, a network. The permission rules stay in force: this
is a second barrier, also against what changes between their check and the command.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nacre.errors import ToolError
from nacre.process import run_sync

SYSTEM = tuple(
    map(Path, "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix /System /Library".split())
)
"""Directories of the system, readable in the sandbox; what is in no list is not there."""
TMP = Path("/tmp")
"""In the sandbox it is empty and private."""
PROBE_SECONDS = 5.0
"""A program that takes longer hangs; the outcome is kept for the whole process."""
GUARDED = (".nacre", ".claude")
"""Directories in the project that decide what runs later; created if missing, so that no command does."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:KEYS?|PASS|PAT|AUTH|DSN|COOKIES?)(?:_|$)|APIKEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL",
    re.IGNORECASE,
)
_USER_IN_URL = re.compile(r"://[^/\s]*@")
_HOME_VARIABLE = re.compile(r"XDG_[A-Z]+_HOME|GIT_CONFIG_.*")
"""Variables about files in the home; of git's, which may hold credentials, nacre adds its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What the commands of a session reach; all paths are real."""

    root: Path
    """The project: writable, except what decides which programs run later."""
    homes: tuple[Path, ...] = ()
    """Directories that stay hidden: the user's home and nacre's."""
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    network: bool = False

    def command(self, argv: Sequence[str], cwd: Path) -> tuple[str, ...]:
        """Return the command that runs `argv` in the sandbox; raises `ToolError` if that is not possible."""
        try:
            return self._command(argv, cwd, self.places(creates=True))
        except ToolError as error:
            raise ToolError(f"Bash is refused because the sandbox is on and does not work: {error}") from None

    def problem(self, cwd: Path) -> str:
        """Return why a command would be refused in this directory, by a run of `true`; empty if it would not.

        Nothing is created.
        """
        try:
            _probe(self._command((), cwd, self.places()), "check the directories in the settings")
        except ToolError as error:
            return str(error)
        return ""

    def _command(self, argv: Sequence[str], cwd: Path, places: Mapping[Path, str]) -> tuple[str, ...]:
        base = _base_command()
        if sys.platform == "darwin":
            return (*base, "-p", _profile(places, network=self.network), *argv)
        mounts: list[str] = []
        for path, mode in places.items():
            mounts += ["--tmpfs", str(path)] if mode == "hidden" else [_BINDS[mode], str(path), str(path)]
        if self.network:
            # The file is often a link to one below /run.
            resolver = os.path.realpath("/etc/resolv.conf")
            mounts += ["--share-net", "--ro-bind-try", resolver, resolver]
        # The directories above the project are in memory: a file written there would be lost without a word.
        return (*base, *mounts, "--remount-ro", "/", "--chdir", str(cwd), "--", *argv)

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment without credentials and with a home that is empty."""
        kept = {
            name: value
            for name, value in environ.items()
            if not (_SECRET_NAME.search(name) or _USER_IN_URL.search(value) or _HOME_VARIABLE.fullmatch(name))
        }
        temporary = str(_mac_temporary() if sys.platform == "darwin" else TMP)
        return {**kept, "HOME": temporary, "TMPDIR": temporary}

    def shows(self, place: Path) -> bool:
        """Return whether the next command can start in this directory."""
        return any(map(place.is_relative_to, (self.root, *self.writable, *self.readable, *SYSTEM)))

    def places(self, *, creates: bool = False) -> dict[Path, str]:
        """Return directories and files with their mode: read, write or hidden; raises `ToolError`.

        With `creates`, directories that a command must not create are created.
        """
        from nacre.tools.git_config import known_repository  # noqa: PLC0415 - only commands need it

        dot_git = self.root / ".git"
        repository = known_repository(self.root)
        if repository and repository.top in self.homes:
            repository = None  # without the files of the home, git would take them for deleted
        git = repository.common if repository else dot_git
        folder = repository.folder if repository else dot_git
        named = {one for one in self.writable if one.exists()}
        writable = {self.root, *named, *({git} if git.is_dir() else ())}
        readable = {
            one for one in (*self.readable, *([repository.top] if repository else ())) if one.exists()
        }
        self._check_homes(writable, readable)
        # What commands can write, they can replace with a link: nothing below it is bound by name, except
        # `.git`. A directory on which nothing is mounted could be renamed, with what is protected in it.
        outer = {one for one in writable if one == git or not any(map(one.is_relative_to, writable - {one}))}
        inner = {one for one in readable if not any(map(one.is_relative_to, outer))}
        hidden = (one for one in self.homes if any(map(one.is_relative_to, (*SYSTEM, *inner))))
        places = dict.fromkeys(inner, "read")
        places |= dict.fromkeys((one for one in hidden if one.is_dir()), "hidden")
        places |= dict.fromkeys(outer, "write")
        guarded = [self.root / name for name in GUARDED]
        guarded += _git_settings(git, folder, creates=creates) if git in outer else []
        for path in (dot_git, *guarded):
            if path.is_symlink():
                raise ToolError(f"{path} is a link, which cannot be protected; replace it with what it names")
            if path not in outer and _exists(path, is_made=creates and path.name in {*GUARDED, "hooks"}):
                places[path] = "read"
        return dict(sorted(places.items()))

    def _check_homes(self, writable: set[Path], readable: set[Path]) -> None:
        """Raise `ToolError` if a home, or what other programs have in `/tmp`, would not be hidden."""
        for home in (*self.homes, TMP):
            around = next((one for one in sorted(writable) if home.is_relative_to(one)), None)
            if around is not None:
                advice = "start nacre in a project, or take the directory out of the settings"
                raise ToolError(f"{home} is to be hidden, but is in {around}, which is writable; {advice}")
            if home in readable:
                raise ToolError(f"{home} is to be hidden; in sandbox.readable, name directories below it")


_BINDS = {"read": "--ro-bind", "write": "--bind"}


def homes(nacre_home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return nacre's home and the user's, by the environment and by the system."""
    found = [nacre_home, Path(environ.get("HOME") or "/")]
    # Settings of a project may name another home in `environ` than the one in use.
    with contextlib.suppress(RuntimeError):
        found.append(Path.home())
    with contextlib.suppress(KeyError):
        found.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    real = dict.fromkeys(Path(os.path.realpath(one)) for one in found)
    # The home of a service's account can be `/` or a directory of programs.
    return tuple(one for one in real if one != Path("/") and not _is_of_system(one))


def _is_of_system(path: Path) -> bool:
    return any(map(path.is_relative_to, SYSTEM)) and path.is_dir() and path.stat().st_uid != os.getuid()


def _git_settings(common: Path, folder: Path, *, creates: bool) -> list[Path]:
    """Return what in a git directory names programs, or belongs to other checkouts."""
    per_worktree = {common / "config.worktree", folder / "config.worktree"}
    with contextlib.suppress(OSError):
        if creates and b"worktreeconfig" in (common / "config").read_bytes().lower():
            # Git would read these files: they must exist, so that no command creates them.
            for path in per_worktree:
                path.touch()
    paths = [common / "hooks", common / "config", *per_worktree]
    if folder.parent == common / "worktrees":
        others = (one for one in folder.parent.iterdir() if one != folder)
        paths += [common / "HEAD", common / "index", *others]
    return paths


def _exists(path: Path, *, is_made: bool) -> bool:
    """Return whether a path exists; a directory that is missing can be created first."""
    if is_made:
        # If this fails, a command cannot create it either.
        with contextlib.suppress(OSError):
            path.mkdir(exist_ok=True)
    return path.exists()


def status() -> tuple[bool, str]:
    """Return whether the sandbox works here, and which one it is or what is missing."""
    try:
        base = _base_command()
    except ToolError as error:
        return False, str(error)
    if sys.platform == "darwin":
        return True, "sandbox-exec works (its profile has not been tested)"
    return True, f"bubblewrap works{'' if '--proc' in base else ', without /proc'}"


def _base_command() -> tuple[str, ...]:
    """Return the program and its common arguments, once `true` ran with them; raises `ToolError`."""
    base, problem = probed_base()
    if problem:
        raise ToolError(problem)
    return base


@cache
def probed_base() -> tuple[tuple[str, ...], str]:
    """Return the program and its common arguments, or what is missing; tried once per process."""
    try:
        return _probed_base(), ""
    except ToolError as error:
        return (), str(error)


def _probed_base() -> tuple[str, ...]:
    if sys.platform == "darwin":
        base = ("/usr/bin/sandbox-exec",)
        _probe((*base, "-p", "(version 1)(allow default)"), "it is part of macOS")
        return base
    if sys.platform != "linux":
        raise ToolError("there is no sandbox for this system; use Linux or a container")
    program = shutil.which("bwrap")
    if program is None:
        raise ToolError("there is no bwrap on PATH; install the package bubblewrap")
    options = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    base = (program, *options, *_system_mounts(), "--dev", "/dev", "--tmpfs", str(TMP))
    try:
        _probe((*base, "--proc", "/proc"), "end what it waits for, or switch the sandbox off")
    except ProbeTimeoutError:
        raise
    except ToolError:
        # Containers often forbid a new /proc. The one outside leads to files of other processes.
        _probe(base, "user namespaces must be allowed, for bwrap at least")
        return base
    return (*base, "--proc", "/proc")


def _system_mounts() -> Iterator[str]:
    for path in SYSTEM:
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))


class ProbeTimeoutError(ToolError):
    """The program of the sandbox hangs."""


def _probe(base: tuple[str, ...], advice: str) -> None:
    try:
        done = run_sync(
            (*base, "true"),
            cwd=Path("/"),
            environ={"PATH": os.environ.get("PATH", os.defpath)},
            seconds=PROBE_SECONDS,
        )
    except TimeoutError:
        raise ProbeTimeoutError(f"{base[0]} did not end within {PROBE_SECONDS:g} s; {advice}") from None
    except OSError as error:
        raise ToolError(f"{base[0]} cannot be run ({error}); {advice}") from None
    if done.returncode:
        why = os.fsdecode(done.stderr).partition("\n")[0].removeprefix("bwrap: ")
        raise ToolError(f"{base[0]} does not work here ({why}); {advice}")


@cache
def _mac_temporary() -> Path:
    return Path(os.path.realpath(tempfile.mkdtemp(prefix="nacre-")))


def _profile(places: Mapping[Path, str], *, network: bool) -> str:
    """Return a profile for sandbox-exec, where the last rule that matches decides. Not tested on macOS."""

    def subpath(path: Path) -> str:
        text = str(path).replace("\\", "\\\\").replace('"', '\\"')
        return f'(subpath "{text}")'

    rules = [
        "(version 1)",
        "(allow default)",
        "(deny file-read* file-write*)",
        '(allow file-read* (literal "/") (subpath "/dev") (subpath "/private/etc"))',
        '(allow file-read* (subpath "/private/var/db") (subpath "/private/var/select"))',
        '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (subpath "/dev/fd"))',
        f"(allow file-read* {' '.join(map(subpath, SYSTEM))})",
        "(allow file-read-metadata)",
        f"(allow file-read* file-write* {subpath(_mac_temporary())})",
    ]
    for path, mode in places.items():
        match mode:
            case "hidden":
                rules.append(f"(deny file-read* file-write* {subpath(path)})")
            case "read":
                rules.append(f"(allow file-read* {subpath(path)})(deny file-write* {subpath(path)})")
            case _:
                rules.append(f"(allow file-read* file-write* {subpath(path)})")
    rules += ["(deny signal)", "(allow signal (target same-sandbox))"]
    return "".join(rules if network else [*rules, "(deny network*)"])
