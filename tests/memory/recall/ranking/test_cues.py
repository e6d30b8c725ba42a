"""What a passage holds that questions look for: by words first, with the outcome that patterns have."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import product
from re import _parser as parser  # type: ignore[attr-defined]  # only it knows all that a pattern can fit
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.recall.ranking import analysis as cues
from nacre.memory.recall.ranking.analysis import NEEDED, PASSAGE_CUES, Cue, cues_of


def fitting(parsed: Iterable[Any]) -> Iterator[str]:
    """Texts that go each way through a pattern; what may be repeated is, at least and once more."""
    for parts in product(*(list(_ways(str(kind), what)) for kind, what in parsed)):
        yield "".join(parts)


def _ways(kind: str, what: Any) -> Iterator[str]:
    match kind:
        case "LITERAL":
            yield chr(what)
        case "RANGE":
            yield from (chr(what[0]), chr(what[1]))
        case "CATEGORY" | "AT":
            yield "7" if kind == "CATEGORY" else ""
        case "IN" | "BRANCH":
            for one in [[each] for each in what] if kind == "IN" else what[1]:
                yield from fitting(one)
        case "SUBPATTERN":
            yield from fitting(what[3])
        case "MAX_REPEAT":
            least, most, inside = what
            for times in {least, min(least + 1, most)}:
                yield from fitting([part for _ in range(times) for part in inside])


@pytest.mark.parametrize(("cue", "pattern"), PASSAGE_CUES, ids=[str(cue) for cue, _ in PASSAGE_CUES])
def test_whatever_fits_a_pattern_has_a_word_that_is_looked_for(cue: int, pattern: re.Pattern[str]) -> None:
    """R9: looking for words first is quicker, and loses nothing."""
    texts = [text for text in fitting(parser.parse(pattern.pattern)) if pattern.search(text)]
    assert len(texts) >= 8
    assert [text for text in texts if not cues_of(f"({text}!") & cue] == []


@given(passage=st.text(max_size=60))
def test_looking_for_words_first_changes_no_outcome(passage: str) -> None:
    by_pattern = sum(cue for cue, pattern in PASSAGE_CUES if pattern.search(passage))
    assert cues_of(passage) & ~Cue.QUESTION == by_pattern


@pytest.mark.parametrize(
    "passage", ["\u017fince then", "\u0130 like tea", "\u0131 like tea", "ta\u212ae \u0663 pills"]
)
def test_signs_that_pass_for_an_ascii_letter_or_digit_do_so_here(passage: str) -> None:
    test_looking_for_words_first_changes_no_outcome.hypothesis.inner_test(passage)  # type: ignore[attr-defined]
    assert cues_of(passage)


def test_no_other_sign_passes_for_an_ascii_letter() -> None:
    everything = "".join(map(chr, range(128, sys.maxunicode + 1)))
    alike = re.findall("[a-z]", everything, re.I)
    assert {one for one in alike if not cues._LOOK_ALIKE.match(one)} == set()


def test_every_cue_has_words() -> None:
    assert NEEDED.keys() == {cue for cue, _ in PASSAGE_CUES}
