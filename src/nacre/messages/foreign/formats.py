"""The formats of recordings other than Claude Code's: a check (`is_…`) and a reader (`read_…`) for each (T7).

A reader adds the messages of one value to a `Recording`, which gives them reproducible ids and times.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from nacre.messages.blocks import Block, Image, Json, JsonObject, Role, Text, ToolCall, ToolResult
from nacre.messages.jsonl_encode import derived_id
from nacre.messages.jsonl_parse import parse_time
from nacre.messages.records import LogProblem, Noted, Record, ReplyFacts, Said
from nacre.messages.wire import MALFORMED, as_result_part, parse_block, parse_content

MADE_UP_START = datetime(2000, 1, 1, tzinfo=UTC)
"""Start of a recording without times: a date that is clearly not real."""
MADE_UP_STEP = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSession:
    """One session of a foreign file."""

    session_id: str
    records: list[Record]
    problems: list[LogProblem]
    cwd: str | None = None
    started: datetime | None = None
    """None if the file holds no times and those of the records are made up."""


@dataclass(slots=True)
class Recording:
    """Collects the records of a foreign file; `name` and `number` make its ids the same on every reading."""

    name: str
    number: int = 0
    cwd: str | None = None
    records: list[Record] = field(default_factory=list)
    problems: list[LogProblem] = field(default_factory=list)
    started: datetime | None = None

    @property
    def session_id(self) -> str:
        return derived_id("session", self.name, str(self.number))

    def say(
        self,
        role: Role,
        blocks: tuple[Block, ...],
        *,
        source: JsonObject,
        meta: bool = False,
        extra: JsonObject,
    ) -> None:
        """Add a message; `source` is the object it was read from, which may hold its time and model."""
        model = source.get("model")
        reply = ReplyFacts(model=model if isinstance(model, str) else None) if role == "assistant" else None
        record_id, at = self._next(source)
        self.records.append(
            Said(id=record_id, at=at, role=role, blocks=blocks, reply=reply, meta=meta, extra=extra)
        )

    def note(self, kind: str, facts: JsonObject) -> None:
        if facts:
            record_id, at = self._next({})
            self.records.append(Noted(id=record_id, at=at, kind=kind, facts=facts))

    def system_prompt(self, text: str) -> None:
        """Note the system prompt, which belongs to the base and not to the conversation."""
        self.note("system_prompt", {"text": text})

    def report(self, kind: str, where: str, message: str) -> None:
        self.problems.append(LogProblem(kind, where, message))

    def done(self) -> ForeignSession:
        if self.started is None:
            self.report(
                "made_up_times", "", "the file holds no times; the records are dated one second apart"
            )
        return ForeignSession(
            session_id=self.session_id,
            records=self.records,
            problems=self.problems,
            cwd=self.cwd,
            started=self.started,
        )

    def _next(self, source: JsonObject) -> tuple[str, datetime]:
        place = len(self.records)
        known = parse_time(source.get("timestamp")) or parse_time(source.get("created_at"))
        self.started = self.started or known
        made_up = self.records[-1].at + MADE_UP_STEP if self.records else MADE_UP_START
        return derived_id("record", self.name, str(self.number), str(place)), known or made_up


def rest(value: JsonObject, *known: str) -> JsonObject:
    """Return the fields that a reader does not know and that are not null."""
    return {key: one for key, one in value.items() if key not in known and one is not None}


def _objects(value: Json) -> list[JsonObject]:
    """Return the objects of a list; empty for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _messages(value: Json) -> list[JsonObject]:
    """Return the messages in a value: a bare list, or under one of the usual keys; empty if it has none."""
    listed = value
    if isinstance(value, dict):
        listed = next((value[name] for name in ("messages", "traj") if name in value), None)
    found = _objects(listed)
    is_list = isinstance(listed, list) and len(found) == len(listed)
    return found if is_list and all("role" in one for one in found) else []


# Anthropic messages: a bare list, one object per line, or a request body with its system prompt.

OWN_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"})
"""Blocks that only this provider has; they distinguish its messages from OpenAI's."""


def is_anthropic(value: Json) -> bool:
    """Return whether the value holds messages with this provider's blocks, or with a system prompt."""
    found = _messages(value)
    if not found or not all(_text(one.get("role")) in {"user", "assistant"} for one in found):
        return False
    if isinstance(value, dict) and isinstance(value.get("system"), str | list):
        return True
    return any(
        _text(block.get("type")) in OWN_BLOCKS for one in found for block in _objects(one.get("content"))
    )


def read_anthropic(value: Json, recording: Recording) -> None:
    if isinstance(value, dict):
        recording.note("recording", rest(value, "messages", "traj", "system"))
        system = value.get("system")
        texts = [system] if isinstance(system, str) else [_text(one.get("text")) for one in _objects(system)]
        if prompt := "\n".join(texts):
            recording.system_prompt(prompt)
    for message in _messages(value):
        blocks = parse_content(message.get("content"))
        if message.get("role") == "assistant":
            extra = rest(message, "role", "content", "model")
            recording.say("assistant", blocks, source=message, extra=extra)
        else:
            recording.say("user", blocks, source=message, extra=rest(message, "role", "content"))


# Trajectories whose calls are written inside the text: they stay text. SWE-smith and SWE-play keep `messages`
# of role and content; nebius keeps a `trajectory` of role and text.

ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "ai": "assistant"}
CALL_MARKS = ("<function=", "<function_calls>", "<tool_call>")
"""Patterns of a call inside the text of a reply."""


def is_text_trajectory(value: Json) -> bool:
    """Return whether the value is a trajectory without structured calls; a bare list of messages is not."""
    if not isinstance(value, dict):
        return False
    turns = _objects(value.get("trajectory"))
    if turns and all("role" in one for one in turns):
        return True
    return any(
        mark in _text(one.get("content"))
        for one in _messages(value)
        if one.get("role") == "assistant" and not one.get("tool_calls")
        for mark in CALL_MARKS
    )


def read_text_trajectory(value: Json, recording: Recording) -> None:
    run = value if isinstance(value, dict) else {}
    recording.note("recording", rest(run, "messages", "trajectory"))
    for turn in _objects(run.get("trajectory")) or _messages(run):
        text = next(
            (_text(turn[name]) for name in ("content", "text", "system_prompt") if turn.get(name)), ""
        )
        role = ROLES.get(_text(turn.get("role")))
        if role is not None:
            extra = rest(turn, "role", "content", "text", "system_prompt", "model")
            recording.say(role, (Text(text),) if text else (), source=turn, extra=extra)
            continue
        if turn.get("role") != "system":
            recording.report("unknown_role", f"message {len(recording.records)}", "kept as a system prompt")
        recording.system_prompt(text)


# SWE-agent `.traj` files: `history` is the conversation, `trajectory` the steps it consists of.


def is_swe_agent(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    history = _objects(value.get("history"))
    steps = _objects(value.get("trajectory"))
    return bool(history and all("role" in one for one in history)) or bool(
        steps and {"action", "observation"} & steps[0].keys()
    )


def read_swe_agent(value: Json, recording: Recording) -> None:
    run = value if isinstance(value, dict) else {}
    history = _objects(run.get("history"))
    steps = _objects(run.get("trajectory"))
    recording.note("recording", rest(run, "history", "trajectory"))
    recording.cwd = next((folder for step in steps if (folder := _folder(step))), None)
    _add_messages(history, recording)
    said = {_text(one.get("content")).strip() for one in history}
    # The last steps may be missing in the history: the agent's text and the observation after it.
    missing = list(takewhile(lambda step: _response(step) not in said, reversed(steps)))
    for step in reversed(missing):
        if response := _response(step):
            recording.say("assistant", (Text(response),), source=step, extra={})
        if observation := _text(step.get("observation")):
            recording.say("user", (Text(observation),), source=step, extra={})
    left_out = sum(_response(step) not in said for step in steps) - len(missing)
    if left_out:
        recording.report(
            "left_out", "trajectory", f"{left_out} steps are not part of the history the agent saw"
        )
    if history and steps and not missing:
        # The run ends with its last observation, which the agent never saw.
        recording.note("last_observation", {"text": _text(steps[-1].get("observation"))})


def _response(step: JsonObject) -> str:
    return next(
        (text for name in ("response", "thought", "action") if (text := _text(step.get(name)))), ""
    ).strip()


def _folder(step: JsonObject) -> str:
    state = step.get("state")
    if isinstance(state, str):
        try:
            state = json.loads(state)
        except (ValueError, RecursionError):
            return ""
    folder = _text(state.get("working_dir")) if isinstance(state, dict) else ""
    return folder if folder.startswith("/") else ""


# OpenAI chat messages: a bare list, one object per line, or inside a trajectory object.

SYSTEM_ROLES = frozenset({"system", "developer"})
RESULT_ROLES = frozenset({"tool", "function"})
REPEATED_FIELDS = ("thought", "action")
"""Fields in which SWE-agent repeats the content of a reply."""


def is_openai(value: Json) -> bool:
    """Return whether the value holds messages with roles; check for other providers first."""
    found = _messages(value)
    known = {"user", "assistant", *SYSTEM_ROLES, *RESULT_ROLES}
    return bool(found) and all(_text(one.get("role")) in known for one in found)


def read_openai(value: Json, recording: Recording) -> None:
    if isinstance(value, dict):
        recording.note("recording", rest(value, "messages", "traj"))
    _add_messages(_messages(value), recording)


def _add_messages(messages: Iterable[JsonObject], recording: Recording) -> None:
    """Add chat messages in order; a result without an id answers the oldest open call."""
    calls = _CallIds()
    for message in messages:
        role = _text(message.get("role"))
        blocks = _content(message.get("content"))
        if role in SYSTEM_ROLES:
            recording.system_prompt("\n".join(block.text for block in blocks if isinstance(block, Text)))
        elif role in RESULT_ROLES:
            _add_results(message, blocks, calls, recording)
        elif role == "assistant":
            listed = _objects(message.get("tool_calls"))
            legacy = message.get("function_call")
            if isinstance(legacy, dict):
                listed.append({"function": legacy})
            made = [_call(call, number, calls, recording) for number, call in enumerate(listed)]
            extra = rest(message, "role", "content", "tool_calls", "function_call", "model", *REPEATED_FIELDS)
            recording.say("assistant", (*blocks, *made), source=message, extra=extra)
        else:
            extra = rest(message, "role", "content", "is_demo")
            is_demo = message.get("is_demo") is True
            recording.say("user", blocks, source=message, meta=is_demo, extra=extra)


class _CallIds:
    """Gives every call its own id and its result the same one, because recordings reuse call ids."""

    def __init__(self) -> None:
        self._open: list[tuple[str, str]] = []
        self._times: Counter[str] = Counter()

    def asked(self, call_id: str) -> str:
        self._times[call_id] += 1
        times = self._times[call_id]
        own = call_id if times == 1 else f"{call_id}_{times}"
        self._open.append((call_id, own))
        return own

    def answered(self, call_id: str | None) -> str | None:
        """Return the call of a result: the oldest open one with this id, else the oldest open one."""
        for place, (name, own) in enumerate(self._open):
            if call_id is None or name == call_id:
                del self._open[place]
                return own
        return call_id


def _content(content: Json) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple(_part(part) for part in content) if isinstance(content, list) else ()


def _part(part: Json) -> Block:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            head, comma, data = url.partition(",")
            if comma and head.startswith("data:") and head.endswith(";base64"):
                media_type = head.removeprefix("data:").removesuffix(";base64")
                return Image({"type": "base64", "media_type": media_type, "data": data})
            return Image({"type": "url", "url": url})
        case {"type": "input_text" | "output_text", "text": str(text)}:
            return Text(text)
        case _:
            return parse_block(part)


def _call(call: JsonObject, number: int, ids: _CallIds, recording: Recording) -> ToolCall:
    function = call.get("function")
    named = function if isinstance(function, dict) else {}
    call_id = _text(call.get("id")) or f"call_{len(recording.records)}_{number}"
    own = ids.asked(call_id)
    if own != call_id:
        recording.report("repeated_call", call_id, f"an earlier call has this id; this one is called {own}")
    given = named.get("arguments")
    try:
        arguments = json.loads(given or "{}") if given is None or isinstance(given, str) else given
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        recording.report("malformed_arguments", own, "the arguments are no JSON object; kept as they came")
        arguments = {MALFORMED: given}
    return ToolCall(own, _text(named.get("name")), arguments)


def _add_results(
    message: JsonObject, content: tuple[Block, ...], calls: _CallIds, recording: Recording
) -> None:
    listed = message.get("tool_call_ids", [message.get("tool_call_id")])
    named = [one for one in listed if isinstance(one, str) and one] if isinstance(listed, list) else []
    ids = [calls.answered(one) for one in named] or [calls.answered(None)]
    parts = tuple(map(as_result_part, content))
    blocks: list[Block] = []
    for call_id in ids:
        if call_id is None:
            unknown = f"call_{len(recording.records)}_unknown"
            recording.report("result_without_call", unknown, "a tool answered, but no call is open")
        # Several ids with one content: one observation answers all of them, and the first holds it.
        blocks.append(ToolResult(call_id or unknown, () if blocks else parts))
    extra = rest(message, "role", "content", "tool_call_id", "tool_call_ids")
    recording.say("user", tuple(blocks), source=message, extra=extra)
