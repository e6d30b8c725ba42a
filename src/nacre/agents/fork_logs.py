"""Forks that were sent for: each with a log of its own, from which it can go on after a restart (F2, A1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from nacre.agents.child_spec import Parent
from nacre.errors import ToolError
from nacre.loop.fork import FORK, ForkResult
from nacre.messages.events import Event
from nacre.messages.jsonl import decode
from nacre.messages.records import Noted, Record
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.session_log import AgentLog, SessionLogWriter, agent_log_path
from nacre.store.lines import read_lines

LOST = "{name} was a fork of this conversation, which has been shortened since; start another agent instead."


async def send_fork(
    parent: Parent, start: View | ForkResult, text: str, *, agent: str, heard: Callable[[Event], None]
) -> ForkResult:
    """Run a fork to its end; what is said in it is kept where the session is."""
    writer = parent.session.writer
    if parent.folder is None or not isinstance(writer, SessionLogWriter):
        return await parent.forker.detached(text, view=start, heard=heard)
    with AgentLog(agent_log_path(parent.folder, agent), writer.envelope, agent=agent) as log:
        return await parent.forker.detached(text, view=start, write=log.write, heard=heard)


async def left_off(parent: Parent, agent: str, name: str) -> ForkResult:
    """Where a fork of an earlier process ended, put together from both logs; `ToolError` where it cannot."""
    if parent.folder is None:
        raise ToolError(LOST.format(name=name))
    said = await asyncio.to_thread(_records, agent_log_path(parent.folder, agent))
    view = _joined(parent.session.transcript.records, said)
    if view is None:
        raise ToolError(LOST.format(name=name))
    return ForkResult(source="agent", replies=(), usage=Usage(), first=Usage(), view=view)


def _joined(above: Sequence[Record], said: Sequence[Record]) -> View | None:
    """The parent's records up to where the fork began, and its own behind them."""
    mark = next((one for one in said if isinstance(one, Noted) and one.kind == FORK), None)
    ids = [one.id for one in above]
    if mark is None or mark.fact("after") not in ids:
        return None
    shared = above[: ids.index(str(mark.fact("after"))) + 1]
    known = {one.id for one in shared}
    return View.of([*shared, *(one for one in said if one.id not in known)])


def _records(path: Path) -> list[Record]:
    return decode(read_lines(path), subagent=True).records if path.is_file() else []
