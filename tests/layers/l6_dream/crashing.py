"""Dreams that are killed: `python crashing.py BASE FIRST STEP` prints what each kill left, one JSON a line.

A child dreams and is killed with SIGKILL at its nth touch of the disk below BASE; then the parent looks at
what is left, as a later session would. `python crashing.py BASE race COUNT` lets so many dream at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from nacre.layers.l6_dream.dream import dream
from nacre.layers.l6_dream.lock import FILE, DreamLock
from nacre.layers.l6_dream.state import DreamStateFile, recover
from nacre.memory.files.location import Location
from nacre.memory.memory import Memory
from nacre.messages.blocks import JsonObject
from nacre.store.history import History
from tests.layers.l6_dream.made import NOW, held, laid, night

TOUCHES = frozenset({
    "open", "os.rename", "os.remove", "os.utime", "os.mkdir", "os.rmdir", "os.link", "os.truncate",
    "os.chmod", "shutil.rmtree", "fcntl.flock",
})  # fmt: skip
LAST = NOW.timestamp() - 3 * 86_400


def killed_at(base: Path, number: int) -> None:
    """Have this process die at its nth touch of anything below a folder."""
    left = [number]
    root = str(base)

    def hook(event: str, args: tuple[object, ...]) -> None:
        is_ours = event == "fcntl.flock" or any(
            isinstance(one, str | Path) and root in str(one) for one in args[:2]
        )
        if event in TOUCHES and is_ours:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def apart(act: Callable[[], None]) -> int:
    """Run in a process of its own; the signal that ended it, or 0."""
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def dream_once(location: Location) -> None:
    asyncio.run(dream(night(location)))


def begun(base: Path) -> Location:
    """A directory that was dreamt of three days ago, and has something to put in order since."""
    shutil.rmtree(base, ignore_errors=True)
    location = laid(base)
    asyncio.run(_opened(location))
    lock = location.directory / FILE
    lock.write_text("1\n", encoding="utf-8")
    os.utime(lock, (LAST, LAST))
    return location


async def _opened(location: Location) -> None:
    await Memory.at(location, location.directory.parent)


def one_kill(base: Path, number: int) -> JsonObject:
    location = begun(base)
    before = held(location)

    def act() -> None:
        killed_at(base, number)
        dream_once(location)

    ending = apart(act)
    recover(location)
    asyncio.run(_opened(location))
    lock, between = DreamLock(location.directory, location.cache), held(location)
    commits = [commit.author for commit in History(location.history).log(20)]
    seen: JsonObject = {
        "killed": ending != 0,
        "held": lock.holder() is not None,
        "time_is_old": lock.path.stat().st_mtime == LAST,
        "dreams": commits.count("dream"),
        "is_before": between == before,
        "missing": sorted(before.keys() - between.keys() - {"deploys_again.md"}),
        "status": DreamStateFile(location.cache).read().status,
    }
    again = apart(lambda: dream_once(location))
    after = History(location.history)
    tree = {file: after.read(after.newest, file) for file in after.tree(after.newest)}
    seen |= {
        "again": again,
        "final": sorted(held(location)),
        "history_is_whole": tree == held(location),
        "dreams_in_all": [commit.author for commit in after.log(20)].count("dream"),
        "left_over": sorted(path.name for path in location.directory.iterdir() if path.name.endswith(".tmp")),
        "copies": (location.cache / "dream" / "work").exists(),
    }
    return seen


def race(base: Path, count: int) -> None:
    location = begun(base)
    children = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            done = asyncio.run(dream(night(location)))
            os._exit({"completed": 0 if done.state.commit else 1, "skipped": 2}.get(done.state.status, 3))
        children.append(pid)
    endings = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    commits = [commit.author for commit in History(location.history).log(20)]
    print(json.dumps({"endings": endings, "dreams": commits.count("dream"), "files": sorted(held(location))}))


def main(base: str, first: str, second: str) -> None:
    if first == "race":
        race(Path(base), int(second))
        return
    number = int(first)
    while True:
        seen = one_kill(Path(base), number)
        print(json.dumps(seen), flush=True)
        if not seen["killed"]:
            return
        number += int(second)


if __name__ == "__main__":
    main(*sys.argv[1:])
