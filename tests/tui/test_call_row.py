"""Calls in the conversation: gone to, opened and left by keys; what came of them is always there to see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nacre.testing import ScriptedProvider, call, say, together
from nacre.tui.pieces import Called, Piece, ReplyText, Resulted
from nacre.tui.prompt import Area
from nacre.tui.transcript import CallRow
from tests.tui.stage import staged


@pytest.mark.slow
async def test_what_is_typed_at_a_call_goes_into_the_input(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Whoever looked at a call and types on has not lost a letter, and never has to look for the input."""
    provider.script(
        together(call("Bash", command="echo one"), call("Bash", command="echo two")), say("Well.")
    )
    async with staged(tmp_path, provider) as stage:
        await stage.say("go")
        await stage.pilot.press("ctrl+up", "up", "enter")
        await stage.see("command: echo one")
        await stage.type("no way")
        assert stage.app.prompt.text == "no way"
        await stage.pilot.press("tab")
        assert isinstance(stage.app.focused, Area)
        await stage.pilot.press("x")
        assert stage.app.prompt.text == "no wayx"
        await stage.pilot.press("ctrl+up")
        await stage.paste("!")
        await stage.pilot.press("ctrl+up", "escape", "y")
        assert stage.app.prompt.text == "no wayx!y"


async def test_what_is_opened_is_read_from_its_head_and_closed_from_where_one_was(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(call("Bash", command="seq 1 90"), say("\n\n".join(f"Words {n}." for n in range(5))))
    async with staged(tmp_path, provider) as stage:
        await stage.say("go")
        await stage.pilot.press("ctrl+o")
        assert (await stage.see("     command: seq 1 90")).startswith(" ▾ Bash seq 1 90")
        await stage.pilot.press("pagedown")
        assert "\n     20" in await stage.see("\n     30")  # a page, and not the end
        await stage.pilot.press("ctrl+o")
        await stage.see("Words 4.")


async def test_where_a_long_result_lies_stands_at_its_call_and_nowhere_else(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Layer 1: the file's name is not cut off, and the whole path is there once the call is opened."""
    provider.script(call("Bash", command="seq 1 20000"), say("Long."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("count")
        assert "tokens kept in …/tool-results/call_1.txt\n" in stage.text
        assert "characters kept in" not in stage.text
        assert re.search(r"saved ≈\$0\.\d{4} \(offload\)$", stage.text.splitlines()[-2])
        (row,) = stage.app.transcript.query(CallRow)
        await stage.pilot.press("ctrl+o", "pagedown")
        assert row.kept.startswith(str(stage.app.talk.settings.home))
        assert row.kept in str(row.content)
    async with staged(tmp_path, ScriptedProvider(), session="latest") as stage:
        await stage.see("▸ Bash seq 1 20000\n   └ … ")  # as it was, and not the pointer's own words
        await stage.see("tokens kept in …/tool-results/call_1.txt\n")


@pytest.mark.parametrize(
    "pieces",
    [
        (Called("1", "Bash(x)", ""), Resulted("1", "the end of it", "")),
        (ReplyText("one ", is_thinking=True), ReplyText("two " * 60 + "the end of it", is_thinking=True)),
    ],
)
async def test_what_comes_right_after_a_line_is_laid_out_is_seen(
    tmp_path: Path, provider: ScriptedProvider, pieces: tuple[Piece, Piece]
) -> None:
    """Textual keeps the height of a widget that is laid out and changed before its first idle moment."""
    async with staged(tmp_path, provider) as stage:
        for piece in pieces:
            await stage.app.transcript.add(piece)
            stage.app.screen._refresh_layout()
        await stage.app.transcript.finish()
        await stage.see("the end of it")
