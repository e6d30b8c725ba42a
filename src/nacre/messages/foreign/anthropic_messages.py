"""Lists of Anthropic messages: bare, one object per line, or a request body with its system prompt (T7)."""

from __future__ import annotations

from collections.abc import Iterable

from nacre.messages.blocks import Json, JsonObject
from nacre.messages.foreign.recording import ForeignSession, Recording, messages_of, objects, rest, text_of
from nacre.messages.wire import parse_content

OWN_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"})
"""Blocks that only this provider has; they distinguish its messages from OpenAI's."""


def is_anthropic(value: Json) -> bool:
    """Return whether the value holds messages with this provider's blocks, or with a system prompt."""
    found = messages_of(value)
    if found is None or not all(text_of(one.get("role")) in {"user", "assistant"} for one in found):
        return False
    if isinstance(value, dict) and isinstance(value.get("system"), str | list):
        return True
    return any(
        text_of(block.get("type")) in OWN_BLOCKS for one in found for block in objects(one.get("content"))
    )


def read(values: Iterable[Json], *, name: str) -> list[ForeignSession]:
    """Return one session per value."""
    return [_session(value, Recording(name, number)) for number, value in enumerate(values)]


def _session(value: Json, recording: Recording) -> ForeignSession:
    if isinstance(value, dict):
        recording.note("recording", rest(value, "messages", "traj", "system"))
        if prompt := _prompt(value.get("system")):
            recording.system_prompt(prompt)
    for message in messages_of(value) or []:
        _add(message, recording)
    return recording.done()


def _prompt(system: Json) -> str:
    return "\n".join([text_of(system)] if isinstance(system, str) else _texts(system))


def _texts(blocks: Json) -> list[str]:
    return [text_of(block.get("text")) for block in objects(blocks)]


def _add(message: JsonObject, recording: Recording) -> None:
    blocks = parse_content(message.get("content"))
    if message.get("role") == "assistant":
        extra = rest(message, "role", "content", "model")
        recording.say("assistant", blocks, source=message, extra=extra)
    else:
        recording.say("user", blocks, source=message, extra=rest(message, "role", "content"))
