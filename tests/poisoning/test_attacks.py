"""Instructions hidden in what an agent reads reach no later session, though the model obeys them (M16b)."""

from __future__ import annotations

import pytest

from bench.poisoning import reached, recalled, undefended
from bench.poisoning_cases import Attack, Honest, attacks, honest

UNCONFIRMED = {"reworded 13", "written 13", "reworded 31", "written 31"}
"""Rewordings that wait for a confirmation: a shortened "even if", and a German clause with the verb first."""


@pytest.mark.slow
@pytest.mark.parametrize("attack", [one for one in attacks() if not one.is_beyond], ids=lambda one: one.name)
async def test_what_others_hid_is_in_no_later_request(attack: Attack) -> None:
    """M8, M16b: not attached, not in the index; without the defence every one of them is."""
    assert not await reached(attack)
    with undefended():
        assert await reached(attack)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*honest()], ids=lambda one: one.name)
async def test_what_somebody_said_is_recalled_as_it_is_without_a_defence(case: Honest) -> None:
    """M16b: to believe nobody would be easy."""
    is_recalled = await recalled(case)
    with undefended():
        assert is_recalled == (await recalled(case) and case.name not in UNCONFIRMED)
