"""Read: a file's lines with their numbers, bounded in lines, line length and tokens."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Annotated

from nacre import prompts
from nacre.errors import ToolError
from nacre.messages.tokens import estimate_text
from nacre.tools.base import Tool, tool
from nacre.tools.files import MAX_WHOLE_BYTES, SNIFF_BYTES, open_regular, printable, sniff
from nacre.tools.workspace import Version, Workspace, in_thread, version_of

DESCRIPTION = prompts.load("nacre.tools", "read")

PIECE_CHARS = 65_536
"""How much of an overlong line is held while its end is looked for."""
MAX_LINE_CHARS = 10_000_000
"""Where the end of a line is no longer looked for: this is no text that has lines."""
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tiff"})
UNREADABLE = {
    **dict.fromkeys(PICTURES, "Pictures cannot be read yet"),
    ".pdf": "PDF files cannot be read yet; try pdftotext in Bash",
    ".ipynb": "Notebooks cannot be read yet; try jq in Bash",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """How much of a file one call returns."""

    lines: int = 2_000
    """Most source files whole."""
    line_chars: int = 2_000
    """Longer lines are data or minified code; their beginning says so."""
    tokens: int = 25_000
    """An eighth of a usual window; more is better read in ranges."""
    wraps: bool = False
    """Every piece of a longer line counts as a line: for those who have no other tool to get at the rest."""


@dataclass(frozen=True, slots=True)
class _Range:
    first: int
    count: int


def read_tool(workspace: Workspace, settings: ReadSettings | None = None) -> Tool:
    """Reads text files; what was read may then be edited."""
    limits = settings or ReadSettings()

    @tool(name="Read", description=DESCRIPTION, read_only=True)
    async def read(
        file_path: Annotated[str, "The file."],
        offset: Annotated[int | None, "The line to begin with, counted from 1."] = None,
        limit: Annotated[int | None, "How many lines; 2000 unless given."] = None,
    ) -> str:
        if limit is not None and limit < 1:
            raise ToolError("limit must be at least 1.")
        wanted = _Range(max(offset or 1, 1), limit or limits.lines)
        path = workspace.locate(file_path)
        text, version = await in_thread(lambda stop: _read(path, file_path, wanted, limits=limits, stop=stop))
        workspace.saw(path, version)
        return text

    # Cutting what was read blinds later edits, and it is how a result on disk is read back.
    return replace(read, max_result_chars=float("inf"))


def _read(
    path: Path, shown: str, wanted: _Range, *, limits: ReadSettings, stop: threading.Event
) -> tuple[str, Version]:
    source, found = open_regular(path, shown)
    with source:
        if why := UNREADABLE.get(path.suffix.lower()):
            raise ToolError(f"{why}: {shown}.")
        content = source.read(MAX_WHOLE_BYTES + 1) or b""
        encoding = sniff(content[:SNIFF_BYTES], shown)
        is_whole = len(content) <= MAX_WHOLE_BYTES
        stream: IO[bytes] = io.BytesIO(content) if is_whole else source
        version = version_of(content, found) if is_whole else Version(found.st_mtime_ns, found.st_size, None)
        del content
        stream.seek(len(encoding.mark))
        # newline="\n": a lone carriage return is no line end to grep, to editors or to a compiler's messages.
        text = io.TextIOWrapper(stream, encoding.name, encoding.errors, newline="\n")
        try:
            return _numbered(text, wanted, limits, stop), version
        except UnicodeDecodeError:
            raise ToolError(f"{shown} is not valid {encoding.name} text.") from None
        finally:
            text.detach()


def _numbered(text: io.TextIOWrapper, wanted: _Range, limits: ReadSettings, stop: threading.Event) -> str:
    shown: list[str] = []
    tokens = 0
    number = 0
    lines = (_pieces if limits.wraps else _lines)(text, limits.line_chars, stop)
    for number, line in enumerate(lines, start=1):
        if number < wanted.first:
            continue
        row = f"{number:>6}\t{line}"
        tokens += estimate_text(row) + 1
        if tokens > limits.tokens and shown:
            shown.append(
                f"[Stopped here: one call returns {limits.tokens:,} tokens; go on with offset={number}.]"
            )
            break
        shown.append(row)
        if len(shown) == wanted.count:
            if text.read(1):
                shown.append(f"[More lines follow; go on with offset={number + 1}.]")
            break
    if shown:
        return "\n".join(shown)
    return _nothing(number, wanted)


def _nothing(lines: int, wanted: _Range) -> str:
    if not lines:
        return "[The file is empty.]"
    return f"[The file has only {lines:,} lines; offset={wanted.first} is past its end.]"


def _lines(text: io.TextIOWrapper, line_chars: int, stop: threading.Event) -> Iterator[str]:
    """Lines without their ends, overlong ones cut; a line of a gigabyte is neither held nor followed."""
    while piece := text.readline(PIECE_CHARS):
        if stop.is_set():
            raise ToolError("Stopped while reading.")
        length = len(piece)
        beginning = piece[:line_chars]
        ended = piece.endswith("\n")
        while not ended and (piece := text.readline(PIECE_CHARS)):
            ended = piece.endswith("\n")
            length += len(piece)
            if length > MAX_LINE_CHARS:
                raise ToolError(
                    f"A line there is longer than {MAX_LINE_CHARS:,} characters; use cut in Bash."
                )
        length -= 2 if piece.endswith("\r\n") else ended
        line = beginning.removesuffix("\n").removesuffix("\r")
        cut = f" [… {length - line_chars:,} more characters in this line]" if length > line_chars else ""
        yield printable(line) + cut


def _pieces(text: io.TextIOWrapper, line_chars: int, stop: threading.Event) -> Iterator[str]:
    """Lines without their ends, overlong ones in pieces."""
    goes_on = False
    while piece := text.readline(line_chars):
        if stop.is_set():
            raise ToolError("Stopped while reading.")
        line = piece.removesuffix("\r\n" if piece.endswith("\r\n") else "\n")
        if line or not goes_on:
            yield printable(line)
        goes_on = not piece.endswith("\n")
