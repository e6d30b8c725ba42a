"""One person in a storm: `python syncing.py BASE NAME PLACE ROUNDS SEED` saves, forgets, syncs at random."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from random import Random

from nacre.clock import SYSTEM_CLOCK
from nacre.errors import StoreError
from tests.memory.clones import Clone

FILES = ("deploys.md", "tea.md", "ops/alarms.md", "reviews.md")


async def storm(base: Path, name: str, place: str, *, rounds: int, seed: int) -> None:
    chance = Random(seed)
    one = await Clone.made(base, name, place, SYSTEM_CLOCK)
    for number in range(rounds):
        file = chance.choice(FILES)
        if chance.random() < 0.25:
            try:
                await one.forget(file)
            except StoreError as error:
                if "no memory matches" not in str(error) and "may mean several" not in str(error):
                    raise
        else:
            await one.save(file, f"Text {number} of {name} with seed {seed}.")
        if chance.random() < 0.7:
            await one.sync()


if __name__ == "__main__":
    where, who, shared, count, start = sys.argv[1:]
    asyncio.run(storm(Path(where), who, shared, rounds=int(count), seed=int(start)))
