"""The documented edge cases of Anthropic's prompt cache, by number."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from nacre.cache.models import profile
from nacre.devtools.cache_models.anthropic_rules import simulate
from nacre.devtools.cache_models.anthropic_state import AnthropicSwitches, Cache, Call
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.usage import Usage
from tests.cache.calls import HOUR, MARK, OPUS, assistant, body, figures, result, send, text, use, user

BINDING = profile("claude-opus-5-5")


def turns(count: int, *marks: int) -> JsonObject:
    """That many blocks in alternating messages, marked at the given places (from 1)."""
    blocks = [text(f"block {i}", mark=MARK if i in marks else None) for i in range(1, count + 1)]
    return body(*(user(b) if i % 2 == 0 else assistant(b) for i, b in enumerate(blocks)))


def test_a_marker_looks_back_twenty_positions_and_no_further():
    """Edge case 1: writes at 10 and 15; a marker at 35 misses them, one more at 15 finds them."""
    cache = send(Cache(), turns(10, 10)).cache
    cache = send(cache, turns(15, 15), at=1).cache
    assert figures(send(cache, turns(35, 35), at=2)) == (0, 3500, 0)
    assert figures(send(cache, turns(34, 34), at=2)) == (1500, 1900, 0)
    assert figures(send(cache, turns(35, 15, 35), at=2)) == (1500, 2000, 0)
    assert send(cache, turns(35, 35), at=2).trace.positions == 20


def test_a_clock_in_the_marked_block_is_never_read_back():
    """Edge case 2."""
    cache = Cache()
    for second in range(4):
        outcome = send(cache, body(user(text("stable", 900), text(f"at {second}", mark=MARK))), at=second)
        assert figures(outcome) == (0, 1000, 0)
        cache = outcome.cache


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("claude-opus-5-5", 512),
        ("claude-sonnet-5", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-haiku-4-5", 4096),
    ],
)
def test_a_prefix_under_the_minimum_is_silently_not_cached(model, least):
    """Edge case 3."""
    short = body(user(text("a", least - 1, MARK)))
    enough = body(user(text("a", least, MARK)))
    known = profile(model)
    under = send(Cache(), short, model=known)
    assert figures(under) == (0, 0, least - 1)
    assert figures(send(under.cache, short, at=1, model=known)) == (0, 0, least - 1)
    assert under.trace.wasted == ("messages[0].content[0]",)
    assert figures(send(Cache(), enough, model=known)) == (0, least, 0)


def test_two_lifetimes_are_billed_by_position():
    """Edge case 4: read up to the hit, one-hour write up to its marker, ordinary write to the last."""
    first = body(user(text("a", 1000, HOUR)))
    cache = send(Cache(), first).cache
    longer = body(user(text("a", 1000, HOUR), text("b", 300, HOUR), text("c", 200, MARK), text("d", 50)))
    outcome = send(cache, longer, at=1)
    assert outcome.usage == Usage(cache_read=1000, cache_write=500, cache_write_1h=300, input=50)
    refused = send(cache, body(user(text("a", 1000, MARK), text("b", 10, HOUR))), at=1)
    assert refused.refusal is not None
    assert "must not come after a ttl='5m'" in refused.refusal.message


def parallel(mark_last: bool) -> JsonObject:
    calls = [use(f"c{i}") for i in range(30)]
    results = [result(f"c{i}") for i in range(30)]
    if mark_last:
        results[-1] = {**results[-1], "cache_control": MARK}
    return body(user(text("go", 1000, None if mark_last else MARK)), assistant(*calls), user(*results))


@pytest.mark.parametrize(("collapses", "read"), [(True, 1000), (False, 0)])
def test_a_run_of_tool_calls_is_one_position_where_runs_collapse(collapses, read):
    """Edge case 5."""
    model = replace(OPUS, collapse_runs=collapses)
    cache = send(Cache(), body(user(text("go", 1000, MARK))), model=model).cache
    assert send(cache, parallel(mark_last=True), at=1, model=model).usage.cache_read == read


def test_inside_a_run_every_block_is_tried_or_only_its_end():
    """Switch `run_boundaries`."""
    results = [result(f"c{i}", mark=MARK if i == 3 else None) for i in range(10)]
    head = [user(text("go", 1000)), assistant(*(use(f"c{i}") for i in range(10)))]
    cache = send(Cache(), body(*head, user(*results))).cache
    moved = [result(f"c{i}", mark=MARK if i == 9 else None) for i in range(10)]
    follow = body(*head, user(*moved))
    assert send(cache, follow, at=1).usage.cache_read == 2400
    assert send(cache, follow, at=1, switches=AnthropicSwitches(run_boundaries="end")).usage.cache_read == 0


def test_parallel_requests_miss_until_the_first_reply_begins():
    """Edge case 6."""
    request = body(user(text("a", 1000, MARK)))
    cache = send(Cache(), request, at=0, first_token=3.0).cache
    assert figures(send(cache, request, at=2.9, first_token=5.0)) == (0, 1000, 0)
    assert figures(send(cache, request, at=3.0)) == (1000, 0, 0)


def test_a_lifetime_runs_from_the_start_of_the_request():
    """Edge case 7: after a stream of four minutes, 50 seconds later it is there and 70 seconds later not."""
    request = body(user(text("a", 1000, MARK)))
    cache = send(Cache(), request, at=0, first_token=2.0, end=240.0).cache
    assert figures(send(cache, request, at=290)) == (1000, 0, 0)
    assert figures(send(cache, request, at=310)) == (0, 1000, 0)


def test_use_keeps_a_five_minute_entry_alive_for_an_hour():
    """Edge case 8."""
    request = body(user(text("a", 1000, MARK)))
    cache = send(Cache(), request).cache
    for minute in range(4, 61, 4):
        outcome = send(cache, request, at=minute * 60)
        assert figures(outcome) == (1000, 0, 0)
        cache = outcome.cache


def tooled(*names: str, **fields: Json) -> JsonObject:
    tools: list[Json] = [{"name": name, "input_schema": {}, "n": 300} for name in names]
    system: list[Json] = [text("system", 500, MARK)]
    return body(user(text("hi", 200, MARK)), tools=tools, system=system, **fields)


def test_reordering_tools_loses_all_an_explicit_default_nothing_an_image_the_messages():
    """Edge case 9."""
    cache = send(Cache(), tooled("a", "b")).cache
    assert figures(send(cache, tooled("b", "a"), at=1)) == (0, 1300, 0)
    assert figures(send(cache, tooled("a", "b", output_config={"effort": "high"}), at=1)) == (1300, 0, 0)
    assert figures(send(cache, tooled("a", "b", output_config={"effort": "low"}), at=1)) == (1100, 200, 0)
    pictured = tooled("a", "b")
    pictured["messages"] = [
        *pictured["messages"],
        assistant(text("ok")),
        user({"type": "image", "source": {}, "n": 50, "cache_control": MARK}),
    ]
    assert figures(send(cache, pictured, at=1)) == (1100, 350, 0)


def test_settings_lose_the_level_they_belong_to():
    """The table of what invalidates which level."""
    cache = send(Cache(), tooled("a", "b")).cache
    assert figures(send(cache, tooled("a", "b", tool_choice={"type": "none"}), at=1)) == (1100, 200, 0)
    assert figures(send(cache, tooled("a", "b", thinking={"type": "adaptive"}), at=1)) == (1100, 200, 0)
    assert figures(send(cache, tooled("a", "b", speed="fast"), at=1)) == (0, 1300, 0)
    first = replace(OPUS, config_rendered_first=True)
    cache = send(Cache(), tooled("a"), model=first).cache
    assert send(cache, tooled("a", thinking={"type": "adaptive"}), at=1, model=first).usage.cache_read == 0


def test_a_fork_reads_its_parents_prefix_unless_a_tool_is_missing():
    """Edge case 10."""
    cache = send(Cache(), tooled("a", "b")).cache
    fork = copy.deepcopy(tooled("a", "b"))
    fork["messages"] = [user(text("hi", 200)), assistant(text("ok")), user(text("summarise", 60, MARK))]
    assert figures(send(cache, fork, at=1)) == (1300, 160, 0)
    fewer = {**fork, "tools": tooled("a")["tools"]}
    assert figures(send(cache, fewer, at=1)) == (0, 1160, 0)


def test_workspaces_and_models_do_not_share():
    """Edge case 11."""
    request = body(user(text("a", 1000, MARK)))
    cache = send(Cache(), request).cache
    assert send(cache, request, at=1, workspace="other").usage.cache_read == 0
    assert send(cache, request, at=1, org="other").usage.cache_read == 0
    assert send(cache, request, at=1, model=profile("claude-opus-5-5")).usage.cache_read == 0
    assert send(cache, request, at=1).usage.cache_read == 1000


def test_an_edited_system_loses_what_an_appended_system_message_keeps():
    """Edge case 12."""
    cache = send(Cache(), tooled("a")).cache
    edited = {**tooled("a"), "system": [text("system, changed", 500, MARK)]}
    assert figures(send(cache, edited, at=1)) == (0, 1000, 0)
    note: JsonObject = {"role": "system", "content": [text("be brief", 40, MARK)]}
    appended = tooled("a")
    appended["messages"] = [*appended["messages"], note]
    assert figures(send(cache, appended, at=1)) == (1000, 40, 0)
    refused = send(cache, appended, at=1, model=profile("claude-sonnet-5"))
    assert refused.refusal is not None


def test_a_turn_scoped_system_message_costs_nothing_once_its_turn_is_over():
    """Edge case 13: it stays in the list, takes no tokens, and what was cached behind it is lost."""
    note: JsonObject = {"role": "system", "content": [text("hurry", 40)], "clear_at": "next_user_message"}
    first = user(text("a", 1000, MARK))
    cache = send(Cache(), body(first, note)).cache
    assert figures(send(Cache(), body(first, note))) == (0, 1000, 40)
    later = body(first, note, assistant(text("b")), user(text("c", 100, MARK)))
    assert figures(send(cache, later, at=1)) == (1000, 200, 0)


def test_the_key_order_of_a_calls_input_is_part_of_the_prefix():
    """Edge case 14."""

    def asked(**arguments: Json) -> JsonObject:
        return body(user(text("a", 1000)), assistant(use("c", **arguments)), user(result("c", mark=MARK)))

    cache = send(Cache(), asked(x=1, y=2)).cache
    assert send(cache, asked(x=1, y=2), at=1).usage.cache_read == 1200
    reordered = send(cache, asked(y=2, x=1), at=1)
    assert reordered.usage.cache_read == 0
    assert (reordered.trace.diverged, reordered.trace.only_order) == ("messages[1].content[0]", True)
    assert not send(cache, asked(x=1, y=3), at=1).trace.only_order


def test_clearing_a_result_loses_exactly_what_lies_behind_it():
    """Edge case 15."""

    def history(old: JsonObject, *, mark: JsonObject | None = None) -> JsonObject:
        return body(
            user(text("a", 1000)),
            assistant({**use("c1"), "cache_control": MARK}),
            user(old),
            assistant(use("c2")),
            user(result("c2", mark=MARK)),
        )

    cache = send(Cache(), history(result("c1", 700))).cache
    outcome = send(cache, history(result("c1", 5, "[cleared]")), at=1)
    assert figures(outcome) == (1100, 205, 0)
    assert outcome.trace.diverged == "messages[2].content[0]"
    assert outcome.trace.avoidable == 205
    assert "[cleared]" in outcome.trace.after
    assert "ok" in outcome.trace.before


def test_after_a_compaction_the_system_is_read_and_the_summary_written():
    """Edge case 16."""
    cache = send(Cache(), tooled("a")).cache
    summary: JsonObject = {"type": "compaction", "content": "what happened", "n": 150, "cache_control": MARK}
    request = tooled("a")
    request["messages"] = [
        user(text("gone", 9000)),
        assistant(summary, text("so", 10)),
        user(text("next", 30)),
    ]
    assert figures(send(cache, request, at=1)) == (800, 150, 40)
    failed = {**summary, "content": None}
    request["messages"] = [user(text("kept", 900)), assistant(failed, text("so", 10)), user(text("next", 30))]
    assert send(cache, request, at=1).prompt_tokens == 800 + 900 + 10 + 30


@pytest.mark.parametrize(("model", "read"), [("claude-haiku-4-5", 5000), ("claude-opus-4-6", 5400)])
def test_a_new_text_strips_old_thinking_on_older_models(model, read):
    """Edge case 17."""
    known = profile(model)
    thought: JsonObject = {"type": "thinking", "thinking": "hm", "signature": "s", "n": 200}
    first = [user(text("a", 5000, MARK)), assistant(thought, use("c"))]
    cache = send(Cache(), body(*first, user(result("c", mark=MARK))), model=known).cache
    again = [user(text("a", 5000)), assistant(thought, use("c"))]
    more = body(*again, user(result("c")), assistant(text("done")), user(text("and now", 60, MARK)))
    outcome = send(cache, more, at=1, model=known)
    assert outcome.usage.cache_read == read
    assert outcome.prompt_tokens == 5000 + 200 + 100 + 60 + (0 if known.strips_old_thinking else 200)


def test_past_the_cliff_the_whole_request_costs_five_times():
    """Edge case 18."""
    haiku = profile("claude-haiku-5-5")
    below = send(Cache(), body(user(text("a", 100_000, MARK))), model=haiku)
    above = send(Cache(), body(user(text("a", 100_001, MARK))), model=haiku)
    assert below.cost_usd == pytest.approx(0.0125)
    assert above.cost_usd == pytest.approx(0.0625, rel=1e-4)


def thinking(signature: str) -> JsonObject:
    return {"type": "thinking", "thinking": "hm", "signature": signature, "n": 200}


def bound(words: str, **fields: Json) -> JsonObject:
    return body(
        user(text("a", 1000, MARK)),
        assistant(thinking("s1"), use("c1")),
        user(result("c1", words=words)),
        assistant(thinking("s2"), use("c2")),
        user(result("c2", mark=MARK)),
        **fields,
    )


def test_thinking_after_a_changed_result_is_refused_or_dropped():
    """Edge case 19."""
    cache = send(Cache(), bound("long"), model=BINDING).cache
    refused = send(cache, bound("[cleared]"), at=1, model=BINDING)
    assert refused.refusal is not None
    assert refused.refusal.status == 400
    assert refused.trace.unbound == ("messages[3].content[0]",)
    assert refused.cache is cache
    lenient: JsonObject = {
        "type": "adaptive",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }
    dropped = send(cache, bound("[cleared]", thinking=lenient), at=1, model=BINDING)
    assert dropped.refusal is None
    assert dropped.prompt_tokens == 1000 + 200 + 100 + 100 + 100 + 100
    assert [item["path"] for item in dropped.dropped] == ["messages[3].content[0]"]
    assert send(cache, bound("[cleared]"), at=1).refusal is None
    old_account = AnthropicSwitches(binding=False)
    assert send(cache, bound("[cleared]"), at=1, model=BINDING, switches=old_account).refusal is None


def test_thinking_may_be_cut_off_from_the_start_but_not_from_the_middle():
    cache = send(Cache(), bound("long"), model=BINDING).cache
    three = bound("long")
    three["messages"] = [*three["messages"], assistant(thinking("s3"), use("c3")), user(result("c3"))]
    cache = send(cache, three, at=1, model=BINDING).cache

    def without(*lost: str) -> JsonObject:
        kept = copy.deepcopy(three)
        for message in kept["messages"]:
            message["content"] = [b for b in message["content"] if b.get("signature") not in lost]
        return kept

    assert send(cache, without("s1"), at=2, model=BINDING).refusal is None
    assert send(cache, without("s1", "s2", "s3"), at=2, model=BINDING).refusal is None
    assert send(cache, without("s2"), at=2, model=BINDING).refusal is not None


def test_the_replys_thinking_is_bound_to_the_request_it_answered():
    opening = body(user(text("a", 1000)))
    cache = send(Cache(), opening, model=BINDING, reply=(thinking("s1"), use("c1"))).cache
    rest = [assistant(thinking("s1"), use("c1")), user(result("c1"))]
    assert send(cache, body(user(text("a", 1000)), *rest), at=1, model=BINDING).refusal is None
    assert send(cache, body(user(text("b", 1000)), *rest), at=1, model=BINDING).refusal is not None


def test_a_string_is_the_same_as_one_text_block():
    """Edge case 20."""
    bare = body({"role": "user", "content": "hello"}, system="rules", cache_control=MARK)
    listed = body(
        user({"type": "text", "text": "hello"}),
        system=[{"type": "text", "text": "rules"}],
        cache_control=MARK,
    )

    def large(wire: JsonObject) -> int:
        return 600

    first = simulate(Cache(), Call(body=bare), profile=OPUS, count=large)
    second = simulate(first.cache, Call(body=listed, start=1), profile=OPUS, count=large)
    assert second.usage == Usage(cache_read=1200)
    assert second.trace.diverged == ""


def test_moving_markers_alone_keeps_the_whole_prefix():
    """Edge case 21."""
    cache = send(Cache(), turns(12, 3, 6, 12)).cache
    assert figures(send(cache, turns(12, 8, 9, 12), at=1)) == (1200, 0, 0)
    assert figures(send(cache, turns(12, 10), at=1)) == (600, 400, 200)


def test_the_same_request_twice_is_written_then_read():
    """Edge case 22."""
    request = body(user(text("a", 1000, MARK), text("tail", 70)))
    first = send(Cache(), request)
    second = send(first.cache, request, at=1)
    assert figures(first) == (0, 1000, 70)
    assert figures(second) == (1000, 0, 70)
