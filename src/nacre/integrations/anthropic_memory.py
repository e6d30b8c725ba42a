"""Anthropic's memory tool on a nacre memory: paths are contained, each command is one undoable commit (M6,
M15).

    tool = MemoryTool(await open_memory())
    runner = client.beta.messages.tool_runner(tools=[tool], ...)

`/memories` is the memory directory. The model sees bodies; nacre maintains frontmatter and index.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from nacre.errors import OutsideStore, StoreError, VersionConflict
from nacre.formatting import how_to_install
from nacre.memory.checks.local_only import LocalOnly
from nacre.memory.files.containment import inside, topic_inside
from nacre.memory.files.folder import ABSENT, SUFFIX, Folder, is_ours, version_of
from nacre.memory.files.transaction import Transaction
from nacre.memory.format.entry import Entry, MemoryChange, MemoryDraft, compose, read_entry
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import INDEX_FILE, MemoryIndex
from nacre.memory.memory import Memory, refuse_secrets
from nacre.memory.tools import DOUBT, OriginOf, by_agent
from nacre.messages.untrusted_text import neutralise

try:
    from anthropic.lib.tools import BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818Command,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )
except ImportError as error:
    raise ImportError(f"this module needs Anthropic's SDK: {how_to_install('anthropic')}") from error


MAX_LINES = 999_999
"""Line numbers have six digits."""
MAX_VIEW_CHARS = 16_000
"""The API tells the model that longer texts are cut when viewed whole."""
AROUND = 2
"""Lines shown before and after a replacement."""


class MemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool of the Messages API on a nacre memory."""

    def __init__(
        self,
        memory: Memory,
        *,
        session: str = "",
        origin_of: OriginOf = by_agent,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.memory = memory
        self._session = session
        self._origin_of = origin_of
        self._folder = Folder(memory.location.directory)
        self._stays = LocalOnly(memory.location)
        self._one_at_a_time = asyncio.Lock()
        """A reply may hold several calls, which a runner executes concurrently."""

    async def execute(self, command: BetaMemoryTool20250818Command) -> str:
        """Run a command; a refusal becomes an error result for the model."""
        async with self._one_at_a_time:
            try:
                return cast("str", await super().execute(command))
            except StoreError as error:
                raise ToolError(f"Error: {str(error).replace(str(self._folder.root), ROOT)}") from error
            except (AttributeError, NotImplementedError) as error:
                raise ToolError(
                    f"Error: the command cannot be read: {error}; look at its parameters"
                ) from error

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return a file with line numbers, or the files below a folder."""
        places = await self._places()
        path = command.path
        if (file := places.file(path)) is None:
            if (below := places.below(path)) is not None:
                return listing(path, below)
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        text, doubt = await self._text(file)
        lines = text.split("\n")
        if len(lines) > MAX_LINES:
            raise ToolError(f"File {path} exceeds maximum line limit of {MAX_LINES:,} lines.")
        view_range = getattr(command, "view_range", None)
        first, last = view_range if view_range and len(view_range) == 2 else (1, -1)
        shown = _numbered(lines, max(first, 1), len(lines) if last == -1 else last)
        header = f"Here's the content of {path} with line numbers{doubt}:\n"
        return header + (neutralise(shown) if view_range else _cut(neutralise(shown)))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file; an existing one is not overwritten."""
        places = await self._places()
        file = places.new_file(command.path)
        text = command.file_text
        if file in {*places.files, *places.hidden} or places.below(command.path):
            raise ToolError(f"Error: File {command.path} already exists")
        await self._put(file, None, text, "create")
        created = f"File created successfully at: {shown_path(file)}"
        if MarkdownFile.parse(text.encode(errors="replace")).has_frontmatter:
            created += " (its frontmatter is kept apart: lines are counted from below it)"
        return created

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs once in a file; without a new text it is removed."""
        file, data = await self._existing(command.path)
        # The parameter may be missing, whatever the SDK's type says.
        old = command.old_str
        new = getattr(command, "new_str", None) or ""
        body = MarkdownFile.parse(data).body
        at = _only_place(body, old, command.path)
        edited = body[:at] + new + body[at + len(old) :]
        await self._put(file, data, edited, "str_replace")
        line = body.count("\n", 0, at) + 1
        lines = edited.split("\n")
        last = line + new.count("\n") + AROUND
        snippet = neutralise(_numbered(lines, max(1, line - AROUND), min(len(lines), last)))
        return f"The memory file has been edited.\n{_cut(snippet)}"

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines after a line; 0 inserts at the top."""
        file, data = await self._existing(command.path, hint="")
        body = MarkdownFile.parse(data).body
        lines = body.removesuffix("\n").split("\n") if body else []
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Error: Invalid `insert_line` parameter: {command.insert_line}. "
                f"It should be within the range of lines of the file: [0, {len(lines)}]"
            )
        lines.insert(command.insert_line, command.insert_text.removesuffix("\n"))
        await self._put(file, data, "\n".join(lines) + "\n", "insert")
        return f"The file {command.path} has been edited."

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file or folder; the history still has it."""
        places = await self._places()
        files = places.meant(command.path, "delete")
        if not files:
            raise ToolError(f"Error: The path {command.path} does not exist")
        async with self.memory.transact(self._signed("delete", command.path)) as tx:
            for file in files:
                tx.delete(file)
                _unlist(tx, file)
        return f"Successfully deleted {command.path}"

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Rename a file or folder; nothing is overwritten."""
        places = await self._places()
        old = command.old_path
        new = command.new_path
        if not places.meant(old, "rename"):
            raise ToolError(f"Error: The path {old} does not exist")
        if places.is_taken(new):
            raise ToolError(f"Error: The destination {new} already exists")
        moves = places.moves(old, new)
        for file in moves.values():
            refuse_secrets("", file=file)
        await self._move(moves, self._signed("rename", f"{old} to {new}"))
        to = shown_path(next(iter(moves.values()))) if places.file(old) else new
        return f"Successfully renamed {old} to {to}"

    async def clear_all_memory(self) -> str:
        """Delete every memory; `nacre memory undo` restores them."""
        files = (await self._places(tells_all=True)).clearable()
        async with self.memory.transact(self._signed("clear_all_memory", ROOT)) as tx:
            for file in files:
                tx.delete(file)
                _unlist(tx, file)
        return "All memory cleared"

    async def _places(self, *, tells_all: bool = False) -> Places:
        """Return the files of the directory without those that must not leave the machine (M27)."""
        stamps = await asyncio.to_thread(self._folder.scan)
        hidden = frozenset() if tells_all else (await asyncio.to_thread(self._stays.now)).files
        sizes = {file: stamp[2] for file, stamp in stamps.items() if file not in hidden}
        return Places(self._folder.root, sizes, hidden)

    async def _existing(
        self, path: str, *, hint: str = ". Please provide a valid path."
    ) -> tuple[str, bytes]:
        """Return a file that may be changed, and its bytes."""
        file = (await self._places()).file(path, to_change=True)
        data = None if file is None else await asyncio.to_thread(self._folder.read, file)
        if file is None or data is None:
            raise ToolError(f"Error: The path {path} does not exist{hint}")
        return file, data

    async def _text(self, file: str) -> tuple[str, str]:
        """Return the body of a file with a note on its origin (M16b)."""
        data = await asyncio.to_thread(self._folder.read, file) or b""
        if file == INDEX_FILE:
            staying = await asyncio.to_thread(self._stays.now)
            return staying.without((await self.memory.index(without=staying.files)).text), ""
        entry = read_entry(file, data)
        return entry.body, DOUBT if not entry.is_trusted else ""

    async def _put(self, file: str, before: bytes | None, body: str, command: str) -> None:
        """Write a body below its frontmatter; frontmatter that the model wrote is kept as text, not
        interpreted."""
        given = (
            MarkdownFile.parse(body.encode(errors="replace"))
            if before is None
            else MarkdownFile.parse(before)
        )
        if before is None and given.has_frontmatter:
            body = given.body
        previous = None if before is None and not given.has_frontmatter else given
        # Named by its path, because the model may change the first line.
        name = "" if "name" in given.fields or before is not None else Entry(file=file).title
        draft = MemoryDraft(body=body, file=file, name=name, origin=self._origin_of(body))
        data = compose(draft, file=file, now=self.memory.clock.now(), previous=previous)
        # Exactly as the model wrote it: it will refer to these lines by number.
        exact = MarkdownFile.parse(data).with_body(body)
        version = ABSENT if before is None else version_of(before)
        await self.memory.put(file, exact, self._signed(command, shown_path(file)), if_version=version)

    async def _move(self, moves: Mapping[str, str], change: MemoryChange) -> None:
        async with self.memory.transact(change) as tx:
            for old, new in moves.items():
                data, version = tx.read(old)
                if data is None:
                    raise VersionConflict(f"{old} is gone meanwhile; view the directory again")
                tx.delete(old, if_version=version)
                tx.write(new, data, if_version=ABSENT)
                _unlist(tx, old)
                self.memory.update_index(tx, read_entry(new, data))

    def _signed(self, command: str, path: str) -> MemoryChange:
        return MemoryChange(author="agent", reason=f"memory tool: {command} {path}", session=self._session)


def _unlist(tx: Transaction, file: str) -> None:
    """Remove a file's line from the index."""
    data, version = tx.read(INDEX_FILE)
    if data is not None:
        tx.write(INDEX_FILE, MemoryIndex.parse(data).without(file), if_version=version)


def _only_place(body: str, old: str, path: str) -> int:
    """Return the offset of a text that occurs once in the body."""
    if not old:
        raise ToolError("Error: `old_str` is empty; quote the words to replace")
    found = []
    at = body.find(old)
    while at >= 0:
        found.append(at)
        at = body.find(old, at + 1)
    if not found:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if len(found) > 1:
        lines = ", ".join(str(body.count("\n", 0, at) + 1) for at in found)
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
    return found[0]


def _numbered(lines: list[str], first: int, last: int) -> str:
    return "\n".join(f"{n:>6}\t{lines[n - 1]}" for n in range(first, min(last, len(lines)) + 1))


def _cut(shown: str) -> str:
    if len(shown) <= MAX_VIEW_CHARS:
        return shown
    end = shown.rfind("\n", 0, MAX_VIEW_CHARS)
    kept = shown[: end if end > 0 else MAX_VIEW_CHARS]
    return f"{kept}\n(cut after {MAX_VIEW_CHARS:,} characters; view_range shows the rest)"


ROOT = "/memories"
LEVELS = 2
"""Depth of a folder listing, as the API tells the model."""
SKIPPED = "node_modules"
KILO = 1024


@dataclass(frozen=True, slots=True)
class Places:
    """The files of a memory directory as paths below `/memories`."""

    root: Path
    files: Mapping[str, int]
    """Sizes by name."""
    hidden: frozenset[str] = frozenset()
    """Files that the model must not see; no file can be created with these names."""

    def file(self, path: str, *, to_change: bool = False) -> str | None:
        """Return the file of a path, with or without `.md`, or None."""
        relative = self._relative(path)
        name = relative if relative in self.files else relative + SUFFIX
        if name not in self.files or (name != relative and self.below(path) is not None):
            return None
        return self._topic(name) if to_change else name

    def new_file(self, path: str) -> str:
        """Return the name for a new file; `.md` is added where it is missing."""
        relative = self._relative(path)
        if not relative:
            raise OutsideStore(f"{path} is the memory directory itself; name a file in it")
        return self._topic(relative if relative.endswith(SUFFIX) else relative + SUFFIX)

    def is_taken(self, path: str) -> bool:
        """Whether this name, or the one it would be given, exists."""
        there = self.file(path) is not None or self.below(path) is not None
        return there or self.new_file(path) in self.hidden

    def below(self, path: str) -> dict[str, int] | None:
        """Return the sizes of the files in a folder by relative name, or None."""
        relative = self._relative(path)
        if not relative:
            return dict(self.files)
        start = f"{relative}/"
        return {
            name.removeprefix(start): size for name, size in self.files.items() if name.startswith(start)
        } or None

    def meant(self, path: str, act: str) -> list[str]:
        """Return the files that a command on a path would change: one, or all of a folder."""
        if not self._relative(path):
            raise OutsideStore(f"cannot {act} the {ROOT} directory itself")
        if (file := self.file(path, to_change=True)) is not None:
            return [file]
        start = f"{self._relative(path)}/"
        return [self._topic(name) for name in sorted(self.files) if name.startswith(start)]

    def moves(self, old: str, new: str) -> dict[str, str]:
        """Return old and new names of a rename; empty if there is nothing to rename."""
        files = self.meant(old, "rename")
        if self.file(old) is not None:
            return {file: self.new_file(new) for file in files}
        start = self._relative(old)
        to = self._relative(new)
        return {file: self._topic(f"{to}{file.removeprefix(start)}") for file in files}

    def clearable(self) -> list[str]:
        """Return every file that is a memory."""
        return [name for name in sorted(self.files) if _is_topic(self.root, name)]

    def _relative(self, path: str) -> str:
        """Return the checked path below `/memories`; empty for the directory itself."""
        if path != ROOT and not path.startswith(f"{ROOT}/"):
            raise OutsideStore(f"the path must start with {ROOT}/, got: {path}")
        relative = path.removeprefix(ROOT).lstrip("/").removesuffix("/")
        if relative:
            inside(self.root, relative)
        return relative

    def _topic(self, name: str) -> str:
        """Return the stored name with links resolved; raises for the index and other reserved files."""
        found = topic_inside(self.root, name).relative_to(os.path.realpath(self.root)).as_posix()
        if not is_ours(found):
            raise OutsideStore(f"{name!r} is no memory file; choose a plain name that ends in {SUFFIX}")
        return found


def shown_path(file: str) -> str:
    return f"{ROOT}/{file}"


def listing(path: str, below: Mapping[str, int]) -> str:
    """List files and folders two levels deep with their sizes."""
    sizes: dict[str, int] = {}
    for name, size in below.items():
        parts = name.split("/")
        if SKIPPED in parts:
            continue
        for depth in range(1, min(len(parts), LEVELS) + 1):
            shown = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
            sizes[shown] = sizes.get(shown, 0) + size
    top = path.removesuffix("/")
    lines = [f"{_size(sum(below.values()))}\t{top}"]
    lines += [f"{_size(size)}\t{top}/{name}" for name, size in sorted(sizes.items())]
    header = f"Here're the files and directories up to {LEVELS} levels deep in {path}, "
    return f"{header}excluding hidden items and {SKIPPED}:\n" + "\n".join(lines)


def _size(count: int) -> str:
    if count < KILO:
        return f"{count}B"
    if count < KILO * KILO:
        return f"{count / KILO:.1f}K"
    return f"{count / KILO / KILO:.1f}M"


def _is_topic(root: Path, name: str) -> bool:
    try:
        topic_inside(root, name)
    except OutsideStore:
        return False
    return is_ours(name)
