"""The ledger names the first block that moved."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from nacre.cache.breakpoints import place_markers
from nacre.cache.models import profile
from nacre.cache.prefix_monitor import (
    BlockPath,
    CacheReadDrop,
    Divergence,
    Ledger,
    chain_digests,
    check_usage,
    message_blocks,
    sent_request,
)
from nacre.messages.blocks import JsonObject
from nacre.messages.usage import Usage

SYSTEM: list[JsonObject] = [{"type": "text", "text": "rules"}]
TOOLS: list[JsonObject] = [{"name": "read"}, {"name": "write"}]


def said(*words: str) -> list[JsonObject]:
    return [
        {"role": "user" if i % 2 == 0 else "assistant", "content": [{"type": "text", "text": word}]}
        for i, word in enumerate(words)
    ]


def request(*words: str, system=SYSTEM, tools=TOOLS, model: str = "m"):
    return sent_request(model, system, tools, said(*words))


def test_a_request_that_only_grows_is_in_order():
    """C32."""
    ledger = Ledger().after_request(request("a", "b"))
    assert Ledger().check(request("a")) is None
    assert ledger.check(request("a", "b", "c")) is None
    assert ledger.check(request("a", "b")) is None


def test_the_first_changed_block_is_named_with_its_level():
    """C32."""
    ledger = Ledger().after_request(request("a", "b", "c"))
    found = ledger.check(request("a", "x", "c", "d"), announced="microcompact")
    assert found == Divergence(
        4, BlockPath("messages", "messages[1].content[0]", "text"), "changed", "microcompact"
    )
    assert ledger.check(request("a", "b", "c", tools=TOOLS[:1])) == Divergence(
        1, BlockPath("tools", "tools[1]", "write"), "changed", None
    )
    added = [*TOOLS, {"name": "zip"}]
    assert ledger.check(request("a", "b", "c", tools=added)) == Divergence(
        2, BlockPath("tools", "tools[2]", "zip"), "changed", None
    )
    assert ledger.check(request("a", "b", "c", system=[])) == Divergence(
        2, BlockPath("system", "system[0]", "text"), "changed", None
    )
    assert ledger.check(request("a", "b")) == Divergence(
        5, BlockPath("messages", "messages[2].content[0]", "text"), "missing", None
    )
    assert ledger.check(request("a", "b", "c", model="n")) == Divergence(
        0, BlockPath("model", "model", "n"), "model", None
    )


def test_an_unannounced_change_is_told_in_one_line():
    ledger = Ledger().after_request(request("a"))
    told = str(ledger.check(request("b")))
    assert told == "messages[0].content[0] (text), already sent, was changed; no record announced it"
    assert str(ledger.check(request("b"), announced="compaction")).endswith("announced: compaction")


def test_a_string_is_the_same_as_one_text_block_and_markers_do_not_count():
    """C32: the ledger hashes canonical blocks."""
    messages = said("a", "b", "c")
    bare = [{**m, "content": m["content"][0]["text"]} for m in messages]
    marked = place_markers(SYSTEM, TOOLS, messages, profile=profile("claude-opus-5"))
    plain = sent_request("m", SYSTEM, TOOLS, messages)
    assert sent_request("m", SYSTEM, TOOLS, bare).last == plain.last
    assert sent_request("m", marked[0], marked[1], marked[2]).last == plain.last


@given(
    st.lists(st.text(max_size=3), min_size=1, max_size=30),
    st.lists(st.text(max_size=3), max_size=5),
    st.data(),
)
def test_any_one_change_is_found_at_its_place(words, more, data):
    """C32: exactly at which block a request first differs."""
    ledger = Ledger().after_request(request(*words))
    assert ledger.check(request(*words, *more)) is None
    index = data.draw(st.integers(0, len(words) - 1))
    changed = [*words[:index], words[index] + "!", *words[index + 1 :], *more]
    found = ledger.check(request(*changed))
    assert found is not None
    assert found.place.path == f"messages[{index}].content[0]"


@given(st.lists(st.binary(max_size=4), max_size=20), st.integers(0, 20))
def test_a_chain_can_be_continued_from_any_link(blocks, cut):
    whole = chain_digests(blocks)
    head = chain_digests(blocks[:cut])
    assert head + chain_digests(blocks[cut:], head[-1] if head else b"") == whole
    assert len(set(whole)) == len(whole)


def test_a_request_grows_without_touching_the_one_it_grew_from():
    first = request("a", "b")
    frozen = copy.deepcopy(list(first.links[: first.length]))
    second = first.grown(message_blocks(said("a", "b", "c")[2:], start=2))
    rival = first.grown(message_blocks(said("a", "b", "x")[2:], start=2))
    assert (first.length, list(first.links[: first.length])) == (5, frozen)
    assert second.last == request("a", "b", "c").last
    assert rival.last == request("a", "b", "x").last
    assert second.last == request("a", "b", "c").last
    assert Ledger().after_request(first).check(second) is None


def test_reads_that_fall_far_without_a_reason_are_reported():
    """C32: by more than 5 % and more than 2,000 tokens."""
    assert check_usage(100_000, Usage(cache_read=94_000)) == CacheReadDrop(100_000, 94_000)
    assert check_usage(100_000, Usage(cache_read=95_000)) is None
    assert check_usage(10_000, Usage(cache_read=8_000)) is None
    assert check_usage(10_000, Usage(cache_read=7_999)) == CacheReadDrop(10_000, 7_999)
    assert check_usage(100_000, Usage(cache_read=0), "compaction") is None
    assert check_usage(None, Usage(cache_read=0)) is None
    assert "100000 to 94000" in str(CacheReadDrop(100_000, 94_000))


def test_a_compaction_forgets_the_baseline_and_a_clear_skips_one_check():
    """C32; a dry run keeps the ledger it had, so it changes neither."""
    low = Usage(cache_read=1_000)
    ledger = Ledger().after_usage(Usage(cache_read=50_000))
    assert ledger.check_usage(low) == CacheReadDrop(50_000, 1_000)
    assert ledger.check_usage(low, announced="model change") is None
    assert ledger.after_compaction().check_usage(low) is None
    cleared = ledger.after_clear()
    assert cleared.check_usage(low) is None
    assert cleared.check_usage(low) is None
    again = cleared.after_usage(Usage(cache_read=40_000))
    assert again.check_usage(low) == CacheReadDrop(40_000, 1_000)
