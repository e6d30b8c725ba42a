"""Permission rules: `Bash(git status:*)`, `Edit(src/**)`, `Read(~/notes/**)`, `WebFetch(domain:example.org)`.

A rule names a tool and, in brackets, which of its calls it means: commands by their words, files by a path
pattern, web pages by their host. A bare name means every call of the tool.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.errors import ConfigError
from nacre.tools.patterns import translate
from nacre.tools.shell import SimpleCommand

Effect: TypeAlias = Literal["allow", "ask", "deny"]

_RULE = re.compile(r"(?P<tool>[A-Za-z_*][\w*-]*)(?:\((?P<pattern>.*)\))?", re.DOTALL)
READERS = frozenset({"Read", "Grep", "Glob"})
"""Tools that a `Read` rule speaks of."""
EDITORS = frozenset({"Edit", "Write"})
"""Tools that an `Edit` rule speaks of."""
MAX_SHOWN_CHARS = 200
"""How much of a rule that is no rule an error quotes."""
_FAMILY = {**dict.fromkeys(READERS, "Read"), **dict.fromkeys(EDITORS, "Edit")}


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """What may, may not, or may only with a person's word be called."""

    effect: Effect
    tool: str
    pattern: str = ""
    origin: str = ""
    """Where the rule stands: a settings file, or the person's own answer."""

    @property
    def text(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool

    def names(self, tool: str) -> bool:
        """Whether the rule speaks of this tool at all; `mcp__server` speaks of all its tools."""
        return (
            fnmatchcase(tool, self.tool)
            or _FAMILY.get(tool) == self.tool
            or (self.tool.startswith("mcp__") and tool.startswith(f"{self.tool}__"))
        )


def parse_rule(text: str, effect: Effect, origin: str = "") -> PermissionRule:
    """A rule as it stands in settings; `ConfigError` says what is wrong with it."""
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
    """Whether a pattern means a simple command: `git status:*` its beginning, anything else all of it."""
    wanted = pattern.removesuffix(":*").split()
    if not wanted or len(command.words) < len(wanted):
        return False
    if not pattern.endswith(":*") and len(command.words) != len(wanted):
        return False
    pairs = zip(command.words, wanted, strict=False)
    return all(word.is_literal and fnmatchcase(word.text, glob) for word, glob in pairs)


def meets_path(pattern: str, path: Path, *, root: Path) -> bool:
    """Whether a pattern means a file: `//abs`, `~/home`, or from the project, with or without a slash ahead.

    As in a .gitignore, a pattern without a slash means a name at any depth, and a directory all in it.
    """
    if pattern.startswith("//"):
        base = Path("/")
        rest = pattern[2:]
    elif pattern.startswith("~/"):
        base = Path.home()
        rest = pattern[2:]
    else:
        # Never from where the session happens to be: a `cd` must not carry a file out of a rule's reach.
        base = root
        rest = pattern.removeprefix("./").removeprefix("/")
        if "/" not in pattern.removeprefix("./").rstrip("/"):
            rest = f"**/{rest}"
    if not path.is_relative_to(base):
        return False
    matched = translate(rest.rstrip("/")) + r"(?:/.*)?"
    return re.fullmatch(matched, path.relative_to(base).as_posix(), re.DOTALL) is not None


def meets_host(pattern: str, host: str) -> bool:
    """Whether `domain:example.org` means this host; its subdomains are meant too."""
    wanted = pattern.removeprefix("domain:").lower().rstrip(".")
    host = host.lower().rstrip(".")
    return host == wanted or host.endswith(f".{wanted}") or fnmatchcase(host, wanted)
