"""Earlier sessions with the same memory: their logs, and a tool that searches them (M19)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nacre import prompts
from nacre.errors import StoreError, ToolError, TranscriptError
from nacre.memory.checks.local_only import LocalOnlyEntries
from nacre.memory.files.identity import read_identity
from nacre.memory.files.location import Location
from nacre.messages.untrusted_text import neutralise
from nacre.store.home import canonical, is_session_of, slug
from nacre.tools.base import Tool, tool

if TYPE_CHECKING:
    from nacre.store.sessions import Hit, LogQuery

NAME = "search_sessions"
DESCRIPTION = prompts.load("nacre.memory", "tool_search_sessions")
SUFFIX = ".jsonl"
MAX_HITS = 20
"""Passages in one answer."""
MAX_HITS_PER_SESSION = 4
"""Passages of one session, unless only that one is searched."""
MAX_CHARS = 6_000
"""Characters of one answer, about 1,500 tokens."""
MAX_SECONDS = 3.0
"""Time for one search; older sessions are then left out, and the answer says so."""
SHORT_ID = 8


@dataclass(frozen=True, slots=True)
class RecentSession:
    """The log of a session, and when it was last written."""

    path: Path
    at: float


def _directories(location: Location) -> dict[str, list[str]]:
    """Return the canonical directories that share this memory, by the name of the folder of their logs."""
    try:
        identity = read_identity(location.identity_file)
        directories = [*(identity.directories if identity else ())]
        directories += [str(location.root)] if location.root else []
    except StoreError:
        directories = []
    found: dict[str, list[str]] = {}
    for one in sorted({canonical(one) for one in directories}):
        found.setdefault(slug(one), []).append(one)
    return found


def sessions_since(
    location: Location, home: Path, since: datetime | None, *, but: str = ""
) -> list[RecentSession]:
    """Return the sessions of all directories that share this memory, newest first, except the one named."""
    oldest = since.timestamp() if since else 0.0
    found: list[RecentSession] = []
    directories = _directories(location)
    folders = {home / "projects" / name for name in directories}
    if location.directory.parent.parent.name == "projects":
        folders.add(location.directory.parent)
    for folder in sorted(folders):
        with suppress(OSError), os.scandir(folder) as items:
            for item in items:
                # Older clients keep the logs of sub-agents beside those of sessions.
                if item.name.endswith(SUFFIX) and not item.name.startswith("agent-") and item.is_file():
                    found.append(RecentSession(Path(item.path), item.stat().st_mtime))
    recent = [one for one in found if one.at > oldest and one.path.stem != but]
    owned = (one for one in recent if _is_of(one.path, directories.get(one.path.parent.name, [])))
    return sorted(owned, key=lambda one: -one.at)


def _is_of(log: Path, directories: list[str]) -> bool:
    """Whether a log is of one of these directories; another project may share the name of their folder."""
    from nacre.store.summaries import directory_of  # noqa: PLC0415 - most sessions search no other one

    try:
        cwd = directory_of(log)
    except TranscriptError:  # deleted since it was listed
        return False
    return not directories or any(is_session_of(cwd, one) for one in directories)


async def _nothing_hidden() -> LocalOnlyEntries:
    return LocalOnlyEntries()


def search_sessions_tool(
    location: Location,
    home: Path,
    *,
    session: str,
    refusal: Callable[[Path], str] = lambda path: "",
    hidden: Callable[[], Awaitable[LocalOnlyEntries]] = _nothing_hidden,
) -> Tool:
    """Return the tool that searches the earlier sessions of this memory, without the current one.

    `refusal` says why a log may not be read; empty if it may. `hidden` returns the memories whose text must
    not reach the model (M27).
    """

    @tool(name=NAME, description=DESCRIPTION, read_only=True)
    async def search_sessions(
        text: Annotated[str, "Words that occur there."],
        in_session: Annotated[str, "The start of one session's id."] = "",
    ) -> str:
        logs = await asyncio.to_thread(sessions_since, location, home, None, but=session)
        wanted = [one for one in logs if one.path.stem.startswith(in_session) and not refusal(one.path)]
        return await asyncio.to_thread(_answer, text, wanted, await hidden(), is_one=bool(in_session))

    return search_sessions


def _answer(text: str, logs: list[RecentSession], hidden: LocalOnlyEntries, *, is_one: bool) -> str:
    """Search logs and return the passages as text, within the budget."""
    from nacre.store.sessions import query  # noqa: PLC0415 - most sessions search no other one

    words = text.split()
    try:
        whole = query(" ".join(words))
    except TranscriptError as error:
        raise ToolError(f"{NAME}: {error}") from error
    found = _Passages(logs, hidden, MAX_HITS if is_one else MAX_HITS_PER_SESSION)
    found.search(whole, ())
    if not found.lines and len(words) > 1:
        longest = max(words, key=len)
        found.search(query(longest), tuple(word.casefold() for word in words))
    if not found.lines:
        return f"No earlier session of this project has {text!r}.{found.rest}"
    return "\n".join(found.lines) + found.rest


class _Passages:
    """Passages of several logs, found within a time and up to a number of characters."""

    def __init__(self, logs: list[RecentSession], hidden: LocalOnlyEntries, per_session: int) -> None:
        self.lines: list[str] = []
        self.rest = ""
        """What the answer says about logs and passages that were left out."""
        self._logs = logs
        self._hidden = hidden
        self._per_session = per_session
        self._end = time.monotonic() + MAX_SECONDS

    def search(self, wanted: LogQuery, words: tuple[str, ...]) -> None:
        """Add passages that match and have all of these words, the newest sessions first."""
        room = MAX_CHARS
        for number, log in enumerate(self._logs):
            if time.monotonic() > self._end:
                self.rest = (
                    f"\n({len(self._logs) - number} older sessions were not searched; be more specific.)"
                )
                return
            for hit in self._hits(log, wanted, words):
                line = _shown(hit, log)
                room -= len(line) + 1
                if room < 0 or len(self.lines) >= MAX_HITS:
                    self.rest = "\n(There is more; be more specific, or search one session.)"
                    return
                self.lines.append(line)

    def _hits(self, log: RecentSession, wanted: LogQuery, words: tuple[str, ...]) -> Iterator[Hit]:
        from nacre.memory.secrets import redact  # noqa: PLC0415 - see _answer
        from nacre.store.sessions import search_log  # noqa: PLC0415 - see _answer

        def clean(text: str) -> str:
            folded = text.casefold()
            # Before a passage is cut out, which may end within a credential.
            return self._hidden.without(redact(text)) if all(word in folded for word in words) else ""

        with suppress(TranscriptError):
            for count, hit in enumerate(search_log(log.path, wanted, clean=clean)):
                if count >= self._per_session or time.monotonic() > self._end:
                    return
                yield hit


def _shown(hit: Hit, log: RecentSession) -> str:
    day = datetime.fromtimestamp(log.at, UTC).date().isoformat()
    return f"{hit.session[:SHORT_ID]}, {day}, {hit.role or 'note'}: {neutralise(hit.snippet)}"
