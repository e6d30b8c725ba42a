"""The provider's own compaction through the official SDK, over HTTP (C23b)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nacre.app.compaction import compacts_there
from nacre.devtools.sim import Simulator
from nacre.errors import SummaryRejected
from nacre.layers.l4_compact.layer import Compact
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.layers.l4_compact.provider import BETA, CompactingThere
from nacre.layers.l4_compact.summarise import before_pivot
from nacre.messages.blocks import Json, Opaque, Text, ToolCall
from nacre.messages.records import Compacted, Noted, Record
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import complete
from nacre.session.meter import SIDE_QUERY, Meter
from nacre.session.session import Base, Session
from nacre.settings import load
from tests.layers.l4_compact.model_scenes import START, said

MODEL = "claude-sonnet-4-6"
MOVES = pytest.mark.moves_prefix(reason="the provider compacts")
LONG = "word " * 6_000


@dataclass
class Scene:
    sim: Simulator
    provider: AnthropicProvider
    session: Session
    noted: list[Noted] = field(default_factory=list)

    @property
    def there(self) -> CompactingThere:
        return CompactingThere(
            self.session, self.provider, settings=CompactSettings(), record=self.noted.append
        )

    async def turn(self, words: str) -> None:
        await self.session.add_user(words)
        await self.session.record(await complete(self.provider, await self.session.prepare()))


@asynccontextmanager
async def talking(*script: Json, is_on: bool = True, model: str = MODEL) -> AsyncIterator[Scene]:
    async with Simulator(list(script)) as sim:
        provider = AnthropicProvider(api_key="k", base_url=sim.url)
        session = Session(Base(model, "You are terse.", []), clock=sim.clock)
        home = os.environ["NACRE_HOME"]
        given = {"NACRE_HOME": home, "NACRE_COMPACT_PROVIDER": str(is_on).lower()}
        settings = load(Path(home), given, cli={"model": model})
        uses_provider = compacts_there(session, settings)
        session.layers.append(Compact(session, is_automatic=False, uses_provider=uses_provider))
        try:
            yield Scene(sim, provider, session)
        finally:
            await provider.close()


@MOVES
async def test_a_conversation_is_compacted_there_and_goes_on_behind_the_block() -> None:
    """C23b: accepted, read from the cache, billed; the block comes first, and the beta with it."""
    async with talking("one", "two", "in short: all was said", "three") as scene:
        session, sim = scene.session, scene.sim
        await scene.turn(LONG)
        await scene.turn("Do not forget the parser.")
        draft = await scene.there(session.view, focus="the parser")
        asked = sim.log[-1]
        assert asked.body["compaction"] == {"type": "summarize", "instructions": "the parser"}
        assert asked.usage.cache_read >= 0.9 * (sim.log[-2].usage.cache_read + sim.log[-2].usage.cache_write)
        assert draft.kind == "provider" and draft.text == ""
        assert draft.covers == session.view.items[-1].record_id
        assert isinstance(draft.block, Opaque)
        assert draft.block.wire["content"] == "in short: all was said"
        assert draft.block.wire["signature"]
        await session.transcript.append(
            Compacted(id="k", at=START, summary=(draft.block,), kind="provider"),
            said("w", "user", Text("The user's words: Do not forget the parser."), meta=True),
        )
        assert BETA in session.request(session.view).betas
        await scene.turn("And now?")
        messages = sim.log[-1].body["messages"]
        assert isinstance(messages, list) and len(messages) == 2
        assert messages[0] == {"role": "assistant", "content": [draft.block.wire]}
        assert not [one.refusal for one in sim.log if one.refusal]


async def test_what_it_costs_is_booked_and_lasts() -> None:
    async with talking("one", "in short") as scene:
        await scene.turn(LONG)
        before = scene.session.meter
        await scene.there(scene.session.view)
        after = scene.session.meter
        assert after.requests == before.requests + 1
        price = scene.sim.log[-1].cost_usd
        assert price and after.cost_usd - before.cost_usd == pytest.approx(price)
        (note,) = scene.noted
        assert (note.kind, note.fact("purpose")) == (SIDE_QUERY, "compact")
        records: list[Record] = [*scene.session.transcript.records, note]
        assert Meter.of(records).cost_usd == pytest.approx(after.cost_usd)


async def test_a_kept_tail_is_left_out_of_the_request() -> None:
    """Summarised messages behind the block would be read twice."""
    async with talking("one", "two", "in short") as scene:
        await scene.turn(LONG)
        await scene.turn("The newest.")
        view = scene.session.view
        draft = await scene.there(before_pivot(view, 2))
        assert "The newest." not in str(scene.sim.log[-1].body)
        assert draft.covers == view.items[1].record_id


@MOVES
async def test_thinking_that_the_provider_refuses_is_left_out_of_a_second_request() -> None:
    thought: Json = {"thinking": "Hm.", "text": "one"}
    async with talking(thought, "in short", model="claude-sonnet-5-5") as scene:
        await scene.turn(LONG)
        session = scene.session
        session.base = Base(
            session.base.model,
            [{"type": "text", "text": "You are brief."}],
            session.base.tools,
            opening=session.base.opening,
        )
        draft = await scene.there(session.view)
        assert draft.covers == session.view.items[-1].record_id
        assert [one.status for one in scene.sim.log] == [200, 400, 200]


async def test_nothing_is_asked_while_a_call_is_unanswered() -> None:
    async with talking() as scene:
        await scene.session.transcript.append(
            said("u", "user", Text("go")), said("a", "assistant", ToolCall("c", "Read", {}))
        )
        with pytest.raises(SummaryRejected, match="unanswered"):
            await scene.there(scene.session.view)
        assert not scene.sim.log


@MOVES
async def test_where_it_is_off_only_a_block_from_before_needs_the_beta() -> None:
    async with talking("one", "in short", is_on=False) as scene:
        await scene.turn("Hello.")
        session = scene.session
        assert session.request(session.view).betas == ()
        block = (await scene.there(session.view)).block
        assert block is not None
        await session.transcript.append(Compacted(id="k", at=START, summary=(block,), kind="provider"))
        assert session.request(session.view).betas == (BETA,)


@pytest.mark.parametrize(
    ("model", "variables", "expected"),
    [
        (MODEL, {}, False),
        (MODEL, {"NACRE_COMPACT_PROVIDER": "true"}, True),
        (MODEL, {"NACRE_COMPACT_PROVIDER": "true", "NACRE_FALLBACK_MODEL": "claude-haiku-4-5"}, False),
        ("claude-haiku-4-5", {"NACRE_COMPACT_PROVIDER": "true"}, False),
        ("gpt-6.1-terra", {"NACRE_COMPACT_PROVIDER": "true"}, False),
    ],
)
def test_it_is_used_where_switched_on_and_where_every_model_takes_it(
    model: str, variables: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    settings = load(tmp_path, {"NACRE_HOME": str(tmp_path), **variables}, cli={"model": model})
    assert compacts_there(Session(Base(model, "", [])), settings) is expected
