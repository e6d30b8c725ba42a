"""Decide about one tool call by rules and defaults; deny precedes ask, ask precedes allow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject
from nacre.tools.base import Tool
from nacre.tools.git_config import repository_problem
from nacre.tools.patterns import named_place
from nacre.tools.reach import named
from nacre.tools.rules import EDITORS, READERS, Effect, PermissionRule, meets_command, meets_host, meets_path
from nacre.tools.shell import EXTRACTION, Allowed, SimpleCommand, explain, objection, programs
from nacre.tools.workspace import UnresolvedPathError, Workspace

Mode: TypeAlias = Literal["default", "acceptEdits", "bypassPermissions"]
"""What is allowed where no rule matches: reads, edits in the project, or everything."""
HARMLESS = frozenset(
    {"Agent", "Pin", "SendMessage", "Skill", "TaskList", "TaskStop", "TeamTasks"}
    | {"remember", "recall", "forget", "correct"}
)
"""Tools that change only the session, its agents, and memory, where every change can be undone.

Calls of an agent that they start are checked themselves.
"""
GUARDED_FOLDERS = frozenset({".git", ".nacre", ".claude"})
"""Their content decides which programs run later: a change is always asked for."""
SUBCOMMANDS = frozenset(
    {"git", "npm", "pnpm", "yarn", "cargo", "go", "docker", "kubectl", "make", "uv", "pip"}
)
"""Programs whose second word is a subcommand; "always" then allows both words."""

SUBJECTS = {"Agent": ("subagent_type", "general"), "SendMessage": ("to", ""), "Skill": ("skill", "")}
"""The argument that the pattern of a rule matches for these tools, and its default."""
WILD = re.compile(r"[*?\[{]")
WRITTEN_OUT = r"[\g<0>]"
"""Special characters of a path pattern, and the replacement that escapes them."""


@dataclass(frozen=True, slots=True)
class PermissionDecision:
    """The effect on a call, and the reason."""

    effect: Effect
    reason: str = ""
    path: Path | None = None
    """The real file that was checked; the tool must open the same one."""
    is_ruled: bool = False
    """A rule requires the question: only the user's own answer can allow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """The upper limit of what a fork or sub-agent may do (F3, E5)."""

    tools: frozenset[str]
    writes_in: tuple[Path, ...] = ()
    """These may be read as well."""
    reads_in: tuple[Path, ...] = ()
    """Directories outside the project that may be read without a question."""
    commands: Allowed = EXTRACTION
    """The Bash commands that may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionPolicy:
    """Permission rules and defaults."""

    root: Path
    """The project directory."""
    rules: tuple[PermissionRule, ...] = ()
    mode: Mode = "default"
    directories: tuple[Path, ...] = ()
    """Further directories that are treated like the project."""
    narrowing: Narrowing | None = None
    in_worktree: bool = False
    """The root is an agent's own worktree: its path below nacre's home does not make its files guarded."""
    twins: tuple[Path, ...] = ()
    """The checkouts that such a worktree was created from: rules against files apply there, too."""

    def with_rules(self, rules: Iterable[PermissionRule]) -> PermissionPolicy:
        """Return the policy with these rules appended."""
        return replace(self, rules=(*self.rules, *rules))

    def narrowed(self, narrowing: Narrowing) -> PermissionPolicy:
        """Return the policy with a narrowing; questions become denials."""
        return replace(self, narrowing=narrowing, mode="default")

    def decide(self, tool: Tool, arguments: JsonObject, workspace: Workspace) -> PermissionDecision:
        """Decide about a call; malformed arguments pass, because the tool itself refuses them."""
        try:
            path = _path(tool.name, arguments, workspace)
        except UnresolvedPathError as error:
            return self._unresolved(tool.name, arguments, workspace, error)
        except ToolError:
            return PermissionDecision("allow")
        decision = self._by_rule(tool.name, arguments, path, workspace)
        if self.narrowing is not None and (decision is None or decision.effect != "deny"):
            ruled = decision
            decision = self._by_narrowing(self.narrowing, tool.name, arguments, path)
            # Writes are limited by the narrowing alone; all else is decided as for the parent.
            if decision.effect == "allow" and tool.name not in EDITORS:
                decision = ruled or self._for_reader(self.narrowing, tool, arguments, path, workspace)
            if decision.effect == "ask":
                decision = replace(
                    decision, effect="deny", reason=f"{decision.reason}, and nobody can be asked here"
                )
        if decision is None:
            decision = self._by_default(tool, arguments, path, workspace)
        return replace(decision, path=path)

    def summary(self) -> str:
        """Return what the model may do without permission, for the answer to a refused call."""
        if self.narrowing is None:
            return f"Reading below {self.root} and read-only commands need no permission."
        allowed = ", ".join(sorted(self.narrowing.tools))
        where = ", ".join(map(str, self.narrowing.writes_in))
        writes = f" Write only below {where}." if where else " Nothing may be written."
        programs = ", ".join(sorted(self.narrowing.commands.programs))
        commands = f" In Bash only {programs}." if "Bash" in self.narrowing.tools else ""
        return f"You may use: {allowed}.{writes}{commands}"

    def rule_for(self, tool: Tool, arguments: JsonObject, workspace: Workspace) -> PermissionRule:
        """What "always for this" means: this command, this file, this host, or this tool."""
        try:
            path = _path(tool.name, arguments, workspace)
        except UnresolvedPathError:
            path = _as_named(arguments, workspace)
        pattern = ""
        if path is not None:
            inside = path.is_relative_to(self.root)
            pattern = f"/{path.relative_to(self.root)}" if inside else f"//{str(path).lstrip('/')}"
            # Exactly this file: `[id].tsx` is a name here, not a character set.
            pattern = WILD.sub(WRITTEN_OUT, pattern)
        elif tool.name == "Bash":
            pattern = _command_pattern(str(arguments.get("command", "")))
        elif tool.name == "WebFetch":
            pattern = f"domain:{_host(arguments)}"
        return PermissionRule("allow", tool.name, pattern, "your answer")

    @property
    def _roots(self) -> tuple[Path, ...]:
        return (self.root, *self.directories)

    def _unresolved(
        self, tool: str, arguments: JsonObject, workspace: Workspace, error: UnresolvedPathError
    ) -> PermissionDecision:
        """Decide about a path that cannot be resolved: only the user may allow it."""
        written = _as_named(arguments, workspace)
        reason = str(error).removesuffix(".")
        for rule in self.rules:
            is_denial = rule.effect == "deny" and rule.names(tool)
            if is_denial and self._meets(rule, arguments, written, workspace):
                return _ruled(rule)
        if self.narrowing is not None:
            return PermissionDecision("deny", f"{reason}, and nobody can be asked here")
        return PermissionDecision("ask", reason, is_ruled=True)

    def _by_rule(
        self, tool: str, arguments: JsonObject, path: Path | None, workspace: Workspace
    ) -> PermissionDecision | None:
        met = [rule for rule in self.rules if rule.names(tool)]
        shields = self._shields(arguments, workspace) if tool == "Bash" else []
        for effect in ("deny", "ask", "allow"):
            for rule in (*met, *shields):
                is_met = rule in shields or self._meets(rule, arguments, path, workspace)
                if rule.effect == effect and is_met:
                    return _ruled(rule)
                if effect == "ask" and tool == "Bash" and _dodges(rule, arguments):
                    unsure = f"{rule.text} cannot be checked on a line like this"
                    return PermissionDecision("ask", unsure, is_ruled=True)
        is_allowed_in_parts = tool == "Bash" and self._allows_each_part(arguments, met, workspace)
        return PermissionDecision("allow") if is_allowed_in_parts else None

    def _meets(
        self, rule: PermissionRule, arguments: JsonObject, path: Path | None, workspace: Workspace
    ) -> bool:
        if not rule.pattern:
            return True
        if path is not None:
            # A rule against a file applies to every name of it; a rule for one only to its real path.
            others = [workspace.behind(path), _as_named(arguments, workspace)]
            paths = {path} if rule.effect == "allow" else self._copies(path, *others)
            return any(meets_path(rule.pattern, one, root=self.root) for one in paths)
        if "url" in arguments:
            return meets_host(rule.pattern, _host(arguments))
        if (subject := SUBJECTS.get(rule.tool)) is not None:
            return fnmatchcase(str(arguments.get(*subject)).strip().lstrip("/"), rule.pattern)
        command = str(arguments.get("command", ""))
        if rule.effect == "allow":
            # A pattern is about one command, and a line of several is checked part by part below; but a line
            # that was allowed literally is allowed.
            return rule.pattern == command.strip()
        parts = programs(command) or ()
        return any(meets_command(rule.pattern, part) for part in (*parts, *map(_bare, parts)))

    def _copies(self, *paths: Path) -> set[Path]:
        """Return these paths and their counterparts in every other checkout of the project."""
        roots = (self.root, *self.twins)
        homes = {path: next(filter(path.is_relative_to, roots), None) for path in paths}
        found = {root / path.relative_to(home) for path, home in homes.items() if home for root in roots}
        return {*paths, *found}

    def _shields(self, arguments: JsonObject, workspace: Workspace) -> list[PermissionRule]:
        """Return Read rules against files that a command names: `cat` must not read what Read may not."""
        against = [
            rule for rule in self.rules if rule.effect != "allow" and rule.pattern and rule.names("Read")
        ]
        parts = (programs(str(arguments.get("command", ""))) or ()) if against else ()
        paths = {one.path or _guessed(one.word, workspace) for one in named(parts, workspace.cwd)}
        paths = self._copies(*paths, *map(workspace.behind, paths))
        return [
            rule for rule in against if any(meets_path(rule.pattern, path, root=self.root) for path in paths)
        ]

    def _allows_each_part(
        self, arguments: JsonObject, rules: Iterable[PermissionRule], workspace: Workspace
    ) -> bool:
        """Return whether rules allow all commands of a line, except those that only read in the project."""
        parts = programs(str(arguments.get("command", ""))) or ()
        allowing = [rule for rule in rules if rule.effect == "allow" and rule.pattern]
        others = [part for part in parts if not any(_allows(rule, part) for rule in allowing)]
        if len(others) == len(parts) or not others:
            return bool(parts) and not others
        # The target of an allowed `cd` decides what the others read.
        others = [part for part in parts if part in others or part.argv[:1] == ("cd",)]
        if any(map(objection, others)) or _outside(others, self._roots, workspace):
            return False
        return not self._git_problem(others, workspace)

    def _by_narrowing(
        self, limits: Narrowing, tool: str, arguments: JsonObject, path: Path | None
    ) -> PermissionDecision:
        if tool not in limits.tools:
            return PermissionDecision("deny", f"{tool} is not for this agent")
        if tool in EDITORS and not (path and any(path.is_relative_to(place) for place in limits.writes_in)):
            return PermissionDecision("deny", "this agent may not write there")
        if tool == "Bash":
            verdict = explain(str(arguments.get("command", "")), allowed=limits.commands)
            return (
                PermissionDecision("allow")
                if verdict.read_only
                else PermissionDecision("deny", verdict.reason)
            )
        return PermissionDecision("allow")

    def _for_reader(
        self, limits: Narrowing, tool: Tool, arguments: JsonObject, path: Path | None, workspace: Workspace
    ) -> PermissionDecision:
        """Decide about a read by the parent's policy, with the directories of the narrowing."""
        if tool.name not in READERS | {"Bash"}:
            return PermissionDecision("allow")
        places = (*self.directories, *limits.writes_in, *limits.reads_in)
        whole = replace(self, narrowing=None, directories=places)
        return whole._by_default(tool, arguments, path, workspace)

    def _by_default(
        self, tool: Tool, arguments: JsonObject, path: Path | None, workspace: Workspace
    ) -> PermissionDecision:
        if self.mode == "bypassPermissions" or tool.name in HARMLESS:
            return PermissionDecision("allow")
        if path is not None:
            return self._for_path(tool.name, path)
        if tool.name == "Bash":
            return self._for_command(str(arguments.get("command", "")), workspace)
        if tool.name == "WebFetch":
            return PermissionDecision("ask", f"it would fetch a page from {_host(arguments)}")
        return PermissionDecision("ask", f"{tool.name} comes from outside and may do anything")

    def _for_path(self, tool: str, path: Path) -> PermissionDecision:
        is_inside = any(path.is_relative_to(place) for place in self._roots)
        if tool in READERS:
            return (
                PermissionDecision("allow")
                if is_inside
                else PermissionDecision("ask", f"{path} is outside the project")
            )
        if not is_inside:
            return PermissionDecision("ask", f"it would write outside the project, to {path}")
        is_own = self.in_worktree and path.is_relative_to(self.root)
        if GUARDED_FOLDERS & set(path.relative_to(self.root).parts if is_own else path.parts):
            return PermissionDecision("ask", f"{path} decides what programs run later")
        return (
            PermissionDecision("allow")
            if self.mode == "acceptEdits"
            else PermissionDecision("ask", f"it would change {path}")
        )

    def _for_command(self, command: str, workspace: Workspace) -> PermissionDecision:
        verdict = explain(command)
        if not verdict.read_only:
            return PermissionDecision("ask", verdict.reason)
        parts = programs(command) or ()
        if outside := _outside(parts, self._roots, workspace):
            return PermissionDecision("ask", outside)
        if problem := self._git_problem(parts, workspace):
            return PermissionDecision(
                "ask", f"git may start a program or read elsewhere in this repository: {problem}"
            )
        return PermissionDecision("allow")

    def _git_problem(self, parts: Sequence[SimpleCommand], workspace: Workspace) -> str:
        """Return why git may not run without a question where a line runs it; empty if it may."""
        if not any(_bare(part).argv[:1] == ("git",) for part in parts):
            return ""
        entered = (one.path for one in named(parts, workspace.cwd) if one.is_entered)
        places = dict.fromkeys(place for place in entered if place is not None)
        is_grep = any("grep" in part.argv[1:] for part in parts)
        problems = (repository_problem(place, self._roots, is_grep=is_grep) for place in places)
        return next(filter(None, problems), "")


def _ruled(rule: PermissionRule) -> PermissionDecision:
    says = f"{rule.text} ({rule.origin or 'a rule'}) says {rule.effect}"
    return PermissionDecision(rule.effect, says, is_ruled=True)


def _path(tool: str, arguments: JsonObject, workspace: Workspace) -> Path | None:
    """Return the real file or directory of a call, if it has one."""
    if tool not in READERS | EDITORS:
        return None
    given = arguments.get("path") if tool in {"Grep", "Glob"} else arguments.get("file_path")
    if given is None and tool in {"Grep", "Glob"}:
        given = "."
    if not isinstance(given, str):
        raise ToolError("no path")
    if tool == "Glob":
        given = named_place(given, str(arguments.get("pattern", "")))
    return workspace.aim(given)


def _guessed(word: str, workspace: Workspace) -> Path:
    """Return a likely path for a word that cannot be resolved, for rules that deny or ask."""
    path = workspace.cwd / os.path.expanduser(word)  # noqa: PTH111  # no error on an unknown ~user
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return Path(os.path.normpath(path))


def _as_named(arguments: JsonObject, workspace: Workspace) -> Path:
    """Return the path of the call without following links."""
    name = arguments.get("file_path") or arguments.get("path") or "."
    return Path(os.path.normpath(workspace.cwd / os.path.expanduser(str(name))))  # noqa: PTH111  # no error on an unknown ~user


def _host(arguments: JsonObject) -> str:
    try:
        return urlsplit(str(arguments.get("url", ""))).hostname or "nowhere"
    except ValueError:
        return "nowhere"


def _allows(rule: PermissionRule, part: SimpleCommand) -> bool:
    """Return whether a rule allows all that a command does; redirected output is not allowed by it."""
    writes = any(objection(replace(part, words=(), redirections=(one,))) for one in part.redirections)
    return not part.assignments and not writes and meets_command(rule.pattern, part)


def _bare(part: SimpleCommand) -> SimpleCommand:
    """Return the command without the directory of its program: a rule against `rm` covers /bin/rm."""
    words = tuple(replace(word, text=word.text.rpartition("/")[2]) for word in part.words[:1])
    return replace(part, words=(*words, *part.words[1:]))


def _dodges(rule: PermissionRule, arguments: JsonObject) -> bool:
    """Return whether a rule against commands cannot be checked, because the line cannot be parsed."""
    is_against = rule.effect != "allow" and bool(rule.pattern)
    return is_against and programs(str(arguments.get("command", ""))) is None


def _command_pattern(command: str) -> str:
    """Return the pattern for "always": `git commit:*` for a subcommand, else the exact line."""
    parts = programs(command)
    words = parts[0].words if parts and len(parts) == 1 else ()
    is_named = len(words) > 1 and words[0].text in SUBCOMMANDS and not words[1].text.startswith("-")
    if is_named and all(word.is_literal for word in words[:2]):
        return f"{words[0].text} {words[1].text}:*"
    return command.strip()


def _outside(parts: Iterable[SimpleCommand], roots: tuple[Path, ...], workspace: Workspace) -> str:
    """Return why a line may read outside the roots, for the first such word; empty if none."""
    for one in named(parts, workspace.cwd):
        if one.path is None:
            return f"it may read outside the project ({one.why or f'where {one.word} leads is not known'})"
        if not any(one.path.is_relative_to(place) for place in roots):
            return f"it would read outside the project: {one.word}"
    return ""
