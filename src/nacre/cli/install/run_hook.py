"""Run one hook from stdin to stdout with a time limit; never blocks the client.

Without click, which takes longer to import than the answer takes to find.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nacre.errors import NacreError

MAX_BYTES = 16_000_000
"""Maximum input: many times a prompt with a long paste."""
PROMPT_SECONDS = 5.0
"""Time limit while the user waits, usually a quarter of a second. After that the prompt is sent without
memories, and the index is built in the background."""
OTHER_SECONDS = 8.0
"""Time limit of other events, whose end the client waits for."""
WORK_SECONDS = 300.0
"""Time limit of work after the hook; longer means stuck."""
ALIVE = 0
"""The only exit code: 2 would block the client, and others are shown as errors."""


def run_hook(event: str, *, now: bool = False) -> int:
    """Answer one hook; an error is a line on stderr."""
    raw = b""
    try:
        with _ending_after(PROMPT_SECONDS if event == "UserPromptSubmit" else OTHER_SECONDS, event):
            raw = _read_input()
        with _ending_after(_seconds(event, now=now), event, raw=raw):
            _answer(event, raw, now=now)
    except NacreError as error:
        _complain(str(error))
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    except Exception as error:
        if os.environ.get("NACRE_DEBUG"):
            raise
        _complain(f"unexpected {type(error).__name__}: {error}; set NACRE_DEBUG=1 to see where")
    return ALIVE


def _answer(event: str, raw: bytes, *, now: bool) -> None:
    from nacre.integrations.claude_code.hooks import answer, work
    from nacre.integrations.claude_code.input import EVENTS

    if event not in EVENTS:
        raise NacreError(f"{event[:40]!r} is not a hook that nacre answers: {', '.join(EVENTS)}")
    if now:
        work(event, raw, os.environ)
        return
    answered = answer(event, raw, os.environ)
    given = answered.as_json(event)
    if given:
        # ASCII, so that the bytes do not depend on the client's terminal.
        sys.stdout.write(json.dumps(given, ensure_ascii=True) + "\n")
        sys.stdout.flush()
    if answered.later:
        _leave(event, raw)


def _seconds(event: str, *, now: bool) -> float:
    if now:
        return WORK_SECONDS
    return PROMPT_SECONDS if event == "UserPromptSubmit" else OTHER_SECONDS


def _read_input() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise NacreError("Claude Code runs this with JSON on stdin; see `nacre install --help`")
    raw = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise NacreError(f"the input has more than {MAX_BYTES:,} bytes; not read")
    return raw


def _leave(event: str, raw: bytes) -> None:
    """Start the remaining work in a process that the client neither waits for nor ends."""
    from nacre.process import start_detached

    # -P: the client's working directory must not be on the import path.
    command = [sys.executable, "-P", "-m", "nacre", "hook", event, "--now"]
    start_detached(command, stdin=raw)


@contextmanager
def _ending_after(seconds: float, event: str, *, raw: bytes = b"") -> Iterator[None]:
    """End the process in order if the block takes longer."""

    def end() -> None:
        _complain(f"took longer than {seconds:g} s; the client goes on without it")
        if raw and event == "UserPromptSubmit":
            _leave(event, raw)
        os._exit(ALIVE)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _complain(what: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"nacre hook: {' '.join(what.split())}\n")
        sys.stderr.flush()
