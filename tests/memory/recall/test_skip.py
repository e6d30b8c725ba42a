"""When no memory is looked for (R2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.recall.recall import MAX_VIEW_BYTES, skip_reason


def skip(text: str, *, is_on: bool = True, attached_bytes: int = 0, has_files: bool = True) -> str:
    return skip_reason(text, is_on=is_on, attached_bytes=attached_bytes, has_files=has_files)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "thanks",
        "continue!",
        "ok 👍",
        "— yes —",
        "src/nacre/loop.py",
        "好的",
        "はい",
        "네",
        "好。",
    ],
)
def test_a_message_of_one_word_or_less_says_too_little(text: str) -> None:
    """R2: at most one word; in writing without blanks fewer than three signs."""
    assert "too short" in skip(text)


@pytest.mark.parametrize(("text", "is_enough"), [("deploy", True), ("好", True), ("?!", False), ("", False)])
def test_who_asks_memory_itself_needs_one_word(text: str, is_enough: bool) -> None:
    """R2, R10: it is the message in passing that one word is too little for."""
    told = skip_reason(text, is_on=True, attached_bytes=0, has_files=True, is_question=True)
    assert told == ("" if is_enough else "there is no word to look for")


@pytest.mark.parametrize(
    "text",
    ["fix tests", "go on", "怎么了", "テスト", "배포하자", "ปิดเครื่อง", "修 git", "修git", "дай пять", "1 2"],
)
def test_two_words_or_three_signs_are_enough(text: str) -> None:
    """R2."""
    assert skip(text) == ""


def test_what_is_off_empty_or_full_is_told_apart() -> None:
    """R2: memory off, no files, 60,000 bytes in the view already."""
    words = "how do we deploy"
    assert skip(words, is_on=False) == "memory is off"
    assert skip(words, has_files=False) == "there are no memories"
    assert skip(words, attached_bytes=MAX_VIEW_BYTES - 1) == ""
    assert skip(words, attached_bytes=MAX_VIEW_BYTES).startswith("60,000 bytes")


@given(st.text(alphabet="ab\n\t .!?-"))
def test_plain_words_are_counted_as_they_are_separated(text: str) -> None:
    """R2."""
    words = [word for word in text.split() if set(word) & set("ab")]
    assert (skip(text) == "") is (len(words) >= 2)
