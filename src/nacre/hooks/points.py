"""The points at which the person's own commands run: told what happens, heard about what follows.

Whoever has come to such a point calls the method named after it and heeds what comes back. Without commands
for a point nothing is started and nothing is waited for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from nacre.errors import StoreError
from nacre.hooks.command import REASON_CHARS, HookAnswer, answer, run_hook, short
from nacre.hooks.table import HookTable
from nacre.messages.blocks import Json, JsonObject, ToolCall
from nacre.messages.events import NoticeLevel
from nacre.messages.untrusted_text import neutralise
from nacre.store.tool_results import ToolResultStore, pointer, preview
from nacre.tools.guard import PermissionOverride

MAX_CHARS = 10_000
"""Of what one command says to the model; more goes to a file, and its beginning stays."""
PREVIEW_BYTES = 2_000
"""Of such a beginning: what an offloaded tool result shows, too."""

StartSource: TypeAlias = Literal["startup", "resume", "clear", "compact"]
Trigger: TypeAlias = Literal["auto", "manual"]
EndReason: TypeAlias = Literal["clear", "resume", "prompt_input_exit", "other"]


class Notify(Protocol):
    """Shows the person a line."""

    def __call__(self, text: str, level: NoticeLevel = "info") -> None: ...


@dataclass(frozen=True, slots=True)
class PreCompact:
    """What commands say before a compaction."""

    blocked: str | None
    """Why there must be none."""
    focus: str
    """What the summary should look at, with what they added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPrompt:
    """What commands say of a person's words before they are recorded."""

    blocked: str | None = None
    """Why they must not be."""
    context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreToolUse:
    """What commands say of a tool call before it is made."""

    refused: str | None = None
    """Why it must not be made."""
    wish: PermissionOverride | None = None
    """What the guard is asked to do."""
    arguments: JsonObject | None = None
    """What the tool is called with instead."""
    context: str = ""
    stops: str | None = None
    """Why the whole turn ends here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostToolUse:
    """What commands say of a tool's result."""

    objection: str = ""
    context: str = ""
    output: Json = None
    """What stands in for the result; none: it stays as it is."""
    stops: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """Where commands run, and what each is told of the session."""

    session_id: str
    cwd: Path
    transcript: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    shelf: ToolResultStore = field(default_factory=lambda: ToolResultStore(None))
    """Where output goes that is too long."""
    mode: Callable[[], str] = lambda: "default"
    """What the person lets tools do without a question, by its name in the settings."""
    agent: JsonObject = field(default_factory=dict)
    """Which agent of the session this is about; nothing for the session itself."""


class Hooks:
    """The commands of one session."""

    def __init__(self, table: HookTable, place: HookContext, *, notify: Notify) -> None:
        """`notify` gets lines for the person, with the level `info` or `warning`."""
        self._table = table
        self.place = place
        self.notify = notify
        self._kept = 0
        self.source: StartSource = "startup"
        """How the session came to be, as commands are told with the first words."""
        self.ending: EndReason = "other"
        """Why the session is left, as commands are told then."""

    def inside(
        self, agent_id: str, agent_type: str, *, transcript: Path | None = None, cwd: Path | None = None
    ) -> Hooks:
        """The same commands for an agent of the session: they learn which; what goes wrong is told here."""
        told: JsonObject = {"agent_id": agent_id, "agent_type": agent_type}
        if transcript is not None:
            told["agent_transcript_path"] = str(transcript)
        place = replace(self.place, agent=told, cwd=cwd or self.place.cwd)
        return Hooks(self._table, place, notify=self.notify)

    def waits_at(self, event: str, subject: str | None = None) -> bool:
        """Whether there are commands for an event; for one that has a matcher, with this subject."""
        return self._table.waits_at(event, subject)

    async def session_start(self, source: StartSource) -> str:
        """A session begins, goes on, or was compacted: what the model should know."""
        heard = await self._run("SessionStart", {"source": source})
        return _joined(one.context for one in heard)

    async def user_prompt_submit(self, prompt: str) -> UserPrompt:
        """A person has said something: whether it may go on to the model, and what goes with it."""
        heard = await self._run("UserPromptSubmit", {"prompt": prompt})
        reasons = [why for one in heard for why in (one.blocks, one.stops) if why is not None]
        context = _joined(one.context for one in heard)
        return UserPrompt(blocked="; ".join(reasons) if reasons else None, context=context)

    async def pre_tool_use(self, call: ToolCall) -> PreToolUse:
        """A tool is about to be called: whether it may be, with what, and who decides."""
        heard = await self._run("PreToolUse", _told(call))
        reasons = [one.blocks for one in heard if one.blocks is not None]
        stops = next((one.stops for one in heard if one.stops is not None), None)
        replaced = [one.arguments for one in heard if one.arguments is not None]
        return PreToolUse(
            refused="; ".join(reasons) if reasons else stops,
            wish=_wish(heard),
            arguments=replaced[-1] if replaced else None,
            context=_joined(one.context for one in heard),
            stops=stops,
        )

    async def post_tool_use(self, call: ToolCall, response: Json) -> PostToolUse:
        """A tool has done what it was called for: what the model should know beside the result."""
        heard = await self._run("PostToolUse", {**_told(call), "tool_response": response})
        outputs = [one.output for one in heard if one.output is not None]
        return PostToolUse(
            objection=_joined(one.blocks or "" for one in heard),
            context=_joined(one.context for one in heard),
            output=outputs[-1] if outputs else None,
            stops=next((one.stops for one in heard if one.stops is not None), None),
        )

    async def pre_compact(self, trigger: Trigger, focus: str) -> PreCompact:
        """A compaction is about to happen: whether it may, and what it should look at."""
        heard = await self._run("PreCompact", {"trigger": trigger, "custom_instructions": focus})
        reasons = [one.blocks for one in heard if one.blocks is not None]
        return PreCompact("; ".join(reasons) or None, _joined([focus, *(one.context for one in heard)]))

    async def post_compact(self, trigger: Trigger, summary: str) -> None:
        """A compaction has happened."""
        await self._run("PostCompact", {"trigger": trigger, "compact_summary": summary})

    async def stop(self, reply: str, *, is_again: bool) -> str:
        """A turn is about to end: what there still is to do, or nothing."""
        told: JsonObject = {"stop_hook_active": is_again, "last_assistant_message": reply}
        return self._to_do("Stop", await self._run("Stop", told))

    async def subagent_stop(self, agent_id: str, agent_type: str, reply: str, *, is_again: bool) -> str:
        """An agent of the session is about to end: what there still is to do, or nothing."""
        told: JsonObject = {
            "agent_id": agent_id,
            "agent_type": agent_type,
            "stop_hook_active": is_again,
            "last_assistant_message": reply,
        }
        return self._to_do("SubagentStop", await self._run("SubagentStop", told))

    async def session_end(self, reason: EndReason, *, at_most: float | None = None) -> None:
        """The session is left; `at_most` so many seconds are waited, where somebody is in a hurry."""
        await self._run("SessionEnd", {"reason": reason}, at_most=at_most)

    async def instructions_loaded(self, told: JsonObject) -> None:
        """A file of instructions has come in."""
        await self._run("InstructionsLoaded", told)

    def _to_do(self, event: str, heard: list[HookAnswer]) -> str:
        for one in heard:
            if one.stops is not None:
                whose = "the agent's turn" if event == "SubagentStop" else "the turn"
                self.notify(f"A {event} hook ends {whose}: {one.stops}")
                return ""
        return _joined(part for one in heard for part in (one.blocks or "", one.context))

    async def _run(self, event: str, more: JsonObject, *, at_most: float | None = None) -> list[HookAnswer]:
        """Every command for this point, side by side; what they say, in the order they are written."""
        due = self._table.due(event, more)
        if not due:
            return []
        if at_most is not None:
            due = tuple(replace(hook, seconds=min(hook.seconds, at_most)) for hook in due)
        place = self.place
        told: JsonObject = {
            "session_id": place.session_id,
            "transcript_path": str(place.transcript or ""),
            "cwd": str(place.cwd),
            "permission_mode": place.mode(),
            "hook_event_name": event,
            **place.agent,
            **more,
        }
        written = json.dumps(told, ensure_ascii=False).encode(errors="replace")
        # A group, because it comes back only when every command has ended, also when it is cancelled.
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(run_hook(hook, written, cwd=place.cwd, environ=place.environ))
                for hook in due
            ]
        return [await self._heeded(event, answer(event, task.result())) for task in running]

    async def _heeded(self, event: str, said: HookAnswer) -> HookAnswer:
        """Tell the person; what goes on to the model is made safe and short enough."""
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
        """A text as the model may read it; one that is too long goes to a file."""
        safe = neutralise(text)
        if len(safe) <= MAX_CHARS:
            return safe
        self._kept += 1
        try:
            kept = await asyncio.to_thread(self.place.shelf.keep, f"hook-{event}-{self._kept}", text)
        except StoreError as error:
            self.notify(f"what a {event} hook said was cut, because it cannot be kept: {error}", "warning")
            return f"{preview(safe, PREVIEW_BYTES)}\n[… {len(text):,} characters in all]"
        return pointer(f"{event} hook", [safe], kept, preview_bytes=PREVIEW_BYTES)


def _told(call: ToolCall) -> JsonObject:
    return {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id}


def _wish(heard: list[HookAnswer]) -> PermissionOverride | None:
    """A question weighs more than a yes."""
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
