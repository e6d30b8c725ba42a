"""The setting `hooks`: which commands run at which events, parsed and checked once.

The format is Claude Code's: by event, a list of groups; a group has a matcher and its commands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject

DEFAULT_SECONDS = 60.0
"""Default timeout of a command, the same as Claude Code's."""
MAX_SECONDS = 86_400.0
"""Maximum timeout in the setting; more than a day is a mistake."""
LEAVE_SECONDS = 1.5
"""Default timeout when the user leaves and waits for the terminal, the same as Claude Code's."""
MAX_LEAVE_SECONDS = 60.0
"""Maximum timeout there: a terminal that does not return for longer seems to hang."""
EVERYTHING = frozenset({"", "*"})
"""Matchers that match everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """An event at which hooks run."""

    matches_on: str = ""
    """Input field that a matcher is compared with; empty: matchers are ignored."""
    can_block: bool = False
    """Whether exit code 2 or `decision: block` prevents what was about to happen."""
    hears_text: bool = False
    """Whether plain text on stdout counts as context."""
    seconds: float = DEFAULT_SECONDS
    """Default timeout of a command."""
    max_seconds: float = MAX_SECONDS
    """Maximum timeout of a command, whatever its entry says."""


EVENTS: Mapping[str, HookEvent] = {
    "SessionStart": HookEvent(matches_on="source", hears_text=True),
    "UserPromptSubmit": HookEvent(can_block=True, hears_text=True),
    "PreToolUse": HookEvent(matches_on="tool_name", can_block=True),
    "PostToolUse": HookEvent(matches_on="tool_name", can_block=True),
    "PreCompact": HookEvent(matches_on="trigger", can_block=True, hears_text=True),
    "PostCompact": HookEvent(matches_on="trigger"),
    "Stop": HookEvent(can_block=True),
    "SubagentStop": HookEvent(matches_on="agent_type", can_block=True),
    "SessionEnd": HookEvent(matches_on="reason", seconds=LEAVE_SECONDS, max_seconds=MAX_LEAVE_SECONDS),
    "InstructionsLoaded": HookEvent(matches_on="load_reason"),
}


@dataclass(frozen=True, slots=True)
class Hook:
    """One command of the user."""

    command: str
    seconds: float = DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class HookGroup:
    """Commands that run together, and their matcher."""

    matcher: re.Pattern[str] | None
    """None matches everything."""
    hooks: tuple[Hook, ...]

    def matches(self, value: str) -> bool:
        return self.matcher is None or self.matcher.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class HookTable:
    """All hooks by event, and notices about ignored parts of the setting."""

    groups: Mapping[str, tuple[HookGroup, ...]] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def waits_at(self, event: str, subject: str | None = None) -> bool:
        """Whether there are hooks for an event, and with a subject, for that one."""
        return any(subject is None or group.matches(subject) for group in self.groups.get(event, ()))

    def due(self, event: str, fields: JsonObject) -> tuple[Hook, ...]:
        """Return the hooks to run, in configured order; duplicates run once."""
        field_name = EVENTS[event].matches_on
        subject = str(fields.get(field_name, ""))
        chosen = (
            hook
            for group in self.groups.get(event, ())
            if not field_name or group.matches(subject)
            for hook in group.hooks
        )
        return tuple(dict.fromkeys(chosen))


NO_HOOKS = HookTable()


def parse_hooks(setting: JsonObject) -> HookTable:
    """Parse the setting; raises `ConfigError` with the position of what is invalid."""
    groups: dict[str, tuple[HookGroup, ...]] = {}
    notices: list[str] = []
    for name, entry in setting.items():
        place = f"hooks.{name}"
        if not isinstance(entry, list):
            raise _wrong(place, 'expected a list such as [{"hooks": [{"type": "command", "command": "…"}]}]')
        if name not in EVENTS:
            notices.append(f"{place}: no such event here; nacre knows {', '.join(EVENTS)}")
            continue
        parsed = (_group(f"{place}[{n}]", each, EVENTS[name], notices) for n, each in enumerate(entry))
        groups[name] = tuple(group for group in parsed if group.hooks)
    return HookTable({name: found for name, found in groups.items() if found}, tuple(notices))


def _group(place: str, entry: Json, event: HookEvent, notices: list[str]) -> HookGroup:
    if not isinstance(entry, dict):
        raise _wrong(place, "expected an object with a list `hooks`")
    commands = entry.get("hooks")
    if not isinstance(commands, list):
        raise _wrong(f"{place}.hooks", "expected a list of commands")
    parsed = [_hook(f"{place}.hooks[{n}]", each, event, notices) for n, each in enumerate(commands)]
    return HookGroup(_matcher(place, entry.get("matcher")), tuple(hook for hook in parsed if hook))


def _matcher(place: str, written: Json) -> re.Pattern[str] | None:
    if written is None:
        return None
    if not isinstance(written, str):
        raise _wrong(f"{place}.matcher", "expected a regular expression as a string")
    if written in EVERYTHING:
        return None
    try:
        return re.compile(written)
    except re.error as error:
        raise _wrong(f"{place}.matcher", f"{written!r} is no regular expression: {error}") from error


def _hook(place: str, entry: Json, event: HookEvent, notices: list[str]) -> Hook | None:
    if not isinstance(entry, dict):
        raise _wrong(place, 'expected an object such as {"type": "command", "command": "…"}')
    kind = entry.get("type", "command")
    if not isinstance(kind, str):
        raise _wrong(f"{place}.type", "expected `command`")
    if kind != "command":
        notices.append(f"{place}: nacre runs hooks of type command only; this one of type {kind} is left out")
        return None
    command = entry.get("command")
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise _wrong(f"{place}.command", "expected the command to run, as a string")
    seconds = _seconds(f"{place}.timeout", entry.get("timeout", event.seconds))
    return Hook(command, min(seconds, event.max_seconds))


def _seconds(place: str, written: Json) -> float:
    is_number = isinstance(written, int | float) and not isinstance(written, bool)
    if not (is_number and math.isfinite(seconds := float(str(written))) and 0 < seconds <= MAX_SECONDS):
        raise _wrong(place, f"expected seconds, more than 0 and at most {MAX_SECONDS:,.0f}")
    return seconds


def _wrong(place: str, expected: str) -> ConfigError:
    return ConfigError(f"{place}: {expected}")
