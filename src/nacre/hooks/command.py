"""Run one hook: JSON on stdin, limited time and output; it is ended with all its processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.hooks.table import EVENTS, Hook
from nacre.messages.blocks import Json, JsonObject
from nacre.process import ProcessOutput, ProcessSpec, run

SHELL = "/bin/sh"
MAX_BYTES = 10_000_000
"""Maximum size of stdout; a command that prints more is ended."""
MAX_ERROR_CHARS = 40_000
"""Maximum size of stderr; at most 10,000 characters are passed on, the rest is read and dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """Exit code and output of a command."""

    command: str
    exit_code: int | None = None
    """None: it was ended, or never started."""
    stdout: str = ""
    stderr: str = ""
    failure: str = ""
    """Why there is no exit code."""


async def run_hook(hook: Hook, stdin: bytes, *, cwd: Path, environ: Mapping[str, str]) -> HookRun:
    """Run the command to its end; a cancellation ends it and everything it started."""
    output = ProcessOutput(head=MAX_BYTES)
    errors = ProcessOutput(head=MAX_ERROR_CHARS)
    spec = ProcessSpec(
        argv=(SHELL, "-c", hook.command),
        cwd=cwd,
        environ=environ,
        stdin=stdin,
        seconds=hook.seconds,
        max_bytes=MAX_BYTES,
    )
    try:
        ended = await run(spec, output.feed, feed_errors=errors.feed)
    except (OSError, ValueError) as error:
        return HookRun(command=hook.command, failure=f"could not be started: {error}")
    if ended.why == "timeout":
        return HookRun(command=hook.command, failure=f"did not end within {hook.seconds:g} s and was ended")
    if ended.why == "flood":
        failure = f"printed more than {MAX_BYTES:,} bytes and was ended"
        return HookRun(command=hook.command, failure=failure)
    return HookRun(command=hook.command, exit_code=ended.exit_code, stdout=output.head, stderr=errors.head)


Permission: TypeAlias = Literal["", "allow", "ask"]
BLOCKS = 2
"""The exit code that blocks."""
LINE_CHARS = 200
"""Maximum length of a warning: one or two lines on a wide terminal."""
COMMAND_CHARS = 60
"""Maximum length of a command in a warning."""
REASON_CHARS = 1_000
"""Maximum length of the reason for a refusal or a question, on one line."""
NO_REASON = "it gave no reason"
PERMISSIONS = ("allow", "deny", "ask")
"""Permission decisions for a tool call."""
OUTPUTS = ("updatedToolOutput", "updatedMCPToolOutput")
"""Fields with the replacement of a tool result; the second is an older name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookDecision:
    """The parsed answer of a command."""

    blocks: str | None = None
    """Why the event must not happen."""
    stops: str | None = None
    """Why the turn must stop, for the user; takes precedence over `blocks`."""
    context: str = ""
    """For the model."""
    message: str = ""
    """For the user."""
    warnings: tuple[str, ...] = ()
    """For the user: what went wrong."""
    is_quiet: bool = False
    """True if no notice about its output is wanted."""
    permission: Permission = ""
    """Requested decision of the guard on a tool call; a refusal is in `blocks`."""
    reason: str = ""
    """Reason for the decision."""
    arguments: JsonObject | None = None
    """Arguments that replace those of the call."""
    output: Json = None
    """Output that replaces a tool's result."""


def answer(event: str, ran: HookRun) -> HookDecision:
    """Parse the exit code and output of a command."""
    if ran.exit_code is None:
        return HookDecision(warnings=(warning(event, ran, ran.failure),))
    said = _first_line(ran.stderr)
    if ran.exit_code == BLOCKS and EVENTS[event].can_block:
        return HookDecision(blocks=ran.stderr.strip() or NO_REASON)
    if ran.exit_code != 0:
        return HookDecision(warnings=(warning(event, ran, f"ended with exit code {ran.exit_code}{said}"),))
    text = ran.stdout.strip()
    if not text.startswith("{"):
        return HookDecision(context=text if EVENTS[event].hears_text else "")
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):
        odd = warning(event, ran, "printed invalid JSON; it is used as text")
        return HookDecision(context=text if EVENTS[event].hears_text else "", warnings=(odd,))
    return _structured(event, ran, written)


def warning(event: str, ran: HookRun, what: str) -> str:
    """Return one line about a command, for the user."""
    return f"the {event} hook `{short(ran.command, COMMAND_CHARS)}` {short(what, LINE_CHARS)}"


class _AnswerFields:
    """The fields of an answer, checked for their type; invalid ones are collected in `odd`."""

    def __init__(self, written: JsonObject) -> None:
        self._written = written
        self.odd: list[str] = []

    def text(self, name: str) -> str:
        value = self._written.get(name)
        if value is not None and not isinstance(value, str):
            self.odd.append(name)
        return value if isinstance(value, str) else ""

    def says(self, name: str, wanted: bool) -> bool:
        value = self._written.get(name)
        if value is not None and not isinstance(value, bool):
            self.odd.append(name)
        return value is wanted

    def object(self, name: str) -> JsonObject | None:
        value = self._written.get(name)
        if value is not None and not isinstance(value, dict):
            self.odd.append(name)
        return value if isinstance(value, dict) else None

    def any(self, *names: str) -> Json:
        return next((self._written[name] for name in names if self._written.get(name) is not None), None)

    def part(self, name: str) -> _AnswerFields:
        part = _AnswerFields(self.object(name) or {})
        part.odd = self.odd
        return part


def _structured(event: str, ran: HookRun, written: JsonObject) -> HookDecision:
    fields = _AnswerFields(written)
    decision = fields.text("decision")
    reason = fields.text("reason")
    stop_reason = fields.text("stopReason")
    message = fields.text("systemMessage")
    stops = fields.says("continue", False)
    is_quiet = fields.says("suppressOutput", True)
    own = fields.part("hookSpecificOutput")
    context = own.text("additionalContext")
    before = _judged(own, decision, reason) if event == "PreToolUse" else HookDecision()
    is_block = decision == "block"
    odd = [f"answered with a {name} of the wrong type; it is ignored" for name in fields.odd]
    if is_block and not EVENTS[event].can_block:
        odd.append("wants to block, which this event does not support")
    if is_block and EVENTS[event].can_block and before.blocks is None:
        before = replace(before, blocks=reason.strip() or NO_REASON)
    return replace(
        before,
        stops=(stop_reason or NO_REASON) if stops else None,
        context=context.strip(),
        message=message,
        warnings=tuple(warning(event, ran, what) for what in odd),
        is_quiet=is_quiet,
        output=own.any(*OUTPUTS) if event == "PostToolUse" else None,
    )


def _judged(own: _AnswerFields, decision: str, reason: str) -> HookDecision:
    """Parse the decision on a tool call; `approve` is the older word for allow."""
    permission = own.text("permissionDecision") or {"approve": "allow"}.get(decision, "")
    why = (own.text("permissionDecisionReason") or reason).strip()
    if permission and permission not in PERMISSIONS:
        own.odd.append("permissionDecision")
    return HookDecision(
        blocks=(why or NO_REASON) if permission == "deny" else None,
        permission="allow" if permission == "allow" else "ask" if permission == "ask" else "",
        reason=why,
        arguments=own.object("updatedInput"),
    )


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return f": {lines[0].strip()}" if lines else ""


def short(text: str, limit: int) -> str:
    """Return the text on one line of at most `limit` characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
