"""Markers: few, harmless, and everything written is read back."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.cache.breakpoints import place_markers
from nacre.cache.models import profile
from nacre.devtools.cache_models.anthropic_rules import simulate
from nacre.devtools.cache_models.anthropic_state import Cache, Call
from nacre.messages.blocks import Json, JsonObject

OPUS = profile("claude-opus-5")
SYSTEM: list[JsonObject] = [{"type": "text", "text": "rules " * 600}]
TOOLS: list[JsonObject] = [{"name": "read", "input_schema": {}}, {"name": "write", "input_schema": {}}]


def user(*blocks: Json) -> JsonObject:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Json) -> JsonObject:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def marked(blocks: Json) -> list[str]:
    """The paths of all markers."""
    found: list[str] = []

    def walk(value: Json, path: str) -> None:
        if isinstance(value, dict):
            if "cache_control" in value:
                control = value["cache_control"]
                assert isinstance(control, dict)
                found.append(f"{path} {control.get('ttl', '5m')}")
            for key, item in value.items():
                walk(item, f"{path}.{key}")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, f"{path}[{index}]")

    walk(blocks, "")
    return found


def stripped(value: Json) -> Json:
    if isinstance(value, list):
        return [stripped(item) for item in value]
    if isinstance(value, dict):
        return {key: stripped(item) for key, item in value.items() if key != "cache_control"}
    return value


def as_blocks(messages: list[JsonObject]) -> list[JsonObject]:
    return [{**m, "content": [text(m["content"])]} if isinstance(m["content"], str) else m for m in messages]


def test_system_instructions_the_previous_end_and_the_tail_are_marked():
    """C31."""
    messages = [
        user(text("<instructions>"), text("hello")),
        assistant(text("hi")),
        user(text("next")),
    ]
    system, tools, placed = place_markers(SYSTEM, TOOLS, messages, profile=OPUS)
    assert marked(system) == ["[0] 5m"]
    assert marked(tools) == []
    assert marked(placed) == ["[0].content[0] 5m", "[0].content[1] 5m", "[2].content[0] 5m"]
    assert placed[1] is messages[1]


def test_a_fork_marks_where_it_left_its_parent_before_it_marks_instructions():
    """C31, C33."""
    messages = [
        user(text("<instructions>"), text("hello")),
        assistant(text("hi")),
        user(text("more")),
        assistant(text("done")),
        user(text("summarise")),
    ]
    _, _, placed = place_markers(SYSTEM, TOOLS, messages, profile=OPUS, branch_at=4)
    assert marked(placed) == ["[2].content[0] 5m", "[3].content[0] 5m", "[4].content[0] 5m"]


def test_without_a_system_prompt_the_last_loaded_tool_is_marked():
    tools = [*TOOLS, {"name": "late", "defer_loading": True}]
    system, placed, _ = place_markers([], tools, [user(text("hello"))], profile=OPUS)
    assert system == []
    assert marked(placed) == ["[1] 5m"]


def test_mixed_lifetimes_hold_the_head_longer_than_the_tail():
    """C31c: what is for an hour stands before what is for five minutes."""
    messages = [user(text("<instructions>"), text("hello")), assistant(text("hi")), user(text("next"))]
    system, _, placed = place_markers(SYSTEM, TOOLS, messages, profile=OPUS, ttl="mixed")
    assert marked(system) == ["[0] 1h"]
    assert marked(placed) == ["[0].content[0] 1h", "[0].content[1] 5m", "[2].content[0] 5m"]


def worked(results: list[str]) -> list[JsonObject]:
    """A conversation of one call a round, with these results."""
    messages: list[JsonObject] = [user(text("<instructions>" * 200), text("begin"))]
    for number, content in enumerate(results):
        call: JsonObject = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {}}
        answer: JsonObject = {"type": "tool_result", "tool_use_id": f"c{number}", "content": content}
        messages += [assistant(call), user(answer)]
    return messages


@pytest.mark.parametrize("ttl", ["5m", "mixed", "1h"])
def test_a_marker_before_the_oldest_kept_result_keeps_what_was_cleared_readable(ttl):
    """C31c: the next clear reads up to where the last one ended, under every lifetime."""

    def reads_at_the_second_clear(*, marks: bool) -> int:
        cache, read = Cache(), 0
        full = ["long " * 900] * 40
        for at, cleared in enumerate((0, 10, 34)):
            messages = worked(["[cleared]"] * cleared + full[cleared:])
            branch = [2 * cleared + 1, 21] if marks and cleared else None
            placed = place_markers(SYSTEM, TOOLS, messages, profile=OPUS, ttl=ttl, branch_at=branch)
            body: JsonObject = dict(zip(("system", "tools", "messages"), placed, strict=True))
            outcome = simulate(cache, Call(body={"max_tokens": 9, **body}, start=60.0 * at), profile=OPUS)
            assert outcome.refusal is None
            cache, read = outcome.cache, outcome.usage.cache_read
        return read

    assert reads_at_the_second_clear(marks=True) > reads_at_the_second_clear(marks=False) > 0


def test_thinking_and_empty_text_are_never_marked():
    messages = [
        user(text("hello")),
        assistant({"type": "thinking", "thinking": "x"}, text("")),
        user(text("")),
    ]
    _, _, placed = place_markers([text("")], [], messages, profile=OPUS)
    assert marked(placed) == ["[0].content[0] 5m"]


def test_a_reminder_that_expires_takes_no_marker():
    note: JsonObject = {"role": "system", "content": "hurry", "clear_at": "next_user_message"}
    _, _, placed = place_markers(SYSTEM, [], [user(text("hello")), note], profile=OPUS)
    assert marked(placed) == ["[0].content[0] 5m"]


def test_models_without_markers_get_the_same_lists_back():
    messages = [user(text("hello"))]
    for model in ("gpt-6-sol", "embedded", "llama"):
        system, tools, placed = place_markers(SYSTEM, TOOLS, messages, profile=profile(model))
        assert (system is SYSTEM, tools is TOOLS, placed is messages) == (True, True, True)


words = st.text(st.characters(codec="utf-8"), max_size=30)
blocks = st.one_of(
    words.map(text),
    words.map(lambda t: {"type": "thinking", "thinking": t, "signature": "s"}),
    st.just({"type": "image", "source": {}}),
    st.just({"type": "novelty", "payload": [1]}),
)
conversations = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "system"]),
        st.one_of(words, st.lists(blocks, max_size=4)),
    ),
    max_size=8,
)


@given(
    st.lists(words.map(text), max_size=2),
    st.lists(st.just({"name": "t"}), max_size=2),
    conversations,
    st.sampled_from(["5m", "1h", "mixed"]),
    st.none() | st.integers(0, 9) | st.lists(st.integers(0, 9), max_size=3),
)
def test_markers_are_few_and_change_nothing_else(system, tools, messages, ttl, branch_at):
    """C31: at most four, the input untouched, the same blocks once markers are taken off."""
    before = copy.deepcopy((system, tools, messages))
    placed = place_markers(system, tools, messages, profile=OPUS, ttl=ttl, branch_at=branch_at)
    assert (system, tools, messages) == before
    paths = [path for part in placed for path in marked(part)]
    assert len(paths) <= 4
    lifetimes = [path.split()[1] for part in (placed[1], placed[0], placed[2]) for path in marked(part)]
    assert lifetimes == sorted(lifetimes, key=["1h", "5m"].index)
    assert stripped(list(placed[:2])) == [system, tools]
    assert as_blocks(stripped(placed[2])) == as_blocks(messages)
    assert place_markers(system, tools, messages, profile=OPUS, ttl=ttl, branch_at=branch_at) == placed


rounds = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 25), st.booleans()),
    min_size=2,
    max_size=6,
)


@settings(deadline=None)
@given(rounds, st.booleans())
def test_every_request_reads_all_that_the_one_before_wrote(steps, collapses):
    """C31: however many parallel calls, stray blocks or thinking a round holds."""
    model = replace(OPUS, collapse_runs=collapses)
    messages: list[JsonObject] = [user(text("<instructions>" * 200), text("begin"))]
    cache, cached = Cache(), 0
    for number, (calls, extras, thinks) in enumerate(steps):
        system, tools, placed = place_markers(SYSTEM, TOOLS, messages, profile=model)
        request: JsonObject = {"max_tokens": 9, "system": system, "tools": tools, "messages": placed}
        outcome = simulate(cache, Call(body=request, start=float(number)), profile=model)
        assert outcome.refusal is None
        assert outcome.usage.cache_read == cached
        assert outcome.usage.input == 0
        assert outcome.trace.diverged == ""
        cache, cached = outcome.cache, outcome.usage.prompt
        ids = [f"c{number}-{i}" for i in range(calls)]
        thought: list[Json] = (
            [{"type": "thinking", "thinking": "hm", "signature": str(number)}] if thinks else []
        )
        messages = [
            *messages,
            assistant(
                *thought,
                text("on it"),
                *({"type": "tool_use", "id": i, "name": "read", "input": {}} for i in ids),
            ),
            user(
                *({"type": "tool_result", "tool_use_id": i, "content": "x" * 50} for i in ids),
                *(text(f"note {i}") for i in range(extras)),
                text("go on"),
            ),
        ]
