"""What the model may call on memory: remember, recall, forget, correct; each acts in that very turn (M19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

from nacre import prompts
from nacre.errors import StoreError, ToolError
from nacre.memory.files.folder import TEAM_PREFIX
from nacre.memory.format.entry import Entry, Kind, MemoryChange, MemoryDraft, Origin
from nacre.memory.memory import Memory, Saved, Scopes
from nacre.memory.similarity import ScoredEntry
from nacre.messages.untrusted_text import neutralise
from nacre.tools.base import Tool, tool

REMEMBER = prompts.load("nacre.memory", "tool_remember")
RECALL = prompts.load("nacre.memory", "tool_recall")
FORGET = prompts.load("nacre.memory", "tool_forget")
CORRECT = prompts.load("nacre.memory", "tool_correct")
REMEMBER_TEAM = prompts.load("nacre.memory", "tool_remember_team")
WHICH = "The file or name of the memory, or words only it answers to."
TEXT = "What to keep, in full sentences that will still be clear in a year."
TYPE = "user, feedback, project or reference."
NAME = "A short title; found by itself when left out."
DESCRIPTION = "One specific line that says when this is worth knowing."
SCOPE = "private, or team: everybody on the repository."
DOUBT = " (nobody vouches for this: it came from outside)"
"""Stands before the words of an untrusted memory in whatever these tools answer (M16b)."""
MAX_BODY_CHARS = 4_096
"""Of one memory in an answer; the file has the rest."""


MakeChange = Callable[[str], MemoryChange]
"""Signs a change with its reason."""


OriginOf = Callable[[str], Origin]
"""Tells whose words a text repeats (M16b)."""


def by_agent(text: str) -> Origin:
    return "agent"


def memory_tools(
    memory: Memory, *, session: str, team: Memory | None = None, origin_of: OriginOf = by_agent
) -> list[Tool]:
    """The four tools on one memory; what they change is the agent's work in this session.

    With a team's memory beside it `remember` takes a scope, and the others work on both (M18).
    """

    def sign(reason: str) -> MemoryChange:
        return MemoryChange(author="agent", reason=reason, session=session)

    scopes = Scopes(memory, team)
    remember = (
        _remember(memory, sign, origin_of)
        if team is None
        else _remember_in_scope(scopes, team, sign, origin_of)
    )
    return [_correct(scopes, sign, origin_of), _forget(scopes, sign), _recall(scopes), remember]


def _remember(memory: Memory, sign: MakeChange, origin_of: OriginOf) -> Tool:
    @tool(name="remember", description=REMEMBER)
    async def remember(
        text: Annotated[str, TEXT],
        type: Annotated[Kind | None, TYPE] = None,  # noqa: A002 - the model's word
        name: Annotated[str | None, NAME] = None,
        description: Annotated[str | None, DESCRIPTION] = None,
    ) -> str:
        origin = origin_of(_all_said(text, name, description))
        draft = MemoryDraft(
            body=text, kind=type, name=name or "", description=description or "", origin=origin
        )
        with as_tool_error():
            return _kept(await memory.save(draft, sign("remember")))

    return remember


def _remember_in_scope(scopes: Scopes, team: Memory, sign: MakeChange, origin_of: OriginOf) -> Tool:
    @tool(name="remember", description=REMEMBER_TEAM)
    async def remember(
        text: Annotated[str, TEXT],
        scope: Annotated[Literal["private", "team"], SCOPE] = "private",
        type: Annotated[Kind | None, TYPE] = None,  # noqa: A002 - the model's word
        name: Annotated[str | None, NAME] = None,
        description: Annotated[str | None, DESCRIPTION] = None,
    ) -> str:
        origin = origin_of(_all_said(text, name, description))
        draft = MemoryDraft(
            body=text, kind=type, name=name or "", description=description or "", origin=origin
        )
        with as_tool_error():
            if scope == "team":
                return _kept(await team.save(draft, sign("remember")), TEAM_PREFIX)
            return _kept(await scopes.private.save(draft, sign("remember")))

    return remember


def _all_said(*texts: str | None) -> str:
    """Name and description are shown in the index, so they count like the text."""
    return "\n".join(text for text in texts if text)


def _kept(saved: Saved, prefix: str = "") -> str:
    file = prefix + saved.entry.file
    kept = f"Saved to {file}."
    if saved.entry.origin == "untrusted":
        kept = f"Saved to {file}, as words from outside: found on request only, until the person vouches."
    if saved.before is not None:
        kept = f"Updated {file}; before it said{_doubt(saved.before)}: {shorten_body(saved.before.body)}"
    return " ".join(part for part in (kept, saved.feedback) if part)


def _recall(scopes: Scopes) -> Tool:
    @tool(name="recall", description=RECALL, read_only=True)
    async def recall(query: Annotated[str, "What to look for, in a few words."]) -> str:
        with as_tool_error():
            found = await scopes.search(query)
        return "\n\n".join(map(format_entry, found)) or "Nothing in memory has to do with that."

    return recall


def _forget(scopes: Scopes, sign: MakeChange) -> Tool:
    @tool(name="forget", description=FORGET)
    async def forget(query: Annotated[str, WHICH]) -> str:
        with as_tool_error():
            memory, file, prefix = await scopes.find(query)
            entry, _ = await memory.forget(file, sign("forget"))
        return f"Forgot {prefix}{entry.file}, which said{_doubt(entry)}: {shorten_body(entry.body)}"

    return forget


def _correct(scopes: Scopes, sign: MakeChange, origin_of: OriginOf) -> Tool:
    @tool(name="correct", description=CORRECT)
    async def correct(
        query: Annotated[str, WHICH], text: Annotated[str, "What it shall say instead, whole."]
    ) -> str:
        with as_tool_error():
            memory, file, prefix = await scopes.find(query)
            saved = await memory.correct(file, text, sign("correct"), origin=origin_of(text))
        before = f"{_doubt(saved.before)}: {shorten_body(saved.before.body)}" if saved.before else ""
        is_other = saved.entry.body.strip() != text.strip()
        now = f", which now says{_doubt(saved.entry)}: {shorten_body(saved.entry.body)}" if is_other else ""
        return f"Corrected {prefix}{saved.entry.file}{now}; before it said{before}"

    return correct


@contextmanager
def as_tool_error() -> Iterator[None]:
    """What memory refuses, the model may read."""
    try:
        yield
    except StoreError as error:
        raise ToolError(str(error)) from error


def format_entry(found: ScoredEntry) -> str:
    entry = found.entry
    when = entry.changed
    dated = f", {when.date().isoformat()}" if when else ""
    body = entry.body.strip()
    shown = body if len(body) <= MAX_BODY_CHARS else body[:MAX_BODY_CHARS] + " …"
    return f"{entry.file}{dated}{_doubt(entry)}:\n{neutralise(shown)}"


def _doubt(entry: Entry) -> str:
    return DOUBT if entry.origin == "untrusted" else ""


def shorten_body(body: str) -> str:
    text = " ".join(body.split())
    return neutralise(text if len(text) <= 200 else text[:199] + "…")
