"""Encode records as lines of a session log, in the field names of Claude Code transcripts (T2, T2b).

Messages and boundaries (of compactions and snips) are linked by `parentUuid`. Decisions (`content-
replacement`, `nacre`) have an `id` and no parent, so that other readers ignore them: with a `uuid` they would
look like a leaf.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never
from uuid import NAMESPACE_URL, uuid5

from nacre.messages.blocks import Block, Json, JsonObject, Text, ToolResult
from nacre.messages.records import (
    Aside,
    BlockOf,
    Change,
    Compacted,
    Noted,
    Record,
    Replaced,
    ReplyFacts,
    ResultOf,
    Said,
    Undone,
)
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical, render_block, timestamp

ENVELOPE_FIELDS = frozenset(
    {
        "type", "uuid", "parentUuid", "sessionId", "timestamp", "cwd", "gitBranch", "version",
        "userType", "isSidechain", "isMeta", "message", "nacreAside", "nacreExtra",
    }
)  # fmt: skip
"""Known fields of a message line; all others are the record's `extra`."""
FIELDS_BY_TYPE = {
    "user": ENVELOPE_FIELDS | {"isCompactSummary"},
    "assistant": ENVELOPE_FIELDS,
    "system": ENVELOPE_FIELDS | {"subtype", "content", "level"},
}
MESSAGE_FIELDS = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
)
REPLY_FIELDS = frozenset({"id", "model", "stop_reason", "usage"})
USER_TYPE = "external"
SNIP = "snip"
"""Reason of a rewrite that removes whole messages, which Claude Code writes as a boundary (C29)."""
SYNTHETIC_MODEL = "<synthetic>"
"""Model name in replies that Claude Code wrote itself: API errors, interruptions."""


FOREIGN = "foreign/"
"""Prefix of the kind of a note that holds a line of another program; its type follows."""
OUR_TYPES = frozenset({"user", "assistant", "system", "attachment", "content-replacement", "nacre"})
TOLD_OTHERS = ("durationMs", "preCompactDiscoveredTools", "lastSummarizedUuid")
"""Fields of a compaction's `extra` that other readers also expect in its metadata (C22)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Fields that every message line of a session repeats."""

    session_id: str
    cwd: str
    git_branch: str = ""
    version: str = ""


def encode(record: Record, *, envelope: Envelope, parent: str | None) -> bytes:
    """Return the record as whole lines: one, or two for a compaction (its boundary and its summary)."""
    match record:
        case Said():
            lines = [_said(record, envelope, parent)]
        case Replaced(reason=reason) if reason == SNIP:
            lines = [_snip(record, envelope, parent)]
        case Replaced():
            lines = [_replaced(record, envelope)]
        case Compacted(first=None):
            lines = _boundary_and_summary(record, envelope, parent)
        case Compacted():
            lines = [_span(record, envelope)]
        case Undone(target=target):
            lines = [{**_decision(record, "nacre", envelope), "kind": "undone", "target": target}]
        case Noted(kind=kind, facts=facts) if _is_as_it_came(kind, facts):
            lines = [facts]
        case Noted(kind=kind, facts=facts):
            lines = [{**_decision(record, "nacre", envelope), "kind": kind, "facts": facts}]
        case _:
            assert_never(record)
    return b"".join(canonical(line) + b"\n" for line in lines)


def chained_id(record: Record) -> str | None:
    """Return the parent of the next message after this record; None keeps the parent."""
    match record:
        case Said(aside="sidechain" | "abandoned"):
            return None
        case Said(id=record_id):
            return record_id
        case Compacted(first=None):
            return summary_id(record)
        case Replaced(id=record_id, reason=reason) if reason == SNIP:
            return record_id
        case _:
            return None


def derived_id(*parts: str) -> str:
    """Return an id that is the same whenever the same parts are read."""
    return str(uuid5(NAMESPACE_URL, "nacre:" + canonical(list(parts)).decode()))


def summary_id(record: Compacted) -> str:
    return record.summary_id or derived_id("summary", record.id)


def aside_of(line: JsonObject) -> Aside | None:
    """Return why the record on this line is not sent to the model, as far as the line alone shows."""
    if line.get("isSidechain") is True:
        return "sidechain"
    message = line.get("message")
    model = message.get("model") if isinstance(message, dict) else None
    if line.get("type") == "assistant" and (
        line.get("isApiErrorMessage") is True or model == SYNTHETIC_MODEL
    ):
        return "display"
    return None


def _is_as_it_came(kind: str, facts: JsonObject) -> bool:
    """Whether a note is a line of another program, such as a title, which that program must find again."""
    name = kind.removeprefix(FOREIGN)
    return name != kind and facts.get("type") == name and name not in OUR_TYPES and "uuid" not in facts


def _said(said: Said, envelope: Envelope, parent: str | None) -> JsonObject:
    line = _message_line(said.role, said.id, said.at, envelope=envelope, parent=parent)
    line["isSidechain"] = said.aside == "sidechain"
    if said.meta:
        line["isMeta"] = True
    if said.role == "system":
        line |= {"subtype": "informational", "level": "info", "content": said.message.text}
    line["message"] = _message(said)
    known = FIELDS_BY_TYPE[said.role]
    line |= {key: value for key, value in said.extra.items() if key not in known}
    if clashing := {key: value for key, value in said.extra.items() if key in known}:
        line["nacreExtra"] = clashing
    if aside_of(line) != said.aside:
        line["nacreAside"] = said.aside
    return line


def _message_line(
    kind: str, record_id: str, at: datetime, *, envelope: Envelope, parent: str | None
) -> JsonObject:
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": USER_TYPE,
        "cwd": envelope.cwd,
        "sessionId": envelope.session_id,
        "version": envelope.version,
        "gitBranch": envelope.git_branch,
        "type": kind,
        "uuid": record_id,
        "timestamp": timestamp(at),
    }


def _message(said: Said) -> JsonObject:
    if said.role != "assistant":
        return {"role": said.role, "content": _content(said.blocks)}
    return {
        "type": "message",
        "role": "assistant",
        **({} if said.reply is None else _reply(said.reply)),
        "stop_sequence": None,
        "content": _blocks(said.blocks),
    }


def _reply(reply: ReplyFacts) -> JsonObject:
    return {
        "id": reply.id,
        "model": reply.model,
        "stop_reason": reply.stop_reason,
        "usage": None if reply.usage is None else _usage(reply.usage),
    }


def _usage(usage: Usage) -> JsonObject:
    counts: JsonObject = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
    if usage.cache_write_1h:
        counts["cache_creation"] = {
            "ephemeral_5m_input_tokens": max(0, usage.cache_write - usage.cache_write_1h),
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        }
    if usage.discarded:
        counts["discarded_output_tokens"] = usage.discarded
    return counts


def _content(blocks: tuple[Block, ...]) -> Json:
    match blocks:
        case (Text(text, ()),):
            return text
        case _:
            return _blocks(blocks)


def _blocks(blocks: Iterable[Block]) -> list[Json]:
    return [_block(block) for block in blocks]


def _block(block: Block) -> JsonObject:
    wire = render_block(block)
    if isinstance(block, ToolResult) and block.content and not (wire["content"] and _is_plain(block)):
        # On the wire blank texts are left out, and an empty one equals no content; not in a log.
        wire["content"] = [render_block(part) for part in block.content]
    return wire


def _is_plain(result: ToolResult) -> bool:
    return len(result.content) == 1 and result.content[0] == Text(result.text)


def _decision(record: Record, kind: str, envelope: Envelope) -> JsonObject:
    return {
        "type": kind,
        "id": record.id,
        "sessionId": envelope.session_id,
        "timestamp": timestamp(record.at),
    }


def _replaced(record: Replaced, envelope: Envelope) -> JsonObject:
    return {
        **_decision(record, "content-replacement", envelope),
        "reason": record.reason,
        "replacements": [_replacement(change) for change in record.changes],
    }


def _snip(record: Replaced, envelope: Envelope, parent: str | None) -> JsonObject:
    """Return a boundary that names the removed messages, with the exact changes for nacre."""
    line = _message_line("system", record.id, record.at, envelope=envelope, parent=parent)
    gone = [change.at.record_id for change in record.changes if isinstance(change.at, BlockOf)]
    removed: list[Json] = [*dict.fromkeys(gone)]
    return {
        **line,
        "subtype": "snip_boundary",
        "content": "Messages snipped",
        "isMeta": False,
        "level": "info",
        "snipMetadata": {"removedUuids": removed},
        "nacre": {"reason": record.reason, "replacements": [_replacement(one) for one in record.changes]},
    }


def _replacement(change: Change) -> JsonObject:
    blocks = _blocks(change.stands)
    if not isinstance(change.at, ResultOf):
        return {"kind": "block", "uuid": change.at.record_id, "index": change.at.index, "blocks": blocks}
    text = "\n".join(block.text for block in change.stands if isinstance(block, Text | ToolResult))
    # `replacement` is what Claude Code reads; `blocks` is the exact content.
    return {
        "kind": "tool-result",
        "toolUseId": change.at.call_id,
        "replacement": text,
        "blocks": blocks,
    }


def _boundary_and_summary(record: Compacted, envelope: Envelope, parent: str | None) -> list[JsonObject]:
    summary = summary_id(record)
    metadata: JsonObject = {"trigger": record.trigger, "preTokens": record.pre_tokens}
    if record.post_tokens is not None:
        metadata["postTokens"] = record.post_tokens
    metadata |= {name: record.extra[name] for name in TOLD_OTHERS if name in record.extra}
    if record.keeps_from is not None:
        metadata["preservedSegment"] = {
            "headUuid": record.keeps_from,
            "anchorUuid": summary,
            "tailUuid": parent,
        }
    metadata["nacre"] = {
        "kind": record.kind,
        "keepsFrom": record.keeps_from,
        "summaryId": record.summary_id,
        "extra": record.extra,
        **_carried(record),
    }
    boundary = _message_line("system", record.id, record.at, envelope=envelope, parent=None)
    boundary |= {
        "logicalParentUuid": parent,
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "level": "info",
        "compactMetadata": metadata,
    }
    said = _message_line("user", summary, record.at, envelope=envelope, parent=record.id)
    said |= {
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
        "message": {"role": "user", "content": _content(record.summary)},
    }
    return [boundary, said]


def _span(record: Compacted, envelope: Envelope) -> JsonObject:
    """Return a compaction that keeps the start of the conversation.

    Claude Code forgets everything before a boundary, so its span must stay uncompacted there.
    """
    return {
        **_decision(record, "nacre", envelope),
        "kind": "compacted",
        "compacted": {
            "summary": _blocks(record.summary),
            "first": record.first,
            "keepsFrom": record.keeps_from,
            "summaryId": record.summary_id,
            "trigger": record.trigger,
            "kind": record.kind,
            "preTokens": record.pre_tokens,
            "postTokens": record.post_tokens,
            "extra": record.extra,
            **_carried(record),
        },
    }


def _carried(record: Compacted) -> JsonObject:
    notes: list[Json] = [
        {"id": note.id, "timestamp": timestamp(note.at), "kind": note.kind, "facts": note.facts}
        for note in record.carries
    ]
    return {"carries": notes} if notes else {}
