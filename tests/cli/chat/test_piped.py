"""What is piped into `nacre -p`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import click
import pytest

from nacre.cli.chat import print_mode as piped
from nacre.cli.chat.print_mode import with_piped

Pipe = Callable[[bytes | None], None]


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    """Puts bytes on stdin and closes it; None leaves it open and says nothing."""
    held: list[int] = []
    opened: list[TextIO] = []

    def put(data: bytes | None) -> None:
        heard, said = os.pipe()
        if data is None:
            held.append(said)
        else:
            os.write(said, data)
            os.close(said)
        opened.append(os.fdopen(heard, encoding="utf-8"))
        monkeypatch.setattr(sys, "stdin", opened[-1])

    yield put
    for one in opened:
        one.close()
    for number in held:
        os.close(number)


def test_what_is_piped_in_stands_behind_the_prompt(pipe: Pipe) -> None:
    pipe(b"def heron(): ...\n")
    assert with_piped("what does this do?") == "what does this do?\n\ndef heron(): ...\n"


def test_a_dash_takes_all_of_the_prompt_from_stdin(pipe: Pipe) -> None:
    pipe("wie groß?\n".encode())
    assert with_piped("-") == "wie groß?\n"


@pytest.mark.parametrize("data", [b"", b" \n\n"])
def test_a_pipe_without_a_word_adds_nothing_and_is_no_prompt(pipe: Pipe, data: bytes) -> None:
    pipe(data)
    assert with_piped("hello") == "hello"
    pipe(data)
    with pytest.raises(click.UsageError, match="stdin is empty"):
        with_piped("-")


def test_a_pipe_that_stays_silent_is_not_waited_for(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(piped, "SILENT_SECONDS", 0.01)
    pipe(None)
    assert with_piped("hello") == "hello"
    assert "going on without it" in capsys.readouterr().err


def test_a_file_is_read_and_a_device_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tmp_path / "notes"
    written.write_text("the stove is hot")
    with written.open(encoding="utf-8") as notes, Path(os.devnull).open(encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", notes)
        assert with_piped("remember:") == "remember:\n\nthe stove is hot"
        monkeypatch.setattr(sys, "stdin", nothing)
        assert with_piped("hello") == "hello"
        monkeypatch.setattr(sys, "stdin", None)
        assert with_piped("hello") == "hello"


def test_what_is_no_text_is_refused_in_one_line(pipe: Pipe) -> None:
    pipe(b"\xff\xfe\x00")
    with pytest.raises(click.UsageError, match="not UTF-8 text"):
        with_piped("hello")
