"""Who goes ahead, who waits for whom, and what happens when the first comes to nothing."""

from __future__ import annotations

import asyncio

from nacre.session.forks import PrefixQueue


class Crowd:
    """Goes through a line and writes down who came in, in order."""

    def __init__(self, line: PrefixQueue) -> None:
        self.line = line
        self.inside: list[str] = []
        self.begin: dict[str, asyncio.Event] = {}
        self.leave: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def comes(self, name: str, beginning: bytes = b"same") -> None:
        self.begin[name], self.leave[name] = asyncio.Event(), asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._through(name, beginning))
        await settled()

    async def _through(self, name: str, beginning: bytes) -> None:
        async with self.line.turn(beginning) as began:
            self.inside.append(name)
            begins = asyncio.ensure_future(self.begin[name].wait())
            leaves = asyncio.ensure_future(self.leave[name].wait())
            try:
                await asyncio.wait({begins, leaves}, return_when=asyncio.FIRST_COMPLETED)
                if begins.done():
                    began.set()
                    await leaves
            finally:
                begins.cancel()
                leaves.cancel()

    async def end(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_others_come_in_once_the_first_is_being_answered() -> None:
    """A1: what the first wrote they read; nobody waits for its end."""
    crowd = Crowd(PrefixQueue())
    for name in "abc":
        await crowd.comes(name)
    assert crowd.inside == ["a"]
    crowd.begin["a"].set()
    await settled()
    assert crowd.inside == ["a", "b", "c"]
    await crowd.comes("d")
    assert crowd.inside[-1] == "d"
    await crowd.end()


async def test_another_beginning_waits_for_nobody() -> None:
    """A1: what is not shared is no reason to wait."""
    crowd = Crowd(PrefixQueue())
    await crowd.comes("a")
    await crowd.comes("x", b"other")
    assert crowd.inside == ["a", "x"]
    await crowd.end()


async def test_where_the_first_comes_to_nothing_one_of_the_others_goes_ahead() -> None:
    """A1, Q2: cancelled or failed, it wrote nothing that could be read."""
    crowd = Crowd(PrefixQueue())
    for name in "abc":
        await crowd.comes(name)
    crowd.tasks["a"].cancel()
    await settled()
    assert crowd.inside == ["a", "b"]
    crowd.leave["b"].set()
    await settled()
    assert crowd.inside == ["a", "b", "c"]
    await crowd.end()


async def test_nobody_waits_longer_than_the_line_says() -> None:
    """A1: a provider that does not answer holds up one, not all."""
    crowd = Crowd(PrefixQueue(seconds=0.01))
    for name in "abc":
        await crowd.comes(name)
    async with asyncio.timeout(30):
        while len(crowd.inside) < 3:
            await asyncio.sleep(0.005)
    await crowd.end()


async def test_one_that_is_cancelled_in_the_line_leaves_it_as_it_was() -> None:
    """Q2: whoever waits holds nothing."""
    crowd = Crowd(PrefixQueue())
    for name in "abc":
        await crowd.comes(name)
    crowd.tasks["b"].cancel()
    crowd.begin["a"].set()
    await settled()
    assert crowd.inside == ["a", "c"]
    await crowd.end()
