"""The Messages API as the official SDK sees it, over real HTTP (P6)."""

from __future__ import annotations

import json

import anthropic
import pytest
from anthropic import AsyncAnthropic

from nacre.devtools.sim import Simulator
from nacre.messages.blocks import JsonObject

MODEL = "claude-opus-5-5"
HELLO: list[JsonObject] = [{"role": "user", "content": "Hello."}]
READ: JsonObject = {"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}}
EVERYTHING: JsonObject = {
    "thinking": "The user greets me; I should read the file they care about, in any case.",
    "text": "Let me look at that file first.",
    "tool_calls": [
        {"id": "toolu_1", "name": "read", "input": {"path": "/srv/ü/long name.txt", "lines": [1, 20]}}
    ],
}
BLOCKS = [
    ("thinking", EVERYTHING["thinking"]),
    ("text", EVERYTHING["text"]),
    ("tool_use", {"path": "/srv/ü/long name.txt", "lines": [1, 20]}),
]


def blocks_of(message: object) -> list[tuple[str, object]]:
    wanted = {"thinking": "thinking", "text": "text", "tool_use": "input"}
    return [(block.type, getattr(block, wanted[block.type])) for block in message.content]  # type: ignore[attr-defined]


async def test_a_whole_reply_carries_every_kind_of_block(sim: Simulator, claude: AsyncAnthropic) -> None:
    sim.extend([EVERYTHING])
    reply = await claude.messages.create(model=MODEL, max_tokens=1000, messages=HELLO, tools=[READ])
    assert (blocks_of(reply), reply.stop_reason, reply.content[2].id) == (BLOCKS, "tool_use", "toolu_1")


async def test_a_streamed_reply_adds_up_to_the_whole_one(sim: Simulator, claude: AsyncAnthropic) -> None:
    sim.extend([EVERYTHING, EVERYTHING])
    whole = await claude.messages.create(model=MODEL, max_tokens=1000, messages=HELLO, tools=[READ])
    async with claude.messages.stream(model=MODEL, max_tokens=1000, messages=HELLO, tools=[READ]) as stream:
        kinds = [event.type async for event in stream]
        streamed = await stream.get_final_message()
    assert blocks_of(streamed) == BLOCKS
    assert streamed.content[0].signature
    assert streamed.stop_reason == "tool_use"
    assert streamed.usage == whole.usage
    assert kinds.count("input_json") > 2
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"


async def test_raw_events_come_in_the_provider_s_order(sim: Simulator, claude: AsyncAnthropic) -> None:
    sim.extend(["One short line."])
    stream = await claude.messages.create(model=MODEL, max_tokens=9, messages=HELLO, stream=True)
    assert [event.type async for event in stream] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


async def test_a_tool_call_without_an_id_is_given_a_fresh_one(sim: Simulator, claude: AsyncAnthropic) -> None:
    sim.extend([{"tool_calls": [{"name": "read"}, {"name": "read"}]}])
    reply = await claude.messages.create(model=MODEL, max_tokens=99, messages=HELLO, tools=[READ])
    assert len({block.id for block in reply.content}) == 2
    assert [block.input for block in reply.content] == [{}, {}]


async def test_an_empty_script_says_that_it_is_exhausted(claude: AsyncAnthropic) -> None:
    reply = await claude.messages.create(model=MODEL, max_tokens=99, messages=HELLO)
    assert reply.content[0].text == "The script is exhausted."


SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string"}}, "why": {"type": "string"}},
    "required": ["names"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("scripted", "expected"), [('{"names": ["a"]}', {"names": ["a"]}), ("Well, let me see.", {"names": []})]
)
async def test_structured_output_is_the_script_s_json_or_the_smallest_instance(
    sim: Simulator, claude: AsyncAnthropic, scripted: str, expected: JsonObject
) -> None:
    sim.extend([scripted])
    shape = {"format": {"type": "json_schema", "schema": SCHEMA}}
    reply = await claude.messages.create(model=MODEL, max_tokens=99, messages=HELLO, output_config=shape)
    assert json.loads(reply.content[0].text) == expected


async def test_counting_agrees_with_the_usage_and_leaves_no_trace(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    counted = await claude.messages.count_tokens(model=MODEL, messages=HELLO, system="Be brief.")
    assert sim.log == []
    reply = await claude.messages.create(model=MODEL, max_tokens=99, messages=HELLO, system="Be brief.")
    assert counted.input_tokens == reply.usage.input_tokens > 0


async def test_a_text_longer_than_max_tokens_is_cut_there(sim: Simulator, claude: AsyncAnthropic) -> None:
    sim.extend(["word " * 100])
    reply = await claude.messages.create(model=MODEL, max_tokens=10, messages=HELLO)
    assert (reply.stop_reason, reply.usage.output_tokens) == ("max_tokens", 10)
    assert len(reply.content[0].text) == 40


async def test_max_tokens_zero_warms_the_cache_and_keeps_the_script(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    """Provider facts 1.1, pre-warm."""
    sim.extend(["Still here."])
    long = [{"role": "user", "content": "x" * 4000}]
    marked = {"model": MODEL, "messages": long, "cache_control": {"type": "ephemeral"}}
    warm = await claude.messages.create(max_tokens=0, **marked)
    assert (warm.content, warm.stop_reason, warm.usage.cache_creation_input_tokens) == (
        [],
        "max_tokens",
        1000,
    )
    reply = await claude.messages.create(max_tokens=9, **marked)
    assert (reply.content[0].text, reply.usage.cache_read_input_tokens) == ("Still here.", 1000)


async def test_on_demand_compaction_answers_with_one_signed_block(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    """Provider facts 1.4."""
    sim.extend(["They said hello.", "They said hello."])
    asked = {
        "model": MODEL,
        "max_tokens": 500,
        "messages": HELLO,
        "compaction": {"type": "summarize"},
        "betas": ["compact-2026-09-04"],
    }
    whole = await claude.beta.messages.create(**asked)
    async with claude.beta.messages.stream(**asked) as stream:
        streamed = await stream.get_final_message()
    for reply in (whole, streamed):
        assert [(block.type, block.content) for block in reply.content] == [
            ("compaction", "They said hello.")
        ]
        assert reply.stop_reason == "compaction"
        assert reply.content[0].signature


async def test_models_lists_the_table(claude: AsyncAnthropic) -> None:
    models = await claude.models.list()
    assert MODEL in {model.id for model in models.data}
    assert all(model.id.startswith("claude-") for model in models.data)


CALL: JsonObject = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
RESULT: JsonObject = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "assistant", "content": "Hi."}]}, "first message must use"),
        ({"messages": [*HELLO, {"role": "robot", "content": "Hi."}]}, "messages.1.role"),
        ({"messages": [{"role": "user", "content": ""}]}, "non-empty content"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, "must be non-empty"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text.text"),
        ({"messages": [{"role": "user", "content": [RESULT]}]}, "unexpected `tool_use_id`"),
        (
            {"messages": [*HELLO, {"role": "assistant", "content": [CALL]}, *HELLO]},
            "`tool_use` ids were found without `tool_result` blocks immediately after: t1",
        ),
        (
            {"model": "claude-sonnet-5", "messages": [*HELLO, {"role": "system", "content": "Be kind."}]},
            "not supported",
        ),
        ({"tools": [READ, READ]}, "unique"),
        ({"tools": [{"name": "no spaces", "input_schema": {"type": "object"}}]}, "tools.0.name"),
        ({"tools": [{"name": "read"}]}, "tools.0.input_schema"),
        ({"system": [{"type": "image"}]}, "system.0"),
        ({"extra_body": {"temprature": 1}}, "temprature: Extra inputs"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 10_000_000, "timeout": 9}, "maximum allowed number of output tokens"),
    ],
)
async def test_what_the_provider_refuses_is_refused(
    sim: Simulator, claude: AsyncAnthropic, change: JsonObject, words: str
) -> None:
    sim.extend(["Not used up."])
    good: JsonObject = {"model": MODEL, "max_tokens": 99, "messages": HELLO}
    with pytest.raises(anthropic.BadRequestError) as caught:
        await claude.messages.create(**{**good, **change})
    assert words in caught.value.message
    assert caught.value.body["error"]["type"] == "invalid_request_error"
    assert sim.log[-1].refusal is not None and words in sim.log[-1].refusal.message
    assert (await claude.messages.create(**good)).content[0].text == "Not used up."


async def test_a_field_that_is_newer_than_the_simulator_is_taken(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    sim.extend(["Yes."])
    reply = await claude.messages.create(
        model=MODEL, max_tokens=9, messages=HELLO, extra_body={"safeguards": {"level": "usual"}}
    )
    assert reply.content[0].text == "Yes."


async def test_five_markers_are_one_too_many(claude: AsyncAnthropic) -> None:
    marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    with pytest.raises(anthropic.BadRequestError, match="maximum of 4"):
        await claude.messages.create(
            model=MODEL, max_tokens=9, messages=[{"role": "user", "content": [marked] * 5}]
        )


async def test_a_prompt_over_the_window_is_too_long_by_itself(claude: AsyncAnthropic) -> None:
    """Provider facts 1.5."""
    with pytest.raises(
        anthropic.BadRequestError, match=r"prompt is too long: 250000 tokens > 200000 maximum"
    ):
        await claude.messages.create(
            model="claude-haiku-4-5", max_tokens=9, messages=[{"role": "user", "content": "x" * 1_000_000}]
        )


async def test_an_unknown_model_is_not_found(claude: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="model: parrot-1"):
        await claude.messages.create(model="parrot-1", max_tokens=9, messages=HELLO)


async def test_a_bearer_token_is_as_good_as_a_key(sim: Simulator) -> None:
    async with AsyncAnthropic(auth_token="any", base_url=sim.url, max_retries=0) as client:
        assert (await client.messages.create(model=MODEL, max_tokens=9, messages=HELLO)).role == "assistant"


LATE: JsonObject = {
    "name": "late",
    "description": "Does what is rarely needed. " * 20,
    "input_schema": {"type": "object"},
    "defer_loading": True,
}
SEARCHED: list[JsonObject] = [
    *HELLO,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}]},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": [{"type": "tool_reference", "tool_name": "late"}],
            }
        ],
    },
]


async def test_a_deferred_tool_counts_from_the_reference_on_that_loads_it(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    async def count(messages: list[JsonObject], tools: list[JsonObject]) -> int:
        counted = await claude.messages.count_tokens(model=MODEL, messages=messages, tools=tools)
        return counted.input_tokens

    assert await count(HELLO, [READ, LATE]) == await count(HELLO, [READ])
    whole = await count(HELLO, [READ, {**LATE, "defer_loading": False}]) - await count(HELLO, [READ])
    assert await count(SEARCHED, [READ, LATE]) - await count(HELLO, [READ]) > whole > 200


async def test_a_reply_that_calls_a_deferred_tool_needs_a_reference_to_it(
    sim: Simulator, claude: AsyncAnthropic
) -> None:
    sim.extend([{"tool_calls": [{"name": "late", "input": {}}]}])
    with pytest.raises(anthropic.InternalServerError, match="cannot know"):
        await claude.messages.create(model=MODEL, max_tokens=99, messages=HELLO, tools=[READ, LATE])
    reply = await claude.messages.create(model=MODEL, max_tokens=99, messages=SEARCHED, tools=[READ, LATE])
    assert reply.stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("model", "messages", "tools", "message"),
    [
        (MODEL, SEARCHED, [READ], "Tool reference 'late' not found in available tools"),
        (MODEL, HELLO, [LATE], "All tools cannot be deferred"),
        (MODEL, HELLO, [READ, {**LATE, "cache_control": {"type": "ephemeral"}}], "cache_control"),
        ("claude-3-5-haiku", HELLO, [READ, LATE], "not supported by this model"),
    ],
)
async def test_wrong_uses_of_deferred_tools_are_refused(
    model: str,
    messages: list[JsonObject],
    tools: list[JsonObject],
    message: str,
    sim: Simulator,
    claude: AsyncAnthropic,
) -> None:
    with pytest.raises(anthropic.BadRequestError, match=message):
        await claude.messages.create(model=model, max_tokens=99, messages=messages, tools=tools)
