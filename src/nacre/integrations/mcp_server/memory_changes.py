"""Memory tools for MCP clients that change something: save, correct, forget, undo."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from nacre import prompts
from nacre.app.memory_locations import Whose
from nacre.errors import ToolError
from nacre.inspect.memory_origin import SHORT_COMMIT
from nacre.integrations.mcp_server.answers import (
    ChangeUndone,
    ListedChange,
    MemoryChanged,
    RestoredMemory,
    changed_memory,
    doubt,
    in_scope,
    listed_change,
)
from nacre.integrations.mcp_server.base import CALLER, MAX_TEXT_CHARS, PROJECT, Answer, Offered
from nacre.integrations.mcp_server.memory_tools import WHICH, Scope, bounded
from nacre.integrations.mcp_server.project import Project, Projects
from nacre.memory.daily_log import append_fact, find_candidate, forget_candidate
from nacre.memory.format.entry import Entry, Kind, MemoryChange, Origin
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.memory import Memory, Saved
from nacre.memory.tools import BY_AGENT, OriginJudge, correct_in_log, draft_of, shorten_body
from nacre.messages.untrusted_text import one_line
from nacre.tools.base import Tool, tool

if TYPE_CHECKING:
    from nacre.store.history import Commit

SAVE = prompts.load(__package__, "tool_memory_save")
CORRECT = prompts.load(__package__, "tool_memory_correct")
FORGET = prompts.load(__package__, "tool_memory_forget")
UNDO = prompts.load(__package__, "tool_memory_undo")
TYPE = (
    "user: about the person. feedback: how they want work done. project: who, why and by when. "
    "reference: where something is found. Derived from the text if left out."
)
SCOPE = (
    "project; team: everyone on the repository; user: every project of the person, used once they confirm it."
)
WHERE = "Whose memory the change is in."
BY = " over MCP by "
"""Precedes the name of the client in the reason of a change."""


class _Unseen(OriginJudge):
    """Judges what a client saves for all projects: neither what it read nor what the person typed is known.

    So it counts as text from a session that has read something from outside (M16b).
    """

    def origin_of(self, text: str, *, trusted: tuple[str, ...] = ()) -> Origin:
        return "unverified"


UNSEEN = _Unseen()


def memory_changes(projects: Projects) -> list[Offered]:
    """Return the tools that change memory; each change is one commit, which `memory_undo` reverses."""
    return [
        Offered(_save(projects), "Save a memory", answers=MemoryChanged),
        Offered(_correct(projects), "Correct a memory", answers=MemoryChanged),
        Offered(_forget(projects), "Forget a memory", answers=MemoryChanged),
        Offered(_undo(projects), "Undo a change of memory", idempotent=False, answers=ChangeUndone),
    ]


def _save(projects: Projects) -> Tool:
    @tool(name="memory_save", description=SAVE)
    async def save(
        text: Annotated[str, "What to keep, in full sentences."],
        type: Annotated[Kind | None, TYPE] = None,  # noqa: A002 - the client's word
        name: Annotated[str | None, "A short title; derived from the text if left out."] = None,
        description: Annotated[str | None, "One specific line that says when this is worth knowing."] = None,
        scope: Annotated[Scope, SCOPE] = "project",
        project: Annotated[str | None, PROJECT] = None,
    ) -> Answer:
        one = await projects.one(project)
        memory = await one.writing(scope)
        body = bounded(text, MAX_TEXT_CHARS, "text")
        if _is_daily(one, scope):
            async with one.changing(scope):
                done = await append_fact(memory, body, _signed("memory_save"), clock=one.clock, kind=type)
            place = done.line.place
            said = f"Logged in {place}." if done.commit else f"{place} says so already."
            logged = Entry(file=place, body=body, kind=type, origin="agent")
            return Answer.of(said, changed_memory(logged, None, scope, commit=done.commit))
        draft = draft_of(body, type, name, description, _judge(scope))
        # Before the save: it may replace a local-only memory and report its text (M14c, M27).
        async with one.changing(scope):
            staying = await one.staying()
            saved = await memory.save(draft, _signed("memory_save"))
        return Answer.of(_kept(saved, scope), _changed(saved, scope), staying)

    return save


def _correct(projects: Projects) -> Tool:
    @tool(name="memory_correct", description=CORRECT)
    async def correct(
        name: Annotated[str, WHICH],
        old: Annotated[str | None, "The wrong value, as the memory has it, exactly once."] = None,
        new: Annotated[str | None, "The right value, in place of `old`."] = None,
        text: Annotated[str | None, "Instead of `old` and `new`: the whole new text."] = None,
        project: Annotated[str | None, PROJECT] = None,
    ) -> Answer:
        wanted, gone = _correction(text, old, new)
        one = await projects.one(project)
        whose, file = one.split(name)
        memory = await one.writing(whose)
        async with one.changing(whose):
            staying = await one.staying()
            if _is_daily(one, whose):
                found = await find_candidate(memory, file, without=await one.hidden(whose))
                said = await _correct_log(one, memory, found.entry, wanted, gone)
                return Answer.of(said, changed_memory(None, found.entry, whose, note=said), staying)
            entry = (await one.entry(name))[1]
            origin = _judge(whose).origin_of(entry.body)
            saved = await memory.correct(
                entry.file, wanted, _signed("memory_correct"), old=gone, origin=origin
            )
        return Answer.of(_kept(saved, whose), _changed(saved, whose), staying)

    return correct


def _forget(projects: Projects) -> Tool:
    @tool(name="memory_forget", description=FORGET)
    async def forget(name: Annotated[str, WHICH], project: Annotated[str | None, PROJECT] = None) -> Answer:
        one = await projects.one(project)
        whose, wanted = one.split(name)
        memory = await one.writing(whose)
        signed = _signed("memory_forget")
        async with one.changing(whose):
            # Only visible memories can be named: otherwise a guess would reveal local-only ones (M27).
            staying = await one.staying()
            if _is_daily(one, whose):
                hidden = await one.hidden(whose)
                entry, commit = await forget_candidate(memory, wanted, signed, without=hidden)
            else:
                found = (await one.entry(name))[1]
                if whose == "user" and found.is_trusted:
                    raise ToolError(
                        f"only the person removes it: `nacre memory forget {wanted} --scope user`"
                    )
                entry, commit = await memory.forget(found.file, signed)
        said = f"Forgot {in_scope(whose, entry.file)}, which said{doubt(entry)}: {shorten_body(entry.body)}"
        data = changed_memory(None, entry, whose, commit=commit)
        return Answer.of(f"{said}\n{_way_back(commit, whose)}", data, staying)

    return forget


def _undo(projects: Projects) -> Tool:
    @tool(name="memory_undo", description=UNDO)
    async def undo(
        change: Annotated[str | None, "The change, as in the answer that made it; else your newest."] = None,
        scope: Annotated[Scope, WHERE] = "project",
        project: Annotated[str | None, PROJECT] = None,
    ) -> Answer:
        one = await projects.one(project)
        memory = await one.writing(scope)
        async with one.changing(scope):
            undone = await _own_change(memory, change, scope)
            shown = listed_change(undone)
            newest = (await memory.log(limit=1))[0].id
            made = await memory.undo(undone.id, _signed(_undo_reason(shown)))
            staying = await one.staying()
            restored = [await _restored(one, scope, file) for file in undone.files if file != INDEX_FILE]
        commit = made if made != newest else ""
        data = ChangeUndone(shown.change, shown.reason, scope, restored, commit[:SHORT_COMMIT] or None)
        lines = [
            f"Undid {shown.change} ({shown.reason})." if commit else f"{shown.change} is undone already."
        ]
        lines += [f"{each.name}: {each.text or 'no longer there'}" for each in restored]
        lines += [_way_back(commit, scope)] if commit else []
        return Answer.of("\n".join(lines), data, staying)

    return undo


async def _correct_log(project: Project, memory: Memory, entry: Entry, text: str, old: str) -> str:
    from nacre.memory.corrections import Correction  # noqa: PLC0415 - only corrections need its patterns

    return await correct_in_log(
        memory,
        entry,
        Correction(text, old) if old else text,
        _signed("memory_correct"),
        clock=project.clock,
        origins=BY_AGENT,
    )


def _correction(text: str | None, old: str | None, new: str | None) -> tuple[str, str]:
    """Return the new text or value, and the old value if only that is replaced."""
    if text and text.strip() and old is None and new is None:
        return bounded(text, MAX_TEXT_CHARS, "text"), ""
    if text is None and old and new and old.strip() and new.strip():
        return bounded(new, MAX_TEXT_CHARS, "new").strip(), old.strip()
    raise ToolError("memory_correct takes either `old` and `new`, or `text`")


async def _own_change(memory: Memory, wanted: str | None, scope: Whose) -> Commit:
    """Return the change that an agent made; without an id the newest one of this client that is in force."""
    from nacre.memory.files.undo import LOOK_BACK, in_force  # noqa: PLC0415 - most clients never undo
    from nacre.store.history import History  # noqa: PLC0415 - see above

    if not wanted:
        client = _by_client()
        for commit in in_force(await memory.log(limit=LOOK_BACK)):
            if commit.author == "agent" and commit.reason.endswith(client):
                return commit
        raise ToolError("you changed nothing here that is not undone; memory_history lists other changes")
    found = await asyncio.to_thread(History(memory.location.history).one, wanted)
    if found.author != "agent":
        where = "" if scope == "project" else f" --scope {scope}"
        undo = f"nacre memory undo {found.id[:SHORT_COMMIT]}{where}"
        raise ToolError(f"no agent made that change, so only the person undoes it: `{undo}`")
    return found


def _undo_reason(undone: ListedChange) -> str:
    return f"undo {undone.change}: {undone.reason.partition(BY)[0]}"


async def _restored(project: Project, whose: Whose, file: str) -> RestoredMemory:
    """Return what a file says after an undo, if it may be shown."""
    found = await project.file(whose, file)
    return RestoredMemory(one_line(in_scope(whose, file)), shorten_body(found.body) if found else None)


def _is_daily(project: Project, whose: Whose) -> bool:
    return whose == "project" and project.settings.memory.mode == "daily"


def _judge(whose: Whose) -> OriginJudge:
    return UNSEEN if whose == "user" else BY_AGENT


def _changed(saved: Saved, whose: Whose) -> MemoryChanged:
    return changed_memory(saved.entry, saved.before, whose, commit=saved.commit, note=saved.feedback)


def _kept(saved: Saved, whose: Whose) -> str:
    name = in_scope(whose, saved.entry.file)
    said = f"Saved as {name}."
    if saved.before is not None:
        said = f"Updated {name}; before it said{doubt(saved.before)}: {shorten_body(saved.before.body)}"
    if not saved.commit:
        said = f"{name} says so already."
    waits = ""
    if not saved.entry.is_trusted:
        where = "" if whose == "project" else f" --scope {whose}"
        confirm = f"nacre memory confirm {saved.entry.file}{where}"
        waits = f"It is not confirmed: no agent gets it unless it asks, until the person runs `{confirm}`."
    way_back = _way_back(saved.commit, whose) if saved.commit else ""
    return "\n".join(filter(None, (said, waits, way_back, saved.feedback)))


def _way_back(commit: str, whose: Whose) -> str:
    where = "" if whose == "project" else f' and scope "{whose}"'
    return f'memory_undo with change "{commit[:SHORT_COMMIT]}"{where} takes this back.'


def _signed(reason: str) -> MemoryChange:
    """Return a change by an agent that names the client (M15, M16b)."""
    return MemoryChange(author="agent", reason=f"{reason}{_by_client()}")


def _by_client() -> str:
    return f"{BY}{CALLER.get().client}"
