"""Tool results in a view: the calls they answer, which are pinned, and where the whole of a cut one is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nacre.clock import Clock
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.records import Noted
from nacre.messages.view import View


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call and its result."""

    call: ToolCall
    result: ToolResult
    record_id: str
    """Id of the record with the result."""
    item: int
    """Index of that record among the items of the view."""
    tokens: int
    """Estimated tokens of the result."""

    @property
    def id(self) -> str:
        return self.call.id


def answered_calls(items: Iterable[Item]) -> list[AnsweredCall]:
    """Return every call that has a result, in order of the results; the first of two results counts."""
    calls: dict[str, ToolCall] = {}
    found: list[AnsweredCall] = []
    for place, item in enumerate(items):
        for part in item.parts:
            match part.block:
                case ToolCall() as call if item.role == "assistant":
                    calls.setdefault(call.id, call)
                case ToolResult() as result if result.call_id in calls:
                    found.append(
                        AnsweredCall(calls.pop(result.call_id), result, part.record_id, place, part.tokens)
                    )
                case _:
                    pass
    return found


PIN = "pin"
"""Kind of the note that pins or unpins a result."""


def pinned(view: View) -> frozenset[str]:
    """Return the calls whose results are pinned; the last note of each counts."""
    said = {str(note.fact("call")): note.fact("on") is not False for note in view.noted(PIN)}
    return frozenset(call for call, is_on in said.items() if is_on)


def pin(call_id: str, clock: Clock, *, on: bool = True, by: str = "user") -> Noted:
    """Return the note that pins or unpins the result of a call; `by` is "user" or "model"."""
    return Noted(id=clock.new_id(), at=clock.now(), kind=PIN, facts={"call": call_id, "on": on, "by": by})


@dataclass(frozen=True, slots=True)
class WholeOutput:
    """The file with the output of a tool whose result shows only a part of it."""

    path: str
    bytes: int
    chars: int
    missing: str = ""
    """Why the file holds only the beginning; empty if it holds everything."""

    def note(self, left_out: str) -> str:
        """Return the line that takes the place of what is left out."""
        if self.missing:
            return f"[{left_out}; only the first {self.bytes:,} bytes are in {self.path}: {self.missing}]"
        return f"[{left_out}; all {self.chars:,} characters ({self.bytes:,} bytes) are in {self.path}]"


_WHOLE = re.compile(
    r"^\[[^\n]*; all ([\d,]+) characters \(([\d,]+) bytes\) are in (/[^\n]*)\]$", re.MULTILINE
)
_BEGINNING = re.compile(
    r"^\[[^\n]*; only the first ([\d,]+) bytes are in (/[^\n]*?): ([^\n]*)\]$", re.MULTILINE
)


def noted_outputs(text: str) -> list[WholeOutput]:
    """Return the files that lines such as those of `WholeOutput.note` name.

    Any tool can print such a line: the caller checks that the file belongs to the call.
    """
    whole = [WholeOutput(one[3], _number(one[2]), _number(one[1])) for one in _WHOLE.finditer(text)]
    return whole + [WholeOutput(one[2], _number(one[1]), 0, one[3]) for one in _BEGINNING.finditer(text)]


UNKNOWN = "a part of it"
"""If the tool does not report how much is missing."""
MCP_PREFIX = "mcp__"
_CUTTING = frozenset({"Bash", "Grep", "Glob", "WebFetch"})
"""Tools whose output goes to a file if it is too long to be shown, and is cut if the disk refuses."""

_BASH_END = re.compile(
    r"\n\[([\d,]+) more characters left out; use head, tail, grep or a file to see them\.\]"
    r"(?:\n\[[^\n]*\])?\Z"
)
_BASH_MIDDLE = re.compile(r"\n\[([\d,]+) characters left out\](?=\n)")
_GREP = re.compile(r"\n\[([\d,]+) more lines; narrow the search or raise head_limit\.\]\Z")
_GREP_ROW = re.compile(r"\d+[:-]")
_GREP_FLOOD = re.compile(r"\n\[Far too many matches; narrow the path, glob or pattern\.\]\Z")
_GREP_LINE = re.compile(
    r"\[(?:… [\d,]+ more characters|\.\.\. (?:omitted end of long line|\d+ more match(?:es)?))\]$",
    re.MULTILINE,
)
_GLOB = re.compile(r"\n\[The newest ([\d,]+) of ([\d,]+) files; narrow the pattern to see others\.\]\Z")
_READ = re.compile(r"\n\[Stopped here: one call returns [\d,]+ tokens; go on with offset=\d+\.\]\Z")
PAGED = re.compile(r"\[Lines 1-([\d,]+) of ([\d,]+) are shown\. ")
"""The note of a Read that shows the beginning and an outline of a large file."""
_PAGE = re.compile(rf"^{PAGED.pattern}", re.MULTILINE)
_WEB = re.compile(r"\n\n\[cut: ([\d,]+) more characters\]\Z")
_WEB_BYTES = re.compile(r"\n\n\[cut: this is the beginning of a page of more than [\d,]+ bytes\]\Z")
_MCP = re.compile(r"\[result cut here: (?:text of ([\d,]+) characters)?.*; ask the tool for less, [^\]]*\]")


_LOST = re.compile(r"^\[[^\n]* and could not be kept: [^\n]*\]$", re.MULTILINE)


def cut_of(tool: str, result: ToolResult) -> str | None:
    """Return how much a tool returned, such as "30,000 of 588,895 characters"; None for all of it."""
    texts = [part.text for part in result.content if isinstance(part, Text)]
    if not texts:
        return None
    if (tool in _CUTTING or tool.startswith(MCP_PREFIX)) and any(_LOST.search(text) for text in texts):
        return UNKNOWN
    if tool.startswith(MCP_PREFIX):
        return _cut_of_mcp(texts)
    return _cut_by(tool, texts[0], is_error=result.is_error) if len(texts) == 1 else None


def _cut_by(tool: str, text: str, *, is_error: bool) -> str | None:
    match tool:
        case "Bash":
            return _characters(text, (_BASH_MIDDLE if is_error else _BASH_END).search(text))
        case "Grep" if found := _GREP.search(text):
            held = _found_lines(text[: found.start()])
            return f"{held:,} of {held + _number(found[1]):,} lines"
        case "Grep":
            return UNKNOWN if _GREP_FLOOD.search(text) or _GREP_LINE.search(text) else None
        case "Glob" if found := _GLOB.search(text):
            return f"{found[1]} of {found[2]} files"
        case "Read" if found := _PAGE.search(text):
            return f"{found[1]} of {found[2]} lines"
        case "Read":
            return UNKNOWN if _READ.search(text) else None
        case "WebFetch":
            return UNKNOWN if _WEB_BYTES.search(text) else _characters(text, _WEB.search(text))
        case _:
            return None


def _found_lines(text: str) -> int:
    """Return how many rows of a search a text shows; the paths above the lines of each file do not count."""
    rows = text.split("\n")
    is_grouped = len(rows) > 1 and _GREP_ROW.match(rows[1]) is not None
    return len(rows) - 1 - 2 * rows.count("") if is_grouped else len(rows)


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
