"""Read usage, and if asked for the whole reply, from the bytes of an answer as they pass (G2).

Never raises and holds bounded memory: what it cannot read, it leaves out, and says why in `problem`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol, cast

from nacre.errors import NacreError
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import Reply
from nacre.messages.usage import Usage
from nacre.providers import anthropic, openai, openai_responses
from nacre.server.gateway.upstream import Api, Headers

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""A longer line of a stream is skipped."""
MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""A longer answer that is not a stream is not read."""
WORDS = (b'"usage"', b'"error"', b"_stop", b"[DONE]")
"""An event with none of these says nothing about cost or ending."""
DECODED_AT_ONCE = 256 * 1024
SMALL_PART = 64


class Decoder(Protocol):
    """An incremental decoder of a content encoding."""

    def decode(self, data: bytes) -> Iterator[bytes]: ...


@dataclass(slots=True)
class ReplyReader:
    """Reads one answer."""

    api: Api
    whole: bool = False
    """Build the whole reply, for a recording."""
    status: int = 0
    problem: str = ""
    model: str = ""
    response_id: str = ""
    error: str = ""
    """The type of an error, as the provider names it."""
    ended: bool = False
    """The reply ended in order."""
    _decoder: Decoder | None = None
    _is_stream: bool = False
    _is_plain_stream: bool = False
    """Neither compressed nor recorded."""
    _usage: JsonObject = field(default_factory=dict)
    _lines: LineSplitter = field(default_factory=lambda: LineSplitter())
    _data: list[bytes] = field(default_factory=list)
    _body: bytearray = field(default_factory=bytearray)
    _builder: ReplyBuilder | None = None
    _reply: Reply | None = None

    def start(self, status: int, headers: Headers) -> None:
        self.status = status
        values = {name.lower(): value.decode("latin-1").strip().lower() for name, value in headers}
        self._is_stream = "event-stream" in values.get(b"content-type", "")
        encoding = values.get(b"content-encoding", "identity")
        self._decoder = _decoder(encoding)
        if self._decoder is None:
            self.problem = f"the answer is encoded as {encoding}, which this installation cannot read"
        if self.whole:
            self._builder = ReplyBuilder(self.api)
        self._is_plain_stream = (
            self._is_stream and self._builder is None and isinstance(self._decoder, _Identity)
        )

    def feed(self, chunk: bytes) -> None:
        if self.problem or self._decoder is None or self._is_of_no_interest(chunk):
            return
        try:
            for part in self._decoder.decode(chunk):
                self._take(part)
        except Exception as error:  # noqa: BLE001  an observer: whatever comes, the answer passes on
            self.problem = f"the answer cannot be decoded ({type(error).__name__})"

    def _is_of_no_interest(self, chunk: bytes) -> bool:
        """Return whether a part is whole events without usage, error or end: nearly all parts of a stream."""
        return (
            self._is_plain_stream
            and self._lines.is_between_lines
            and not self._data
            and chunk.endswith(b"\n\n")
            and not any(word in chunk for word in WORDS)
        )

    def finish(self) -> None:
        """Read what is left; a body that is not a stream is read only now."""
        if self.problem:
            return
        if self._is_stream:
            self._event()
        elif self._body:
            value = _parsed(bytes(self._body))
            if isinstance(value, dict):
                self._take_object(value, is_whole=True)
        self._body.clear()

    @property
    def usage(self) -> Usage | None:
        """The usage as far as it was reported; None if the answer holds none."""
        if not self._usage:
            return None
        parsers = {
            "messages": anthropic.parse_usage,
            "chat": openai.parse_usage,
            "responses": openai_responses.parse_usage,
        }
        return parsers[self.api](self._usage)

    @property
    def reply(self) -> Reply | None:
        """The whole reply; None if it broke off or was not asked for."""
        if self._builder is not None and self._reply is None and not self.problem:
            self._reply = self._builder.reply()
        return self._reply

    def _take(self, part: bytes) -> None:
        if not self._is_stream:
            self._body += part
            if len(self._body) > MAX_ANSWER_BYTES:
                self._body.clear()
                self.problem = "the answer is too large to be read"
            return
        for line in self._lines.feed(part):
            if not line:
                self._event()
            elif line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))

    def _event(self) -> None:
        data = b"\n".join(self._data)
        self._data.clear()
        if not data:
            return
        if data == b"[DONE]":
            self.ended = True
        elif self._builder is not None or any(word in data for word in WORDS):
            value = _parsed(data)
            if isinstance(value, dict):
                self._take_object(value, is_whole=False)

    def _take_object(self, value: JsonObject, *, is_whole: bool) -> None:
        inner = value
        for name in ("message", "response"):
            if isinstance(found := value.get(name), dict):
                inner = found
        self.model = _text(inner.get("model")) or self.model
        self.response_id = _text(inner.get("id")) or self.response_id
        if isinstance(failure := inner.get("error", value.get("error")), dict):
            self.error = _text(failure.get("code")) or _text(failure.get("type")) or "error"
        for holder in (inner, value):
            if isinstance(usage := holder.get("usage"), dict):
                self._usage |= {name: count for name, count in usage.items() if count is not None}
        kind = value.get("type")
        if is_whole or str(kind) in {"message_stop", "response.completed", "response.incomplete"}:
            self.ended = not self.error
        if self._builder is not None:
            self._builder.take(value, is_whole=is_whole)


class LineSplitter:
    """Splits a stream into lines ended by LF, CRLF or CR, whatever the parts in which it arrives."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._is_skipping = False

    @property
    def is_between_lines(self) -> bool:
        return not (self._held or self._after_cr or self._is_skipping)

    def feed(self, part: bytes) -> Iterator[bytes]:
        if self._after_cr and part:
            part = part.removeprefix(b"\n")
            self._after_cr = False
        if b"\n" not in part and b"\r" not in part:
            self._hold(part)
            return
        self._after_cr = part.endswith(b"\r")
        *lines, rest = part.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            self._hold(line)
            if not self._is_skipping:
                yield b"".join(self._held)
            self._held.clear()
            self._size = 0
            self._is_skipping = False
        self._hold(rest)

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MAX_EVENT_BYTES:
            self._held.clear()
            self._is_skipping = True
        elif part:
            self._held.append(part)


class ReplyBuilder:
    """Builds the reply with the adapter of the API; a reply that it cannot read is left out."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._is_broken = False
        self._whole: JsonObject | None = None
        self._anthropic = anthropic.AnthropicReplyBuilder()
        self._chat = openai.OpenAIReplyBuilder(_numbered())
        self._responses = openai_responses.ResponseBuilder(_numbered())

    def take(self, value: JsonObject, *, is_whole: bool) -> None:
        if is_whole:
            self._whole = value
            return
        try:
            match self._api:
                case "messages":
                    self._anthropic.take(value)
                case "chat":
                    self._chat.take(value)
                case "responses":
                    self._responses.take(value)
        except (NacreError, openai_responses.ResponseRefused):
            self._is_broken = True

    def reply(self) -> Reply | None:
        if self._is_broken:
            return None
        try:
            return self._built()
        except (NacreError, openai_responses.ResponseRefused, ValueError):
            return None

    def _built(self) -> Reply | None:
        whole = self._whole
        if self._api == "messages":
            return self._anthropic.reply() if whole is None else anthropic.parse_reply(whole)
        if self._api == "chat":
            if whole is not None:
                self._chat.take(whole)
            return next(one for one in self._chat.finish() if isinstance(one, Reply))
        if whole is not None:
            output = whole.get("output")
            for index, item in enumerate(output if isinstance(output, list) else []):
                self._responses.take(
                    {"type": "response.output_item.done", "output_index": index, "item": item}
                )
            self._responses.take({"type": "response.completed", "response": whole})
        return next(one for one in self._responses.finish() if isinstance(one, Reply))


def _numbered() -> Callable[[], str]:
    count = iter(range(1_000_000))
    return lambda: f"{next(count):06d}"


class _Identity:
    def decode(self, data: bytes) -> Iterator[bytes]:
        yield data


class _Zlib:
    def __init__(self, window: int) -> None:
        self._stream = zlib.decompressobj(window)

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            yield self._stream.decompress(data, DECODED_AT_ONCE)
            data = self._stream.unconsumed_tail


class _Optional:
    """A decoder of a package that may be missing; small parts bound what a hostile answer expands to."""

    def __init__(self, decode: Callable[[bytes], bytes]) -> None:
        self._decode = decode

    def decode(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), SMALL_PART):
            yield self._decode(data[start : start + SMALL_PART])


def _decoder(encoding: str) -> Decoder | None:
    """Return a decoder; None for an encoding that cannot be read here."""
    try:
        match encoding:
            case "" | "identity":
                return _Identity()
            case "gzip" | "x-gzip":
                return _Zlib(16 + zlib.MAX_WBITS)
            case "deflate":
                return _Zlib(zlib.MAX_WBITS)
            case "zstd":
                return _Optional(import_module("zstandard").ZstdDecompressor().decompressobj().decompress)
            case "br":
                return _Optional(import_module("brotli").Decompressor().process)
    except ImportError:
        pass
    return None


def decoded_body(body: bytes, encoding: str) -> bytes | None:
    """Return the decoded body of a request; None if it is too large or cannot be decoded."""
    decoder = _decoder(encoding)
    if decoder is None:
        return None
    whole = bytearray()
    try:
        for part in decoder.decode(body):
            whole += part
            if len(whole) > MAX_ANSWER_BYTES:
                return None
    except Exception:  # noqa: BLE001  an observer: the body passes on whatever it is
        return None
    return bytes(whole)


def _parsed(data: bytes) -> Json:
    try:
        return cast("Json", json.loads(data))
    except (ValueError, RecursionError):
        return None


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
