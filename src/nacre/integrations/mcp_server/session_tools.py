"""Search past sessions, limited in number and time, without credentials (M27)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

from nacre import prompts
from nacre.clock import Clock
from nacre.errors import SessionNotFound, ToolError
from nacre.integrations.mcp_server.base import PROJECT, Answer, Offered
from nacre.integrations.mcp_server.project import Projects
from nacre.memory.checks.local_only import LocalOnlyEntries
from nacre.memory.secrets import redact
from nacre.messages.untrusted_text import neutralise
from nacre.store.sessions import Hit, query, search_log
from nacre.tools.base import Tool, tool

SEARCH = prompts.load(__package__, "tool_session_search")
MAX_HITS = 50
MAX_WORDS_CHARS = 200
"""Maximum length of a search text, which must occur literally."""
MIN_WORDS_CHARS = 3
"""Minimum length: fewer characters match every line."""
SEARCH_SECONDS = 5.0
"""Time limit of a search; the newest sessions come first."""
SHORT_ID = 8
"""Characters of a session id; every command accepts them."""


def session_tools(projects: Projects) -> list[Offered]:
    return [Offered(_search(projects), "Search past sessions", answers=SessionMatches)]


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """A place in a session."""

    session: str
    line: int
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class SessionMatches:
    """Places in past sessions, newest session first."""

    matches: list[SessionMatch]
    is_complete: Annotated[bool, "False: older sessions were not searched, because the time was over."]


def _search(projects: Projects) -> Tool:
    @tool(name="session_search", description=SEARCH, read_only=True)
    async def search(
        text: Annotated[str, "Words as they were said; upper and lower case are the same."],
        limit: Annotated[int, f"At most so many places, up to {MAX_HITS}."] = 10,
        project: Annotated[str | None, PROJECT] = None,
    ) -> Answer:
        words = text.strip()
        if not MIN_WORDS_CHARS <= len(words) <= MAX_WORDS_CHARS:
            raise ToolError(f"text to look for has {MIN_WORDS_CHARS} to {MAX_WORDS_CHARS} characters")
        one = await projects.one(project)
        staying = await one.staying()
        logs = await one.session_logs()
        most = max(1, min(limit, MAX_HITS))
        found, is_whole = await asyncio.to_thread(
            _found, logs, words, clock=one.clock, most=most, staying=staying
        )
        matches = [
            SessionMatch(hit.session[:SHORT_ID], hit.line, hit.role or "-", _shown(hit)) for hit in found
        ]
        lines = [f"{each.session}:{each.line} {each.role}: {each.text}" for each in matches]
        if not is_whole:
            lines.append(f"Older sessions were not searched: {SEARCH_SECONDS:g} s are over.")
        text = "\n".join(lines) or "No session of this project has these words."
        return Answer.of(text, SessionMatches(matches, is_whole))

    return search


def _found(
    logs: Sequence[Path], words: str, *, clock: Clock, most: int, staying: LocalOnlyEntries
) -> tuple[list[Hit], bool]:
    """Return the hits in the newest sessions, and whether the time limit was reached."""
    until = clock.seconds() + SEARCH_SECONDS
    wanted = query(words)
    found = list[Hit]()

    def clean(text: str) -> str:
        return staying.without(redact(text))

    for log in logs:
        if clock.seconds() > until:
            return found, False
        with suppress(SessionNotFound):  # deleted since it was listed
            found += islice(search_log(log, wanted, clean=clean), most - len(found))
        if len(found) >= most:
            break
    return found, True


def _shown(hit: Hit) -> str:
    return " ".join(neutralise(hit.snippet).split())
