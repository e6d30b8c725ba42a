"""The context that a compaction restores, read again: opening, rules, files, and that of layers (C21).

Reading changes nothing. `settle`, once the compaction is in the log, makes the workspace forget what the
model no longer sees; `carry` returns the notes about what was attached again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nacre import prompts
from nacre.agents.toolset import Toolset
from nacre.app.startup_context import StartupContext, render_startup_text
from nacre.context.environment import environment
from nacre.context.instruction_updates import InstructionUpdates
from nacre.context.privacy import LocalOnlyFilter
from nacre.errors import StoreError, ToolError
from nacre.layers.l1_offload.references import READER, page_of
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.memory.checks.local_only import LocalOnlyEntries
from nacre.memory.instructions.load import Instructions, digests
from nacre.memory.startup_text import render_again, render_context
from nacre.messages.blocks import JsonObject
from nacre.messages.draft import Fragment
from nacre.messages.pairing import Item
from nacre.messages.records import Noted
from nacre.messages.results import AnsweredCall, answered_calls
from nacre.messages.tokens import estimate_text
from nacre.messages.untrusted_text import neutralise, one_line
from nacre.messages.view import View
from nacre.session.layer import DAY, INSTRUCTIONS, RECORD, WHOLE
from nacre.session.restoration import Restored, Restorer, cut, within
from nacre.session.session import OPENING, Session
from nacre.settings import Settings
from nacre.tools.read import ReadSettings, read_tool
from nacre.tools.shown_lines import ShownLines, join
from nacre.tools.workspace import Version, Workspace, expecting

RESTORED_OPENING = prompts.load(__package__, "restored_opening")


class SessionRestorer(Restorer):
    """Also restores the opening, the rules and recently read files; owned by one session."""

    def __init__(
        self,
        session: Session,
        toolset: Toolset,
        startup: StartupContext,
        settings: Settings,
        *,
        announcer: InstructionUpdates | None = None,
        is_remote: bool = True,
    ) -> None:
        super().__init__(session)
        self._workspace = toolset.workspace
        self._startup = startup
        self._settings = settings
        self._announcer = announcer
        self._is_remote = is_remote
        self._files = FileReader(toolset, startup, settings, is_remote=is_remote)

    async def fragments(self, kept: Sequence[Item], tokens: int) -> list[Fragment]:
        """Return what is restored in addition to these items, within `tokens`; files are cut first."""
        instructions = await self._instructions()
        seen = self._workspace.recently_seen()
        day = self._session.clock.now().astimezone().date().isoformat()
        note = self._session.view.last_noted(OPENING)
        is_in_view = note is not None and any(item.record_id == note.fact(RECORD) for item in kept)
        opening = [] if is_in_view else [await self._opening(instructions, tokens)]
        rules = []
        if instructions:
            rules = [Fragment(kind="rules", name="rules", text=render_again(instructions.later))]
        first = within([*opening, *rules], tokens)
        room = tokens - _tokens(first)
        others = await self._from_layers(kept, room)
        room -= _tokens(others)
        loaded = instructions.all_files if instructions else ()
        visible = visible_in(kept, self._workspace)
        wanted = [path for path in seen if path not in visible]
        files = await self._files.read(
            wanted, tokens=room, settings=self._settings.compaction, without={one.real for one in loaded}
        )
        self.last = Restored(
            fragments=(*first, *others, *(one.fragment for one in files)),
            kept=kept,
            files=tuple(one.path for one in files),
            whole={one.path: one.version for one in files if one.version is not None},
            digests=digests(loaded) if opening else {},
            day=day if opening else "",
            seen=frozenset(seen) - visible.keys(),
            visible={path: lines for path, lines in visible.items() if lines is not None},
            shown=self._workspace.shown,
        )
        return list(self.last.fragments)

    def settle(self) -> None:
        """Mark as seen only what the compaction has restored, once it is in the log."""
        last = self.last
        self._workspace.forget(last.seen)
        for path, lines in last.visible.items():
            self._workspace.still_sees(path, lines)
        if last.day and self._announcer is not None:
            self._announcer.restored()
        for path in reversed(last.files):
            if (version := last.whole.get(path)) is not None:
                self._workspace.saw(path, version)

    def _notes(self, summary_id: str) -> list[Noted]:
        """Return the notes about the restored opening."""
        clock = self._session.clock
        last = self.last
        if not last.day:
            return []
        record: JsonObject = {RECORD: summary_id}
        written: JsonObject = {"files": {**last.digests}, WHOLE: True}
        facts: dict[str, JsonObject] = {OPENING: record, DAY: {"date": last.day, **record}}
        if self._announcer is not None:
            facts[INSTRUCTIONS] = written | record
        return [
            Noted(id=clock.new_id(), at=clock.now(), kind=kind, facts=what) for kind, what in facts.items()
        ]

    async def _instructions(self) -> Instructions | None:
        if self._announcer is None:
            return self._startup.instructions
        return await self._announcer.again(self._session.view)

    async def _opening(self, instructions: Instructions | None, tokens: int) -> Fragment:
        # Later instructions are a separate fragment after this one, so that they are cut first.
        begun = replace(instructions, later=()) if instructions else None
        startup = replace(self._startup, instructions=begun)
        try:
            context = await render_startup_text(startup, self._settings, is_remote=self._is_remote)
        except (StoreError, OSError):
            context = render_context(begun)  # unreadable memory must not stop the compaction
        now = self._session.clock.now().astimezone()
        where = await asyncio.to_thread(environment, self._workspace.cwd, now)
        room = tokens - estimate_text(RESTORED_OPENING) - estimate_text(where) - 1
        text = "\n".join(part for part in (RESTORED_OPENING, cut(context, room), where) if part)
        return Fragment(kind="opening", name="opening", text=text)


def build_restorer(
    session: Session, startup: StartupContext, toolset: Toolset, settings: Settings, *, is_remote: bool
) -> SessionRestorer:
    """Return the restorer of a session that has all its layers; `is_remote` as in `load_startup_context`."""
    announcer = session.layer(InstructionUpdates)
    return SessionRestorer(session, toolset, startup, settings, announcer=announcer, is_remote=is_remote)


def _tokens(fragments: Iterable[Fragment]) -> int:
    return sum(estimate_text(one.text) for one in fragments)


RESTORED_FILE = prompts.load(__package__, "restored_file")
WRITER = "Write"
"""The tool whose call contains the file."""
LEAST_TOKENS = 300
"""Minimum size of a restored file with its frame; less is not useful."""
_REMARK = re.compile(r"\[(?:Stopped here|More lines follow).*?offset=(\d+)\.\]\Z")
_LONG_LINE = "more characters in this line]"
"""How Read ends a line that it has cut."""


@dataclass(frozen=True, slots=True)
class FileAgain:
    """The current content of a file."""

    path: Path
    fragment: Fragment
    version: Version | None
    """Set if the model sees the exact content: it may edit the file without another Read."""


class FileReader:
    """Reads files for the model, and only those that Read could read without a question."""

    def __init__(
        self, toolset: Toolset, startup: StartupContext, settings: Settings, *, is_remote: bool
    ) -> None:
        self._toolset = toolset
        self._local_only = startup.local_only if is_remote else LocalOnlyFilter()
        # Memories are recalled, results have pointers, logs have neither: none is a file of the work.
        self._not_these = [
            *(memory.location.directory.resolve() for memory in startup.memories),
            *(place.resolve() for place in toolset.workspace.owned),
            (settings.home / "projects").resolve(),
        ]

    async def read(
        self, paths: Iterable[Path], *, tokens: int, settings: CompactSettings, without: Iterable[Path] = ()
    ) -> list[FileAgain]:
        """Return the first readable files; missing, denied, binary and too large ones are skipped."""
        room = min(tokens, settings.files_tokens)
        hidden = set(without)
        staying = await self._local_only.now()
        found: list[FileAgain] = []
        for path in paths:
            if len(found) == settings.max_files or room < LEAST_TOKENS:
                break
            if path in hidden or any(path.is_relative_to(place) for place in self._not_these):
                continue
            again = await self._again(path, min(room, settings.file_tokens), staying)
            if again is not None:
                found.append(again)
                room -= estimate_text(again.fragment.text)
        return found

    async def _again(self, path: Path, tokens: int, staying: LocalOnlyEntries) -> FileAgain | None:
        workspace = self._toolset.workspace.clone()  # so that the file does not count as read yet
        shown = one_line(str(path))
        frame = estimate_text(prompts.render(RESTORED_FILE, path=shown, lines="")) + LEAST_TOKENS // 10
        reader = read_tool(workspace, ReadSettings(tokens=max(1, tokens - frame), page_chars=0))
        arguments: JsonObject = {"file_path": str(path)}
        decision = self._toolset.guard.policy.decide(reader, arguments, self._toolset.workspace)
        if decision.effect != "allow":
            return None
        workspace.forget([path])
        try:
            with expecting(path):
                lines = await reader.call(arguments)
        except ToolError:
            return None
        if not isinstance(lines, str):
            return None  # a picture; the model reads it again if it needs it
        version = workspace.seen(path)
        if version is None or version.digest is None:
            return None
        # It was not the tool's limit that cut the file, so the remark where Read stopped is replaced.
        remarked = _REMARK.sub(r"[Cut here for want of room; Read goes on with offset=\1.]", lines)
        content = neutralise(staying.without(remarked))
        is_whole = content == lines and _LONG_LINE not in lines
        text = prompts.render(RESTORED_FILE, path=shown, lines=content)
        if estimate_text(text) > tokens:
            return None
        return FileAgain(
            path, Fragment(kind="file", name=str(path), text=text), version if is_whole else None
        )


def visible_in(kept: Sequence[Item], workspace: Workspace) -> dict[Path, ShownLines | None]:
    """Return the files whose content these items contain, by a Read or by the call that wrote them.

    The value are the lines, None for all. Numbers are those at the time of the call: an edit since may have
    moved lines, and then a few more or fewer count as seen.
    """
    found: dict[Path, ShownLines | None] = {}
    for one in answered_calls(kept):
        given = one.call.input.get("file_path")
        lines = _shown_by(one)
        if not isinstance(given, str) or lines == ():
            continue
        try:
            path = workspace.locate(given)
        except ToolError:
            continue
        known = found.get(path, ())
        found[path] = None if lines is None or known is None else join((*known, *lines))
    return found


def forget_hidden(workspace: Workspace, before: View, after: View) -> None:
    """Let files be read again before a change if their content is in the view before, but not after."""
    still = visible_in(after.items, workspace)
    for path in visible_in(before.items, workspace):
        if path not in still:
            workspace.forget([path])
        elif (lines := still[path]) is not None:
            workspace.still_sees(path, lines)


def _shown_by(one: AnsweredCall) -> ShownLines | None:
    """Return the lines of a file that a call shows, None for all; a pointer or a list of changes has none."""
    if one.result.is_error or one.call.name not in {READER, WRITER}:
        return ()
    if one.call.name == WRITER:
        return None
    page = page_of(one.result.text)
    if page is None:
        return ()
    is_all = page.first == 1 and page.remark is None
    return None if is_all else ((page.first, page.first + len(page.lines) - 1),)
