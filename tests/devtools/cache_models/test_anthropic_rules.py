"""Anthropic's rules beyond the cache look-up: refusals, edits, compaction, diagnostics, switches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.cache.models import profile
from nacre.devtools.cache_models.anthropic_lookup import api_usage
from nacre.devtools.cache_models.anthropic_render import estimate
from nacre.devtools.cache_models.anthropic_rules import DEFAULT_SWITCHES
from nacre.devtools.cache_models.anthropic_state import AnthropicSwitches, Cache
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.tokens import estimate_block
from nacre.messages.usage import Usage
from nacre.messages.wire import parse_block
from tests.cache.calls import MARK, assistant, body, result, send, text, use, user

EDITING = ("context-management-2025-06-27",)


def test_failed_calls_leave_nothing_unless_they_broke_after_the_first_token():
    """Switch `broken_after_writes`."""
    request = body(user(text("a", 1000, mark=MARK)))
    assert send(Cache(), request, outcome="rejected").cache == Cache()
    assert send(Cache(), request, outcome="broken_before").cache == Cache()
    late = send(Cache(), request, outcome="broken_after").cache
    assert send(late, request, at=1).usage.cache_read == 1000
    strict = AnthropicSwitches(broken_after_writes=False)
    assert send(Cache(), request, outcome="broken_after", switches=strict).cache == Cache()


def test_the_automatic_marker_moves_along_and_steps_over_what_it_may_not_mark():
    thought: JsonObject = {"type": "thinking", "thinking": "x", "signature": "s"}
    first = send(Cache(), body(user(text("a", 1000)), cache_control=MARK))
    assert first.usage == Usage(cache_write=1000)
    more = body(user(text("a", 1000)), assistant(text("b"), thought), cache_control=MARK)
    assert send(first.cache, more, at=1).usage == Usage(cache_read=1000, cache_write=100, input=100)


@pytest.mark.parametrize(
    ("policy", "alive"),
    [("hit_only", (False, False)), ("marked", (True, False)), ("whole_prefix", (True, True))],
)
def test_a_hit_keeps_alive_what_the_policy_says(policy, alive):
    """Switch `refresh`: an entry marked below the hit, and one not marked any more."""

    def request(*marks: int) -> JsonObject:
        return body(user(*(text(str(i), 1000, mark=MARK if i in marks else None) for i in range(3))))

    switches = AnthropicSwitches(refresh=policy)
    cache = send(Cache(), request(0, 1, 2), switches=switches).cache
    cache = send(cache, request(1, 2), at=200, switches=switches).cache

    def is_read(block: int) -> bool:
        return send(cache, request(block), at=400, switches=switches).usage.cache_read == 1000 * (block + 1)

    assert is_read(2)
    marked = send(cache, body(user(text("0", 1000), text("1", 1000, mark=MARK))), at=400, switches=switches)
    assert (marked.usage.cache_read == 2000) is alive[0]
    unmarked = send(cache, body(user(text("0", 1000, mark=MARK))), at=400, switches=switches)
    assert (unmarked.usage.cache_read == 1000) is alive[1]


def test_an_entry_can_be_evicted_early_by_a_seeded_chance():
    request = body(user(text("a", 1000, mark=MARK)))
    cache = send(Cache(), request).cache
    switches = AnthropicSwitches(eviction=0.5)
    assert send(cache, request, at=1, switches=switches, chance=lambda: 0.6).usage.cache_read == 1000
    lost = send(cache, request, at=1, switches=switches, chance=lambda: 0.4)
    assert lost.usage == Usage(cache_write=1000)
    assert send(lost.cache, request, at=2).usage.cache_read == 1000


def rounds(count: int, tail: int = 0) -> list[JsonObject]:
    messages = [user(text("go", 1000))]
    for number in range(count):
        messages += [assistant(use(f"c{number}")), user(result(f"c{number}", 1000))]
    if tail:
        messages += [assistant(text("done", tail))]
    return messages


def clearing(count: int, **edit: Json) -> JsonObject:
    edits: list[Json] = [{"type": "clear_tool_uses_20250919", **edit}]
    marked = rounds(count)
    last = marked[-1]["content"]
    assert isinstance(last, list)
    last[-1] = {**last[-1], "cache_control": MARK}
    return body(*marked, context_management={"edits": edits})


def tokens(value: int) -> JsonObject:
    return {"type": "input_tokens", "value": value}


def test_the_provider_clears_old_results_past_its_trigger():
    """P6: context_management."""
    outcome = send(Cache(), clearing(6, trigger=tokens(5000)), betas=EDITING)
    assert outcome.applied_edits == (
        {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3, "cleared_input_tokens": 2970},
    )
    assert (outcome.original_tokens, outcome.prompt_tokens) == (7600, 4630)
    assert send(Cache(), clearing(6), betas=EDITING).applied_edits == ()
    assert send(Cache(), clearing(6, trigger=tokens(7600)), betas=EDITING).applied_edits == ()
    few = {"type": "tool_uses", "value": 5}
    kept = {"type": "tool_uses", "value": 5}
    assert send(Cache(), clearing(6, trigger=few, keep=kept), betas=EDITING).prompt_tokens == 6610
    enough = clearing(6, trigger=tokens(5000), clear_at_least=tokens(2971))
    assert send(Cache(), enough, betas=EDITING).applied_edits == ()
    spared = clearing(6, trigger=tokens(5000), exclude_tools=["read"])
    assert send(Cache(), spared, betas=EDITING).applied_edits == ()


def test_a_stateless_clearing_slides_and_a_sticky_one_stays():
    """Switch `clearing`: with `keep` alone a stateless window breaks the prefix at every request."""
    small: JsonObject = {"type": "tool_uses", "value": 4}

    def reads(switches: AnthropicSwitches) -> list[int]:
        cache, found = Cache(), []
        for number, count in enumerate((5, 6)):
            request = clearing(count, trigger=small)
            outcome = send(cache, request, at=number, switches=switches, betas=EDITING)
            cache = outcome.cache
            found.append(outcome.usage.cache_read)
        return found

    assert reads(DEFAULT_SWITCHES) == [0, 0]
    wide: JsonObject = {"type": "input_tokens", "value": 6000}
    cache = send(
        Cache(), clearing(6, trigger=wide), switches=AnthropicSwitches(clearing="sticky"), betas=EDITING
    ).cache
    follow = clearing(7, trigger=wide)
    sticky = send(cache, follow, at=1, switches=AnthropicSwitches(clearing="sticky"), betas=EDITING)
    stateless = send(cache, follow, at=1, betas=EDITING)
    assert sticky.usage.cache_read == 4630
    assert stateless.usage.cache_read == 0
    assert sticky.applied_edits[0]["cleared_tool_uses"] == 3
    assert stateless.applied_edits[0]["cleared_tool_uses"] == 4


def test_cleared_inputs_and_cleared_thinking():
    full = clearing(6, trigger=tokens(5000), clear_tool_inputs=True)
    outcome = send(Cache(), full, betas=EDITING)
    assert outcome.refusal is None

    def thoughtful(keep: Json) -> JsonObject:
        thought: JsonObject = {"type": "thinking", "thinking": "x", "signature": "s"}
        talk = [
            user(text("a")),
            assistant(thought, text("b")),
            user(text("c")),
            assistant(thought, text("d")),
        ]
        edit: JsonObject = {"type": "clear_thinking_20251015", **({"keep": keep} if keep else {})}
        return body(*talk, user(text("e")), context_management={"edits": [edit]})

    one: JsonObject = {"type": "thinking_turns", "value": 1}
    outcome = send(Cache(), thoughtful(one), betas=EDITING)
    assert outcome.applied_edits == (
        {"type": "clear_thinking_20251015", "cleared_thinking_turns": 1, "cleared_input_tokens": 100},
    )
    assert send(Cache(), thoughtful("all"), betas=EDITING).applied_edits == ()
    assert send(Cache(), thoughtful(None), betas=EDITING).applied_edits == ()


def test_a_compaction_on_demand_is_billed_as_its_own_iteration():
    request = body(user(text("a", 1000, mark=MARK)), compaction={"type": "summarize"})
    outcome = send(Cache(), request, output_tokens=80)
    usage = api_usage(outcome)
    assert (usage["input_tokens"], usage["cache_creation_input_tokens"], usage["output_tokens"]) == (0, 0, 0)
    assert usage["iterations"] == [
        {
            "type": "compaction",
            "input_tokens": 0,
            "cache_creation_input_tokens": 1000,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 80,
        }
    ]
    assert outcome.stop_reason == "compaction"
    assert outcome.usage == Usage(cache_write=1000, output=80)


def test_a_compaction_block_of_its_own_kind_stands_first():
    signed: JsonObject = {"type": "compaction", "content": "so far", "signature": "s"}
    assert send(Cache(), body(assistant(signed), user(text("b")))).refusal is None


def test_a_compaction_that_comes_due_samples_twice():
    edits: JsonObject = {"edits": [{"type": "compact_20260112", "trigger": tokens(50_000)}]}
    system: list[Json] = [text("rules", 1000, mark=MARK)]
    request = body(user(text("a", 60_000, mark=MARK)), system=system, context_management=edits)
    outcome = send(Cache(), request, output_tokens=5, summary="what happened")
    assert [(step.kind, step.usage) for step in outcome.iterations] == [
        ("compaction", Usage(cache_write=61_000, output=100)),
        ("message", Usage(cache_read=1000, input=100, output=5)),
    ]
    paused: JsonObject = {
        "edits": [{"type": "compact_20260112", "trigger": tokens(50_000), "pause_after_compaction": True}]
    }
    assert send(Cache(), {**request, "context_management": paused}, summary="s").stop_reason == "compaction"


def test_a_server_tools_result_is_sampled_and_cached_in_turn():
    call: JsonObject = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found: JsonObject = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [], "n": 500}
    request = body(user(text("a", 1000, mark=MARK)))
    outcome = send(Cache(), request, output_tokens=30, first_token=1.0, reply=(call, found, text("so")))
    assert [step.usage for step in outcome.iterations] == [
        Usage(cache_write=1000),
        Usage(cache_read=1000, cache_write=600, output=30),
    ]
    follow = body(user(text("a", 1000)), assistant(call, found, text("so")), user(text("more", mark=MARK)))
    assert send(outcome.cache, follow, at=2).usage.cache_read == 1600


def diagnosed(change: JsonObject, **call) -> Json:
    tools: list[Json] = [{"name": "a", "input_schema": {}}]
    first = body(user(text("hello", 1000, mark=MARK)), tools=tools, system=[text("rules")])
    cache = send(Cache(), first, message_id="msg_1").cache
    asked: JsonObject = {**first, "diagnostics": {"previous_message_id": "msg_1"}, **change}
    told = send(cache, asked, at=1, **call).diagnostics
    if told is None:
        return None
    reason = told["cache_miss_reason"]
    assert isinstance(reason, dict)
    return reason["type"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"diagnostics": {"previous_message_id": None}}, None),
        ({"diagnostics": {"previous_message_id": "msg_9"}}, "previous_message_not_found"),
        ({"system": [text("other")]}, "system_changed"),
        ({"tools": []}, "tools_changed"),
        ({"messages": [user(text("bye", 1000, mark=MARK))]}, "messages_changed"),
        ({"speed": "fast"}, "model_changed"),
    ],
)
def test_a_miss_is_explained_in_the_providers_words(change, reason):
    assert diagnosed(change) == reason


def test_a_miss_by_model_or_by_beta_headers_is_told_apart():
    assert diagnosed({}, model=profile("claude-opus-5-5")) == "model_changed"
    assert diagnosed({}, betas=("something-new",)) == "unavailable"


@pytest.mark.parametrize(("level", "read"), [("nowhere", 2000), ("messages", 1000), ("everything", 0)])
def test_what_a_beta_header_loses_is_a_switch(level, read):
    """Switch `betas_at`."""
    request = body(user(text("a", 1000, mark=MARK)), system=[text("rules", 1000, mark=MARK)])
    switches = AnthropicSwitches(betas_at=level)
    cache = send(Cache(), request, switches=switches).cache
    assert send(cache, request, at=1, switches=switches, betas=("new",)).usage.cache_read == read


def test_a_deferred_tool_is_read_where_it_is_added():
    tools: list[Json] = [{"name": "a", "input_schema": {}}]
    late: JsonObject = {"name": "b", "input_schema": {}, "defer_loading": True}
    cache = send(Cache(), body(user(text("x", 1000, mark=MARK)), tools=tools)).cache
    more = send(cache, body(user(text("x", 1000, mark=MARK)), tools=[*tools, late]), at=1)
    assert more.usage == Usage(cache_read=1100)


def test_a_deleted_result_takes_no_room_and_the_prefix_stays_cached():
    """Only behind a switch."""
    edits: JsonObject = {"type": "cache_edits", "edits": [{"type": "delete", "cache_reference": "c0"}]}
    head = rounds(2)
    switches = AnthropicSwitches(cache_edits=True)
    first = send(Cache(), body(*head, cache_control=MARK), switches=switches)
    more = body(*head[:-1], user(result("c1", 1000), edits), cache_control=MARK)
    outcome = send(first.cache, more, at=1, switches=switches)
    assert (first.usage.prompt, outcome.usage) == (3200, Usage(cache_read=2200))
    assert outcome.trace.diverged == ""
    assert api_usage(outcome)["cache_deleted_input_tokens"] == 1000
    assert "cache_deleted_input_tokens" not in api_usage(first)


def test_a_batch_costs_half():
    request = body(user(text("a", 1_000)))
    whole, half = send(Cache(), request), send(Cache(), request, price_factor=0.5)
    assert whole.cost_usd == pytest.approx(0.005)
    assert half.cost_usd == pytest.approx(0.0025)
    assert send(Cache(), request, model=profile("claude-opus-9")).cost_usd is None


def test_one_state_can_be_continued_in_several_ways():
    """P6: the cache is a value."""
    base = send(Cache(), body(user(text("a", 1000, mark=MARK)))).cache
    left = send(base, body(user(text("a", 1000), text("left", mark=MARK))), at=1)
    right = send(base, body(user(text("a", 1000), text("right", mark=MARK))), at=1)
    assert left.usage == right.usage == Usage(cache_read=1000, cache_write=100)
    assert len(base.entries) == 1


def block(kind: str, **given_fields: Json) -> JsonObject:
    return {"type": kind, **given_fields}


@given(st.text(), st.dictionaries(st.text(max_size=5), st.integers()))
def test_the_estimate_is_that_of_the_parsed_block(words, arguments):
    for wire in (
        block("text", text=words),
        block("thinking", thinking=words),
        block("tool_result", tool_use_id="c", content=words),
        block("tool_use", id="c", name=words, input=arguments),
        block("image", source={}),
    ):
        assert estimate(wire) == estimate_block(parse_block(wire))


def test_who_speaks_is_part_of_the_prefix_but_not_how_messages_are_split():
    cache = send(Cache(), body(user(text("a", 1000)), user(text("b", mark=MARK)))).cache
    merged = body(user(text("a", 1000), text("b", mark=MARK)))
    assert send(cache, merged, at=1).usage == Usage(cache_read=1100)
    other = body(user(text("a", 1000)), assistant(text("b", mark=MARK)))
    assert send(cache, other, at=1).usage == Usage(cache_write=1100)
