"""What a request says about its conversation: model, prefix block by block, opening, cache markers (G2)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import cast

from nacre.cache.models import ModelProfile
from nacre.cache.prefix_monitor import SentRequest, chain_digests, message_blocks, sent_request
from nacre.cache.warmth import Lifetime
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.wire import canonical
from nacre.server.gateway.upstream import Api

SYSTEM_ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A request for a reply, parsed once."""

    api: Api
    body: JsonObject
    model: str
    messages: Sequence[JsonObject]
    """Without the system prompt, in the form of blocks."""
    sent: SentRequest
    opening: bytes
    """The digest of the first message of the user."""
    opening_blocks: int
    system: bytes
    links: Sequence[bytes]
    """A chained digest for each block of the messages alone."""
    previous_response: str
    """The reply that the provider continues from, where it holds the conversation itself."""

    @property
    def is_persons(self) -> bool:
        """Whether the newest message comes from the person and not from a tool."""
        kinds = [str(block.get("type")) for block in _blocks(self.messages[-1])] if self.messages else []
        is_users = bool(self.messages) and self.messages[-1].get("role") == "user"
        return is_users and not any(kind == "tool_result" for kind in kinds)


def parse_conversation(api: Api, raw: bytes | None) -> Conversation | None:
    """Return the conversation of a request body; None if it holds none."""
    try:
        body = cast("Json", json.loads(raw)) if raw else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    system, messages = _split(api, body)
    if not messages:
        return None
    try:
        return _conversation(api, body, system, messages)
    except (RecursionError, ValueError):  # nested too deeply, or text that is not Unicode
        return None


def changed_conversation(said: Conversation, body: JsonObject) -> Conversation:
    """Return the conversation of a client with another body."""
    system, messages = _split(said.api, body)
    return replace(
        said, body=body, sent=sent_request(said.model, system, _objects(body.get("tools")), messages)
    )


def _conversation(
    api: Api, body: JsonObject, system: list[JsonObject], messages: list[JsonObject]
) -> Conversation:
    model = str(body.get("model") or "")
    opening = next((n for n, one in enumerate(messages) if one.get("role") == "user"), 0)
    first = [data for _, data in message_blocks(messages[: opening + 1])]
    previous = body.get("previous_response_id")
    return Conversation(
        api=api,
        body=body,
        model=model,
        messages=messages,
        sent=sent_request(model, system, _objects(body.get("tools")), messages),
        opening=chain_digests(first)[-1] if first else b"",
        opening_blocks=len(first),
        system=_digest(system),
        links=chain_digests(data for _, data in message_blocks(messages)),
        previous_response=previous if isinstance(previous, str) else "",
    )


def client_messages(api: Api, body: JsonObject) -> list[JsonObject]:
    """Return the messages or items of a request as the client wrote them, without the system prompt."""
    if api == "responses":
        given = body.get("input")
        said: list[Json] = [{"role": "user", "content": given}]
        return _objects(said if isinstance(given, str) else given)
    listed = _objects(body.get("messages"))
    return listed if api == "messages" else listed[_system_messages(listed) :]


def _split(api: Api, body: JsonObject) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return system prompt and messages as blocks."""
    messages = client_messages(api, body)
    match api:
        case "messages":
            return _text_blocks(body.get("system")), messages
        case "chat":
            listed = _objects(body.get("messages"))
            system = [block for one in listed[: _system_messages(listed)] for block in _blocks(one)]
            return system, [_with_fields(one) for one in messages]
        case "responses":
            return _text_blocks(body.get("instructions")), [_item(one) for one in messages]


def _system_messages(listed: Sequence[JsonObject]) -> int:
    """Return how many messages at the beginning are the system prompt."""
    return next((n for n, one in enumerate(listed) if str(one.get("role")) not in SYSTEM_ROLES), len(listed))


def _with_fields(message: JsonObject) -> JsonObject:
    """Return a chat message whose other fields, such as its tool calls, are blocks like the rest."""
    rest = {key: value for key, value in message.items() if key not in {"role", "content"}}
    blocks: list[Json] = [*_blocks(message)]
    is_result = str(message.get("role")) in {"tool", "function"}
    if rest or is_result:
        blocks.append({"type": "tool_result" if is_result else "tool_calls", **rest})
    return {"role": "user" if is_result else message.get("role"), "content": blocks}


def _item(item: JsonObject) -> JsonObject:
    if "role" in item:
        return {"role": item["role"], "content": [*_blocks(item)]}
    kind = str(item.get("type"))
    if kind.endswith("_output"):
        return {"role": "user", "content": [{**item, "type": "tool_result", "item": kind}]}
    return {"role": "assistant", "content": [item]}


def cache_ttls(body: JsonObject) -> list[str]:
    """Return the lifetime of each cache marker, in the order of the request; empty without markers."""
    found = [_ttl(body)]
    for level in ("tools", "system", "messages"):
        for holder in _objects(body.get(level)):
            found.append(_ttl(holder))
            found += [_ttl(block) for block in _blocks(holder)]
    return [ttl for ttl in found if ttl]


def cache_lifetime(body: JsonObject) -> Lifetime:
    """Return how long the prefix lives that a request writes."""
    asked = set(cache_ttls(body))
    return "1h" if asked == {"1h"} else "mixed" if "1h" in asked else "5m"


def refresh_objection(body: JsonObject, profile: ModelProfile) -> str:
    """Return why a request cannot be repeated without output; empty if it can (C8b)."""
    thinking, choice, output = (body.get(name) for name in ("thinking", "tool_choice", "output_config"))
    is_fixed = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    is_forced = isinstance(choice, dict) and str(choice.get("type")) in {"any", "tool"}
    objections = (
        (not profile.known, "the prices of the model are not known"),
        (not profile.refreshes, "the provider is not known to refresh its cache on such a request"),
        (not cache_ttls(body), "the request sets no cache markers"),
        (is_fixed, "thinking is on with a fixed budget, and the provider refuses it without output"),
        (is_forced, "the request forces a tool call"),
        (isinstance(output, dict) and "format" in output, "the request asks for structured output"),
    )
    return next((reason for is_so, reason in objections if is_so), "")


def _ttl(holder: JsonObject) -> str:
    control = holder.get("cache_control")
    return str(control.get("ttl") or "5m") if isinstance(control, dict) else ""


def _blocks(message: JsonObject) -> Iterator[JsonObject]:
    content = message.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    yield from _objects(content)


def _text_blocks(value: Json) -> list[JsonObject]:
    return [{"type": "text", "text": value}] if isinstance(value, str) else _objects(value)


def _objects(value: Json) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _digest(value: list[JsonObject]) -> bytes:
    bare: list[Json] = [{k: v for k, v in one.items() if k != "cache_control"} for one in value]
    return blake2b(canonical(bare), digest_size=16).digest()
