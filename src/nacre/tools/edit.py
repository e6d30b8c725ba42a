"""Edit: replace an exact text in a file that was read; everything else keeps its bytes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nacre import prompts
from nacre.errors import ToolError
from nacre.tools.base import Tool, tool
from nacre.tools.files import decode, read_whole
from nacre.tools.workspace import Version, Workspace, check_seen, in_thread, put

DESCRIPTION = prompts.load("nacre.tools", "edit")

SHOWN_LINES = 10
"""How many line numbers a result lists."""


@dataclass(frozen=True, slots=True)
class _Change:
    old: str
    new: str
    everywhere: bool


def edit_tool(workspace: Workspace) -> Tool:
    """Return the tool that edits files that were read before."""

    @tool(name="Edit", description=DESCRIPTION)
    async def edit(
        file_path: Annotated[str, "The file."],
        old_string: Annotated[str, "The text to replace, exactly as it stands in the file."],
        new_string: Annotated[str, "The text to put in its place."],
        replace_all: Annotated[bool, "Replace every occurrence instead of exactly one."] = False,
    ) -> str:
        _check(old_string, new_string)
        path = workspace.locate(file_path)
        seen = workspace.seen(path)
        await workspace.before_change(path)
        change = _Change(old_string, new_string, replace_all)
        content, before, lines = await in_thread(lambda _: _edited(path, file_path, change, seen=seen))
        workspace.saw(path, await put(workspace, path, content, before=before))
        places = f"{len(lines)} place{'s' if len(lines) > 1 else ''}"
        return f"Edited {file_path}: {places}, {_numbers(lines)}."

    return edit


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


def _check(old: str, new: str) -> None:
    if not old:
        raise ToolError("old_string is empty; use Write to create a file or replace it whole.")
    if old == new:
        raise ToolError("old_string and new_string are identical; nothing would change.")
    try:
        new.encode()
    except UnicodeEncodeError:
        raise ToolError(
            "new_string holds half a character (a lone surrogate) and cannot be written."
        ) from None


def _edited(
    path: Path, shown: str, change: _Change, *, seen: Version | None
) -> tuple[bytes, os.stat_result, list[int]]:
    """Return the new content, the stat of the file and the lines that change."""
    content, found = read_whole(path, shown)
    check_seen(seen, content, shown)
    text, encoding = decode(content, shown)
    edited, lines = replaced(text, change.old, change.new)
    if not lines:
        raise ToolError(
            f"old_string is not in {shown}; copy it exactly as Read shows it, without the line numbers."
        )
    if len(lines) > 1 and not change.everywhere:
        raise ToolError(
            f"old_string is in {shown} {len(lines)} times ({_numbers(lines)}); "
            "add lines around it to make it unique, or set replace_all."
        )
    return encoding.mark + edited.encode(encoding.name, encoding.errors), found, lines


def _numbers(lines: list[int]) -> str:
    listed = ", ".join(str(line) for line in lines[:SHOWN_LINES])
    return f"line{'s' if len(lines) > 1 else ''} {listed}" + (" …" if len(lines) > SHOWN_LINES else "")
