"""What the model may call on memory: remember, recall, forget, correct; each acts in that very turn (M19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

from nacre import prompts
from nacre.errors import StoreError, ToolError
from nacre.memory.directory import Memory
from nacre.memory.entry import Change, Draft, Kind
from nacre.memory.likeness import Found
from nacre.memory.neutral import neutralise
from nacre.tools.base import Tool, tool

REMEMBER = prompts.load("nacre.memory", "tool_remember")
RECALL = prompts.load("nacre.memory", "tool_recall")
FORGET = prompts.load("nacre.memory", "tool_forget")
CORRECT = prompts.load("nacre.memory", "tool_correct")
WHICH = "The file or name of the memory, or words only it answers to."
MAX_BODY_CHARS = 4_096
"""Of one memory in an answer; the file has the rest."""


Sign = Callable[[str], Change]
"""Signs a change with its reason."""


def memory_tools(memory: Memory, *, session: str) -> list[Tool]:
    """The four tools on one memory; what they change is the agent's work in this session."""

    def sign(reason: str) -> Change:
        return Change(author="agent", reason=reason, session=session)

    return [_correct(memory, sign), _forget(memory, sign), _recall(memory), _remember(memory, sign)]


def _remember(memory: Memory, sign: Sign) -> Tool:
    @tool(name="remember", description=REMEMBER)
    async def remember(
        text: Annotated[str, "What to keep, in full sentences that will still be clear in a year."],
        type: Annotated[Kind | None, "user, feedback, project or reference."] = None,  # noqa: A002 - the model's word
        name: Annotated[str | None, "A short title; found by itself when left out."] = None,
        description: Annotated[str | None, "One specific line that says when this is worth knowing."] = None,
    ) -> str:
        draft = Draft(body=text, kind=type, name=name or "", description=description or "")
        with _as_tool_error():
            saved = await memory.save(draft, sign("remember"))
        kept = f"Saved to {saved.entry.file}."
        if saved.before is not None:
            kept = f"Updated {saved.entry.file}; before it said: {_short(saved.before.body)}"
        return " ".join(part for part in (kept, saved.feedback) if part)

    return remember


def _recall(memory: Memory) -> Tool:
    @tool(name="recall", description=RECALL, read_only=True)
    async def recall(query: Annotated[str, "What to look for, in a few words."]) -> str:
        with _as_tool_error():
            found = await memory.search(query)
        return "\n\n".join(map(_told, found)) or "Nothing in memory has to do with that."

    return recall


def _forget(memory: Memory, sign: Sign) -> Tool:
    @tool(name="forget", description=FORGET)
    async def forget(query: Annotated[str, WHICH]) -> str:
        with _as_tool_error():
            entry, _ = await memory.forget(query, sign("forget"))
        return f"Forgot {entry.file}, which said: {_short(entry.body)}"

    return forget


def _correct(memory: Memory, sign: Sign) -> Tool:
    @tool(name="correct", description=CORRECT)
    async def correct(
        query: Annotated[str, WHICH], text: Annotated[str, "What it shall say instead, whole."]
    ) -> str:
        with _as_tool_error():
            saved = await memory.correct(query, text, sign("correct"))
        before = _short(saved.before.body) if saved.before else ""
        return f"Corrected {saved.entry.file}; before it said: {before}"

    return correct


@contextmanager
def _as_tool_error() -> Iterator[None]:
    """What memory refuses, the model may read."""
    try:
        yield
    except StoreError as error:
        raise ToolError(str(error)) from error


def _told(found: Found) -> str:
    entry = found.entry
    when = entry.modified or entry.written
    dated = f", {when.date().isoformat()}" if when else ""
    doubt = " (nobody vouches for this: it came from outside)" if entry.origin == "untrusted" else ""
    body = entry.body.strip()
    shown = body if len(body) <= MAX_BODY_CHARS else body[:MAX_BODY_CHARS] + " …"
    return f"{entry.file}{dated}{doubt}:\n{neutralise(shown)}"


def _short(body: str) -> str:
    text = " ".join(body.split())
    return neutralise(text if len(text) <= 200 else text[:199] + "…")
