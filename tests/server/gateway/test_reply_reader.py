from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.blocks import Json
from nacre.server.gateway.reply_reader import MAX_EVENT_BYTES, LineSplitter, ReplyReader

SSE = [(b"content-type", b"text/event-stream; charset=utf-8")]
MESSAGES: list[Json] = [
    {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 5}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": 'a "usage": {"output_tokens": 99} of \r\n\r\n words'},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
]
CHAT: list[Json] = [
    {"id": "c", "model": "m", "choices": [{"delta": {"content": "hi"}}], "usage": None},
    {"id": "c", "model": "m", "choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"id": "c", "model": "m", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}},
]


def stream(events: Iterable[Json], end: bytes = b"\n", *, last: bytes = b"") -> bytes:
    parts = [b"data: " + json.dumps(event).encode() + end + end for event in events]
    return b": a comment" + end + end + b"".join(parts) + last


def split(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    places = sorted({0, *(cut % (len(data) + 1) for cut in cuts), len(data)})
    yield from (data[start:end] for start, end in pairwise(places))


def read(
    api: Any, parts: Iterable[bytes], headers: list[tuple[bytes, bytes]], *, whole: bool = False
) -> ReplyReader:
    reader = ReplyReader(api, whole=whole)
    reader.start(200, headers)
    for part in parts:
        reader.feed(part)
    reader.finish()
    return reader


CUTS = st.lists(st.integers(min_value=0, max_value=10_000), max_size=40)


@given(
    cuts=CUTS, end=st.sampled_from([b"\n", b"\r\n", b"\r"]), encoding=st.sampled_from(["", "gzip", "deflate"])
)
def test_a_stream_reads_the_same_however_it_is_split(cuts: list[int], end: bytes, encoding: str) -> None:
    packed = {"": bytes, "gzip": gzip.compress, "deflate": zlib.compress}[encoding](stream(MESSAGES, end))
    headers = [*SSE, *([(b"content-encoding", encoding.encode())] if encoding else [])]
    reader = read("messages", split(packed, cuts), headers, whole=True)
    assert (reader.problem, reader.ended, reader.model, reader.response_id) == ("", True, "m", "msg_1")
    assert reader.usage is not None
    assert (reader.usage.input, reader.usage.output) == (5, 7)
    assert reader.reply is not None
    assert reader.reply.message.text.startswith('a "usage"')
    brief = read("messages", split(packed, cuts), headers)
    assert (brief.usage, brief.ended, brief.model) == (reader.usage, True, "m")


@given(cuts=CUTS)
def test_a_chat_stream_reads_the_same_however_it_is_split(cuts: list[int]) -> None:
    data = stream(CHAT, last=b"data: [DONE]\n\n")
    reader = read("chat", split(data, cuts), SSE, whole=True)
    assert reader.ended
    assert reader.usage is not None
    assert (reader.usage.input, reader.usage.output) == (5, 7)
    assert reader.reply is not None
    assert reader.reply.message.text == "hi"
    brief = read("chat", split(data, cuts), SSE)
    assert (brief.usage, brief.ended) == (reader.usage, True)


@given(
    parts=st.lists(st.binary(max_size=300), max_size=20),
    encoding=st.sampled_from(["", "gzip", "zstd", "br", "x"]),
)
def test_no_bytes_raise(parts: list[bytes], encoding: str) -> None:
    for api in ("messages", "chat", "responses"):
        for head in (SSE, [(b"content-type", b"application/json")]):
            reader = read(api, parts, [*head, (b"content-encoding", encoding.encode())], whole=True)
            assert reader.usage is None or reader.usage.total >= 0
            assert reader.reply is None or reader.reply.message


NAMES = st.sampled_from(
    ["type", "usage", "message", "error", "response", "choices", "index", "delta", "item"]
)
JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES | st.text(), inner),
)


@given(events=st.lists(JSON, max_size=8))
def test_no_events_raise(events: list[Json]) -> None:
    for api in ("messages", "chat", "responses"):
        reader = read(api, [stream(events)], SSE, whole=True)
        assert reader.usage is None or reader.usage.total is not None
        assert reader.reply is None


def test_a_reply_that_breaks_off_has_the_usage_so_far() -> None:
    reader = read("messages", [stream(MESSAGES[:4])], SSE, whole=True)
    assert not reader.ended
    assert reader.usage is not None
    assert reader.usage.input == 5
    assert reader.reply is None


def test_an_error_in_a_stream_is_named() -> None:
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "the text"}}
    reader = read("messages", [stream([*MESSAGES[:2], failed])], SSE)
    assert (reader.error, reader.ended) == ("overloaded_error", False)


def test_a_line_without_an_end_is_not_held() -> None:
    splitter = LineSplitter()
    held = 0
    for _ in range(64):
        assert list(splitter.feed(bytes(1_000_000))) == []
        held = max(held, sum(map(len, splitter._held)))
    assert held <= MAX_EVENT_BYTES
    assert list(splitter.feed(b"\ndata: next\n")) == [b"data: next"]


def test_an_encoding_that_cannot_be_read_is_said() -> None:
    reader = read("messages", [b"x"], [*SSE, (b"content-encoding", b"compress")])
    assert "compress" in reader.problem


def test_an_event_whose_type_is_no_text_is_left_out_also_at_the_end() -> None:
    reader = ReplyReader("messages", whole=True)
    reader.start(200, [(b"content-type", b"text/event-stream")])
    reader.feed(b'data: {"type":{"usage":[]},"usage":{"input_tokens":3}}')
    reader.finish()
    assert not reader.ended
