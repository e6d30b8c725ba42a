"""Extract memories by rule when a turn or session of Claude Code has ended (E1 to E10)."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path

from nacre.app.extract_once import extract_by_rule
from nacre.app.memory_locations import memory_place
from nacre.errors import NacreError
from nacre.integrations.claude_code.input import HookInput, transcript_of
from nacre.integrations.claude_code.session_start import AUDIT_FILE, typed
from nacre.integrations.claude_code.state import FOLDER, HookState, change_state, forget_old, state_of
from nacre.layers.l5_extract.extract import SavedMemories
from nacre.layers.l5_extract.judge import messages_since
from nacre.layers.l5_extract.policy import ExtractEnvironment, is_enabled
from nacre.memory.checks.audit import audit
from nacre.memory.files.location import Location
from nacre.memory.memory import Memory
from nacre.messages.blocks import ToolCall
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.session.read_session import read_view
from nacre.settings import Settings
from nacre.store import disk
from nacre.store.locks import one_writer
from nacre.tools.shell import explain

TURN_SECONDS = 60.0
"""How long a second process waits for one that extracts from the same session."""
AUDIT_TOLD = "audit_told"
"""Next to the notice: which findings it was about."""
_EDITORS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_MEMORY_TOOLS = ("memory_save", "memory_correct", "memory_forget", "memory_undo")
RESTING = "nacre draws no more memories from this session: {failures} attempts in a row failed ({why})"


def draw(hook: HookInput, settings: Settings, *, is_attended: bool) -> None:
    """Save what was stated since the last run; at the end of a session also check the memory."""
    given = settings.memory
    here = ExtractEnvironment(
        switch=settings.switches.extract is not False,
        is_kept=True,
        is_bare=given.simple,
        is_remote=given.remote,
        is_interactive=is_attended,
        is_daily=given.mode == "daily",
    )
    try:
        if is_enabled(here, settings.extract):
            log = transcript_of(hook)
            with one_writer(hook.home / FOLDER / f"{hook.session}.drawing", wait=TURN_SECONDS):
                _drawn_or_counted(hook, settings, log)
    finally:
        if hook.event == "SessionEnd":
            _check_memory(memory_place(settings, "project"), settings)
            forget_old(hook.home)


def _drawn_or_counted(hook: HookInput, settings: Settings, log: Path) -> None:
    """Run once and count a failure; after several failures in a row one notice is given and no more runs
    start (F5)."""
    failures = state_of(hook.home, hook.session).failures
    most = settings.extract.max_failures
    if failures >= most:
        return
    try:
        asyncio.run(_drawn(hook, settings, log))
    except NacreError as error:
        notice = RESTING.format(failures=failures + 1, why=error)
        current_notices = (notice,) if failures + 1 >= most else ()

        def counted(state: HookState) -> HookState:
            return replace(state, failures=failures + 1, notices=(*state.notices, *current_notices))

        change_state(hook.home, hook.session, counted)
        raise


async def _drawn(hook: HookInput, settings: Settings, log: Path) -> None:
    seen = read_view(log)
    if seen is None:
        raise NacreError(f"{hook.transcript} is too long to be read")
    cursor = state_of(hook.home, hook.session).cursor
    heard = messages_since(seen.view, cursor or None)
    left = SavedMemories()
    location = memory_place(settings, "project")
    if heard.quotes and not wrote_itself(seen.view, cursor, location.directory):
        memory = await Memory.at(location, hook.cwd, keeps_index=settings.memory.keeps_index)
        left = await extract_by_rule(memory, heard, session=hook.session, settings=settings)
    line = f"nacre {left.line}" if left.files or left.removed else ""
    for command in ("nacre memory undo", "nacre memory review"):
        line = line.replace(command, typed(command, settings)) if command in line else line

    def moved(state: HookState) -> HookState:
        notices = (*state.notices, line) if line else state.notices
        # The conversation already has it in the user's own words; a compaction makes it attachable again
        # (R7).
        known = {str(location.directory / file): 0 for file in left.files if not left.is_proposed}
        return HookState(
            attached={**known, **state.attached}, cursor=heard.last or state.cursor, notices=notices
        )

    change_state(hook.home, hook.session, moved)


def wrote_itself(view: View, cursor: str, directory: Path) -> bool:
    """Whether the client's model has written to this memory since; then nothing is extracted (E3).

    The client's writes are in no history of ours, so its tool calls are inspected.
    """
    items = view.items
    start = next((n for n in range(len(items), 0, -1) if items[n - 1].record_id == cursor), 0)
    new = {item.record_id for item in items[start:]}
    said = (one for one in view.records if isinstance(one, Said) and one.id in new)
    calls = (block for one in said for block in one.blocks if isinstance(block, ToolCall))
    return any(_writes(call, directory) for call in calls)


def _writes(call: ToolCall, directory: Path) -> bool:
    if call.name in _EDITORS:
        path = str(call.input.get("file_path") or call.input.get("notebook_path") or "")
        return "\0" not in path and Path(path).resolve().is_relative_to(directory)
    if call.name == "Bash":
        command = str(call.input.get("command", ""))
        names = (str(directory), f"{directory.parent.name}/{directory.name}")
        return any(name in command for name in names) and not explain(command).read_only
    return "nacre" in call.name and call.name.endswith(_MEMORY_TOOLS)


def _check_memory(location: Location, settings: Settings) -> None:
    """Write the problems of the memory as a line for the start of the next session."""
    path = location.cache / AUDIT_FILE
    if next(location.directory.rglob("*.md"), None) is None:
        return
    found = audit(location.directory, tree=settings.project_root).at_least("error")
    known = hashlib.sha256(repr(found).encode(errors="replace")).hexdigest()
    shown = location.cache / AUDIT_TOLD
    is_known = shown.is_file() and shown.read_text(encoding="utf-8", errors="replace") == known
    if not found or is_known:
        path.unlink(missing_ok=True)
        return
    what = f"{len(found)} serious {'thing' if len(found) == 1 else 'things'}"
    line = f"nacre found {what} in this project's memory: {typed('nacre memory audit', settings)}"
    disk.make_folder(path.parent)
    for name, text in ((AUDIT_FILE, line), (AUDIT_TOLD, known)):
        disk.replace_file(path.with_name(name), text.encode(), temp_name=f".{name}.tmp", sync=False)
