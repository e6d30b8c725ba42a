"""Sessions in which everything goes wrong that can: summaries empty, refused, too long, hanging, cancelled.

Each is played through the real thing, log on disk, with faults drawn from a seed; some processes kill
themselves while a record is being written, a compaction's boundary among them. Afterwards every session must
go on: the view is valid, the person's last words are in it, and what is resumed from disk is what was there.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from bench.machine import bar
from nacre.app.open_agent import NEW, open_agent
from nacre.errors import ContextOverflow, Overloaded, PromptTooLong, ProviderError
from nacre.layers.l4_compact.summarise import TITLES
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.providers.scripted import Item
from nacre.settings import Settings, load
from nacre.store import disk
from nacre.testing import ScriptedProvider, call, say, together

WINDOW = 30_000
"""So that a few turns fill it."""
SUMMARY = (
    "<summary>\n" + "\n".join(f"## {title}\nThe parser, step by step." for title in TITLES) + "\n</summary>"
)
FILES = 12
BOUNDARY = b'"compact_boundary"'


@dataclass(frozen=True, slots=True)
class Sizes:
    sessions: int = 1_000
    killed: int = 100
    turns: int = 14


FULL = Sizes()
TINY = Sizes(sessions=6, killed=2, turns=8)


@dataclass(slots=True)
class Faults:
    """Answers like a provider on a bad day; the same seed has the same day."""

    seed: int
    met: Counter[str] = field(default_factory=Counter)
    chance: random.Random = field(init=False)
    asked: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def answer(self, request: Request) -> Item:
        last = str(request.messages[-1])
        if "<summary>" in last:
            return self._pick(SUMMARIES)
        if (
            "session-memory" in last
            and "What to do with the notes" not in last
            and request.max_tokens > 8_192
        ):
            return self._pick(NOTES)
        self.asked += 1
        if self.chance.random() < 0.04:
            return self._pick(REFUSALS)
        if self.chance.random() < 0.5:
            return call("Read", file_path=f"part_{self.chance.randrange(FILES)}.py")
        return say("Done with that. " * self.chance.randrange(1, 300))

    def _pick(self, kinds: dict[str, Callable[[], Item]]) -> Item:
        name = self.chance.choice(sorted(kinds))
        self.met[name] += 1
        return kinds[name]()


SUMMARIES: dict[str, Callable[[], Item]] = {
    "summary: fine": lambda: say(SUMMARY),
    "summary: empty": lambda: say(" "),
    "summary: refused": lambda: say("I'm sorry, I cannot help with that."),
    "summary: a call": lambda: call("Read", file_path="part_0.py"),
    "summary: too long": lambda: PromptTooLong("prompt is too long", tokens=40_000, limit=30_000),
    "summary: too long, nobody says by how much": lambda: PromptTooLong("prompt is too long"),
    "summary: overloaded": lambda: Overloaded("overloaded"),
    "summary: hangs": lambda: together("<summary>", gate=anyio.Event()),
    "summary: breaks off": lambda: together("<summary>", fails=ProviderError("connection lost")),
    "summary: cut off": lambda: together(SUMMARY[:80], stop_reason="max_tokens"),
}
NOTES: dict[str, Callable[[], Item]] = {
    "notes: nothing": lambda: say("Nothing to note."),
    "notes: fail": lambda: Overloaded("overloaded"),
}
REFUSALS: dict[str, Callable[[], Item]] = {
    "reply: too long": lambda: PromptTooLong("prompt is too long"),
    "reply: fails": lambda: Overloaded("overloaded"),
    "reply: breaks off": lambda: together("Well", fails=ProviderError("connection lost")),
}


async def play(settings: Settings, seed: int, turns: int, *, session: str = NEW) -> tuple[str, Counter[str]]:
    """Some turns of one session; raises `AssertionError` where it could not go on as it should."""
    faults = Faults(seed)
    provider = ScriptedProvider(otherwise=faults.answer)
    async with open_agent(settings, provider=provider, session=session) as ready:
        talk = ready.agent.session
        for n in range(turns):
            words = (
                f"turn {seed}-{n}: keep out of generated/{n}. "
                + "Some words. " * faults.chance.randrange(200)
            )
            cancel_after = faults.chance.randrange(40) if faults.chance.random() < 0.15 else None
            faults.met["turn: cancelled"] += cancel_after is not None
            with suppress(ProviderError, ContextOverflow, asyncio.CancelledError):
                await asyncio.wait_for(asyncio.create_task(_turn(ready.agent, words, cancel_after)), 30)
            check(talk.view, words)
        faults.met["compactions"] += talk.view.epochs.count("compact")
        view, session_id = talk.view, talk.id
    async with open_agent(settings, provider=provider, session=session_id) as again:
        assert again.agent.session.view.messages == view.messages, "what is resumed differs"
    return session_id, faults.met


async def _turn(agent: object, words: str, cancel_after: int | None) -> None:
    seen = 0
    async with aclosing(agent.stream(words)) as events:  # type: ignore[attr-defined]
        async for _ in events:
            seen += 1
            if cancel_after is not None and seen > cancel_after:
                raise asyncio.CancelledError


def check(view: View, words: str) -> None:
    """What must hold of a session whatever has happened to it."""
    assert View.of(view.records) == view, "the log folds to another view"
    assert words.strip() in str(view.messages).replace("\\n", "\n"), "the last words are gone"
    roles = [message["role"] for message in view.messages]
    assert roles[0] == "user", "the user comes first"
    assert all(a != b for a, b in itertools.pairwise(roles)), "roles alternate"


def killed(settings: Settings, seed: int, turns: int) -> str:
    """Play in a process that kills itself while a line is written, then go on from what is left."""
    command = [sys.executable, "-m", "bench.compaction.faults", str(settings.home), str(settings.cwd)]
    done = subprocess.run([*command, str(seed), str(turns)], capture_output=True, text=True, check=False)
    lines = done.stdout.split()
    assert lines, done.stderr[-2_000:]
    asyncio.run(play(settings, seed + 1, 3, session=lines[0]))
    return "killed" if done.returncode == -signal.SIGKILL else "lived"


async def _play_and_die(settings: Settings, seed: int, turns: int) -> None:
    chance = random.Random(seed)
    # Two of three die with a boundary, some with the second one.
    token, left = (b"\n", chance.randrange(4, 60)) if seed % 3 == 0 else (BOUNDARY, 1 + (seed % 4 == 3))
    whole = disk.append_whole

    def append(descriptor: int, data: bytes, *, sync: bool = False) -> int:
        nonlocal left
        left -= token in data
        if left <= 0 and token in data:
            os.write(descriptor, data[: chance.randrange(len(data))])
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(descriptor, data, sync=sync)

    disk.append_whole = append
    faults = Faults(seed)
    async with open_agent(settings, provider=ScriptedProvider(otherwise=faults.answer)) as ready:
        print(ready.agent.session.id, flush=True)
        for n in range(turns):
            with suppress(ProviderError, ContextOverflow):
                await _turn(ready.agent, f"turn {n}: " + "Some words. " * chance.randrange(300), None)


def settings_in(home: Path, cwd: Path, seed: int) -> Settings:
    environ = {
        "NACRE_HOME": str(home),
        "HOME": str(home),
        "NACRE_MODEL": "claude-opus-4-5" if seed % 3 else "claude-opus-5-5",
        "NACRE_MAX_CONTEXT_TOKENS": str(WINDOW),
        "NACRE_SWITCHES_COMPACT_PREPARE": "true" if seed % 2 else "false",
        "NACRE_SWITCHES_NOTES": "true" if seed % 5 else "false",
        "PATH": os.environ["PATH"],
    }
    found = load(cwd, environ)
    return replace(found, compaction=replace(found.compaction, summary_seconds=0.3, wait_seconds=0.1))


def measure(sizes: Sizes) -> JsonObject:
    met, failed, deaths = Counter[str](), list[Json](), Counter[str]()
    for seed in range(sizes.sessions):
        with tempfile.TemporaryDirectory() as folder:
            home, cwd = Path(folder) / "home", Path(folder) / "project"
            cwd.mkdir()
            for n in range(FILES):
                (cwd / f"part_{n}.py").write_text(f"name_{n} = {n}\n" * 300, encoding="utf-8")
            settings = settings_in(home, cwd, seed)
            try:
                if seed < sizes.killed:
                    deaths[killed(settings, seed, sizes.turns)] += 1
                else:
                    met += asyncio.run(play(settings, seed, sizes.turns))[1]
            except Exception as error:  # noqa: BLE001  counted, not hidden: any of them misses the bar
                failed.append({"seed": seed, "error": f"{type(error).__name__}: {error}"[:300]})
    what = f"sessions of {sizes.sessions:,} that could not go on, or were resumed with other bytes"
    return {
        "sessions": sizes.sessions,
        "met": dict(sorted(met.items())),
        "processes": dict(deaths),
        "failed": failed,
        "bars": [bar(what, len(failed), at_most=0)],
    }


if __name__ == "__main__":
    _home, _cwd, _seed, _turns = sys.argv[1:]
    asyncio.run(_play_and_die(settings_in(Path(_home), Path(_cwd), int(_seed)), int(_seed), int(_turns)))
