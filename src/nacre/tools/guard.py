"""Who may call what, where: a policy that decides, and a guard that asks, remembers and answers the model."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.messages.wire import canonical
from nacre.tools.base import Tool
from nacre.tools.edit import replaced
from nacre.tools.files import decode, printable, read_whole
from nacre.tools.policy import PermissionDecision, PermissionPolicy
from nacre.tools.rules import PermissionRule
from nacre.tools.workspace import Workspace, expecting, in_thread

PermissionAnswer = Literal["once", "always", "no"]
"""What a person says to a question: for this call, from now on, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionQuestion:
    """What a person is asked before a call goes ahead."""

    tool: str
    arguments: JsonObject
    reason: str
    """Why the guard asks."""
    preview: str
    """What would happen: a diff, a command, an address."""
    rule: PermissionRule
    """What "always" would allow from now on."""


Ask = Callable[[PermissionQuestion], Awaitable[PermissionAnswer]]
"""Puts the question to a person."""


@dataclass(frozen=True, slots=True)
class PermissionOverride:
    """What a person's command wants a guard to do with one call; no rule is set aside by it."""

    effect: Literal["allow", "ask"]
    reason: str = ""


_override: ContextVar[PermissionOverride | None] = ContextVar("wished", default=None)


@contextmanager
def permission_override(wish: PermissionOverride | None) -> Iterator[None]:
    """Have the guard of the call made in here heed a wish; no call that this one leads to hears of it."""
    token = _override.set(wish)
    try:
        yield
    finally:
        _override.reset(token)


class Guard:
    """Stands in front of a session's tools."""

    def __init__(
        self,
        policy: PermissionPolicy,
        workspace: Workspace,
        *,
        ask: Ask | None = None,
        learn: Callable[[PermissionRule], None] | None = None,
    ) -> None:
        self._held = [policy]
        self.denials = 0
        """How many calls were refused so far."""
        self._workspace = workspace
        self._ask = ask
        self._learn = learn
        self._one_at_a_time = asyncio.Lock()
        self.waiting: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered while a person is waited for, who may take their time."""

    @property
    def policy(self) -> PermissionPolicy:
        """The rules as they are now; an answer "always" adds one."""
        return self._held[0]

    @policy.setter
    def policy(self, policy: PermissionPolicy) -> None:
        self._held[0] = policy

    @property
    def workspace(self) -> Workspace:
        """Where the guarded tools work."""
        return self._workspace

    def apart(self, workspace: Workspace, *, who: str, policy: PermissionPolicy | None = None) -> Guard:
        """The same before tools of another workspace: the person is asked in one line, and told for whom.

        With a policy of its own it goes by that one; what a person allows for good there holds here as well,
        where both are about the same project.
        """
        ask = self._ask

        async def ask_for(question: PermissionQuestion) -> PermissionAnswer:
            assert ask is not None, "only where somebody can be asked"
            return await ask(replace(question, reason=f"{who} asks: {question.reason}"))

        learn = self._learn
        if policy is not None:
            learn = self._taught if policy.root == self.policy.root else None
        twin = Guard(policy or self.policy, workspace, ask=ask_for if ask else None, learn=learn)
        # The person is shared: one question at a time for all; and so are rules and their changes.
        twin._one_at_a_time = self._one_at_a_time
        twin._held = self._held if policy is None else twin._held
        return twin

    def _taught(self, rule: PermissionRule) -> None:
        self.policy = self.policy.with_rules([rule])
        if self._learn is not None:
            self._learn(rule)

    def stand_before(self, tools: Iterable[Tool]) -> list[Tool]:
        """The same tools, each behind this guard; what the model is told about them does not change."""
        return [self._guarded(one) for one in tools]

    def _guarded(self, tool: Tool) -> Tool:
        async def call(arguments: JsonObject) -> ToolResult | str:
            wish = _override.get()
            decision = self._decided(tool, arguments, wish)
            if decision.effect == "ask":
                decision = await self._asked(tool, arguments, wish)
            if decision.effect == "deny":
                self.denials += 1
                raise ToolError(f"Not allowed: {decision.reason}. {self.policy.summary()}")
            with expecting(decision.path), permission_override(None):
                return await call_with_timeout(tool, arguments)

        return replace(tool, call=call, max_seconds=None, guarded=True)

    def _decided(
        self, tool: Tool, arguments: JsonObject, wish: PermissionOverride | None
    ) -> PermissionDecision:
        decision = self.policy.decide(tool, arguments, self._workspace)
        match wish:
            case PermissionOverride("allow") if decision.effect == "ask" and not decision.is_ruled:
                return replace(decision, effect="allow")
            case PermissionOverride("ask", reason) if decision.effect == "allow":
                return replace(decision, effect="ask", reason=reason)
            case _:
                return decision

    async def _asked(
        self, tool: Tool, arguments: JsonObject, wish: PermissionOverride | None
    ) -> PermissionDecision:
        # One question at a time; and an earlier "always" may have answered this one already.
        with self.waiting():
            async with self._one_at_a_time:
                return await self._answered(tool, arguments, wish)

    async def _answered(
        self, tool: Tool, arguments: JsonObject, wish: PermissionOverride | None
    ) -> PermissionDecision:
        decision = self._decided(tool, arguments, wish)
        if decision.effect != "ask":
            return decision
        if self._ask is None:
            return replace(decision, effect="deny", reason=f"{decision.reason}, and nobody is there to ask")
        rule = self.policy.rule_for(tool, arguments, self._workspace)
        shown = await preview(tool.name, arguments, self._workspace)
        question = PermissionQuestion(
            tool=tool.name, arguments=arguments, reason=decision.reason, preview=shown, rule=rule
        )
        match await self._ask(question):
            case "once":
                return replace(decision, effect="allow")
            case "always":
                self.policy = self.policy.with_rules([rule])
                if self._learn is not None:
                    self._learn(rule)
                return replace(decision, effect="allow")
            case "no":
                return replace(decision, effect="deny", reason="the user said no")


async def call_with_timeout(tool: Tool, arguments: JsonObject) -> ToolResult | str:
    """The tool's time begins when it does: whoever was asked before may have taken theirs."""
    try:
        async with asyncio.timeout(tool.max_seconds) as limit:
            return await tool.call(arguments)
    except TimeoutError:
        if not limit.expired():
            raise
        raise ToolError(f"{tool.name} was stopped after {tool.max_seconds:g} s.") from None


MAX_LINES = 60
"""Of a diff: what does not fit on a screen is not read, only agreed to."""
MAX_CHARS = 8_000


async def preview(tool: str, arguments: JsonObject, workspace: Workspace) -> str:
    """The call as a person should see it; what cannot be shown is shown as it was given."""
    match tool:
        case "Bash":
            return str(arguments.get("command", ""))
        case "WebFetch":
            return str(arguments.get("url", ""))
        case "Edit" | "Write":
            named = str(arguments.get("file_path", ""))
            path = workspace.locate(named)
            return await in_thread(lambda stop: _diff(tool, arguments, path, named))
        case _:
            lines = (f"{name}: {canonical(value).decode()}" for name, value in sorted(arguments.items()))
            return _short("\n".join(lines) or "(no arguments)")


def _diff(tool: str, arguments: JsonObject, path: Path, named: str) -> str:
    try:
        before = decode(read_whole(path, named)[0], named)[0] if path.exists() else ""
    except ToolError as error:
        return f"{named}: {error}"
    if tool == "Write":
        after = str(arguments.get("content", ""))
    else:
        after, places = replaced(
            before, str(arguments.get("old_string", "")), str(arguments.get("new_string", ""))
        )
        if not places:
            return f"{named}: the text to replace is not in the file, so nothing would change"
    lines = list(
        difflib.unified_diff(
            printable(before).splitlines(), printable(after).splitlines(), named, named, lineterm="", n=2
        )
    )
    shown = lines[:MAX_LINES]
    more = [f"… {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    return _short("\n".join([*shown, *more]) or f"{named}: no change")


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + " …"
