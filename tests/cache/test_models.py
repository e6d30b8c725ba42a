"""Prices and rules are data: found by any spelling of a model's name, overridable, never guessed."""

from __future__ import annotations

import pytest

from nacre.cache.models import SHIPPED_TABLE, cost, profile, with_overrides
from nacre.errors import ConfigError
from nacre.messages.usage import Usage


@pytest.mark.parametrize(
    ("name", "same_as"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("anthropic/claude-opus-4.6", "claude-opus-4-6"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("gpt-5.5-2026-04-23", "gpt-5.5"),
        ("openai/gpt-6-sol", "gpt-6-sol"),
        ("sonnet", "claude-sonnet-5-5"),
    ],
)
def test_a_model_is_found_however_its_name_is_written(name, same_as):
    """P5."""
    found, row = profile(name), profile(same_as)
    assert found.known
    assert row.known
    assert (found.prices, found.window, found.min_cacheable) == (row.prices, row.window, row.min_cacheable)


def test_a_newer_version_is_not_taken_for_an_older_one():
    """P5: better no price than a wrong one."""
    found = profile("claude-opus-5-7")
    assert (found.known, found.prices, found.provider) == (False, (), "anthropic")
    assert found.cache_markers
    assert cost(found, Usage(input=1)) is None
    assert profile("gpt-9").provider == "openai"
    assert (profile("llama3:8b").known, profile("llama3:8b").cache_markers) == (False, False)


def test_the_long_window_suffix_widens_the_window_only():
    short, long = profile("claude-sonnet-4-5"), profile("claude-sonnet-4-5[1m]")
    assert (short.window, long.window) == (200_000, 1_000_000)
    assert long.prices == short.prices


def test_every_row_of_the_shipped_table_can_be_read():
    assert SHIPPED_TABLE.date
    rows = [profile(name) for name in SHIPPED_TABLE.models]
    assert all(row.known for row in rows)
    assert {row.provider for row in rows} == {"anthropic", "openai", "google", "embedded"}
    assert [row.model for row in rows if not row.prices and not row.note] == []


def test_embedded_costs_nothing_and_holds_200k():
    found = profile("embedded")
    assert cost(found, Usage(input=100_000, output=5_000)) == 0.0
    assert (found.window, found.cache) == (200_000, "none")


def test_each_counter_has_its_own_price():
    """P5: the three input counters exclude each other; the one-hour share is inside the writes."""
    usage = Usage(
        input=1_000_000, cache_write=2_000_000, cache_write_1h=500_000, cache_read=1_000_000, output=1_000_000
    )
    assert cost(profile("claude-opus-5-5"), usage) == pytest.approx(4 + 1.5 * 5 + 0.5 * 8 + 0.2 + 20)


@pytest.mark.parametrize(("prompt", "price"), [(100_000, 0.1 * 0.1), (100_001, 0.5 * 0.100001)])
def test_haiku_5_5_costs_five_times_as_much_past_100k(prompt, price):
    """P5."""
    assert cost(profile("claude-haiku-5-5"), Usage(input=prompt)) == pytest.approx(price)


def test_the_cliff_counts_what_was_read_from_the_cache_too():
    """P5: the tier follows the whole prompt, not what is left uncached."""
    haiku = profile("claude-haiku-5-5")
    assert cost(haiku, Usage(cache_read=100_000, input=1)) == pytest.approx((100_000 * 0.05 + 0.5) / 1e6)


def test_past_272k_input_doubles_and_output_costs_half_more():
    """P5."""
    sol = profile("gpt-6-sol")
    assert cost(sol, Usage(input=272_000, output=1_000)) == pytest.approx(0.272 * 2 + 0.01)
    assert cost(sol, Usage(input=272_001, output=1_000)) == pytest.approx(0.272001 * 4 + 0.015)
    assert cost(sol, Usage(cache_read=300_000)) == pytest.approx(0.3 * 0.4)


def test_an_override_changes_only_what_it_names():
    rules = with_overrides({"models": {"claude-opus-5-5": {"window": 300_000}}})
    changed, shipped = rules.profile("claude-opus-5-5"), profile("claude-opus-5-5")
    assert changed.window == 300_000
    assert changed.prices == shipped.prices
    assert profile("claude-opus-5-5").window == 1_000_000


def test_an_override_can_add_a_model_alone_or_like_another():
    table = {
        "models": {
            "my-model": {"window": 32_000, "prices": [{"input": 1, "output": 2}]},
            "my-opus": {"like": "claude-opus-5-5", "max_output": 10},
        },
        "aliases": {"mine": "my-model"},
    }
    rules = with_overrides(table)
    mine = rules.profile("mine")
    assert (mine.known, mine.window, mine.cache_markers) == (True, 32_000, False)
    assert cost(mine, Usage(cache_read=1_000_000)) == 1.0
    opus = rules.profile("my-opus")
    assert (opus.provider, opus.min_cacheable, opus.max_output) == ("anthropic", 512, 10)


def test_an_override_of_one_dated_version_leaves_the_others_alone():
    rules = with_overrides({"models": {"claude-opus-5-5-20260922": {"window": 9}, "claude-x": {"window": 8}}})
    assert rules.profile("claude-opus-5-5-20260922").window == 9
    assert rules.profile("claude-opus-5-5-20260922").prices == profile("claude-opus-5-5").prices
    assert rules.profile("claude-opus-5-5").window == 1_000_000
    assert (rules.profile("claude-x").window, rules.profile("claude-x").cache_markers) == (8, True)


@pytest.mark.parametrize(
    "table",
    [
        [],
        {"prices": {}},
        {"models": []},
        {"models": {"m": 3}},
        {"models": {"m": {"windw": 3}}},
        {"models": {"m": {"window": "big"}}},
        {"models": {"m": {"window": True}}},
        {"models": {"m": {"window": -1}}},
        {"models": {"m": {"binds_thinking": 1}}},
        {"models": {"m": {"cache": "always"}}},
        {"models": {"m": {"prices": 3}}},
        {"models": {"m": {"prices": [{"input": 1}]}}},
        {"models": {"m": {"prices": [{"input": 1, "output": "x"}]}}},
        {"models": {"m": {"like": "nothing"}}},
        {"models": {"m": {"like": "m"}}},
        {"aliases": {"m": 3}},
    ],
)
def test_a_malformed_override_is_refused_in_one_line(table):
    with pytest.raises(ConfigError) as failure:
        with_overrides(table)
    assert "\n" not in str(failure.value)
    assert str(failure.value).startswith("model table: ")
