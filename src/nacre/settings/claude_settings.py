"""Reads what nacre shares with Claude Code from its settings files: permission rules, hooks, memory switches.

Nothing that restricts is lost: a deny or ask rule that nacre cannot express asks instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject
from nacre.settings.values import SettingsProblem

Effect: TypeAlias = Literal["allow", "ask", "deny"]
EFFECTS: Sequence[Effect] = ("deny", "ask", "allow")
HOOK_EVENTS = frozenset(
    {"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PreCompact", "PostCompact"}
    | {"Stop", "SubagentStop", "SessionEnd", "InstructionsLoaded"}
)
"""The events of `nacre.hooks.table`."""
CAN_REFUSE = frozenset({"PreToolUse", "UserPromptSubmit"})
"""Events at which a hook that nacre cannot run may have been a restriction."""
MAX_SECONDS = 86_400.0
"""The most a timeout of a hook may be."""
SHOWN_CHARS = 120
EVERYTHING = "*"
OWN_HOOK = re.compile(r"""(?:^|[/\s])nacre['"]? hook [A-Za-z]+\s*$""")
"""A hook that `nacre install claude-code` wrote: nacre does in its own sessions what it does there."""
_RULE = re.compile(r"([A-Za-z_*][\w*-]*)(?:\((.*)\))?", re.DOTALL)
_SHELL = re.compile(r"[&|;<>$`\"'()\\]")
"""Signs of a line of several commands, which rules of nacre do not have."""
_ALIASES = {"Task": "Agent", "MultiEdit": "Edit", "NotebookEdit": "Edit", "NotebookRead": "Read"}
_PATH_TOOLS = frozenset({"Read", "Edit", "Write", "Grep", "Glob"})
_NAMED = frozenset({"Agent", "Skill"})
"""Tools whose pattern is a name."""
KNOWN_TOOLS = _PATH_TOOLS | _NAMED | {"Bash", "WebFetch"}


@dataclass(frozen=True, slots=True)
class ConvertedRule:
    """A rule of Claude Code as rules of nacre."""

    rules: tuple[tuple[Effect, str], ...] = ()
    note: str = ""
    """How it differs, if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeFile:
    """What nacre uses of one file."""

    values: Mapping[str, Json]
    """Checked values by the names of nacre's settings."""
    problems: tuple[SettingsProblem, ...] = ()
    """What the user is told at the start of a session."""
    hook_problems: tuple[SettingsProblem, ...] = ()
    """The same about hooks, which matter only where the file may bring any."""
    notes: tuple[SettingsProblem, ...] = ()
    """What `nacre doctor` lists: parts that nacre does not use, or uses differently."""
    disables_hooks: bool | None = None


def read_claude_file(document: JsonObject, path: Path, *, cwd: Path, root: Path) -> ClaudeFile:
    """Return what nacre uses of a file; anything else is listed and never an error."""
    place = str(path)
    notes: list[str] = []
    problems: list[str] = []
    values: dict[str, Json] = {}
    if isinstance(enabled := document.get("autoMemoryEnabled"), bool):
        values["autoMemoryEnabled"] = enabled
    excludes = document.get("claudeMdExcludes")
    if isinstance(excludes, list) and all(isinstance(one, str) and one.strip() for one in excludes):
        values["claudeMdExcludes"] = excludes
    values |= _permissions(document.get("permissions"), notes, problems, cwd=cwd, root=root)
    lost: list[str] = []
    if hooks := _hooks(document.get("hooks"), notes, lost):
        values["hooks"] = hooks
    used = {"autoMemoryEnabled", "claudeMdExcludes", "permissions", "hooks", "disableAllHooks", "$schema"}
    if unused := sorted(name[:SHOWN_CHARS] for name in document if name not in used):
        notes.append(f"not used by nacre: {', '.join(unused)}")
    disables = document.get("disableAllHooks")
    return ClaudeFile(
        values=values,
        problems=tuple(SettingsProblem(place, one) for one in problems),
        hook_problems=tuple(SettingsProblem(place, one) for one in lost),
        notes=tuple(SettingsProblem(place, one) for one in notes),
        disables_hooks=disables if isinstance(disables, bool) else None,
    )


def unreadable(error: ConfigError) -> ClaudeFile:
    """Return a file that cannot be read: it may have denied anything, so everything is asked for."""
    place, _, message = str(error).partition(": ")
    line = f"{message}; until then each tool call needs your permission"
    return ClaudeFile(values={"permissions.ask": [EVERYTHING]}, problems=(SettingsProblem(place, line),))


def merged_hooks(own: JsonObject, others: Sequence[Json]) -> JsonObject:
    """Return nacre's own hooks, with those of other files after them."""
    merged = dict(own)
    for document in others:
        for event, groups in document.items() if isinstance(document, dict) else ():
            before = merged.get(event, [])
            if isinstance(before, list) and isinstance(groups, list):
                merged[event] = [*before, *groups]
    return merged


# Permissions


def _permissions(
    given: Json, notes: list[str], problems: list[str], *, cwd: Path, root: Path
) -> dict[str, Json]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        problems.append("'permissions' cannot be read; until then each tool call needs your permission")
        return {"permissions.ask": [EVERYTHING]}
    found: dict[Effect, list[Json]] = {"deny": [], "ask": [], "allow": []}
    for effect in EFFECTS:
        listed = given.get(effect)
        for text in listed if isinstance(listed, list) else () if listed is None else (listed,):
            converted = convert_rule(text, effect, cwd=cwd, root=root)
            for to, rule in converted.rules:
                if rule not in found[to]:
                    found[to].append(rule)
            if ("ask", EVERYTHING) in converted.rules:
                problems.append(converted.note)
            elif converted.note:
                notes.append(converted.note)
    if unused := sorted(name[:SHOWN_CHARS] for name in given if name not in EFFECTS):
        notes.append(f"not used by nacre: {', '.join(f'permissions.{one}' for one in unused)}")
    return {f"permissions.{effect}": rules for effect, rules in found.items() if rules}


def convert_rule(text: Json, effect: Effect, *, cwd: Path, root: Path) -> ConvertedRule:
    """Return a rule of Claude Code as rules of nacre; one that restricts and cannot be read asks always."""
    shown = text[:SHOWN_CHARS] if isinstance(text, str) else repr(text)[:SHOWN_CHARS]
    found = _RULE.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        if effect == "allow":
            return ConvertedRule(note=f"permissions.allow: {shown!r} cannot be read and allows nothing")
        why = f"permissions.{effect}: {shown!r} cannot be read, so each tool call needs your permission"
        return ConvertedRule((("ask", EVERYTHING),), why)
    tool, pattern = found[1], (found[2] or "").strip()
    if tool in _ALIASES and (effect != "allow" or tool == "Task"):
        tool = _ALIASES[tool]
    if pattern in {"", "*", ":*"} or (pattern == "**" and tool in _PATH_TOOLS):
        return _checked(ConvertedRule(((effect, tool),)), shown, effect)
    if tool == "Bash":
        converted = _bash(pattern, effect)
    elif tool in _PATH_TOOLS:
        converted = _path(tool, pattern, effect, cwd, root)
    elif tool in _NAMED:
        converted = _named(tool, pattern, effect)
    elif tool == "WebFetch" and pattern.startswith("domain:"):
        converted = ConvertedRule(((effect, f"{tool}({pattern})"),))
    elif effect == "allow":
        return ConvertedRule(note=f"permissions.allow: nacre has no rule like {shown!r}, so it asks")
    else:
        converted = _asks(tool, effect, shown)
    return _checked(converted, shown, effect)


def _checked(converted: ConvertedRule, shown: str, effect: Effect) -> ConvertedRule:
    """Return a conversion whose rules are valid in nacre."""
    # Imported only where there are rules, so that it does not slow down the start.
    from nacre.tools.rules import parse_rule  # noqa: PLC0415

    try:
        for to, text in converted.rules:
            parse_rule(text, to)
    except ConfigError:
        if effect == "allow":
            return ConvertedRule(note=f"permissions.allow: {shown!r} cannot be read and allows nothing")
        why = f"permissions.{effect}: {shown!r} cannot be read, so each tool call needs your permission"
        return ConvertedRule((("ask", EVERYTHING),), why)
    return converted


def _asks(tool: str, effect: Effect, shown: str) -> ConvertedRule:
    note = f"permissions.{effect}: nacre has no rule like {shown!r}, so it asks before each call of {tool}"
    return ConvertedRule((("ask", tool),), note)


def _bash(pattern: str, effect: Effect) -> ConvertedRule:
    """Return a pattern of commands; in Claude Code `*` stands for any text, in nacre for a part of a word."""
    if pattern.endswith(" *"):
        pattern = f"{pattern[:-2].rstrip()}:*"
    begin = pattern.removesuffix(":*")
    if effect == "allow":
        return ConvertedRule(((effect, f"Bash({pattern})"),))
    words = begin.split()
    odd = next((place for place, word in enumerate(words) if _SHELL.search(word)), None)
    # At its end a pattern may have one: the next words are open then.
    before_end = (*words[:-1], words[-1].rstrip("*")) if words else ()
    wild = next((place for place, word in enumerate(before_end) if "*" in word), None)
    if odd is None and wild is None and not (len(words) == 1 and words[0].startswith("*")):
        # At its end a `*` also stands for further words.
        is_open = pattern.endswith(":*") or begin.endswith("*")
        return ConvertedRule(((effect, f"Bash({begin}{':*' if is_open else ''})"),))
    known = words[: min(one for one in (odd, wild, len(words) - 1) if one is not None)]
    wider = f"Bash({' '.join(known)}:*)" if known else "Bash"
    note = f"permissions.{effect}: nacre asks for {wider}, because it has no rule like 'Bash({pattern})'"
    exact: tuple[tuple[Effect, str], ...] = () if odd is not None else ((effect, f"Bash({pattern})"),)
    return ConvertedRule((*exact, ("ask", wider)), note)


def _path(tool: str, pattern: str, effect: Effect, cwd: Path, root: Path) -> ConvertedRule:
    """Return a pattern of paths; nacre compares whole paths, in which `..` does not occur."""
    if effect != "allow" and ".." in pattern.split("/"):
        return _asks(tool, effect, f"{tool}({pattern})"[:SHOWN_CHARS])
    return ConvertedRule(tuple((effect, f"{tool}({one})") for one in _paths(pattern, effect, cwd, root)))


def _paths(pattern: str, effect: Effect, cwd: Path, root: Path) -> Iterator[str]:
    """Yield the patterns for a path: in Claude Code a relative one starts at the working directory."""
    plain = pattern.removeprefix("./")
    is_relative = "/" in plain.rstrip("/") and not plain.startswith(("/", "~"))
    if cwd == root or not is_relative:
        yield pattern
        return
    yield f"//{str(cwd).lstrip('/')}/{plain}"
    if effect != "allow":
        yield pattern


def _named(tool: str, pattern: str, effect: Effect) -> ConvertedRule:
    """Return the pattern of a skill or an agent type, without one for its arguments."""
    name = pattern.removesuffix(":*").removesuffix(" *").strip()
    if ":" not in name and " " not in name:
        return ConvertedRule(((effect, f"{tool}({name})"),))
    shown = f"{tool}({pattern})"
    if effect == "allow":
        return ConvertedRule(note=f"permissions.allow: nacre has no rule like {shown!r}")
    return _asks(tool, effect, shown)


# Hooks


def _hooks(given: Json, notes: list[str], problems: list[str]) -> JsonObject:
    """Return the hooks that nacre can run, in the form of its own setting."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        problems.append("'hooks' is no object, so none of them run")
        return {}
    found: JsonObject = {}
    for event, groups in given.items():
        place = f"hooks.{event[:SHOWN_CHARS]}"
        if event not in HOOK_EVENTS:
            notes.append(f"{place}: nacre has no such event")
            continue
        said = problems if event in CAN_REFUSE else notes
        if not isinstance(groups, list):
            said.append(f"{place}: is no list, so none of them run")
            continue
        kept = [one for group in groups if (one := _group(group, place, said))]
        if kept:
            found[event] = [*kept]
    return found


def _group(group: Json, place: str, said: list[str]) -> JsonObject | None:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(group, dict) or not isinstance(hooks, list):
        said.append(f"{place}: a group without a list of hooks does not run")
        return None
    matcher = group.get("matcher", "")
    if not isinstance(matcher, str) or not _is_expression(matcher):
        said.append(f"{place}: nacre cannot read a matcher, so its hooks do not run")
        return None
    kept: list[Json] = [one for hook in hooks if (one := _hook(hook, place, said))]
    return {"matcher": matcher, "hooks": kept} if kept else None


def _is_expression(matcher: str) -> bool:
    try:
        re.compile(matcher if matcher != EVERYTHING else "")
    except re.error:
        return False
    return True


def _hook(hook: Json, place: str, said: list[str]) -> JsonObject | None:
    if not isinstance(hook, dict):
        said.append(f"{place}: a hook that is no object does not run")
        return None
    command = hook.get("command")
    if hook.get("type", "command") != "command" or not isinstance(command, str) or not command.strip():
        kind = str(hook.get("type", "command"))[:SHOWN_CHARS]
        said.append(f"{place}: nacre runs hooks of type command only; one of type {kind} does not run")
        return None
    if OWN_HOOK.search(command):
        return None
    if narrowed := sorted({"args", "if"} & set(hook)):
        said.append(f"{place}: nacre cannot apply {' and '.join(narrowed)} of a hook, so it does not run")
        return None
    if "\0" in command:
        said.append(f"{place}: a command with a NUL character does not run")
        return None
    seconds = hook.get("timeout")
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if is_number and math.isfinite(float(str(seconds))) and 0 < float(str(seconds)) <= MAX_SECONDS:
        return {"type": "command", "command": command, "timeout": seconds}
    return {"type": "command", "command": command}
