"""All sessions below a home: list, find, search; no log is ever changed, so any home is safe (T7)."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nacre.errors import SessionNotFound, TranscriptError
from nacre.store import disk
from nacre.store.derived import DerivedCache
from nacre.store.home import canonical, same_folder, slug
from nacre.store.search import Hit, LogQuery, query, search_log
from nacre.store.summaries import SessionSummary, summarise

NEAR_IDS = 3
"""Maximum number of similar ids offered if one is not found; more would not be read."""
SHOWN_AMBIGUOUS = 5
"""Maximum number of ids shown for an ambiguous prefix."""


@dataclass(frozen=True, slots=True)
class _LogFile:
    path: Path
    size: int
    mtime_ns: int


class Sessions:
    """The sessions of one home."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def list(self, cwd: str | os.PathLike[str] | None = None) -> list[SessionSummary]:
        """Return summaries, newest first, of one working directory or of all."""
        cache = DerivedCache(self.home / "cache" / "sessions")
        cached = cache.all()
        summaries: dict[str, SessionSummary] = {}
        fresh: dict[str, tuple[str, Any]] = {}
        for log in self._logs(cwd):
            name = str(log.path)
            fingerprint = f"{log.size}:{log.mtime_ns}"
            stored, row = cached.get(name, ("", None))
            summary = _from_row(row, log) if stored == fingerprint else None
            if summary is None:
                try:
                    summary = summarise(log.path)
                except TranscriptError:  # deleted or made unreadable since it was listed
                    continue
                fresh[name] = fingerprint, _to_row(summary)
            summaries[name] = summary
        gone = [name for name in cached if cwd is None and name not in summaries]
        if fresh or gone:
            cache.update(fresh, removed=gone)
        wanted = [each for each in summaries.values() if cwd is None or _belongs(each, canonical(cwd))]
        return sorted(wanted, key=lambda each: (each.modified, each.session), reverse=True)

    def find(self, id_or_prefix: str) -> Path:
        """Return the log with this id, or the only one whose id begins with it."""
        logs = list(self._logs())
        exact = [log for log in logs if log.path.stem == id_or_prefix]
        if exact:  # a copied project has the same ids again; the newer one is meant
            return max(exact, key=lambda log: log.mtime_ns).path
        begun = [log.path for log in logs if id_or_prefix and log.path.stem.startswith(id_or_prefix)]
        if len(begun) > 1:
            some = ", ".join(sorted(path.stem for path in begun)[:SHOWN_AMBIGUOUS])
            raise TranscriptError(
                f"{id_or_prefix!r} is the beginning of {len(begun)} sessions: {some}; type more of it"
            )
        if not begun:
            raise SessionNotFound(_not_found(id_or_prefix, sorted({log.path.stem for log in logs})))
        return begun[0]

    def latest(self, cwd: str | os.PathLike[str]) -> Path | None:
        """Return the log of this directory that was written last."""
        listed = self.list(cwd)
        return next((each.path for each in listed if each.bytes), None)

    def search(
        self,
        text: str,
        *,
        regex: bool = False,
        ignore_case: bool = True,
        cwd: str | os.PathLike[str] | None = None,
        with_added: bool = False,
    ) -> Iterator[Hit]:
        """Yield matching lines of all logs, newest log first; a bad query is refused before anything is read.

        `with_added` also searches text that a program added to a conversation.
        """
        wanted = query(text, regex=regex, ignore_case=ignore_case)
        logs = sorted(self._logs(cwd), key=lambda log: log.mtime_ns, reverse=True)
        return (hit for log in logs for hit in _hits(log.path, wanted, with_added=with_added))

    def _logs(self, cwd: str | os.PathLike[str] | None = None) -> Iterator[_LogFile]:
        """Return regular files only: a FIFO must not block a list."""
        name = None if cwd is None else slug(canonical(cwd))
        for folder in _entries(self.home / "projects"):
            if not folder.is_dir() or (name is not None and not same_folder(folder.name, name)):
                continue
            for entry in _entries(Path(folder.path)):
                # Older clients keep the logs of sub-agents next to those of sessions.
                if not entry.name.endswith(".jsonl") or entry.name.startswith("agent-"):
                    continue
                try:
                    if entry.is_file():
                        found = entry.stat()
                        yield _LogFile(Path(entry.path), found.st_size, found.st_mtime_ns)
                except OSError:
                    continue


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise TranscriptError(disk.explain(error, folder)) from error


def _belongs(summary: SessionSummary, cwd: str) -> bool:
    """Return whether a log is of this directory, because two can share a slug (`a_b`, `a-b`)."""
    return summary.cwd is None or canonical(summary.cwd) == cwd or slug(canonical(summary.cwd)) != slug(cwd)


def _hits(path: Path, wanted: LogQuery, *, with_added: bool) -> Iterator[Hit]:
    try:
        yield from search_log(path, wanted, with_added=with_added)
    except SessionNotFound:  # deleted since it was listed
        return


def _not_found(wanted: str, ids: list[str]) -> str:
    near = [each for each in ids if wanted and each.startswith(wanted[:4])][:NEAR_IDS]
    near = near or difflib.get_close_matches(wanted, ids, n=NEAR_IDS)
    hint = f"did you mean {', '.join(near)}?" if near else "`nacre sessions list` shows what there is"
    return f"no session {wanted!r}; {hint}"


def _from_row(row: Any, log: _LogFile) -> SessionSummary | None:
    """Return the cached summary; None for a row that another version of nacre wrote."""
    try:
        cwd, started, modified, messages, tokens, compactions, title = row
        return SessionSummary(
            session=log.path.stem,
            cwd=cwd,
            started=datetime.fromisoformat(started) if started else None,
            modified=datetime.fromisoformat(modified),
            messages=messages,
            tokens=tokens,
            compactions=compactions,
            bytes=log.size,
            title=title,
            slug=log.path.parent.name,
            path=log.path,
        )
    except (TypeError, ValueError):
        return None


def _to_row(summary: SessionSummary) -> tuple[object, ...]:
    started = summary.started.isoformat() if summary.started else None
    counts = (summary.messages, summary.tokens, summary.compactions)
    return summary.cwd, started, summary.modified.isoformat(), *counts, summary.title
