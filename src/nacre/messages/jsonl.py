"""The on-disk format of a session: encode nacre's, decode nacre's and real Claude Code logs (T2b, T5).

Records keep the order of the file. Every line becomes a record or a problem; `LoadedLog.lines` adds up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nacre.messages.blocks import Json, JsonObject, Text, ToolCall, ToolResult
from nacre.messages.jsonl_encode import SNIP, Envelope, chained_id, derived_id, encode
from nacre.messages.jsonl_parse import (
    METADATA_TYPES,
    parse_compacted,
    parse_line,
    parse_nacre,
    parse_replaced,
    parse_said,
    parse_time,
    removed_ids,
)
from nacre.messages.records import BlockOf, Change, LogProblem, Noted, Record, Replaced, Said
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical

__all__ = ["Envelope", "LineCounts", "LoadedLog", "LogReader", "chained_id", "decode", "encode"]

UNDATED = datetime(1970, 1, 1, tzinfo=UTC)
"""Time of records in a log without any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCounts:
    """Counts of the lines of a log: `total` is the sum of the others, `recorded` the number of records."""

    total: int = 0
    recorded: int = 0
    merged: int = 0
    """Summaries merged into the record of their boundary."""
    blank: int = 0
    unreadable: int = 0
    repeated: int = 0
    torn: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    """A log as read: its records, its problems, and what a writer needs to continue it."""

    records: list[Record]
    problems: list[LogProblem]
    lines: LineCounts
    session_id: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    leaf: str | None = None
    """Parent of the next message."""
    torn: bytes = b""
    """The last line if it was cut off; the store moves it aside."""
    ends_whole: bool = True
    """Whether the last line ends in a newline; if not, a writer must begin with one."""

    @property
    def usage(self) -> dict[str, Usage]:
        """Usage per reply, from the last of its records; a sum over records would count twice."""
        return {
            said.reply.id: said.reply.usage
            for said in self.records
            if isinstance(said, Said) and said.reply and said.reply.id and said.reply.usage
        }


def decode(lines: Iterable[bytes], *, session_id: str | None = None, subagent: bool = False) -> LoadedLog:
    """Read a log line by line, of any program; `subagent`: its sidechain is its main thread."""
    reader = LogReader(session_id=session_id, subagent=subagent)
    for line in lines:
        reader.line(line)
    return reader.done()


class LogReader:
    """Takes lines, or objects of the same shape, one by one and returns the loaded log."""

    def __init__(self, *, session_id: str | None = None, subagent: bool = False) -> None:
        self.session_id = session_id
        self.subagent = subagent
        self.records: list[Record] = []
        self.problems: list[LogProblem] = []
        self.links: list[ChainLink] = []
        self.places: dict[str, int] = {}
        """Index of the record with this id."""
        self.at: datetime | None = None
        self.undated = 0
        self.boundaries: dict[str, tuple[int, JsonObject]] = {}
        """Boundaries whose summary is still to come."""
        self.tally: Counter[str] = Counter()
        self.oddities: Counter[tuple[str, str]] = Counter()
        """Problems that are reported once with a count."""
        self.sessions: Counter[str] = Counter()
        self.facts: dict[str, str] = {}
        self.unread = b""
        self.unread_at = 0
        self.ends_whole = True

    def line(self, raw: bytes) -> None:
        """Take one line, with or without its newline."""
        self.tally["total"] += 1
        self.ends_whole = raw.endswith(b"\n")
        if not raw.strip():
            self.tally["blank"] += 1
            return
        self._settle_unread()
        try:
            value, proper = parse_line(raw)
        except ValueError:
            self.unread, self.unread_at = raw, self.tally["total"]
            if self.ends_whole:
                self._settle_unread()
            return
        if not proper:
            self._remark("bad_text", "lines hold bytes that are not UTF-8")
        if isinstance(value, dict):
            self.take(value)
        else:
            self._unreadable("not_object", self.tally["total"], "is not a JSON object")

    def take(self, line: JsonObject) -> None:
        """Take one parsed line."""
        record_id = self._id_of(line)
        if record_id in self.places:
            self.tally["repeated"] += 1
            self.problems.append(
                LogProblem("repeated_id", record_id, "stands twice in the log; the first counts")
            )
            return
        self._learn(line)
        at = self._time_of(line)
        match line.get("type"):
            case "user" if line.get("isCompactSummary") is True and not self._is_aside(line):
                self._summary(line, record_id, at)
            case "user" | "assistant":
                self._message(line, record_id, at)
            case "system":
                self._system(line, record_id, at)
            case "content-replacement":
                self._decision(line, parse_replaced(line, record_id, at), record_id, at)
            case "nacre":
                self._decision(line, parse_nacre(line, record_id, at), record_id, at)
            case "attachment":
                self._remark("attachment", "attachments of another program are kept and passed over")
                self._noted(line, f"attachment/{_attachment_type(line)}", record_id, at=at, is_main=True)
            case other:
                if not isinstance(other, str) or other not in METADATA_TYPES:
                    self._remark(
                        "unknown_type", f"lines of unknown type {canonical(other).decode()} are kept"
                    )
                self._noted(line, f"foreign/{other}", record_id, at=at)

    def done(self) -> LoadedLog:
        """Check the whole chain and return the loaded log."""
        torn = self.unread
        self.unread = b""
        if torn:
            self.tally["torn"] += 1
            where = f"line {self.unread_at}"
            self.problems.append(LogProblem("torn_line", where, "the last line was cut off and is left out"))
        self._report_boundaries()
        own = self.session_id or next((name for name, _ in self.sessions.most_common(1)), None)
        gone, odd = left_behind(self.links)
        for record_id in gone | self._bridge(own):
            self._put_aside(record_id)
        found = [LogProblem(kind, "", f"{n} {what}") for (kind, what), n in self.oddities.items()]
        return LoadedLog(
            records=self.records,
            problems=[*self.problems, *odd, *found],
            lines=LineCounts(recorded=len(self.records), **self.tally),
            session_id=own,
            cwd=self.facts.get("cwd"),
            git_branch=self.facts.get("gitBranch"),
            version=self.facts.get("version"),
            leaf=next((link.id for link in reversed(self.links) if link.is_main), None),
            torn=torn,
            ends_whole=self.ends_whole,
        )

    def _learn(self, line: JsonObject) -> None:
        """Read session facts that lines repeat: the most frequent id, the first value of other fields."""
        session = line.get("sessionId")
        if isinstance(session, str):
            self.sessions[session] += 1
        for name in ("cwd", "gitBranch", "version"):
            value = line.get(name)
            if isinstance(value, str) and value:
                self.facts.setdefault(name, value)

    def _id_of(self, line: JsonObject) -> str:
        is_decision = line.get("type") == "nacre" or line.get("type") == "content-replacement"
        own = line.get("uuid") or (line.get("id") if is_decision else None)
        if isinstance(own, str) and own:
            return own
        # No id of its own: derived from the content, so that every reading gives the same one.
        content = canonical(line).decode()
        made = derived_id("line", content)
        again = 1
        while made in self.places:
            again += 1
            made = derived_id("line", content, str(again))
        return made

    def _time_of(self, line: JsonObject) -> datetime:
        at = parse_time(line.get("timestamp"))
        if at is None:
            if isinstance(line.get("message"), dict):
                self._remark("no_time", "messages have no time and take the one before")
            self.undated += self.at is None
            return self.at or UNDATED
        if self.at is None and self.undated:
            self.records[:] = [replace(record, at=at) for record in self.records]
        self.at = at
        return at

    def _message(self, line: JsonObject, record_id: str, at: datetime) -> None:
        said = parse_said(line, record_id, at)
        if said is None:
            self._remark("no_message", "message lines hold no message and are kept as notes")
            self._noted(line, f"foreign/{line.get('type')}", record_id, at=at, is_main=True)
            return
        if self.subagent and said.aside == "sidechain":
            said = replace(said, aside=None)
        if said.aside == "display":
            self._remark("not_a_reply", "replies were written by the program itself, for people only")
        if any(isinstance(block, Text) and not block.text.strip() for block in said.blocks):
            self._remark("blank_text", "messages hold text that is only whitespace")
        self._add(said, line, said=said, is_main=said.aside != "sidechain")

    def _system(self, line: JsonObject, record_id: str, at: datetime) -> None:
        subtype = line.get("subtype")
        if isinstance(line.get("message"), dict):
            self._message(line, record_id, at)
        elif subtype == "compact_boundary" and not self._is_aside(line):
            self.boundaries[record_id] = (len(self.records), line)
            self._noted(line, "system/compact_boundary", record_id, at=at, is_main=True)
        elif subtype == "snip_boundary" and (snipped := self._snip(line, record_id, at)):
            self._add(snipped, line, is_main=True)
        else:
            self._noted(line, f"system/{subtype}", record_id, at=at, is_main=not self._is_aside(line))

    def _summary(self, line: JsonObject, record_id: str, at: datetime) -> None:
        parent = line.get("parentUuid")
        is_named = isinstance(parent, str) and parent in self.boundaries
        boundary = parent if is_named else next(reversed(self.boundaries), None)
        if not isinstance(boundary, str):
            self.problems.append(
                LogProblem("summary_without_boundary", record_id, "is taken as a compaction")
            )
            self._add(
                parse_compacted(None, {**line, "uuid": record_id}, at), line, link_id=record_id, is_main=True
            )
            return
        place, first = self.boundaries.pop(boundary)
        earlier = self.records[place]
        self.records[place] = parse_compacted(
            {**first, "uuid": earlier.id}, {**line, "uuid": record_id}, earlier.at
        )
        self.places[record_id] = place
        self.tally["merged"] += 1
        self._link(line, record_id, is_main=True)

    def _decision(self, line: JsonObject, record: Record | None, record_id: str, at: datetime) -> None:
        if record is not None:
            self.places[record_id] = len(self.records)
            self.records.append(record)
            return
        self._remark("unknown_decision", "decisions have an unknown shape and are kept as notes")
        self._noted(line, f"foreign/{line.get('type')}", record_id, at=at)

    def _noted(
        self, line: JsonObject, kind: str, record_id: str, *, at: datetime, is_main: bool = False
    ) -> None:
        self._add(Noted(id=record_id, at=at, kind=kind, facts=line), line, is_main=is_main)

    def _add(
        self,
        record: Record,
        line: JsonObject,
        *,
        link_id: str | None = None,
        said: Said | None = None,
        is_main: bool,
    ) -> None:
        self.places[record.id] = len(self.records)
        self.records.append(record)
        self._link(line, link_id or record.id, said=said, is_main=is_main)

    def _link(self, line: JsonObject, record_id: str, *, said: Said | None = None, is_main: bool) -> None:
        """Store the chain position of the line; lines without a parent field are in no chain."""
        self.places.setdefault(record_id, len(self.records) - 1)
        session = line.get("sessionId")
        if not is_main and "parentUuid" not in line:
            return
        parent = line.get("parentUuid") or line.get("logicalParentUuid")
        self.links.append(
            ChainLink(
                id=record_id,
                parent=parent if isinstance(parent, str) else None,
                said=said,
                is_main=is_main,
                is_boundary=record_id in self.boundaries,
                starts_over=_starts_over(line, said),
                session=session if isinstance(session, str) else None,
            )
        )

    def _snip(self, line: JsonObject, record_id: str, at: datetime) -> Replaced | None:
        """Return what a snip removed: exactly if nacre wrote it, else all blocks of the messages it names."""
        ours = line.get("nacre")
        exact = parse_replaced(ours, record_id, at) if isinstance(ours, dict) else None
        changes = self._removals(line) if exact is None else ()
        return exact or (Replaced(id=record_id, at=at, changes=changes, reason=SNIP) if changes else None)

    def _removals(self, line: JsonObject) -> tuple[Change, ...]:
        removed = [self.records[self.places[one]] for one in removed_ids(line) if one in self.places]
        return tuple(
            Change(BlockOf(record.id, index), ())
            for record in removed
            if isinstance(record, Said)
            for index in range(len(record.blocks))
        )

    def _bridge(self, own: str | None) -> set[str]:
        """Return the one message of an earlier session with which a continuation begins; it is not part of
        this one.

        A longer run is copied history and stays if the chain leads to it.
        """
        spoken = [link for link in self.links if link.said is not None and link.session is not None]
        run = next((place for place, link in enumerate(spoken) if link.session == own), 0)
        if not run:
            return set()
        where = spoken[0].id
        self.problems.append(
            LogProblem("other_session", where, f"{run} messages at the start are another session's")
        )
        return {where} if run == 1 else set()

    def _put_aside(self, record_id: str) -> None:
        place = self.places[record_id]
        said = self.records[place]
        if isinstance(said, Said) and said.aside is None:
            self.records[place] = replace(said, aside="abandoned")

    def _report_boundaries(self) -> None:
        for record_id in self.boundaries:
            self.problems.append(
                LogProblem(
                    "boundary_without_summary",
                    record_id,
                    "the compaction did not happen; all before it stands",
                )
            )
        main = any(link.said is not None and link.is_main for link in self.links)
        if not main and any(link.said is not None for link in self.links):
            self.problems.append(
                LogProblem(
                    "only_sidechain", "", "every message is a sub-agent's; read it as a sub-agent's log"
                )
            )

    def _is_aside(self, line: JsonObject) -> bool:
        return line.get("isSidechain") is True and not self.subagent

    def _settle_unread(self) -> None:
        if self.unread:
            self._unreadable("bad_line", self.unread_at, "is not JSON")
            self.unread = b""

    def _unreadable(self, kind: str, number: int, what: str) -> None:
        self.tally["unreadable"] += 1
        self.problems.append(LogProblem(kind, f"line {number}", what))

    def _remark(self, kind: str, what: str) -> None:
        self.oddities[kind, what] += 1


def _attachment_type(line: JsonObject) -> str:
    attachment = line.get("attachment")
    kind: Json = attachment.get("type") if isinstance(attachment, dict) else None
    return kind if isinstance(kind, str) else "unknown"


def _starts_over(line: JsonObject, said: Said | None) -> bool:
    return (
        said is not None
        and said.role == "user"
        and not said.meta
        and "parentUuid" in line
        and line["parentUuid"] is None
        and not any(isinstance(block, ToolResult) for block in said.blocks)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    """Position of one line in the conversation."""

    id: str
    parent: str | None = None
    said: Said | None = None
    is_main: bool = False
    """A message, boundary or system line of the main thread; progress and sidechains are not."""
    is_boundary: bool = False
    starts_over: bool = False
    """A prompt without a parent: a rewind to the start, or a plan that begins with a fresh context."""
    session: str | None = None


def left_behind(links: Sequence[ChainLink]) -> tuple[set[str], list[LogProblem]]:
    """Return the ids of messages outside the conversation's last branch, and the problems."""
    walk = _ChainWalk(links)
    on = walk.back()
    standing = _with_siblings(links, on)
    gone = {
        link.id
        for place, link in enumerate(links)
        if place not in standing and link.is_main and link.said is not None and link.said.aside is None
    }
    problems = walk.problems()
    if gone:
        first = next(link.id for link in links if link.id in gone)
        problems.append(LogProblem("abandoned", first, f"{len(gone)} messages are on a branch left behind"))
    return gone, problems


class _ChainWalk:
    """Walks from the last message of the main thread back to the first."""

    def __init__(self, links: Sequence[ChainLink]) -> None:
        self.links = links
        self.places = {link.id: place for place, link in enumerate(links)}
        self.boundaries = [place for place, link in enumerate(links) if link.is_boundary]
        self.on: set[int] = set()
        self.cycles: list[str] = []
        self.jumps: list[str] = []
        self.fresh: list[str] = []

    def back(self) -> set[int]:
        place = self._main_before(len(self.links))
        while place is not None:
            self.on.add(place)
            place = self._before(place)
        return self.on

    def _before(self, place: int) -> int | None:
        link = self.links[place]
        if link.parent is None:
            previous = self._main_before(place)
            if link.starts_over and previous is not None and self.links[previous].parent is not None:
                self.fresh.append(link.id)
                return None
            return previous
        parent = self.places.get(link.parent)
        if parent is None:
            return self._main_before(place)
        if parent in self.on:
            self.cycles.append(link.id)
            return self._main_before(place)
        after = bisect_right(self.boundaries, parent)
        if after < len(self.boundaries) and self.boundaries[after] < place:
            self.jumps.append(link.id)
            return self._main_before(place)
        return parent

    def _main_before(self, place: int) -> int | None:
        """Return the nearest earlier message of the same session that the walk has not passed."""
        session = self.links[place].session if place < len(self.links) else None
        for candidate in range(place - 1, -1, -1):
            link = self.links[candidate]
            if session is not None and link.session is not None and link.session != session:
                return None
            if link.is_main and candidate not in self.on:
                return candidate
        return None

    def problems(self) -> list[LogProblem]:
        missing = [link.id for link in self.links if link.parent and link.parent not in self.places]
        found = (
            ("missing_parent", missing, "messages hang on a parent that is not in the log"),
            ("cycle", self.cycles, "links lead in a circle"),
            ("crossed_boundary", self.jumps, "messages hang on a parent from before a compaction"),
            ("fresh_start", self.fresh, "prompts begin a new conversation in the same log"),
        )
        return [LogProblem(kind, ids[0], f"{len(ids)} {what}") for kind, ids, what in found if ids]


def _with_siblings(links: Sequence[ChainLink], on: set[int]) -> set[int]:
    """Add siblings of the walk: other parts of the same reply, and results of its calls.

    Parallel calls branch, so one chain of parents contains only some of a reply's parts and results.
    """
    replies = {_reply_id(links[place]) for place in on} - {None}
    standing = on | {place for place, link in enumerate(links) if link.is_main and _reply_id(link) in replies}
    calls = {call for place in standing for call in _calls(links[place])}
    beside: set[str] = set()
    for place, link in enumerate(links):
        if place in standing or not link.is_main or link.said is None:
            continue
        # Text injected after the result of a sibling was seen together with it.
        if calls.intersection(_answered(link)) or (link.said.meta and link.parent in beside):
            standing.add(place)
            beside.add(link.id)
    return standing


def _reply_id(link: ChainLink) -> str | None:
    return link.said.reply.id if link.said is not None and link.said.reply is not None else None


def _calls(link: ChainLink) -> list[str]:
    return [block.id for block in link.said.blocks if isinstance(block, ToolCall)] if link.said else []


def _answered(link: ChainLink) -> list[str]:
    return [block.call_id for block in link.said.blocks if isinstance(block, ToolResult)] if link.said else []
