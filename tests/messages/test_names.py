"""The index of names: what counts as one, which come first, the budget, and the same bytes each time."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.blocks import Block, Text, ToolCall, ToolResult
from nacre.messages.names import CALL, LINE, SAID, TITLE, index_of, line_of_names, names_in, names_of
from nacre.messages.pairing import Item
from nacre.messages.records import Said
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from tests.messages.strategies import moment


def said(number: int, role: str, *blocks: Block) -> Said:
    return Said(id=f"r{number}", at=moment(number), role=role, blocks=blocks)  # type: ignore[arg-type]


def items_of(*texts: str | tuple[JsonArguments, str]) -> list[Item]:
    """A conversation: a text is a message of the user, a pair is a call with its result."""
    records = []
    for number, one in enumerate(texts):
        if isinstance(one, str):
            records.append(said(2 * number, "user", Text(one)))
        else:
            call = ToolCall(f"toolu_{number}", "Tool", dict(one[0]))
            records.append(said(2 * number, "assistant", call))
            records.append(said(2 * number + 1, "user", ToolResult(call.id, (Text(one[1]),))))
    return list(View.of(records).items)


JsonArguments = dict[str, str]


def groups(index: str) -> dict[str, list[str]]:
    lines = [line[2:].partition(": ") for line in index.split("\n") if line.startswith("- ")]
    return {place: names.split(", ") if names else [] for place, _, names in lines}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The parser reads it, and/or not.", []),
        ("call parse_line and _private", ["parse_line", "_private"]),
        ("camelCase, PascalCase and HTTPServer2", ["camelCase", "PascalCase", "HTTPServer2"]),
        ("in src/a.py, ./b/c.go and ~/d.", ["src/a.py", "./b/c.go", "~/d"]),
        ("port 8080, line 12", ["8080"]),
        ("fmt.Println(README.md)", ["fmt.Println", "README.md"]),
        ("https://keys.evil.example/a_b, KEYS.EVIL.EXAMPLE, Evil.example, x@evil.example", []),
        ("curl evil.example/x_y", []),
        ("имя_файла und größe_max 名前_一", ["имя_файла", "größe_max", "名前_一"]),
        ("第3章和第4章", []),
        ("<a-tag>x</a-tag> and /compact", []),
        ("src/a.go-18-    x", ["src/a.go"]),
        ("/h/s/tool-results/toolu_1.txt", []),
        ("x" * 200 + "_y", []),
    ],
)
def test_identifiers_paths_and_numbers_are_names_and_words_are_not(text: str, names: list[str]) -> None:
    assert names_in(text) == names


def test_names_of_calls_and_messages_come_before_those_of_outputs_and_newer_before_older() -> None:
    """C20b."""
    old = ({"query": "x"}, "old_output and seen_twice")
    new = ({"query": "x"}, "new_output and seen_twice")
    called = ({"command": "run called_name"}, "nothing")
    index = index_of(items_of(called, "a said_name", old, new), 1_000)
    by_place = groups(index)
    assert next(iter(by_place)) == SAID
    assert by_place[SAID] == ["said_name", "called_name"]
    assert by_place[f"{CALL}toolu_3"] == ["new_output", "seen_twice"]
    assert by_place[f"{CALL}toolu_2"] == ["old_output"]
    # With little room the best one stays.
    assert groups(index_of(items_of(called, "a said_name", old, new), 57)) == {SAID: ["called_name"]}
    assert index_of(items_of(called, "a said_name", old, new), 50) == ""


def test_a_name_is_behind_its_file_rather_than_the_call_that_only_mentions_it() -> None:
    read = ({"file_path": "/w/src/a.py"}, "def parse_line(): ...")
    other = ({"file_path": "/w/src/b.py"}, "MAX_LINE = 3")
    grep = ({"pattern": "q"}, "parse_line")
    items = items_of(read, other, grep)
    index = index_of(items, 1_000, files={"toolu_0": "/w/src/a.py", "toolu_1": "/w/src/b.py"})
    assert "\nThe files are below /w/src/\n" in index
    assert groups(index) == {"a.py": ["parse_line"], "b.py": ["MAX_LINE"]}


def test_text_of_the_program_itself_has_no_names() -> None:
    assert index_of(items_of("<system-reminder>\nsee own_name\n</system-reminder>"), 1_000) == ""


def test_what_is_shown_elsewhere_is_left_out() -> None:
    items = items_of("one_name two_name three_name")
    index = index_of(items, 1_000, shown=items_of("two_name"), texts=["see three_name."])
    assert groups(index) == {SAID: ["one_name"]}
    assert index_of(items, 1_000, shown=items) == ""


def test_a_later_index_takes_over_the_names_of_an_earlier_one_with_their_places() -> None:
    read = ({"file_path": "/w/a.py"}, "parse_line")
    other = ({"file_path": "/w/b.py"}, "MAX_LINE")
    files = {"toolu_0": "/w/a.py", "toolu_1": "/w/b.py"}
    first = index_of(items_of(read, other, ({"q": "x"}, "from_result"), "said_name"), 1_000, files=files)
    again = index_of(items_of(first, "newer_name"), 1_000)
    assert groups(again) == {
        SAID: ["newer_name", "said_name"],
        "a.py": ["parse_line"],
        "b.py": ["MAX_LINE"],
        f"{CALL}toolu_2": ["from_result"],
    }


@given(
    st.lists(st.text(alphabet="ab_/.: \nЖ漢\ud8003", max_size=80), max_size=8),
    st.integers(0, 200),
)
def test_an_index_fits_its_budget_whatever_the_text(texts: list[str], tokens: int) -> None:
    items = items_of(*(({"command": text}, text) for text in texts))
    index = index_of(items, tokens, files={"toolu_0": "a: b\nc", "toolu_1": "/x/y"})
    assert estimate_text(index) <= tokens
    assert not index or (index.startswith(TITLE) and groups(index))
    assert index == index_of(items, tokens, files={"toolu_0": "a: b\nc", "toolu_1": "/x/y"})
    line = line_of_names("\n".join(texts), tokens)
    assert estimate_text(line) <= tokens and "\n" not in line


def test_the_bytes_do_not_depend_on_the_process() -> None:
    """The prefix must not move when a session is resumed by another process."""
    program = (
        "from tests.messages.test_names import *\n"
        "text = ' '.join(f'name_{n % 50} dir_{n}/f.py' for n in range(400))\n"
        "print(index_of(items_of(({'q': 'x'}, text), text), 500), line_of_names(text, 60))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1


@pytest.mark.parametrize("text", ["a/" * 1_500_000, "x" * 3_000_000, "a_1.b " * 500_000, "-" * 3_000_000])
def test_a_huge_result_is_read_in_bounded_time(text: str) -> None:
    items = items_of(({"query": "wanted_name"}, text))
    began = time.process_time()
    assert "wanted_name" in index_of(items, 1_000)
    line_of_names(text, 60)
    assert time.process_time() - began < 5


def test_a_line_has_the_most_frequent_names_that_are_not_known() -> None:
    text = "rare_name 12345 often_name often_name known_name known_name known_name"
    assert line_of_names(text, 30, {"known_name"}) == f"{LINE}often_name, rare_name"
    assert line_of_names(text, 7, {"known_name"}) == f"{LINE}often_name"
    assert line_of_names("no names here", 30) == line_of_names(text, 0) == ""


def test_names_of_a_block_are_those_of_its_text_or_arguments() -> None:
    call = ToolCall("c", "Edit", {"file_path": "src/a.py", "edits": [{"old_string": "x_1"}], "offset": 1234})
    assert names_of(call) == ["src/a.py", "x_1"]
    assert names_of(Text("a_b")) == ["a_b"]
    assert names_of(ToolResult("c", (Text("a_b"),))) == []
