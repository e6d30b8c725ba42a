"""The memory tools: remember, recall, forget and correct, on topics or on daily logs (M17, M19)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from nacre import prompts
from nacre.clock import Clock
from nacre.errors import StoreError, ToolError
from nacre.memory.daily_log import (
    append_fact,
    as_one_line,
    candidates,
    find_candidate,
    forget_candidate,
    search_logs,
    with_mark,
)
from nacre.memory.files.folder import TEAM_PREFIX
from nacre.memory.format.entry import DOUBTFUL, Entry, Kind, MemoryChange, MemoryDraft, Origin, whole_text
from nacre.memory.memory import Memory, Saved, Scopes
from nacre.memory.similarity import ScoredEntry, same_subject
from nacre.messages.untrusted_text import neutralise
from nacre.tools.base import Tool, tool

if TYPE_CHECKING:
    from nacre.memory.corrections import Correction

REMEMBER = prompts.load("nacre.memory", "tool_remember")
RECALL = prompts.load("nacre.memory", "tool_recall")
FORGET = prompts.load("nacre.memory", "tool_forget")
CORRECT = prompts.load("nacre.memory", "tool_correct")
REMEMBER_TEAM = prompts.load("nacre.memory", "tool_remember_team")
REMEMBER_DAILY = prompts.load("nacre.memory", "tool_remember_daily")
CORRECT_DAILY = prompts.load("nacre.memory", "tool_correct_daily")
FORGET_DAILY = prompts.load("nacre.memory", "tool_forget_daily")
WHICH = "Its file or name, or words only it answers to."
TEXT = "Full sentences that will still be clear in a year."
NAME = "A short title."
DESCRIPTION = "One line: when this is worth knowing."
SCOPE = "private, or team: everybody on the repository."
DOUBT = " (not confirmed: it came from outside)"
"""Precedes the text of an untrusted memory in every answer of these tools (M16b)."""
MAX_BODY_CHARS = 4_096
"""Characters of one memory in an answer; the file contains the rest."""


MakeChange = Callable[[str], MemoryChange]
"""Returns the author and session of a change for a reason."""
OriginOf = Callable[[str], Origin]
"""Returns the origin of a text (M16b)."""


def by_agent(text: str) -> Origin:
    return "agent"


class OriginJudge:
    """Judges the origin of what a tool saves; this one takes it all for the agent's own words."""

    def origin_of(self, text: str, *, trusted: tuple[str, ...] = ()) -> Origin:
        """Return the origin of a text; `trusted` texts count as the user's own."""
        return "agent"

    def supports(self, text: str, *, trusted: tuple[str, ...] = ()) -> bool:
        """Return whether the user's words support a text, so that it replaces an unverified one."""
        return False

    def supported_title(self, title: str, body: str) -> str:
        """Return a title or description; empty, to be derived, if body and user do not support it."""
        return title

    def saved(self, entry: Entry) -> None:
        """Take note of a saved entry."""


BY_AGENT = OriginJudge()


def memory_tools(
    memory: Memory, *, session: str, team: Memory | None = None, origins: OriginJudge = BY_AGENT
) -> list[Tool]:
    """Return the four tools for one memory; their changes are attributed to the agent in this session.

    With a team memory, `remember` has a scope parameter, and the other tools work on both memories (M18).
    """

    def make_change(reason: str) -> MemoryChange:
        return MemoryChange(author="agent", reason=reason, session=session)

    scopes = Scopes(memory, team)
    return [
        _correct(scopes, make_change, origins),
        _forget(scopes, make_change),
        _recall(scopes.search),
        _remember_in_scope(memory, team, make_change, origins)
        if team
        else _remember(memory, make_change, origins),
    ]


def _remember(memory: Memory, make_change: MakeChange, origins: OriginJudge) -> Tool:
    @tool(name="remember", description=REMEMBER)
    async def remember(
        text: Annotated[str, TEXT],
        type: Kind | None = None,  # noqa: A002 - the model's word
        name: Annotated[str | None, NAME] = None,
        description: Annotated[str | None, DESCRIPTION] = None,
    ) -> str:
        with as_tool_error():
            saved = await memory.save(
                draft_of(text, type, name, description, origins), make_change("remember")
            )
        origins.saved(saved.entry)
        return _saved_text(saved)

    return remember


def _remember_in_scope(memory: Memory, team: Memory, make_change: MakeChange, origins: OriginJudge) -> Tool:
    @tool(name="remember", description=REMEMBER_TEAM)
    async def remember(
        text: Annotated[str, TEXT],
        scope: Annotated[Literal["private", "team"], SCOPE] = "private",
        type: Kind | None = None,  # noqa: A002 - the model's word
        name: Annotated[str | None, NAME] = None,
        description: Annotated[str | None, DESCRIPTION] = None,
    ) -> str:
        place = team if scope == "team" else memory
        with as_tool_error():
            saved = await place.save(
                draft_of(text, type, name, description, origins), make_change("remember")
            )
        origins.saved(saved.entry)
        return _saved_text(saved, TEAM_PREFIX if scope == "team" else "")

    return remember


def draft_of(
    text: str, kind: Kind | None, name: str | None, description: str | None, origins: OriginJudge
) -> MemoryDraft:
    """Return what a tool saves, with the origin of its text, title and description (M16b)."""
    # The index shows name and description, so their origin counts as well.
    origin = origins.origin_of("\n".join(part for part in (text, name, description) if part))
    if origin in DOUBTFUL and (name or description):
        # A title that nothing supports does not make the text doubtful: another one is derived.
        origin = origins.origin_of(text)
    if origin == "unverified":
        name = description = ""
    name = origins.supported_title(name or "", text)
    description = origins.supported_title(description or "", text)
    return MemoryDraft(
        body=text,
        kind=kind,
        name=name,
        description=description,
        origin=origin,
        is_supported=origins.supports(text),
    )


def _saved_text(saved: Saved, prefix: str = "") -> str:
    file = prefix + saved.entry.file
    answer = f"Saved to {file}."
    if saved.entry.origin == "untrusted":
        answer = f"Saved to {file}, as words from outside: found on request only, until the person vouches."
    elif saved.entry.origin == "unverified":
        answer = f"Saved to {file}, as unverified: found on request only, until the person confirms it."
    if saved.before is not None:
        answer = f"Updated {file}; before it said{_doubt(saved.before)}: {shorten_body(saved.before.body)}"
    return " ".join(part for part in (answer, saved.feedback) if part)


def _recall(search: Callable[[str], Awaitable[list[ScoredEntry]]]) -> Tool:
    @tool(name="recall", description=RECALL, read_only=True)
    async def recall(query: str) -> str:
        with as_tool_error():
            found = await search(query)
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


def _correct(scopes: Scopes, make_change: MakeChange, origins: OriginJudge) -> Tool:
    @tool(name="correct", description=CORRECT)
    async def correct(query: Annotated[str, WHICH], text: Annotated[str, "The whole new text."]) -> str:
        with as_tool_error():
            memory, file, prefix = await scopes.find(query)
            entry = await memory.find(file)
            trusted = (whole_text(entry),) if entry.is_trusted else ()
            origin = origins.origin_of(text, trusted=trusted)
            saved = await memory.correct(
                file,
                text,
                make_change("correct"),
                origin=origin,
                is_supported=origins.supports(text, trusted=trusted),
            )
        origins.saved(saved.entry)
        if saved.before is None:
            return f"{_saved_text(saved, prefix)} {prefix}{file} is unchanged."
        before = f"{_doubt(saved.before)}: {shorten_body(saved.before.body)}" if saved.before else ""
        is_merged = saved.entry.body.strip() != text.strip()
        now = f", which now says{_doubt(saved.entry)}: {shorten_body(saved.entry.body)}" if is_merged else ""
        return f"Corrected {prefix}{saved.entry.file}{now}; before it said{before}"

    return correct


def daily_tools(memory: Memory, *, session: str, clock: Clock, origins: OriginJudge = BY_AGENT) -> list[Tool]:
    """Return the four tools for daily log mode; their changes are attributed to the agent in this session."""

    def make_change(reason: str) -> MemoryChange:
        return MemoryChange(author="agent", reason=reason, session=session)

    return [
        _correct_log(memory, make_change, clock, origins),
        _forget_log(memory, make_change),
        _recall(partial(search_logs, memory)),
        _remember_log(memory, make_change, clock, origins),
    ]


def _remember_log(memory: Memory, make_change: MakeChange, clock: Clock, origins: OriginJudge) -> Tool:
    @tool(name="remember", description=REMEMBER_DAILY)
    async def remember(
        text: Annotated[str, "What to keep: one fact, in a sentence that will still be clear in a year."],
        type: Kind | None = None,  # noqa: A002 - the model's word
    ) -> str:
        with as_tool_error():
            origin = origins.origin_of(text)
            said = with_mark(text, origin)
            done = await append_fact(memory, said, make_change("remember"), clock=clock, kind=type)
        origins.saved(Entry(file=done.line.place, body=text, origin=origin))
        return f"Logged in {done.line.place}." if done.commit else f"It stands in {done.line.place} already."

    return remember


def _correct_log(memory: Memory, make_change: MakeChange, clock: Clock, origins: OriginJudge) -> Tool:
    @tool(name="correct", description=CORRECT_DAILY)
    async def correct(query: Annotated[str, WHICH], text: Annotated[str, "The whole new text."]) -> str:
        with as_tool_error():
            entry = (await find_candidate(memory, query)).entry
            change = make_change("correct")
            return await correct_in_log(memory, entry, text, change, clock=clock, origins=origins)

    return correct


async def correct_in_log(
    memory: Memory,
    entry: Entry,
    text: str | Correction,
    change: MemoryChange,
    *,
    clock: Clock,
    origins: OriginJudge,
) -> str:
    """Log a new text in place of a topic or log line; return the answer of the tool."""
    from nacre.memory.corrections import parse_correction  # noqa: PLC0415 - only daily logs need it here

    # A correction merged with untrusted text would lose its mark (M16b).
    given = text if not isinstance(text, str) else parse_correction(text) if entry.is_trusted else None
    new = (given and given.applied(entry.body)) or text
    if not isinstance(new, str):
        raise StoreError(f"{entry.file} does not have {new.old!r} exactly once; give its whole new text")
    origin = origins.origin_of(new, trusted=(entry.body,) if entry.is_trusted else ())
    line = as_one_line(new)
    said = with_mark(f"{line} (instead of {entry.file})", origin) if line else ""
    done = await append_fact(memory, said, change, clock=clock, kind=entry.kind)
    origins.saved(Entry(file=done.line.place, body=new, origin=origin))
    return f"Logged in {done.line.place}, instead of {entry.file}, which says: {shorten_body(entry.body)}"


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
    dated = f", {entry.changed.date().isoformat()}" if entry.changed else ""
    body = entry.body.strip()
    shown = body if len(body) <= MAX_BODY_CHARS else body[:MAX_BODY_CHARS] + " …"
    return f"{entry.file}{dated}{_doubt(entry)}:\n{neutralise(shown)}"


def _doubt(entry: Entry) -> str:
    return DOUBT if not entry.is_trusted else ""


def shorten_body(body: str) -> str:
    text = " ".join(body.split())
    return neutralise(text if len(text) <= 200 else text[:199] + "…")
