"""`nacre -p`: every event as a line, and what the result says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.app.call_text import call_line, result_line
from nacre.cli.chat.print_mode import event_json
from nacre.cli.chat.terminal import TurnPrinter, status_line
from nacre.formatting import shorten
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
    TurnDone,
    Waiting,
)
from nacre.messages.usage import Usage
from nacre.session.session import Base, Session
from tests.cli.program import nacre

CALL = ToolCall("c1", "Read", {"file_path": "a.py", "limit": 3})
RESULT = ToolResult("c1", (Text("one\ntwo"),), is_error=True)
USAGE = Usage(input=1, cache_write=2, cache_read=3, output=4)

LINES: list[tuple[Event, dict[str, object] | None]] = [
    (TextDelta("hi"), {"type": "text", "text": "hi"}),
    (ThinkingDelta("hm"), {"type": "thinking", "text": "hm"}),
    (ToolCallEvent(CALL), {"type": "call", "id": "c1", "name": "Read", "input": CALL.input}),
    (ToolResultEvent(CALL, RESULT), {"type": "result_of", "id": "c1", "text": "one\ntwo", "is_error": True}),
    (
        Reply(message=Message("assistant", (Text("hi"),)), usage=USAGE),
        {
            "type": "reply",
            "text": "hi",
            "usage": {"input": 1, "cache_write": 2, "cache_read": 3, "output": 4},
        },
    ),
    (Waiting(2.5, "busy"), {"type": "waiting", "seconds": 2.5, "reason": "busy"}),
    (StartedOver("broke"), {"type": "started_over", "reason": "broke"}),
    (Notice("look", "warning"), {"type": "notice", "text": "look", "level": "warning"}),
    (TurnDone(outcome="answered", rounds=1, usage=USAGE, cost_usd=0.0), None),
]


@pytest.mark.parametrize(("event", "line"), LINES, ids=[type(event).__name__ for event, _ in LINES])
def test_an_event_is_one_line_of_json(event: Event, line: dict[str, object] | None) -> None:
    """Commands, `stream-json`; the end is told by the result."""
    assert event_json(event) == line


def test_a_turn_is_shown_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    """Words in pieces, thinking apart, one line a call; what could repaint the terminal is not printed."""
    printer = TurnPrinter()
    for event in [
        ThinkingDelta("let me "), ThinkingDelta("see"), TextDelta("On"), TextDelta("e.\x1b[2J"),
        ToolCallEvent(CALL), ToolResultEvent(CALL, RESULT), Waiting(2.0, "busy"), StartedOver("broke\x07"),
        Notice("look"), TextDelta("Two."),
    ]:  # fmt: skip
        printer.show(event)
    printer.end()
    printer.end()
    assert capsys.readouterr().out.splitlines() == [
        "let me see",
        "One.[2J",
        "● Read a.py",
        "  └ one (+1 line)",
        "… busy; trying again in 2 s",
        "… starting over: broke\\x07",
        "· look",
        "Two.",
    ]


def test_lines_stay_short_however_long_the_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(call_line(ToolCall("c", "Bash", {"command": "x" * 9_000}))) < 100
    assert len(result_line(ToolResult("c", (Text("y" * 9_000),)))) <= 100
    assert result_line(ToolResult("c", ())) == "no output"
    assert shorten("a\nb\t c", 10) == "a b c"


async def test_the_status_line_warns_near_the_end_of_the_window() -> None:
    """C3."""
    session = Session(Base("claude-sonnet-4-6", "s", []))
    await session.add_user("hello")
    assert "close to the window's end" not in status_line(session)
    for tokens, is_close in ((1_000, False), (session.thresholds.warning, True)):
        usage = Usage(cache_read=tokens)
        await session.record(Reply(message=Message("assistant", (Text("x"),)), usage=usage, id=str(tokens)))
        assert ("close to the window's end" in status_line(session)) is is_close


def test_a_price_nobody_knows_is_marked() -> None:
    session = Session(Base("a-model-of-ones-own", "s", []))
    session.add_usage(Usage(input=5))
    assert "cost unknown" in status_line(session)


def test_the_result_is_one_json_document(tmp_path: Path) -> None:
    """Commands, `-p --output-format json`: with the embedded engine, which costs nothing."""
    done = nacre(tmp_path, "-p", "hello", "--output-format", "json")
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (result["turns"], result["cost_usd"], result["outcome"]) == (1, 0.0, "answered")
    assert set(result["usage"]) == {"input", "cache_write", "cache_read", "output"}
    assert len(list((tmp_path / "home" / "projects").rglob(f"{result['session']}.jsonl"))) == 1


def test_no_answer_is_no_success(tmp_path: Path) -> None:
    """A script whose key is gone must notice: what the engine cannot do, it declines."""
    done = nacre(tmp_path, "-p", "run the tests", "--output-format", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["outcome"] == "refused"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("-p", "  "), "-p needs a prompt"),
        (("--output-format", "json"), "--output-format requires -p"),
        (("-p", "x", "--continue", "--resume", "y"), "exclude each other"),
        (("-p", "x", "--max-turns", "0"), "--max-turns"),
        (("-p", "x", "--output-format", "xml"), "--output-format"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(args: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = nacre(tmp_path, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert not (tmp_path / "home").exists()


def test_for_a_screen_reader_signs_are_words_and_nothing_is_redrawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    printer = TurnPrinter(in_words=True)
    for event in (
        ThinkingDelta("Let me see."),
        TextDelta("I look\n"),
        TextDelta("there."),
        ToolCallEvent(CALL),
        ToolResultEvent(CALL, RESULT),
        TextDelta("Done."),
        Notice("look", "warning"),
        Notice("saved"),
    ):
        printer.show(event)
    printer.passing("never shown")
    printer.end()
    assert capsys.readouterr().out.splitlines() == [
        "Thinking: Let me see.",
        "Answer: I look",
        "there.",
        "Tool: Read a.py",
        "  Result: one (+1 line)",
        "Answer: Done.",
        "Warning: look",
        "Notice: saved",
    ]
