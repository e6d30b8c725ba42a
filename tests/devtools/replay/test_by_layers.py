"""Compaction by nacre's own layers over made-up recordings: what stays in view, and who is asked (P7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nacre.devtools.replay.other_policies import CompactionSettings
from nacre.devtools.replay.policies import NACRE, ByLayers, Ladder
from nacre.devtools.replay.run import ReplayTerms, Study, replay_one
from nacre.devtools.replay.schema import PolicyAnswer, PolicyTotals, Recorded, Setting
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.layers.l4_compact.summarise import directive
from nacre.messages.blocks import Block, Text, ToolCall, ToolResult
from nacre.messages.tokens import BYTES_PER_TOKEN
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical
from tests.devtools.replay.made_up import asked, output

TERMS = ReplayTerms(model="claude-sonnet-4-6", window=40_000)
BARE = replace(NACRE, clearing=None, offload=None, warming=None)


def looking_back(count: int) -> Recorded:
    """Every call names what an older one named, too; a person speaks at the start of every sixth round."""
    steps = []
    heard: list[Block] = [Text(FIRST)]
    for number in range(count):
        command = f"compare part_{number:04d} with part_{max(0, number - 30):04d}"
        call = ToolCall(f"call-{number}", "Bash", {"command": command})
        is_last = number % 6 == 5
        steps.append(asked(number, heard, [Text("Next."), *([] if is_last else [call])], at=number * 5.0))
        result = ToolResult(call.id, (Text(output(number, 6_000)),))
        heard = [Text(f"Go on with part {number}.")] if is_last else [result]
    return Recorded(name="looking back", steps=tuple(steps), base_tokens=2_000)


FIRST = "Never touch generated/, whatever the tests say."
LONG = looking_back(120)


def tally(maker: Ladder, session: Recorded = LONG) -> PolicyTotals:
    return replay_one(Study(session), maker, TERMS).tally


def sent(maker: Ladder, session: Recorded = LONG) -> list[PolicyAnswer]:
    policy = maker.start(Setting(model=TERMS.model, window=TERMS.window))
    requests = []
    for step in session.steps:
        requests.append(policy.ask(step))
        policy.hear(step, Usage(input=len(canonical([*requests[-1].sent.messages])) // BYTES_PER_TOKEN))
    policy.close()
    return requests


def test_by_rule_nobody_is_asked_and_what_the_person_said_stays_in_every_request() -> None:
    """C20, C26: word for word, through every compaction."""
    requests = sent(BARE)
    assert sum(one.count("compact") for one in requests) >= 2
    assert not any(one.sides for one in requests)
    assert FIRST in canonical([*requests[-1].sent.messages]).decode()


@pytest.mark.slow
def test_with_a_model_every_compaction_is_one_fork_that_ends_with_the_real_question() -> None:
    """C18: the same bytes as the request before it, then the directive."""
    maker = replace(BARE, compaction=ByLayers(settings=CompactSettings(summary_room=0), summary_tokens=2_000))
    requests = [one for one in sent(maker) if one.sides]
    assert requests
    for one in requests:
        (side,) = one.sides
        assert side.kind == "summary"
        assert side.output_tokens == 2_000
        assert side.sent.messages[-1]["content"] == [{"type": "text", "text": directive()}]
    done = tally(maker)
    assert 0 < done.sides <= done.compactions
    assert tally(BARE).side_usd == 0 < done.side_usd


@pytest.mark.slow
@pytest.mark.parametrize("tail", [2_000, 12_000])
def test_words_and_deeds_keep_more_than_the_same_tail_alone(tail: int) -> None:
    """C17b: one line for each call is part of every summary."""
    layers = ByLayers(settings=CompactSettings(tail_tokens=tail))
    by_rule = tally(replace(BARE, compaction=layers)).used
    alone = tally(replace(BARE, compaction=CompactionSettings(summary_tokens=0, tail_tokens=tail))).used
    assert by_rule.identifiers_kept > alone.identifiers_kept


def test_nothing_that_the_layers_do_is_unannounced_or_refused() -> None:
    """C32: a compaction says that it moves the prefix."""
    done = tally(BARE)
    assert done.compactions > 0
    assert done.unannounced == done.invalid == done.overflow == 0
