"""Replies: Markdown as lines, and a stream whose finished blocks are laid out once."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from nacre.messages.blocks import Text
from nacre.providers.scripted import Scripted
from nacre.testing import ScriptedProvider, say
from nacre.tui import markdown, reply
from nacre.tui.markdown import LONG_OPEN_CHARS, rendered, split_open
from nacre.tui.pieces import ReplyText
from nacre.tui.reply import ReplyPart
from tests.tui.stage import staged


def plain(text: str, width: int = 40) -> list[str]:
    return [line.plain for line in rendered(text, width)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a **bold** `word`", ["a bold word"]),
        ("see billing.py and example.org", ["see billing.py and example.org"]),
        ("# One\n\nTwo\nthree", ["One", "", "Two three"]),
        ("- a\n  - b\n- c", ["• a", "  ◦ b", "• c"]),
        ("9. a\n10. b", [" 9. a", "10. b"]),
        ("> quoted", ["▌ quoted"]),
        ("```python\nx = 1\n```", ["  x = 1"]),
        ("| a | b |\n|---|--:|\n| x | 1 |\n| y | 22 |", ["a   b", "─  ──", "x   1", "y  22"]),
        ("<b>html</b>", ["<b>html</b>"]),
        ("![a tree](x.png)", ["[a tree]"]),
    ],
)
def test_markdown_becomes_lines(text: str, lines: list[str]) -> None:
    assert plain(text) == lines


def test_only_what_is_written_as_a_link_is_one() -> None:
    (line,) = rendered("[page](https://example.org) billing.py [odd](javascript:x)", 80)
    assert [span.style.link for span in line.spans if getattr(span.style, "link", None)] == [
        "https://example.org"
    ]


@pytest.mark.parametrize("width", [20, 33, 60])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    text = (
        "- word word word word\n  1. " + "x" * 90 + "\n\n```\n" + "y" * 70 + "\n```\n\n> quoted words here\n"
    )
    assert max(len(line) for line in plain(text, width)) <= width


def test_a_wide_table_wraps_its_widest_column() -> None:
    lines = plain("| a | b |\n|---|---|\n| x | " + "word " * 12 + "|", 30)
    assert max(map(len, lines)) <= 30
    assert sum("word" in line for line in lines) > 1


@pytest.mark.parametrize(
    ("text", "finished", "open_text", "is_continued"),
    [
        ("one\n\ntwo", "one\n\n", "two", False),
        ("one", "", "one", False),
        ("- a\n- b", "", "- a\n- b", False),
    ],
)
def test_all_but_the_last_block_is_finished(
    text: str, finished: str, open_text: str, is_continued: bool
) -> None:
    assert split_open(text) == (finished, open_text, is_continued)


@pytest.mark.parametrize("text", ["```python\n" + "x = 1\n" * 700, "- item\n" * 700], ids=["code", "list"])
def test_a_long_block_is_split_and_looks_the_same(text: str) -> None:
    assert len(text) > LONG_OPEN_CHARS
    split = split_open(text)
    assert split.is_continued
    assert len(split.open) < 100
    assert plain(split.finished) + plain(split.open) == plain(text)


async def test_a_reply_in_pieces_looks_like_the_same_reply_at_once(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every piece is shown by itself here, so that blocks are finished at many places."""
    monkeypatch.setattr(reply, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(reply, "FLUSH_SHARE", 0)
    monkeypatch.setattr(markdown, "LONG_OPEN_CHARS", 60)
    text = "".join(
        f"## Part {n}\n\nSome *words* here.\n\n- one\n- two\n\n```python\na = 1\nb = 2\n```\n\n"
        for n in range(9)
    )
    async with staged(tmp_path, provider) as stage:
        pane = stage.app.transcript
        for at in range(0, len(text), 7):
            await pane.add(ReplyText(text[at : at + 7]))
        await pane.finish()
        await stage.pilot.pause()
        parts = list(pane.query(ReplyPart))
        width = parts[0].size.width
        shown = "\n".join(
            ("" if part.has_class("-continued") or at == 0 else "\n") + part.render().plain
            for at, part in enumerate(parts)
        )
    assert len(parts) > 1
    assert shown == "\n".join(line.plain for line in rendered(text, width))


async def test_an_update_does_not_lay_out_finished_blocks_again(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(reply, "FLUSH_SHARE", 0)
    laid_out: list[int] = []

    def counted(text: str, width: int) -> list[markdown.Content]:
        laid_out.append(len(text))
        return rendered(text, width)

    monkeypatch.setattr(reply, "rendered", counted)
    text = "Some words of a paragraph.\n\n" * 200
    async with staged(tmp_path, provider) as stage:
        for at in range(0, len(text), 56):
            await stage.app.transcript.add(ReplyText(text[at : at + 56]))
        await stage.app.transcript.finish()
        await stage.pilot.pause()
    assert sum(laid_out) < 6 * len(text)


async def test_pieces_that_come_together_are_one_update(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply, "FLUSH_SECONDS", 30.0)
    flushes: list[str] = []
    split = reply.split_open
    monkeypatch.setattr(reply, "split_open", lambda text: (flushes.append(text), split(text))[1])
    async with staged(tmp_path, provider) as stage:
        for _ in range(500):
            await stage.app.transcript.add(ReplyText("word "))
        assert len(flushes) == 1
        await stage.app.transcript.finish()
        assert len(flushes) == 2


@pytest.mark.slow
async def test_a_command_that_changes_nothing_runs_while_a_turn_works(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    gate = anyio.Event()
    provider.script(Scripted(blocks=(Text("Half of it."),), gate=gate), say("Second."))
    async with staged(tmp_path, provider) as stage:
        await stage.paste("go")
        await stage.pilot.press("enter")
        await stage.see("Half of it.")
        await stage.paste("/context")
        await stage.pilot.press("enter")
        await stage.see("Esc close")
        assert "system" in stage.text
        await stage.pilot.press("escape")
        await stage.paste("/compact")
        await stage.pilot.press("enter")
        await stage.see("1 to come")  # it would change the conversation
        await stage.pilot.press("ctrl+c")
        gate.set()
        await stage.until(lambda: stage.app.is_idle, "the turn ends")
