"""What stands for a result on disk (C4)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.results import WholeOutput
from nacre.store.tool_results import OPENING, StoredResult, has_long_line, pointer, preview

KEPT = StoredResult(Path("/home/ada/.nacre/projects/-x/s/tool-results/toolu_1.txt"), 52_340)


def test_a_pointer_says_size_place_way_back_and_beginning() -> None:
    text = "one line\n" * 5_815
    words = pointer("Bash", text, KEPT, preview_bytes=2_000)
    assert words == (
        "<persisted-output>\n"
        "This Bash result is too long to be shown here: 52,335 characters, 52,340 bytes. "
        "All of it is in this file:\n"
        "/home/ada/.nacre/projects/-x/s/tool-results/toolu_1.txt\n"
        "Read it with Read (offset and limit choose the lines) or search it with Grep.\n"
        "It begins with:\n\n" + ("one line\n" * 222).removesuffix("\n") + "\n[...]\n</persisted-output>"
    )
    assert words.startswith(OPENING)


def test_a_pointer_to_a_cut_result_does_not_say_that_the_file_holds_all_of_it() -> None:
    words = pointer("Bash", "one line\n" * 3_333, KEPT, preview_bytes=100, cut="30,000 of 588,895 characters")
    assert "Bash returned 30,000 of 588,895 characters" in words
    assert "call Bash again with a narrower request:\n/home/ada/" in words
    assert "All of it" not in words
    assert words.startswith(OPENING)


@pytest.mark.parametrize(("longest", "is_told"), [(2_000, False), (2_001, True)])
def test_lines_that_read_would_cut_get_a_hint_of_their_own(longest: int, is_told: bool) -> None:
    words = pointer("Bash", "a\n" * 3_000 + "x" * longest + "\nend", KEPT, preview_bytes=2_000)
    assert ("`column`" in words) is is_told


def test_a_pointer_to_a_beginning_says_what_is_missing() -> None:
    whole = WholeOutput(str(KEPT.path), 52_340, 0, "a result may have 52,340 bytes (results.maxBytes)")
    words = pointer("Bash", "one line\n" * 3_333, whole, preview_bytes=100)
    assert "not complete: a result may have 52,340 bytes" in words and "Its first 52,340 bytes" in words
    assert "All of it" not in words and words.startswith(OPENING)


@given(st.text(alphabet="aé漢\U0001f600\n\ud800", max_size=300), st.integers(1, 100))
def test_a_preview_is_a_beginning_within_its_bytes_that_ends_at_a_line_if_it_can(
    text: str, limit: int
) -> None:
    """C4: cut at the last newline if that is past half, never inside a character."""
    shown = preview(text, limit)
    size = len(shown.encode(errors="surrogatepass"))
    assert text.startswith(shown) and size <= limit
    if shown == text:
        return
    widest = max(len(char.encode(errors="surrogatepass")) for char in text)
    ends_at_line = text[len(shown)] == "\n" and size > limit / 2
    assert ends_at_line or size > limit - widest
    if not ends_at_line:
        last = shown.encode(errors="surrogatepass").rfind(b"\n")
        assert last <= limit / 2


@given(st.text(alphabet="ab\n", max_size=60).map(lambda text: text.replace("a", "a" * 700)))
def test_a_long_line_is_found_wherever_it_is(text: str) -> None:
    assert has_long_line(text) == any(len(line) > 2_000 for line in text.split("\n"))


def test_a_line_of_twenty_megabytes_and_a_million_short_ones_are_looked_through_quickly() -> None:
    assert has_long_line("x" * 20_000_000)
    assert not has_long_line("short\n" * 4_000_000)
