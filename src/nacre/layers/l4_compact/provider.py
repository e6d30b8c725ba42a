"""The provider's own compaction: one request, one signed block, sent back first from then on (C23b).

The request is the conversation as it would be sent anyway, so that its prefix is read from the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial

from nacre.cache.models import ModelProfile
from nacre.errors import SummaryRejected, ThinkingMismatch
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.messages.blocks import JsonObject, Opaque
from nacre.messages.draft import Draft
from nacre.messages.events import Reply, StartedOver
from nacre.messages.records import Noted
from nacre.messages.rewrite import drop_thinking
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider, Request
from nacre.session.meter import SIDE_QUERY, metered
from nacre.session.session import Session

BETA = "compact-2026-09-04"
COMPACTION = "compaction"
"""The kind of the block, and what a request for one is called."""
PROVIDER = "anthropic"
INSTRUCTIONS_CHARS = 16_384
"""The provider takes no longer ones."""
NOT_TOGETHER = frozenset({"context_management", "stop_sequences", "tool_choice"})
"""What a request for a compaction may not hold; a forced tool least of all."""
_WHY = {
    "max_tokens": "the provider's summary was cut off at the output limit",
    "model_context_window_exceeded": "the conversation leaves the provider no room for a summary",
    "tool_use": "the model called a tool instead of writing a summary",
    "refusal": "the model would not summarise",
}


def compacts(profiles: Iterable[ModelProfile]) -> bool:
    """Whether every model that may answer offers it and reads the others' blocks."""
    return all(one.compaction and one.provider == PROVIDER for one in profiles)


def compaction_request(request: Request, *, instructions: str = "") -> Request:
    """The same conversation, asked to be compacted instead of answered."""
    asked: JsonObject = {"type": "summarize"}
    if instructions.strip():
        asked["instructions"] = instructions.strip()[:INSTRUCTIONS_CHARS]
    options = {key: value for key, value in request.options.items() if key not in NOT_TOGETHER}
    config = options.get("output_config")
    if isinstance(config, dict):
        options["output_config"] = {key: value for key, value in config.items() if key != "format"}
    return replace(
        request,
        options={**options, COMPACTION: asked},
        output_schema=None,
        betas=_with_beta(request.betas),
    )


def draft_of(reply: Reply) -> Draft:
    """The block of the reply as a draft; `SummaryRejected` where there is none."""
    blocks = [one for one in reply.message.blocks if isinstance(one, Opaque) and one.kind == COMPACTION]
    signed = [one for one in blocks if one.wire.get("content") and one.wire.get("signature")]
    if reply.stop_reason != COMPACTION or len(signed) != 1:
        reason = reply.stop_reason or "no reason"
        why = _WHY.get(reason, f"the provider gave no summary (it stopped with {reason})")
        raise SummaryRejected(why)
    return Draft(kind="provider", block=signed[0], told={"stop_reason": reply.stop_reason})


def with_compaction(request: Request, view: View) -> Request:
    """The request with the beta its block needs, wherever one is in view."""
    if not has_block(view):
        return request
    return always_with_compaction(request, view)


def always_with_compaction(request: Request, view: View) -> Request:
    """The request with the beta from the start: to add it later would lose what is cached (C31b)."""
    return replace(request, betas=_with_beta(request.betas))


def has_block(view: View) -> bool:
    """Whether a provider's block opens the view; it never stands anywhere else."""
    first = view.items[0].parts if len(view.items) else ()
    return bool(first) and isinstance(first[0].block, Opaque) and first[0].block.kind == COMPACTION


def _with_beta(betas: tuple[str, ...]) -> tuple[str, ...]:
    return betas if BETA in betas else (*betas, BETA)


PURPOSE = "compact"
"""Under this name it is booked, as a summary of ours is."""


SHARE_DECIMALS = 4


class CompactingThere:
    """Asks a session's provider for its block; what that costs is booked, whether or not it is of use."""

    def __init__(
        self,
        session: Session,
        provider: Provider,
        *,
        settings: CompactSettings,
        record: Callable[[Noted], None],
    ) -> None:
        """`record` takes what shall stand in the log at the next boundary."""
        self._session = session
        self._provider = provider
        self._settings = settings
        self._record = record

    async def __call__(self, view: View, *, focus: str = "") -> Draft:
        """The block for all of a view; raises `SummaryRejected`, or what the provider raises.

        Nothing of this view may stand behind the block: for a kept tail, ask for `before_pivot` of the view.
        """
        if view.open_calls:
            raise SummaryRejected("the provider compacts nothing while a tool call is unanswered")
        try:
            reply = await self._ask(view, focus)
        except ThinkingMismatch:
            dropped = drop_thinking(view.items, self._session.clock)
            if not dropped:
                raise
            reply = await self._ask(view.after(*dropped), focus)
        covers = next(item.record_id for item in reversed(view.items) if item.parts)
        return replace(draft_of(reply), covers=covers)

    async def _ask(self, view: View, focus: str) -> Reply:
        session = self._session
        asked = compaction_request(session.request(view, self._settings.summary_tokens), instructions=focus)
        begun = session.clock.now()
        reply: Reply | None = None
        stream = session.telemetry.ask(self._provider, asked, purpose=PURPOSE)
        pay = partial(self._pay, model=None, at=begun)
        async with aclosing(metered(stream, session.expected_input(view), pay)) as events:
            async for event in events:
                match event:
                    case Reply():
                        reply = event
                        self._pay(event.usage, model=event.model, at=begun)
                    case StartedOver(usage=Usage() as wasted):
                        pay(wasted)
                    case _:
                        pass
        if reply is None:
            raise SummaryRejected("the provider's answer never came")
        return reply

    def _pay(self, usage: Usage, *, model: str | None, at: datetime) -> None:
        session = self._session
        session.pay(usage, model, purpose=PURPOSE)
        facts: JsonObject = {
            "purpose": PURPOSE,
            "model": session.priced_as(model),
            "usage": usage.as_json(),
            "share": round(usage.hit_rate, SHARE_DECIMALS),
        }
        self._record(Noted(id=session.clock.new_id(), at=at, kind=SIDE_QUERY, facts=facts))
