"""What the tests of this room share: the servers, short waits, and a look at the processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

from nacre.mcp_client import McpLimits, ServerConfig, parse_servers

HERE = Path(__file__).parent
QUICK = McpLimits(start_seconds=10.0, call_seconds=1.0, probe_seconds=0.5, exit_seconds=0.5, term_seconds=0.5)
"""Short, so that what must time out does so soon; the start stays long, because a machine may be busy."""


def raw(behaviour: str, *words: str, name: str = "raw") -> ServerConfig:
    return parse_servers(
        {name: {"command": sys.executable, "args": ["-S", str(HERE / "raw_server.py"), behaviour, *words]}},
        environ=os.environ,
    )[0]


def sdk(name: str = "sdk", **env: str) -> ServerConfig:
    return parse_servers(
        {name: {"command": sys.executable, "args": [str(HERE / "sdk_server.py")], "env": dict(env)}},
        environ=os.environ,
    )[0]


_others: set[int] = set()


def forget_others() -> None:
    """From now on count only processes that begin after this: other tests have theirs."""
    _others.clear()
    _others.update(children())


def children() -> set[int]:
    """The living processes whose parent we are, without those of other tests."""
    ours = set()
    for table in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = table.read_bytes().rpartition(b")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid() and state not in {b"Z", b"X"}:
            ours.add(int(table.parent.name))
    return ours - _others


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    except OSError:
        return False


async def until(is_true: Callable[[], bool], *, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not is_true():
            await asyncio.sleep(0.02)
