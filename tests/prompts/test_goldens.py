"""What the model reads about memory, compared whole with files that a person reviews in the diff."""

from __future__ import annotations

import pytest

from tests.prompts import goldens

CURRENT = goldens.current()


@pytest.mark.parametrize("name", sorted(CURRENT))
def test_a_rendered_prompt_is_what_its_golden_says(name: str):
    """House rule on prompts: a changed word in a rendered prompt is always seen (M19, M25)."""
    assert (goldens.FOLDER / name).read_bytes().decode() == CURRENT[name], (
        "a rendered prompt changed: look at it, then run `python tests/prompts/goldens.py`"
    )


def test_no_golden_is_left_behind():
    assert {path.name for path in goldens.FOLDER.iterdir()} == set(CURRENT)
