"""Memory tools for MCP clients: recall, get, save, forget, history."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Literal

from nacre import prompts
from nacre.app.memory_locations import Whose
from nacre.errors import ToolError
from nacre.inspect.memory_origin import SHORT_COMMIT
from nacre.integrations.mcp_server.base import (
    CALLER,
    MAX_QUERY_CHARS,
    MAX_SHOWN_CHARS,
    MAX_TEXT_CHARS,
    PROJECT,
    Offered,
)
from nacre.integrations.mcp_server.project import USER_PREFIX, Project, Projects
from nacre.memory.daily_log import append_fact, forget_candidate
from nacre.memory.files.folder import TEAM_PREFIX
from nacre.memory.format.entry import DOUBTFUL, Entry, Kind, MemoryChange, MemoryDraft
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.memory import Saved
from nacre.memory.recall.base import LeftOut, Recalled
from nacre.memory.tools import DOUBT, shorten_body
from nacre.messages.untrusted_text import neutralise, one_line
from nacre.store.history import Commit
from nacre.tools.base import Tool, tool

RECALL = prompts.load(__package__, "tool_memory_recall")
GET = prompts.load(__package__, "tool_memory_get")
SAVE = prompts.load(__package__, "tool_memory_save")
FORGET = prompts.load(__package__, "tool_memory_forget")
HISTORY = prompts.load(__package__, "tool_memory_history")
TYPE = (
    "user: about the person. feedback: how they want work done. "
    "project: who, why and by when. reference: where something is found."
)
WHICH = "The name of the memory as memory_recall or the index gives it."
NEAREST = 5
"""Names of near matches in an empty answer."""
MAX_COMMITS = 100
STILL_READING = (
    "Not all memories are in the index yet; ask again in a few seconds, and the others are looked at, too."
)

Scope = Literal["project", "team"]
"""The user's global memory is left out: it reaches every prompt everywhere."""


def memory_tools(projects: Projects) -> list[Offered]:
    """Return all five tools; a read-only server omits those that write."""
    reading = [
        Offered(_recall(projects), "Recall memories"),
        Offered(_get(projects), "Read a memory"),
        Offered(_history(projects), "Who changed memory"),
    ]
    if projects.options.read_only:
        return reading
    return [
        *reading,
        # Not only additive, in the protocol's sense: a memory on the same subject is replaced.
        Offered(_save(projects), "Save a memory", destructive=True, idempotent=False),
        Offered(_forget(projects), "Forget a memory", destructive=True),
    ]


def _recall(projects: Projects) -> Tool:
    @tool(name="memory_recall", description=RECALL, read_only=True)
    async def recall(
        query: Annotated[str, "What to look for: a question, or the task in your own words."],
        project: Annotated[str | None, PROJECT] = None,
    ) -> str:
        one = await projects.one(project)
        one.check_on()
        found, is_whole = await one.recall(_bounded(query, MAX_QUERY_CHARS, "query"))
        told = recalled_text(found, one) + ("" if is_whole else f"\n\n{STILL_READING}")
        return (await one.staying()).without(told)

    return recall


def _get(projects: Projects) -> Tool:
    @tool(name="memory_get", description=GET, read_only=True)
    async def get(name: Annotated[str, WHICH], project: Annotated[str | None, PROJECT] = None) -> str:
        one = await projects.one(project)
        return await read_memory(one, name)

    return get


def _save(projects: Projects) -> Tool:
    @tool(name="memory_save", description=SAVE)
    async def save(
        text: Annotated[str, "What to keep, in full sentences."],
        type: Annotated[Kind, TYPE],  # noqa: A002 - the client's word
        name: Annotated[str | None, "A short title; found by itself when left out."] = None,
        description: Annotated[str | None, "One specific line that says when this is worth knowing."] = None,
        scope: Annotated[Scope, "project, or team: everybody on the repository."] = "project",
        project: Annotated[str | None, PROJECT] = None,
    ) -> str:
        one = await projects.one(project)
        memory = await one.writing(scope)
        body = _bounded(text, MAX_TEXT_CHARS, "text")
        if scope == "project" and one.settings.memory.mode == "daily":
            async with one.changing:
                done = await append_fact(memory, body, _signed("memory_save"), clock=one.clock, kind=type)
            return f"Logged in {done.line.place}." if done.commit else f"{done.line.place} says so already."
        draft = MemoryDraft(
            body=body, kind=type, name=name or "", description=description or "", origin="agent"
        )
        # Before the save: it may replace a local-only memory and report its text (M14c, M27).
        async with one.changing:
            staying = await one.staying()
            return staying.without(_kept(await memory.save(draft, _signed("memory_save")), scope))

    return save


def _forget(projects: Projects) -> Tool:
    @tool(name="memory_forget", description=FORGET)
    async def forget(name: Annotated[str, WHICH], project: Annotated[str | None, PROJECT] = None) -> str:
        one = await projects.one(project)
        whose, wanted = one.split(name)
        if whose == "user":
            raise ToolError(f"only the person changes it: `nacre memory forget {wanted} --scope user`")
        memory = await one.writing(whose)
        signed = _signed("memory_forget")
        async with one.changing:
            # Only visible memories can be named: otherwise a guess would reveal local-only ones (M27).
            staying = await one.staying()
            if whose == "project" and one.settings.memory.mode == "daily":
                hidden = await one.hidden(whose)
                entry, commit = await forget_candidate(memory, wanted, signed, without=hidden)
            else:
                entry, commit = await memory.forget((await one.entry(name))[1].file, signed)
        said = f"Forgot {in_scope(whose, entry.file)}, which said{_doubt(entry)}: {shorten_body(entry.body)}"
        return f"{staying.without(said)}\n{_way_back(commit, whose)}"

    return forget


def _history(projects: Projects) -> Tool:
    @tool(name="memory_history", description=HISTORY, read_only=True)
    async def history(
        name: Annotated[str | None, WHICH] = None,
        limit: Annotated[int, f"At most so many, up to {MAX_COMMITS}."] = 20,
        project: Annotated[str | None, PROJECT] = None,
    ) -> str:
        one = await projects.one(project)
        whose, wanted = one.split(name) if name else ("project", "")
        memory = one.reading(whose)
        file = await _file_of(one, name, whose, wanted) if name else None
        commits = await memory.log(limit=max(1, min(limit, MAX_COMMITS)), file=file)
        shown = "\n".join(_commit_line(each) for each in commits) or "Nothing was changed yet."
        return (await one.staying()).without(shown)

    return history


async def read_memory(project: Project, name: str) -> str:
    """Return one memory or the index as text."""
    project.check_on()
    whose, wanted = project.split(name)
    if wanted in {INDEX_FILE, INDEX_FILE.removesuffix(".md")}:
        return neutralise(await project.index(whose)) or "The index is empty: nothing was saved yet."
    whose, entry = await project.entry(name)
    return entry_text(entry, whose)


def entry_text(entry: Entry, whose: Whose) -> str:
    """Format a memory with its metadata."""
    when = entry.changed
    facts = [
        entry.kind or "untyped",
        f"said by {'the person' if entry.origin == 'user' else 'an agent'}"
        if not _is_doubtful(entry)
        else "",
        f"written {when.date().isoformat()}" if when else "",
    ]
    head = f"{in_scope(whose, one_line(entry.file))} ({', '.join(filter(None, facts))}){_doubt(entry)}"
    body = neutralise(entry.body.strip() or entry.description)
    if len(body) > MAX_SHOWN_CHARS:
        body = f"{body[:MAX_SHOWN_CHARS]} … ({len(body) - MAX_SHOWN_CHARS:,} characters more in the file)"
    return f"{head}\n{one_line(entry.description)}\n\n{body}"


def in_scope(whose: Whose, file: str) -> str:
    """Return the name of a file with the prefix of its memory."""
    return {"project": "", "team": TEAM_PREFIX, "user": USER_PREFIX}[whose] + file


def recalled_text(found: Recalled, project: Project) -> str:
    """Format recalled memories as in a session, each with the name that `get` accepts."""
    if found.skipped:
        return f"Nothing was looked for: {found.skipped}."
    parts = [
        f"{project.named(one.ranked.directory, one.ranked.entry.file)}\n{one.text}" for one in found.picks
    ]
    if not parts:
        parts = ["No memory is relevant enough for that."]
        if near := _names(found.left_out, {"below the cut-off"}, project):
            parts.append(f"Nearest, and maybe of no use (memory_get reads one): {near}")
    if doubtful := _names(found.left_out, DOUBTFUL, project):
        parts.append(f"Not returned, because they are not confirmed (memory_get reads one): {doubtful}")
    return "\n\n".join(parts)


def _names(left: Sequence[LeftOut], reasons: Collection[str], project: Project) -> str:
    files = [one.file for one in left if one.why in reasons][:NEAREST]
    return ", ".join(one_line(project.named_in_use(file)) for file in files)


def _kept(saved: Saved, scope: Whose) -> str:
    name = in_scope(scope, saved.entry.file)
    said = f"Saved as {name}."
    if saved.before is not None:
        said = f"Updated {name}; before it said{_doubt(saved.before)}: {shorten_body(saved.before.body)}"
    return "\n".join(filter(None, (said, _way_back(saved.commit, scope), saved.feedback)))


def _way_back(commit: str, whose: Whose) -> str:
    where = "" if whose == "project" else f" --scope {whose}"
    return f"`nacre memory undo {commit[:SHORT_COMMIT]}{where}` takes this back."


def _signed(reason: str) -> MemoryChange:
    """Return a change by an agent that names the client (M15, M16b)."""
    return MemoryChange(author="agent", reason=f"{reason} over MCP by {CALLER.get().client}")


async def _file_of(project: Project, name: str, whose: Whose, wanted: str) -> str:
    """Return the file that is meant, existing or deleted."""
    memory = project.reading(whose)
    hidden = await project.hidden(whose)
    for file in (wanted, f"{wanted}.md"):
        if file not in hidden and await memory.log(limit=1, file=file):
            return file
    return (await project.entry(name))[1].file


def _commit_line(each: Commit) -> str:
    reason = one_line(each.reason.partition("\n")[0])
    files = ", ".join(map(one_line, each.files[:NEAREST]))
    more = f" and {len(each.files) - NEAREST} more" if len(each.files) > NEAREST else ""
    return f"{each.id[:SHORT_COMMIT]} {each.at.isoformat()} {each.author}: {reason} ({files}{more})"


def _is_doubtful(entry: Entry) -> bool:
    return not entry.is_trusted


def _doubt(entry: Entry) -> str:
    return DOUBT if _is_doubtful(entry) else ""


def _bounded(text: str, most: int, what: str) -> str:
    if len(text) > most:
        raise ToolError(f"{what} has {len(text):,} characters; at most {most:,} are taken")
    return text
