"""Layers that run the user's hooks in a session and its agents, and when instruction files load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from nacre import prompts
from nacre.context.instruction_updates import InstructionUpdates
from nacre.errors import HookRefused
from nacre.hooks.command import REASON_CHARS, short
from nacre.hooks.points import Hooks
from nacre.hooks.tool_layer import CONTEXT, HOOK, add_tool_hooks
from nacre.memory.instructions.load import InstructionFile
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.session.background import Background
from nacre.session.compaction import Compaction, CompactionRequest
from nacre.session.layer import Attachment, Layer
from nacre.session.log_writer import SessionLogWriter
from nacre.session.session import Session

EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "PostCompact")
"""The events of `HookLayer`; those of tools are in `ToolHookLayer`."""


HOOK_GRACE_SECONDS = 60.0
"""How long a command may continue when the session ends: its whole default timeout."""


GOES_ON = prompts.load(__package__, "hook_goes_on")


class HookLayer(Layer):
    """Runs the user's hooks in a session: at its start, with each prompt, and before a turn stops."""

    log_kinds = {HOOK: "drop"}  # hooks run again and return it anew (C18)

    def __init__(self, session: Session, hooks: Hooks) -> None:
        self.hooks = hooks
        self._session = session
        self._has_started = False
        self._prompt_context = ""

    def for_fork(self) -> Layer:
        return self

    async def before_prompt(self, text: str) -> None:
        """UserPromptSubmit, before anything is recorded."""
        self._prompt_context = ""
        if not self.hooks.waits_at("UserPromptSubmit"):
            return
        said = await self.hooks.user_prompt_submit(text)
        if said.blocked is not None:
            why = short(said.blocked, REASON_CHARS)
            raise HookRefused(f"A UserPromptSubmit hook blocked your prompt; nothing was sent: {why}")
        self._prompt_context = said.context

    async def filter(self, message: Said, view: View) -> tuple[Said, Sequence[Attachment]]:
        """Attach what UserPromptSubmit returned to the prompt."""
        is_prompt = not message.meta and not any(isinstance(block, ToolResult) for block in message.blocks)
        if not (is_prompt and self._prompt_context):
            return message, ()
        text = prompts.render(CONTEXT, event="UserPromptSubmit", text=self._prompt_context)
        self._prompt_context = ""
        return message, [Attachment(kind=HOOK, text=text, facts={"event": "UserPromptSubmit"})]

    async def attach(self, message: Said, view: View) -> Sequence[Attachment]:
        """Attach what SessionStart returns to the first prompt."""
        if self._has_started or any(isinstance(block, ToolResult) for block in message.blocks):
            return ()
        self._has_started = True
        if not self.hooks.waits_at("SessionStart"):
            return ()
        source = self.hooks.source
        context = await self.hooks.session_start(source)
        if not context:
            return ()
        text = prompts.render(CONTEXT, event="SessionStart", text=context)
        return [Attachment(kind=HOOK, text=text, facts={"event": "SessionStart", "source": source})]

    async def before_compact(self, request: CompactionRequest) -> CompactionRequest | None:
        """PreCompact: a command may forbid a compaction, or set the focus of its summary."""
        said = await self.hooks.pre_compact(request.trigger, request.focus)
        if said.blocked is not None:
            self._session.notify(f"A PreCompact hook does not allow a compaction: {said.blocked}")
            return None
        return replace(request, focus=said.focus)

    async def restart_context(self) -> str:
        """SessionStart with the source `compact`."""
        return await self.hooks.session_start("compact")

    def after_compact(self, done: Compaction) -> None:
        """PostCompact, in the background."""
        summary = "\n\n".join(block.text for block in done.record.summary if isinstance(block, Text))
        work = self.hooks.post_compact(done.trigger, summary)
        background = self._session.layer(Background)
        assert background is not None, "a session with hooks has a background layer"
        background.start("hooks", work, grace=HOOK_GRACE_SECONDS)

    async def before_stop(self, answer: str, *, continued: bool) -> Attachment | None:
        """Stop: a command may have the turn continue."""
        if not self.hooks.waits_at("Stop"):
            return None
        return _continued("Stop", await self.hooks.stop(answer, is_again=continued))


class SubagentHookLayer(Layer):
    """Runs the user's SubagentStop hooks in the session of an agent."""

    def __init__(self, hooks: Hooks, agent_id: str, agent_type: str) -> None:
        self._hooks = hooks
        self._agent_id = agent_id
        self._agent_type = agent_type

    async def before_stop(self, answer: str, *, continued: bool) -> Attachment | None:
        reason = await self._hooks.subagent_stop(self._agent_id, self._agent_type, answer, is_again=continued)
        return _continued("SubagentStop", reason)


def add_child_hooks(
    session: Session,
    hooks: Hooks,
    agent_id: str,
    agent_type: str,
    *,
    where: Callable[[], Path] | None = None,
) -> None:
    """Add a session's hooks to the session of an agent: for its tools, and for its end.

    `where` returns the directory of its tools, if not that of the session. An agent's prompts are not a
    user's, and it starts and ends no session, so those hooks do not run.
    """
    inside = hooks.inside(
        agent_id,
        agent_type,
        transcript=session.writer.path if isinstance(session.writer, SessionLogWriter) else None,
        cwd=where() if where else None,
    )
    add_tool_hooks(session, inside, where or (lambda: inside.place.cwd))
    if hooks.waits_at("SubagentStop", agent_type):
        session.add_layers(SubagentHookLayer(inside, agent_id, agent_type))


def _continued(event: str, reason: str) -> Attachment | None:
    """Return the message that makes a turn continue; None without a reason."""
    if not reason:
        return None
    text = prompts.render(GOES_ON, reason=reason)
    return Attachment(
        kind=HOOK, text=text, facts={"event": event}, notice=f"A {event} hook makes the turn continue."
    )


EVENT = "InstructionsLoaded"
AT_ONCE = 4
"""Maximum number of files announced concurrently: a folder of rules has dozens, and a turn is running."""
REASONS: Mapping[str, str] = {
    "start": "session_start",
    "include": "include",
    "scoped": "path_glob_match",
    "nested": "nested_traversal",
}
"""Claude Code's names for the reasons why a file is loaded."""
AGAIN = "compact"
"""The same for a file that was read again for a compaction."""


def watch_instructions(session: Session, hooks: Hooks, background: Background) -> None:
    """Run InstructionsLoaded hooks in the background, each time a file is loaded."""
    updates = session.layer(InstructionUpdates)
    if updates is None or not hooks.waits_at(EVENT):
        return
    runs = count(1)

    async def run_all(events: Sequence[JsonObject]) -> None:
        limit = asyncio.Semaphore(AT_ONCE)

        async def run(fields: JsonObject) -> None:
            async with limit:
                await hooks.instructions_loaded(fields)

        async with asyncio.TaskGroup() as group:
            for fields in events:
                group.create_task(run(fields))

    def loaded(files: Sequence[InstructionFile], is_again: bool) -> None:
        events = [_loaded_fields(file, is_again=is_again) for file in files]
        due = [one for one in events if hooks.waits_at(EVENT, str(one["load_reason"]))]
        if due:
            background.start(f"hooks {next(runs)}", run_all(due), label="finishing hooks")

    updates.on_loaded = loaded


def _loaded_fields(file: InstructionFile, *, is_again: bool) -> JsonObject:
    fields: JsonObject = {
        "file_path": str(file.path),
        "memory_type": file.kind.capitalize(),
        "load_reason": AGAIN if is_again else REASONS[file.reason],
    }
    if file.because is not None:
        fields["parent_file_path" if file.reason == "include" else "trigger_file_path"] = str(file.because)
    return fields
