"""Made-up session logs of any size, in the shape of real ones, and how to make the kernel forget them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from bench.made_up import START
from nacre.messages.blocks import JsonObject, Text
from nacre.messages.jsonl import Envelope, chained_id, encode
from nacre.messages.records import Compacted

MB = 1_000_000
KEPT = 20
"""A compaction keeps at most so many records before it."""
CWD = "/work/project"


def write_log(path: Path, size: int, *, boundary_at: int | None = None, cwd: str = CWD) -> int:
    """Tool results of a few kilobytes and replies with usage, at least `size` bytes; returns how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written, kept = 0, ""
    parent: str | None = None
    with path.open("wb") as file:
        for number, record in enumerate(_records(path.stem, cwd)):
            if parent:
                record["parentUuid"], parent = parent, None
            kept = str(record["uuid"]) if number % KEPT == 1 else kept
            written += file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
            if boundary_at is not None and written >= boundary_at:
                lines, parent = _boundary(path.stem, cwd, keeps_from=kept, after=str(record["uuid"]))
                written += file.write(lines)
                boundary_at = None
            if written >= size:
                break
    return written


def _records(session: str, cwd: str) -> Iterator[JsonObject]:
    code = "".join(f'    value_{n} = compute("{n}", {{"a": {n}}})  # why {n}\n' for n in range(60))
    usage: JsonObject = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 900,
        "cache_read_input_tokens": 40_000,
        "output_tokens": 200,
    }
    number = 0
    while True:
        number += 1
        envelope: JsonObject = {
            "parentUuid": f"uuid-{number - 1:032d}" if number > 1 else None,
            "sessionId": session,
            "cwd": cwd,
            "version": "1",
            "gitBranch": "main",
            "uuid": f"uuid-{number:032d}",
            "timestamp": "2026-01-01T00:00:00.000Z",
        }
        if number % 2:
            result: JsonObject = {
                "type": "tool_result",
                "tool_use_id": f"call-{number - 1}",
                "content": code,
            }
            yield {**envelope, "type": "user", "message": {"role": "user", "content": [result]}}
        else:
            call: JsonObject = {
                "type": "tool_use",
                "id": f"call-{number}",
                "name": "read",
                "input": {"path": f"src/{number}.py"},
            }
            message: JsonObject = {
                "role": "assistant",
                "id": f"msg_{number}",
                "content": [call],
                "usage": usage,
            }
            yield {**envelope, "type": "assistant", "message": message}


def _boundary(session: str, cwd: str, *, keeps_from: str, after: str) -> tuple[bytes, str | None]:
    """The lines of a compaction, and what the next record hangs on."""
    compacted = Compacted(
        id="boundary",
        at=START,
        summary=(Text("What was said so far, in short."),),
        keeps_from=keeps_from,
        summary_id="summary",
    )
    return encode(compacted, envelope=Envelope(session_id=session, cwd=cwd), parent=after), chained_id(
        compacted
    )


def is_dropped(path: Path) -> bool:
    """Ask the kernel to forget the file's pages; below a virtual machine the host may still remember them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return True
