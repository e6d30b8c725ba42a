"""Read: return the lines of a file with numbers, within limits for lines, line length and tokens."""

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
"""How much of an overlong line is read at once."""
MAX_LINE_CHARS = 10_000_000
"""A longer line is refused: the file is no text with lines."""
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tiff"})
UNREADABLE = {
    **dict.fromkeys(PICTURES, "Pictures cannot be read yet"),
    ".pdf": "PDF files cannot be read yet; try pdftotext in Bash",
    ".ipynb": "Notebooks cannot be read yet; try jq in Bash",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """Limits of one call."""

    lines: int = 2_000
    """Enough for most source files."""
    line_chars: int = 2_000
    """Longer lines are data or minified code."""
    tokens: int = 25_000
    """An eighth of a usual window."""
    wraps: bool = False
    """Every piece of a longer line counts as a line, for agents without another tool to read the rest."""


@dataclass(frozen=True, slots=True)
class _Range:
    first: int
    count: int


def read_tool(workspace: Workspace, settings: ReadSettings | None = None) -> Tool:
    """Return the tool that reads text files; a file that was read may be edited."""
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

    # Never offloaded: later edits need the text, and offloaded results are read with this tool.
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
        # newline="\n": a lone carriage return is no line end for grep, editors and compilers.
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
    if not number:
        return "[The file is empty.]"
    return f"[The file has only {number:,} lines; offset={wanted.first} is past its end.]"


def _lines(text: io.TextIOWrapper, line_chars: int, stop: threading.Event) -> Iterator[str]:
    """Yield lines without line ends, overlong ones cut; a line is never held whole."""
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
    """Yield lines without line ends, overlong ones in pieces."""
    goes_on = False
    while piece := text.readline(line_chars):
        if stop.is_set():
            raise ToolError("Stopped while reading.")
        line = piece.removesuffix("\r\n" if piece.endswith("\r\n") else "\n")
        if line or not goes_on:
            yield printable(line)
        goes_on = not piece.endswith("\n")
