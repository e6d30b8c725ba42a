"""The plan of a session: one Markdown text, shown to the model when it changes and after a compaction (C21).

It is in the session's folder, where the user and the model may change it; a session that is not stored has it
in memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from nacre import prompts
from nacre.errors import StoreError
from nacre.messages.blocks import JsonObject
from nacre.messages.draft import Fragment
from nacre.messages.pairing import Item
from nacre.messages.records import Noted, Said
from nacre.messages.untrusted_text import neutralise, one_line
from nacre.messages.view import View
from nacre.session.layer import RECORD, Attachment, Layer, digest, notes_in_view
from nacre.session.restoration import CUT
from nacre.store import disk
from nacre.tools.workspace import Workspace

PLAN = "plan"
"""Kind of the note with the version of the plan that the model knows."""
PLAN_MODE = "plan_mode"
"""Kind of the note that says whether the model knows that it is to plan only."""
HEADING = "# Plan"
"""The line with which a proposed plan begins."""
FILE = "plan.md"
ASIDE = ".plan.writing"
SHOWN_CHARS = 16_000
"""Maximum length of a plan in the view, about 4,000 tokens: what a compaction restores has room for that."""
MAX_BYTES = 1_048_576
"""Maximum size of the file; a larger one is no usable plan."""
SHOWN = prompts.load(__package__, "plan")
WHERE = prompts.load(__package__, "plan_where")
GONE = prompts.load(__package__, "plan_gone")
PLANNING = prompts.load(__package__, "plan_mode")
PLANNED = prompts.load(__package__, "plan_mode_off")
HEAD_ONLY = prompts.load(__package__, "plan_cut")


class Plan(Layer):
    """Stores the plan of one session, and shows it to the model."""

    log_kinds = {PLAN: "own", PLAN_MODE: "drop"}
    is_planning = False
    """Whether the model is to propose a plan and change nothing."""

    def __init__(self, folder: Path | None = None, workspace: Workspace | None = None) -> None:
        """Without a folder the plan is in memory; `workspace` knows which version the model wrote itself."""
        self.path = Path(os.path.realpath(folder)) / FILE if folder else None
        self._workspace = workspace
        self._text = ""
        self._restored = ""
        self._last_problem = ""

    async def read(self) -> str:
        """Return the current plan; empty if there is none. Raises `StoreError` for an invalid file."""
        path = self.path
        return self._text if path is None else await asyncio.to_thread(_read, path)

    async def write(self, text: str) -> None:
        """Replace the plan; an empty text removes it."""
        text = f"{text.strip()}\n" if text.strip() else ""
        if len(text.encode(errors="replace")) > MAX_BYTES:
            raise StoreError(f"the plan is longer than {MAX_BYTES:,} bytes; keep what it rests on in files")
        if self.path is None:
            self._text = text
        else:
            await asyncio.to_thread(_write, self.path, text)

    async def accept(self, text: str) -> None:
        """Replace the plan by the one of the last reply, which is not shown to the model again."""
        await self.write(text)
        said = [one for one in self.session.transcript.records if isinstance(one, Said)]
        now = await self.read()
        facts: JsonObject = {"digest": _version(now), "path": str(self.path or ""), RECORD: said[-1].id}
        clock = self.session.clock
        await self.session.transcript.append(Noted(id=clock.new_id(), at=clock.now(), kind=PLAN, facts=facts))

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """Attach what changed: the plan, or whether the model is to plan only."""
        notes = notes_in_view(view, PLAN_MODE)
        mode = []
        if self.is_planning != (bool(notes) and notes[-1].fact("on") is True):
            text = PLANNING if self.is_planning else PLANNED
            mode = [Attachment(kind=PLAN_MODE, text=text, facts={"on": self.is_planning})]
        return [*mode, *await self._changed(view)]

    async def _changed(self, view: View) -> Sequence[Attachment]:
        """Attach the plan if the model knows another version; for its own version, only a note."""
        try:
            now = await self.read()
        except StoreError as error:
            if str(error) != self._last_problem:
                self.session.notify(f"the plan is not shown: {error}")
            self._last_problem = str(error)
            return []
        version = _version(now)
        notes = notes_in_view(view, PLAN)
        if version == (str(notes[-1].fact("digest")) if notes else ""):
            return []
        facts: JsonObject = {"digest": version, "path": str(self.path or "")}
        seen = self._workspace.seen(self.path) if self._workspace and self.path else None
        digest = seen.digest if seen is not None and seen.lines is None else ""
        is_own = digest == hashlib.sha256(now.encode()).hexdigest()
        if version and is_own:
            return [Attachment(kind=PLAN, facts=facts, notice="the model changed the plan; /plan shows it")]
        return [Attachment(kind=PLAN, text=self.shown(now) if version else GONE, facts=facts)]

    def shown(self, text: str) -> str:
        """Return a plan as text for the model."""
        plan = neutralise(text).strip("\n")
        if len(plan) > SHOWN_CHARS:
            head = plan[:SHOWN_CHARS].rpartition("\n")[0] or plan[:SHOWN_CHARS]
            rest = f"the rest stands in {one_line(str(self.path))}" if self.path else "the rest is not shown"
            plan = f"{head}\n{prompts.render(HEAD_ONLY, rest=rest)}"
        where = prompts.render(WHERE, path=one_line(str(self.path))) if self.path else ""
        return prompts.render(SHOWN, where=where, plan=plan)

    async def restore(self, kept: Sequence[Item] = ()) -> list[Fragment]:
        """Return the plan for the restored context of a compaction."""
        text = await self.read()
        self._restored = _version(text)
        return [Fragment(kind="plan", name="the plan", text=self.shown(text))] if self._restored else []

    def carry(self, restored: Sequence[Fragment], summary_id: str) -> list[Noted]:
        """Return a note about the restored plan, if it was not cut."""
        if not (self._restored and any(one.kind == "plan" and CUT not in one.text for one in restored)):
            return []
        facts: JsonObject = {"digest": self._restored, "path": str(self.path or ""), RECORD: summary_id}
        clock = self.session.clock
        return [Noted(id=clock.new_id(), at=clock.now(), kind=PLAN, facts=facts)]

    async def inherit(self) -> None:
        """Copy the plan of the session that this one branched off from."""
        note = self.session.view.last_noted(PLAN)
        if note is None or not note.fact("digest") or self.path is None or self.path.exists():
            return
        there = Path(str(note.fact("path")))
        # A log may contain anything: only folders of sibling sessions are read.
        if there != self.path and there.parent.parent == self.path.parent.parent and there.name == FILE:
            text = await asyncio.to_thread(_read, there)
            if _version(text) == note.fact("digest"):
                await self.write(text)


def proposed_plan(reply: str) -> str:
    """Return the plan that a reply proposes, from its heading on; empty if there is none."""
    lines = reply.splitlines()
    start = next((place for place, line in enumerate(lines) if line.strip() == HEADING), None)
    return "" if start is None else "\n".join(lines[start:]).strip()


def _version(text: str) -> str:
    return digest(text) if text.strip() else ""


def _read(path: Path) -> str:
    try:
        with os.fdopen(disk.open_regular(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error
    if len(data) > MAX_BYTES or b"\0" in data:
        raise StoreError(f"{path} is no plan: it is binary, or larger than {MAX_BYTES:,} bytes; remove it")
    return data.decode(errors="replace")


def _write(path: Path, text: str) -> None:
    try:
        if not text:
            path.unlink(missing_ok=True)
            return
        disk.make_folder(path.parent)
        # Only the session's own process writes here, so one temporary name is enough.
        disk.replace_file(path, text.encode(errors="replace"), temp_name=ASIDE)
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error
