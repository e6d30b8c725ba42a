"""Checks tool calls against the permission policy before they run, and asks the user where it must."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.messages.untrusted_text import printable
from nacre.messages.wire import canonical
from nacre.tools.base import Tool, call_with_timeout
from nacre.tools.edit import replaced
from nacre.tools.files import decode, read_whole
from nacre.tools.policy import PermissionDecision, PermissionPolicy
from nacre.tools.rules import PermissionRule
from nacre.tools.workspace import Workspace, expecting, in_thread


@dataclass(frozen=True, slots=True)
class Refusal:
    """A no with the user's reason, which the model is told."""

    reason: str


PermissionAnswer = Literal["once", "always", "no", "never"] | Refusal
"""The user's answer: for this call, from now on, not this time, or not again in this session.

A refusal may have a reason.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionQuestion:
    """The question to the user before a call runs."""

    tool: str
    arguments: JsonObject
    reason: str
    """Why the policy requires an answer."""
    preview: str
    """What the call would do: a diff, a command, an address."""
    rule: PermissionRule
    """The rule that "always" adds."""


Ask = Callable[[PermissionQuestion], Awaitable[PermissionAnswer]]
"""Asks the user."""


@dataclass(frozen=True, slots=True)
class PermissionOverride:
    """What a PreToolUse hook requests for one call; it overrides no rule."""

    effect: Literal["allow", "ask"]
    reason: str = ""


_override: ContextVar[PermissionOverride | None] = ContextVar("permission_override", default=None)


@contextmanager
def permission_override(override: PermissionOverride | None) -> Iterator[None]:
    """Apply an override to the call made in this context, but not to calls that it makes in turn."""
    token = _override.set(override)
    try:
        yield
    finally:
        _override.reset(token)


class Guard:
    """Wraps the tools of a session so that every call is checked."""

    def __init__(
        self,
        policy: PermissionPolicy,
        workspace: Workspace,
        *,
        ask: Ask | None = None,
        learn: Callable[[PermissionRule], None] | None = None,
    ) -> None:
        self._shared_policy = [policy]
        self.denials = 0
        """The number of calls refused so far."""
        self.denied_writes = 0
        """Those among them of tools that can change something."""
        self._workspace = workspace
        self._ask = ask
        self._learn = learn
        self._one_at_a_time = asyncio.Lock()
        self.waiting: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered while the user is asked."""

    @property
    def policy(self) -> PermissionPolicy:
        """The current policy; an answer "always" adds a rule to it."""
        return self._shared_policy[0]

    @policy.setter
    def policy(self, policy: PermissionPolicy) -> None:
        self._shared_policy[0] = policy

    @property
    def workspace(self) -> Workspace:
        """The workspace of the guarded tools."""
        return self._workspace

    def for_workspace(
        self, workspace: Workspace, *, who: str, policy: PermissionPolicy | None = None
    ) -> Guard:
        """Return a guard for another workspace; questions share one queue and name the agent.

        With a policy of its own, rules that the user adds there are added here as well if both policies are
        about the same project.
        """
        ask = self._ask

        async def ask_for(question: PermissionQuestion) -> PermissionAnswer:
            assert ask is not None, "only used where the user can be asked"
            return await ask(replace(question, reason=f"{who} asks: {question.reason}"))

        learn = self._learn
        if policy is not None:
            learn = self._add_rule if policy.root == self.policy.root else None
        other = Guard(policy or self.policy, workspace, ask=ask_for if ask else None, learn=learn)
        # One question at a time for all guards; without an own policy, rules and their changes are shared.
        other._one_at_a_time = self._one_at_a_time
        other._shared_policy = self._shared_policy if policy is None else other._shared_policy
        return other

    def _add_rule(self, rule: PermissionRule) -> None:
        self.policy = self.policy.with_rules([rule])
        if self._learn is not None:
            self._learn(rule)

    def wrap(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return the tools wrapped by this guard; their definitions do not change."""
        return [self._guarded(one) for one in tools]

    def _guarded(self, tool: Tool) -> Tool:
        async def call(arguments: JsonObject) -> ToolResult | str:
            override = _override.get()
            decision = await self._decided(tool, arguments, override)
            if decision.effect == "ask":
                decision = await self._asked(tool, arguments, override)
            if decision.effect == "deny":
                self.denials += 1
                self.denied_writes += not tool.read_only
                raise ToolError(f"Not allowed: {decision.reason}. {self.policy.summary()}")
            # The timeout begins after the user was asked.
            with expecting(decision.path, decision.hidden), permission_override(None):
                return await call_with_timeout(tool, arguments)

        return replace(tool, call=call, max_seconds=None, guarded=True)

    async def _decided(
        self, tool: Tool, arguments: JsonObject, override: PermissionOverride | None
    ) -> PermissionDecision:
        decide = partial(self.policy.decide, tool, arguments, self._workspace)
        # For a command git may run, in each directory that the line names.
        decision = await asyncio.to_thread(decide) if tool.name == "Bash" else decide()
        match override:
            case PermissionOverride("allow") if decision.effect == "ask" and not decision.is_ruled:
                return replace(decision, effect="allow")
            case PermissionOverride("ask", reason) if decision.effect == "allow":
                return replace(decision, effect="ask", reason=reason)
            case _:
                return decision

    async def _asked(
        self, tool: Tool, arguments: JsonObject, override: PermissionOverride | None
    ) -> PermissionDecision:
        # One question at a time; and an earlier "always" may have answered this one already.
        with self.waiting():
            async with self._one_at_a_time:
                decision = await self._decided(tool, arguments, override)
                if decision.effect != "ask":
                    return decision
                rule = self.policy.rule_for(tool, arguments, self._workspace)
                if self._ask is None:
                    # A rule that requires the question precedes one that allows the call.
                    is_offered = not decision.is_ruled and len(rule.text) <= MAX_RULE_CHARS
                    other = f" or allow it with the rule {rule.text}" if is_offered else ""
                    advice = f"run it in a terminal{other}"
                    reason = f"{decision.reason}, and this session cannot ask for permission; {advice}"
                    return replace(decision, effect="deny", reason=reason)
                with expecting(decision.path):
                    shown = await preview(tool.name, arguments, self._workspace)
                question = PermissionQuestion(
                    tool=tool.name, arguments=arguments, reason=decision.reason, preview=shown, rule=rule
                )
                answer = await self._ask(question)
                if isinstance(answer, Refusal):
                    return replace(decision, effect="deny", reason=f"the user said no: {answer.reason}")
                if answer == "never":
                    # Not saved: a question that is never asked again could not be answered otherwise.
                    self.policy = self.policy.with_rules([replace(rule, effect="deny", origin=SAID_NEVER)])
                if answer in {"no", "never"}:
                    return replace(decision, effect="deny", reason="the user said no")
                if answer == "always":
                    self._add_rule(rule)
                return replace(decision, effect="allow")


SAID_NEVER = "your answer in this session"
"""The origin of a rule that the user added with "never"."""
MAX_RULE_CHARS = 100
"""Of a rule in a refusal; a longer one is a command for this call only."""
MAX_LINES = 60
"""Of a diff: one screen."""
MAX_CHARS = 8_000


async def preview(tool: str, arguments: JsonObject, workspace: Workspace) -> str:
    """Return a preview of a call for the user."""
    match tool:
        case "Bash":
            return str(arguments.get("command", ""))
        case "WebFetch":
            return str(arguments.get("url", ""))
        case "Edit" | "Write":
            named = str(arguments.get("file_path", ""))
            path = workspace.locate(named)
            unsaved = await workspace.unsaved(path)
            return await in_thread(lambda stop: _diff(tool, arguments, path, named, unsaved))
        case _:
            lines = (f"{name}: {canonical(value).decode()}" for name, value in sorted(arguments.items()))
            return _short("\n".join(lines) or "(no arguments)")


def file_change(
    tool: str, arguments: JsonObject, path: Path, named: str, unsaved: bytes | None = None
) -> tuple[str, str] | None:
    """Return the text of a file before and after an Edit or a Write; None if the edited text is not in it.

    Raises `ToolError` for a file that cannot be read as text.
    """
    if unsaved is None:
        unsaved = read_whole(path, named)[0] if path.exists() else b""
    before = decode(unsaved, named)[0]
    if tool == "Write":
        return before, str(arguments.get("content", ""))
    after, places = replaced(
        before, str(arguments.get("old_string", "")), str(arguments.get("new_string", ""))
    )
    return (before, after) if places else None


def _diff(tool: str, arguments: JsonObject, path: Path, named: str, unsaved: bytes | None) -> str:
    try:
        change = file_change(tool, arguments, path, named, unsaved)
    except ToolError as error:
        return f"{named}: {error}"
    if change is None:
        return f"{named}: the text to replace is not in the file, so nothing would change"
    before, after = change
    lines = list(
        difflib.unified_diff(
            printable(before).splitlines(), printable(after).splitlines(), named, named, lineterm="", n=2
        )
    )
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"… {len(lines) - MAX_LINES} more lines"]
    return _short("\n".join(lines) or f"{named}: no change")


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + " …"
