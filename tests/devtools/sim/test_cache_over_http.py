"""The cache rules as a client meets them: growing conversations, lifetimes, overlap, isolation (P6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from anthropic import AsyncAnthropic, BadRequestError
from openai import AsyncOpenAI

from nacre.devtools.cache_models.anthropic_state import AnthropicSwitches
from nacre.devtools.sim import SimClock, SimSettings, Simulator
from nacre.messages.blocks import JsonObject
from nacre.messages.usage import Usage

MODEL = "claude-opus-5-5"
MARK = {"type": "ephemeral"}
LONG = "x" * 4000
"""A thousand tokens by the estimate: above the smallest prefix that is cached."""


async def ask(client: AsyncAnthropic, messages: list[JsonObject], **more: object) -> object:
    return await client.messages.create(
        model=MODEL, max_tokens=99, messages=messages, cache_control=MARK, **more
    )


def counters(reply: object) -> tuple[int, int, int]:
    usage = reply.usage  # type: ignore[attr-defined]
    return usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.input_tokens


async def test_each_request_of_a_growing_conversation_reads_what_the_one_before_wrote(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    sim.extend(["word" * 50] * 4)
    messages: list[JsonObject] = [{"role": "user", "content": LONG}]
    seen = []
    for _ in range(4):
        reply = await ask(claude, messages)
        seen.append(counters(reply))
        messages += [
            {
                "role": "assistant",
                "content": [block.model_dump(exclude_none=True) for block in reply.content],
            },
            {"role": "user", "content": "y" * 400},
        ]
    assert seen == [(0, 1000, 0), (1000, 150, 0), (1150, 150, 0), (1300, 150, 0)]
    assert [line.usage for line in sim.log] == [
        Usage(cache_read=read, cache_write=write, input=rest, output=50) for read, write, rest in seen
    ]
    assert all(line.trace.diverged == "" for line in sim.log)


async def test_an_entry_lives_five_minutes_from_its_last_use(sim: Simulator, claude: AsyncAnthropic) -> None:
    messages: list[JsonObject] = [{"role": "user", "content": LONG}]
    assert counters(await ask(claude, messages)) == (0, 1000, 0)
    sim.clock.advance(299)
    assert counters(await ask(claude, messages)) == (1000, 0, 0)
    sim.clock.advance(299)
    assert counters(await ask(claude, messages)) == (1000, 0, 0)
    sim.clock.advance(301)
    assert counters(await ask(claude, messages)) == (0, 1000, 0)


async def test_the_lifetime_runs_from_the_start_of_a_long_reply(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    """Provider facts 0.5: a four-minute stream leaves one minute."""
    messages: list[JsonObject] = [{"role": "user", "content": LONG}]
    sim.extend([{"text": "slow", "duration": 240}] * 2)
    await ask(claude, messages)
    sim.clock.advance(50)
    assert counters(await ask(claude, messages)) == (1000, 0, 0)
    sim.clock.advance(70)
    assert counters(await ask(claude, messages)) == (0, 1000, 0)


async def test_a_changed_byte_loses_everything_from_there_and_the_log_says_where(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    first: list[JsonObject] = [{"role": "user", "content": LONG}]
    await ask(claude, first, system="You are calm.")
    reply = await ask(claude, first, system="You are calm!")
    assert reply.usage.cache_read_input_tokens == 0
    assert sim.log[-1].trace.diverged == "system[0]"
    assert sim.log[-1].trace.avoidable > 0


async def test_key_order_inside_a_tool_call_is_part_of_the_prefix(claude: AsyncAnthropic) -> None:
    def conversation(arguments: JsonObject) -> list[JsonObject]:
        call = {"type": "tool_use", "id": "t1", "name": "read", "input": arguments}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": LONG}
        return [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]

    assert counters(await ask(claude, conversation({"a": 1, "b": 2})))[0] == 0
    assert counters(await ask(claude, conversation({"a": 1, "b": 2})))[0] > 1000
    assert counters(await ask(claude, conversation({"b": 2, "a": 1})))[0] == 0


async def test_models_and_workspaces_do_not_share(sim: Simulator, claude: AsyncAnthropic) -> None:
    messages: list[JsonObject] = [{"role": "user", "content": LONG}]
    await ask(claude, messages)
    elsewhere = await ask(claude, messages, extra_headers={"x-sim-workspace": "other"})
    other_model = await claude.messages.create(
        model="claude-sonnet-5-5", max_tokens=9, messages=messages, cache_control=MARK
    )
    assert (counters(elsewhere)[0], counters(other_model)[0]) == (0, 0)
    assert counters(await ask(claude, messages)) == (1000, 0, 0)


@pytest.fixture
async def held() -> AsyncIterator[Simulator]:
    async with Simulator([{"text": "later", "delay": 10}] * 3, clock=SimClock(manual=True)) as running:
        yield running


async def test_requests_that_overlap_all_miss_and_those_after_the_first_token_hit(held: Simulator) -> None:
    """Provider facts 1.1, visibility."""
    messages: list[JsonObject] = [{"role": "user", "content": LONG}]
    async with AsyncAnthropic(api_key="any", base_url=held.url, max_retries=0) as client:
        async with asyncio.TaskGroup() as group:
            overlapping = [group.create_task(ask(client, messages)) for _ in range(2)]
            await held.arrivals(2)
            held.clock.advance(10)
        assert [counters(task.result()) for task in overlapping] == [(0, 1000, 0), (0, 1000, 0)]
        held.extend(["now"])
        async with asyncio.TaskGroup() as group:
            after = group.create_task(ask(client, messages))
            await held.arrivals(3)
            held.clock.advance(10)
        assert counters(after.result()) == (1000, 0, 0)


async def test_a_refused_or_overloaded_request_leaves_nothing_behind(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    messages: list[JsonObject] = [{"role": "user", "content": LONG}]
    for fault in ("overloaded", "rate_limit"):
        with pytest.raises(Exception, match=r"Overloaded|rate limit"):
            await ask(claude, messages, extra_headers={"x-sim-fault": fault})
    assert counters(await ask(claude, messages)) == (0, 1000, 0)
    assert [line.status for line in sim.log] == [529, 429, 200]
    assert [line.usage for line in sim.log[:2]] == [Usage(), Usage()]


async def test_a_stream_that_breaks_leaves_its_entry_unless_the_switch_says_otherwise() -> None:
    """Switch `broken_after_writes`."""
    messages: list[JsonObject] = [{"role": "user", "content": LONG}]
    reads = []
    for writes in (True, False):
        async with (
            Simulator(switches=AnthropicSwitches(broken_after_writes=writes)) as sim,
            AsyncAnthropic(api_key="any", base_url=sim.url, max_retries=0) as client,
        ):
            with pytest.raises(Exception, match=r"peer closed connection|incomplete"):
                async with client.messages.stream(
                    model=MODEL,
                    max_tokens=99,
                    messages=messages,
                    cache_control=MARK,
                    extra_headers={"x-sim-fault": "disconnect"},
                ) as stream:
                    await stream.get_final_message()
            reads.append(counters(await ask(client, messages))[0])
    assert reads == [1000, 0]


async def test_context_editing_reports_what_it_cleared(claude: AsyncAnthropic) -> None:
    """Provider facts 1.2."""
    messages: list[JsonObject] = [{"role": "user", "content": "Go."}]
    for number in range(6):
        call = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": LONG}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 4}}
    asked = {
        "model": MODEL,
        "max_tokens": 99,
        "messages": messages,
        "betas": ["context-management-2025-06-27"],
        "context_management": {"edits": [edit]},
    }
    whole = await claude.beta.messages.create(**asked)
    async with claude.beta.messages.stream(**asked) as stream:
        streamed = await stream.get_final_message()
    for reply in (whole, streamed):
        applied = reply.context_management.applied_edits[0]
        assert (applied.cleared_tool_uses, applied.cleared_input_tokens > 2900) == (3, True)
    counted = await claude.beta.messages.count_tokens(
        **{name: value for name, value in asked.items() if name != "max_tokens"}
    )
    assert counted.context_management.original_input_tokens > counted.input_tokens == whole.usage.input_tokens


async def test_diagnostics_name_the_first_divergence(claude: AsyncAnthropic) -> None:
    messages: list[JsonObject] = [{"role": "user", "content": LONG}]
    first = await ask(claude, messages, system="One.", diagnostics={"previous_message_id": None})
    second = await ask(claude, messages, system="Two.", diagnostics={"previous_message_id": first.id})
    third = await ask(claude, messages, system="Two.", diagnostics={"previous_message_id": second.id})
    assert first.diagnostics is None
    assert second.diagnostics.cache_miss_reason.type == "system_changed"
    assert third.diagnostics is None


async def test_openai_s_automatic_prefix_is_read_without_any_marker(gpt: AsyncOpenAI) -> None:
    """Provider facts 1.11, older models: rounded down, inclusive counters."""
    system = {"role": "system", "content": "x" * 20_000}
    usages = []
    for question in ("One?", "Two?"):
        reply = await gpt.chat.completions.create(
            model="gpt-5.5", messages=[system, {"role": "user", "content": question}]
        )
        usages.append(reply.usage)
    assert usages[0].prompt_tokens_details.cached_tokens == 0
    assert usages[1].prompt_tokens_details.cached_tokens >= 4096
    assert usages[1].prompt_tokens == usages[0].prompt_tokens


async def test_tokens_can_be_counted_by_a_function_of_the_caller() -> None:
    async with (
        Simulator(["Hi."], tokens=lambda block: 700) as sim,
        AsyncAnthropic(api_key="any", base_url=sim.url) as client,
    ):
        assert counters(await ask(client, [{"role": "user", "content": "a"}])) == (0, 700, 0)


async def test_a_real_clock_follows_the_wall_and_can_still_be_advanced() -> None:
    clock = SimClock(real=True)
    async with (
        Simulator(clock=clock, settings=SimSettings()) as sim,
        AsyncAnthropic(api_key="any", base_url=sim.url) as client,
    ):
        before = clock.seconds()
        assert counters(await ask(client, [{"role": "user", "content": LONG}])) == (0, 1000, 0)
        assert counters(await ask(client, [{"role": "user", "content": LONG}])) == (1000, 0, 0)
        assert clock.seconds() > before
        clock.advance(400)
        assert counters(await ask(client, [{"role": "user", "content": LONG}])) == (0, 1000, 0)


async def test_thinking_is_bound_to_the_words_before_it(sim: Simulator, claude: AsyncAnthropic) -> None:
    """Provider facts 1.6: replayed thinking is refused once an earlier byte has changed."""
    sim.extend([{"thinking": "Let me see.", "text": "Yes."}, "Again.", "Dropped."])
    first: list[JsonObject] = [{"role": "user", "content": LONG}]
    reply = await ask(claude, first)
    said = {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in reply.content]}
    more = {"role": "user", "content": "And?"}
    assert (await ask(claude, [*first, said, more])).content[0].text == "Again."
    edited = [{"role": "user", "content": "y" + LONG[1:]}, said, more]
    with pytest.raises(BadRequestError, match="thinking"):
        await ask(claude, edited)
    behaviour = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    dropped = await ask(claude, edited, extra_body={"thinking": behaviour})
    assert (dropped.content[0].text, len(dropped.input_transformations)) == ("Dropped.", 1)


async def test_thinking_is_bound_from_the_moment_it_is_written(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    """Provider facts 1.6: the very first replay is held to the request that was answered."""
    sim.extend([{"thinking": "Let me see.", "text": "Yes."}])
    reply = await ask(claude, [{"role": "user", "content": "One?"}])
    said = {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in reply.content]}
    with pytest.raises(BadRequestError, match="thinking"):
        await ask(claude, [{"role": "user", "content": "Two?"}, said, {"role": "user", "content": "And?"}])


async def test_a_compaction_that_comes_due_opens_the_reply(sim: Simulator, claude: AsyncAnthropic) -> None:
    """Provider facts 1.3."""
    sim.extend(["After the summary."])
    reply = await claude.beta.messages.create(
        model=MODEL,
        max_tokens=99,
        messages=[{"role": "user", "content": "x" * 240_000}],
        betas=["compact-2026-01-12"],
        context_management={
            "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}]
        },
    )
    assert [block.type for block in reply.content] == ["compaction", "text"]
    assert [step.type for step in reply.usage.iterations] == ["compaction", "message"]
    assert reply.usage.input_tokens < 1000 < reply.usage.iterations[0].input_tokens
