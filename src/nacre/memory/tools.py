"""The memory tools: remember, recall, forget and correct, on topics or on daily logs (M17, M19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

from nacre import prompts
from nacre.clock import Clock
from nacre.errors import StoreError, ToolError
from nacre.memory.corrections import parse_correction
from nacre.memory.daily_log import (
    UNTRUSTED,
    append_fact,
    as_one_line,
    candidates,
    find_candidate,
    forget_candidate,
    search_logs,
)
from nacre.memory.files.folder import TEAM_PREFIX
from nacre.memory.format.entry import Entry, Kind, MemoryChange, MemoryDraft, Origin
from nacre.memory.memory import Memory, Saved, Scopes
from nacre.memory.similarity import ScoredEntry, same_subject
from nacre.messages.untrusted_text import neutralise
from nacre.tools.base import Tool, tool

REMEMBER = prompts.load("nacre.memory", "tool_remember")
RECALL = prompts.load("nacre.memory", "tool_recall")
FORGET = prompts.load("nacre.memory", "tool_forget")
CORRECT = prompts.load("nacre.memory", "tool_correct")
REMEMBER_TEAM = prompts.load("nacre.memory", "tool_remember_team")
REMEMBER_DAILY = prompts.load("nacre.memory", "tool_remember_daily")
CORRECT_DAILY = prompts.load("nacre.memory", "tool_correct_daily")
FORGET_DAILY = prompts.load("nacre.memory", "tool_forget_daily")
WHICH = "The file or name of the memory, or words only it answers to."
TEXT = "What to keep, in full sentences that will still be clear in a year."
TYPE = "user, feedback, project or reference."
NAME = "A short title; found by itself when left out."
DESCRIPTION = "One specific line that says when this is worth knowing."
SCOPE = "private, or team: everybody on the repository."
DOUBT = " (nobody vouches for this: it came from outside)"
"""Precedes the text of an untrusted memory in every answer of these tools (M16b)."""
MAX_BODY_CHARS = 4_096
"""Characters of one memory in an answer; the file contains the rest."""


MakeChange = Callable[[str], MemoryChange]
"""Returns the author and session of a change for a reason."""
OriginOf = Callable[[str], Origin]
"""Returns the origin of a text (M16b)."""


def by_agent(text: str) -> Origin:
    return "agent"


def memory_tools(
    memory: Memory, *, session: str, team: Memory | None = None, origin_of: OriginOf = by_agent
) -> list[Tool]:
    """Return the four tools for one memory; their changes are attributed to the agent in this session.

    With a team memory, `remember` has a scope parameter, and the other tools work on both memories (M18).
    """

    def make_change(reason: str) -> MemoryChange:
        return MemoryChange(author="agent", reason=reason, session=session)

    scopes = Scopes(memory, team)
    remember = (
        _remember(memory, make_change, origin_of)
        if team is None
        else _remember_in_scope(scopes, team, make_change, origin_of)
    )
    return [_correct(scopes, make_change, origin_of), _forget(scopes, make_change), _recall(scopes), remember]


def _remember(memory: Memory, make_change: MakeChange, origin_of: OriginOf) -> Tool:
    @tool(name="remember", description=REMEMBER)
    async def remember(
        text: Annotated[str, TEXT],
        type: Annotated[Kind | None, TYPE] = None,  # noqa: A002 - the model's word
        name: Annotated[str | None, NAME] = None,
        description: Annotated[str | None, DESCRIPTION] = None,
    ) -> str:
        draft = _draft(text, type, name, description, origin_of)
        with as_tool_error():
            return _saved_text(await memory.save(draft, make_change("remember")))

    return remember


def _remember_in_scope(scopes: Scopes, team: Memory, make_change: MakeChange, origin_of: OriginOf) -> Tool:
    @tool(name="remember", description=REMEMBER_TEAM)
    async def remember(
        text: Annotated[str, TEXT],
        scope: Annotated[Literal["private", "team"], SCOPE] = "private",
        type: Annotated[Kind | None, TYPE] = None,  # noqa: A002 - the model's word
        name: Annotated[str | None, NAME] = None,
        description: Annotated[str | None, DESCRIPTION] = None,
    ) -> str:
        draft = _draft(text, type, name, description, origin_of)
        with as_tool_error():
            if scope == "team":
                return _saved_text(await team.save(draft, make_change("remember")), TEAM_PREFIX)
            return _saved_text(await scopes.private.save(draft, make_change("remember")))

    return remember


def _draft(
    text: str, kind: Kind | None, name: str | None, description: str | None, origin_of: OriginOf
) -> MemoryDraft:
    # The index shows name and description, so their origin counts as well.
    origin = origin_of("\n".join(part for part in (text, name, description) if part))
    return MemoryDraft(body=text, kind=kind, name=name or "", description=description or "", origin=origin)


def _saved_text(saved: Saved, prefix: str = "") -> str:
    file = prefix + saved.entry.file
    answer = f"Saved to {file}."
    if saved.entry.origin == "untrusted":
        answer = f"Saved to {file}, as words from outside: found on request only, until the person vouches."
    if saved.before is not None:
        answer = f"Updated {file}; before it said{_doubt(saved.before)}: {shorten_body(saved.before.body)}"
    return " ".join(part for part in (answer, saved.feedback) if part)


def _recall(scopes: Scopes) -> Tool:
    @tool(name="recall", description=RECALL, read_only=True)
    async def recall(query: Annotated[str, "What to look for, in a few words."]) -> str:
        with as_tool_error():
            found = await scopes.search(query)
        return "\n\n".join(map(format_entry, found)) or "Nothing in memory has to do with that."

    return recall


def _forget(scopes: Scopes, make_change: MakeChange) -> Tool:
    @tool(name="forget", description=FORGET)
    async def forget(query: Annotated[str, WHICH]) -> str:
        with as_tool_error():
            memory, file, prefix = await scopes.find(query)
            entry, _ = await memory.forget(file, make_change("forget"))
        return f"Forgot {prefix}{entry.file}, which said{_doubt(entry)}: {shorten_body(entry.body)}"

    return forget


def _correct(scopes: Scopes, make_change: MakeChange, origin_of: OriginOf) -> Tool:
    @tool(name="correct", description=CORRECT)
    async def correct(
        query: Annotated[str, WHICH], text: Annotated[str, "What it shall say instead, whole."]
    ) -> str:
        with as_tool_error():
            memory, file, prefix = await scopes.find(query)
            saved = await memory.correct(file, text, make_change("correct"), origin=origin_of(text))
        before = f"{_doubt(saved.before)}: {shorten_body(saved.before.body)}" if saved.before else ""
        is_merged = saved.entry.body.strip() != text.strip()
        now = f", which now says{_doubt(saved.entry)}: {shorten_body(saved.entry.body)}" if is_merged else ""
        return f"Corrected {prefix}{saved.entry.file}{now}; before it said{before}"

    return correct


def daily_tools(memory: Memory, *, session: str, clock: Clock, origin_of: OriginOf = by_agent) -> list[Tool]:
    """Return the four tools for daily log mode; their changes are attributed to the agent in this session."""

    def make_change(reason: str) -> MemoryChange:
        return MemoryChange(author="agent", reason=reason, session=session)

    return [
        _correct_log(memory, make_change, clock),
        _forget_log(memory, make_change),
        _recall_log(memory),
        _remember_log(memory, make_change, clock, origin_of),
    ]


def _remember_log(memory: Memory, make_change: MakeChange, clock: Clock, origin_of: OriginOf) -> Tool:
    @tool(name="remember", description=REMEMBER_DAILY)
    async def remember(
        text: Annotated[str, "What to keep: one fact, in a sentence that will still be clear in a year."],
        type: Annotated[Kind | None, "user, feedback, project or reference."] = None,  # noqa: A002 - the model's word
    ) -> str:
        said = f"{text} {UNTRUSTED}" if origin_of(text) == "untrusted" else text
        with as_tool_error():
            done = await append_fact(memory, said, make_change("remember"), clock=clock, kind=type)
        return f"Logged in {done.line.place}." if done.commit else f"It stands in {done.line.place} already."

    return remember


def _recall_log(memory: Memory) -> Tool:
    @tool(name="recall", description=RECALL, read_only=True)
    async def recall(query: Annotated[str, "What to look for, in a few words."]) -> str:
        with as_tool_error():
            found = await search_logs(memory, query)
        return "\n\n".join(map(format_entry, found)) or "Nothing in memory has to do with that."

    return recall


def _correct_log(memory: Memory, make_change: MakeChange, clock: Clock) -> Tool:
    @tool(name="correct", description=CORRECT_DAILY)
    async def correct(
        query: Annotated[str, WHICH], text: Annotated[str, "What it shall say instead, whole."]
    ) -> str:
        with as_tool_error():
            entry = (await find_candidate(memory, query)).entry
            # A correction merged with untrusted text would lose its mark (M16b).
            given = parse_correction(text) if entry.origin != "untrusted" else None
            text = (given and given.applied(entry.body)) or text
            said = f"{as_one_line(text)} (instead of {entry.file})" if as_one_line(text) else ""
            done = await append_fact(memory, said, make_change("correct"), clock=clock, kind=entry.kind)
        return f"Logged in {done.line.place}, instead of {entry.file}, which says: {shorten_body(entry.body)}"

    return correct


def _forget_log(memory: Memory, make_change: MakeChange) -> Tool:
    @tool(name="forget", description=FORGET_DAILY)
    async def forget(query: Annotated[str, WHICH]) -> str:
        with as_tool_error():
            gone, _ = await forget_candidate(memory, query, make_change("forget"))
            left = same_subject("", gone.body, [one.entry for one in await candidates(memory)])
        more = f" {left.file} says much the same; forget it too if it is meant." if left else ""
        return f"Forgot {gone.file}, which said: {shorten_body(gone.body)}{more}"

    return forget


@contextmanager
def as_tool_error() -> Iterator[None]:
    """Turn a `StoreError` into a `ToolError`, whose message the model reads."""
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
