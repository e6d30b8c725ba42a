"""Parse one line of a session log to one record; an unknown shape gives None, never an error (T5)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Literal, cast, get_args

from nacre.messages.blocks import Block, Json, JsonObject, Text, ToolResult
from nacre.messages.jsonl_encode import (
    FIELDS_BY_TYPE,
    MESSAGE_FIELDS,
    REPLY_FIELDS,
    USER_TYPE,
    aside_of,
    derived_id,
)
from nacre.messages.records import (
    Address,
    Aside,
    BlockOf,
    Change,
    Compacted,
    Noted,
    Replaced,
    ReplyFacts,
    ResultOf,
    Said,
    Undone,
)
from nacre.messages.usage import Usage
from nacre.messages.wire import parse_block, parse_content

USAGE_FIELDS = frozenset(
    {
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "cache_creation",
        "discarded_output_tokens",
    }
)
BOUNDARY_FIELDS = FIELDS_BY_TYPE["system"] | {"logicalParentUuid", "compactMetadata", "compact_metadata"}
SUMMARY_FIELDS = FIELDS_BY_TYPE["user"] | {"isVisibleInTranscriptOnly"}
METADATA_FIELDS = frozenset(
    {"trigger", "type", "preTokens", "pre_tokens", "preCompactTokenCount", "postTokens", "nacre"}
)

METADATA_TYPES = frozenset(
    {
        "progress", "file-history-snapshot", "attribution-snapshot", "summary", "custom-title", "ai-title",
        "tag", "agent-name", "agent-color", "agent-setting", "pr-link", "mode", "permission-mode",
        "last-prompt", "worktree-state", "relocated", "frame-link", "queue-operation", "speculation-accept",
        "marble-origami-commit", "marble-origami-snapshot",
    }
)  # fmt: skip
"""Line types other than messages that Claude Code is known to write; any other is reported."""

CompactionKind = Literal["full", "partial", "notes", "span", "provider"]


def parse_line(raw: bytes) -> tuple[Json, bool]:
    """Return the value on a line and whether its bytes were valid text; raises ValueError if not JSON."""
    try:
        text = raw.decode("utf-8")
        proper = True
    except UnicodeDecodeError:
        text = raw.decode("utf-8", errors="replace")
        proper = False
    try:
        # NaN and Infinity, which Python parses and no provider accepts, stay strings.
        return cast("Json", json.loads(text.removeprefix("\ufeff"), parse_constant=str)), proper
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def parse_time(value: Json) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def parse_said(line: JsonObject, record_id: str, at: datetime) -> Said | None:
    """Parse a message line; None if it holds no message."""
    kind = line.get("type")
    message = line.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | list):
        return None
    role: Literal["user", "assistant", "system"] = (
        "assistant" if kind == "assistant" else "system" if kind == "system" else "user"
    )
    return Said(
        id=record_id,
        at=at,
        role=role,
        blocks=parse_content(message["content"]),
        reply=_reply(message) if role == "assistant" and REPLY_FIELDS & message.keys() else None,
        meta=line.get("isMeta") is True,
        aside=_aside(line),
        extra=_extra(line, role, message),
    )


def _aside(line: JsonObject) -> Aside | None:
    if "nacreAside" not in line:
        return aside_of(line)
    marked = line["nacreAside"]
    return cast("Aside", marked) if marked in get_args(Aside) else None


def _reply(message: JsonObject) -> ReplyFacts:
    return ReplyFacts(
        id=_text(message.get("id")),
        model=_text(message.get("model")),
        stop_reason=_text(message.get("stop_reason")),
        usage=parse_usage(message.get("usage")),
    )


def parse_usage(value: Json) -> Usage | None:
    """Parse token counts with the provider's names."""
    if not isinstance(value, dict):
        return None
    written = value.get("cache_creation")
    return Usage(
        input=_count(value.get("input_tokens")) or 0,
        cache_write=_count(value.get("cache_creation_input_tokens")) or 0,
        cache_read=_count(value.get("cache_read_input_tokens")) or 0,
        output=_count(value.get("output_tokens")) or 0,
        cache_write_1h=(_count(written.get("ephemeral_1h_input_tokens")) or 0)
        if isinstance(written, dict)
        else 0,
        discarded=_count(value.get("discarded_output_tokens")) or 0,
    )


def _extra(line: JsonObject, role: str, message: JsonObject) -> JsonObject:
    """Return all fields that the record's own fields cannot hold."""
    known = FIELDS_BY_TYPE[role]
    extra: JsonObject = {key: value for key, value in line.items() if key not in known}
    if line.get("userType", USER_TYPE) != USER_TYPE:
        extra["userType"] = line["userType"]
    if role == "user" and line.get("isCompactSummary"):
        extra["isCompactSummary"] = line["isCompactSummary"]
    if beside := _message_rest(message):
        earlier = extra.get("messageExtra")
        extra["messageExtra"] = {**(earlier if isinstance(earlier, dict) else {}), **beside}
    kept = line.get("nacreExtra")
    return {**extra, **kept} if isinstance(kept, dict) else extra


def _message_rest(message: JsonObject) -> JsonObject:
    rest: JsonObject = {key: value for key, value in message.items() if key not in MESSAGE_FIELDS}
    if message.get("stop_sequence") is not None:
        rest["stop_sequence"] = message["stop_sequence"]
    usage = message.get("usage")
    if isinstance(usage, dict) and (beside := _without(usage, USAGE_FIELDS)):
        rest["usage"] = beside
    return rest


def parse_compacted(boundary: JsonObject | None, summary: JsonObject, at: datetime) -> Compacted:
    """Parse a boundary line and its summary; older logs have the summary alone."""
    summary_id = _text(summary.get("uuid")) or ""
    message = summary.get("message")
    blocks = parse_content(message.get("content") if isinstance(message, dict) else None)
    beside = _without(summary, SUMMARY_FIELDS)
    aside: JsonObject = {"summary": beside} if beside else {}
    if boundary is None:
        alone = derived_id("boundary", summary_id)
        return Compacted(id=alone, at=at, summary=blocks, summary_id=summary_id, extra=aside)
    facts = boundary.get("compactMetadata", boundary.get("compact_metadata"))
    metadata = facts if isinstance(facts, dict) else {}
    ours = metadata.get("nacre")
    trigger = metadata.get("trigger", metadata.get("type"))
    exact = ours if isinstance(ours, dict) else None
    return Compacted(
        id=_text(boundary.get("uuid")) or derived_id("boundary", summary_id),
        at=at,
        summary=blocks,
        keeps_from=_text(exact.get("keepsFrom")) if exact is not None else _kept_head(metadata),
        summary_id=(_text(exact.get("summaryId")) or "") if exact is not None else summary_id,
        trigger=trigger if isinstance(trigger, str) else "auto",
        kind=_compaction_kind(exact.get("kind")) if exact is not None else _foreign_kind(metadata),
        pre_tokens=_first_count(metadata, "preTokens", "pre_tokens", "preCompactTokenCount"),
        post_tokens=_count(metadata.get("postTokens")),
        carries=_carried(exact.get("carries"), at) if exact is not None else (),
        extra=_object(exact.get("extra"))
        if exact is not None
        else _boundary_rest(boundary, metadata) | aside,
    )


def _kept_head(metadata: JsonObject) -> str | None:
    """Return the first message kept by the compaction; two formats are in use."""
    segment = metadata.get("preservedSegment")
    messages = metadata.get("preservedMessages")
    if isinstance(segment, dict):
        return _text(segment.get("headUuid")) or _text(segment.get("head"))
    kept = messages.get("uuids") if isinstance(messages, dict) else None
    return _text(kept[0]) if isinstance(kept, list) and kept else None


def _foreign_kind(metadata: JsonObject) -> CompactionKind:
    return "full" if _kept_head(metadata) is None else "partial"


def _compaction_kind(value: Json) -> CompactionKind:
    return cast("CompactionKind", value) if value in get_args(CompactionKind) else "full"


def _boundary_rest(boundary: JsonObject, metadata: JsonObject) -> JsonObject:
    rest = _without(boundary, BOUNDARY_FIELDS)
    beside = _without(metadata, METADATA_FIELDS)
    return {**rest, "compactMetadata": beside} if beside else rest


def parse_replaced(line: JsonObject, record_id: str, at: datetime) -> Replaced | None:
    """Parse nacre's own decision, or Claude Code's list of shortened results."""
    items = line.get("replacements")
    if not isinstance(items, list):
        return None
    changes = [_change(item) for item in items]
    understood = tuple(change for change in changes if change is not None)
    if len(understood) != len(changes):
        return None
    reason = line.get("reason")
    return Replaced(
        id=record_id, at=at, changes=understood, reason=reason if isinstance(reason, str) else "offload"
    )


def _change(item: Json) -> Change | None:
    at: Address
    match item:
        case {"kind": "block", "uuid": str(record_id), "index": int(index)}:
            at = BlockOf(record_id, index)
        case {"toolUseId": str(call_id)}:
            at = ResultOf(call_id)
        case _:
            return None
    match item:
        case {"blocks": list(blocks)}:
            return Change(at, tuple(parse_block(block) for block in blocks))
        case {"replacement": str(text)} if isinstance(at, ResultOf):
            stands: tuple[Block, ...] = (ToolResult(at.call_id, (Text(text),) if text else ()),)
            return Change(at, stands)
        case _:
            return None


def parse_nacre(line: JsonObject, record_id: str, at: datetime) -> Undone | Noted | Compacted | None:
    """Parse nacre's own decisions by the fields they carry, so that a note may have any kind."""
    match line:
        case {"kind": str(kind), "facts": dict(facts)}:
            return Noted(id=record_id, at=at, kind=kind, facts=facts)
        case {"kind": "undone", "target": str(target)}:
            return Undone(id=record_id, at=at, target=target)
        case {"kind": "compacted", "compacted": dict(span)}:
            return Compacted(
                id=record_id,
                at=at,
                summary=parse_content(span.get("summary")),
                first=_text(span.get("first")),
                keeps_from=_text(span.get("keepsFrom")),
                summary_id=_text(span.get("summaryId")) or "",
                trigger=_text(span.get("trigger")) or "",
                kind=_compaction_kind(span.get("kind")),
                pre_tokens=_count(span.get("preTokens")),
                post_tokens=_count(span.get("postTokens")),
                carries=_carried(span.get("carries"), at),
                extra=_object(span.get("extra")),
            )
        case _:
            return None


def _carried(notes: Json, at: datetime) -> tuple[Noted, ...]:
    """Return the notes of a compaction; other values are left out."""
    found = []
    for note in notes if isinstance(notes, list) else []:
        match note:
            case {"id": str(note_id), "kind": str(kind), "facts": dict(facts), "timestamp": str(when)}:
                found.append(Noted(id=note_id, at=parse_time(when) or at, kind=kind, facts=facts))
            case _:
                pass
    return tuple(found)


def removed_ids(line: JsonObject) -> list[str]:
    """Return the messages that a snip removed, from any of the fields that list them."""
    for holder in (line, *line.values()):
        listed = holder.get("removedUuids") if isinstance(holder, dict) else None
        if isinstance(listed, list):
            return [one for one in listed if isinstance(one, str)]
    return []


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _first_count(facts: JsonObject, *names: str) -> int | None:
    return next((count for name in names if (count := _count(facts.get(name))) is not None), None)


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _without(value: JsonObject, known: frozenset[str]) -> JsonObject:
    return {key: one for key, one in value.items() if key not in known}
