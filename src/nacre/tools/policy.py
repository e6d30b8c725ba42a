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
from nacre.tools.patterns import named_place
from nacre.tools.reach import (
    below,
    named,
    prints_unnamed_files,
    prints_untracked_files,
    revision_paths,
)
from nacre.tools.rules import (
    EDITORS,
    READERS,
    Effect,
    PermissionRule,
    meets_command,
    meets_host,
    meets_path,
    path_expression,
)
from nacre.tools.shell import EXTRACTION, Allowed, SimpleCommand, explain, objection, programs
from nacre.tools.workspace import NO_FILE, Hidden, UnresolvedPathError, Workspace

Mode: TypeAlias = Literal["default", "acceptEdits", "bypassPermissions"]
"""What is allowed where no rule matches: reads, edits in the project, or everything."""
HARMLESS = frozenset(
    {"Agent", "Pin", "SendMessage", "Skill", "TaskList", "TaskStop", "TeamTasks", "ToolSearch"}
    | {"remember", "recall", "forget", "correct", "search_sessions"}
)
"""Tools that change only the session, its agents, and memory, where every change can be undone.

Calls of an agent that they start are checked themselves.
"""
GUARDED_NAMES = frozenset(
    {".git", ".nacre", ".claude", ".husky", ".vscode", ".idea", ".mcp.json", ".envrc", ".gitmodules"}
)
"""Folders and files, in any case, that decide which programs run later: a change is always asked for."""
SUBCOMMANDS = frozenset(
    {"git", "npm", "pnpm", "yarn", "cargo", "go", "docker", "kubectl", "make", "uv", "pip"}
)
"""Programs whose second word is a subcommand; "always" then allows both words."""

SUBJECTS = {"Agent": ("subagent_type", "general"), "SendMessage": ("to", ""), "Skill": ("skill", "")}
"""The argument that the pattern of a rule matches for these tools, and its default."""
MAX_ERROR_CHARS = 200
"""How much of an unexpected error a reason quotes."""
SEARCHERS = frozenset({"Grep", "Glob"})
ANY_NAME = "\0"
"""Stands for every file of a directory; no real file has this name."""
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
    hidden: Hidden = ()
    """What a search of the directory leaves out."""
    is_ruled: bool = False
    """A rule requires the question: only the user's own answer can allow it."""


_ALLOW = PermissionDecision("allow")


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
    read_only: str = ""
    """Why nothing may be changed now, so that questions become denials; empty if changes are allowed."""
    twins: tuple[Path, ...] = ()
    """The checkouts that such a worktree was created from: rules against files apply there, too."""

    def with_rules(self, rules: Iterable[PermissionRule]) -> PermissionPolicy:
        """Return the policy with these rules appended."""
        return replace(self, rules=(*self.rules, *rules))

    def denies(self, tool: str) -> bool:
        """Return whether a rule denies every call of a tool, which is then not offered to the model."""
        return any(one.effect == "deny" and not one.pattern and one.names(tool) for one in self.rules)

    def narrowed(self, narrowing: Narrowing) -> PermissionPolicy:
        """Return the policy with a narrowing; questions become denials."""
        return replace(self, narrowing=narrowing, mode="default")

    def decide(self, tool: Tool, arguments: JsonObject, workspace: Workspace) -> PermissionDecision:
        """Decide about a call; only the user may allow a call whose check fails.

        Malformed arguments pass, because the tool itself refuses them; it cannot open a file with them.
        """
        try:
            decision = self._checked(tool, arguments, workspace)
        except Exception as error:  # noqa: BLE001  # whatever fails here must not allow the call
            shown = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_ERROR_CHARS]
            decision = self._unchecked(f"the permission check failed ({shown})")
        # A narrowing says itself what may be written.
        if self.read_only and self.narrowing is None and decision.effect != "deny":
            is_change = tool.name in EDITORS or decision.effect == "ask"
            return replace(decision, effect="deny", reason=self.read_only) if is_change else decision
        return decision

    def _checked(self, tool: Tool, arguments: JsonObject, workspace: Workspace) -> PermissionDecision:
        try:
            path = _path(tool.name, arguments, workspace)
        except UnresolvedPathError as error:
            return self._unresolved(tool.name, arguments, workspace, error)
        except ToolError:
            return PermissionDecision("allow", path=NO_FILE)
        decision = self._by_rule(tool.name, arguments, path, workspace)
        limits = self.narrowing
        if limits is None:
            decision = decision or self._by_default(tool, arguments, path, workspace)
        elif decision is None or decision.effect != "deny":
            if why := _exceeds(limits, tool.name, arguments, path):
                decision = PermissionDecision("deny", why)
            elif tool.name in EDITORS:
                decision = _ALLOW  # writes are limited by the narrowing alone
            elif decision is None:
                # Decided by the parent's policy, with the directories of the narrowing.
                places = (*self.directories, *limits.writes_in, *limits.reads_in)
                whole = replace(self, narrowing=None, directories=places)
                decision = whole._by_default(tool, arguments, path, workspace)
            if decision.effect == "ask":
                reason = f"{decision.reason}, and this task cannot ask for permission"
                decision = replace(decision, effect="deny", reason=reason)
        return replace(decision, path=path, hidden=self._hidden(tool.name, arguments, path, workspace))

    def summary(self) -> str:
        """Return what the model may do without permission, for the answer to a refused call."""
        if self.narrowing is None:
            return self._free_of_questions()
        allowed = ", ".join(sorted(self.narrowing.tools))
        where = ", ".join(map(str, self.narrowing.writes_in))
        writes = f" Write only below {where}." if where else " Nothing may be written."
        programs = ", ".join(sorted(self.narrowing.commands.programs))
        commands = f" In Bash only {programs}." if "Bash" in self.narrowing.tools else ""
        return f"You may use: {allowed}.{writes}{commands}"

    def _free_of_questions(self) -> str:
        """Return what the model may do without permission, as far as no rule restricts it."""
        against = [rule for rule in self.rules if rule.effect != "allow"]
        whole = {
            tool
            for tool in ("Read", "Bash")
            if any(rule.names(tool) and not rule.pattern for rule in against)
        }
        if "Read" in whole:
            return "By the rules, reading needs permission, too."
        reading = f"Reading below {self.root}"
        words = f"{reading} needs" if "Bash" in whole else f"{reading} and read-only commands need"
        is_restricted = any(rule.names("Read") or rule.names("Bash") for rule in against if rule.pattern)
        return f"{words} no permission{', unless a rule says otherwise' if is_restricted else ''}."

    def rule_for(self, tool: Tool, arguments: JsonObject, workspace: Workspace) -> PermissionRule:
        """Return what "always" allows: this command or subcommand, this file, this host, or this tool.

        For a call that cannot be checked, the rule matches nothing, and the next such call is asked about.
        """
        try:
            return self._rule_for(tool, arguments, workspace)
        except Exception:  # noqa: BLE001  # as in `decide`
            return PermissionRule("allow", tool.name, "only this call", "your answer")

    def _rule_for(self, tool: Tool, arguments: JsonObject, workspace: Workspace) -> PermissionRule:
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
            pattern = _command(arguments).strip()
            parts = _parts(arguments)
            words = parts[0].words if parts and len(parts) == 1 else ()
            is_named = len(words) > 1 and words[0].text in SUBCOMMANDS and not words[1].text.startswith("-")
            if is_named and all(word.is_literal for word in words[:2]):
                pattern = f"{words[0].text} {words[1].text}:*"
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
            if is_denial and self._meets(rule, tool, arguments, written, workspace):
                return _ruled(rule)
        return self._unchecked(reason)

    def _unchecked(self, reason: str) -> PermissionDecision:
        """Return the decision about a call that cannot be checked."""
        if self.narrowing is not None:
            return PermissionDecision("deny", f"{reason}, and this task cannot ask for permission")
        return PermissionDecision("ask", reason, is_ruled=True)

    def _by_rule(
        self, tool: str, arguments: JsonObject, path: Path | None, workspace: Workspace
    ) -> PermissionDecision | None:
        met = [rule for rule in self.rules if rule.names(tool)]
        shields = self._shields(arguments, workspace) if tool == "Bash" else []
        is_unparsed = tool == "Bash" and _parts(arguments) is None
        for effect in ("deny", "ask", "allow"):
            for rule in (*met, *shields):
                is_met = rule in shields or self._meets(rule, tool, arguments, path, workspace)
                if rule.effect == effect and is_met:
                    return _ruled(rule)
                if effect == "ask" and is_unparsed and rule.effect != "allow" and rule.pattern:
                    unsure = f"{rule.text} cannot be checked on a line like this"
                    return PermissionDecision("ask", unsure, is_ruled=True)
        is_allowed_in_parts = tool == "Bash" and self._allows_each_part(arguments, met, workspace)
        return _ALLOW if is_allowed_in_parts else None

    def _meets(
        self,
        rule: PermissionRule,
        tool: str,
        arguments: JsonObject,
        path: Path | None,
        workspace: Workspace,
    ) -> bool:
        if not rule.pattern:
            return True
        if path is not None:
            # A rule against a file applies to every name of it; a rule for one only to its real path.
            others = [workspace.behind(path), _as_named(arguments, workspace)]
            paths = {path} if rule.effect == "allow" else self._copies(path, *others)
            if rule.effect != "allow" and tool in SEARCHERS:
                # A rule against all files of a directory is one against a search of it.
                paths |= {one / ANY_NAME for one in paths}
            return any(meets_path(rule.pattern, one, root=self.root) for one in paths)
        if "url" in arguments:
            return meets_host(rule.pattern, _host(arguments))
        if (subject := SUBJECTS.get(rule.tool)) is not None:
            return fnmatchcase(str(arguments.get(*subject)).strip().lstrip("/"), rule.pattern)
        if rule.effect == "allow":
            # A pattern is about one command, and a line of several is checked part by part below; but a line
            # that was allowed literally is allowed.
            return rule.pattern == _command(arguments).strip()
        parts = _parts(arguments) or ()
        return any(meets_command(rule.pattern, part) for part in (*parts, *map(_bare, parts)))

    def _copies(self, *paths: Path) -> set[Path]:
        """Return these paths and their counterparts in every other checkout of the project."""
        roots = (self.root, *self.twins)
        homes = {path: next(filter(path.is_relative_to, roots), None) for path in paths}
        found = {root / path.relative_to(home) for path, home in homes.items() if home for root in roots}
        return {*paths, *found}

    @property
    def _against_reading(self) -> list[PermissionRule]:
        return [rule for rule in self.rules if rule.effect != "allow" and rule.pattern and rule.names("Read")]

    def _hidden(self, tool: str, arguments: JsonObject, path: Path | None, workspace: Workspace) -> Hidden:
        """Return what a search leaves out: files below the directory that a rule is against.

        A rule against the directory itself was decided about, and the user may have allowed it.
        """
        if tool not in SEARCHERS or path is None:
            return ()
        names = self._copies(path, workspace.behind(path), _as_named(arguments, workspace))
        rules = [
            rule for rule in self._against_reading if not self._meets(rule, tool, arguments, path, workspace)
        ]
        expressions = sorted({path_expression(rule.pattern, root=self.root) for rule in rules})
        return tuple((str(name), one) for name in sorted(names) for one in expressions)

    def _shields(self, arguments: JsonObject, workspace: Workspace) -> list[PermissionRule]:
        """Return Read rules against files that a command names: `cat` must not read what Read may not."""
        against = self._against_reading
        parts = (_parts(arguments) or ()) if against else ()
        found = list(named(parts, workspace.cwd))
        paths = {one.path or _likely_path(one.word, workspace) for one in found}
        paths |= {*revision_paths(parts, workspace.cwd)}
        searched = {one.path for one in found if one.is_searched and one.path is not None}
        paths |= {path for directory in searched for path in below(directory)}
        paths = self._copies(*paths, *map(workspace.behind, paths))
        return [
            rule for rule in against if any(meets_path(rule.pattern, path, root=self.root) for path in paths)
        ]

    def _allows_each_part(
        self, arguments: JsonObject, rules: Iterable[PermissionRule], workspace: Workspace
    ) -> bool:
        """Return whether rules allow all commands of a line, except those that only read in the project."""
        parts = _parts(arguments) or ()
        allowing = [rule for rule in rules if rule.effect == "allow" and rule.pattern]
        others = [part for part in parts if not any(_allows(rule, part) for rule in allowing)]
        if len(others) == len(parts) or not others:
            return bool(parts) and not others
        # The target of an allowed `cd` decides what the others read.
        others = [part for part in parts if part in others or part.argv[:1] == ("cd",)]
        if any(map(objection, others)) or _outside(others, self._roots, workspace):
            return False
        return not (
            self._git_problem(others, workspace, only_reads=False) or self._shown_problem(others, workspace)
        )

    def _by_default(
        self, tool: Tool, arguments: JsonObject, path: Path | None, workspace: Workspace
    ) -> PermissionDecision:
        if self.mode == "bypassPermissions" or tool.name in HARMLESS:
            return _ALLOW
        reason = ""
        if path is not None:
            reason = self._path_problem(tool.name, path)
        elif tool.name == "Bash":
            verdict = explain(_command(arguments))
            parts = _parts(arguments) or ()
            if not verdict.read_only:
                reason = verdict.reason
            elif outside := _outside(parts, self._roots, workspace):
                reason = outside
            elif problem := self._git_problem(parts, workspace, only_reads=True):
                reason = f"git may start a program or read elsewhere in this repository: {problem}"
            elif shown := self._shown_problem(parts, workspace):
                reason = shown
        elif tool.name == "WebFetch":
            reason = f"it would fetch a page from {_host(arguments)}"
        else:
            reason = f"{tool.name} comes from outside and may do anything"
        return PermissionDecision("ask", reason) if reason else _ALLOW

    def _path_problem(self, tool: str, path: Path) -> str:
        """Return why a file may not be read or changed without a question; empty if it may."""
        is_inside = any(path.is_relative_to(place) for place in self._roots)
        if tool in READERS:
            return "" if is_inside else f"{path} is outside the project"
        if not is_inside:
            return f"it would write outside the project, to {path}"
        is_own = self.in_worktree and path.is_relative_to(self.root)
        parts = path.relative_to(self.root).parts if is_own else path.parts
        if not GUARDED_NAMES.isdisjoint(map(str.casefold, parts)):
            return f"{path} decides what programs run later"
        return "" if self.mode == "acceptEdits" else f"it would change {path}"

    def _git_problem(self, parts: Sequence[SimpleCommand], workspace: Workspace, *, only_reads: bool) -> str:
        """Return why git may not run without a question where a line runs it; empty if it may."""
        from nacre.tools.git_config import repository_problem  # noqa: PLC0415 - only commands need it

        programs = {part.argv[0] for part in parts if _bare(part).argv[:1] == ("git",)}
        if not programs:
            return ""
        entered = (one.path for one in named(parts, workspace.cwd) if one.is_entered)
        places = dict.fromkeys(place for place in entered if place is not None)
        is_grep = any("grep" in part.argv[1:] for part in parts)
        # A git named by its path may be of another version than the one that is asked.
        only_reads = only_reads and programs == {"git"}
        problems = (
            repository_problem(place, self._roots, is_grep=is_grep, only_reads=only_reads) for place in places
        )
        return next(filter(None, problems), "")

    def _shown_problem(self, parts: Sequence[SimpleCommand], workspace: Workspace) -> str:
        """Return why git may print a file that a Read rule is against although no word names it."""
        from nacre.tools.git_config import tracked_file  # noqa: PLC0415 - only commands need it

        rules = {rule.pattern: rule.text for rule in self._against_reading}
        entered = (one.path for one in named(parts, workspace.cwd) if rules and one.is_entered)
        places = list(dict.fromkeys(place for place in entered if place is not None))
        if not rules or not any(prints_unnamed_files(part, places) for part in parts):
            return ""
        beyond = any(map(prints_untracked_files, parts))
        traces = (tracked_file(place, rules, self.root, or_untracked=beyond) for place in places)
        found = next(filter(None, traces), "")
        return f"it may print what {', '.join(rules.values())} is against: {found}" if found else ""


def _ruled(rule: PermissionRule) -> PermissionDecision:
    says = f"{rule.text} ({rule.origin or 'a rule'}) says {rule.effect}"
    return PermissionDecision(rule.effect, says, is_ruled=True)


def _path(tool: str, arguments: JsonObject, workspace: Workspace) -> Path | None:
    """Return the real file or directory of a call, if it has one."""
    if tool not in READERS | EDITORS:
        return None
    # As the tools: an empty path of a search is the working directory.
    given = (arguments.get("path") or ".") if tool in {"Grep", "Glob"} else arguments.get("file_path")
    if not isinstance(given, str):
        raise ToolError("no path")
    if tool == "Glob":
        given = named_place(given, str(arguments.get("pattern", "")))
    return workspace.aim(given)


def _command(arguments: JsonObject) -> str:
    return str(arguments.get("command", ""))


def _parts(arguments: JsonObject) -> tuple[SimpleCommand, ...] | None:
    return programs(_command(arguments))


def _exceeds(limits: Narrowing, tool: str, arguments: JsonObject, path: Path | None) -> str:
    """Return why a call exceeds a narrowing; empty if it does not."""
    if tool not in limits.tools:
        return f"{tool} is not for this agent"
    if tool in EDITORS and not (path and any(path.is_relative_to(place) for place in limits.writes_in)):
        return "this agent may not write there"
    return explain(_command(arguments), allowed=limits.commands).reason if tool == "Bash" else ""


def _likely_path(word: str, workspace: Workspace) -> Path:
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


def _outside(parts: Iterable[SimpleCommand], roots: tuple[Path, ...], workspace: Workspace) -> str:
    """Return why a line may read outside the roots, for the first such word; empty if none."""
    for one in named(parts, workspace.cwd):
        if one.path is None:
            return f"it may read outside the project ({one.why or f'where {one.word} leads is not known'})"
        if not any(one.path.is_relative_to(place) for place in roots):
            return f"it would read outside the project: {one.word}"
    return ""
