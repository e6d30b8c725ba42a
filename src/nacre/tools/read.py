"""Read: return the lines of a file with numbers, within limits, or a picture or PDF file as a block."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Annotated

from nacre import prompts
from nacre.errors import ToolError
from nacre.messages.blocks import Text, ToolResult
from nacre.messages.media import media_block, media_facts, media_type
from nacre.messages.tokens import estimate_text
from nacre.messages.untrusted_text import printable
from nacre.tools.base import Tool, tool
from nacre.tools.files import MAX_WHOLE_BYTES, SNIFF_BYTES, open_regular, sniff
from nacre.tools.workspace import Version, Workspace, in_thread, version_of

DESCRIPTION = prompts.load("nacre.tools", "read")

PIECE_CHARS = 65_536
"""How much of an overlong line is read at once."""
MAX_COUNTED_CHARS = 10_000_000
"""Of a line behind what is shown: the rest of a longer one is not counted, and no line after it shown."""
OTHER_PICTURES = (".bmp", ".ico", ".tif", ".tiff", ".heic", ".avif")
UNREADABLE = {
    **dict.fromkeys(OTHER_PICTURES, "Only PNG, JPEG, GIF and WebP pictures can be shown; convert it in Bash"),
    ".ipynb": "Notebooks cannot be read yet; try jq in Bash",
}
SMALLER = {
    "image": "convert it in Bash first",
    "application": "try pdftotext in Bash, or take out pages",
}
"""What to do about a file that cannot be shown, by the first part of its media type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """Limits of one call."""

    lines: int = 2_000
    """Enough for most source files."""
    line_chars: int = 2_000
    """Longer lines are data or minified code."""
    tokens: int = 25_000
    """An eighth of a usual window."""
    column_chars: int = 50_000
    """Of the line that `column` reaches into."""


def read_tool(workspace: Workspace, settings: ReadSettings | None = None) -> Tool:
    """Return the tool that reads text files, pictures and PDF files; a file that was read may be edited."""
    limits = settings or ReadSettings()

    @tool(name="Read", description=DESCRIPTION, read_only=True)
    async def read(
        file_path: str,
        offset: Annotated[int | None, "From 1."] = None,
        limit: int | None = None,
        column: Annotated[int | None, "From 1; of line `offset`."] = None,
    ) -> ToolResult | str:
        if limit is not None and limit < 1:
            raise ToolError("limit must be at least 1.")
        first = max(offset or 1, 1)
        wanted = _Wanted(range(first, first + (limit or limits.lines)), column and max(column, 1))
        path = workspace.locate(file_path)
        found, version = await in_thread(
            lambda stop: _read(path, file_path, wanted, limits=limits, stop=stop)
        )
        workspace.saw(path, version)
        return found

    # Never offloaded: later edits need the text, and offloaded results are read with this tool.
    return replace(read, max_result_chars=float("inf"))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a call asks for."""

    lines: range
    column: int | None


def _read(
    path: Path, shown: str, wanted: _Wanted, *, limits: ReadSettings, stop: threading.Event
) -> tuple[ToolResult | str, Version]:
    source, found = open_regular(path, shown)
    with source:
        if why := UNREADABLE.get(path.suffix.lower()):
            raise ToolError(f"{why}: {shown}.")
        content = source.read(MAX_WHOLE_BYTES + 1) or b""
        is_whole = len(content) <= MAX_WHOLE_BYTES
        version = version_of(content, found) if is_whole else Version(found.st_mtime_ns, found.st_size, None)
        if (kind := media_type(content)) is not None:
            return _shown(content, kind, shown), version
        encoding = sniff(content[:SNIFF_BYTES], shown)
        stream: IO[bytes] = io.BytesIO(content) if is_whole else source
        del content
        stream.seek(len(encoding.mark))
        # newline="\n": a lone carriage return is no line end for grep, editors and compilers.
        text = io.TextIOWrapper(stream, encoding.name, encoding.errors, newline="\n")
        try:
            return _numbered(text, wanted, limits, stop), version
        except UnicodeDecodeError:
            raise ToolError(f"{shown} is not valid {encoding.name} text.") from None
        finally:
            text.detach()


def _shown(content: bytes, kind: str, path: str) -> ToolResult:
    """Return a picture or PDF file, with a line that describes it to a model that cannot see it."""
    try:
        block = media_block(content)
    except ValueError as error:
        raise ToolError(f"{path} cannot be shown: {error}; {SMALLER[kind.partition('/')[0]]}.") from None
    return ToolResult("", (Text(f"[{path}: {media_facts(block).text}]"), block))


def _numbered(text: io.TextIOWrapper, wanted: _Wanted, limits: ReadSettings, stop: threading.Event) -> str:
    shown: list[str] = []
    tokens = 0
    number = 0
    first = wanted.lines.start
    for number, line in enumerate(_lines(text, wanted, limits, stop), start=1):
        if number < first:
            continue
        row = f"{number:>6}\t{line}"
        tokens += estimate_text(row) + 1
        if tokens > limits.tokens and shown:
            shown.append(
                f"[Stopped here: one call returns {limits.tokens:,} tokens; go on with offset={number}.]"
            )
            break
        shown.append(row)
        if len(shown) == len(wanted.lines):
            if text.read(1):
                shown.append(f"[More lines follow; go on with offset={number + 1}.]")
            break
    if shown:
        return "\n".join(shown)
    if not number:
        return "[The file is empty.]"
    return f"[The file has only {number:,} lines; offset={first} is past its end.]"


def _lines(
    text: io.TextIOWrapper, wanted: _Wanted, limits: ReadSettings, stop: threading.Event
) -> Iterator[str]:
    """Yield lines without line ends, overlong ones cut; a line is never held whole."""
    number = 0
    while piece := text.readline(PIECE_CHARS):
        number += 1
        begin = 0
        end = limits.line_chars
        if wanted.column is not None and number == wanted.lines.start:
            begin = wanted.column - 1
            end = begin + limits.column_chars
        length = 0
        parts: list[str] = []
        while piece:
            if stop.is_set():
                raise ToolError("Stopped while reading.")
            if number >= wanted.lines.start:
                parts.append(piece[max(begin - length, 0) : max(end - length, 0)])
            length += len(piece)
            if piece.endswith("\n"):
                break
            if number >= wanted.lines.start and length > end + MAX_COUNTED_CHARS:
                yield printable("".join(parts)) + _cut_note(number, end, f"more than {length - end:,}")
                return
            piece = text.readline(PIECE_CHARS)
        length -= 2 if piece.endswith("\r\n") else piece.endswith("\n")
        line = printable("".join(parts)[: max(length - begin, 0)])
        if begin and begin >= length:
            line = f"[This line has only {length:,} characters.]"
        yield line if length <= end else line + _cut_note(number, end, f"{length - end:,}")


def _cut_note(number: int, end: int, more: str) -> str:
    return f" [… {more} more characters in this line; go on with offset={number} column={end + 1}]"
