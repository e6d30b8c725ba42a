"""Trajectories whose calls are written inside the text: they stay text (T7).

SWE-smith and SWE-play keep `messages` of role and content; nebius keeps a `trajectory` of role and text.
"""

from __future__ import annotations

from collections.abc import Iterable

from nacre.messages.blocks import Json, JsonObject, Role, Text
from nacre.messages.foreign.recording import ForeignSession, Recording, messages_of, objects, rest, text_of

ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "ai": "assistant"}
CALL_MARKS = ("<function=", "<function_calls>", "<tool_call>")
"""Patterns of a call inside the text of a reply."""


def is_text_trajectory(value: Json) -> bool:
    """Return whether the value is a trajectory without structured calls; a bare list of messages is not."""
    if not isinstance(value, dict):
        return False
    turns = objects(value.get("trajectory"))
    if turns and all("role" in one for one in turns):
        return True
    return any(
        mark in text_of(one.get("content"))
        for one in messages_of(value) or []
        if one.get("role") == "assistant" and not one.get("tool_calls")
        for mark in CALL_MARKS
    )


def read(values: Iterable[Json], *, name: str) -> list[ForeignSession]:
    """Return one session per value."""
    return [_session(value, Recording(name, number)) for number, value in enumerate(values)]


def _session(value: Json, recording: Recording) -> ForeignSession:
    run = value if isinstance(value, dict) else {}
    recording.note("recording", rest(run, "messages", "trajectory"))
    for turn in objects(run.get("trajectory")) or messages_of(run) or []:
        _add(turn, recording)
    return recording.done()


def _add(turn: JsonObject, recording: Recording) -> None:
    text = next((text_of(turn[name]) for name in ("content", "text", "system_prompt") if turn.get(name)), "")
    role = ROLES.get(text_of(turn.get("role")))
    if role is None:
        if turn.get("role") != "system":
            recording.report("unknown_role", f"message {len(recording.records)}", "kept as a system prompt")
        recording.system_prompt(text)
        return
    blocks = (Text(text),) if text else ()
    extra = rest(turn, "role", "content", "text", "system_prompt", "model")
    recording.say(role, blocks, source=turn, extra=extra)
