"""Pictures and PDF files of any size, made without a library."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 2, height: int = 2, *, padding: int = 0) -> bytes:
    """A valid picture; `padding` bytes of text make it larger."""
    rows = b"".join(b"\0" + b"\x7f\x20\x20" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [
        (b"IHDR", head),
        (b"tEXt", b"k\0" + b"x" * padding),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*one) for one in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def jpeg(width: int, height: int, *, metadata: int = 0) -> bytes:
    """The head of a JPEG; `metadata` bytes stand ahead of the size."""
    parts = [b"\xff\xd8\xff\xe0\x00\x10JFIF\0\1\1\0\0\1\0\1\0\0"]
    while metadata > 0:
        size = min(metadata, 65_000)
        parts.append(b"\xff\xe1" + struct.pack(">H", size + 2) + b"m" * size)
        metadata -= size
    parts.append(
        b"\xff\xff\xc0" + struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\1\x22\0\2\x11\1\3\x11\1"
    )
    return b"".join([*parts, b"\xff\xd9"])


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def webp(width: int, height: int, kind: str = "VP8X") -> bytes:
    match kind:
        case "VP8X":
            data = b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        case "VP8L":
            data = b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little")
        case _:
            data = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    body = b"WEBP" + kind.ljust(4).encode() + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def pdf(pages: int = 1, *, padding: int = 0) -> bytes:
    kids = " ".join(f"{number + 3} 0 R" for number in range(pages))
    objects = [
        "1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj",
        f"2 0 obj <</Type /Pages /Kids [{kids}] /Count {pages}>> endobj",
        *(f"{number + 3} 0 obj <</Type /Page /Parent 2 0 R>> endobj" for number in range(pages)),
    ]
    return ("%PDF-1.4\n" + "\n".join(objects) + "\n%" + "x" * padding + "\n%%EOF\n").encode()
