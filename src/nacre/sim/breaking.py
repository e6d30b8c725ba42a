"""How an answer that was begun goes wrong: cut, garbled, silent, or an error in mid-stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from nacre.sim.dialect import Dialect, frame
from nacre.sim.faults import REFUSALS, Fault
from nacre.sim.http import ConnectionDropped

GARBLED = b'event: content_block_delta\ndata: {"type": "content_block_delta", "delta": {"te\n\n'
"""An event whose JSON stops in the middle."""
NOT_JSON = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
"""What a proxy in the way says, under the content type of the API."""


async def broken_stream(frames: Iterator[bytes], fault: Fault, dialect: Dialect) -> AsyncIterator[bytes]:
    """The stream up to where the fault strikes, at the latest before its last event; then the fault."""
    events = list(frames)
    cut = min(fault.events_first, len(events) - 1)
    for event in events[:cut]:
        yield event
    if fault.kind in REFUSALS:
        yield frame(dialect.error(dialect.refusal(fault)), "error")
    elif fault.kind == "malformed":
        yield GARBLED
    elif fault.kind == "truncate_json":
        yield events[cut][: len(events[cut]) // 2]
    else:
        await _silence(fault)


async def broken_body(payload: bytes, fault: Fault) -> bytes:
    """A whole answer, spoilt."""
    if fault.kind == "malformed":
        return NOT_JSON
    if fault.kind == "truncate_json":
        return payload[: len(payload) // 2]
    await _silence(fault)
    return payload


async def _silence(fault: Fault) -> None:
    """Hang up, or say nothing until the client does."""
    if fault.kind == "hang":
        await asyncio.Event().wait()
    raise ConnectionDropped


def turns_away(fault: Fault, *, streaming: bool) -> bool:
    """The fault is an HTTP status: only a stream can fail after it has begun."""
    return fault.is_refusal or (fault.kind in REFUSALS and not streaming)
