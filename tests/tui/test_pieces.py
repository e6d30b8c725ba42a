"""What the screen is made of, without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from nacre.formatting import clean
from nacre.inspect.savings import Account
from nacre.messages.blocks import Message, Text, ToolCall, ToolResult
from nacre.messages.events import (
    Event,
    Notice,
    Reply,
    StartedOver,
    TextDelta,
    ThinkingDelta,
    ToolCallEvent,
    ToolResultEvent,
    Waiting,
)
from nacre.messages.records import Said
from nacre.messages.usage import Usage
from nacre.tui.events import MAX_DETAIL_LINES, piece_of, pieces_of
from nacre.tui.meter import BAR_CELLS, GROUPS, bar, groups_line, pill_words, saved_words
from nacre.tui.pieces import Called, NoticeLine, Piece, ReplyText, Resulted, UserText, Void
from nacre.tui.prompt import TypedHistory, completions
from nacre.tui.themes import theme_for

CALL = ToolCall("c1", "Bash", {"command": "echo one\necho two", "timeout": 5})
RESULT = ToolResult("c1", (Text("one\ntwo\n"),))


@pytest.mark.parametrize(
    ("event", "piece"),
    [
        (TextDelta("so\x1b[2J\n"), ReplyText("so[2J\n")),
        (ThinkingDelta("hm"), ReplyText("hm", is_thinking=True)),
        (
            ToolCallEvent(CALL),
            Called("c1", "Bash echo one echo two", "command: echo one\necho two\ntimeout: 5", "Bash"),
        ),
        (ToolResultEvent(CALL, RESULT), Resulted("c1", "one\ntwo", "one\ntwo")),
        (Waiting(2.0, "busy"), NoticeLine("… busy; trying again in 2 s", "waiting")),
        (StartedOver("cut\noff"), Void("cut off")),
        (Notice("saved tea.md"), NoticeLine("saved tea.md")),
        (Reply(message=Message("assistant", (Text("x"),)), usage=Usage()), None),
    ],
)
def test_an_event_is_one_piece_of_the_screen(event: Event, piece: Piece | None) -> None:
    assert piece_of(event) == piece


def test_a_long_result_is_cut_where_nobody_scrolls_any_more() -> None:
    long = ToolResult("c1", (Text("\n".join(map(str, range(1_000)))),))
    piece = piece_of(ToolResultEvent(CALL, long))
    assert isinstance(piece, Resulted)
    assert piece.detail.splitlines()[-2:] == [
        str(MAX_DETAIL_LINES - 1),
        f"… {1_000 - MAX_DETAIL_LINES} more lines",
    ]


def test_a_message_of_the_past_becomes_the_pieces_it_was_shown_as() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    said = Said(id="1", at=at, role="user", blocks=(Text("hello"), RESULT))
    assert list(pieces_of(said, {"c1": "Grep"})) == [
        UserText("hello"),
        Resulted("c1", "one (+1 line)", "one\ntwo"),
    ]
    answer = Said(id="2", at=at, role="assistant", blocks=(Text("hi"), CALL))
    assert [type(one) for one in pieces_of(answer, {})] == [ReplyText, Called]


@given(st.text())
def test_nothing_that_is_said_holds_a_control_character(text: str) -> None:
    assert all(char.isprintable() or char in "\n\t\u200c\u200d" for char in clean(text))


@given(st.lists(st.integers(0, 10_000), max_size=5), st.integers(1, 20_000))
def test_the_bar_is_as_long_as_it_is_and_full_when_the_window_is(tokens: list[int], window: int) -> None:
    groups = {str(place): each for place, each in enumerate(tokens)}
    cells = bar(groups, window)
    assert sum(count for _, count in cells) == BAR_CELLS
    assert all(count >= 0 for _, count in cells)
    assert (cells[-1][1] == 0) == (sum(tokens) * BAR_CELLS > window * (BAR_CELLS - 1))


@given(st.lists(st.integers(0, 2_000_000), min_size=5, max_size=5), st.integers(40, 120))
def test_the_pill_is_whole_whatever_fills_the_window(tokens: list[int], width: int) -> None:
    """At its end stands the key that shows more."""
    line = groups_line(dict(zip(GROUPS, tokens, strict=True)), "读文档: Running… F4", width).plain
    assert line.endswith(" 读文档: Running… F4")
    assert cell_len(line) == width


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("/", ["cost", "clear"]),
        ("/c", ["cost", "clear"]),
        ("/CL", ["clear"]),
        ("/cost now", []),
        ("c", []),
        ("", []),
    ],
)
def test_a_slash_and_a_beginning_name_commands(typed: str, found: list[str]) -> None:
    assert completions(typed, {"cost": "", "clear": ""}) == found


@given(st.lists(st.text(min_size=1), max_size=5), st.text())
def test_all_the_way_up_and_down_again_is_what_was_being_typed(typed: Sequence[str], now: str) -> None:
    past = TypedHistory(typed)
    up = [found for _ in range(len(typed) + 1) if (found := past.up(now)) is not None]
    assert up == list(reversed(typed))
    down = [found for _ in range(len(typed) + 1) if (found := past.down()) is not None]
    assert down == ([*typed[1:], now] if typed else [])


def test_what_was_saved_is_told_in_as_many_words_as_there_is_room_for() -> None:
    """The layer that saved most comes first; without prices there are only tokens."""
    layers = {
        "offload": Account(times=2, tokens=900, saved_usd=0.01),
        "keep_warm": Account(times=1, tokens=5_000, saved_usd=0.04, spent_usd=0.01),
        "compact": Account(times=1, tokens=7, spent_usd=0.5),
    }
    assert saved_words(layers) == [
        "saved ≈$0.0400 (keep warm $0.0300, offload $0.0100)",
        "saved ≈$0.0400 (keep warm, offload)",
        "saved ≈$0.0400 (keep warm +1)",
        "saved ≈$0.0400",
    ]
    assert saved_words({"offload": Account(times=1, tokens=900, unpriced=1)})[0] == (
        "900 tokens kept out (offload)"
    )
    assert saved_words({}) == []


def test_the_pill_names_what_goes_on_and_its_key() -> None:
    assert pill_words([]) == ""
    assert pill_words([], "working") == "working"
    assert pill_words(["notes", "reader: Grep"], "working") == "working · notes, reader: Grep… F4"
    cut = pill_words(["x" * 100], "working", limit=30)
    assert cut == f"working · {'x' * 14}… F4"


@pytest.mark.parametrize(
    ("value", "theme"), [("0;15", "ansi-light"), ("15;0", "ansi-dark"), ("", "ansi-dark")]
)
def test_a_light_terminal_gets_dark_marks(tmp_path: Path, value: str, theme: str) -> None:
    assert theme_for({"COLORFGBG": value}, tmp_path) == theme
