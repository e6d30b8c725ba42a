"""Vim keys in the input, for those who set `terminal.vim`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.widgets import TextArea

from nacre.testing import ScriptedProvider, say
from nacre.tui.vim import VimKeys
from tests.tui.stage import staged

VIM = {"NACRE_TERMINAL_VIM": "1"}


@pytest.mark.parametrize(
    ("text", "keys", "result"),
    [
        ("one two three", "bbdw", "one three"),
        ("one two", "0cwthree", "three two"),
        ("one two", "0wD", "one "),
        ("one", "0xxx", ""),
        ("one", "Ix", "xone"),
        ("one", "0Ax", "onex"),
        ("one", "otwo", "one\ntwo"),
        ("one", "Otwo", "two\none"),
        ("one\ntwo", "ggdd", "two"),
        ("one\ntwo", "kccx", "x\ntwo"),
        ("one two", "0wd0", "two"),
        ("a.b c", "0wx", "ab c"),
        ("one", "0xu", "one"),
        ("one", "zq", "one"),
        ("one", "dqx", "one"),  # a motion that does not exist ends the command
    ],
)
async def test_keys_move_and_change(
    tmp_path: Path, provider: ScriptedProvider, text: str, keys: str, result: str
) -> None:
    async with staged(tmp_path, provider, **VIM) as stage:
        await stage.paste(text)
        await stage.pilot.press("escape")
        await stage.see("N ")
        await stage.type(keys)
        assert stage.app.prompt.text == result


async def test_letters_are_letters_until_escape_and_enter_sends_in_both_modes(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(say("One."), say("Two."))
    async with staged(tmp_path, provider, **VIM) as stage:
        await stage.type("hi")
        await stage.pilot.press("enter")
        await stage.see("One.")
        await stage.type("you")
        await stage.pilot.press("escape", "enter")
        await stage.see("Two.")
        await stage.type("i/the")
        await stage.pilot.press("tab")
        assert stage.app.prompt.text == "/theme "


async def test_without_the_setting_escape_changes_nothing(tmp_path: Path, provider: ScriptedProvider) -> None:
    async with staged(tmp_path, provider) as stage:
        await stage.type("a")
        await stage.pilot.press("escape")
        await stage.type("x")
        assert stage.app.prompt.text == "ax"


@given(st.text(alphabet="hjklbwe0^$iaIAoOsSCDxXupdcgGzq", max_size=20))
def test_every_action_is_one_of_the_input(keys: str) -> None:
    vim = VimKeys()
    vim.escape()
    for key in keys:
        if vim.mode == "insert":
            vim.escape()
        for action in vim.press(key):
            own = {"cursor_begin", "cursor_end", "newline", "next_word", "delete_to_next_word"}
            assert action in own or hasattr(TextArea, f"action_{action}")
