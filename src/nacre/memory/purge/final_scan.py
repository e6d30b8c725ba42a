"""Search every byte of a home for the values of a memory, in another way than they are erased (M14b).

Erasing matches patterns in the text as it is. Here the text is decoded first (escapes, percent signs, Base64,
Base32, Base85, uuencode, hexadecimal and decimal bytes, dumps, strings in pieces, colours of a terminal,
UTF-16, compression, SQLite rows; one in another, too) and then searched for the plain value, also from its
end, so that a mistake in one of the two is noticed by the other.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import contextlib
import io
import lzma
import os
import quopri
import re
import sqlite3
import string
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes

from nacre.errors import StoreError
from nacre.memory.purge.values import LETTER, MIN_CHARS, is_number
from nacre.messages.untrusted_text import unescaped
from nacre.store.git_objects import GitRepository
from nacre.store.git_packs import GitPack

BLOCK = 67_108_864
"""Bytes searched at a time, with an overlap."""
OVERLAP = 65_536
BATCH = 4_194_304
"""Bytes of decoded pieces that are searched together."""
MAX_UNPACKED = 268_435_456
"""Bytes that are searched of a compressed file."""
UNBOUNDED_DIGITS = 10
"""A shorter number counts only where no further digit is next to it."""
ROUNDS = 5
"""How often escapes are decoded: JSON in JSON in JSON."""
DEPTH = 3
"""How often decoded pieces are decoded again, such as Base64 of a compressed text in Base64."""

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([nrtbf])|([\"'/\\]))")
_LINE_START = re.compile(r"\A[ \t>|#*+]*(?:\d{1,6}\t)?[ \t]*")
"""What quotes, indents or numbers a line."""
_DIGIT_GAPS = b" \t\r\n./()-\xc2\xa0"
_NO_LETTERS = bytes(sorted(set(range(256)) - set(b"abcdefghijklmnopqrstuvwxyz0123456789")))
_BASE64_SIGNS = bytes(
    sign if chr(sign) in string.ascii_letters + string.digits + "+/" else {45: 43, 95: 47}.get(sign, 32)
    for sign in range(256)
)
"""Both alphabets of Base64 become one, everything else a space."""
MIN_ENCODED = 12
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2}){8,}")
_SEPARATED_HEX = re.compile(
    rb"(?:0x)?[0-9a-fA-F]{2}(?:(?:[ :,-]|, )(?:0x)?[0-9a-fA-F]{2}){5,}|[0-9a-fA-F]{4}(?: [0-9a-fA-F]{4}){2,}"
)
_DUMP_LINE = re.compile(
    rb"(?m)^[ \t>|]*(?:\d{1,6}\t)?[0-9a-fA-F]{6,8}:? {1,2}((?:[0-9a-fA-F]{2,4} {1,2}){1,17})"
)
"""A line of xxd or hexdump: the place, the bytes, and then the bytes as text."""
_DECIMAL = re.compile(rb"(?<![\d.])\d{1,3}(?:,\s?\d{1,3}){7,}+(?![\d.])")
"""Bytes as a list of numbers."""
_WRAPPED_BASE64 = re.compile(
    rb"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{16,}+\r?\n[ \t>|]*(?:\d{1,6}\t)?)+[A-Za-z0-9+/_-]{2,}"
)
_BASE32 = re.compile(rb"(?<![A-Za-z0-9+/_-])(?:[A-Z2-7]{16,}+|[a-z2-7]{16,}+)(?![A-Za-z0-9+/_-])")
_BASE85 = re.compile(
    rb"(?=[^\s\"',.:/\[\]\\]{0,60}[!#$%&()*+;<>?@^`{|}~])[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]{15,}+"
)
"""In the alphabet of git, with one of the signs that words have not; other tokens are too many to decode."""
_ASCII85 = re.compile(rb"<~([!-uz\s]{10,}?)~>")
"""In the alphabet of Adobe, which has quotation marks, only between its marks."""
_UUENCODED = re.compile(rb"(?m)^[ \t>|]*begin [0-7]{3,4} [^\n]{1,100}\n((?:[ \t>|]{0,4}[!-M][ -`]{1,84}\n)+)")
_CSS_ESCAPED = re.compile(rb"(?:(?<!\\)\\++[0-9a-fA-F]{2,6} ?){4,}")
_PIECES = re.compile(rb"\\{0,8}[\"'`]\s{0,20}(?:\\{1,8}n|[+.&,])?\s{0,20}(?:\\{1,8}n)?\s{0,20}\\{0,8}[\"'`]")
"""Between two pieces of a string in a program."""
_ESCAPED = re.compile(
    rb"(?:(?<!\\)\\++(?:u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{2,6}\}|x[0-9a-fA-F]{2}|[0-3][0-7]{2})"
    rb"|%(?:25)?[0-9a-fA-F]{2}|=[0-9A-F]{2}|&#(?:x0{0,6}[0-9a-fA-F]{2,5}|0{0,6}[0-9]{2,6});?){4,}"
)
"""A run of nothing but escapes, in which no letter of a value is left to look for."""
_ESCAPED_LETTER = re.compile(rb"(?<!\\)\\++(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{2,6})\})")
_ESCAPED_BYTE = re.compile(rb"(?<!\\)\\++(?:x([0-9a-fA-F]{2})|([0-3][0-7]{2}))|=([0-9A-F]{2})")
_COLOUR = re.compile(rb"(?:\x1b|(?<!\\)\\++(?:u001[bB]|x1[bB]|033|e))\[[0-9;?]{0,20}[A-Za-z]")
_READABLE = bytes({*b"\0\t\n\r\x1b", *range(0x20, 0x7F)})
_NOT_SHOWN = dict.fromkeys([0xAD, *range(0x200B, 0x2010), *range(0x2060, 0x2065), 0xFEFF])
"""Signs that a text may have inside of a word without being seen."""
_UNKNOWN_PACKED = (b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"Rar!", b"\x04\x22\x4d\x18")
_OPENERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": lambda data: zlib.decompressobj(wbits=31).decompress(data, MAX_UNPACKED),
    b"BZh": lambda data: bz2.BZ2Decompressor().decompress(data, MAX_UNPACKED),
    b"\xfd7zXZ\0": lambda data: lzma.LZMADecompressor().decompress(data, MAX_UNPACKED),
    b"PK\x03\x04": lambda data: b"\n".join(_members(data)),
}
_ZLIB = (b"\x78\x01", b"\x78\x9c", b"\x78\xda")
_DAMAGED = (OSError, EOFError, ValueError, RuntimeError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


class UndecodableError(Exception):
    """Raised for a file whose format cannot be decoded."""


class FinalScan:
    """Finds values, and long lines as bytes, in decoded data."""

    def __init__(self, values: Iterable[str], lines: Iterable[bytes] = ()) -> None:
        self._lines = tuple(lines)
        self._numbers: list[bytes] = []
        self._words: dict[str, re.Pattern[str]] = {}
        self._pieces: set[bytes] = set()
        for value in values:
            folded = value.casefold()
            digits = "".join(filter(str.isalnum, folded))
            if is_number(value) and len(digits) >= UNBOUNDED_DIGITS:
                self._numbers.append(digits.encode())
            elif is_number(value):
                self._words[digits] = re.compile(rf"(?<!{LETTER}){digits}(?!{LETTER})")
            elif folded.replace(" ", "").isalpha() or len(value) < MIN_CHARS or set("@.") & set(value):
                word = rf"(?<!{LETTER})(?<![.+-]){re.escape(folded)}(?![./-]?{LETTER})"
                self._words[folded] = re.compile(word)
            else:
                self._words[folded] = re.compile(re.escape(folded))
            self._pieces |= _pieces(folded)

    def is_in(self, data: bytes) -> bool:
        """Whether data contain a value, encoded or not."""
        return any(line in data for line in self._lines) or self._is_within(data, DEPTH)

    def _is_within(self, data: bytes, depth: int) -> bool:
        for form in _forms(data):
            if self._is_possible(form) and any(map(self._is_plain_in, _views(_text(form)))):
                return True
            readable: list[bytes] = []
            for batch in _batches(_decoded(form), readable):
                if self._is_possible(batch) and self._is_plain_in(_text(batch)):
                    return True
            if depth == DEPTH and self._is_reversed_in(form):
                return True
            if depth and readable and self._is_within(b"\n\n".join(readable), depth - 1):
                return True
        return False

    def _is_reversed_in(self, data: bytes) -> bool:
        return self._is_possible(data[::-1]) and self._is_plain_in(_text(data)[::-1])

    def _is_possible(self, data: bytes) -> bool:
        """Whether data contain a part of a value; a quick no for nearly everything."""
        stream = data.lower().translate(None, _NO_LETTERS)
        return any(piece in stream for piece in self._pieces)

    def find(self, home: Path, *, skip: frozenset[Path] = frozenset()) -> Iterator[tuple[Path, str]]:
        """Yield every file that contains a value or, with the reason, that cannot be searched."""
        for base, folders, names in os.walk(home):
            folders.sort()
            for name in sorted(names):
                path = Path(base) / name
                if path in skip or path.is_symlink() or not path.is_file():
                    continue
                try:
                    if self.is_in(os.fsencode(name)) or any(map(self.is_in, contents(path))):
                        yield path, ""
                except FileNotFoundError:
                    continue  # gone meanwhile
                except (OSError, StoreError, UndecodableError) as error:
                    yield path, f"it cannot be searched: {error}"

    def _is_plain_in(self, text: str) -> bool:
        if any(value in text and found.search(text) for value, found in self._words.items()):
            return True
        if not self._numbers:
            return False
        joined = text.replace("(0)", "").encode("utf-8", "replace").translate(None, _DIGIT_GAPS)
        return any(number in joined for number in self._numbers)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").casefold()


def _pieces(folded: str) -> set[bytes]:
    """Parts of a value, one of which any spelling contains once all but letters and digits is taken away."""
    runs = [run.encode() for run in re.findall("[a-z0-9]{4,}", folded)]
    joined = re.sub("[^a-z0-9]", "", folded).encode()
    half = len(joined) // 2
    if folded.isascii():
        return {*runs, joined[:half], joined[half:]}
    # Other letters may be between any two of these, and a line may end inside one.
    return set(runs) if len(runs) > 1 else {b""}


def contents(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, and decoded those of git objects, SQLite databases and compressed files."""
    with path.open("rb") as file:
        data = file.read(BLOCK)
        yield data
        whole = data
        while rest := file.read(BLOCK):
            data = data[-OVERLAP:] + rest
            yield data
    if whole.startswith(_UNKNOWN_PACKED):
        raise UndecodableError("it is compressed in a format that nacre does not know")
    if whole.startswith(b"SQLite format 3\0"):
        yield from _rows(path)
    elif whole.startswith(b"PACK"):
        yield from _packed_objects(path)
    elif path.parent.parent.name == "objects" and len(path.parent.name) == len("00"):
        with contextlib.suppress(zlib.error):
            yield zlib.decompressobj().decompress(whole, MAX_UNPACKED)
    for magic, unpack in _OPENERS.items():
        if whole.startswith(magic):
            try:
                yield unpack(whole)
            except _DAMAGED as error:
                raise UndecodableError("it is compressed and damaged") from error


def _rows(path: Path) -> Iterator[bytes]:
    """The pages of a database may cut a value in two, so its rows are read, too."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            tables = database.execute("select name from sqlite_master where type = 'table'").fetchall()
            for (table,) in tables:
                quoted = str(table).replace('"', '""')
                for row in database.execute(f'select * from "{quoted}"'):
                    cells = (cell.encode() if isinstance(cell, str) else cell for cell in row)
                    yield b"\n".join(cell for cell in cells if isinstance(cell, bytes))
    except sqlite3.Error as error:
        raise UndecodableError(f"the database cannot be read: {error}") from error


def _packed_objects(path: Path) -> Iterator[bytes]:
    index = path.with_suffix(".idx")
    if not index.is_file():
        raise UndecodableError("it is a git pack without an index")
    repository = GitRepository(path.parent.parent.parent)
    pack = GitPack(index)
    for name in pack.names():
        yield pack.read(name, repository.read)[1]


def _members(data: bytes) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for each in archive.infolist():
            yield archive.read(each)


def _batches(pieces: Iterable[bytes], readable: list[bytes]) -> Iterator[bytes]:
    """Join pieces, because a search of each would take longer than a search of all; collect those of text."""
    batch: list[bytes] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        if _is_readable(piece):
            readable.append(piece)
        size += len(piece)
        if size > BATCH:
            yield b"\n\n".join(batch)
            batch.clear()
            size = 0
    yield b"\n\n".join(batch)


def _is_readable(data: bytes) -> bool:
    """Return whether data are text, which may contain encoded pieces."""
    if len(data.translate(None, _READABLE)) * 8 <= len(data):
        return True
    with contextlib.suppress(UnicodeDecodeError):
        data.decode()
        return True
    return False


def _forms(data: bytes) -> Iterator[bytes]:
    """Yield data, and what they say where signs are coloured, hidden, wide, escaped or of two bytes."""
    yield data
    if b"\0" in data:
        yield data.replace(b"\0", b"")
    if data.count(b"\0") * 8 > len(data):
        for codec, start in (("utf-16-le", 0), ("utf-16-le", 1), ("utf-16-be", 0), ("utf-16-be", 1)):
            yield data[start:].decode(codec, "replace").encode("utf-8", "replace")
    if not _is_readable(data):
        return
    shown = _COLOUR.sub(b"", data)
    shown = unquote_to_bytes(shown) if b"%" in shown else shown
    if not shown.isascii():
        text = shown.decode("utf-8", "replace").translate(_NOT_SHOWN)
        shown = unicodedata.normalize("NFKC", text).encode("utf-8", "replace")
    if shown != data:
        yield shown
    if _ESCAPED_BYTE.search(data):
        yield _unescaped_bytes(data)
    if _PIECES.search(data):
        yield _PIECES.sub(b"", data)
    if re.search(rb"=[0-9A-F]{2}|=\r?\n", data):
        yield quopri.decodestring(data)


def _decoded(data: bytes) -> Iterator[bytes]:
    """Yield what pieces of Base64, hexadecimal, escapes and numbers in data stand for."""
    pieces = [piece for piece in data.translate(_BASE64_SIGNS).split() if len(piece) >= MIN_ENCODED]
    lines = re.sub(rb"(?<!\\)\\++(?:r\\++)?n", b"\n", data)
    wrapped = (
        re.sub(rb"\s(?:[ \t>|]*\d{1,6}\t)?|[>|]", b"", one[0]) for one in _WRAPPED_BASE64.finditer(lines)
    )
    for piece in (*pieces, *(one.translate(_BASE64_SIGNS) for one in wrapped)):
        for start in range(4):  # what is directly before it may look like a part of it
            with contextlib.suppress(binascii.Error):
                yield from _unpacked(base64.b64decode(piece[start:] + b"A" * (-len(piece[start:]) % 4)))
    yield from _in_other_alphabets(data, lines)
    for found in _HEX.finditer(b" ".join(pieces)):
        yield bytes.fromhex(found[0].decode())
    for found in _SEPARATED_HEX.finditer(data):
        yield bytes.fromhex(re.sub("0x|[:,-]", " ", found[0].decode()))
    if dump := b"".join(found[1] for found in _DUMP_LINE.finditer(lines)):
        yield bytes.fromhex(b"".join(dump.split()).decode())
    for found in _DECIMAL.finditer(data):
        yield bytes(number for one in found[0].split(b",") if (number := int(one)) < 256)
    for found in _ESCAPED.finditer(data):
        yield _unescaped_run(found[0])


def _in_other_alphabets(data: bytes, lines: bytes) -> Iterator[bytes]:
    """Yield what pieces of Base32, Base85, uuencode and escapes of CSS stand for."""
    for found in _BASE32.finditer(data):
        piece = found[0].upper()
        with contextlib.suppress(binascii.Error):
            yield from _unpacked(base64.b32decode(piece + b"A" * (-len(piece) % 8)))
    for found in _BASE85.finditer(data):
        for start in range(5):  # what is directly before it may look like a part of it
            with contextlib.suppress(ValueError):
                yield from _unpacked(base64.b85decode(found[0][start:]))
    for found in _ASCII85.finditer(data):
        with contextlib.suppress(ValueError):
            yield from _unpacked(base64.a85decode(found[1]))
    for found in _UUENCODED.finditer(lines):
        rows = [row.lstrip(b" \t>|") for row in found[1].splitlines()]
        yield from _unpacked(b"".join(_uudecoded(row) for row in rows))
    for found in _CSS_ESCAPED.finditer(data):
        codes = re.findall(rb"[0-9a-fA-F]{2,6}", found[0])
        yield b"".join(_letter(int(code, 16)) for code in codes)


def _uudecoded(row: bytes) -> bytes:
    with contextlib.suppress(binascii.Error):
        return binascii.a2b_uu(row)
    return b""


def _unpacked(data: bytes) -> Iterator[bytes]:
    """Yield data, and what they are the compressed form of."""
    yield data
    with contextlib.suppress(*_DAMAGED):
        if data.startswith(_ZLIB):
            yield zlib.decompressobj().decompress(data, MAX_UNPACKED)
        for magic, unpack in _OPENERS.items():
            if data.startswith(magic):
                yield unpack(data)


def _unescaped_run(run: bytes) -> bytes:
    """Return what a run of escapes stands for."""
    run = _ESCAPED_LETTER.sub(lambda one: _letter(int(one[1] or one[2], 16)), run)
    run = _unescaped_bytes(run)
    run = unquote_to_bytes(run)
    return unescaped(run.decode("utf-8", "replace")).encode("utf-8", "replace") if b"&#" in run else run


def _unescaped_bytes(data: bytes) -> bytes:
    def byte(found: re.Match[bytes]) -> bytes:
        return bytes([int(found[2], 8) if found[2] else int(found[1] or found[3], 16)])

    return _ESCAPED_BYTE.sub(byte, data)


def _letter(code: int) -> bytes:
    return chr(min(code, 0x10FFFF)).encode("utf-8", "replace")


def _views(text: str) -> Iterator[str]:
    """Yield a text, and the text with its escapes decoded and its lines joined."""
    last = ""
    for _ in range(ROUNDS + 1):
        if text == last:
            return
        yield text
        if "\n" in text or "\r" in text:
            lines = filter(None, text.replace("\r", "\n").split("\n"))
            bare = [_LINE_START.sub("", line, count=1).rstrip(" \t").removesuffix("-") for line in lines]
            yield "".join(bare)
            yield " ".join(bare)
        last = text
        text = _ESCAPE.sub(_unescaped, text)
        text = unquote(text, errors="replace") if "%" in text else text
        text = unescaped(text).casefold() if "&" in text else text.casefold()


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return found[3] or ("\t" if found[2] == "t" else "\n")
