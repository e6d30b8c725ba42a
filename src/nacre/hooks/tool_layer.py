"""Hooks around tool calls: before the guard decides on a call, and after it succeeded."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nacre import prompts
from nacre.errors import HookRefused
from nacre.hooks.points import Hooks
from nacre.messages.blocks import Json, JsonObject, Text, ToolCall, ToolResult
from nacre.messages.records import Said
from nacre.messages.untrusted_text import neutralise
from nacre.messages.view import View
from nacre.messages.wire import render_blocks
from nacre.session.layer import Attachment, Layer
from nacre.session.session import Session
from nacre.tools.base import Tool, call_with_timeout
from nacre.tools.guard import PermissionOverride, permission_override
from nacre.tools.rules import EDITORS, READERS
from nacre.tools.run import RUNNING

HOOK = "hook"
"""Kind of the note about text that came from a hook: event."""
CONTEXT = prompts.load(__package__, "hook_context")
OBJECTS = prompts.load(__package__, "hook_objects")
REFUSED = "Not allowed: a command of the user's (PreToolUse hook) says: {reason}"
CANNOT_ASK = "a hook wants the user to be asked, which is not possible for this tool"
PATHS = ("file_path", "path")
"""Arguments that name a file: hooks get the absolute path, as in Claude Code."""


def add_tool_hooks(session: Session, hooks: Hooks, where: Callable[[], Path]) -> None:
    """Add hooks to the tools of a session and of its forks; `where` returns their directory."""
    if not (hooks.waits_at("PreToolUse") or hooks.waits_at("PostToolUse")):
        return
    session.add_layers(ToolHookLayer(session, hooks, where))


class ToolHookLayer(Layer):
    """Keeps the text of hooks until the call's result is recorded, and ends a turn at their request."""

    def __init__(self, session: Session, hooks: Hooks, where: Callable[[], Path]) -> None:
        self._session = session
        self._hooks = hooks
        self._where = where
        self._attachments: dict[str, list[Attachment]] = {}
        """By call id."""
        self._ends = ""

    def for_fork(self) -> Layer:
        return self

    def wrap_tools(self, tools: Mapping[str, Tool], *, fork: str = "") -> Mapping[str, Tool]:
        """Return the tools with hooks around them; inside a fork the hooks get its id and type."""
        hooks = self._hooks.inside(self._session.clock.new_id(), fork) if fork else self._hooks
        return {name: self._watched(tool, hooks) for name, tool in tools.items()}

    async def filter(self, said: Said, view: View) -> tuple[Said, Sequence[Attachment]]:
        """Attach the text of hooks to the results of their calls."""
        answered = [block.call_id for block in said.blocks if isinstance(block, ToolResult)]
        return said, [one for call in answered for one in self._attachments.pop(call, ())]

    async def before_request(self) -> None:
        """End the turn before the next request, if a hook asked for it."""
        ends = self._ends
        self._ends = ""
        if ends:
            raise HookRefused(ends)

    def on_cancel(self) -> None:
        """Discard a request to end the turn, which has ended."""
        self._ends = ""

    def _watched(self, tool: Tool, hooks: Hooks) -> Tool:
        if not any(hooks.waits_at(event, tool.name) for event in ("PreToolUse", "PostToolUse")):
            return tool

        async def call(arguments: JsonObject) -> ToolResult | str:
            running = RUNNING.get()
            asked = ToolCall(running.id if running else "", tool.name, arguments)
            self._attachments.pop(asked.id, None)  # some servers use an id twice
            said = await hooks.pre_tool_use(self._spelled_out(asked))
            self._keep(asked, "PreToolUse", CONTEXT, text=said.context)
            self._stop(hooks, "PreToolUse", said.stops)
            if said.refused is not None:
                return _refusal(said.refused)
            if said.arguments is not None:
                hooks.notify(f"A PreToolUse hook changed what {tool.name} is called with.")
                asked = replace(asked, input=said.arguments)
            answer = await _made(tool, asked.input, said.wish)
            if isinstance(answer, ToolResult) and answer.is_error:
                return answer
            return await self._after(asked, answer, hooks)

        return replace(tool, call=call, max_seconds=None)

    async def _after(self, call: ToolCall, answer: ToolResult | str, hooks: Hooks) -> ToolResult | str:
        told = self._spelled_out(call)
        try:
            said = await hooks.post_tool_use(told, response_of(told, answer))
        except asyncio.CancelledError:
            return answer  # the tool has run, so its result is recorded
        self._keep(call, "PostToolUse", OBJECTS, reason=said.objection)
        self._keep(call, "PostToolUse", CONTEXT, text=said.context)
        self._stop(hooks, "PostToolUse", said.stops)
        if said.output is None:
            return answer
        hooks.notify(f"A PostToolUse hook replaced the result of {call.name}.")
        text = neutralise(text_of(said.output))
        if isinstance(answer, str):
            return text
        others = [part for part in answer.content if not isinstance(part, Text)]
        return replace(answer, content=(Text(text), *others))

    def _keep(self, call: ToolCall, event: str, prompt: str, **words: str) -> None:
        if not all(words.values()):
            return
        text = prompts.render(prompt, event=f"{event}, {call.name}", **words)
        attachment = Attachment(kind=HOOK, text=text, facts={"event": event, "call": call.id})
        self._attachments.setdefault(call.id, []).append(attachment)

    def _stop(self, hooks: Hooks, event: str, why: str | None) -> None:
        # A hook in a fork ends only the fork: the parent's conversation continues.
        if why is not None and hooks is self._hooks:
            self._ends = f"A {event} hook ends the turn: {' '.join(why.split())}"

    def _spelled_out(self, call: ToolCall) -> ToolCall:
        if call.name not in READERS | EDITORS:
            return call
        named = {name: value for name in PATHS if isinstance(value := call.input.get(name), str) and value}
        whole = {name: _absolute(self._where(), value) for name, value in named.items()}
        return replace(call, input={**call.input, **whole})


async def _made(tool: Tool, arguments: JsonObject, wish: PermissionOverride | None) -> ToolResult | str:
    """Make the call, with the hooks' request passed to the guard; a tool without a guard cannot ask."""
    if not tool.guarded:
        is_asked = wish is not None and wish.effect == "ask"
        return _refusal(CANNOT_ASK) if is_asked else await call_with_timeout(tool, arguments)
    with permission_override(wish):
        return await call_with_timeout(tool, arguments)


def response_of(call: ToolCall, answer: ToolResult | str) -> Json:
    """Return a result in Claude Code's format for the tool; for other tools, its blocks."""
    text = answer if isinstance(answer, str) else answer.text
    path = call.input.get("file_path")
    match call.name:
        case "Bash":
            return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
        case "Read":
            return {"type": "text", "file": {"filePath": path, "content": text}}
        case "Edit" | "Write":
            return {"filePath": path, "success": True, "text": text}
        case _:
            return render_blocks([Text(answer)] if isinstance(answer, str) else answer.content)


def text_of(output: Json) -> str:
    """Return a replaced result as text: from the format that the hook got, or any other."""
    match output:
        case str():
            return output
        case {"stdout": str(out), **rest}:
            err = rest.get("stderr")
            return "\n".join(part for part in (out, err) if isinstance(part, str) and part)
        case {"file": {"content": str(text)}} | {"text": str(text)}:
            return text
        case list() if output and all(isinstance(part, dict) and "text" in part for part in output):
            return "\n".join(text_of(part) for part in output)
        case _:
            return json.dumps(output, ensure_ascii=False)


def _refusal(reason: str) -> ToolResult:
    return ToolResult("", (Text(REFUSED.format(reason=reason)),), is_error=True)


def _absolute(where: Path, name: str) -> str:
    return os.path.normpath(where / os.path.expanduser(name))  # noqa: PTH111  # no error on an unknown ~user
