"""Export a session as Markdown or as the bytes of its log (T7)."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.formatting import fenced
from nacre.inspect.credentials import redacted_line
from nacre.messages.blocks import Block, Document, Image, Opaque, Text, Thinking, ToolCall, ToolResult
from nacre.messages.records import Compacted, Noted, Record, Replaced, Said, Undone
from nacre.store import disk
from nacre.store.lines import CHUNK, open_log, whole_lines
from nacre.store.summaries import SessionSummary

ASIDES = {
    "sidechain": "sub-agent",
    "abandoned": "on a branch left behind",
    "display": "shown only, never sent",
}
"""Why a record never reached the model, in words."""
_NAMES = {"user": "User", "assistant": "Assistant", "system": "System"}
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK})


def markdown(summary: SessionSummary, records: Iterable[Record]) -> Iterator[str]:
    """Return the whole session as Markdown, including what a compaction replaced."""
    yield f"# {summary.title or 'Session ' + summary.session}\n\n"
    yield f"- session: `{summary.session}`\n"
    yield f"- directory: `{summary.cwd}`\n" if summary.cwd else ""
    yield f"- started: {moment(summary.started)}\n" if summary.started else ""
    yield f"- messages: {summary.messages:,}\n"
    notes = 0
    heading = ""
    for record in records:
        if isinstance(record, Noted):
            notes += 1
            continue
        new = _heading(record)
        if new and new != heading:
            yield f"\n## {new}\n"
        heading = new if new is not None else heading
        yield from _body(record)
    if notes:
        yield f"\n---\n\n{notes:,} records of bookkeeping are not shown; `--format jsonl` has them.\n"


def _heading(record: Record) -> str | None:
    """Return the speaker; empty for a message of results only, which belongs to the calls before it."""
    if not isinstance(record, Said):
        return ""
    if record.blocks and all(isinstance(block, ToolResult) for block in record.blocks):
        return None
    marks = [ASIDES[record.aside]] if record.aside else []
    marks += ["added by the program"] if record.meta else []
    name = _NAMES[record.role]
    return f"{name} ({', '.join(marks)})" if marks else name


def _body(record: Record) -> Iterator[str]:
    match record:
        case Said(blocks=blocks):
            for block in blocks:
                if not (isinstance(block, Text) and not block.text.strip()):
                    yield "\n" + _block(block) + "\n"
        case Compacted():
            yield f"\n---\n\n*{compaction_line(record)}*\n"
            for block in record.summary:
                yield "\n" + _block(block) + "\n"
        case Replaced():
            yield f"\n*{replacement_line(record)}*\n"
        case Undone(target=target):
            yield f"\n*Undone: {target}.*\n"
        case _:
            return


def _block(block: Block) -> str:
    match block:
        case Text(text):
            return text
        case Thinking(text):
            return "\n".join(f"> {line}" for line in text.splitlines()) or "> (hidden thinking)"
        case ToolCall(_, name, arguments):
            return f"**{name}**\n\n" + fenced(json.dumps(arguments, ensure_ascii=False, indent=2), "json")
        case ToolResult():
            label = "Result (error)" if block.is_error else "Result"
            parts = [fenced(part.text) if isinstance(part, Text) else _block(part) for part in block.content]
            return "\n\n".join([f"{label}:", *(parts or ["(empty)"])])
        case Image() | Document():
            return f"[{type(block).__name__.lower()}]"
        case Opaque(kind):
            return f"[{kind}]"


def compaction_line(record: Compacted) -> str:
    """Describe a compaction in one line."""
    size = f" of {record.pre_tokens:,} tokens" if record.pre_tokens else ""
    return (
        f"The conversation{size} was compacted ({record.trigger}); this summary stands for it from here on:"
    )


def replacement_line(record: Replaced) -> str:
    """Describe a replacement in one line."""
    count = len(record.changes)
    return f"{count} block{'s' * (count != 1)} no longer stand as they were said ({record.reason})."


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def redacted_bytes(path: Path) -> Iterator[bytes]:
    """Return the log with each credential replaced by the name of its kind (M27)."""
    for _, block in whole_lines(path):
        yield from map(redacted_line, block.splitlines(keepends=True))


def log_bytes(path: Path) -> Iterator[bytes]:
    """Return the log byte for byte."""
    with open_log(path) as file:
        left = os.fstat(file.fileno()).st_size
        while left > 0 and (chunk := file.read(min(CHUNK, left))):
            left -= len(chunk)
            yield chunk


@contextmanager
def new_file(path: Path, *, replaces: bool = False, clock: Clock = SYSTEM_CLOCK) -> Iterator[BinaryIO]:
    """Write a file that appears whole or not at all; replaces an existing one only if `force` is set."""
    if path.is_dir():
        raise StoreError(f"{path} is a directory; name a file in it")
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is not a regular file; leave -o out to print, or name another file")
    if path.exists() and not replaces:
        raise StoreError(f"{path} exists already; add --force to replace it, or name another file")
    temp = path.with_name(f".{path.name}.{clock.new_id()}.tmp")
    try:
        descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, disk.FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            yield file
        if replaces:
            temp.replace(path)
        else:
            place_new(temp, path)
    except FileNotFoundError:
        raise StoreError(f"there is no directory {path.parent}; create it first") from None
    except FileExistsError:
        raise StoreError(f"{path} exists already; add --force to replace it, or name another file") from None
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error
    finally:
        temp.unlink(missing_ok=True)


def place_new(temp: Path, path: Path) -> None:
    """Move a finished file to its name; raises `FileExistsError` if that name is taken.

    A link, unlike a rename, never replaces a file; without support for links the name is checked first.
    """
    try:
        os.link(temp, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, "exists already", str(path)) from None
        temp.rename(path)
