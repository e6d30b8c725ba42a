"""Mail among processes that are killed all the time: `python -m bench.mail_chaos FOLDER [LETTERS [SEED]]`.

Eight processes write to each other's mailboxes; a parent kills them at random and starts them again. Some
die in mid-write or between receiving and settling, some find the disk full, and boxes and cursors get junk.
Each keeps a log of what it was told is safe and of what it received, as a session does. Prints one JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK
from nacre.errors import MailError
from nacre.layers.l7_mail.inbox import Inbox
from nacre.layers.l7_mail.letter import Letter
from nacre.layers.l7_mail.mailbox import Mailbox, box_path
from nacre.layers.l7_mail.post import Post
from nacre.messages.blocks import JsonObject
from nacre.store import disk

PROCESSES = 8
KILL_SECONDS = (0.005, 0.06)
"""Between two kills by the parent."""
TORN, FULL, UNSETTLED, JUNK = 0.01, 0.01, 0.02, 0.25
"""How often a letter is torn, finds the disk full, is received but not settled; how many kills bring junk."""
PATIENCE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything lies."""

    base: Path

    def box(self, number: int) -> Path:
        return box_path(self.base / "inboxes", f"p{number}")

    def acknowledged(self, number: int) -> Path:
        return self.base / f"acknowledged-{number}"

    def received(self, number: int) -> Path:
        return self.base / f"received-{number}"

    def events(self, number: int) -> Path:
        return self.base / f"events-{number}"

    @property
    def stop(self) -> Path:
        return self.base / "stop"


def chaos(base: Path, letters: int, seed: int = 1) -> JsonObject:
    """Run to the end and count."""
    place, chance = Place(base), random.Random(seed)
    (base / "inboxes").mkdir(parents=True, mode=0o700)
    quota = letters // PROCESSES
    life, kills, junk = 0, 0, Counter[str]()
    began = time.monotonic()
    children: dict[int, int] = {}
    while time.monotonic() - began < PATIENCE_SECONDS:
        for number in range(PROCESSES):
            if number not in children.values():
                life += 1
                children[_started(place, number, life, quota=quota, seed=seed)] = number
        if all(len(_lines(place.acknowledged(number))) >= quota for number in range(PROCESSES)):
            break
        time.sleep(chance.uniform(*KILL_SECONDS))
        victim = chance.choice(list(children))
        os.kill(victim, signal.SIGKILL)
        kills += 1
        if chance.random() < JUNK:
            junk[_spoilt(place, chance)] += 1
        for pid in [pid for pid in children if pid == victim or _is_gone(pid)]:
            if pid == victim:
                os.waitpid(pid, 0)
            del children[pid]
    place.stop.touch()
    for pid in children:
        os.waitpid(pid, 0)
    # A sender may finish its batch after a receiver has read its mailbox for the last time and left.
    for number in range(PROCESSES):
        life += 1
        os.waitpid(_started(place, number, life, quota=quota, seed=seed), 0)
    seconds = time.monotonic() - began
    return {
        **_counted(place),
        "lives": life,
        "kills": kills,
        "junk": dict(junk),
        "seconds": round(seconds, 1),
    }


def _is_gone(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG)[0] != 0


def _started(place: Place, number: int, life: int, *, quota: int, seed: int) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            asyncio.run(_Agent(place, number, life, seed).live(quota))
            code = 0
        finally:
            os._exit(code)
    return pid


class _Agent:
    """One process: writes to the others and reads its own mail."""

    def __init__(self, place: Place, number: int, life: int, seed: int) -> None:
        self._place, self._number, self._life = place, number, life
        self._chance = random.Random(f"{seed} {life}")
        self._box = Mailbox(place.box(number))
        self._others = [Mailbox(place.box(other)) for other in range(PROCESSES)]
        self._known = set(_lines(place.received(number)))
        _cut(place.received(number))
        _cut(place.acknowledged(number))

    async def live(self, quota: int) -> None:
        done = len(_lines(self._place.acknowledged(self._number)))
        written = 0
        with self._box.wakeup() as wakeup:
            while done < quota:
                for _ in range(self._chance.randint(1, 5)):
                    written += 1
                    done += self._write(written)
                self._receive()
            while not self._place.stop.exists():
                if await wakeup.wait(0.1):
                    self._receive()
        while self._receive():
            pass

    def _write(self, count: int) -> int:
        to = self._chance.choice([other for other in range(PROCESSES) if other != self._number])
        letter = Letter(
            id=f"p{self._number}.{self._life:06d}.{count:06d}",
            sender=f"p{self._number}",
            to=f"p{to}",
            text="x" * self._chance.choice((1, 40, 400, 4_000)) + "\n\u2028 end",
            at=SYSTEM_CLOCK.now(),
        )
        fault = self._chance.random()
        if fault < TORN:
            self._tear(self._chance.random())
        try:
            if TORN <= fault < TORN + FULL:
                self._put_on_a_full_disk(to, letter)
            else:
                self._others[to].put(letter)
        except MailError:
            _add(self._place.events(self._number), "refused")
            return 0
        _add(self._place.acknowledged(self._number), f"{letter.id} {to}")
        return 1

    def _tear(self, share: float) -> None:
        """The next write stops half-way, and so does this process."""

        def torn(descriptor: int, data: bytes, *, sync: bool = False) -> int:
            os.write(descriptor, data[: int(len(data) * share)])
            _add(self._place.events(self._number), "torn")
            os.kill(os.getpid(), signal.SIGKILL)
            return 0

        disk.append_whole = torn

    def _put_on_a_full_disk(self, to: int, letter: Letter) -> None:
        room = self._chance.randint(0, 60)
        with suppress(FileNotFoundError):
            room += self._place.box(to).stat().st_size
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            self._others[to].put(letter)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def _receive(self) -> int:
        seen = self._box.waiting(self._known)
        if seen.letters:
            # The note in the transcript: one write, before the cursor moves.
            _add(self._place.received(self._number), "\n".join(one.id for one in seen.letters))
            self._known.update(one.id for one in seen.letters)
            if self._chance.random() < UNSETTLED and not self._place.stop.exists():
                _add(self._place.events(self._number), "unsettled")
                os.kill(os.getpid(), signal.SIGKILL)
        self._box.settle(seen.position)
        return len(seen.letters) + seen.has_more


def _spoilt(place: Place, chance: random.Random) -> str:
    """Damage one box or its cursor, as a failing disk or a careless program would."""
    path = place.box(chance.randrange(PROCESSES))
    kind = chance.choice(("line", "cursor", "no cursor", "header"))
    cursor = path.with_suffix(".cursor")
    if kind == "cursor":
        disk.replace_file(cursor, chance.randbytes(50), temp_name=f".junk-{path.stem}", sync=False)
    elif kind == "no cursor":
        cursor.unlink(missing_ok=True)
    elif path.exists():
        # Between two letters, for what is damaged in the middle of one is lost with it.
        with Mailbox(path)._held(), path.open("r+b") as file:
            if kind == "header":
                file.write(b"#")
            else:
                file.seek(0, os.SEEK_END)
                file.write(b"\n" + chance.randbytes(200).replace(b"\n", b"") + b"\n")
    return kind


def _counted(place: Place) -> JsonObject:
    acknowledged: dict[str, str] = {}
    lost = twice = disordered = delivered = aside = 0
    for number in range(PROCESSES):
        acknowledged |= {line.split()[0]: line.split()[1] for line in _lines(place.acknowledged(number))}
    everything: set[str] = set()
    for number in range(PROCESSES):
        ids = _lines(place.received(number))
        delivered += len(ids)
        twice += len(ids) - len(set(ids))
        everything |= set(ids)
        last: dict[str, str] = {}
        for one in ids:
            sender = one.partition(".")[0]
            disordered += last.get(sender, "") >= one
            last[sender] = one
        mine = {one for one, to in acknowledged.items() if to == str(number)}
        lost += len(mine - set(ids))
        aside += len(_lines(place.box(number).with_suffix(".bad.jsonl")))
    events = Counter(line for number in range(PROCESSES) for line in _lines(place.events(number)))
    return {
        "acknowledged": len(acknowledged),
        "delivered": delivered,
        "delivered_unacknowledged": len(everything - acknowledged.keys()),
        "lost": lost,
        "twice": twice,
        "out_of_order": disordered,
        "set_aside": aside,
        "killed_in_mid_write": events["torn"],
        "killed_before_settling": events["unsettled"],
        "refused_by_a_full_disk": events["refused"],
    }


def _add(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode() + b"\n")
    finally:
        os.close(descriptor)


def _cut(path: Path) -> None:
    """Without the torn end that a kill may leave, as a session does with its log."""
    if path.exists():
        data = path.read_bytes()
        os.truncate(path, data.rfind(b"\n") + 1)


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return data[: data.rfind(b"\n") + 1].decode(errors="replace").split("\n")[:-1]


async def together(base: Path, agents: int, letters: int) -> JsonObject:
    """So many agents as tasks of one process, each writing to names and to everyone."""
    names = [f"a{number}" for number in range(agents)]
    boxes: dict[str, Inbox] = {name: Mailbox(box_path(base / "inboxes", name)) for name in names}
    sent: dict[str, list[str]] = {name: [] for name in names}
    got: dict[str, list[str]] = {name: [] for name in names}
    expected = letters // agents * agents
    done = asyncio.Event()

    async def write(name: str) -> None:
        post = Post(name, find=boxes.get, everyone=lambda: names)
        chance, left = random.Random(name), letters // agents
        while left > 0:
            to = "*" if left >= agents - 1 and chance.random() < 0.05 else chance.choice(names)
            if to != name:
                reached = await post.send(to, f"{len(sent[name]):06d}")
                sent[name] += reached.ids
                left -= len(reached.ids)

    async def read(name: str) -> None:
        box = boxes[name]
        with box.wakeup() as wakeup:
            while not done.is_set():
                seen = await asyncio.to_thread(box.waiting, got[name])
                got[name] += [one.id for one in seen.letters]
                await asyncio.to_thread(box.settle, seen.position)
                if sum(map(len, got.values())) >= expected:
                    done.set()
                elif not seen.has_more:
                    await wakeup.wait(0.2)

    began = time.monotonic()
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(write(name))
            group.create_task(read(name))
    everything = [one for ids in sent.values() for one in ids]
    found = [one for ids in got.values() for one in ids]
    return {
        "agents": agents,
        "acknowledged": len(everything),
        "lost": len(set(everything) - set(found)),
        "twice": len(found) - len(set(found)),
        "out_of_order": _disordered(sent, got),
        "seconds": round(time.monotonic() - began, 1),
    }


def _disordered(sent: dict[str, list[str]], got: dict[str, list[str]]) -> int:
    """How many letters came after a later one of the same sender."""
    order = {one: (name, number) for name, ids in sent.items() for number, one in enumerate(ids)}
    count = 0
    for ids in got.values():
        last: dict[str, int] = {}
        for name, number in (order[one] for one in ids):
            count += last.get(name, -1) >= number
            last[name] = number
    return count


def main(folder: str, letters: str = "10000", seed: str = "1") -> None:
    with tempfile.TemporaryDirectory(dir=folder) as base:
        print(json.dumps(chaos(Path(base), int(letters), int(seed))))


if __name__ == "__main__":
    main(*sys.argv[1:])
