"""Ties the person's own commands to a session, to its agents, and to the files of instructions that load."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from nacre import prompts
from nacre.agents.hands import Hands
from nacre.agents.hooks_answer import REASON_CHARS, short
from nacre.agents.hooks_points import HookPlace, Hooks
from nacre.agents.hooks_table import LEAVE_SECONDS, NO_HOOKS, parse_hooks
from nacre.agents.hooks_tools import CONTEXT, HOOK, watch_tools
from nacre.agents.kept import LogKeeper
from nacre.agents.riding import Extra
from nacre.agents.session import Session
from nacre.agents.shelving import shelf_in
from nacre.errors import HookRefused
from nacre.messages.blocks import ToolResult
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.settings import Settings

GOES_ON = prompts.load(__package__, "hook_goes_on")

__all__ = ["HOOK", "Beginning", "HookPlace", "Hooks", "attend_child", "join_hooks"]


class Beginning:
    """A session's rider: what commands have to say when it begins goes with the first words; told once."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._is_told = False

    async def beside(self, said: Said, view: View) -> Sequence[Extra]:
        """What the model should know, with a person's first words."""
        if self._is_told or any(isinstance(block, ToolResult) for block in said.blocks):
            return ()
        self._is_told = True
        source = self._hooks.source
        context = await self._hooks.session_start(source)
        if not context:
            return ()
        text = prompts.render(CONTEXT, event="SessionStart", text=context)
        return [Extra(kind=HOOK, text=text, facts={"event": "SessionStart", "source": source})]


class Words:
    """What commands have to say of a person's words: they may refuse them, or add to them."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._context = ""

    async def heed(self, text: str) -> None:
        """Before anything is recorded."""
        self._context = ""
        said = await self._hooks.user_prompt_submit(text)
        if said.blocked is not None:
            why = short(said.blocked, REASON_CHARS)
            raise HookRefused(f"A UserPromptSubmit hook stops what you said; nothing was sent: {why}")
        self._context = said.context

    async def sift(self, said: Said) -> tuple[Said, Sequence[Extra]]:
        """A session's filter: what goes with the words."""
        is_theirs = not said.meta and not any(isinstance(block, ToolResult) for block in said.blocks)
        if not (is_theirs and self._context):
            return said, ()
        text, self._context = prompts.render(CONTEXT, event="UserPromptSubmit", text=self._context), ""
        return said, [Extra(kind=HOOK, text=text, facts={"event": "UserPromptSubmit"})]


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
    hooks = Hooks(table, place, tell=session.tell)
    hooks.source = "resume" if session.view.items else "startup"
    if table.groups or table.notices:
        hands.open_to({place.shelf.folder} if place.shelf.folder else ())
        session.tellers.append(hooks.notices)
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

    async def asked(reply: str, is_again: bool) -> str:
        return await inside.subagent_stop(agent_id, agent_type, reply, is_again=is_again)

    if hooks.waits_at("SubagentStop", agent_type):
        session.before_stopping.append(_going_on("SubagentStop", asked))


def _attend(session: Session, hooks: Hooks, stack: AsyncExitStack) -> None:
    async def asked(reply: str, is_again: bool) -> str:
        return await hooks.stop(reply, is_again=is_again)

    async def leave(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Who is stopped, or stops a second time, must not wait for as long as a command would like.
        is_hurried = kind is not None and not issubclass(kind, Exception)
        await hooks.session_end(hooks.ending, at_most=LEAVE_SECONDS if is_hurried else None)

    if hooks.waits_at("SessionStart"):
        session.riders.append(Beginning(hooks))
    if hooks.waits_at("UserPromptSubmit"):
        words = Words(hooks)
        session.before_words.append(words.heed)
        session.filters.append(words.sift)
    if hooks.waits_at("Stop"):
        session.before_stopping.append(_going_on("Stop", asked))
    if hooks.waits_at("SessionEnd"):
        stack.push_async_exit(leave)


def _going_on(
    event: str, asked: Callable[[str, bool], Coroutine[Any, Any, str]]
) -> Callable[[str, bool], Coroutine[Any, Any, Extra | None]]:
    async def goes_on(reply: str, is_again: bool) -> Extra | None:
        reason = await asked(reply, is_again)
        if not reason:
            return None
        text = prompts.render(GOES_ON, reason=reason)
        return Extra(
            kind=HOOK, text=text, facts={"event": event}, notice=f"A {event} hook has the turn go on."
        )

    return goes_on
