"""Time to the first token with and without the small model that chooses memories, against the simulator.

The simulated main model takes 0.5 s to its first token. The small one answers in time (0.2 s), late (0.8 s)
or is off. Of the two messages, one has a local pick that is nearly certain, so that nothing waits.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.machine import bar
from nacre.app.open_agent import open_agent
from nacre.devtools.sim import Script, SimClock, Simulator
from nacre.devtools.sim.replies import parse_script
from nacre.memory.memory import Memory, MemoryChange, MemoryDraft
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import TextDelta
from nacre.settings import Settings, load

MAIN_SECONDS = 0.5
SMALL_SECONDS = {"in_time": 0.2, "late": 0.8}
FACTS = (
    "The staging server is deployed every Tuesday by the blue pipeline.",
    "The person drinks green tea.",
    "Invoices are numbered by year and customer.",
)
MESSAGES = {
    "certain": "When is the staging server deployed by the blue pipeline?",
    "other": "What may I serve?",
}
WAIT_MS = 400
AT_MOST_MS = {"certain": 50.0, "other": WAIT_MS + 50.0}
"""What a message may take longer: next to nothing where nothing waits, and the limit of the wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    rounds: int = 15


FULL = Sizes()
TINY = Sizes(rounds=1)


def measure(sizes: Sizes = FULL) -> JsonObject:
    modes = ("off", *SMALL_SECONDS)
    asyncio.run(_first_tokens("off", 1))  # imports
    taken = {mode: asyncio.run(_first_tokens(mode, sizes.rounds)) for mode in modes}
    figures = {
        mode: {kind: round(median(times) * 1_000, 1) for kind, times in kinds.items()}
        for mode, kinds in taken.items()
    }
    return {
        "rounds": sizes.rounds,
        "main_seconds": MAIN_SECONDS,
        "small_seconds": dict(SMALL_SECONDS),
        "wait_ms": WAIT_MS,
        "first_token_ms": {mode: dict(kinds) for mode, kinds in figures.items()},
        "bars": [
            bar(
                f"time to the first token that a small model adds ({mode}, {kind} message), ms",
                round(figures[mode][kind] - figures["off"][kind], 1),
                at_most=most,
            )
            for mode in SMALL_SECONDS
            for kind, most in AT_MOST_MS.items()
        ],
    }


async def _first_tokens(mode: str, rounds: int) -> dict[str, list[float]]:
    """Seconds from a message to the first text, by kind of message; every round has a session of its own."""
    found: dict[str, list[float]] = {kind: [] for kind in MESSAGES}
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        settings = _settings(Path(folder), mode)
        memory = await Memory.open(settings.cwd, environ=settings.environ)
        for fact in FACTS:
            await memory.save(MemoryDraft(body=fact), MemoryChange(author="user", reason="by hand"))
        for _ in range(rounds):
            for kind, text in MESSAGES.items():
                found[kind].append(await _first_token(settings, mode, text))
    return found


async def _first_token(settings: Settings, mode: str, text: str) -> float:
    main: Sequence[Json] = [{"text": "Yes.", "delay": MAIN_SECONDS}]
    small: Sequence[Json] = [{"text": '{"selected_memories": []}', "delay": SMALL_SECONDS.get(mode, 0.0)}]
    script = Script(parse_script(main), parse_script(small))
    async with Simulator(script, clock=SimClock(real=True)) as sim:
        there = replace(settings, environ={**settings.environ, "ANTHROPIC_BASE_URL": sim.url})
        async with open_agent(there, ephemeral=True) as ready:
            await asyncio.sleep(0.1)  # the SDK is imported, and the memories are read
            begun = time.perf_counter()
            async for event in ready.agent.stream(text):
                if isinstance(event, TextDelta):
                    return time.perf_counter() - begun
    raise RuntimeError("there was no text")


def _settings(folder: Path, mode: str) -> Settings:
    environ = {
        "HOME": str(folder),
        "NACRE_HOME": str(folder / "home"),
        "PATH": "/usr/bin:/bin",
        "ANTHROPIC_API_KEY": "any",
        "NACRE_RECALL_SELECTOR": "0" if mode == "off" else "auto",
        "NACRE_RECALL_SELECTOR_WAIT_MS": str(WAIT_MS),
        "NACRE_NOTES": "0",
        "NACRE_EXTRACT": "0",
        "NACRE_DREAM": "0",
    }
    return load(folder, environ)
