"""One command of the person's at work: told by JSON on stdin, bounded in time and output, ended whole."""

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
"""Of stdout: a command that says more than this prints without end."""
MAX_ERROR_CHARS = 40_000
"""Of stderr; 10,000 characters are passed on at most, and the rest is read and dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """How a command ended, and what it said."""

    command: str
    exit_code: int | None = None
    """None: it was ended, or never began."""
    stdout: str = ""
    stderr: str = ""
    failure: str = ""
    """Why there is no exit code."""


async def run_hook(hook: Hook, told: bytes, *, cwd: Path, environ: Mapping[str, str]) -> HookRun:
    """Run it to its end; being cancelled ends it and everything it started."""
    output = ProcessOutput(head=MAX_BYTES)
    errors = ProcessOutput(head=MAX_ERROR_CHARS)
    spec = ProcessSpec(
        argv=(SHELL, "-c", hook.command),
        cwd=cwd,
        environ=environ,
        stdin=told,
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
"""The exit code that says no."""
LINE_CHARS = 200
"""Of a warning: one line on a wide terminal, or two."""
COMMAND_CHARS = 60
"""Of a command in a warning: enough to recognise it."""
REASON_CHARS = 1_000
"""Of why something is refused or asked about, on one line: for a person who has to act on it."""
NO_REASON = "it gave no reason"
PERMISSIONS = ("allow", "deny", "ask")
"""What a command may say of a tool call."""
OUTPUTS = ("updatedToolOutput", "updatedMCPToolOutput")
"""Under these names a command gives what stands in for a tool's result; the second is an older one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswer:
    """What a command has to say."""

    blocks: str | None = None
    """Why what was about to happen must not."""
    stops: str | None = None
    """Why everything should stop here, for the person; weightier than `blocks`."""
    context: str = ""
    """For the model."""
    message: str = ""
    """For the person."""
    warnings: tuple[str, ...] = ()
    """For the person: what went wrong."""
    is_quiet: bool = False
    """It asked that nothing be said about its output."""
    permission: Permission = ""
    """What it wants the guard to do with a tool call; a refusal is in `blocks`."""
    reason: str = ""
    """Why it wants that."""
    arguments: JsonObject | None = None
    """What a tool is called with instead."""
    output: Json = None
    """What stands in for a tool's result."""


def answer(event: str, ran: HookRun) -> HookAnswer:
    """Read the end of a command."""
    if ran.exit_code is None:
        return HookAnswer(warnings=(warning(event, ran, ran.failure),))
    said = _first_line(ran.stderr)
    if ran.exit_code == BLOCKS and EVENTS[event].can_block:
        return HookAnswer(blocks=ran.stderr.strip() or NO_REASON)
    if ran.exit_code != 0:
        return HookAnswer(warnings=(warning(event, ran, f"ended with exit code {ran.exit_code}{said}"),))
    text = ran.stdout.strip()
    if not text.startswith("{"):
        return HookAnswer(context=text if EVENTS[event].hears_text else "")
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):
        odd = warning(event, ran, "printed something that begins like JSON and is none; it is taken as text")
        return HookAnswer(context=text if EVENTS[event].hears_text else "", warnings=(odd,))
    return _structured(event, ran, written)


def warning(event: str, ran: HookRun, what: str) -> str:
    """One line for the person about a command."""
    return f"the {event} hook `{short(ran.command, COMMAND_CHARS)}` {short(what, LINE_CHARS)}"


class _AnswerFields:
    """The fields of an answer, taken as what they should be; others are remembered as odd."""

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


def _structured(event: str, ran: HookRun, written: JsonObject) -> HookAnswer:
    fields = _AnswerFields(written)
    decision = fields.text("decision")
    reason = fields.text("reason")
    stop_reason = fields.text("stopReason")
    message = fields.text("systemMessage")
    stops = fields.says("continue", False)
    is_quiet = fields.says("suppressOutput", True)
    own = fields.part("hookSpecificOutput")
    context = own.text("additionalContext")
    before = _judged(own, decision, reason) if event == "PreToolUse" else HookAnswer()
    is_block = decision == "block"
    odd = [f"answered with a {name} of the wrong kind; it is left out" for name in fields.odd]
    if is_block and not EVENTS[event].can_block:
        odd.append("wants to block, which nothing can be here")
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


def _judged(own: _AnswerFields, decision: str, reason: str) -> HookAnswer:
    """What a command says of a tool call that is about to be made; `approve` is the older word for allow."""
    permission = own.text("permissionDecision") or {"approve": "allow"}.get(decision, "")
    why = (own.text("permissionDecisionReason") or reason).strip()
    if permission and permission not in PERMISSIONS:
        own.odd.append("permissionDecision")
    return HookAnswer(
        blocks=(why or NO_REASON) if permission == "deny" else None,
        permission="allow" if permission == "allow" else "ask" if permission == "ask" else "",
        reason=why,
        arguments=own.object("updatedInput"),
    )


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return f": {lines[0].strip()}" if lines else ""


def short(text: str, limit: int) -> str:
    """One line of at most so many characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
