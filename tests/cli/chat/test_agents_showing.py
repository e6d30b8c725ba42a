"""How agents look in a chat: the line that passes, the status line, the line about an end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nacre.agents.registry import AgentState
from nacre.app.session_text import ended_line, pills, waiting_line
from nacre.cli.chat.line_mode import AgentNotices
from nacre.cli.chat.terminal import TurnPrinter
from nacre.messages.blocks import ToolCall
from nacre.messages.events import Event, TextDelta, ToolCallEvent
from nacre.testing import FrozenClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEAVER = AgentState(id="1", name="weaver", type="general", doing="Reading loom.py", started=NOW)
DYER = replace(WEAVER, id="2", name="dyer", doing="", background=True)


def test_a_turn_is_shown_whom_it_waits_for_and_nobody_else() -> None:
    now = NOW + timedelta(seconds=12.4)
    spinner = replace(WEAVER, name="spinner", doing="")
    over = replace(WEAVER, name="fuller", status="completed")
    assert waiting_line([WEAVER, DYER, spinner, over], now) == (
        "weaver: Reading loom.py (12 s) | spinner: starting (12 s)"
    )
    assert waiting_line([DYER, over], now) == ""


def test_the_status_line_names_three_and_counts_the_rest() -> None:
    many = [replace(WEAVER, name=f"weaver-{n}") for n in range(5)]
    assert pills([WEAVER, DYER]) == ["weaver: Reading loom.py", "dyer"]
    assert pills(many)[2:] == ["weaver-2: Reading loom.py", "2 more agents"]
    assert pills(many[:4])[3:] == ["1 more agent"]
    assert pills([replace(WEAVER, status="idle")]) == []


def test_the_end_of_an_agent_is_one_line_however_it_ended() -> None:
    done = replace(
        DYER, status="completed", result="Red.\nAll of it.", seconds=34.2, tokens=12_345, cost_usd=0.5
    )
    assert ended_line(done) == "dyer is done (34 s, 12.3k tokens, $0.5000): Red. All of it."
    assert ended_line(replace(done, status="stalled", result="")).startswith(
        "dyer was stopped because it hung"
    )


class Heard(TurnPrinter):
    """Keeps what it is told to show."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def show(self, event: Event) -> None:
        self.shown.append(str(getattr(event, "text", "")))

    def passing(self, line: str) -> None:
        self.shown.append(f"~{line}")


def test_an_end_is_told_in_the_turn_above_the_prompt_or_later_and_only_once() -> None:
    """Somebody who is waited for needs no such line: the turn shows its result."""
    above: list[str] = []
    can_be_shown = True
    states = {one.name: one for one in (WEAVER, DYER)}

    def put(state: AgentState) -> None:
        states[state.name] = state
        beside.changed(state)

    beside = AgentNotices(lambda: list(states.values()), lambda line: can_be_shown and not above.append(line))
    done = replace(DYER, status="completed", result="Red.")
    put(DYER)
    put(done)
    put(replace(done, told=1))
    assert above == ["· dyer is done (0 s, 0 tokens, $0.0000): Red."]
    can_be_shown = False
    put(DYER)
    put(replace(done, result="Blue."))
    assert beside.untold() == ["dyer is done (0 s, 0 tokens, $0.0000): Blue."]
    assert beside.untold() == []
    beside.printer = printer = Heard()
    put(DYER)
    put(replace(done, result="Green."))
    put(replace(WEAVER, status="completed", result="Woven."))
    assert [line for line in printer.shown if not line.startswith("~")] == [
        "dyer is done (0 s, 0 tokens, $0.0000): Green."
    ]
    assert beside.untold() == []


async def test_how_long_somebody_is_waited_for_is_told_anew_until_the_turn_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Patched, so that the test need not wait for seconds to go by."""
    monkeypatch.setattr("nacre.cli.chat.line_mode.TICK_SECONDS", 0.001)
    clock, printer = FrozenClock(NOW), Heard()
    beside = AgentNotices(lambda: [WEAVER], lambda line: False, clock=clock)
    async with beside.shown(printer):
        for seconds in (0, 1, 2):
            while printer.shown[-1:] != [f"~weaver: Reading loom.py ({seconds} s)"]:
                await asyncio.sleep(0)
            clock.advance(1)
    shown = len(printer.shown)
    await asyncio.sleep(0.01)
    assert (beside.printer, len(printer.shown)) == (None, shown)


@pytest.mark.parametrize("colour", [True, False], ids=["usual", "dumb"])
def test_a_long_wait_is_shown_on_every_terminal(
    colour: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Patched, because the output of a test is no terminal, and nobody waits for minutes."""
    monkeypatch.setattr("nacre.cli.chat.terminal.has_colour", lambda: colour)
    monkeypatch.setattr("nacre.cli.chat.terminal.is_terminal", lambda: True)
    now = 0.0
    monkeypatch.setattr("nacre.cli.chat.terminal.time.monotonic", lambda: now)
    printer = TurnPrinter()
    printer.start()
    for second in range(100):
        now = float(second)
        printer.tick()
    shown = capsys.readouterr().out
    if colour:
        assert "working 3 s" in shown and "working 99 s" in shown and "\n" not in shown
    else:
        assert shown.splitlines() == [f"… working {seconds} s" for seconds in (10, 20, 40, 80)]


def test_a_passing_line_is_gone_before_anything_else_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Patched, because the output of a test is no terminal."""
    monkeypatch.setattr("nacre.cli.chat.terminal.has_colour", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    printer = TurnPrinter()
    printer.passing("weaver: Reading a\x1b[2Jlong name.py")
    shown = capsys.readouterr().out
    assert "\x1b[2J" not in shown
    assert shown.endswith("\x1b[K")
    printer.show(TextDelta("It"))
    assert capsys.readouterr().out == "\r\x1b[KIt"
    printer.passing("weaver: Reading b.py")
    assert capsys.readouterr().out == ""
    printer.show(ToolCallEvent(ToolCall("1", "Agent", {})))
    capsys.readouterr()
    with printer.held():
        printer.passing("weaver: Reading c.py")
    assert capsys.readouterr().out == ""
