"""Ties the person's own commands to a session, to its agents, and to the files of instructions that load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from nacre import prompts
from nacre.agents.background import Background
from nacre.agents.compaction import Compaction, CompactionRequest
from nacre.agents.hands import Hands
from nacre.agents.hooks_answer import REASON_CHARS, short
from nacre.agents.hooks_points import HookPlace, Hooks
from nacre.agents.hooks_table import LEAVE_SECONDS, NO_HOOKS, parse_hooks
from nacre.agents.hooks_tools import CONTEXT, HOOK, watch_tools
from nacre.agents.kept import LogKeeper
from nacre.agents.layer import Layer
from nacre.agents.riding import Extra
from nacre.agents.session import Session
from nacre.agents.shelving import shelf_in
from nacre.errors import HookRefused
from nacre.messages.blocks import Text, ToolResult
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.settings import Settings

EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "PostCompact")
"""The events of `HookLayer`; those of tools are in `ToolHookLayer`."""
HOOK_GRACE_SECONDS = 60.0
"""How long a command may continue when the session ends: as long as it may take at all."""
GOES_ON = prompts.load(__package__, "hook_goes_on")

__all__ = ["HOOK", "HookLayer", "HookPlace", "Hooks", "attend_child", "join_hooks"]


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

    async def filter(self, message: Said, view: View) -> tuple[Said, Sequence[Extra]]:
        """Attach what UserPromptSubmit returned to the prompt."""
        is_prompt = not message.meta and not any(isinstance(block, ToolResult) for block in message.blocks)
        if not (is_prompt and self._prompt_context):
            return message, ()
        text = prompts.render(CONTEXT, event="UserPromptSubmit", text=self._prompt_context)
        self._prompt_context = ""
        return message, [Extra(kind=HOOK, text=text, facts={"event": "UserPromptSubmit"})]

    async def attach(self, message: Said, view: View) -> Sequence[Extra]:
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
        return [Extra(kind=HOOK, text=text, facts={"event": "SessionStart", "source": source})]

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

    async def before_stop(self, answer: str, *, continued: bool) -> Extra | None:
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

    async def before_stop(self, answer: str, *, continued: bool) -> Extra | None:
        reason = await self._hooks.subagent_stop(self._agent_id, self._agent_type, answer, is_again=continued)
        return _continued("SubagentStop", reason)


def join_hooks(session: Session, settings: Settings, hands: Hands, stack: AsyncExitStack) -> Hooks:
    """Let the person's commands take part in a session; in bare mode there are none.

    They are told of its end when the stack is left, behind whatever joins it later.
    """
    table = NO_HOOKS if settings.memory.simple else parse_hooks(settings.hooks)
    keeper = session.keeper if isinstance(session.keeper, LogKeeper) else None
    root = str(settings.project_root)
    place = HookPlace(
        session_id=session.id,
        cwd=settings.cwd,
        transcript=keeper.path if keeper else None,
        environ={**settings.environ, "NACRE_PROJECT_DIR": root, "CLAUDE_PROJECT_DIR": root},
        shelf=shelf_in(keeper.folder if keeper else None),
        mode=lambda: hands.guard.policy.mode,
    )
    hooks = Hooks(table, place, notify=session.notify)
    for line in table.notices:
        session.notify(line, "warning")
    hooks.source = "resume" if session.view.items else "startup"
    if table.groups or table.notices:
        hands.open_to({place.shelf.folder} if place.shelf.folder else ())
        _attend(session, hooks, stack)
        watch_tools(session, hooks, lambda: hands.workspace.cwd)
    return hooks


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
        transcript=session.keeper.path if isinstance(session.keeper, LogKeeper) else None,
        cwd=where() if where else None,
    )
    watch_tools(session, inside, where or (lambda: inside.place.cwd))
    if hooks.waits_at("SubagentStop", agent_type):
        session.layers.append(SubagentHookLayer(inside, agent_id, agent_type))


def _attend(session: Session, hooks: Hooks, stack: AsyncExitStack) -> None:
    async def leave(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Who is stopped, or stops a second time, must not wait for as long as a command would like.
        is_hurried = kind is not None and not issubclass(kind, Exception)
        await hooks.session_end(hooks.ending, at_most=LEAVE_SECONDS if is_hurried else None)

    if any(map(hooks.waits_at, EVENTS)):
        session.layers.append(HookLayer(session, hooks))
    if hooks.waits_at("SessionEnd"):
        stack.push_async_exit(leave)


def _continued(event: str, reason: str) -> Extra | None:
    """The message that makes a turn continue; None without a reason."""
    if not reason:
        return None
    text = prompts.render(GOES_ON, reason=reason)
    return Extra(kind=HOOK, text=text, facts={"event": event}, notice=f"A {event} hook has the turn go on.")
