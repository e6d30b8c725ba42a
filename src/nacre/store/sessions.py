"""All sessions below a home: list, find, search; no log is ever changed, so any home is safe (T7).

A search streams each log and parses only lines that could match.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nacre.errors import SessionNotFound, TranscriptError
from nacre.messages.blocks import Json, JsonObject
from nacre.store import disk
from nacre.store.derived import DerivedCache
from nacre.store.home import canonical, is_session_of, same_folder, slug
from nacre.store.lines import line_around, parsed, whole_lines
from nacre.store.summaries import SessionSummary, directory_of, one_line, summarise

SNIPPET_CHARS = 160
"""Characters around a match: two lines of a terminal."""
MIN_LITERAL = 3
"""Characters. A shorter run of letters is on nearly every line and would filter nothing."""

_UNSEARCHED = frozenset({"signature", "data", "id", "tool_use_id", "type", "media_type"})
_TEXT_FIELDS = ("content", "summary", "customTitle", "aiTitle", "title")
_ESCAPED = re.compile(r"""[^ !#-.0-9:;=?@A-Z\[\]^_`a-z{|}~]""")
"""Characters that some JSON writers escape: quotes, backslash, slash, <, >, & and all outside ASCII."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A line of a log that matches."""

    session: str
    path: Path
    line: int
    """Counted from one."""
    role: str | None
    snippet: str
    record: str | None = None
    """Id of the record, by which a message in view is identified."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A pattern for texts, and a test of raw bytes that every matching line passes.

    The test handles ASCII case only: that `re` lets the long ſ match an s is not worth a slower search.
    """

    pattern: re.Pattern[str]
    candidate: re.Pattern[bytes] | None
    lowered: bool = False
    """Whether the test is for bytes in lower case, which is many times faster than one that ignores case."""


def query(text: str, *, regex: bool = False, ignore_case: bool = True) -> LogQuery:
    """Return a query for plain text or a regular expression."""
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    if not text:
        raise TranscriptError("nothing to search for: give some text")
    try:
        pattern = re.compile(text if regex else re.escape(text), flags)
    except re.error as error:
        raise TranscriptError(
            f"{text!r} is not a regular expression: {error}; search for plain text?"
        ) from error
    literal = _sure_literal(text) if regex else _longest(_ESCAPED.split(text))
    if literal:
        sure = literal.lower() if ignore_case else literal
        return LogQuery(pattern, re.compile(re.escape(sure.encode())), lowered=ignore_case)
    return LogQuery(pattern, None if regex else _either_spelling(text, ignore_case))


def search_log(
    path: Path, wanted: LogQuery, *, clean: Callable[[str], str] = str, with_added: bool = False
) -> Iterator[Hit]:
    """Yield the matching lines of one log, in order, except those that match only in what `clean` removes.

    Text that a program added, such as the memories ahead of a conversation, is searched `with_added` only.
    """
    lines_before = 0
    for _, block in whole_lines(path):
        counted = 0
        number = lines_before
        for begin, line in _candidates(block, wanted):
            number += block.count(b"\n", counted, begin)
            counted = begin
            record = parsed(line)
            if record.get("isMeta") is True and not with_added:
                continue
            texts = (clean(each) for each in _texts(record) if wanted.pattern.search(each))
            text = next((each for each in texts if wanted.pattern.search(each)), None)
            if text is not None:
                message = record.get("message")
                role = message.get("role") if isinstance(message, dict) else record.get("type")
                match = wanted.pattern.search(text)
                start = max(0, (match.start() if match else 0) - SNIPPET_CHARS // 3)
                snippet = one_line(text[start : start + SNIPPET_CHARS * 2], SNIPPET_CHARS)
                yield Hit(
                    path.stem,
                    path,
                    number + 1,
                    role if isinstance(role, str) else None,
                    "…" * bool(start) + snippet,
                    record_id if isinstance(record_id := record.get("uuid"), str) else None,
                )
        lines_before += block.count(b"\n")


def _candidates(block: bytes, wanted: LogQuery) -> Iterator[tuple[int, bytes]]:
    tested = block.lower() if wanted.lowered else block
    at = 0
    while at < len(block):
        if wanted.candidate is not None:
            match = wanted.candidate.search(tested, at)
            if match is None:
                return
            at = match.start()
        begin, line = line_around(block, at)
        yield begin, line
        at = begin + len(line) + 1


def _either_spelling(text: str, ignore_case: bool) -> re.Pattern[bytes] | None:
    """Return a test for text without a plain run: as UTF-8 or as escapes, cased letters in either case."""
    if ignore_case and text.lower() != text.upper():
        return None
    raw = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    escaped = json.dumps(text)[1:-1].encode()
    if b"/" in raw or b"<" in raw or b">" in raw or b"&" in raw:
        return None
    return re.compile(re.escape(raw) + b"|(?i:" + re.escape(escaped) + b")")


def _sure_literal(pattern: str) -> str | None:
    """Return a run of characters in every match of a regular expression, if one is easily found.

    Reads the top level only: groups, classes and alternatives are skipped, not parsed.
    """
    if "|" in pattern or "(?" in pattern:
        return None
    flat = re.sub(r"\\[^\W\d_]|\\\d+|\\.", "\0", pattern, flags=re.DOTALL)
    flat = re.sub(r"\[\^?\]?[^\]]*\]", "\0", flat)
    while "(" in flat:
        shorter = re.sub(r"\([^()]*\)", "\0", flat)
        if shorter == flat:
            return None
        flat = shorter
    flat = re.sub(r".(?:[*?]|\{[^}]*\})", "\0", flat, flags=re.DOTALL)
    return _longest(re.split(r"[\0.^$+*?{}\[\]]|" + _ESCAPED.pattern, flat))


def _longest(runs: list[str]) -> str | None:
    run = max(runs, key=len, default="")
    return run if len(run) >= MIN_LITERAL else None


def _texts(record: JsonObject) -> Iterator[str]:
    """Return the readable text of a record: not its ids, signatures and images."""
    message = record.get("message")
    if isinstance(message, dict):
        yield from _strings(message.get("content"))
    for name in _TEXT_FIELDS:
        yield from _strings(record.get(name))


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in _UNSEARCHED:
                yield from _strings(item)


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
        wanted = [
            each for each in summaries.values() if cwd is None or is_session_of(each.cwd, canonical(cwd))
        ]
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
            ids = sorted({log.path.stem for log in logs})
            near = [each for each in ids if id_or_prefix and each.startswith(id_or_prefix[:4])][:NEAR_IDS]
            near = near or difflib.get_close_matches(id_or_prefix, ids, n=NEAR_IDS)
            hint = f"did you mean {', '.join(near)}?" if near else "`nacre sessions list` shows what there is"
            raise SessionNotFound(f"no session {id_or_prefix!r}; {hint}")
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

        def hits() -> Iterator[Hit]:
            for log in logs:
                with suppress(SessionNotFound):  # deleted since it was listed
                    if cwd is not None and not is_session_of(directory_of(log.path), canonical(cwd)):
                        continue
                    yield from search_log(log.path, wanted, with_added=with_added)

        return hits()

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
