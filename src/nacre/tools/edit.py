"""Edit and Write: replace an exact text in a file, or a whole file; an existing one must have been read."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from nacre import prompts
from nacre.errors import ToolError
from nacre.tools.base import Tool, tool
from nacre.tools.files import decode, read_whole
from nacre.tools.shown_lines import EditedLines, ShownLines, after_edits, covers
from nacre.tools.workspace import (
    Version,
    Workspace,
    check_all_shown,
    check_seen,
    check_shown,
    in_thread,
    put,
)

EDIT_DESCRIPTION = prompts.load("nacre.tools", "edit")
WRITE_DESCRIPTION = prompts.load("nacre.tools", "write")

SHOWN_LINES = 10
"""How many line numbers a result lists."""


def edit_tool(workspace: Workspace) -> Tool:
    """Return the tool that edits files that were read before; all but the replaced text keeps its bytes."""

    @tool(name="Edit", description=EDIT_DESCRIPTION)
    async def edit(
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,
    ) -> str:
        if not old_string:
            raise ToolError("old_string is empty; use Write to create a file or replace it whole.")
        if old_string == new_string:
            raise ToolError("old_string and new_string are identical; nothing would change.")
        _encoded(new_string, "new_string")
        path = workspace.locate(file_path)
        seen = workspace.seen(path)
        await workspace.before_change(path)
        unsaved = await workspace.unsaved(path)

        def edited() -> tuple[bytes, os.stat_result, list[int], ShownLines | None]:
            on_disk, before = read_whole(path, file_path)
            content = on_disk if unsaved is None else unsaved
            known = check_seen(seen, content, file_path)
            text, encoding = decode(content, file_path)
            text, lines = replaced(text, old_string, new_string)
            if not lines:
                raise ToolError(
                    f"old_string is not in {file_path}; copy it exactly as Read shows it, "
                    "without the line numbers."
                )
            if len(lines) > 1 and not replace_all:
                raise ToolError(
                    f"old_string is in {file_path} {len(lines)} times ({_numbers(lines)}); "
                    "add lines around it to make it unique, or set replace_all."
                )
            places = [_edited_lines(line, old_string, new_string) for line in lines]
            _check_one_shown(known, places, file_path)
            shown = None if known.lines is None else after_edits(known.lines, places)
            return encoding.mark + text.encode(encoding.name, encoding.errors), before, lines, shown

        content, before, lines, shown = await in_thread(lambda _: edited())
        version = await put(workspace, path, content, before=before)
        workspace.saw(path, replace(version, lines=shown))
        places = f"{len(lines)} place{'s' if len(lines) > 1 else ''}"
        return f"Edited {file_path}: {places}, {_numbers(lines)}."

    return edit


def write_tool(workspace: Workspace) -> Tool:
    """Return the tool that creates files or replaces them whole."""

    @tool(name="Write", description=WRITE_DESCRIPTION)
    async def write(file_path: str, content: str) -> str:
        path = workspace.locate(file_path)
        wanted = _encoded(content, "content")
        seen = workspace.seen(path)
        await workspace.before_change(path)
        unsaved = await workspace.unsaved(path)

        def checked() -> os.stat_result | None:
            if not os.path.lexists(path):
                return None
            on_disk, before = read_whole(path, file_path)
            existing = on_disk if unsaved is None else unsaved
            known = check_seen(seen, existing, file_path)
            if known.lines is not None:
                text = decode(existing, file_path)[0].removesuffix("\n")
                check_all_shown(known, text.count("\n") + 1, file_path)
            return before

        before = await in_thread(lambda _: checked())
        workspace.saw(path, await put(workspace, path, wanted, before=before))
        return f"{'Replaced' if before else 'Created'} {file_path} ({len(wanted):,} bytes)."

    return write


def replaced(text: str, old: str, new: str) -> tuple[str, list[int]]:
    """Replace every occurrence with the file's own line ends; return the text and the line numbers."""
    old = old.replace("\r\n", "\n")
    new = new.replace("\r\n", "\n")
    if "\r\n" not in text:
        pattern = re.compile(re.escape(old))
    else:
        pattern = re.compile("\r?\n".join(re.escape(line) for line in old.split("\n")))
    mostly_crlf = text.count("\r\n") * 2 > text.count("\n")
    pieces: list[str] = []
    lines: list[int] = []
    end = 0
    line = 1
    for match in pattern.finditer(text):
        line += text.count("\n", end, match.start())
        lines.append(line)
        line += match[0].count("\n")
        crlf = "\r\n" in match[0] if "\n" in match[0] else mostly_crlf
        pieces += [text[end : match.start()], new.replace("\n", "\r\n") if crlf else new]
        end = match.end()
    return "".join([*pieces, text[end:]]), lines


def _edited_lines(line: int, old: str, new: str) -> EditedLines:
    """Return the lines that a replacement touches which begins in this line."""
    old = old.replace("\r\n", "\n")
    new = new.replace("\r\n", "\n")
    last = line + old.count("\n") - old.endswith("\n")
    # A line break at the beginning ends a line whose text is not replaced.
    first = min(line + old.startswith("\n"), last)
    return EditedLines(
        first,
        last,
        added=new.count("\n") - old.count("\n"),
        joins_next=old.endswith("\n") and not new.endswith("\n"),
        joins_previous=first > line and not new.startswith("\n"),
    )


def _check_one_shown(known: Version, places: list[EditedLines], shown: str) -> None:
    """Refuse an edit of text that was not shown.

    Of several places one is enough: all others hold the same text and are to be replaced, too.
    """
    if known.lines is None or not any(covers(known.lines, one.first, one.last) for one in places):
        check_shown(known, places[0].first, places[0].last, shown)


def _encoded(text: str, argument: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError(
            f"{argument} holds half a character (a lone surrogate) and cannot be written."
        ) from None


def _numbers(lines: list[int]) -> str:
    listed = ", ".join(str(line) for line in lines[:SHOWN_LINES])
    return f"line{'s' if len(lines) > 1 else ''} {listed}" + (" …" if len(lines) > SHOWN_LINES else "")
