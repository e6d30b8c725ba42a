"""What happens in other processes, most of which die of it: `python -m tests.layers.l7_mail.apart DEED …`."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from nacre.layers.l7_mail.letter import written
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.store import disk
from tests.layers.l7_mail.letters import letter

ROOT = Path(__file__).parents[3]


def apart(deed: Callable[..., None], *arguments: object) -> subprocess.CompletedProcess[str]:
    """Do it in a process of its own, to the end."""
    command = [sys.executable, "-m", "tests.layers.l7_mail.apart", deed.__name__, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def tear(path: str, share: str) -> None:
    """Write that share of a letter's line."""

    def torn(descriptor: int, data: bytes, *, sync: bool = False) -> int:
        os.write(descriptor, data[: int(len(data) * float(share))])
        die()
        return 0

    disk.append_whole = torn
    Mailbox(Path(path)).put(letter("torn"))


def look_and_die(path: str) -> None:
    Mailbox(Path(path)).waiting()
    die()


def put(path: str) -> None:
    Mailbox(Path(path)).put(letter(1))


def hang_a_bell_and_die(path: str) -> None:
    wakeup = Mailbox(Path(path)).wakeup()
    die()
    wakeup.close()


def fork_with_a_bell(path: str) -> None:
    """A fork writes to the box it was born with, and closes a bell that is not its own."""
    box = Mailbox(Path(path))
    box.put(letter(0))
    with box.wakeup() as wakeup:
        pid = os.fork()
        if pid == 0:
            wakeup.close()
            box.put(letter(1))
            os._exit(0)
        ending = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        box.put(letter(2))
        heard = asyncio.run(wakeup.wait(20))
    print(ending, heard, [one.text for one in box.waiting().letters])


def listen_and_die(path: str) -> None:
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(path)
    bound.listen()
    die()


def write_as_a_stranger(path: str) -> None:
    line = written(letter())
    os.setuid(65_534)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(line)
        print(client.recv(4_096).decode())


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
