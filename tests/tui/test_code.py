"""Syntax colours: every line keeps its place and its text, whatever is in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nacre.testing import ScriptedProvider, call, say
from nacre.tui.code import MAX_TINT_WIDTH, coloured, diff_lines
from tests.tui.stage import staged

LINES = st.lists(st.text(st.sampled_from("ab \"'#{\\\x0c\x1e\u2028\u0085\ufeff"), max_size=6), max_size=5)


@given(LINES, st.sampled_from(["python", "bash", "json", "no language", ""]))
@example(["", "x = 1", ""], "python")
def test_every_line_stays_one(lines: list[str], language: str) -> None:
    shown = coloured("\n".join(lines), language)
    assert len(shown) == max(1, len(lines))
    for line, now in zip(lines, shown, strict=False):
        assert "".join(now.plain.split()) == "".join(line.split())


def test_a_change_beside_an_empty_line_is_drawn() -> None:
    rows = [("1", " "), ("2", "-b = 1"), ("2", "+b = 2"), ("3", " ")]
    shown = [line.plain.rstrip() for line in diff_lines(rows, "billing.py")]
    assert shown == ["1", "2 - b = 1", "2 + b = 2", "3"]


def test_the_colours_of_a_change_end_in_one_column() -> None:
    rows = [("1", "-b"), ("1", "+b = 2222"), ("2", " c"), ("3", "+" + "d" * 200)]
    removed, added, kept, long = (line.plain for line in diff_lines(rows, "billing.py"))
    assert len(removed) == len(added) == 4 + MAX_TINT_WIDTH < 80 < len(long)
    assert kept == "2   c"


@pytest.mark.parametrize("text", ["\n\nb = 1\n\n\n", "b = 1"])
async def test_a_question_about_a_change_beside_empty_lines_is_asked(
    tmp_path: Path, provider: ScriptedProvider, text: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    file = work / "billing.py"
    file.write_text(text)
    edit = call("Edit", file_path=str(file), old_string="b = 1", new_string="b = 2")
    provider.script(call("Read", file_path=str(file)), edit, say("Done."))
    async with staged(tmp_path, provider) as stage:
        await stage.paste("change it")
        await stage.pilot.press("enter")
        await stage.see("Edit needs your permission")
        await stage.pilot.press("y")
        await stage.see("Done.")
    assert file.read_text() == text.replace("1", "2")
