"""Read: return the lines of a file with numbers, within limits, or a picture or PDF file as a block.

A large file without a range is shown as a page: its first lines and an outline of the names after them.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Annotated

from nacre import prompts
from nacre.errors import ToolError
from nacre.formatting import counted
from nacre.messages.blocks import Text, ToolResult
from nacre.messages.media import media_block, media_facts, media_type
from nacre.messages.tokens import BYTES_PER_TOKEN, estimate_text
from nacre.messages.untrusted_text import printable
from nacre.tools.base import Tool, tool
from nacre.tools.files import MAX_WHOLE_BYTES, SNIFF_BYTES, Encoding, open_regular, sniff
from nacre.tools.shown_lines import ShownLines
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
    page_chars: int = 12_000
    """A longer file is shown as a page unless the call asks for lines; 0: never."""


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
        may_page = limits.page_chars > 0 and offset is None and limit is None and column is None
        lines = range(first, first + (limit or limits.lines))
        wanted = _Wanted(lines, column and max(column, 1), may_page=may_page)
        path = workspace.locate(file_path)
        unsaved = await workspace.unsaved(path)
        found, version = await in_thread(
            lambda stop: _read(path, file_path, wanted, limits=limits, stop=stop, unsaved=unsaved)
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
    may_page: bool
    """No lines were asked for: a large file may be shown as a page."""


def _read(
    path: Path,
    shown: str,
    wanted: _Wanted,
    *,
    limits: ReadSettings,
    stop: threading.Event,
    unsaved: bytes | None,
) -> tuple[ToolResult | str, Version]:
    file, found = open_regular(path, shown)
    with file, file if unsaved is None else io.BytesIO(unsaved) as source:
        if why := UNREADABLE.get(path.suffix.lower()):
            raise ToolError(f"{why}: {shown}.")
        content = source.read(MAX_WHOLE_BYTES + 1) or b""
        is_whole = len(content) <= MAX_WHOLE_BYTES
        version = version_of(content, found) if is_whole else Version(found.st_mtime_ns, found.st_size, None)
        if (kind := media_type(content)) is not None:
            return _shown(content, kind, shown), version
        encoding = sniff(content[:SNIFF_BYTES], shown)
        try:
            if wanted.may_page and is_whole and len(content) > _page_chars(limits):
                whole = content[len(encoding.mark) :].decode(encoding.name, encoding.errors)
                lines = whole.replace("\r\n", "\n").removesuffix("\n").split("\n")
                page = page_of_file(path.name, lines, limits)
                del whole, lines
                if page is not None:
                    return page.text, replace(version, lines=page.lines)
            stream: IO[bytes] = io.BytesIO(content) if is_whole else source
            del content
            with _decoded(stream, encoding) as text:
                most = _page_chars(limits) if wanted.may_page and not is_whole else None
                answer = _numbered(text, wanted, limits, stop=stop, chars=most)
        except UnicodeDecodeError:
            raise ToolError(f"{shown} is not valid {encoding.name} text.") from None
        return answer.text, replace(version, lines=answer.lines)


@contextmanager
def _decoded(stream: IO[bytes], encoding: Encoding) -> Iterator[io.TextIOWrapper]:
    """Yield the stream as text; it stays open."""
    stream.seek(len(encoding.mark))
    # newline="\n": a lone carriage return is no line end for grep, editors and compilers.
    text = io.TextIOWrapper(stream, encoding.name, encoding.errors, newline="\n")
    try:
        yield text
    finally:
        text.detach()


@dataclass(frozen=True, slots=True)
class ReadText:
    """Text for the model, and which lines of the file are in it."""

    text: str
    lines: ShownLines | None
    """None: all."""


HEAD_SHARE = 1 / 8
"""Of `page_chars`, for the first lines of a page: what a file is and what it imports."""
OUTLINE_SHARE = 3 / 8
"""Of `page_chars`, for the names of a page."""
NAME_CHARS = 4_000
"""Characters for each name, on average: rarer names, as in a long list, do not say where to read."""
WITHOUT_NAMES = 2
"""How many times `page_chars` a file without names must have: nothing says which other lines to read."""


def _page_chars(limits: ReadSettings) -> int:
    """Return from how many characters on a file is paged: fewer if one call may return only few tokens."""
    return min(limits.page_chars, limits.tokens * BYTES_PER_TOKEN)


def page_of_file(name: str, lines: Sequence[str], limits: ReadSettings) -> ReadText | None:
    """Return the first lines of a large file and the names after them; None if it is shown as it is.

    Without names, or with few, as many lines are shown as a file may have that is not paged.
    """
    most = _page_chars(limits)
    size = sum(map(len, lines)) + len(lines)
    if size <= most:
        return None
    head = _first_rows(lines, limits, int(most * HEAD_SHARE))
    from nacre.tools.outline import outline  # noqa: PLC0415 - only a large file has one

    names = outline(name, lines, after=len(head), chars=int(most * OUTLINE_SHARE))
    hidden = sum(map(len, lines[len(head) :]))
    if names.rows and hidden <= (len(names.rows) + names.left_out) * NAME_CHARS:
        note = (
            f"[Lines 1-{len(head)} of {len(lines):,} are shown. Names in the other lines follow; read the "
            "lines you need with offset and limit, and before you edit them.]"
        )
        rows = [f"{row.number}\t{printable(row.text)}" for row in names.rows]
        more = [f"[{names.left_out:,} more names between them; Grep finds them.]"] if names.left_out else []
        text = "\n".join([*head, note, *rows, *more])
    else:
        head = _first_rows(lines, limits, most)
        text = "\n".join([*head, f"[More lines follow; go on with offset={len(head) + 1}.]"])
        if size <= most * WITHOUT_NAMES or len(head) == len(lines):
            return None
    return ReadText(text, ((1, len(head)),)) if estimate_text(text) <= limits.tokens else None


def _first_rows(lines: Sequence[str], limits: ReadSettings, chars: int) -> list[str]:
    """Return the first lines with their numbers, at least one of them."""
    rows: list[str] = []
    for number, line in enumerate(lines[: limits.lines], 1):
        row = f"{number}\t{printable(line[: limits.line_chars])}"
        if (more := len(line) - limits.line_chars) > 0:
            row += _cut_note(number, limits.line_chars, f"{more:,}")
        chars -= len(row) + 1
        if rows and chars < 0:
            break
        rows.append(row)
    return rows


def _shown(content: bytes, kind: str, path: str) -> ToolResult:
    """Return a picture or PDF file, with a line that describes it to a model that cannot see it."""
    try:
        block = media_block(content)
    except ValueError as error:
        raise ToolError(f"{path} cannot be shown: {error}; {SMALLER[kind.partition('/')[0]]}.") from None
    return ToolResult("", (Text(f"[{path}: {media_facts(block).text}]"), block))


def _numbered(
    text: io.TextIOWrapper,
    wanted: _Wanted,
    limits: ReadSettings,
    *,
    stop: threading.Event,
    chars: int | None = None,
) -> ReadText:
    """Return the lines asked for with their numbers, the last one where a limit is reached, and a note."""
    shown: list[str] = []
    tokens = 0
    length = 0
    number = 0
    first = wanted.lines.start
    note = ""
    for number, line in enumerate(_lines(text, wanted, limits, stop), start=1):
        if number < first:
            continue
        row = f"{number}\t{line}"
        tokens += estimate_text(row) + 1
        length += len(row) + 1
        if shown and tokens > limits.tokens:
            note = f"[Stopped here: one call returns {limits.tokens:,} tokens; go on with offset={number}.]"
            break
        if shown and chars is not None and length > chars:
            note = f"[More lines follow; go on with offset={number}.]"
            break
        shown.append(row)
        if len(shown) == len(wanted.lines):
            note = f"[More lines follow; go on with offset={number + 1}.]" if text.read(1) else ""
            break
    if shown:
        is_all = first == 1 and not note
        lines = None if is_all else ((first, first + len(shown) - 1),)
        return ReadText("\n".join([*shown, note] if note else shown), lines)
    if not number:
        return ReadText("[The file is empty.]", None)
    return ReadText(f"[The file has only {counted(number, 'line')}; offset={first} is past its end.]", ())


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
