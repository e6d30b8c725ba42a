"""Whether a repository's own git settings make git start other programs, even when it only reads."""

from __future__ import annotations

import re
from pathlib import Path

from nacre.tools.git_links import inner_repositories

MAX_BYTES = 1_000_000
"""A larger config is none that somebody wrote by hand."""
MAX_REPOSITORIES = 200
"""Inside each other; a project with more is asked about."""
STARTERS = frozenset(
    "askpass clean command external fsmonitor gitproxy helper hookspath pager process program smudge"
    " sshcommand textconv uploadpack".split()
)
"""Keys whose value is a program; a partial clone fetches with some of them while it only reads."""

_SECTION = re.compile(r"\s*\[\s*([\w.-]+)", re.ASCII)
_KEY = re.compile(r"\s*(?:\[[^\]]*\])?\s*([\w-]+)\s*=", re.ASCII)


def starter_in(root: Path) -> str:
    """The first setting of the repository at this root that starts a program; empty when there is none.

    A config that includes another, or cannot be read, counts as one that does. Repositories inside of it are
    looked at as well, for git goes into them.
    """
    waiting, seen = [root], set[Path]()
    while waiting:
        place = waiting.pop()
        if place in seen or not (configs := _configs_of(place / ".git")):
            continue
        seen.add(place)
        inner = inner_repositories(place, configs[-1].parent)
        if len(seen) > MAX_REPOSITORIES or inner is None:
            return str(place / ".git")
        if found := next(filter(None, map(_starter, configs)), ""):
            return found
        waiting += inner
    return ""


def repository_around(place: Path) -> Path | None:
    """The root of the repository that git would work on in a directory, or beside a file."""
    return next((one for one in (place, *place.parents) if (one / ".git").exists()), None)


def _starter(config: Path) -> str:
    try:
        with config.open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError:
        return str(config)
    if len(text) > MAX_BYTES:
        return str(config)
    section = ""
    for line in text.splitlines():
        if found := _SECTION.match(line):
            section = found[1].lower()
        key = _KEY.match(line)
        name = key[1].lower() if key else ""
        # An address such as `ext::…` is a program, once its protocol is allowed.
        if name in STARTERS or (section.startswith("include") and name == "path"):
            return f"{section}.{name}"
        if section == "protocol" and name == "allow":
            return f"{section}.{name}"
    return ""


def _configs_of(dot_git: Path) -> list[Path]:
    """The files with settings of a repository: all its worktrees', and those of this worktree alone."""
    if dot_git.is_dir():
        return [dot_git / "config", dot_git / "config.worktree"]
    if not dot_git.is_file():
        return []
    try:
        folder = dot_git.parent / _text(dot_git).removeprefix("gitdir:").strip()
        common = folder / "commondir"
        shared = folder / _text(common).strip() if common.is_file() else folder
    except OSError:
        return [dot_git]
    return [shared / "config", folder / "config.worktree"]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
