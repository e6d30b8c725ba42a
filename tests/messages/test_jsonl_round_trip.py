"""What is written to a log comes back as it was (T2, T2b)."""

from __future__ import annotations

import json
import string
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.blocks import Block, Document, Image, Opaque, Text, Thinking, ToolCall, ToolResult
from nacre.messages.jsonl import Envelope, chained_id, decode, encode
from nacre.messages.records import (
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

ENVELOPE = Envelope(session_id="s-1", cwd="/home/me/项目", git_branch="main", version="0.1")
AT = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def _has_pair(text: str) -> bool:
    """Two halves side by side are one character in JSON; only lone halves can survive."""
    return any("\ud800" <= a <= "\udbff" and "\udc00" <= b <= "\udfff" for a, b in pairwise(text))


odd = st.sampled_from(
    ["\n", "\r\n", "\u2028", "\x00", "\x85", "\ud83d", "\udc00 ", '"', "\\", "😀", "项", "\ufeff", "  "]
)
texts = st.one_of(
    st.text(max_size=12),
    st.lists(st.one_of(odd, st.text(st.characters(), max_size=3)), max_size=5).map("".join),
).filter(lambda text: not _has_pair(text))
names = st.one_of(
    texts.filter(bool), st.sampled_from(["uuid", "message", "isCompactSummary", "parentUuid", "type"])
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, json_values, max_size=3)
ids = texts.filter(bool)
moments = st.builds(
    lambda seconds, ms: AT + timedelta(seconds=seconds, milliseconds=ms),
    st.integers(-(10**9), 10**9),
    st.integers(0, 999),
)
free_names = st.text(string.ascii_lowercase, min_size=1, max_size=6).map("x_".__add__)
extras = st.dictionaries(free_names, json_values, max_size=2).map(lambda found: tuple(found.items()))
opaques = st.builds(
    lambda kind, rest: Opaque(kind, {"type": kind, **rest}),
    st.sampled_from(["compaction", "redacted_thinking", "server_tool_use", "", "what_comes_next"]),
    st.dictionaries(free_names, json_values, max_size=2),
)
plain = st.one_of(
    st.builds(Text, texts, extras),
    st.builds(Image, objects, extras),
    st.builds(Document, objects, extras),
    opaques,
)
blocks: st.SearchStrategy[Block] = st.one_of(
    plain,
    st.builds(Thinking, texts, st.none() | texts, extras),
    st.builds(ToolCall, texts, texts, objects, extras),
    st.builds(ToolResult, texts, st.lists(plain, max_size=3).map(tuple), st.booleans(), extras),
)
bodies = st.lists(blocks, max_size=4).map(tuple)
counts = st.integers(0, 10**7)
replies = st.none() | st.builds(
    ReplyFacts,
    id=st.none() | texts,
    model=st.none() | texts | st.just("<synthetic>"),
    stop_reason=st.none() | texts,
    usage=st.none()
    | st.builds(
        Usage, input=counts, cache_write=counts, cache_read=counts, output=counts, cache_write_1h=counts
    ),
)
envelope_extras = objects | st.just({"isApiErrorMessage": True}) | st.just({"nacreExtra": {"uuid": "x"}})
common = {"id": ids, "at": moments}
asides = st.sampled_from([None, "sidechain", "abandoned", "display"])
said = st.one_of(
    st.builds(Said, **common, role=st.sampled_from(["user", "system"]), blocks=bodies, meta=st.booleans(),
              aside=asides, extra=envelope_extras),
    st.builds(Said, **common, role=st.just("assistant"), blocks=bodies, reply=replies, meta=st.booleans(),
              aside=asides, extra=envelope_extras),
)  # fmt: skip
addresses = st.builds(ResultOf, texts) | st.builds(BlockOf, texts, st.integers(0, 50))
changes = st.lists(st.builds(Change, addresses, bodies), max_size=3).map(tuple)
tokens = st.none() | counts
kinds = st.sampled_from(["full", "partial", "notes", "span", "provider"])
compacted = st.builds(
    Compacted, **common, summary=bodies, first=st.none() | texts, keeps_from=st.none() | texts,
    summary_id=texts, trigger=texts, kind=kinds, pre_tokens=tokens, post_tokens=tokens, extra=objects,
).filter(lambda record: record.summary_id != record.id)  # fmt: skip
records: st.SearchStrategy[Record] = st.one_of(
    said,
    st.builds(Replaced, **common, changes=changes, reason=texts | st.just("snip")),
    compacted,
    st.builds(Undone, **common, target=texts),
    st.builds(Noted, **common, kind=texts | st.sampled_from(["undone", "compacted"]), facts=objects),
)


@given(records, st.none() | ids)
def test_every_record_comes_back_from_disk_as_it_was(record: Record, parent: str | None) -> None:
    """T2b: encode, then decode, is the identity, for odd unicode, every block and foreign fields."""
    written = encode(record, envelope=ENVELOPE, parent=parent)
    loaded = decode(written.splitlines(keepends=True))
    assert loaded.records == [record]
    assert loaded.session_id == "s-1"


@given(records)
def test_a_record_is_whole_lines_of_compact_json(record: Record) -> None:
    """T1: one object a line, no raw newline inside, so that a log can be cut at any newline."""
    written = encode(record, envelope=ENVELOPE, parent=None)
    lines = written.split(b"\n")
    assert lines.pop() == b""
    assert len(lines) == (2 if isinstance(record, Compacted) and record.first is None else 1)
    assert all(isinstance(json.loads(line), dict) for line in lines)


@given(st.lists(records, max_size=8))
def test_a_log_of_main_thread_records_comes_back_whole_and_in_order(log: list[Record]) -> None:
    """T2b: written one after the other with the parent the writer is told, nothing counts as abandoned."""
    unique = _with_own_ids(log)
    parent: str | None = None
    written = b""
    for record in unique:
        written += encode(record, envelope=ENVELOPE, parent=parent)
        parent = chained_id(record) or parent
    loaded = decode(written.splitlines(keepends=True), session_id="s-1")
    assert loaded.records == unique
    counted = loaded.lines
    assert counted.total == counted.recorded + counted.merged == written.count(b"\n")
    if parent is not None and not _has_side_records(unique):
        assert loaded.leaf == parent


def _with_own_ids(log: list[Record]) -> list[Record]:
    renamed = [replace(record, id=f"r{n}") for n, record in enumerate(log)]
    return [
        replace(record, summary_id=f"s{record.id}")
        if isinstance(record, Compacted) and record.summary_id
        else record
        for record in renamed
    ]


def _has_side_records(log: list[Record]) -> bool:
    return any(isinstance(record, Said) and record.aside == "abandoned" for record in log)


def _lines(record: Record, parent: str | None = None) -> list[dict[str, object]]:
    return [json.loads(line) for line in encode(record, envelope=ENVELOPE, parent=parent).splitlines()]


def test_a_reply_is_written_in_the_names_claude_code_uses() -> None:
    """T2b: field by field, so that existing readers load our logs."""
    usage = Usage(input=3, cache_write=10, cache_read=20, output=5, cache_write_1h=4)
    reply = ReplyFacts(id="msg_1", model="m", stop_reason="end_turn", usage=usage)
    record = Said(
        id="u2", at=AT, role="assistant", blocks=(Text("hi"),), reply=reply, extra={"requestId": "r"}
    )
    assert _lines(record, "u1") == [
        {
            "parentUuid": "u1",
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/me/项目",
            "sessionId": "s-1",
            "version": "0.1",
            "gitBranch": "main",
            "type": "assistant",
            "uuid": "u2",
            "timestamp": "2026-03-01T12:00:00.250Z",
            "message": {
                "type": "message",
                "role": "assistant",
                "id": "msg_1",
                "model": "m",
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": {
                    "input_tokens": 3,
                    "cache_creation_input_tokens": 10,
                    "cache_read_input_tokens": 20,
                    "output_tokens": 5,
                    "cache_creation": {"ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 4},
                },
                "content": [{"type": "text", "text": "hi"}],
            },
            "requestId": "r",
        }
    ]


def test_a_prompt_is_a_bare_string_and_an_injected_one_says_so() -> None:
    """T2b."""
    said = Said(id="u1", at=AT, role="user", blocks=(Text("hi"),), meta=True)
    (line,) = _lines(said)
    assert line["message"] == {"role": "user", "content": "hi"}
    assert line["isMeta"] is True
    assert line["parentUuid"] is None


def test_a_compaction_is_a_boundary_and_a_summary_that_hangs_on_it() -> None:
    """T2: what other readers know of a compaction, and the kept tail spliced by its head."""
    record = Compacted(
        id="b", at=AT, summary=(Text("so far"),), keeps_from="u7", summary_id="s", pre_tokens=9, post_tokens=2
    )
    boundary, summary = _lines(record, "u9")
    assert (boundary["type"], boundary["subtype"], boundary["uuid"]) == ("system", "compact_boundary", "b")
    assert (boundary["parentUuid"], boundary["logicalParentUuid"]) == (None, "u9")
    metadata = boundary["compactMetadata"]
    assert isinstance(metadata, dict)
    assert metadata.pop("nacre") == {"kind": "full", "keepsFrom": "u7", "summaryId": "s", "extra": {}}
    assert metadata == {
        "trigger": "auto",
        "preTokens": 9,
        "postTokens": 2,
        "preservedSegment": {"headUuid": "u7", "anchorUuid": "s", "tailUuid": "u9"},
    }
    assert (summary["type"], summary["uuid"], summary["parentUuid"]) == ("user", "s", "b")
    assert summary["isCompactSummary"] is True
    assert summary["message"] == {"role": "user", "content": "so far"}
    assert chained_id(record) == "s"


def test_a_snip_is_a_boundary_that_names_the_messages_it_took_out() -> None:
    """T2, C29: a reader that knows only the names takes the same messages out; we read what stands."""
    gone = tuple(Change(BlockOf(name, place), ()) for name, place in (("u3", 0), ("u3", 1), ("u4", 0)))
    record = Replaced(id="x", at=AT, changes=gone, reason="snip")
    (line,) = _lines(record, "u9")
    assert (line["type"], line["subtype"], line["uuid"]) == ("system", "snip_boundary", "x")
    assert (line["parentUuid"], line["snipMetadata"]) == ("u9", {"removedUuids": ["u3", "u4"]})
    assert chained_id(record) == "x"


def test_decisions_stay_out_of_the_chain() -> None:
    """T2b: no parent and no uuid, so that no reader takes them for a message or a leaf."""
    decisions: list[Record] = [
        Replaced(id="d1", at=AT, changes=(Change(ResultOf("c"), ()),), reason="clear"),
        Undone(id="d2", at=AT, target="d1"),
        Noted(id="d3", at=AT, kind="title", facts={"title": "x"}),
        Compacted(id="d4", at=AT, summary=(Text("middle"),), first="u2", keeps_from="u4", kind="span"),
    ]
    for record in decisions:
        (line,) = _lines(record, "u1")
        assert line["type"] in {"content-replacement", "nacre"}
        assert not {"parentUuid", "uuid"} & line.keys()
        assert chained_id(record) is None


def test_a_side_record_does_not_become_the_next_parent() -> None:
    """T2b: what never reaches the model hangs beside the chain, not in it."""
    for aside in ("sidechain", "abandoned"):
        assert chained_id(Said(id="u", at=AT, role="user", blocks=(), aside=aside)) is None
    assert chained_id(Said(id="u", at=AT, role="assistant", blocks=(), aside="display")) == "u"
