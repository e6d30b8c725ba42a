"""Grep and Glob: search lines in files, and list files by name.

Grep runs ripgrep on directories if it is installed and no rule hides files, else `search.py`; Glob always
runs `search.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Annotated, Literal

from nacre import prompts
from nacre.errors import ToolError
from nacre.messages.untrusted_text import printable
from nacre.process import Feed, ProcessExit, ProcessSpec, run
from nacre.tools import patterns
from nacre.tools.base import Tool, tool
from nacre.tools.files import hold_directory
from nacre.tools.output import ToolOutput
from nacre.tools.search import GlobTask, GrepTask
from nacre.tools.workspace import Workspace

GREP_DESCRIPTION = prompts.load("nacre.tools", "grep")
GLOB_DESCRIPTION = prompts.load("nacre.tools", "glob")
SEARCH = (sys.executable, "-I", "-S", "-W", "ignore", os.fspath(Path(__file__).with_name("search.py")))
FOUND_CODES = frozenset({0, 1})
"""Exit codes of both ripgrep and `search.py` if something was found and if nothing was."""
RIPGREP_CUT = re.compile(rb" \[\.\.\. (?:omitted end of long line|\d+ more match(?:es)?)\]$", re.MULTILINE)
"""How ripgrep marks a line that it cut."""
ROW_SIGN = re.compile(rb"\d+([:-])")
"""The number of a line, and the sign that tells a match from a line around it."""
LONGEST_ROW_BYTES = 65_536
"""More than a path and the part of a line that is shown take."""

Mode = Literal["content", "files_with_matches", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepSettings:
    """Limits of one search for lines."""

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
class GlobSettings:
    """Limits of one search for names."""

    files: int = 100
    """The newest are most likely relevant; more matches mean that the pattern is too wide."""
    seconds: float = 30.0
    """A longer walk means that the tree is too large to list."""
    max_bytes: int = 1024 * 1024
    """Twice a hundred of the longest possible paths."""


def grep_tool(workspace: Workspace, settings: GrepSettings | None = None) -> Tool:
    """Return the tool that searches the contents of files."""
    limits = settings or GrepSettings()

    @tool(name="Grep", description=GREP_DESCRIPTION, read_only=True)
    async def grep(  # noqa: PLR0913  # what the model may say
        pattern: str,
        path: Annotated[str | None, "A file or directory."] = None,
        glob: Annotated[str | None, "Such as `*.py` or `src/**/*.{ts,tsx}`."] = None,
        output_mode: Mode = "files_with_matches",
        before: int = 0,
        after: int = 0,
        context: int = 0,
        ignore_case: bool = False,
        head_limit: int | None = None,
    ) -> str:
        place = workspace.locate(path or ".")
        if not (place.is_dir() or place.is_file()):
            raise ToolError(f"There is no file or directory {path or '.'} to search.")
        folder = place if place.is_dir() else place.parent
        # Without a slash a glob matches a name at any depth, as in a .gitignore.
        names = glob.removeprefix("/") if glob is not None and "/" in glob else f"**/{glob}"
        task: GrepTask = {
            "target": "./" if place.is_dir() else f"./{place.name}",
            "pattern": pattern,
            "ignore_case": ignore_case,
            "names": None if glob is None else patterns.translate(names),
            "mode": output_mode,
            "before": max(before, context, 0),
            "after": max(after, context, 0),
            "line_chars": limits.line_chars,
            "hidden": workspace.hidden,
        }
        wanted = limits.lines if head_limit is None else max(head_limit, 1)

        async def search(argv: Sequence[str]) -> tuple[str, bool]:
            """Return the lines, and whether ripgrep cut one."""
            sizes = {"head": limits.chars, "lines": limits.lines, "max_bytes": limits.max_bytes}
            opens = workspace.opens_output
            with hold_directory(folder, path or ".") as held, ToolOutput(opens, **sizes) as output:
                lines = _GrepLines(output, workspace.shown(folder), rows=limits.chars)
                ended = await _search(argv, pattern, held, limits, lines)
                return await _matches(lines, ended, wanted), lines.has_cut

        own_engine = (*SEARCH, "grep", json.dumps(task))
        # ripgrep reads rules about names in another way, and follows a link that it is given by name.
        if not shutil.which("rg") or workspace.hidden or not place.is_dir():
            return (await search(own_engine))[0]
        text, has_cut = await search(_ripgrep(task, glob))
        if has_cut:
            # Only `search.py` shows a long line around the match; it may not know the pattern's syntax.
            with contextlib.suppress(ToolError):
                return (await search(own_engine))[0]
        return text

    return grep


class _GrepLines:
    """Passes the output of a search on, with paths as the model writes them; knows the path of each row."""

    def __init__(self, output: ToolOutput, folder: str, *, rows: int) -> None:
        self.output = output
        self._rows = rows
        self.paths: list[str] = []
        """Of the first `rows` rows; empty for one that is no line of a file."""
        self._prefix = b"" if folder == "." else f"{folder.rstrip('/')}/".encode(errors="surrogateescape")
        self._held = b""
        """A row whose end has not arrived."""
        self._is_inside = False
        """Whether the last row was passed on without its end."""
        self.has_cut = False
        """Whether ripgrep cut a line, which `search.py` shows around the match."""

    def feed(self, chunk: bytes) -> bool:
        data = self._held + chunk
        at = len(data)
        if chunk:
            # Only whole lines are passed on, unless one is longer than any that a search prints.
            at = data.rfind(b"\n") + 1 or (len(data) if len(data) > LONGEST_ROW_BYTES else 0)
        self._held = data[at:]
        rows = data[:at].split(b"\n")
        last = rows.pop()
        passed = b"".join(self._row(row) + b"\n" for row in rows)
        if last:
            passed += self._row(last)
            self._is_inside = True
        self.has_cut = self.has_cut or RIPGREP_CUT.search(passed) is not None
        is_taken = self.output.feed(passed) if passed else True
        return (self.output.feed(b"") if not chunk else True) and is_taken

    def _row(self, row: bytes) -> bytes:
        if self._is_inside:
            self._is_inside = False
            return row
        if row.startswith(b"./"):
            row = self._prefix + row[2:]
        path, mark, rest = row.partition(b"\0")
        sign = ROW_SIGN.match(rest)
        if not mark or sign is None:
            path = b""
        if len(self.paths) < self._rows:
            self.paths.append(path.decode(errors="replace"))
        return path + sign[1] + rest if path and sign else row


def _ripgrep(task: GrepTask, glob: str | None) -> Sequence[str]:
    modes = {"content": "--line-number", "files_with_matches": "--files-with-matches", "count": "--count"}
    return (
        "rg", "--no-config", "--no-messages", "--color=never", "--no-heading", "--with-filename", "--hidden",
        "--sort=path", f"--max-columns={task['line_chars']}", "--max-columns-preview", modes[task["mode"]],
        f"--before-context={task['before']}", f"--after-context={task['after']}",
        *(("--ignore-case",) if task["ignore_case"] else ()),
        *((f"--glob={glob}",) if glob else ()),
        "--glob=!.git",  # last, because the last glob that matches decides
        *(("--null",) if task["mode"] == "content" else ()),
        f"--regexp={task['pattern']}", "--", task["target"],
    )  # fmt: skip


async def _search(
    argv: Sequence[str], pattern: str, cwd: Path, limits: GrepSettings, lines: _GrepLines
) -> ProcessExit:
    with tempfile.TemporaryFile() as errors:
        spec = ProcessSpec(argv=argv, cwd=cwd, seconds=limits.seconds, max_bytes=None, stderr=errors)
        ended = await _run(spec, lines.feed, "narrow the path, glob or pattern")
        errors.seek(0)
        messages = errors.read(limits.chars).decode(errors="replace")
    if ended.why == "exited" and ended.exit_code not in FOUND_CODES and not lines.output.text.characters:
        listed = [line.strip() for line in messages.splitlines() if line.strip()]
        named = [line.removeprefix("error: ") for line in listed if line.startswith("error: ")]
        why = (named or listed or ["the search failed"])[-1].rstrip(".")
        raise ToolError(f"Cannot search for {pattern!r}: {why}.")
    return ended


async def _run(spec: ProcessSpec, feed: Feed, advice: str) -> ProcessExit:
    try:
        ended = await run(spec, feed)
    except (OSError, ValueError) as error:
        raise ToolError(f"The search could not be started: {error}.") from None
    if ended.why == "timeout":
        raise ToolError(f"The search took longer than {spec.seconds:g} s; {advice}.")
    return ended


async def _matches(found: _GrepLines, ended: ProcessExit, wanted: int) -> str:
    """Return the first lines by file, and a note if there are more; a line cut by the limit is left out."""
    output = found.output
    text = output.text
    if not text.characters:
        return "No matches."
    whole, _, rest = text.head.rpartition("\n")
    lines = (whole.split("\n") if whole else [rest])[:wanted]
    more = text.lines - len(lines)
    if any(found.paths):
        paths = [*found.paths, *repeat("", len(lines))]
        from nacre.tools.squeeze import FoundLine, by_file  # noqa: PLC0415 - only matching lines need it

        lines = by_file(
            FoundLine(path, line[len(path) + 1 :] if path else line)
            for path, line in zip(paths, lines, strict=False)
        )
    if more > 0 or ended.why == "flood":
        await output.finish(is_cut=False)
    if ended.why == "flood" and output.whole is None:
        lines.append("[Far too many matches; narrow the path, glob or pattern.]")
    elif more > 0:
        lines.append(output.note(f"{more:,} more lines", "narrow the search or raise head_limit"))
    return "\n".join(lines)


def glob_tool(workspace: Workspace, settings: GlobSettings | None = None) -> Tool:
    """Return the tool that lists files whose path matches a pattern, newest first."""
    limits = settings or GlobSettings()

    @tool(name="Glob", description=GLOB_DESCRIPTION, read_only=True)
    async def glob(
        pattern: str,
        path: str | None = None,
    ) -> str:
        rest = patterns.split_fixed(pattern)[1]
        if not rest:
            raise ToolError("The pattern is empty or ends with a slash; name the files, for example **/*.py.")
        place = workspace.locate(patterns.named_place(path or ".", pattern))
        if not place.is_dir():
            raise ToolError(f"There is no directory {place} to search.")
        task: GlobTask = {
            "target": ".",
            "names": patterns.translate(rest),
            "limit": limits.files if workspace.opens_output is None else None,
            "hidden": workspace.hidden,
        }
        output = ToolOutput(
            workspace.opens_output, head=limits.max_bytes, lines=limits.files, max_bytes=limits.max_bytes
        )
        names = _GlobNames(output, workspace.shown(place))
        with output:
            with hold_directory(place, str(place)) as held:
                argv = (*SEARCH, "glob", json.dumps(task))
                spec = ProcessSpec(argv=argv, cwd=held, seconds=limits.seconds, max_bytes=None)
                ended = await _run(spec, names.feed, "name a directory to search in")
            if ended.exit_code not in FOUND_CODES and ended.why == "exited":
                raise ToolError(f"Cannot use the pattern {rest}: {names.error.strip()}.")
            lines = output.text.head.split("\n")[: limits.files]
            if names.total > limits.files:
                await output.finish()
                shown = f"The newest {limits.files} of {names.total:,} files"
                lines.append(output.note(shown, "narrow the pattern to see others"))
        return "\n".join(lines).removesuffix("\n") or "No files match."

    return glob


class _GlobNames:
    """Reads what `search.py` prints about names: the total, then a path as JSON in every line."""

    def __init__(self, output: ToolOutput, place: str) -> None:
        self._output = output
        self._prefix = "" if place == "." else f"{place.rstrip('/')}/"
        self._held = b""
        self.total = -1
        self.error = ""

    def feed(self, chunk: bytes) -> bool:
        *lines, self._held = (self._held + chunk).split(b"\n")
        names: list[str] = []
        for line in lines:
            if line.startswith(b"error: "):
                self.error = line.removeprefix(b"error: ").decode(errors="replace")
            elif self.total < 0:
                self.total = int(line)
            else:
                names.append(f"{printable(self._prefix + json.loads(line).removeprefix('./'))}\n")
        text = "".join(names).encode(errors="surrogateescape")
        is_taken = self._output.feed(text) if text else True
        return (self._output.feed(b"") if not chunk else True) and is_taken
