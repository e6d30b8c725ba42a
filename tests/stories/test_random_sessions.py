"""Random sessions with every class of model, changes and faults, over HTTP: every one can go on.

Fifty in `make test-all`, a thousand in `make soak`; the seeds are fixed.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from nacre.app.open_agent import NEW, OpenedAgent
from nacre.devtools.sim.faults import Fault, FaultKind
from nacre.errors import ContextOverflow, NothingToCompact, ProviderError
from nacre.layers.l4_compact.layer import undo_compaction
from nacre.messages.blocks import JsonObject
from nacre.messages.events import ToolResultEvent, TurnDone
from nacre.session.compaction import CompactionRequest
from tests.scale import scaled
from tests.stories.scenes import say
from tests.stories.session_world import MODELS, SessionWorld, span

T = TypeVar("T")
GROUPS = 50
SESSIONS = 1
"""In each group, at the scale of `make test-all`."""
OPENINGS = 4
"""How often a session is opened again."""
STEPS = 4
"""Steps between two openings."""
FAULTS: tuple[FaultKind, ...] = (
    "rate_limit",
    "overloaded",
    "server_error",
    "disconnect",
    "malformed",
    "truncate_json",
    "prompt_too_long",
    "too_large",
)
ESTIMATED = 0.05
"""The share of the bill by which the cost of a session with broken replies may differ; others are exact."""
EXACT = 1e-9
SHORT_WINDOW = "45000"
SILENCE_SECONDS = 0.1
"""How long a reply that hangs is read before it is cancelled."""


@dataclass
class RandomSession:
    """One session whose steps follow from a seed."""

    world: SessionWorld
    seed: int
    steps: list[str] = field(default_factory=list)
    """What happened, for the message of a failure."""

    async def play(self) -> tuple[float, float]:
        """Open the session several times, change it, and let it end with three more turns.

        Returns what the session counted as its cost, and the simulator's bill.
        """
        session = NEW
        kind = self._pick(list(MODELS))
        for _ in range(OPENINGS):
            kind = self._pick([kind, kind, *MODELS])
            environ, settings = self._base()
            self.steps.append(f"open {kind} {environ} {settings}")
            async with self.world.opened(kind, session, settings=settings, **environ) as ready:
                for _ in range(STEPS):
                    await self._step(ready)
                # Before the first message there is no log to be resumed.
                session = ready.agent.session.id if len(ready.agent.session.view.records) else NEW
        self.world.planned.clear()
        async with self.world.opened(self._pick([kind, *MODELS]), session) as ready:
            session = ready.agent.session.id
            for text in ("go on", "and on", "and on again"):
                self.steps.append("last turn")
                events = await say(ready.agent, text)
                done = [one for one in events if isinstance(one, TurnDone)]
                assert [one.outcome for one in done] == ["answered"]
            meter = ready.agent.session.meter
        bill = sum(one.cost_usd or 0.0 for one in self.world.sim.log)
        # The output of replies that broke off is estimated, and where the provider reports it last the input.
        assert meter.cost_usd == pytest.approx(bill, rel=ESTIMATED if meter.usage.approximate else EXACT)
        assert self.world.logged_cost(session).cost_usd == pytest.approx(meter.cost_usd)
        return meter.cost_usd, bill

    def _pick(self, values: list[T]) -> T:
        return self.world.random.choice(values)

    def _base(self) -> tuple[dict[str, str], JsonObject]:
        """Return variables and settings that change tools, system prompt or window, or leave them."""
        chance = self.world.random.random
        if chance() < 0.2:
            self.world.add_skill()
        if chance() < 0.2:
            self.world.set_mcp(self._pick(["plain", None]))
        environ = {
            name: value
            for name, value in {
                "NACRE_AGENTS": "0",
                "NACRE_WEB_FETCH": "1",
                "NACRE_DISABLE_AUTO_MEMORY": "1",
                "NACRE_MAX_CONTEXT_TOKENS": SHORT_WINDOW,
            }.items()
            if chance() < 0.15
        }
        return environ, {"microcompact.keep": self._pick([1, 3, 20])}

    async def _step(self, ready: OpenedAgent) -> None:
        steps: list[Callable[[OpenedAgent], Awaitable[None]]] = [
            *[self._turn] * 6,
            *[self._turn_with_fault] * 3,
            self._interrupt,
            self._compact,
            self._compact_from,
            self._compact_up_to,
            self._undo,
            self._rewind,
            self._pause,
        ]
        step = self._pick(steps)
        self.steps.append(step.__name__)
        await step(ready)

    async def _turn(self, ready: OpenedAgent) -> None:
        texts = ["what next", "look again", "The log says: " + "line of a log. " * 2_000]
        await say(ready.agent, self._pick(texts))

    async def _turn_with_fault(self, ready: OpenedAgent) -> None:
        count = self._pick([1, 1, 1, 2, 5])
        kinds = [self._pick(list(FAULTS)) for _ in range(count)]
        self.steps.append(str(kinds))
        self.world.planned += [Fault(kind=kind) for kind in kinds]
        # Too many faults in a row end the turn with an error; the person goes on with the next one.
        with suppress(ProviderError, ContextOverflow):
            await say(ready.agent, "with a fault")
        self.world.planned.clear()

    async def _interrupt(self, ready: OpenedAgent) -> None:
        """Cancel a turn while its reply is silent in the middle, or after a tool has answered."""
        stops_in_reply = self._pick([True, False])
        earlier = len(self.world.sim.log)
        if stops_in_reply:
            self.world.planned.append(Fault(kind="hang", after=self._pick([4, 20, 60])))

        async def turn() -> None:
            async for event in ready.agent.stream("stop in the middle"):
                if isinstance(event, ToolResultEvent):
                    task.cancel()

        def is_hanging() -> bool:
            return any(one.fault == "hang" for one in self.world.sim.log[earlier:])

        task = asyncio.create_task(turn())
        while not task.done() and not is_hanging():
            await asyncio.sleep(0.005)
        await asyncio.sleep(SILENCE_SECONDS if stops_in_reply else 0.0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        self.world.planned.clear()

    async def _compact(self, ready: OpenedAgent) -> None:
        await self._compacted(ready, CompactionRequest(by_rule=self._pick([True, False])))

    async def _compact_from(self, ready: OpenedAgent) -> None:
        with suppress(IndexError):  # there is no prompt yet
            await self._compacted(
                ready, CompactionRequest(span=span(ready, first=self._pick([0.3, 0.6, 0.9])))
            )

    async def _compact_up_to(self, ready: OpenedAgent) -> None:
        with suppress(IndexError):
            await self._compacted(
                ready, CompactionRequest(span=span(ready, keeps=self._pick([0.3, 0.6, 0.9])))
            )

    async def _compacted(self, ready: OpenedAgent, request: CompactionRequest) -> None:
        with suppress(NothingToCompact):
            await ready.compact.compact(request)

    async def _undo(self, ready: OpenedAgent) -> None:
        await undo_compaction(ready.agent.session)

    async def _rewind(self, ready: OpenedAgent) -> None:
        points = ready.rewind.points()
        if points:
            await ready.rewind.forget(self._pick(points[-3:]))

    async def _pause(self, ready: OpenedAgent) -> None:
        self.world.sim.clock.advance(self._pick([30, 400, 4_000]))


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("group", range(GROUPS))
async def test_every_random_session_can_go_on(
    group: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    count = scaled(SESSIONS, at_least=1)
    costs = [await played(group * 1_000 + number, tmp_path) for number in range(count)]
    metered = sum(own for own, _ in costs)
    bill = sum(billed for _, billed in costs)
    off = [abs(own / billed - 1) for own, billed in costs if billed]
    record_property("sessions", count)
    record_property("metered_usd", round(metered, 4))
    record_property("billed_usd", round(bill, 4))
    record_property("exact", sum(share < EXACT for share in off))
    record_property("within_5_percent", sum(share <= ESTIMATED for share in off))
    record_property("largest_difference", round(max(off, default=0.0), 4))


async def test_a_few_random_sessions_can_go_on(tmp_path: Path) -> None:
    for seed in (1, 5_000):
        await played(seed, tmp_path)


async def played(seed: int, folder: Path) -> tuple[float, float]:
    world = SessionWorld(folder / str(seed), seed=seed)
    session = RandomSession(world, seed)
    async with world.sim:
        try:
            costs = await session.play()
        except BaseException as error:
            error.add_note(f"seed {seed}: {'; '.join(session.steps)}")
            raise
    shutil.rmtree(world.cwd)
    return costs
