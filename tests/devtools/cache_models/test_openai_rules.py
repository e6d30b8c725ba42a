"""OpenAI's prompt cache: the documented edge cases."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import pytest

from nacre.cache.models import ModelProfile, profile
from nacre.devtools.cache_models.anthropic_state import Cache, Call, RequestOutcome
from nacre.devtools.cache_models.openai_rules import OpenAISwitches, api_usage, estimate, simulate
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.usage import Usage
from tests.pictures import png

SOL = profile("gpt-6-sol")
OLD = profile("gpt-5.4")
DEFAULT = OpenAISwitches()


def sized(wire: JsonObject) -> int:
    size = wire.get("n", 0)
    assert isinstance(size, int)
    return size


def part(words: str, n: int, *, mark: bool = False) -> JsonObject:
    explicit: JsonObject = {"prompt_cache_breakpoint": {"mode": "explicit"}} if mark else {}
    return {"type": "input_text", "text": words, "n": n, **explicit}


def said(role: str, *parts: Json) -> JsonObject:
    return {"role": role, "content": list(parts)}


def body(*items: JsonObject, **fields: Json) -> JsonObject:
    return {"model": "m", "input": list(items), **fields}


def send(
    cache: Cache,
    request: JsonObject,
    *,
    at: float = 0.0,
    model: ModelProfile = SOL,
    switches: OpenAISwitches = DEFAULT,
    **call,
) -> RequestOutcome:
    made = replace(Call(body=request, start=at), **call)
    return simulate(cache, made, profile=model, switches=switches, count=sized)


def figures(outcome: RequestOutcome) -> tuple[int, int, int]:
    assert outcome.refusal is None
    return outcome.usage.cache_read, outcome.usage.cache_write, outcome.usage.input


RULES = said("developer", part("rules", 2000))
ASK = said("user", part("ask", 100))
REPLY = said("assistant", part("reply", 50))
MORE = said("user", part("more", 60))


def test_a_growing_conversation_reads_its_last_boundary():
    first = send(Cache(), body(RULES, ASK))
    assert figures(first) == (0, 2100, 0)
    assert figures(send(first.cache, body(RULES, ASK, REPLY, MORE), at=1)) == (2100, 110, 0)


def test_a_shared_prefix_with_another_tail_is_no_hit():
    cache = send(Cache(), body(RULES, ASK)).cache
    assert send(cache, body(RULES, MORE), at=1).usage.cache_read == 0


def test_an_extended_message_loses_its_old_end():
    cache = send(Cache(), body(RULES, ASK)).cache
    longer = said("user", part("ask", 100), part("and more", 10))
    assert send(cache, body(RULES, longer), at=1).usage.cache_read == 0


def test_explicit_breakpoints_are_written_and_shared_by_other_tails():
    marked = said("developer", part("rules", 2000, mark=True))
    first = send(Cache(), body(marked, ASK))
    assert figures(first) == (0, 2100, 0)
    assert figures(send(first.cache, body(marked, MORE), at=1)) == (2000, 60, 0)


def test_switching_to_explicit_misses_what_was_written_implicitly():
    cache = send(Cache(), body(RULES, ASK)).cache
    marked = said("user", part("more", 60, mark=True))
    explicit: JsonObject = {"mode": "explicit"}
    outcome = send(cache, body(RULES, ASK, REPLY, marked, prompt_cache_options=explicit), at=1)
    assert figures(outcome) == (0, 2210, 0)
    nothing = send(cache, body(RULES, ASK, prompt_cache_options=explicit), at=1)
    assert figures(nothing) == (0, 0, 2100)


def test_only_the_latest_explicit_breakpoints_are_written():
    marked = [said("user", part(f"p{i}", 2000, mark=True)) for i in range(6)]
    cache = send(Cache(), body(*marked, REPLY)).cache
    assert send(cache, body(*marked[:3], MORE), at=1).usage.cache_read == 0
    assert send(cache, body(*marked[:4], MORE), at=1).usage.cache_read == 8000


def test_a_later_developer_message_is_no_boundary():
    late = said("developer", part("by the way", 30))
    first = send(Cache(), body(RULES, ASK, late))
    assert figures(first) == (0, 2100, 30)


def test_the_last_of_a_group_of_tool_outputs_is_a_boundary():
    call: JsonObject = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}", "n": 10}
    out: JsonObject = {"type": "function_call_output", "call_id": "1", "output": "x", "n": 20}
    first = send(Cache(), body(RULES, ASK, call, call, out, out))
    assert figures(first) == (0, 2160, 0)
    assert figures(send(first.cache, body(RULES, ASK, call, call, out, out, REPLY, MORE), at=1)) == (
        2160,
        110,
        0,
    )


@pytest.mark.parametrize(("tokens", "written"), [(1023, 0), (1024, 1024)])
def test_the_minimum_is_1024_visible_tokens(tokens, written):
    assert send(Cache(), body(said("user", part("a", tokens)))).usage.cache_write == written


def test_entries_live_thirty_minutes_or_twelve_hours_from_their_last_use():
    request = body(RULES, ASK)
    cache = send(Cache(), request).cache
    assert send(cache, request, at=1799).usage.cache_read == 2100
    assert send(cache, request, at=1800).usage.cache_read == 0
    refreshed = send(cache, request, at=1799).cache
    assert send(refreshed, request, at=3500).usage.cache_read == 2100
    long = body(RULES, ASK, prompt_cache_options={"ttl": "12h"})
    first = send(Cache(), long)
    assert first.usage == Usage(cache_write=2100, cache_write_1h=2100)
    assert send(first.cache, long, at=40_000).usage.cache_read == 2100


def test_the_entry_appears_when_the_reply_is_complete():
    request = body(RULES, ASK)
    cache = send(Cache(), request, first_token=1.0, end=5.0).cache
    assert send(cache, request, at=4).usage.cache_read == 0
    assert send(cache, request, at=5).usage.cache_read == 2100


def test_past_272k_the_request_is_repriced():
    large = body(said("user", part("a", 272_001)), prompt_cache_options={"mode": "explicit"})
    small = body(said("user", part("a", 272_000)), prompt_cache_options={"mode": "explicit"})
    assert send(Cache(), small).cost_usd == pytest.approx(0.272 * 2)
    assert send(Cache(), large).cost_usd == pytest.approx(0.272001 * 4)


TOOLS: list[Json] = [{"type": "function", "name": "f", "n": 300}]


@pytest.mark.parametrize(
    ("change", "read", "reason"),
    [
        ({"tool_choice": "none"}, 2400, None),
        ({"reasoning": {"effort": "medium"}}, 2400, "reasoning_effort"),
        ({"reasoning": {"effort": "low"}}, 0, "reasoning_effort"),
        ({"tools": []}, 0, "tools"),
        ({"prompt_cache_key": "other"}, 0, "prompt_cache_key"),
        ({"text": {"verbosity": "low"}}, 0, "verbosity"),
        ({"text": {"format": {"type": "json_object"}}}, 0, "text_format"),
        ({"instructions": "changed"}, 0, "input"),
    ],
)
def test_settings_in_front_of_the_prompt_lose_all_of_it(change, read, reason):
    """Changing tools or hidden settings loses everything; choosing among the tools does not."""
    cache = send(Cache(), body(RULES, ASK, tools=TOOLS), message_id="r1").cache
    options: JsonObject = {"comparison_response_id": "r1"}
    outcome = send(cache, {**body(RULES, ASK, tools=TOOLS, prompt_cache_options=options), **change}, at=1)
    assert outcome.usage.cache_read == read
    told = outcome.diagnostics
    assert told is not None
    assert told.get("reason") == reason


def test_a_configuration_update_keeps_what_an_edited_effort_loses():
    cache = send(Cache(), body(RULES, ASK)).cache
    update: JsonObject = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    assert send(cache, body(RULES, ASK, REPLY, update, MORE), at=1).usage.cache_read == 2100


def test_a_compaction_item_replaces_the_prefix():
    cache = send(Cache(), body(RULES, ASK, REPLY, MORE), message_id="r1").cache
    item: JsonObject = {"type": "compaction", "encrypted_content": "x", "n": 1500}
    options: JsonObject = {"comparison_response_id": "r1"}
    first = send(cache, body(RULES, item, MORE, prompt_cache_options=options), at=1)
    assert figures(first) == (0, 3560, 0)
    assert first.diagnostics == {
        "type": "cache_miss",
        "reason": "context_compacted",
        "cache_missed_tokens": 210,
    }
    assert send(first.cache, body(RULES, item, MORE, REPLY, ASK), at=2).usage.cache_read == 3560


def test_the_two_descriptions_of_the_lookup_set_differ_in_long_conversations():
    """Switch `lookup`."""
    users = [said("user", part(f"u{i}", 100)) for i in range(60)]
    cache = send(Cache(), body(RULES, *users[:11])).cache
    longer = body(RULES, *users)
    assert send(cache, longer, at=1).usage.cache_read == 0
    assert send(cache, longer, at=1, switches=OpenAISwitches(lookup="reference")).usage.cache_read == 3100


def test_older_models_read_whole_intervals_and_charge_no_writes():
    first = send(Cache(), body(RULES, ASK), model=OLD)
    assert figures(first) == (0, 0, 2100)
    assert figures(send(first.cache, body(RULES, ASK, REPLY, MORE), at=1, model=OLD)) == (2048, 0, 162)
    other = send(first.cache, body(RULES, MORE), at=1, model=OLD)
    assert figures(other) == (1920, 0, 140)
    newer = send(Cache(), body(RULES, ASK), model=profile("gpt-5.5"))
    assert figures(send(newer.cache, body(RULES, MORE), at=1, model=profile("gpt-5.5"))) == (0, 0, 2060)


def test_hidden_tokens_shift_the_intervals_and_are_not_counted():
    hidden = OpenAISwitches(hidden_tokens=60)
    cache = send(Cache(), body(RULES, ASK), model=OLD, switches=hidden).cache
    assert figures(send(cache, body(RULES, ASK), at=1, model=OLD, switches=hidden)) == (1920, 0, 180)


def test_older_entries_die_when_idle_and_after_an_hour_at_most():
    request = body(RULES, ASK)
    cache = send(Cache(), request, model=OLD).cache
    assert send(cache, request, at=299, model=OLD).usage.cache_read == 2048
    assert send(cache, request, at=300, model=OLD).usage.cache_read == 0
    for minute in range(4, 60, 4):
        cache = send(cache, request, at=minute * 60, model=OLD).cache
    assert send(cache, request, at=3599, model=OLD).usage.cache_read == 2048
    assert send(cache, request, at=3601, model=OLD).usage.cache_read == 0
    day = body(RULES, ASK, prompt_cache_retention="24h")
    assert send(send(Cache(), day, model=OLD).cache, day, at=80_000, model=OLD).usage.cache_read == 2048


def test_usage_is_inclusive_in_both_shapes():
    """P5."""
    cache = send(Cache(), body(RULES, ASK)).cache
    outcome = send(cache, body(RULES, ASK, REPLY, MORE), at=1, output_tokens=7)
    assert api_usage(outcome) == {
        "input_tokens": 2210,
        "input_tokens_details": {
            "cached_tokens": 2100,
            "cache_write_tokens": 110,
            "cache_write_tokens_details": {"ttl_30m_tokens": 110, "ttl_12h_tokens": 0},
        },
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2217,
    }
    chat = api_usage(outcome, chat=True)
    assert (chat["prompt_tokens"], chat["total_tokens"]) == (2210, 2217)


def test_chat_completions_follow_the_same_rules():
    head: list[Json] = [{"role": "system", "content": "s" * 8000}, {"role": "user", "content": "hi"}]
    call: JsonObject = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    tail: list[Json] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "done"},
    ]
    first = simulate(Cache(), Call(body={"messages": head}), profile=SOL)
    second = simulate(first.cache, Call(body={"messages": [*head, *tail]}, start=1), profile=SOL)
    assert first.usage == Usage(cache_write=2001)
    assert second.usage.cache_read == 2001
    assert second.usage.input == 0


def test_a_prompt_over_the_window_is_refused_and_leaves_no_trace():
    small = replace(SOL, window=1000)
    outcome = send(Cache(), body(RULES), model=small)
    assert outcome.refusal is not None
    assert outcome.refusal.type == "context_length_exceeded"
    assert outcome.cache == Cache()
    chat = simulate(
        Cache(), Call(body={"messages": [{"role": "user", "content": "x" * 9000}]}), profile=small
    )
    assert chat.refusal is not None
    assert "maximum context length is 1000 tokens" in chat.refusal.message


def test_a_picture_in_a_tool_output_counts_like_one_in_a_message():
    address = f"data:image/png;base64,{b64encode(png(640, 480)).decode()}"
    picture: JsonObject = {"type": "input_image", "detail": "auto", "image_url": address}
    text: JsonObject = {"type": "input_text", "text": "[a.png: PNG picture]"}
    output: JsonObject = {"type": "function_call_output", "call_id": "c", "output": [text, picture]}
    assert estimate(output) == estimate(text) + estimate(picture) < 1_000


def test_models_without_a_cache_only_count():
    outcome = send(Cache(), body(RULES, ASK), model=profile("llama3"))
    assert figures(outcome) == (0, 0, 2100)
    assert outcome.cost_usd is None


def test_failed_and_prewarming_calls():
    request = body(RULES, ASK)
    for ending in ("rejected", "broken_before"):
        assert send(Cache(), request, outcome=ending).cache == Cache()
    warm = send(Cache(), {**request, "prewarm": True}, output_tokens=50)
    assert (warm.usage.output, warm.usage.cache_write) == (0, 2100)
