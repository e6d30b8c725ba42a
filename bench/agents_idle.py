"""What agents cost that only wait: teammates of one session at their wakeups, and teammates with processes.

Nothing is written to anybody while the clock runs: all that is counted is waiting.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.machine import bar
from nacre.agents.team_roster import Roster, member_here
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.layers.l7_mail.mailbox import Mailbox, box_path
from nacre.messages.blocks import JsonObject
from nacre.settings import Settings, load
from nacre.testing import Cast, ScriptedProvider, call, say, together

SHARE = 0.001
"""Of a core, for a hundred agents: a tenth of a percent."""
TEAM = 50
"""Members of one team: a roster holds a hundred, with who leads it."""
AT_ONCE = 10
"""Started with one reply: below how many may work at once."""
START_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    agents: int = 100
    processes: int = 3
    seconds: float = 60.0


FULL = Sizes()
TINY = Sizes(agents=4, processes=1, seconds=0.5)


def measure(sizes: Sizes = FULL) -> JsonObject:
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        here = asyncio.run(_teammates(Path(folder) / "here", sizes))
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        boxes = asyncio.run(_boxes(Path(folder), sizes))
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        each = _apart(Path(folder), sizes)
    return {
        "agents": sizes.agents,
        "seconds": sizes.seconds,
        "teammates_share": round(here, 6),
        "mailboxes_share": round(boxes, 6),
        "process_share": round(each, 6),
        "bars": [
            bar("idle teammates of one session, share of a core", here, at_most=SHARE),
            bar("idle mailboxes of one process, share of a core", boxes, at_most=SHARE),
            bar("one idle teammate in a process of its own, share of a core", each, at_most=SHARE),
        ],
    }


async def _teammates(cwd: Path, sizes: Sizes) -> float:
    """A session whose model has started so many, each of which has said a word and waits."""
    cwd.mkdir()
    names = [f"mate-{number}" for number in range(sizes.agents)]
    orders = [
        call("Agent", description="wait", prompt=f"Be {name}.", name=name, team_name=f"team-{number // TEAM}")
        for number, name in enumerate(names)
    ]
    groups = [orders[at : at + AT_ONCE] for at in range(0, len(orders), AT_ONCE)]
    main = ScriptedProvider(reply for group in groups for reply in (together(*group), say("Started.")))
    provider = Cast(main, {f"Be {name}.": ScriptedProvider([say("Ready.")]) for name in names})
    async with open_agent(_settings(cwd), provider=provider) as ready:
        for number in range(len(groups)):
            async for _ in ready.agent.stream("Go."):
                pass
            await _until_idle(ready, min(sizes.agents, (number + 1) * AT_ONCE))
        return await _share(sizes.seconds)


async def _until_idle(ready: OpenedAgent, count: int) -> None:
    assert ready.team is not None
    async with asyncio.timeout(START_SECONDS):
        while sum(state.status == "idle" for state in ready.team.states()) < count:  # once
            await asyncio.sleep(0.05)


async def _boxes(folder: Path, sizes: Sizes) -> float:
    """The wakeups of so many boxes on disk, and whoever waits at them."""
    boxes = [Mailbox(box_path(folder, f"mate-{number}")) for number in range(sizes.agents)]
    wakeups = [box.wakeup() for box in boxes]
    waiting = [asyncio.create_task(wakeup.wait(), name="wakeup") for wakeup in wakeups]
    share = await _share(sizes.seconds)
    for wakeup in wakeups:
        wakeup.close()
    await asyncio.wait(waiting)
    return share


def _apart(cwd: Path, sizes: Sizes) -> float:
    """The mean of some real processes, each a member of a team."""
    roster = Roster(cwd / "home", "crew")
    roster.create(member_here("main"))
    with _members(cwd, roster, sizes.processes) as pids:
        before = sum(map(_cpu_seconds, pids))
        time.sleep(sizes.seconds)
        return (sum(map(_cpu_seconds, pids)) - before) / sizes.seconds / len(pids)


@contextmanager
def _members(cwd: Path, roster: Roster, count: int) -> Iterator[list[int]]:
    environ = {"HOME": str(cwd), "NACRE_HOME": str(cwd / "home"), "PATH": "/usr/bin:/bin"}
    environ["NACRE_MODEL"] = "embedded"
    begun = [
        subprocess.Popen(
            [sys.executable, "-m", "nacre", "agents", "run", f"mate-{number}", "--team", "crew"],
            cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for number in range(count)
    ]  # fmt: skip
    try:
        for process in begun:
            assert process.stdout is not None
            while b"waits for messages" not in (line := process.stdout.readline()):
                assert line, "a teammate did not start"
        time.sleep(1.0)  # what it does on its way is no waiting
        yield [process.pid for process in begun]
    finally:
        for process in begun:
            process.terminate()
            process.communicate(timeout=START_SECONDS)


async def _share(seconds: float) -> float:
    await asyncio.sleep(min(seconds, 1.0))  # what was begun on the way is no waiting
    before = time.process_time()
    await asyncio.sleep(seconds)
    return (time.process_time() - before) / seconds


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _settings(cwd: Path) -> Settings:
    off = dict.fromkeys(
        ("NACRE_NOTES", "NACRE_EXTRACT", "NACRE_DREAM", "NACRE_COMPACT_PREPARE", "NACRE_TOOLS_DEFERRED"), "0"
    )
    return load(cwd, {"HOME": str(cwd), "NACRE_HOME": str(cwd / "home"), **off})
