"""Find the messages that a memory was extracted from, while their session logs exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import TranscriptError
from nacre.messages.blocks import Text
from nacre.messages.records import Said
from nacre.session.read_session import stream
from nacre.store.sessions import Sessions

_IDS = re.compile(r"[^\s,#]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalMessage:
    """A message that a memory was extracted from."""

    session: str
    message: str
    role: str
    text: str


def original_words(homes: Iterable[Path], sources: Iterable[str]) -> list[OriginalMessage]:
    """Return the messages that the sources name, from the sessions of all homes.

    A memory shared by two programs has its messages in the logs of both.
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


def _said(path: Path, wanted: set[str]) -> Iterator[OriginalMessage]:
    for record in stream(path):
        if isinstance(record, Said) and record.id in wanted:
            text = "\n".join(block.text for block in record.blocks if isinstance(block, Text))
            yield OriginalMessage(session=path.stem, message=record.id, role=record.role, text=text)
