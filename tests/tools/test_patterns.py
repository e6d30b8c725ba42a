"""Glob patterns: the matcher of rules agrees with the expressions of searches, and is fast for many stars."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.tools.patterns import matches, translate
from nacre.tools.rules import meets_path
from tests.scale import scaled

PIECES = ["a", "b", "/", "*", "**", "**/", "?", "[ab]", "[!a]", "[a-c]", "{", "}", ",", ".", "{a,b}", "\n"]


@settings(max_examples=scaled(2_000), deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    st.text("ab/c.,{}\n", max_size=8),
    st.booleans(),
)
def test_matching_agrees_with_the_regular_expression(pattern: str, path: str, or_below: bool) -> None:
    expression = translate(pattern) + (r"(?:/.*)?" if or_below else "")
    assert matches(pattern, path, or_below=or_below) == bool(re.fullmatch(expression, path, re.DOTALL))


@pytest.mark.parametrize("stars", ["*a", "**a", "**/a/", "{*a,*aa}", "**/*a"])
def test_a_rule_with_many_stars_is_decided_at_once(stars: str) -> None:
    """A repository may set rules against calls, and has files with any name."""
    path = Path("/project") / ("a" * 250) / "a/a" / ("a/" * 500) / "c"
    began = time.process_time()
    assert not meets_path(stars * 12 + "b", path, root=Path("/project"))
    assert time.process_time() - began < 1
