"""The tool with which a model writes to other agents (A3b, A4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias, cast

from nacre import prompts
from nacre.errors import MailError, ToolError
from nacre.layers.l7_mail.letter import KINDS, RESPONSES, Kind
from nacre.layers.l7_mail.post import Post, SentLetters
from nacre.tools.base import Tool, tool

NAME = "SendMessage"
DESCRIPTION = prompts.load(__package__, "send_message")
STRUCTURED = tuple(kind for kind in KINDS if kind != "text")
FIELDS = frozenset({"type", "request_id", "approve", "reason", "plan"})

Structured: TypeAlias = Mapping[str, str | bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContent:
    """The `message` argument of a call, parsed."""

    text: str
    kind: Kind = "text"
    approves: bool | None = None
    answers: str = ""


class MailBinding:
    """Connects the tool with the mail of a session, which is opened after the tools."""

    def __init__(self) -> None:
        self._post: Post | None = None

    def belong_to(self, post: Post) -> None:
        """Send letters with this from now on."""
        self._post = post

    async def send(self, to: str, content: MessageContent, summary: str) -> SentLetters:
        """Send a letter; errors are raised as `ToolError` for the model."""
        if self._post is None:
            raise ToolError("There is no other agent to write to in this session.")
        try:
            return await self._post.send(
                to,
                content.text,
                summary=summary,
                kind=content.kind,
                approves=content.approves,
                answers=content.answers,
            )
        except MailError as error:
            raise ToolError(f"{NAME}: {error}") from error


def send_message_tool(mail: MailBinding) -> Tool:
    """Return the tool that sends a letter to another agent."""

    @tool(name=NAME, description=DESCRIPTION)
    async def send_message(
        to: str,
        message: str | dict[str, str | bool],
        summary: Annotated[str, "One line for display."] = "",
    ) -> str:
        sent = await mail.send(to, content_of(message), summary)
        said = f"Sent to {', '.join(sent.to)} (id {', '.join(sent.ids)})."
        return "\n".join([said, *sent.notes])

    return send_message


def content_of(message: str | Structured) -> MessageContent:
    """Parse a `message`; raises `ToolError` with what would be valid."""
    if isinstance(message, str):
        # Some models write the object as text.
        parsed = _object_in(message)
        return content_of(parsed) if parsed is not None else MessageContent(text=message)
    kind = message.get("type")
    if kind not in STRUCTURED:
        raise ToolError(f"{NAME}: message.type {kind!r} is not known; known are {', '.join(STRUCTURED)}")
    if unknown := sorted(message.keys() - FIELDS):
        raise ToolError(f"{NAME}: message.{unknown[0]} is not known; known are {', '.join(sorted(FIELDS))}")
    is_plan = kind == "plan_approval_request"
    reason = message.get("plan" if is_plan else "reason")
    answers = message.get("request_id")
    approves = message.get("approve")
    if not isinstance(reason, str | None) or not isinstance(answers, str | None):
        raise ToolError(f"{NAME}: message.reason, message.plan and message.request_id are text")
    if isinstance(approves, str) or (kind in RESPONSES and (approves is None or not answers)):
        raise ToolError(f"{NAME}: a {kind} needs request_id, and approve as true or false")
    return MessageContent(
        text=reason or "", kind=cast("Kind", kind), approves=approves, answers=answers or ""
    )


def _object_in(text: str) -> Structured | None:
    """Return the structured message that a text consists of, or None."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("type") not in STRUCTURED:
        return None
    return found if all(isinstance(value, str | bool) for value in found.values()) else None
