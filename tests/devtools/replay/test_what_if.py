"""Other settings on a person's own logs: each row changes one thing (P7)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nacre.devtools.replay.policies import NACRE_CHAT
from nacre.devtools.replay.run import ReplayTerms
from nacre.devtools.replay.what_if import NOW, as_policy, variants, what_if
from nacre.settings import Settings
from nacre.settings.values import Switches
from tests.devtools.replay.made_up import rounds

TERMS = ReplayTerms(model="claude-opus-5-5", window=200_000)


def settings(**given: object) -> Settings:
    here = Path("/nowhere")
    return Settings(home=here, cwd=here, project_root=here, **given)  # type: ignore[arg-type]


def test_default_settings_are_the_policy_of_a_chat() -> None:
    assert replace(as_policy(settings()), name=NACRE_CHAT.name) == NACRE_CHAT


def test_a_layer_that_is_off_is_off_in_the_replay_and_not_offered_to_be_switched_off() -> None:
    off = settings(switches=Switches(offload=False, keep_warm=False, compact=False, clear_idle=False))
    now = as_policy(off)
    assert (now.offload, now.warming, now.compaction, now.clearing) == (None, None, None, None)
    assert now.side_work is not None and now.side_work.notes is None
    names = [one.name for one in variants(off)]
    assert names[0] == NOW and len(names) == len(set(names))
    assert not {"switches.offload off", "switches.keep_warm off", "switches.notes off"} & set(names)


def test_every_row_has_one_change_and_the_rows_have_costs_of_their_own() -> None:
    found = what_if([rounds(30)], settings(), TERMS)
    assert next(iter(found)) == NOW and "cacheTtl 5m" not in found
    assert found["cacheTtl 1h"].cost_usd > found[NOW].cost_usd
    assert found["extract.mode off"].cost_usd < found[NOW].cost_usd
    assert all(one.reply_usd == found[NOW].reply_usd for one in found.values())


def test_a_named_small_model_writes_in_the_replay_as_in_the_chat() -> None:
    """F7: without one, that of the vendor."""
    named = as_policy(settings(small_model="claude-haiku-4-5")).side_work
    assert named is not None and named.small_model == "claude-haiku-4-5"
