"""Requests in few words for the tests of Anthropic's cache rules; blocks say how large they are."""

from __future__ import annotations

from dataclasses import replace

from nacre.cache.models import ModelProfile, profile
from nacre.devtools.cache_models.anthropic_rules import DEFAULT_SWITCHES, simulate
from nacre.devtools.cache_models.anthropic_state import AnthropicSwitches, Cache, Call, RequestOutcome
from nacre.messages.blocks import Json, JsonObject

OPUS = profile("claude-opus-5")
MARK: JsonObject = {"type": "ephemeral"}
HOUR: JsonObject = {"type": "ephemeral", "ttl": "1h"}
CLEARED = "[cleared to save context]"


def sized(wire: JsonObject) -> int:
    if wire.get("content") == CLEARED:
        return 10
    size = wire.get("n", 100)
    assert isinstance(size, int)
    return size


def text(words: str, n: int = 100, mark: JsonObject | None = None) -> JsonObject:
    return {"type": "text", "text": words, "n": n, **({"cache_control": mark} if mark else {})}


def user(*blocks: Json) -> JsonObject:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Json) -> JsonObject:
    return {"role": "assistant", "content": list(blocks)}


def use(call_id: str, **arguments: Json) -> JsonObject:
    return {"type": "tool_use", "id": call_id, "name": "read", "input": arguments}


def result(call_id: str, n: int = 100, words: str = "ok", mark: JsonObject | None = None) -> JsonObject:
    block: JsonObject = {"type": "tool_result", "tool_use_id": call_id, "content": words, "n": n}
    return {**block, "cache_control": mark} if mark else block


def body(*messages: JsonObject, **fields: Json) -> JsonObject:
    return {"model": "m", "max_tokens": 1000, "messages": list(messages), **fields}


def send(
    cache: Cache,
    request: JsonObject,
    *,
    at: float = 0.0,
    model: ModelProfile = OPUS,
    switches: AnthropicSwitches = DEFAULT_SWITCHES,
    chance=None,
    **call,
) -> RequestOutcome:
    made = replace(Call(body=request, start=at), **call)
    return simulate(cache, made, profile=model, switches=switches, count=sized, chance=chance)


def figures(outcome: RequestOutcome) -> tuple[int, int, int]:
    """Read, written, plain input."""
    assert outcome.refusal is None, outcome.refusal
    return outcome.usage.cache_read, outcome.usage.cache_write, outcome.usage.input
