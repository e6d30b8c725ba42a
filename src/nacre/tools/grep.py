"""Grep: search lines in files, with ripgrep if it is installed, else with `search.py`."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from nacre import prompts
from nacre.errors import ToolError
from nacre.process import ProcessExit, ProcessOutput, ProcessSpec, run
from nacre.tools import patterns
from nacre.tools.base import Tool, tool
from nacre.tools.files import hold_directory
from nacre.tools.workspace import Workspace

DESCRIPTION = prompts.load("nacre.tools", "grep")
SEARCH = Path(__file__).with_name("search.py")

Mode = Literal["content", "files_with_matches", "count"]
NOTHING_FOUND = 1
FAILED = 2
"""Exit codes of both ripgrep and `search.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepSettings:
    """Limits of one search."""

    lines: int = 250
    """More matches mean that the pattern is too wide."""
    chars: int = 20_000
    """About 5,000 tokens, however long the lines are."""
    line_chars: int = 500
    """Enough of a line to decide whether to read the file."""
    seconds: float = 30.0
    """A longer search has the wrong path or a pattern that backtracks without end."""
    max_bytes: int = 4 * 1024 * 1024
    """Far more than is shown; the search is ended then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepQuery:
    """One search."""

    pattern: str
    target: str
    names: str | None
    mode: Mode
    before: int
    after: int
    ignore_case: bool


def grep_tool(workspace: Workspace, settings: GrepSettings | None = None) -> Tool:
    """Return the tool that searches the contents of files."""
    limits = settings or GrepSettings()

    @tool(name="Grep", description=DESCRIPTION, read_only=True)
    async def grep(  # noqa: PLR0913  # what the model may say
        pattern: Annotated[str, "A regular expression, matched line by line."],
        path: Annotated[str | None, "A file or directory; the working directory unless given."] = None,
        glob: Annotated[
            str | None, 'Only files with such names, for example "*.py" or "src/**/*.{ts,tsx}".'
        ] = None,
        output_mode: Annotated[
            Mode, "Matching lines, only the files' names, or how many lines match per file."
        ] = ("files_with_matches"),
        before: Annotated[int, "Lines to show before each match."] = 0,
        after: Annotated[int, "Lines to show after each match."] = 0,
        context: Annotated[int, "Lines to show before and after each match."] = 0,
        ignore_case: Annotated[bool, "Upper and lower case are the same."] = False,
        head_limit: Annotated[int | None, "How many lines to return; 250 unless given."] = None,
    ) -> str:
        place = _place(workspace, path or ".")
        query = GrepQuery(
            pattern=pattern,
            target="./" if place.is_dir() else f"./{place.name}",
            names=glob,
            mode=output_mode,
            before=max(before, context, 0),
            after=max(after, context, 0),
            ignore_case=ignore_case,
        )
        wanted = limits.lines if head_limit is None else max(head_limit, 1)
        folder = place if place.is_dir() else place.parent
        with hold_directory(folder, path or ".") as held:
            output, ended = await _search(query, held, limits)
        return _shown(output, ended, wanted, folder=_prefix(workspace, folder))

    return grep


def _place(workspace: Workspace, path: str) -> Path:
    place = workspace.locate(path)
    if not (place.is_dir() or place.is_file()):
        raise ToolError(f"There is no file or directory {path} to search.")
    return place


def _prefix(workspace: Workspace, folder: Path) -> str:
    """What to write before the names of files that were found in a directory."""
    shown = workspace.shown(folder)
    return "" if shown == "." else f"{shown.rstrip('/')}/"


async def _search(query: GrepQuery, cwd: Path, limits: GrepSettings) -> tuple[ProcessOutput, ProcessExit]:
    output = ProcessOutput(head=limits.chars)
    argv = _ripgrep(query, limits) if shutil.which("rg") else _plain(query, limits)
    with tempfile.TemporaryFile() as errors:
        spec = ProcessSpec(
            argv=argv, cwd=cwd, seconds=limits.seconds, max_bytes=limits.max_bytes, stderr=errors
        )
        try:
            ended = await run(spec, output.feed)
        except (OSError, ValueError) as error:
            raise ToolError(f"The search could not be started: {error}.") from None
        errors.seek(0)
        messages = errors.read(limits.chars).decode(errors="replace")
    if ended.why == "timeout":
        raise ToolError(
            f"The search took longer than {limits.seconds:g} s; narrow the path, glob or pattern."
        )
    if ended.why == "exited" and ended.exit_code not in {0, NOTHING_FOUND} and not output.characters:
        raise ToolError(f"Cannot search for {query.pattern!r}: {_error_message(messages)}.")
    return output, ended


def _ripgrep(query: GrepQuery, limits: GrepSettings) -> Sequence[str]:
    modes = {
        "content": ("--line-number",),
        "files_with_matches": ("--files-with-matches",),
        "count": ("--count",),
    }
    return (
        "rg", "--no-config", "--no-messages", "--color=never", "--no-heading", "--with-filename", "--hidden",
        "--sort=path", f"--max-columns={limits.line_chars}", "--max-columns-preview",
        *modes[query.mode],
        f"--before-context={query.before}", f"--after-context={query.after}",
        *(("--ignore-case",) if query.ignore_case else ()),
        *((f"--glob={query.names}",) if query.names else ()),
        "--glob=!.git",  # last, because the last glob that matches decides
        f"--regexp={query.pattern}", "--", query.target,
    )  # fmt: skip


def _plain(query: GrepQuery, limits: GrepSettings) -> Sequence[str]:
    query_json = {
        "target": query.target,
        "pattern": query.pattern,
        "ignore_case": query.ignore_case,
        "names": _names(query.names),
        "mode": query.mode,
        "before": query.before,
        "after": query.after,
        "line_chars": limits.line_chars,
    }
    return (sys.executable, "-I", "-S", "-W", "ignore", os.fspath(SEARCH), "grep", json.dumps(query_json))


def _names(glob: str | None) -> str | None:
    """Translate a glob; without a slash it matches a name at any depth, as in a .gitignore."""
    if glob is None:
        return None
    return patterns.translate(glob.removeprefix("/") if "/" in glob else f"**/{glob}")


def _error_message(messages: str) -> str:
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    named = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return " ".join((named or lines or ["the search failed"])[-1:]).rstrip(".")


def _shown(output: ProcessOutput, ended: ProcessExit, wanted: int, *, folder: str) -> str:
    """Return the first lines and a note if there are more; a line cut by the limit is left out."""
    if not output.characters:
        return "No matches."
    whole, _, rest = output.head.rpartition("\n")
    found = whole.split("\n") if whole else [rest]
    lines = [f"{folder}{line[2:]}" if line.startswith("./") else line for line in found[:wanted]]
    if ended.why == "flood":
        lines.append("[Far too many matches; narrow the path, glob or pattern.]")
    elif output.lines > len(lines):
        lines.append(f"[{output.lines - len(lines):,} more lines; narrow the search or raise head_limit.]")
    return "\n".join(lines)
