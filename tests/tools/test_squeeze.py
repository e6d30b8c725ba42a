"""Shorter results: no line of text is lost, and what was left out can be written back."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nacre.tools.bash import BashSettings, bash_tool
from nacre.tools.squeeze import FoundLine, by_file, fold_repeats, without_escapes
from nacre.tools.workspace import Workspace
from tests.tools.test_whole_output import unfolded

LINES = st.lists(
    st.tuples(
        st.sampled_from(["", "a", "warning: deprecated", "x" * 60, "(repeated 3 times)", "\tb\r"]),
        st.integers(1, 40),
    ),
    max_size=12,
).map(lambda runs: "\n".join(line for line, count in runs for _ in range(count)))


@given(LINES)
def test_repeated_lines_can_be_written_back(text: str) -> None:
    folded = fold_repeats(text)
    assert unfolded(folded) == text
    assert len(folded) <= len(text)


@given(LINES)
def test_a_text_that_holds_a_count_itself_is_left_alone(text: str) -> None:
    text = f"{text}\n(repeated 1,234 more times)\n" + "same line\n" * 9
    assert fold_repeats(text) == text


def test_a_run_is_folded_only_where_that_is_shorter() -> None:
    assert fold_repeats("a\n" * 4) == "a\n" * 4
    assert fold_repeats("top\n" + "warning: x\n" * 5 + "end") == (
        "top\nwarning: x\n(repeated 4 more times)\nend"
    )
    assert fold_repeats("a long line indeed\n" * 2) == "a long line indeed\n" * 2


@pytest.mark.parametrize(
    ("shown", "plain"),
    [
        ("\x1b[1;31merror\x1b[0m: no", "error: no"),
        ("\x1b[38;5;208mx\x1b[m\x1b[K", "x"),
        ("\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x07", "link"),
        ("\x1b]0;title\x07$ ", "$ "),
        ("\x1b(B\x1b[?25l\x1b[2J\x1b[10;1Hx\x1b7\x1b8", "x"),
        ("plain [31m and \x1b[ and \x1b alone", "plain [31m and \x1b[ and \x1b alone"),
    ],
)
def test_escape_sequences_are_removed_and_nothing_else(shown: str, plain: str) -> None:
    assert without_escapes(shown) == plain


@given(st.text(), st.lists(st.sampled_from(["\x1b[0m", "\x1b[1;32m", "\x1b[K", "\x1b]0;t\x07"]), max_size=4))
def test_text_without_escapes_stays_as_it_is(text: str, codes: list[str]) -> None:
    plain = text.replace("\x1b", "")
    assert without_escapes(plain) == plain
    assert without_escapes("".join(codes) + plain + "".join(codes)) == plain


ROWS = st.lists(
    st.builds(
        FoundLine,
        st.sampled_from(["a.py", "b/2-1.py", "c:3:d"]),
        st.builds(
            "{}{}{}".format, st.integers(1, 99), st.sampled_from(":-"), st.sampled_from(["", "x", "1:y"])
        ),
    ),
    max_size=20,
)


@given(ROWS)
@example(
    [FoundLine("a.py", "1:x"), FoundLine("", "--"), FoundLine("a.py", "9:x"), FoundLine("b/2-1.py", "1:")]
)
def test_every_row_of_a_search_can_be_told_with_its_path(rows: list[FoundLine]) -> None:
    told: list[FoundLine] = []
    path = ""
    is_path = True
    for line in by_file(rows):
        if is_path:
            path = line
            is_path = False
        elif not line:
            is_path = True
        else:
            told.append(FoundLine("" if line == "--" else path, line))
    assert told == rows


async def test_colours_and_repeats_of_a_command_are_not_shown(tmp_path) -> None:
    bash = bash_tool(Workspace(tmp_path))
    result = await bash.call(
        {"command": r"printf '\033[32mok\033[0m\n'; for i in 1 2 3 4 5 6 7 8; do echo again; done"}
    )
    assert result.text == "ok\nagain\n(repeated 7 more times)"


async def test_a_failed_command_whose_output_fits_once_it_is_folded_is_shown_whole(tmp_path) -> None:
    bash = bash_tool(Workspace(tmp_path), BashSettings(failure_chars=1_000))
    result = await bash.call({"command": "yes warning | head -n 400; echo cause; exit 3"})
    assert result.text == "Exit code 3\nwarning\n(repeated 399 more times)\ncause"
