"""What every adapter is held to over HTTP: requests that are taken, and bytes that stay where they were."""

from __future__ import annotations

import json
from collections.abc import Sequence

from nacre.devtools.sim import Exchange
from nacre.messages.blocks import Json, JsonObject


def moved_at(log: Sequence[Exchange]) -> list[int]:
    """The numbers of the requests that do not begin with all of the request before; all must be taken."""
    refused = [(line.status, line.refusal) for line in log if line.status != 200]
    assert not refused, refused
    sent = [_pieces(line.body) for line in log]
    return [n for n in range(1, len(sent)) if sent[n][: len(sent[n - 1])] != sent[n - 1]]


def results(body: JsonObject) -> list[tuple[str, bool]]:
    """The answers of tools in the last message, and whether each is an error."""
    messages = body["messages"]
    assert isinstance(messages, list)
    blocks = messages[-1]["content"]  # type: ignore[index,call-overload]
    return [
        (block["content"] if isinstance(block["content"], str) else block["content"][0]["text"],
         bool(block.get("is_error")))
        for block in blocks
        if block["type"] == "tool_result"
    ]  # fmt: skip


def _pieces(body: JsonObject) -> list[str]:
    """A request in the order a provider reads it, without its cache markers."""
    messages = body["messages"]
    assert isinstance(messages, list)
    head = [json.dumps(_bare(body.get(name)), ensure_ascii=False) for name in ("tools", "system")]
    return head + [json.dumps(_bare(message), ensure_ascii=False) for message in messages]


def _bare(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _bare(one) for key, one in value.items() if key != "cache_control"}
    return [_bare(one) for one in value] if isinstance(value, list) else value
