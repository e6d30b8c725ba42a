"""The provider's own compaction: one request, one signed block, sent back first from then on (C23b).

The request is the conversation as it would be sent anyway, so that its prefix is read from the cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nacre.cache.rules import ModelProfile
from nacre.errors import SummaryRejected
from nacre.messages.blocks import JsonObject, Opaque
from nacre.messages.events import Reply
from nacre.messages.summary import Draft
from nacre.messages.view import View
from nacre.providers.base import Request

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
