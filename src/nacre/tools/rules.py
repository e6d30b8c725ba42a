"""Permission rules: `Bash(git status:*)`, `Edit(src/**)`, `Read(~/notes/**)`, `WebFetch(domain:example.org)`.

A rule names a tool and, in brackets, a pattern for its calls: the words of a command, the path of a file, the
host of a web page. Without a pattern it applies to every call of the tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from nacre.errors import ConfigError
from nacre.tools.patterns import matches, translate

if TYPE_CHECKING:
    from nacre.tools.shell import SimpleCommand

Effect: TypeAlias = Literal["allow", "ask", "deny"]

_RULE = re.compile(r"(?P<tool>[A-Za-z_*][\w*-]*)(?:\((?P<pattern>.*)\))?", re.DOTALL)
READERS = frozenset({"Read", "Grep", "Glob"})
"""Tools that a `Read` rule applies to."""
EDITORS = frozenset({"Edit", "Write"})
"""Tools that an `Edit` rule applies to."""
MAX_SHOWN_CHARS = 200
"""How much of an invalid rule an error quotes."""
_FAMILY = {**dict.fromkeys(READERS, "Read"), **dict.fromkeys(EDITORS, "Edit")}


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """Allows, denies or asks for some calls of a tool."""

    effect: Effect
    tool: str
    pattern: str = ""
    origin: str = ""
    """The source of the rule: a settings file, or the user's answer."""

    @property
    def text(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool

    def names(self, tool: str) -> bool:
        """Return whether the rule applies to this tool; `mcp__server` applies to all tools of the server."""
        return (
            fnmatchcase(tool, self.tool)
            or _FAMILY.get(tool) == self.tool
            or (self.tool.startswith("mcp__") and tool.startswith(f"{self.tool}__"))
        )


def parse_rule(text: str, effect: Effect, origin: str = "") -> PermissionRule:
    """Parse a rule of the settings; `ConfigError` if it is invalid."""
    found = _RULE.fullmatch(text.strip())
    where = f"{origin}: " if origin else ""
    if found is None or found["pattern"] == "":
        raise ConfigError(f"{where}{text!r} is no permission rule; write Tool or Tool(pattern)")
    rule = PermissionRule(effect, found["tool"], found["pattern"] or "", origin)
    if any(map(rule.names, READERS | EDITORS)):
        try:
            re.compile(translate(rule.pattern))
        except (re.error, RecursionError) as error:
            shown = text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
            raise ConfigError(f"{where}{shown!r} holds no valid path pattern: {error}; correct it") from error
    return rule


def meets_command(pattern: str, command: SimpleCommand) -> bool:
    """Return whether a pattern matches a command: `git status:*` its beginning, else all of it."""
    wanted = pattern.removesuffix(":*").split()
    if not wanted or len(command.words) < len(wanted):
        return False
    if not pattern.endswith(":*") and len(command.words) != len(wanted):
        return False
    pairs = zip(command.words, wanted, strict=False)
    return all(word.is_literal and fnmatchcase(word.text, glob) for word, glob in pairs)


def meets_path(pattern: str, path: Path, *, root: Path) -> bool:
    """Return whether a pattern matches a file: `//abs`, `~/home`, or relative to the project.

    As in a .gitignore, a pattern without a slash matches a name at any depth, and a directory its content.
    """
    base, rest = _base_and_rest(pattern, root)
    return path.is_relative_to(base) and matches(rest, path.relative_to(base).as_posix(), or_below=True)


def path_expression(pattern: str, *, root: Path) -> str:
    """Return a regular expression for the absolute paths of the files that a pattern matches."""
    base, rest = _base_and_rest(pattern, root)
    return f"{re.escape(base.as_posix().rstrip('/'))}/{translate(rest)}(?:/.*)?"


def _base_and_rest(pattern: str, root: Path) -> tuple[Path, str]:
    if pattern.startswith("//"):
        base = Path("/")
        rest = pattern[2:]
    elif pattern.startswith("~/"):
        base = Path.home()
        rest = pattern[2:]
    else:
        # Not relative to the working directory: a `cd` must not change what a rule matches.
        base = root
        rest = pattern.removeprefix("./").removeprefix("/")
        if "/" not in pattern.removeprefix("./").rstrip("/"):
            rest = f"**/{rest}"
    return base, rest.rstrip("/")


def rule_against(rules: Iterable[PermissionRule], path: Path, *, root: Path) -> PermissionRule | None:
    """Return the first rule with a pattern that denies reading a file or asks for it."""
    against = (rule for rule in rules if rule.effect != "allow" and rule.pattern and rule.names("Read"))
    return next((rule for rule in against if meets_path(rule.pattern, path, root=root)), None)


def meets_host(pattern: str, host: str) -> bool:
    """Return whether `domain:example.org` matches a host; subdomains match too."""
    wanted = pattern.removeprefix("domain:").lower().rstrip(".")
    host = host.lower().rstrip(".")
    return host == wanted or host.endswith(f".{wanted}") or fnmatchcase(host, wanted)
