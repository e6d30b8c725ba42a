"""Ties the person's own commands to a session, to its agents, and to the files of instructions that load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nacre import prompts
from nacre.errors import HookRefused
from nacre.hooks.answer import REASON_CHARS, short
from nacre.hooks.points import Hooks
from nacre.hooks.tool_layer import CONTEXT, HOOK, watch_tools
from nacre.messages.blocks import Text, ToolResult
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.session.attachments import Attachment
from nacre.session.background import Background
from nacre.session.compaction import Compaction, CompactionRequest
from nacre.session.layer import Layer
from nacre.session.session import Session
from nacre.session.session_log import SessionLogWriter

EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "PostCompact")
"""The events of `HookLayer`; those of tools are in `ToolHookLayer`."""


HOOK_GRACE_SECONDS = 60.0
"""How long a command may continue when the session ends: as long as it may take at all."""


GOES_ON = prompts.load(__package__, "hook_goes_on")


class HookLayer(Layer):
    """Runs the person's commands in a session: as it begins, with each prompt, and before a turn stops."""

    log_kinds = {HOOK: "drop"}  # the person's commands are asked again, and say it anew (C18)

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
            raise HookRefused(f"A UserPromptSubmit hook stops what you said; nothing was sent: {why}")
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
        """PreCompact: a command may forbid a compaction, or say what its summary should focus on."""
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
    """Runs the person's SubagentStop commands in the session of an agent."""

    def __init__(self, hooks: Hooks, agent_id: str, agent_type: str) -> None:
        self._hooks = hooks
        self._agent_id = agent_id
        self._agent_type = agent_type

    async def before_stop(self, answer: str, *, continued: bool) -> Attachment | None:
        reason = await self._hooks.subagent_stop(self._agent_id, self._agent_type, answer, is_again=continued)
        return _continued("SubagentStop", reason)


def attend_child(
    session: Session,
    hooks: Hooks,
    agent_id: str,
    agent_type: str,
    *,
    where: Callable[[], Path] | None = None,
) -> None:
    """Let the commands of a session take part in that of an agent it started: its tools, and its end.

    `where` its tools work, if not where the session began. The agent's words are not a person's, and it
    begins and ends no session: nobody is told of those.
    """
    inside = hooks.inside(
        agent_id,
        agent_type,
        transcript=session.keeper.path if isinstance(session.keeper, SessionLogWriter) else None,
        cwd=where() if where else None,
    )
    watch_tools(session, inside, where or (lambda: inside.place.cwd))
    if hooks.waits_at("SubagentStop", agent_type):
        session.layers.append(SubagentHookLayer(inside, agent_id, agent_type))


def _continued(event: str, reason: str) -> Attachment | None:
    """The message that makes a turn continue; None without a reason."""
    if not reason:
        return None
    text = prompts.render(GOES_ON, reason=reason)
    return Attachment(
        kind=HOOK, text=text, facts={"event": event}, notice=f"A {event} hook has the turn go on."
    )
