"""Pictures and PDF files as blocks: recognised by their bytes, within limits that every provider accepts."""

from __future__ import annotations

import base64
import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from nacre.messages.blocks import Document, Image, Json, JsonObject

MAX_IMAGE_BYTES = 3_750_000
"""Five megabytes in base64, the provider limit; a larger image would fail every later request."""
MAX_IMAGE_EDGE = 8_000
"""Pixels; a provider refuses a longer edge."""
MAX_PDF_BYTES = 10_000_000
"""A request may have 32 MB, and a document is part of every later one."""
MAX_PDF_PAGES = 100
"""The limit of models with a window of 200,000 tokens."""
PIXELS_PER_TOKEN = 750
"""Of Anthropic's models."""
MIN_IMAGE_TOKENS = 258
MAX_IMAGE_TOKENS = 4_784
"""Limits for a model of an unknown vendor: Google's smallest figure, and the largest of Anthropic."""
UNSEEN_TOKENS = 25
"""Of the line that replaces a picture or document for a model that takes none."""
FLAT_TOKENS = 2_000
"""Of a picture whose size is unknown, and of one page of a document: its text and its picture."""
PDF_BYTES_PER_PAGE = 50_000
"""Of a document whose pages cannot be counted without unpacking it."""
PDF = "application/pdf"

ImageInput: TypeAlias = "str | Path | bytes | Image"
"""A picture in a prompt: the path of a file, its bytes, or a block."""

_HEAD_BYTES = 393_216
"""Of a picture, decoded to find its size; metadata ahead of it in a JPEG can be long."""
_FORMATS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
    PDF: re.compile(rb"%PDF-"),
}
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_COUNT = re.compile(rb"/Count\s+(\d{1,6})")
NO_IMAGES = (
    "{model} takes no pictures as far as nacre knows, so it only reads their size; "
    "if it does take them, set images to true for it in the setting models"
)
"""Shown when a picture is added for a model that is not known to take any."""


def media_type(data: bytes) -> str | None:
    """Return the media type of a picture or PDF file by its first bytes; names and labels can be wrong."""
    return next((kind for kind, signature in _FORMATS.items() if signature.match(data)), None)


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height from the header of a picture; None if it is damaged or cut."""
    try:
        match media_type(data):
            case "image/png":
                width, height = struct.unpack(">II", data[16:24])
            case "image/gif":
                width, height = struct.unpack("<HH", data[6:10])
            case "image/jpeg":
                return _jpeg_size(data)
            case "image/webp":
                return _webp_size(data)
            case _:
                return None
    except struct.error:
        return None
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 9 <= len(data):
        if data[place] != 0xFF:
            return None
        marker = data[place + 1]
        if (
            marker == 0xFF or marker == 0x01 or 0xD0 <= marker <= 0xD8
        ):  # padding, or a marker without a length
            place += 1 if marker == 0xFF else 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            return width, height
        place += 2 + int(struct.unpack(">H", data[place + 2 : place + 4])[0])
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return None


def page_count(data: bytes) -> int:
    """Return the pages of a PDF file; estimated by its size where its objects are compressed."""
    pages = len(_PAGE.findall(data))
    counts = [int(one) for one in _COUNT.findall(data)]
    return max([pages, *counts]) or -(-len(data) // PDF_BYTES_PER_PAGE)


def media_block(data: bytes) -> Image | Document:
    """Return a picture or PDF file as a block; raises `ValueError` with the reason why it cannot be shown."""
    kind = media_type(data)
    if kind is None:
        raise ValueError("only PNG, JPEG, GIF and WebP pictures and PDF files can be shown")
    limit = MAX_PDF_BYTES if kind == PDF else MAX_IMAGE_BYTES
    if len(data) > limit:
        raise ValueError(f"it has {len(data):,} bytes, and at most {limit:,} can be shown")
    if kind == PDF:
        if (pages := page_count(data)) > MAX_PDF_PAGES:
            raise ValueError(f"it has {pages:,} pages, and at most {MAX_PDF_PAGES} can be shown")
    else:
        size = image_size(data)
        if size is None or not all(size):
            raise ValueError("the picture is damaged: its size cannot be read")
        if max(size) > MAX_IMAGE_EDGE:
            raise ValueError(
                f"it has {size[0]}x{size[1]} pixels, and at most {MAX_IMAGE_EDGE:,} a side can be shown"
            )
    source: JsonObject = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
    return Document(source) if kind == PDF else Image(source)


def as_image(given: ImageInput) -> Image:
    """Return a picture of a prompt as a block; raises `ValueError` or `TypeError` with what is wrong."""
    if isinstance(given, Image):
        return given
    name = "the picture" if isinstance(given, bytes) else str(given)
    if not isinstance(given, str | Path | bytes):
        raise TypeError(f"images takes paths, bytes and Image blocks, not {type(given).__name__}")
    try:
        data = given if isinstance(given, bytes) else Path(given).expanduser().read_bytes()
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror or error}") from error
    kind = media_type(data)
    if kind is None:
        raise ValueError(f"{name} cannot be sent: only PNG, JPEG, GIF and WebP can")
    if kind == PDF:
        raise ValueError(f"{name} is a PDF file, not a picture; let the model read it by its path")
    try:
        block = media_block(data)
    except ValueError as error:
        raise ValueError(f"{name} cannot be sent: {error}") from error
    assert isinstance(block, Image), "only PDF files are documents"
    return block


PICTURE_RULES = {"area": 2, "tiles": 2, "patches": 2, "grid": 2, "flat": 1}
"""Kinds of rules in the table of models, with the count of their numbers; see `picture_tokens`."""


def picture_tokens(width: int, height: int, rule: str) -> int:
    """Return the tokens of a picture by a rule of the table of models; an empty one is for unknown vendors.

    `area EDGE MOST`: Anthropic; a token for 750 pixels, scaled down to that edge and that many tokens.
    `tiles BASE EACH`: OpenAI; scaled into 2,048 and to a short side of 768 pixels, in tiles of 512.
    `patches MOST FACTOR`: OpenAI; squares of 32 pixels, scaled down to that many, times a factor.
    `grid EDGE EACH`: Google; one tile up to half of that edge, else tiles of that edge. `flat EACH`: Google.
    """
    kind, *words = rule.split() or ["unknown"]
    numbers = [float(word) for word in words]
    match kind, numbers:
        case "area", [edge, most]:
            scale = min(1.0, edge / max(width, height))
            return min(math.ceil(width * scale * height * scale / PIXELS_PER_TOKEN), int(most))
        case "tiles", [base, each]:
            scale = min(1.0, 2_048 / max(width, height))
            scale = min(scale, 768 / min(width, height))
            return int(base + each * _squares(width * scale, height * scale, 512))
        case "patches", [most, factor]:
            return math.ceil(min(_squares(width, height, 32), most) * factor)
        case "grid", [edge, each]:
            is_small = max(width, height) <= edge / 2
            return int(each * (1 if is_small else _squares(width, height, edge)))
        case "flat", [each]:
            return int(each)
        case _:
            pixels = width * height
            return min(max(math.ceil(pixels / PIXELS_PER_TOKEN), MIN_IMAGE_TOKENS), MAX_IMAGE_TOKENS)


def _squares(width: float, height: float, edge: float) -> int:
    return math.ceil(width / edge) * math.ceil(height / edge)


@dataclass(frozen=True, slots=True)
class MediaFacts:
    """What is known about a picture or document without a model."""

    kind: str
    bytes: int
    size: tuple[int, int] | None = None
    pages: int = 0

    @property
    def tokens(self) -> int:
        """The estimated tokens in a request to a model of an unknown vendor."""
        return self.tokens_by("")

    def tokens_by(self, rule: str) -> int:
        """Return the estimated tokens by the rule of a model, the field `pictures` in the table (P5)."""
        if self.size is None or not all(self.size):
            return FLAT_TOKENS * max(1, self.pages)
        return picture_tokens(*self.size, rule)

    @property
    def text(self) -> str:
        """A line for the model and the person, such as "PNG picture, 800x600, 12,345 bytes"."""
        name = self.kind.partition("/")[2].upper() or "unknown"
        if self.kind == PDF:
            return f"PDF file, {self.pages} page{'s' * (self.pages != 1)}, {self.bytes:,} bytes"
        pixels = f", {self.size[0]}x{self.size[1]}" if self.size else ""
        return f"{name} picture{pixels}, {self.bytes:,} bytes"


def media_facts(block: Image | Document) -> MediaFacts:
    """Return kind, size and pages of a block; one by URL or of another provider has only its kind."""
    kind = str(block.source.get("media_type") or ("" if isinstance(block, Image) else PDF))
    data = block.source.get("data")
    if block.source.get("type") != "base64" or not isinstance(data, str):
        return MediaFacts(kind, 0)
    length = len(data) * 3 // 4 - data[-2:].count("=")
    if isinstance(block, Image):
        return MediaFacts(kind, length, image_size(_decoded(data[:_HEAD_BYTES])))
    return MediaFacts(kind, length, pages=page_count(_decoded(data)))


def media_bytes(block: Image | Document) -> bytes | None:
    """Return the file that a block holds; None if it is elsewhere."""
    data = block.source.get("data")
    is_here = block.source.get("type") == "base64" and isinstance(data, str)
    return _decoded(data) if is_here and isinstance(data, str) else None


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data)
    except ValueError:
        return b""


def without_media(messages: list[JsonObject], kinds: frozenset[str]) -> list[JsonObject]:
    """Return messages with a line in the place of each block of these kinds, for models that take none.

    `kinds` are `image` and `document`. A message without them is the same object as before.
    """
    return [_without(message, kinds) for message in messages]


def _without(block: JsonObject, kinds: frozenset[str]) -> JsonObject:
    match block:
        case {"type": str(kind), "source": dict(source)} if kind in kinds:
            if source.get("type") == "text":
                return block
            media = Image(source) if kind == "image" else Document(source)
            return {"type": "text", "text": f"[{media_facts(media).text}; this model cannot see it]"}
        case {"content": list(parts)}:
            shown: list[Json] = [_without(one, kinds) if isinstance(one, dict) else one for one in parts]
            is_same = all(new is old for new, old in zip(shown, parts, strict=True))
            return block if is_same else {**block, "content": shown}
        case _:
            return block
