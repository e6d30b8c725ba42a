"""What is declared to the provider: one setting, changed only where nothing is cached (C11)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nacre.cache.models import profile
from nacre.layers.experimental.provider_clearing import BETA, declaration, declare, declared, with_declaration
from nacre.messages.blocks import JsonObject
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.testing import FrozenClock
from tests.layers.l2_microcompact.scenes import FREE, moment


def wanted(view: View, *, idle: float | None = None, autocompact: int = 967_000, model: str = FREE) -> object:
    warmth = moment(idle or 0.0).warmth
    if idle is None:
        warmth = replace(warmth, touched_at=None)
    return declaration(
        view, autocompact=autocompact, kept_tools=["b", "a"], warmth=warmth, profile=profile(model)
    )


def trigger(config: object) -> tuple[object, object]:
    edit = config["edits"][1]  # type: ignore[index]
    return edit["trigger"]["value"], edit["clear_at_least"]["value"]


@pytest.mark.parametrize(
    ("autocompact", "expected"), [(967_000, (180_000, 140_000)), (167_000, (147_000, 114_333))]
)
def test_the_trigger_is_the_smaller_of_the_two_and_most_of_it_must_go(
    autocompact: int, expected: tuple[int, int]
) -> None:
    assert trigger(wanted(View(), autocompact=autocompact)) == expected


@pytest.mark.parametrize("model", ["gpt-6.1-terra", "embedded", "a-model-of-ones-own"])
def test_nothing_is_declared_to_a_model_that_does_not_take_it(model: str) -> None:
    assert wanted(View(), model=model) is None


def test_nothing_is_declared_for_a_window_too_small_for_it() -> None:
    assert wanted(View(), autocompact=20_000) is None


def test_a_setting_changes_only_where_nothing_is_cached(clock: FrozenClock) -> None:
    """C11: another setting costs the cached conversation."""
    first = wanted(View())
    view = View.of([declare(cast_object(first), clock, is_cold=False)])
    assert declared(view) == first
    assert wanted(view) is None
    assert wanted(view, autocompact=100_000, idle=10.0) is None
    assert wanted(view, autocompact=100_000, idle=301.0) is not None


def test_thinking_goes_after_a_pause_and_does_not_come_back(clock: FrozenClock) -> None:
    view = View.of([declare(cast_object(wanted(View())), clock, is_cold=False)])
    cold = wanted(view, idle=301.0)
    later = view.after(declare(cast_object(cold), clock, is_cold=True))
    assert cold["edits"][0]["keep"] == {"type": "thinking_turns", "value": 1}  # type: ignore[index]
    assert wanted(later, idle=301.0) is None
    assert wanted(later) is None


def test_a_request_carries_what_is_declared(clock: FrozenClock) -> None:
    config = cast_object(wanted(View()))
    bare = Request(model=FREE, messages=[], options={"metadata": {}}, betas=("other",))
    assert with_declaration(bare, View()) == bare
    sent = with_declaration(bare, View.of([declare(config, clock, is_cold=False)]))
    assert sent.options == {"metadata": {}, "context_management": config}
    assert sent.betas == ("other", BETA)


def cast_object(config: object) -> JsonObject:
    assert isinstance(config, dict)
    return config
