"""The simulator's own knobs over HTTP: clock, script, log, reset."""

from __future__ import annotations

import httpx2
import pytest
from anthropic import AsyncAnthropic

from nacre.devtools.sim import SimClock, Simulator
from nacre.messages.blocks import Json, JsonObject

MODEL = "claude-opus-5-5"
LONG: list[JsonObject] = [{"role": "user", "content": "x" * 4000}]
MARK = {"type": "ephemeral"}


async def post(sim: Simulator, path: str, order: Json) -> httpx2.Response:
    async with httpx2.AsyncClient() as client:
        return await client.post(f"{sim.url}{path}", json=order)


async def test_the_clock_is_advanced_and_set_over_http(sim: Simulator) -> None:
    start = sim.clock.seconds()
    assert (await post(sim, "/sim/clock", {"advance": 61.5})).json()["now"] == start + 61.5
    assert (await post(sim, "/sim/clock", {"set": start + 100})).json()["now"] == start + 100
    assert (await post(sim, "/sim/clock", {"set": "2027-01-01T00:00:00+00:00"})).status_code == 200
    assert sim.clock.now().isoformat() == "2027-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    "order", [{"advance": -1}, {"set": 0}, {}, [], {"advance": "1"}, {"set": "soon"}, {"advance": 1e300}]
)
async def test_a_clock_order_that_cannot_be_followed_is_refused(sim: Simulator, order: Json) -> None:
    before = sim.clock.seconds()
    answer = await post(sim, "/sim/clock", order)
    assert (answer.status_code, sim.clock.seconds()) == (400, before)
    assert answer.json()["error"]["message"]


async def test_replies_are_loaded_over_http(sim: Simulator, claude: AsyncAnthropic) -> None:
    assert (await post(sim, "/sim/script", ["One.", {"text": "Two."}])).json()["replies_left"] == 2
    said = []
    for _ in range(3):
        reply = await claude.messages.create(model=MODEL, max_tokens=99, messages=LONG)
        said.append(reply.content[0].text)
    assert said == ["One.", "Two.", "The script is exhausted."]


async def test_a_wrong_script_loads_nothing(sim: Simulator) -> None:
    answer = await post(sim, "/sim/script", ["Fine.", {"txt": "oops"}])
    assert answer.status_code == 400
    assert "script item 2: unknown field 'txt'" in answer.json()["error"]["message"]
    assert (await post(sim, "/sim/script", [])).json()["replies_left"] == 0


async def test_the_log_tells_what_was_read_written_and_paid(sim: Simulator, claude: AsyncAnthropic) -> None:
    for _ in range(2):
        await claude.messages.create(model=MODEL, max_tokens=99, messages=LONG, cache_control=MARK)
    async with httpx2.AsyncClient() as client:
        short = (await client.get(f"{sim.url}/sim/log")).json()
        full = (await client.get(f"{sim.url}/sim/log?bodies=1")).json()
    first, second = short["requests"]
    assert (first["usage"]["cache_write"], second["usage"]["cache_read"]) == (1000, 1000)
    assert second["trace"]["hit_path"] == "messages[0].content[0]"
    assert 0 < second["cost_usd"] < first["cost_usd"]
    assert short["total"]["cost_usd"] == pytest.approx(first["cost_usd"] + second["cost_usd"])
    assert short["total"]["hit_rate"] == 0.5
    assert (first["model"], "body" in first) == (MODEL, False)
    assert full["requests"][0]["body"]["messages"] == LONG


async def test_reset_forgets_cache_script_and_log_but_not_the_time(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    await claude.messages.create(model=MODEL, max_tokens=99, messages=LONG, cache_control=MARK)
    sim.extend(["Never said."])
    sim.clock.advance(5)
    now = sim.clock.seconds()
    assert (await post(sim, "/sim/reset", None)).json() == {"now": now, "replies_left": 0}
    reply = await claude.messages.create(model=MODEL, max_tokens=99, messages=LONG, cache_control=MARK)
    assert (reply.usage.cache_read_input_tokens, len(sim.log)) == (0, 1)
    assert reply.content[0].text == "The script is exhausted."


async def test_two_runs_of_one_story_give_one_log() -> None:
    logs = []
    for _ in range(2):
        async with (
            Simulator([{"text": "a", "delay": 2, "duration": 3}, {"tool_calls": [{"name": "read"}]}]) as sim,
            AsyncAnthropic(api_key="any", base_url=sim.url, max_retries=0) as client,
        ):
            for _ in range(2):
                await client.messages.create(model=MODEL, max_tokens=99, messages=LONG, cache_control=MARK)
            logs.append(sim.log)
    assert logs[0] == logs[1]
    assert logs[0][1].at - logs[0][0].at == 5


def test_a_standing_clock_only_moves_when_told() -> None:
    clock = SimClock()
    moments = [clock.seconds(), clock.seconds()]
    clock.advance(0.5)
    assert [moment - moments[0] for moment in (*moments, clock.seconds())] == [0, 0, 0.5]
    assert (clock.new_id(), clock.new_id(), clock.chance()) == ("00000001", "00000002", 0.5)
    with pytest.raises(ValueError, match="forward"):
        clock.set(0)
