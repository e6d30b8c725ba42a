"""The tool by which a model writes to other agents (A3b, A4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias, cast

from nacre import prompts
from nacre.errors import MailError, ToolError
from nacre.layers.l7_mail.letter import KINDS, RESPONSES, Kind
from nacre.layers.l7_mail.post import Post, Sent
from nacre.tools.base import Tool, tool

NAME = "SendMessage"
DESCRIPTION = prompts.load(__package__, "send_message")
STRUCTURED = tuple(kind for kind in KINDS if kind != "text")
FIELDS = frozenset({"type", "request_id", "approve", "reason"})

Structured: TypeAlias = Mapping[str, str | bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a model wants to say."""

    text: str
    kind: Kind = "text"
    approves: bool | None = None
    answers: str = ""


class PostDesk:
    """Where a session's letters are handed in; closed until it belongs to one, because tools come first."""

    def __init__(self) -> None:
        self._post: Post | None = None

    def belong_to(self, post: Post) -> None:
        """From now on letters go out here."""
        self._post = post

    async def send(self, to: str, content: Content, summary: str) -> Sent:
        """Send what a model wrote; why it could not be sent is the model's to read."""
        if self._post is None:
            raise ToolError("There is nobody to write to in this session.")
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


def send_message_tool(desk: PostDesk) -> Tool:
    """Writes to another agent."""

    @tool(name=NAME, description=DESCRIPTION)
    async def send_message(
        to: Annotated[str, "A name, '*', 'uds:<path>' or 'bridge:<id>'."],
        message: Annotated[str | dict[str, str | bool], "The text, or one of the objects described above."],
        summary: Annotated[str, "One line for display."] = "",
    ) -> str:
        sent = await desk.send(to, content_of(message), summary)
        said = f"Sent to {', '.join(sent.to)} (id {', '.join(sent.ids)})."
        return "\n".join([said, *sent.notes])

    return send_message


def content_of(message: str | Structured) -> Content:
    """What a `message` means; a `ToolError` lists what would be understood."""
    if isinstance(message, str):
        # Some models write an object as text; one that begins so is hardly ever meant for reading.
        meant = _object_in(message)
        return content_of(meant) if meant is not None else Content(text=message)
    kind = message.get("type")
    if kind not in STRUCTURED:
        raise ToolError(f"{NAME}: message.type {kind!r} is not known; known are {', '.join(STRUCTURED)}")
    if unknown := sorted(message.keys() - FIELDS):
        raise ToolError(f"{NAME}: message.{unknown[0]} is not known; known are {', '.join(sorted(FIELDS))}")
    reason, answers, approves = (message.get(field) for field in ("reason", "request_id", "approve"))
    if not isinstance(reason, str | None) or not isinstance(answers, str | None):
        raise ToolError(f"{NAME}: message.reason and message.request_id are text")
    if isinstance(approves, str) or (kind in RESPONSES and (approves is None or not answers)):
        raise ToolError(f"{NAME}: a {kind} needs request_id, and approve as true or false")
    return Content(text=reason or "", kind=cast("Kind", kind), approves=approves, answers=answers or "")


def _object_in(text: str) -> Structured | None:
    """The structured message that a text is as a whole."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("type") not in STRUCTURED:
        return None
    return found if all(isinstance(value, str | bool) for value in found.values()) else None
