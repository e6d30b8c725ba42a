"""Memory tools for MCP clients that change nothing: recall, search, list, get, history."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Literal

from nacre import prompts
from nacre.app.memory_locations import Whose
from nacre.errors import ToolError
from nacre.integrations.mcp_server.answers import (
    ChangeList,
    FoundMemories,
    MemoryList,
    RecalledMemories,
    RecalledMemory,
    WholeMemory,
    change_text,
    found_memory,
    found_text,
    in_scope,
    listed_change,
    listed_memory,
    listed_text,
    whole_memory,
    whole_text,
)
from nacre.integrations.mcp_server.base import MAX_QUERY_CHARS, PROJECT, Answer, Offered
from nacre.integrations.mcp_server.project import Project, Projects
from nacre.memory.checks.local_only import merge_local_only
from nacre.memory.format.entry import DOUBTFUL, Entry, Kind
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.recall.base import LeftOut, Recalled
from nacre.messages.untrusted_text import neutralise, one_line
from nacre.tools.base import Tool, tool

RECALL = prompts.load(__package__, "tool_memory_recall")
SEARCH = prompts.load(__package__, "tool_memory_search")
LIST = prompts.load(__package__, "tool_memory_list")
GET = prompts.load(__package__, "tool_memory_get")
HISTORY = prompts.load(__package__, "tool_memory_history")
WHICH = "The name of the memory, as the other tools return it."
NEAREST = 5
"""Names of near matches in an empty answer."""
MAX_COMMITS = 100
MAX_FOUND = 30
MAX_LISTED = 200
STILL_READING = (
    "Not all memories are in the index yet; ask again in a few seconds, and the others are looked at, too."
)
ALL_SCOPES = "Only this scope: the project, the team, or the person (all projects)."

Scope = Literal["project", "team", "user"]


def memory_tools(projects: Projects) -> list[Offered]:
    """Return the tools that change nothing."""
    return [
        Offered(_recall(projects), "Recall memories", answers=RecalledMemories),
        Offered(_search(projects), "Search memories", answers=FoundMemories),
        Offered(_list(projects), "List memories", answers=MemoryList),
        Offered(_get(projects), "Read a memory", answers=WholeMemory),
        Offered(_history(projects), "List changes of memory", answers=ChangeList),
    ]


def _recall(projects: Projects) -> Tool:
    @tool(name="memory_recall", description=RECALL, read_only=True)
    async def recall(
        query: Annotated[str, "What to look for: a question, or the task in your own words."],
        project: Annotated[str | None, PROJECT] = None,
    ) -> Answer:
        one = await projects.one(project)
        one.check_on()
        found, is_whole = await one.recall(bounded(query, MAX_QUERY_CHARS, "query"))
        data = _recalled(found, one, is_whole=is_whole)
        return Answer.of(_recalled_text(data), data, await one.staying())

    return recall


def _search(projects: Projects) -> Tool:
    @tool(name="memory_search", description=SEARCH, read_only=True)
    async def search(
        query: Annotated[str, "Words to search for."],
        scope: Annotated[Scope | None, ALL_SCOPES] = None,
        limit: Annotated[int, f"Maximum number of results, up to {MAX_FOUND}."] = 10,
        project: Annotated[str | None, PROJECT] = None,
    ) -> Answer:
        one = await projects.one(project)
        one.check_on()
        words = bounded(query, MAX_QUERY_CHARS, "query")
        most = max(1, min(limit, MAX_FOUND))
        found, is_whole = await one.search(words, one.scopes(scope), limit=most)
        memories = [found_memory(each.entry, whose, each.score) for whose, each in found]
        parts = [*map(found_text, memories)] or ["No memory has these words."]
        parts += [] if is_whole else [STILL_READING]
        return Answer.of("\n\n".join(parts), FoundMemories(memories, is_whole), await one.staying())

    return search


def _list(projects: Projects) -> Tool:
    @tool(name="memory_list", description=LIST, read_only=True)
    async def listed(
        type: Annotated[Kind | None, "Only memories of this type."] = None,  # noqa: A002 - the client's word
        scope: Annotated[Scope | None, ALL_SCOPES] = None,
        limit: Annotated[int, f"Memories per page, up to {MAX_LISTED}."] = 50,
        offset: Annotated[int, "How many to skip: `next_offset` of the previous page."] = 0,
        project: Annotated[str | None, PROJECT] = None,
    ) -> Answer:
        one = await projects.one(project)
        one.check_on()
        found = [(whose, each) for whose in one.scopes(scope) for each in await _entries(one, whose)]
        wanted = [listed_memory(each, whose) for whose, each in found if type in {None, each.kind}]
        wanted.sort(key=lambda each: each.changed or "", reverse=True)
        start = max(0, offset)
        page = wanted[start : start + max(1, min(limit, MAX_LISTED))]
        end = start + len(page)
        more = end if end < len(wanted) else None
        lines = [*map(listed_text, page)] or ["No more memories." if wanted else "There are no memories."]
        lines += [f"{len(wanted) - end} more: offset {end}"] if more else []
        return Answer.of("\n".join(lines), MemoryList(page, len(wanted), more), await one.staying())

    return listed


async def _entries(project: Project, whose: Whose) -> list[Entry]:
    return await project.entries(whose) if project.place(whose).directory.is_dir() else []


def _get(projects: Projects) -> Tool:
    @tool(name="memory_get", description=GET, read_only=True)
    async def get(name: Annotated[str, WHICH], project: Annotated[str | None, PROJECT] = None) -> Answer:
        one = await projects.one(project)
        return await read_memory(one, name)

    return get


def _history(projects: Projects) -> Tool:
    @tool(name="memory_history", description=HISTORY, read_only=True)
    async def history(
        name: Annotated[str | None, WHICH] = None,
        scope: Annotated[Scope, "Without a name: whose memory."] = "project",
        limit: Annotated[int, f"Maximum number of changes, up to {MAX_COMMITS}."] = 20,
        project: Annotated[str | None, PROJECT] = None,
    ) -> Answer:
        one = await projects.one(project)
        whose, wanted = one.split(name) if name else (scope, "")
        memory = one.reading(whose)
        file = await _file_of(one, name, whose, wanted) if name else None
        commits = await memory.log(limit=max(1, min(limit, MAX_COMMITS)), file=file)
        changes = [*map(listed_change, commits)]
        shown = "\n".join(map(change_text, changes)) or "Nothing was changed yet."
        staying = merge_local_only([await one.staying(), await one.forgotten(whose, commits)])
        return Answer.of(shown, ChangeList(changes), staying)

    return history


async def read_memory(project: Project, name: str) -> Answer:
    """Return one memory or the index."""
    project.check_on()
    whose, wanted = project.split(name)
    if wanted in {INDEX_FILE, INDEX_FILE.removesuffix(".md")}:
        text = neutralise(await project.index(whose)) or "The index is empty: nothing was saved yet."
        return Answer.of(text, WholeMemory(in_scope(whose, INDEX_FILE), whose, text))
    whose, entry = await project.entry(name)
    return Answer.of(whole_text(entry, whose), whole_memory(entry, whose))


def _recalled(found: Recalled, project: Project, *, is_whole: bool) -> RecalledMemories:
    memories = [
        RecalledMemory(
            name=one_line(project.named(one.ranked.directory, one.ranked.entry.file)),
            text=one.text,
            age_days=one.age_days,
            confidence=round(one.ranked.confidence, 3),
            gone=[one_line(each.text) for each in one.drift.gone] if one.drift else [],
            superseded_by=one_line(one.ranked.superseded_by) or None,
        )
        for one in found.picks
    ]
    return RecalledMemories(
        memories=memories,
        nearest=[] if memories else _names(found.left_out, {"below the cut-off"}, project),
        unconfirmed=_names(found.left_out, DOUBTFUL, project),
        is_complete=is_whole,
        skipped=found.skipped or None,
    )


def _recalled_text(found: RecalledMemories) -> str:
    """Format recalled memories as in a session, each with the name that `memory_get` accepts."""
    if found.skipped:
        return f"Nothing was looked for: {found.skipped}."
    parts = [f"{one.name}\n{one.text}" for one in found.memories]
    if not parts:
        parts = ["No memory is relevant enough for that."]
        if found.nearest:
            near = ", ".join(found.nearest)
            parts.append(f"Nearest, and maybe of no use (memory_get reads one): {near}")
    if found.unconfirmed:
        doubtful = ", ".join(found.unconfirmed)
        parts.append(f"Not returned, because they are not confirmed (memory_get reads one): {doubtful}")
    return "\n\n".join([*parts, *([] if found.is_complete else [STILL_READING])])


def _names(left: Sequence[LeftOut], reasons: Collection[str], project: Project) -> list[str]:
    files = [one.file for one in left if one.why in reasons][:NEAREST]
    return [one_line(project.named_in_use(file)) for file in files]


async def _file_of(project: Project, name: str, whose: Whose, wanted: str) -> str:
    """Return the file that is meant, existing or deleted."""
    memory = project.reading(whose)
    hidden = await project.hidden(whose)
    for file in (wanted, f"{wanted}.md"):
        if file not in hidden and await memory.log(limit=1, file=file):
            return file
    return (await project.entry(name))[1].file


def bounded(text: str, most: int, what: str) -> str:
    """Return the text; raises `ToolError` if it is too long."""
    if len(text) > most:
        raise ToolError(f"{what} has {len(text):,} characters; at most {most:,} are taken")
    return text
