"""The real program on a pty of 80 by 24: talk, leave, be ended, crash; the terminal stays as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nacre.cli.chat import chat
from nacre.cli.options import RunOptions
from tests.cli.program import world
from tests.stories.processes import SAFETY_SECONDS

ALTERNATE_ON, ALTERNATE_OFF, CURSOR_ON = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"
CRASHING = """
import sys
from nacre.cli.main import main
from nacre.tui.talk import Talk
async def broken(self, *given):
    raise ZeroDivisionError("split by zero")
Talk.play = broken
sys.exit(main(["chat"]))
"""


class Screen:
    """A pty, the program behind it and all that it has written."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, slave: int) -> None:
        self.process = process
        self.written = b""
        self._master = master
        self._slave = slave
        self._before = termios.tcgetattr(slave)

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def see(self, words: bytes) -> None:
        deadline = time.monotonic() + SAFETY_SECONDS
        while words not in self.written:
            assert time.monotonic() < deadline, self.written[-2_000:]
            self._read()

    def sees_after(self, keys: bytes, words: bytes) -> None:
        """Type keys, and wait for words that were not there before."""
        self.written = b""
        self.type(keys)
        self.see(words)

    def see_last(self, words: bytes) -> None:
        """Wait until these are the last bytes: an input line is read only after its prompt."""
        deadline = time.monotonic() + SAFETY_SECONDS
        while not self.written.endswith(words):
            assert time.monotonic() < deadline, self.written[-2_000:]
            self._read()

    def ends(self) -> int:
        deadline = time.monotonic() + SAFETY_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.written[-2_000:]
            self._read()
        self._read()
        return self.process.returncode

    def is_as_it_was(self) -> bool:
        """Cooked again, on the main screen, with a cursor."""
        tail = self.written[self.written.rindex(ALTERNATE_ON) :]
        return ALTERNATE_OFF in tail and CURSOR_ON in tail and termios.tcgetattr(self._slave) == self._before

    def hang_up(self) -> None:
        """Close the terminal, as its window does."""
        os.close(self._slave)
        os.close(self._master)

    def _read(self) -> None:
        while select.select([self._master], [], [], 0.05)[0]:
            self.written += os.read(self._master, 65_536)


@contextmanager
def screen(cwd: Path, *args: str, **environ: str) -> Iterator[Screen]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, *args],
        cwd=cwd,
        env=world(cwd, **{"TERM": "xterm-256color", **environ}),
        stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    try:
        yield Screen(process, master, slave)
    finally:
        process.kill()
        process.wait(timeout=SAFETY_SECONDS)
        for descriptor in (slave, master):
            with suppress(OSError):  # hung up
                os.close(descriptor)


@pytest.mark.slow
def test_a_conversation_with_the_engine_that_needs_no_key(tmp_path: Path) -> None:
    """P3: two keys and a word, an answer, and the terminal as it was."""
    with screen(tmp_path, "-m", "nacre", "chat") as person:
        person.see(b"Say something")
        person.type(b"/help\r")
        person.see(b"F2 F3 F4")
        person.type(b"remember that we deploy on Mondays\r")
        person.see(b"Saved to")
        person.type(b"\x04")
        assert person.ends() == 0
        assert person.is_as_it_was()
        assert b"continue it with: nacre --resume" in person.written[person.written.rindex(ALTERNATE_OFF) :]
    assert (tmp_path / "home" / "chat_history").read_text() == "/help\nremember that we deploy on Mondays\n"
    assert len(list((tmp_path / "home" / "projects").rglob("*.jsonl"))) == 1


PASTED = b"\x1b[200~" + b"\r".join(b"line %d" % n for n in range(5_000)) + b"\x1b[201~"
F2, F3, CTRL_C, CTRL_G, CTRL_R, SHIFT_TAB, ESCAPE = (
    b"\x1bOQ",
    b"\x1bOR",
    b"\x03",
    b"\x07",
    b"\x12",
    b"\x1b[Z",
    b"\x1b",
)


@pytest.mark.slow
def test_habits_from_other_terminals_work_in_a_real_one(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "billing.py").write_text("a = 1\n")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'from the editor' > \"$1\"\n")
    editor.chmod(0o755)
    with screen(tmp_path, "-m", "nacre", "chat", VISUAL=str(editor)) as person:
        person.see(b"nothing is remembered")
        person.sees_after(b"!echo he$((1))ron\r", b"he1ron")
        person.sees_after(b"#we deploy on Mondays\r", b"saved project_deploy_mondays.md")
        person.sees_after(b"look at @sr", b"@src/")
        person.sees_after(b"\t", b"@src/billing.py")
        person.sees_after(CTRL_C, b"ay something")
        person.sees_after(PASTED, b"[paste 1: 5,000 lines]")
        person.sees_after(CTRL_C, b"ay something")
        for mode in (b"accept edits", b"plan", b"read only"):
            person.sees_after(SHIFT_TAB, mode + b" (Shift+Tab)")
        person.type(SHIFT_TAB)
        person.sees_after(CTRL_R, b"Earlier input")
        person.sees_after(b"mond\r", b"#we deploy on Mondays")
        person.sees_after(CTRL_C, b"ay something")
        person.sees_after(CTRL_G, b"from the editor")
        person.sees_after(CTRL_C, b"ay something")
        person.sees_after(b"/theme light\r", b"theme light")
        person.sees_after(F2, b"we deploy on Mondays")
        person.sees_after(b"/heron", b"no memory has these words")
        person.sees_after(ESCAPE, b"deploy_mondays")
        person.sees_after(ESCAPE, b"ay something")
        person.sees_after(F3, b"there is nothing to choose")
        person.sees_after(ESCAPE, b"ay something")
        person.sees_after(
            b"what files are here?\r", b"\x1b]0;nacre \xc2\xb7 " + tmp_path.name.encode() + b"\x07"
        )
        person.sees_after(b"/rewind\r", b"Go back to before a message")
        person.sees_after(b"\r", b"was rewound to before")
        person.sees_after(CTRL_C, b"ay something")
        person.type(b"\x04")
        assert person.ends() == 0
        assert b"\x1b[23;2t" in person.written, "the title is given back"


@pytest.mark.slow
def test_keys_before_the_screen_and_before_the_session_are_kept(tmp_path: Path) -> None:
    with screen(tmp_path, "-m", "nacre", "chat") as person:
        person.type(b"remember that we")  # nothing reads the terminal yet
        person.see(b"remember")
        person.type(b" deploy on Mondays\r")  # the screen is there, the session may not be
        person.see(b"Saved to project_deploy_mondays.md")


@pytest.mark.slow
def test_in_line_mode_a_rewind_gives_the_message_back_and_the_end_names_the_session(tmp_path: Path) -> None:
    with screen(tmp_path, "-m", "nacre", "chat", "--line") as person:
        person.see_last(b"> ")
        person.type(b"remember that we deploy on Mondays\r")
        person.see(b"Saved to")
        person.see_last(b"> ")
        person.type(b"/rewind 1\r")
        person.see_last(b"\r\n> remember that we deploy on Mondays")
        person.type(b" or Fridays\r")
        person.see(b"remember we deploy on Mondays or Fridays")
        person.see_last(b"> ")
        person.type(b"\x04")
        assert person.ends() == 0
        assert b"continue it with: nacre --resume" in person.written


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_polite_kill_gives_the_terminal_back_and_keeps_what_was_typed(
    tmp_path: Path, number: signal.Signals
) -> None:
    with screen(tmp_path, "-m", "nacre", "chat") as person:
        person.see(b"Say something")
        person.type(b"remember that we deploy on Mondays\r")
        person.see(b"Saved to")
        person.process.send_signal(number)
        assert person.ends() == 128 + number
        assert person.is_as_it_was()
    assert (tmp_path / "home" / "chat_history").read_text() == "remember that we deploy on Mondays\n"


@pytest.mark.slow
@pytest.mark.parametrize("ignored", ["", "signal.signal(signal.SIGHUP, signal.SIG_IGN); "])
def test_a_closed_window_ends_the_chat(tmp_path: Path, ignored: str) -> None:
    """Not a process that waits for a terminal that is gone, with the session locked."""
    program = f"import signal, sys; {ignored}from nacre.__main__ import main; sys.exit(main())"
    with screen(tmp_path, "-c", program) as person:
        person.see(b"Say something")
        person.type(b"remember that we deploy on Mondays\r")
        person.see(b"Saved to")
        person.hang_up()
        assert person.process.wait(timeout=SAFETY_SECONDS) == 128 + signal.SIGHUP
    assert (tmp_path / "home" / "chat_history").read_text() == "remember that we deploy on Mondays\n"


SLOW_END = """
import asyncio, sys
from nacre.__main__ import main
from nacre.tui.app import ChatApp
end_by = ChatApp.end_by
def late(self, code):
    loop = asyncio.get_running_loop()
    def draw():
        self._driver.write("x" * 100)
        loop.call_later(0.01, draw)
    draw()
    loop.call_later(2, end_by, self, code)
ChatApp.end_by = late
sys.exit(main())
"""


@pytest.mark.slow
def test_an_end_that_takes_long_does_not_wait_for_a_closed_window(tmp_path: Path) -> None:
    with screen(tmp_path, "-c", SLOW_END) as person:
        person.see(b"Say something")
        person.hang_up()
        assert person.process.wait(timeout=SAFETY_SECONDS) == 128 + signal.SIGHUP


@pytest.mark.slow
def test_a_crash_is_one_line_on_a_terminal_that_is_as_it_was(tmp_path: Path) -> None:
    with screen(tmp_path, "-c", CRASHING) as person:
        person.see(b"Say something")
        person.type(b"hello\r")
        assert person.ends() == 1
        assert person.is_as_it_was()
        last = person.written[person.written.rindex(ALTERNATE_OFF) :].decode()
        assert "split by zero" in last
        assert "Traceback" not in last
    assert (tmp_path / "home" / "chat_history").read_text() == "hello\n"


@pytest.mark.parametrize(
    ("environ", "is_screen"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({}, False),
        ({"TERM": "xterm", "NACRE_TUI": "0"}, False),
    ],
)
def test_the_screen_is_for_terminals_that_can(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], is_screen: bool
) -> None:
    """Patched because a test has no terminal."""
    monkeypatch.setattr(chat, "is_terminal", lambda *_: True)
    assert chat.fits_screen(RunOptions(), environ) == is_screen
    assert not chat.fits_screen(RunOptions(line=True), environ)
    monkeypatch.setattr(chat, "find_spec", lambda _: None)
    assert not chat.fits_screen(RunOptions(), environ)


def test_a_pipe_never_gets_a_screen() -> None:
    assert not chat.fits_screen(RunOptions(), {"TERM": "xterm"})


@pytest.mark.slow
def test_a_screen_reader_gets_lines_in_words_that_stay(tmp_path: Path) -> None:
    """No escape sequence of nacre's own, and no line is written over."""
    with screen(tmp_path, "-m", "nacre", "chat", "--screen-reader") as person:
        person.see_last(b"You: ")
        person.type(b"remember that we deploy on Mondays\r")
        person.see(b"Answer: ")
        person.see(b"Turn ended. Context ")
        person.see_last(b"You: ")
        person.type(b"what files are here?\r")
        person.see(b"Tool: ")
        person.see(b"  Result: ")
        person.see_last(b"You: ")
        person.type(b"/exit\r")
        assert person.ends() == 0
    text = person.written.replace(b"\x1b[?2004h", b"").replace(b"\x1b[?2004l\r", b"")  # readline's own
    assert b"\x1b" not in text
    assert b"\r" not in text.replace(b"\r\n", b"")
