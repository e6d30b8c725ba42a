"""The memories that a conversation was given, from the notes in its log (R7, Q6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.records import Noted, Record, Said
from nacre.messages.view import View
from nacre.session.layer import notes_in_view

RECALLED = "recalled"
"""Kind of the note about memories attached to a record."""


def noted(paths: Iterable[Path], *, size: int) -> JsonObject:
    """Return the facts of such a note: the attached files and their total size in bytes."""
    return {"files": [str(path) for path in paths], "bytes": size}


def recalled_in_view(view: View) -> list[Path]:
    """Return the memories that were attached and are still in view, in that order (Q6)."""
    files = (file for note in notes_in_view(view, RECALLED) for file in _files(note))
    return [Path(file) for file in dict.fromkeys(files)]


def bytes_in_view(view: View) -> int:
    """Return their total size in bytes."""
    sizes = (note.fact("bytes") for note in notes_in_view(view, RECALLED))
    return sum(size for size in sizes if isinstance(size, int))


def memories_of(records: Sequence[Record]) -> tuple[int, int]:
    """Return how many memories the last turn saved, and how many it was given."""
    last = max((i for i, one in enumerate(records) if _is_prompt(one)), default=0)
    saved = 0
    recalled = 0
    asked = set[str]()
    for record in records[last:]:
        if isinstance(record, Noted) and record.kind == RECALLED:
            recalled += len(_files(record))
        blocks = record.blocks if isinstance(record, Said) else ()
        for block in blocks:
            if isinstance(block, ToolCall) and block.name == "remember":
                asked.add(block.id)
            elif isinstance(block, ToolResult) and block.call_id in asked and not block.is_error:
                saved += 1
    return saved, recalled


def _is_prompt(record: Record) -> bool:
    if not isinstance(record, Said) or record.role != "user" or record.meta:
        return False
    return any(isinstance(block, Text) for block in record.blocks)


def _files(note: Noted) -> list[str]:
    written = note.fact("files")
    return [str(file) for file in written] if isinstance(written, list) else []
