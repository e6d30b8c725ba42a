"""Whether a repository's own git settings make git start other programs, even when it only reads."""

from __future__ import annotations

import re
from pathlib import Path

MAX_BYTES = 1_000_000
"""A larger config is none that somebody wrote by hand."""
STARTERS = frozenset(
    "askpass clean command external fsmonitor hookspath pager process program smudge sshcommand"
    " textconv".split()
)
"""Keys whose value is a program."""

_SECTION = re.compile(r"\s*\[\s*([\w.-]+)", re.ASCII)
_KEY = re.compile(r"\s*(?:\[[^\]]*\])?\s*([\w-]+)\s*=", re.ASCII)


def starter_in(root: Path) -> str:
    """The first setting of the repository at this root that starts a program; empty when there is none.

    A config that includes another, or cannot be read, counts as one that does.
    """
    config = _config_of(root / ".git")
    if config is None:
        return ""
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
        if name in STARTERS or (section.startswith("include") and name == "path"):
            return f"{section}.{name}"
    return ""


def _config_of(dot_git: Path) -> Path | None:
    if dot_git.is_dir():
        return dot_git / "config"
    if not dot_git.is_file():
        return None
    try:
        folder = dot_git.parent / _text(dot_git).removeprefix("gitdir:").strip()
        common = folder / "commondir"
        shared = folder / _text(common).strip() if common.is_file() else folder
    except OSError:
        return dot_git
    return shared / "config"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
