"""Whether a tool cut its own result, by the note that it put where it cut.

The note is part of the text, so that it can be read from a log as well.
"""

from __future__ import annotations

import re

from nacre.messages.blocks import Text, ToolResult

UNKNOWN = "a part of it"
"""Where the tool does not say how much is missing."""
MCP_PREFIX = "mcp__"

_BASH_END = re.compile(
    r"\n\[([\d,]+) more characters left out; use head, tail, grep or a file to see them\.\]"
    r"(?:\n\[[^\n]*\])?\Z"
)
_BASH_MIDDLE = re.compile(r"\n\[([\d,]+) characters left out\](?=\n)")
_GREP = re.compile(r"\n\[([\d,]+) more lines; narrow the search or raise head_limit\.\]\Z")
_GREP_FLOOD = re.compile(r"\n\[Far too many matches; narrow the path, glob or pattern\.\]\Z")
_GREP_LINE = re.compile(
    r"\[(?:… [\d,]+ more characters|\.\.\. (?:omitted end of long line|\d+ more match(?:es)?))\]$",
    re.MULTILINE,
)
_GLOB = re.compile(r"\n\[The newest ([\d,]+) of ([\d,]+) files; narrow the pattern to see others\.\]\Z")
_READ = re.compile(r"\n\[Stopped here: one call returns [\d,]+ tokens; go on with offset=\d+\.\]\Z")
_WEB = re.compile(r"\n\n\[cut: ([\d,]+) more characters\]\Z")
_WEB_BYTES = re.compile(r"\n\n\[cut: this is the beginning of a page of more than [\d,]+ bytes\]\Z")
_MCP = re.compile(r"\[result cut here: (?:text of ([\d,]+) characters)?.*; ask the tool for less, [^\]]*\]")


def cut_of(tool: str, result: ToolResult) -> str | None:
    """How much of its result a tool returned, such as "30,000 of 588,895 characters"; none for all of it."""
    texts = [part.text for part in result.content if isinstance(part, Text)]
    if not texts:
        return None
    if tool.startswith(MCP_PREFIX):
        return _cut_of_mcp(texts)
    return _cut_by(tool, texts[0], is_error=result.is_error) if len(texts) == 1 else None


def _cut_by(tool: str, text: str, *, is_error: bool) -> str | None:
    match tool:
        case "Bash":
            return _characters(text, (_BASH_MIDDLE if is_error else _BASH_END).search(text))
        case "Grep" if found := _GREP.search(text):
            held = text.count("\n", 0, found.start()) + 1
            return f"{held:,} of {held + _number(found[1]):,} lines"
        case "Grep":
            return UNKNOWN if _GREP_FLOOD.search(text) or _GREP_LINE.search(text) else None
        case "Glob" if found := _GLOB.search(text):
            return f"{found[1]} of {found[2]} files"
        case "Read":
            return UNKNOWN if _READ.search(text) else None
        case "WebFetch":
            return UNKNOWN if _WEB_BYTES.search(text) else _characters(text, _WEB.search(text))
        case _:
            return None


def _cut_of_mcp(texts: list[str]) -> str | None:
    found = _MCP.fullmatch(texts[-1])
    if found is None:
        return None
    is_one_text = len(texts) == 2 and found[1]
    return f"{len(texts[0]):,} of {found[1]} characters" if is_one_text else UNKNOWN


def _characters(text: str, found: re.Match[str] | None) -> str | None:
    if found is None:
        return None
    held = len(text) - len(found[0])
    return f"{held:,} of {held + _number(found[1]):,} characters"


def _number(written: str) -> int:
    return int(written.replace(",", ""))
