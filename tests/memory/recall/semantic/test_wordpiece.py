"""Word pieces: how a text becomes the numbers the model was trained on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.recall.semantic.minilm import WordPiece, words

VOCABULARY = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]",
    "cafe", "snake", "case", "_", ":", "un", "##want", "##ed", "中", "want",
]  # fmt: skip
PIECES = WordPiece(VOCABULARY)


def said(text: str, limit: int = 20) -> list[str]:
    return [VOCABULARY[number] for number in PIECES.tokens(text, limit)]


def test_a_text_is_read_in_lower_case_without_accents() -> None:
    """R9: the model knows no capitals and no accents."""
    assert said("Café: CAFE") == ["[CLS]", "cafe", ":", "cafe", "[SEP]"]


def test_a_long_word_is_read_as_the_longest_pieces_from_the_left() -> None:
    """R9."""
    assert said("unwanted want") == ["[CLS]", "un", "##want", "##ed", "want", "[SEP]"]


def test_a_word_with_a_part_that_is_no_piece_is_unknown_as_a_whole() -> None:
    """R9: half a word would mean something else."""
    assert said("unwantedly cafe") == ["[CLS]", "[UNK]", "cafe", "[SEP]"]


def test_identifiers_and_ideographs_come_apart() -> None:
    """R11."""
    assert list(words("snake_case中文x")) == ["snake", "_", "case", "中", "文", "x"]
    assert said("snake_case中文") == ["[CLS]", "snake", "_", "case", "中", "[UNK]", "[SEP]"]


def test_what_is_too_long_to_be_a_word_is_unknown() -> None:
    """R9: base64 and hashes must not take quadratic time."""
    assert said("un" * 60) == ["[CLS]", "[UNK]", "[SEP]"]


@given(st.text(max_size=300), st.integers(min_value=2, max_value=40))
def test_whatever_the_text_it_is_framed_and_within_the_limit(text: str, limit: int) -> None:
    """R9: never more than the model has places for."""
    found = said(text, limit)
    assert found[0] == "[CLS]" and found[-1] == "[SEP]" and len(found) <= limit
    assert "[CLS]" not in found[1:] and "[SEP]" not in found[:-1]
