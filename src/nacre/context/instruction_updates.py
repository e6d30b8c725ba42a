"""Attaches instructions that are loaded or change during a session (M23, M25)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from nacre.memory.instructions.load import (
    InstructionFile,
    Instructions,
    changed_since,
    digests,
    load_announced,
    load_for_files,
    reload,
)
from nacre.memory.startup_text import render_changes, render_later, too_long
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.session.layer import INSTRUCTIONS, Attachment, Layer, digests_in
from nacre.session.session import OPENING
from nacre.tools.workspace import Workspace


class InstructionUpdates(Layer):
    """Tracks which instructions the model knows, and attaches new ones; owned by one session."""

    def __init__(self, instructions: Instructions, workspace: Workspace, view: View) -> None:
        self._opening = self._now = instructions
        self._workspace = workspace
        self._checked: set[Path] = set()
        self._known_digests = digests_in(view.noted(INSTRUCTIONS))
        """Digests by path."""
        self._is_begun = False
        self.on_loaded: Callable[[Sequence[InstructionFile], bool], None] = lambda files, is_again: None
        """Called with loaded files, and whether they were read again for a compaction."""

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """Attach instructions for touched files to tool results, and changes on disk to user prompts."""
        self._known_digests = digests_in(view.noted(INSTRUCTIONS))
        if any(isinstance(block, ToolResult) for block in said.blocks):
            return await self._arrived()
        if not self._is_begun:
            self._is_begun = True
            self.on_loaded(self._opening.all_files, False)
        if view.last_noted(OPENING) is None:
            files = self._opening.all_files
            return [self._note(files)] if files else []
        return await self._changed()

    @property
    def current(self) -> Instructions:
        """The instructions as they were last read."""
        return self._now

    async def again(self, view: View) -> Instructions:
        """Read all current instructions from disk again, also those attached by an earlier process (C21)."""
        announced = [Path(path) for path, digest in digests_in(view.noted(INSTRUCTIONS)).items() if digest]
        self._now = await asyncio.to_thread(lambda: reload(load_announced(self._now, announced)))
        return self._now

    def restored(self) -> None:
        """Report that a compaction has restored all current instructions."""
        self.on_loaded(self._now.all_files, True)

    async def _arrived(self) -> list[Attachment]:
        paths = [path for path in self._workspace.recently_seen() if path not in self._checked]
        self._checked.update(paths)
        if not paths:
            return []
        arrival = await asyncio.to_thread(load_for_files, self._now, reversed(paths))
        self._now = arrival.instructions
        now = digests(arrival.files)
        new = [
            file for file in arrival.files if self._known_digests.get(str(file.path)) != now[str(file.path)]
        ]
        self.on_loaded(new, False)
        text = render_later(new)
        if not text:
            return []
        return [self._note(new, text=text, notice=_notice("now in force", new))]

    async def _changed(self) -> list[Attachment]:
        changes = await asyncio.to_thread(changed_since, self._now, self._known_digests)
        self._now = changes.instructions
        if not changes:
            return []
        # A version that the model itself wrote or read is not attached again.
        unknown = tuple(file for file in changes.changed if not self._has_seen(file.path))
        self.on_loaded([file for file in changes.changed if str(file.path) not in self._known_digests], False)
        text = render_changes(replace(changes, changed=unknown))
        notice = _notice("instructions changed", unknown, changes.gone)
        return [self._note(changes.changed, gone=changes.gone, text=text, notice=notice)]

    def _has_seen(self, path: Path) -> bool:
        seen = self._workspace.seen(path.resolve())
        try:
            if seen is None or seen.lines is not None:
                return False
            return seen.digest == hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            return False

    def _note(
        self,
        files: Iterable[InstructionFile],
        *,
        gone: Iterable[Path] = (),
        text: str = "",
        notice: str = "",
    ) -> Attachment:
        versions = digests(files) | {str(path): "" for path in gone}
        self._known_digests |= versions
        facts: JsonObject = {"files": {**versions}}
        return Attachment(kind=INSTRUCTIONS, text=text, facts=facts, notice=notice)


def _notice(what: str, files: Sequence[InstructionFile], gone: Iterable[Path] = ()) -> str:
    """Return one line about files: which ones, which are only named to the model, which are long (M24)."""
    named = too_long(files)
    sent = [file for file in files if file.path not in named]
    paths = [*(file.path for file in sent), *gone]
    lines = [f"{what}: {', '.join(map(str, paths))}"] if paths else []
    if named:
        lines.append(f"too long, the model is only told their paths: {', '.join(map(str, named))}")
    lines += [f"{file.path}: {remark}" for file in sent for remark in file.problems]
    return "; ".join(lines)
