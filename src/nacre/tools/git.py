"""Run git for nacre itself, and define the settings with which it starts no program of a repository.

`run_git` serves nacre's own work: worktrees, team memory, the branch of a session. `ask_git` runs git as a
Bash line would, for the permission check. Nothing else in nacre starts git.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import ConfigError, StoreError
from nacre.process import ProcessSpec, run, run_sync

SECONDS = 60.0
"""Maximum seconds of one command: far more than a few pages of text need on a slow network."""
QUICK_SECONDS = 10.0
"""For one command that lists settings or names; for a slower repository the user is asked."""
MAX_OUTPUT = 67_108_864
"""Maximum output of one command: far more than a team's memory, and small enough for memory."""
_MESSAGE_CHARS = 300
"""Maximum characters of git's output in a one-line message."""

NO_PROGRAMS: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "",
    "submodule.recurse": "false",
}
"""Settings that override those of a repository, for commands that must not start its programs."""
EVERY_LINE: Mapping[str, str] = {"safe.bareRepository": "explicit", "core.fsmonitor": "false"}
"""Settings for every Bash line: a bare repository hidden in a directory is not used unless it is named."""
READ_ONLY: Mapping[str, str] = {
    **EVERY_LINE,
    **NO_PROGRAMS,
    "core.pager": "cat",
    "diff.submodule": "short",
    "status.submoduleSummary": "false",
}
"""Settings for a line that only reads. `diff.external` is not among them: git fails where it is empty."""
OFFLINE: Mapping[str, str] = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
"""Variables that keep git from any remote, a partial clone's included, and from updates of the index."""

_PROGRAM = "git"
_OWN_SETTINGS = (
    *(f"{key}={value}" for key, value in NO_PROGRAMS.items()),
    "core.askPass=",
    "credential.interactive=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "push.gpgSign=false",
    "push.followTags=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=30",
)
_OWN_VARIABLES = {
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "LC_ALL": "C",  # messages of git are parsed
}
_REMOTES = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
"""No protocol that starts a program named in an address."""
_USERINFO = re.compile(r"(?<=://)[^/@\s]*@")

LIST_SETTINGS = ("config", "--show-scope", "--name-only", "--null", "--list")
"""Lists the names of all settings with their scopes; starts no program."""
_REPOSITORY_SCOPES = frozenset({"local", "worktree"})


@dataclass(frozen=True, slots=True)
class GitResult:
    """Result of a git command."""

    code: int
    out: bytes
    err: str
    """Without passwords of an address."""

    @property
    def message(self) -> str:
        """The error message of git, in one line."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        wanted = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))] or lines
        text = "; ".join(line.removeprefix("fatal: ").removeprefix("error: ") for line in wanted[:3])
        return text[:_MESSAGE_CHARS] or f"git ended with code {self.code}"


async def run_git(
    directory: Path,
    *arguments: str,
    stdin: bytes = b"",
    seconds: float = SECONDS,
    limit: int = MAX_OUTPUT,
    variables: Mapping[str, str] | None = None,
) -> GitResult:
    """Run one command in a directory to its end; `StoreError` if it takes too long or prints too much.

    There are no prompts and no hooks. The user's git settings apply; variables that could redirect git are
    removed. `variables` are added to the environment and take precedence over it: with `OFFLINE`, git reaches
    no remote.
    """
    output = bytearray()
    # A file, because ssh in the background would hold a pipe open for hours.
    with tempfile.TemporaryFile() as errors:
        spec = ProcessSpec(
            argv=_own_command(directory, arguments),
            environ={**_own_environment(), **_REMOTES, **(variables or {})},
            stdin=stdin,
            stderr=errors,
            seconds=seconds,
            max_bytes=limit,
        )
        try:
            ended = await run(spec, output.extend)
        except FileNotFoundError as error:
            raise ConfigError("git is not installed; install it, or share a `folder:/path`") from error
        if ended.why == "timeout":
            raise StoreError(f"git {arguments[0]} took over {seconds:g} s; nothing is lost, try again")
        if ended.exit_code is None:
            raise StoreError(f"git said more than {limit:,} bytes; what lies there is no team's memory")
        errors.seek(0)
        return _result(ended.exit_code, bytes(output), errors.read(limit))


def run_git_sync(directory: Path, *arguments: str) -> GitResult:
    """Run one short command like `run_git`, offline; raises `OSError` or `TimeoutError` if it cannot run."""
    environ = {**_own_environment(), **OFFLINE}
    done = run_sync(_own_command(directory, arguments), cwd=directory, environ=environ, seconds=QUICK_SECONDS)
    return _result(done.returncode, done.stdout, done.stderr)


def ask_git(place: Path, *arguments: str, seconds: float = QUICK_SECONDS) -> GitResult:
    """Run one short command that only reads, with the environment of a Bash line that only reads."""
    environ = {**line_environment(os.environ, read_only=True), "LC_ALL": "C"}
    # With this variable, `git config` would list another file than the ones that git uses.
    environ.pop("GIT_CONFIG", None)
    done = run_sync((_PROGRAM, *arguments), cwd=place, environ=environ, seconds=seconds)
    return _result(done.returncode, done.stdout, done.stderr)


def identity(place: Path) -> dict[str, str]:
    """Return the user's name and address for commits, from the settings that git reads here."""
    try:
        listed = ask_git(place, "config", "--null", "--get-regexp", r"^user\.(name|email)$").out
    except (OSError, TimeoutError):
        return {}
    pairs = (one.partition("\n") for one in os.fsdecode(listed).split("\0") if one)
    return {name: value for name, _, value in pairs}


def line_environment(environ: Mapping[str, str], *, read_only: bool) -> dict[str, str]:
    """Return the environment of a Bash line: git uses no pager, no hidden bare repository and no monitor.

    In a line that only reads, git also runs no hook, reaches no remote and does not update the index.
    """
    return {
        **environment(environ, READ_ONLY if read_only else EVERY_LINE),
        **(OFFLINE if read_only else {}),
        "GIT_PAGER": "cat",
        "PAGER": "cat",
    }


def environment(environ: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which these git settings override those of every file (git 2.31 or later)."""
    given = environ.get("GIT_CONFIG_COUNT", "")
    count = int(given) if given.isdigit() else 0
    named = {
        f"GIT_CONFIG_{part}_{number}": text
        for number, pair in enumerate(settings.items(), start=count)
        for part, text in zip(("KEY", "VALUE"), pair, strict=True)
    }
    return {
        **environ, **named, "GIT_CONFIG_COUNT": str(count + len(settings)), "GIT_TERMINAL_PROMPT": "0"
    }  # fmt: skip


def settings_by_scope(listed: bytes) -> tuple[list[str], frozenset[str]]:
    """Return the names of a repository's own settings and of those that override them.

    `listed` is the output of `LIST_SETTINGS`. Settings of the system and of the user are left out.
    """
    words = os.fsdecode(listed).split("\0")
    pairs = list(zip(words[::2], words[1::2], strict=False))
    own = [key for scope, key in pairs if scope in _REPOSITORY_SCOPES]
    return own, frozenset(key for scope, key in pairs if scope == "command")


def _result(code: int, out: bytes, err: bytes) -> GitResult:
    return GitResult(code, out, _USERINFO.sub("", err.decode(errors="replace")))


def _own_command(directory: Path, arguments: tuple[str, ...]) -> tuple[str, ...]:
    settings = (word for setting in _OWN_SETTINGS for word in ("-c", setting))
    return (_PROGRAM, "--no-pager", *settings, "-C", str(directory), *arguments)


def _own_environment() -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") and name not in {"SSH_ASKPASS", "LANGUAGE"}
    }
    return {**inherited, **_OWN_VARIABLES}
