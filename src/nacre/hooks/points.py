"""The points at which the user's hooks run, and what they return there.

The caller at such a point calls the method of the same name and applies the result. Without hooks for a point
nothing is started and nothing is awaited.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from nacre.errors import StoreError
from nacre.hooks.command import REASON_CHARS, HookDecision, answer, run_hook, short
from nacre.hooks.table import HookTable
from nacre.messages.blocks import Json, JsonObject, ToolCall
from nacre.messages.events import NoticeLevel
from nacre.messages.untrusted_text import neutralise
from nacre.store.tool_results import ToolResultStore, pointer, preview
from nacre.tools.guard import PermissionOverride

MAX_CHARS = 10_000
"""Maximum length of one command's text for the model; a longer one goes to a file, with a preview."""
PREVIEW_BYTES = 2_000
"""Size of the preview, as for an offloaded tool result."""

StartSource: TypeAlias = Literal["startup", "resume", "clear", "compact"]
Trigger: TypeAlias = Literal["auto", "manual"]
EndReason: TypeAlias = Literal["clear", "resume", "prompt_input_exit", "other"]


class Notify(Protocol):
    """Shows the user a line."""

    def __call__(self, text: str, level: NoticeLevel = "info") -> None: ...


@dataclass(frozen=True, slots=True)
class PreCompact:
    """Result of the hooks before a compaction."""

    blocked: str | None
    """Why it must not happen."""
    focus: str
    """Focus of the summary, with what the hooks added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPrompt:
    """Result of the hooks for a user prompt, before it is recorded."""

    blocked: str | None = None
    """Why it must not be recorded."""
    context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreToolUse:
    """Result of the hooks before a tool call."""

    refused: str | None = None
    """Why the call must not be made."""
    wish: PermissionOverride | None = None
    """Requested decision of the guard."""
    arguments: JsonObject | None = None
    """Arguments that replace those of the call."""
    context: str = ""
    stops: str | None = None
    """Why the whole turn ends here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostToolUse:
    """Result of the hooks after a tool call."""

    objection: str = ""
    context: str = ""
    output: Json = None
    """Output that replaces the result; None: unchanged."""
    stops: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """Where hooks run, and the session data that each gets."""

    session_id: str
    cwd: Path
    transcript: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    results: ToolResultStore = field(default_factory=lambda: ToolResultStore(None))
    """Stores output that is too long."""
    mode: Callable[[], str] = lambda: "default"
    """Returns the permission mode, by its name in the settings."""
    agent: JsonObject = field(default_factory=dict)
    """Agent of the session that is concerned; empty for the session itself."""


class Hooks:
    """The hooks of one session."""

    def __init__(self, table: HookTable, place: HookContext, *, notify: Notify) -> None:
        """`notify` gets lines for the user, with the level `info` or `warning`."""
        self._table = table
        self.place = place
        self.notify = notify
        self._kept = 0
        self.source: StartSource = "startup"
        """How the session started; passed to hooks with the first prompt."""
        self.ending: EndReason = "other"
        """Why the session ends; passed to hooks then."""

    def inside(
        self, agent_id: str, agent_type: str, *, transcript: Path | None = None, cwd: Path | None = None
    ) -> Hooks:
        """Return the same hooks for an agent of the session, which they get as input; notices appear here."""
        fields: JsonObject = {"agent_id": agent_id, "agent_type": agent_type}
        if transcript is not None:
            fields["agent_transcript_path"] = str(transcript)
        place = replace(self.place, agent=fields, cwd=cwd or self.place.cwd)
        return Hooks(self._table, place, notify=self.notify)

    def waits_at(self, event: str, subject: str | None = None) -> bool:
        """Whether there are hooks for an event, and with a subject, for that one."""
        return self._table.waits_at(event, subject)

    async def session_start(self, source: StartSource) -> str:
        """Run at the start or resumption of a session or after a compaction; return context for the model."""
        heard = await self._run("SessionStart", {"source": source})
        return _joined(one.context for one in heard)

    async def user_prompt_submit(self, prompt: str) -> UserPrompt:
        """Run before a prompt is recorded; return whether it may be sent, and its context."""
        heard = await self._run("UserPromptSubmit", {"prompt": prompt})
        reasons = [why for one in heard for why in (one.blocks, one.stops) if why is not None]
        context = _joined(one.context for one in heard)
        return UserPrompt(blocked="; ".join(reasons) if reasons else None, context=context)

    async def pre_tool_use(self, call: ToolCall) -> PreToolUse:
        """Run before a tool call; return whether it may be made, with what, and what the guard should do."""
        heard = await self._run("PreToolUse", _call_fields(call))
        reasons = [one.blocks for one in heard if one.blocks is not None]
        stops = next((one.stops for one in heard if one.stops is not None), None)
        replaced = [one.arguments for one in heard if one.arguments is not None]
        return PreToolUse(
            refused="; ".join(reasons) if reasons else stops,
            wish=_request(heard),
            arguments=replaced[-1] if replaced else None,
            context=_joined(one.context for one in heard),
            stops=stops,
        )

    async def post_tool_use(self, call: ToolCall, response: Json) -> PostToolUse:
        """Run after a successful tool call; return context and changes of the result."""
        heard = await self._run("PostToolUse", {**_call_fields(call), "tool_response": response})
        outputs = [one.output for one in heard if one.output is not None]
        return PostToolUse(
            objection=_joined(one.blocks or "" for one in heard),
            context=_joined(one.context for one in heard),
            output=outputs[-1] if outputs else None,
            stops=next((one.stops for one in heard if one.stops is not None), None),
        )

    async def pre_compact(self, trigger: Trigger, focus: str) -> PreCompact:
        """Run before a compaction; return whether it may happen, and its focus."""
        heard = await self._run("PreCompact", {"trigger": trigger, "custom_instructions": focus})
        reasons = [one.blocks for one in heard if one.blocks is not None]
        return PreCompact("; ".join(reasons) or None, _joined([focus, *(one.context for one in heard)]))

    async def post_compact(self, trigger: Trigger, summary: str) -> None:
        """Run after a compaction."""
        await self._run("PostCompact", {"trigger": trigger, "compact_summary": summary})

    async def stop(self, reply: str, *, is_again: bool) -> str:
        """Run before a turn ends; return what is left to do, or an empty string."""
        fields: JsonObject = {"stop_hook_active": is_again, "last_assistant_message": reply}
        return self._reason_to_continue("Stop", await self._run("Stop", fields))

    async def subagent_stop(self, agent_id: str, agent_type: str, reply: str, *, is_again: bool) -> str:
        """Run before an agent ends; return what is left to do, or an empty string."""
        fields: JsonObject = {
            "agent_id": agent_id,
            "agent_type": agent_type,
            "stop_hook_active": is_again,
            "last_assistant_message": reply,
        }
        return self._reason_to_continue("SubagentStop", await self._run("SubagentStop", fields))

    async def session_end(self, reason: EndReason, *, at_most: float | None = None) -> None:
        """Run at the end of the session; `at_most` limits the timeout in seconds."""
        await self._run("SessionEnd", {"reason": reason}, at_most=at_most)

    async def instructions_loaded(self, fields: JsonObject) -> None:
        """Run after an instruction file was loaded."""
        await self._run("InstructionsLoaded", fields)

    def _reason_to_continue(self, event: str, heard: list[HookDecision]) -> str:
        for one in heard:
            if one.stops is not None:
                whose = "the agent's turn" if event == "SubagentStop" else "the turn"
                self.notify(f"A {event} hook ends {whose}: {one.stops}")
                return ""
        return _joined(part for one in heard for part in (one.blocks or "", one.context))

    async def _run(self, event: str, more: JsonObject, *, at_most: float | None = None) -> list[HookDecision]:
        """Run all hooks for this point concurrently; return their answers in configured order."""
        due = self._table.due(event, more)
        if not due:
            return []
        if at_most is not None:
            due = tuple(replace(hook, seconds=min(hook.seconds, at_most)) for hook in due)
        place = self.place
        fields: JsonObject = {
            "session_id": place.session_id,
            "transcript_path": str(place.transcript or ""),
            "cwd": str(place.cwd),
            "permission_mode": place.mode(),
            "hook_event_name": event,
            **place.agent,
            **more,
        }
        written = json.dumps(fields, ensure_ascii=False).encode(errors="replace")
        # A group, because it returns only when every command has ended, also when cancelled.
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(run_hook(hook, written, cwd=place.cwd, environ=place.environ))
                for hook in due
            ]
        return [await self._checked(event, answer(event, task.result())) for task in running]

    async def _checked(self, event: str, said: HookDecision) -> HookDecision:
        """Notify the user; text for the model is neutralised and shortened."""
        for line in said.warnings:
            self.notify(line, "warning")
        if said.message:
            self.notify(preview(said.message, PREVIEW_BYTES))
        context = await self._bounded(event, said.context)
        if context and not said.is_quiet:
            self.notify(f"A {event} hook added {len(context):,} characters for the model.")
        blocks = said.blocks if said.blocks is None else await self._bounded(event, said.blocks)
        return replace(said, blocks=blocks, context=context)

    async def _bounded(self, event: str, text: str) -> str:
        """Return a neutralised text for the model; one that is too long goes to a file."""
        safe = neutralise(text)
        if len(safe) <= MAX_CHARS:
            return safe
        self._kept += 1
        try:
            kept = await asyncio.to_thread(self.place.results.keep, f"hook-{event}-{self._kept}", text)
        except StoreError as error:
            self.notify(
                f"the output of a {event} hook was cut, because it cannot be stored: {error}", "warning"
            )
            return f"{preview(safe, PREVIEW_BYTES)}\n[… {len(text):,} characters in all]"
        return pointer(f"{event} hook", safe, kept, preview_bytes=PREVIEW_BYTES)


def _call_fields(call: ToolCall) -> JsonObject:
    return {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id}


def _request(heard: list[HookDecision]) -> PermissionOverride | None:
    """Return the requested permission; `ask` takes precedence over `allow`."""
    for effect in ("ask", "allow"):
        wanted = [one for one in heard if one.permission == effect]
        if wanted:
            why = short(neutralise(_joined(one.reason for one in wanted)), REASON_CHARS)
            return PermissionOverride(
                effect, f"a PreToolUse hook wants it: {why}" if why else "a PreToolUse hook wants it"
            )
    return None


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)
