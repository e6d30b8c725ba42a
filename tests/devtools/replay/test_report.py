"""The figures of a replay for programs: each under its own name (P7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nacre.devtools.replay.policies import NONE
from nacre.devtools.replay.report import as_json, policy_json, sentences
from nacre.devtools.replay.run import ReplayTerms, Study, replay_one
from nacre.devtools.replay.schema import PolicyTotals, Recorded, Used
from nacre.messages.blocks import Block, Text, ToolResult
from nacre.messages.usage import Usage
from tests.devtools.replay.made_up import rounds

TERMS = ReplayTerms(model="claude-opus-5-5", window=60_000)
USED = Used(
    pairs=10, pairs_kept=9, edits=8, edits_kept=6, identifiers=20, identifiers_kept=5, old=16, old_kept=2
)
TALLY = PolicyTotals(
    requests=7,
    sides=2,
    usage=Usage(input=100, output=50, cache_read=300, cache_write=600),
    cost_usd=1.5,
    reply_usd=0.5,
    refetches=3,
    refetch_usd=0.25,
    side_usd=0.125,
    peak_tokens=70_000,
    view_tokens=4_000,
    overflow=4,
    invalid=11,
    compactions=5,
    prefix_breaks=13,
    unannounced=12,
    used=USED,
    refused=Used(pairs=5, pairs_kept=4, edits=4, edits_kept=4),
    cpu_seconds=(*[0.001] * 98, 0.5, 0.5),
)


def test_every_figure_of_a_policy_has_its_own_name() -> None:
    """P7: what was kept in requests that were refused is not usable; money and its parts stand together."""
    assert policy_json("mine", TALLY, TERMS) == {
        "policy": "mine",
        "requests": 7,
        "input_tokens": 100,
        "cache_read": 300,
        "cache_write": 600,
        "output_tokens": 50,
        "cost_usd": 1.5,
        "input_usd": 1.0,
        "hit_rate": 0.3,
        "peak_tokens": 70_000,
        "overflow": 4,
        "compactions": 5,
        "prefix_breaks": 13,
        "unannounced_breaks": 12,
        "invalid_requests": 11,
        "retention_pairs": 0.9,
        "retention_edits": 0.75,
        "retention_identifiers": 0.25,
        "retention_old_identifiers": 0.125,
        "usable_pairs": 0.5,
        "usable_edits": 0.25,
        "pairs_per_1000_tokens": 2.25,
        "refetches": 3,
        "refetch_usd": 0.25,
        "side_requests": 2,
        "side_usd": 0.125,
        "cpu_ms_p50": 1.0,
        "cpu_ms_p99": 500.0,
    }


def test_without_a_price_there_is_no_money_and_without_needs_no_retention() -> None:
    """P7: nothing is not the same as none of it."""
    bare = policy_json(
        "mine", replace(TALLY, used=Used(), refused=Used()), ReplayTerms(model="no-such-model")
    )
    names = ("cost_usd", "refetch_usd", "side_usd", "retention_pairs", "usable_pairs", "usable_edits")
    assert {name: bare[name] for name in names} == dict.fromkeys(names)


def test_what_stood_in_requests_that_do_not_fit_counts_as_refused() -> None:
    """P7: an endless window keeps everything, and shows the model nothing of it."""
    session = uses(rounds(80, chars=6_000))
    tally = replay_one(Study(session), NONE, TERMS).tally
    assert 0 < tally.overflow < len(session.steps)
    assert 0 < tally.refused.pairs < tally.used.pairs
    assert tally.refused.pairs_kept == tally.refused.pairs
    roomy = replay_one(Study(session), NONE, replace(TERMS, window=1_000_000)).tally
    assert (roomy.overflow, roomy.refused) == (0, Used())
    found = as_json({"none": tally}, [session], TERMS)["policies"]
    assert isinstance(found, list) and isinstance(found[0], dict)
    kept = (tally.used.pairs - tally.refused.pairs) / tally.used.pairs
    assert found[0]["retention_pairs"] == 1.0
    assert found[0]["usable_pairs"] == pytest.approx(kept, abs=1e-4)
    (told,) = [line for line in sentences({"none": tally}, [session], TERMS) if "fitted" in line]
    assert told.endswith(f"Without them it kept {kept:.1%} of the pairs.")


def uses(session: Recorded) -> Recorded:
    """The same session, in which every reply names what the result before it did."""
    steps = []
    for step in session.steps:
        words = [block for said in step.heard for block in said.blocks]
        steps.append(replace(step, reply=replace(step.reply, blocks=(*named(words), *step.reply.blocks))))
    return replace(session, steps=tuple(steps))


def named(heard: list[Block]) -> list[Text]:
    return [Text(one.text.split("\n")[0]) for one in heard if isinstance(one, ToolResult)]
