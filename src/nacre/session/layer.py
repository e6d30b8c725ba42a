"""The base class of layers: objects in `Session.layers` that take part in a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from nacre.messages.blocks import JsonObject
from nacre.messages.draft import Draft, Fragment
from nacre.messages.events import Reply
from nacre.messages.pairing import Item
from nacre.messages.records import Noted, Record, Said
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.session.attachments import Attachment
from nacre.session.compaction import Compaction, CompactionRequest
from nacre.session.ladder import Pressure
from nacre.tools.base import Tool

Carry = Literal["last", "all", "own", "drop"]
"""What a compaction does with a kind of log note: keep the newest or all, let `carry` decide, or drop it."""


class Layer:
    """Takes part in a session. Subclasses override what they need; every default does nothing.

    The methods stand in the order in which a turn calls them; those of a compaction come last.
    """

    log_kinds: ClassVar[Mapping[str, Carry]] = {}
    """The kinds of log notes that this layer writes."""

    def for_fork(self) -> Layer | None:
        """Return the layer that filters the messages of a fork; None if it takes no part in forks."""
        return None

    async def before_turn(self) -> None:
        """Called before a turn begins."""

    async def before_prompt(self, text: str) -> None:
        """Called with a person's prompt before anything is recorded; may raise `HookRefused`."""

    async def filter(self, message: Said, view: View) -> tuple[Said, Sequence[Attachment]]:
        """Return a message as it is to be recorded, with attachments that note what was changed."""
        return message, ()

    async def attach(self, message: Said, view: View) -> Sequence[Attachment]:
        """Return attachments that follow a prompt or tool results."""
        return ()

    async def before_request(self) -> None:
        """Called before a request is built; may append records to the transcript."""

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        """Return whether `shrink` would make this view smaller; pure, also called with hypothetical views."""
        return False

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        """Return records that make the view smaller; none if that is not possible after all."""
        return ()

    def cache_points(self, view: View, messages: Sequence[JsonObject]) -> Sequence[int]:
        """Return after how many messages a cache marker is worthwhile, beside the usual places."""
        return ()

    def finish_request(self, request: Request, view: View) -> Request:
        """Return the request with provider options; the same view must always give the same bytes."""
        return request

    def on_reply(self, reply: Reply) -> None:
        """Called after a reply was recorded and added to the meter; may start background work."""

    def wrap_tools(self, tools: Mapping[str, Tool], *, fork: str = "") -> Mapping[str, Tool]:
        """Return the tools with this layer around their calls; `fork` names the purpose of a fork."""
        return tools

    async def pending(self) -> Sequence[Attachment]:
        """Wait for results that an answered turn still expects and return them; with none the turn ends."""
        return ()

    async def before_stop(self, answer: str, *, continued: bool) -> Attachment | None:
        """Return a message that makes the turn continue after its last reply, or None.

        `continued` says whether the turn was continued this way before.
        """
        return None

    async def after_turn(self) -> None:
        """Called after a turn that was not cancelled, before the next one can begin."""

    def on_cancel(self) -> None:
        """Called when a turn is cancelled or fails."""

    async def before_compact(self, request: CompactionRequest) -> CompactionRequest | None:
        """Return the request for a compaction, changed or not; None forbids it."""
        return request

    def draft(self, view: View) -> Draft | None:
        """Return a text that can replace the conversation without a model request, if there is one."""
        return None

    async def finish_draft(self) -> None:
        """Wait for a draft that is being written, within the layer's own time limit."""

    async def restart_context(self) -> str:
        """Return text that the model reads when the conversation continues after a summary."""
        return ""

    async def restore(self, kept: Sequence[Item]) -> Sequence[Fragment]:
        """Return what the model must see again after a compaction that keeps these items."""
        return ()

    def carry(self, restored: Sequence[Fragment], summary_id: str) -> Sequence[Noted]:
        """Return the log notes that say which of the restored fragments the model sees in the summary."""
        return ()

    def after_compact(self, done: Compaction) -> None:
        """Called when a compaction is in the transcript."""
