"""What the Messages API refuses, and in which words."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nacre.cache.models import ModelProfile, profile
from nacre.devtools.cache_models.anthropic_rules import simulate
from nacre.devtools.cache_models.anthropic_state import Cache, Call
from nacre.messages.blocks import JsonObject
from nacre.messages.usage import Usage
from tests.cache.calls import MARK, OPUS, assistant, body, result, send, text, use, user

EDITING = ("context-management-2025-06-27",)


def refused(request: JsonObject, model: ModelProfile = OPUS, **call) -> str:
    outcome = send(Cache(), request, model=model, **call)
    assert outcome.refusal is not None
    assert (outcome.refusal.status, outcome.usage, outcome.cache) == (400, Usage(), Cache())
    return outcome.refusal.message


def test_more_than_four_markers_are_refused():
    many = body(user(*(text(str(i), mark=MARK) for i in range(5))))
    assert refused(many) == "A maximum of 4 blocks with cache_control may be provided. Found 5."
    four = [text(str(i), mark=MARK if i < 4 else None) for i in range(5)]
    assert "Found 5" in refused(body(user(*four), cache_control=MARK))
    assert send(Cache(), body(user(*four[::-1]), cache_control=MARK)).refusal is None


def test_thinking_and_empty_text_take_no_marker():
    thought: JsonObject = {"type": "thinking", "thinking": "x", "signature": "s", "cache_control": MARK}
    assert "thinking.cache_control" in refused(body(user(text("a")), assistant(thought), user(text("b"))))
    assert "empty text" in refused(body(user(text("", mark=MARK))))


def test_a_call_must_be_answered_first_thing_in_the_next_message():
    lost = "`tool_use` ids were found without `tool_result` blocks immediately after: c1."
    assert lost in refused(body(user(text("a")), assistant(use("c1")), user(text("b"))))
    assert lost in refused(body(user(text("a")), assistant(use("c1")), user(text("b"), result("c1"))))
    assert lost in refused(body(user(text("a")), assistant(use("c1"))))
    assert "unexpected `tool_use_id`" in refused(body(user(result("c9"))))
    twice = body(user(text("a")), assistant(use("c1")), user(result("c1"), result("c1")))
    assert "single result" in refused(twice)
    split = body(
        user(text("a")), assistant(use("c1"), use("c2")), user(result("c1")), user(result("c2"), text("b"))
    )
    assert send(Cache(), split).refusal is None


def test_a_prompt_over_the_window_is_refused_with_both_numbers():
    small = replace(OPUS, window=1000)
    assert refused(body(user(text("a", 1001))), small) == "prompt is too long: 1001 tokens > 1000 maximum"
    full = send(Cache(), body(user(text("a", 990))), model=small, output_tokens=20)
    assert full.stop_reason == "model_context_window_exceeded"


def test_settings_the_model_does_not_take_are_refused():
    hello = user(text("a"))
    assert "128000, which is the maximum allowed" in refused(body(hello, **{"max_tokens": 128_001}))
    forced: JsonObject = {"type": "any"}
    assert "tool_choice" in refused(body(hello, tool_choice=forced), profile("claude-opus-5-5"))
    assert "Extra inputs" in refused(body(hello, context_management={"edits": [{"type": "clear_x"}]}))
    note: JsonObject = {"role": "system", "content": "x"}
    assert "system message" in refused(body(note, hello))


def test_a_request_for_no_tokens_only_warms_the_cache():
    request = body(user(text("a", 1000, mark=MARK)), **{"max_tokens": 0})
    warm = send(Cache(), request, output_tokens=50)
    assert (warm.usage, warm.stop_reason) == (Usage(cache_write=1000), "max_tokens")
    assert "stream" in refused({**request, "stream": True})
    assert "thinking" in refused({**request, "thinking": {"type": "enabled", "budget_tokens": 1024}})
    assert "tool_choice" in refused({**request, "tool_choice": {"type": "any"}})


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "user", "text", "5m", "thinking"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "role", "content", "text", "cache_control", "ttl", "id", "tool_use_id", "edits"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
fields = [
    "messages",
    "system",
    "tools",
    "cache_control",
    "thinking",
    "context_management",
    "max_tokens",
    "diagnostics",
]


@given(st.dictionaries(st.sampled_from(fields), anything, max_size=6))
def test_any_json_is_answered_or_refused_but_never_breaks(request):
    outcome = simulate(Cache(), Call(body=request, betas=EDITING), profile=OPUS)
    assert outcome.refusal is not None or outcome.usage.prompt == outcome.prompt_tokens


def test_the_automatic_marker_may_not_ask_for_another_lifetime():
    clash = body(user(text("a", 1000, mark=MARK)), cache_control={"type": "ephemeral", "ttl": "1h"})
    assert "conflicts" in refused(clash)


def test_a_compaction_is_refused_where_it_cannot_work():
    request = body(user(text("a", 1000)), compaction={"type": "summarize"})
    assert "stop_sequences" in refused({**request, "stop_sequences": ["x"]})
    signed: JsonObject = {"type": "compaction", "content": "so far", "signature": "s"}
    assert "compaction_block_misplaced" in refused(body(user(text("a")), assistant(signed), user(text("b"))))
