"""Pins: the last word on each result counts, whoever said it; the model has a tool for it on request."""

from __future__ import annotations

import pytest

from nacre.errors import ToolError
from nacre.layers.l2_microcompact.pin_tool import Pinboard, pin_tool
from nacre.messages.results import pin, pinned
from nacre.messages.transcript import Transcript
from nacre.testing import FrozenClock
from tests.layers.l2_microcompact.scenes import rounds, view_of


def test_the_last_word_on_a_result_counts(clock: FrozenClock) -> None:
    notes = [pin("c0", clock), pin("c1", clock), pin("c0", clock, on=False), pin("c2", clock, by="model")]
    assert pinned(view_of(3, *notes)) == {"c1", "c2"}


async def test_the_model_pins_what_it_names_or_the_newest(clock: FrozenClock) -> None:
    transcript, board = Transcript(rounds(12)), Pinboard()
    board.belong_to(transcript, clock)
    tool = pin_tool(board)
    assert await tool.call({}) == 'Pinned: the result of Bash {"n":11}'
    assert await tool.call({"about": '"n":4'}) == 'Pinned: the result of Bash {"n":4}'
    assert pinned(transcript.view) == {"c11", "c4"}
    assert await tool.call({"about": '"n":4', "keep": False}) == 'Let go: the result of Bash {"n":4}'
    assert pinned(transcript.view) == {"c11"}
    assert transcript.view.noted("pin")[-1].facts == {"call": "c4", "on": False, "by": "model"}


async def test_what_is_not_there_cannot_be_pinned(clock: FrozenClock) -> None:
    board = Pinboard()
    with pytest.raises(ToolError, match="There is no result in view yet"):
        await pin_tool(board).call({})
    board.belong_to(Transcript(rounds(1)), clock)
    with pytest.raises(ToolError, match="No result in view belongs to a call with 'weaver'"):
        await pin_tool(board).call({"about": "weaver"})
