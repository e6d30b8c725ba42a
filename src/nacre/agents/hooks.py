"""The person's own commands at fixed points of a session: told what happens, heard about what follows.

Whoever has come to such a point calls the method named after it and heeds what comes back. Without commands
for a point nothing is started and nothing is waited for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from nacre import prompts
from nacre.agents.hands import Hands
from nacre.agents.hooks_answer import Answer, answer
from nacre.agents.hooks_run import run_hook
from nacre.agents.hooks_table import NO_HOOKS, HookTable, parse_hooks
from nacre.agents.kept import LogKeeper
from nacre.agents.riding import Extra
from nacre.agents.session import Session
from nacre.agents.shelving import shelf_in
from nacre.errors import StoreError
from nacre.layers.l1_offload.pointer import pointer, preview
from nacre.memory.neutral import neutralise
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.settings import Settings
from nacre.store.results import Shelf

HOOK = "hook"
"""The kind of note that says which words came from a command of the person's: event."""
MAX_CHARS = 10_000
"""Of what one command says to the model; more goes to a file, and its beginning stays."""
PREVIEW_BYTES = 2_000
"""Of such a beginning: what an offloaded tool result shows, too."""
CONTEXT = prompts.load(__package__, "hook_context")
GOES_ON = prompts.load(__package__, "hook_goes_on")

Source: TypeAlias = Literal["startup", "resume", "clear", "compact"]
Trigger: TypeAlias = Literal["auto", "manual"]


@dataclass(frozen=True, slots=True)
class PreCompact:
    """What commands say before a compaction."""

    blocked: str | None
    """Why there must be none."""
    focus: str
    """What the summary should look at, with what they added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookPlace:
    """Where commands run, and what each is told of the session."""

    session_id: str
    cwd: Path
    transcript: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    shelf: Shelf = field(default_factory=lambda: Shelf(None))
    """Where output goes that is too long."""


class Hooks:
    """The commands of one session."""

    def __init__(self, table: HookTable, place: HookPlace, *, tell: Callable[[str], None]) -> None:
        """`tell` takes what a person should hear; what went wrong is fetched by `notices`."""
        self._table = table
        self._place = place
        self._tell = tell
        self._warnings: list[str] = list(table.notices)
        self._kept = 0
        self.source: Source = "startup"
        """How the session came to be, as commands are told with the first words."""

    async def session_start(self, source: Source) -> str:
        """A session begins, goes on, or was compacted: what the model should know."""
        heard = await self._run("SessionStart", {"source": source})
        return _joined(one.context for one in heard)

    async def pre_compact(self, trigger: Trigger, focus: str) -> PreCompact:
        """A compaction is about to happen: whether it may, and what it should look at."""
        heard = await self._run("PreCompact", {"trigger": trigger, "custom_instructions": focus})
        reasons = [one.blocks for one in heard if one.blocks is not None]
        return PreCompact("; ".join(reasons) or None, _joined([focus, *(one.context for one in heard)]))

    async def post_compact(self, trigger: Trigger, summary: str) -> None:
        """A compaction has happened."""
        await self._run("PostCompact", {"trigger": trigger, "compact_summary": summary})

    async def stop(self, reply: str, *, is_again: bool) -> str:
        """A turn is about to end: what there still is to do, or nothing."""
        told: JsonObject = {"stop_hook_active": is_again, "last_assistant_message": reply}
        heard = await self._run("Stop", told)
        for one in heard:
            if one.stops is not None:
                self._tell(f"A Stop hook ends the turn: {one.stops}")
                return ""
        return _joined(part for one in heard for part in (one.blocks or "", one.context))

    def notices(self) -> tuple[str, ...]:
        """What went wrong, told once."""
        told, self._warnings = tuple(self._warnings), []
        return told

    async def _run(self, event: str, more: JsonObject) -> list[Answer]:
        """Every command for this point, side by side; what they say, in the order they are written."""
        due = self._table.due(event, more)
        if not due:
            return []
        place = self._place
        told: JsonObject = {
            "session_id": place.session_id,
            "transcript_path": str(place.transcript or ""),
            "cwd": str(place.cwd),
            "hook_event_name": event,
            **more,
        }
        written = json.dumps(told, ensure_ascii=False).encode(errors="replace")
        # A group, because it comes back only when every command has ended, also when it is cancelled.
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(run_hook(hook, written, cwd=place.cwd, environ=place.environ))
                for hook in due
            ]
        return [await self._heeded(event, answer(event, task.result())) for task in running]

    async def _heeded(self, event: str, said: Answer) -> Answer:
        """Tell the person; what goes on to the model is made safe and short enough."""
        self._warnings += said.warnings
        if said.message:
            self._tell(preview(said.message, PREVIEW_BYTES))
        context = await self._bounded(event, said.context)
        if context and not said.is_quiet:
            self._tell(f"A {event} hook added {len(context):,} characters for the model.")
        blocks = said.blocks if said.blocks is None else await self._bounded(event, said.blocks)
        return replace(said, blocks=blocks, context=context)

    async def _bounded(self, event: str, text: str) -> str:
        """A text as the model may read it; one that is too long goes to a file."""
        safe = neutralise(text)
        if len(safe) <= MAX_CHARS:
            return safe
        self._kept += 1
        try:
            kept = await asyncio.to_thread(self._place.shelf.keep, f"hook-{event}-{self._kept}", text)
        except StoreError as error:
            self._warnings.append(f"what a {event} hook said was cut, because it cannot be kept: {error}")
            return f"{preview(safe, PREVIEW_BYTES)}\n[… {len(text):,} characters in all]"
        return pointer(f"{event} hook", [safe], kept, preview_bytes=PREVIEW_BYTES)


class Beginning:
    """A session's rider: what commands have to say when it begins goes with the first words; told once."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._is_told = False

    async def beside(self, said: Said, view: View) -> Sequence[Extra]:
        """What the model should know, with a person's first words."""
        if self._is_told or any(isinstance(block, ToolResult) for block in said.blocks):
            return ()
        self._is_told = True
        source = self._hooks.source
        context = await self._hooks.session_start(source)
        if not context:
            return ()
        text = prompts.render(CONTEXT, event="SessionStart", text=context)
        return [Extra(kind=HOOK, text=text, facts={"event": "SessionStart", "source": source})]


def join_hooks(session: Session, settings: Settings, hands: Hands) -> Hooks:
    """Let the person's commands take part in a session; in bare mode there are none."""
    table = NO_HOOKS if settings.memory.simple else parse_hooks(settings.hooks)
    keeper = session.keeper if isinstance(session.keeper, LogKeeper) else None
    root = str(settings.project_root)
    place = HookPlace(
        session_id=session.id,
        cwd=settings.cwd,
        transcript=keeper.path if keeper else None,
        environ={**settings.environ, "NACRE_PROJECT_DIR": root, "CLAUDE_PROJECT_DIR": root},
        shelf=shelf_in(keeper.folder if keeper else None),
    )
    hooks = Hooks(table, place, tell=session.tell)
    hooks.source = "resume" if session.view.items else "startup"
    if table.groups or table.notices:
        hands.open_to({place.shelf.folder} if place.shelf.folder else ())
        _attend(session, hooks)
    return hooks


def _attend(session: Session, hooks: Hooks) -> None:
    session.riders.append(Beginning(hooks))
    session.tellers.append(hooks.notices)

    async def goes_on(reply: str, is_again: bool) -> Extra | None:
        reason = await hooks.stop(reply, is_again=is_again)
        if not reason:
            return None
        text = prompts.render(GOES_ON, reason=reason)
        return Extra(kind=HOOK, text=text, facts={"event": "Stop"}, notice="A Stop hook has the turn go on.")

    session.before_stopping.append(goes_on)


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)
