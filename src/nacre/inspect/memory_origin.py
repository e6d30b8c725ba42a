"""Where a memory comes from, in lines for a person: who wrote it, when, why, and what is in doubt."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from nacre.formatting import printable

if TYPE_CHECKING:  # quick commands import this, and start-up is measured
    from nacre.memory.confirm import Doubts
    from nacre.memory.format.entry import Entry
    from nacre.store.history import Commit
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import TranscriptError
from nacre.messages.blocks import Text
from nacre.messages.records import Said
from nacre.session.read_session import stream
from nacre.store.sessions import Sessions

SHORT_COMMIT = 10
"""Characters of a commit's id that are shown; any of the commands takes them."""


def origin_lines(entry: Entry, commits: Sequence[Commit], doubted: Doubts, *, is_there: bool) -> list[str]:
    """Whose word it is, every change of it, and which of them nobody has confirmed."""
    state = "untrusted: it came from outside" if entry.origin == "untrusted" else f"said by: {entry.origin}"
    lines = [f"{entry.file}  ({state if is_there else 'forgotten'})"]
    for each in commits:
        session = f", session {each.session}" if each.session else ""
        lines.append(f"  {change_line(each, doubted.confirmed)}{session}")
    if ids := doubted.files.get(entry.file):
        short = " ".join(each[:SHORT_COMMIT] for each in ids)
        lines += [
            "  unconfirmed: it changed while an agent was at work, and an agent's shell could have done it;",
            f"  `nacre memory confirm {short}` if that was you",
        ]
    if not commits:
        lines.append("  no change of it is on record: it was there before nacre")
    if entry.sources:
        lines.append(f"  from: {', '.join(entry.sources)}")
    return [printable(line) for line in lines]


def change_line(each: Commit, confirmed: Collection[str]) -> str:
    """When, which, whose and why."""
    when = each.at.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{when}  {each.id[:SHORT_COMMIT]}  {author_shown(each, confirmed)}: {each.reason}"


def author_shown(each: Commit, confirmed: Collection[str]) -> str:
    """Who made a change, or that the user has confirmed it since."""
    return "confirmed" if each.id in confirmed else each.author


_IDS = re.compile(r"[^\s,#]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """One message that a memory was drawn from."""

    session: str
    message: str
    role: str
    text: str


def original_words(homes: Iterable[Path], sources: Iterable[str]) -> list[Words]:
    """The messages that the sources name: ids of sessions in any of the homes, and of messages in them.

    A memory that two programs share has its words in the logs of either.
    """
    ids = {found for source in sources for found in _IDS.findall(source)}
    logs = {one: path for home in homes for one in ids if (path := _log(home, one)) is not None}
    wanted = ids - logs.keys()
    return [words for path in sorted(logs.values()) for words in _said(path, wanted)] if wanted else []


def _log(home: Path, session: str) -> Path | None:
    try:
        path = Sessions(home).find(session)
    except TranscriptError:
        return None
    return path if path.stem == session else None


def _said(path: Path, wanted: set[str]) -> Iterator[Words]:
    for record in stream(path):
        if isinstance(record, Said) and record.id in wanted:
            text = "\n".join(block.text for block in record.blocks if isinstance(block, Text))
            yield Words(session=path.stem, message=record.id, role=record.role, text=text)
