"""Acts for the crash tests on the memory below BASE: `python saving.py ACT BASE [ARGUMENT ...]`.

`python saving.py serve` does one act a line of its input (a JSON list), each in a fork, and says how it ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from nacre.errors import VersionConflict
from nacre.memory.files import recovery
from nacre.memory.files.location import Location
from nacre.memory.files.transaction import Transaction, recover, transact
from nacre.memory.format.entry import MemoryChange
from nacre.store import disk as exchange

INDEX = "MEMORY.md"


def location(base: Path) -> Location:
    return Location(
        directory=base / "memory",
        source="default",
        history=base / "history" / "m.git",
        cache=base / "cache" / "m",
    )


def pointer(file: str) -> bytes:
    return b"- [%s](%s) - a hook\n" % (file.removesuffix(".md").encode(), file.encode())


def put(tx: Transaction, file: str, body: bytes) -> None:
    """A topic and its line in the index."""
    index, version = tx.read(INDEX)
    tx.write(file, body)
    if pointer(file) not in (index or b""):
        tx.write(INDEX, (index or b"") + pointer(file), version)


def drop(tx: Transaction, file: str) -> None:
    index, version = tx.read(INDEX)
    if tx.delete(file):
        tx.write(INDEX, (index or b"").replace(pointer(file), b""), version)


async def save(where: Location, file: str, body: bytes, reason: str = "") -> str:
    async with transact(
        where, MemoryChange(author="agent", reason=reason or f"save {file}", session="s-1")
    ) as tx:
        put(tx, file, body)
    return tx.commit


async def forget(where: Location, file: str, reason: str = "") -> str:
    async with transact(where, MemoryChange(author="agent", reason=reason or f"forget {file}")) as tx:
        drop(tx, file)
    return tx.commit


def die_after(count: int, *, before: bool = False) -> None:
    """End this process at the count-th act on the disk, as a kill would: nothing is cleaned up."""
    done = 0

    def counted(act: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            done += 1
            if before and done == count:
                os._exit(9)
            try:
                return act(*args, **kwargs)
            finally:
                if done == count:
                    os._exit(9)

        return call

    for name in ("write", "fsync", "rename", "replace", "link", "unlink", "mkdir", "rmdir", "truncate",
                 "ftruncate", "utime"):  # fmt: skip
        setattr(os, name, counted(getattr(os, name)))
    opened = os.open

    def making(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        act = counted(opened) if flags & os.O_CREAT else opened
        result: int = act(path, flags, *args, **kwargs)
        return result

    os.open = making
    exchange._renamed = counted(exchange._renamed)


def torn_write(count: int) -> None:
    """End this process in the middle of its count-th write: half of the bytes are there."""
    done = 0
    write = os.write

    def call(descriptor: int, data: bytes) -> int:
        nonlocal done
        done += 1
        if done == count:
            write(descriptor, bytes(data)[: len(data) // 2])
            os._exit(9)
        return write(descriptor, data)

    os.write = call


async def storm(where: Location, name: str, count: int, seed: int) -> None:
    """Save and forget at random; says each commit before the next begins, so that a kill loses no account."""
    chance = Random(seed)
    for number in range(count):
        file = f"topic_{chance.randrange(12)}.md"
        try:
            if chance.random() < 0.3:
                commit = await forget(where, file, f"{name} {number} forget")
            else:
                body = f"{name} {number} ".encode() * chance.randrange(1, 400)
                commit = await save(where, file, body, f"{name} {number} save")
        except VersionConflict:
            continue
        print(commit, flush=True)


def main(act: str, base: Path, *arguments: str) -> None:
    where = location(base)
    if act == "storm":
        name, count, seed = arguments
        asyncio.run(storm(where, name, int(count), int(seed)))
        return
    kind, count = arguments[:2]
    {"after": die_after, "before": lambda n: die_after(n, before=True), "torn": torn_write}[kind](int(count))
    if act == "save":
        asyncio.run(save(where, arguments[2], arguments[3].encode()))
    elif act == "forget":
        asyncio.run(forget(where, arguments[2]))
    elif act == "recover":
        asyncio.run(recover(where))
    elif act == "pack":
        recovery.PACK_AT_OPENING = -1
        asyncio.run(recover(where))
    elif act == "purge":
        from nacre.memory.files.undo import purge

        word = arguments[3].encode()

        def scrub(data: bytes) -> bytes:
            return b"".join(line for line in data.splitlines(keepends=True) if word not in line)

        asyncio.run(purge(where, [arguments[2]], scrub=scrub))


def serve() -> None:
    """Python and nacre are loaded once; hundreds of kills then cost hundreds of forks."""
    for line in sys.stdin:
        act, base, *arguments = json.loads(line)
        child = os.fork()
        if not child:
            code = 1
            try:
                main(act, Path(base), *arguments)
                code = 0
            except BaseException:  # noqa: BLE001 - a fork must not go on as if it were the server
                traceback.print_exc()
            finally:
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
