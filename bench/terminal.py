"""The full-screen chat: what its start and a streamed reply cost in processor time, and how late keys are.

A reply of generated Markdown arrives in 1,000 pieces, once as fast as possible and once as a model sends
them. It is compared in the same run with the same reply at once, and with Textual's own Markdown widget.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import os
import pty
import resource
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from textual import events
from textual.app import App, ComposeResult
from textual.widgets import Markdown

from bench.machine import bar
from nacre import tui
from nacre.messages.blocks import JsonObject
from nacre.tui.pieces import ReplyText
from nacre.tui.prompt import Prompt
from nacre.tui.themes import ThemedApp
from nacre.tui.transcript import TranscriptPane

MAX_RATIO = 3.0
"""Processor time of a streamed reply over that of the same reply at once."""
MAX_LAG_MS = 50.0
MAX_START_RATIO = 2.0
"""Processor time of `nacre chat` to its prompt over that of a program that only imports Textual."""
MAX_START_S = {
    "nacre chat to its prompt": 0.8,
    "nacre -p hello": 0.7,
    "nacre mcp to its first tools/list": 0.625,
}
"""Half of the processor seconds that each took in November 2026, before imports were deferred."""
TEXTUAL = "import textual.app, textual.widgets; from textual.widgets import OptionList, Static, TextArea"
SHOWN_AT_START = b"ay something"
"""Words of the empty input; its first letter is under the cursor."""
HELLO = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]
SCREEN = (100, 40)
SCRIPT = str(Path(sys.executable).parent / "nacre")
SECTION = """## Section {n}

The function `parse_{n}` reads **the header** and keeps the time zone; see [the page](https://example.org/{n}).

- one thing to know
- another with `code`

```python
def parse_{n}(seconds):
    return datetime.fromtimestamp(seconds, tz=UTC)
```

| name | cost |
|---|---:|
| parse_{n} | {n} |

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    reply_bytes: tuple[int, ...] = (5_000, 20_000, 32_000)
    pieces: int = 1_000
    rounds: int = 7
    """Starts of each command."""
    steady_pause: float = 0.02
    """Seconds between two pieces of a model that writes 1.6 KB a second."""


FULL = Sizes()
TINY = Sizes(reply_bytes=(1_000,), pieces=20, rounds=1, steady_pause=0.02)


def measure(sizes: Sizes = FULL) -> JsonObject:
    rows: list[JsonObject] = []
    ratio = 0.0
    for size in sizes.reply_bytes:
        text = _made(size)
        once = asyncio.run(_streamed(text, 1, 0.0)).cpu
        pieces = asyncio.run(_streamed(text, sizes.pieces, 0.001)).cpu
        ratio = round(pieces / once, 2)
        rows.append(
            {"bytes": size, "at_once_cpu_s": round(once, 3), "pieces_cpu_s": round(pieces, 3), "ratio": ratio}
        )
    text = _made(sizes.reply_bytes[-1])
    steady = asyncio.run(_streamed(text, sizes.pieces, sizes.steady_pause))
    keys = asyncio.run(_streamed(text, sizes.pieces, sizes.steady_pause, is_typing=True)).lags
    lags = [each.ms for each in keys]
    worked = [each.cpu_ms for each in keys]
    start = _start_cpu(sizes.rounds)
    start_ratio = round(start["nacre chat to its prompt"] / start["import of Textual"], 2)
    return {
        "start_cpu_s": dict(start),
        "pieces": sizes.pieces,
        "rows": rows,
        "textual_markdown_at_once_cpu_s": round(asyncio.run(_cpu_of_textual(text)), 3),
        "steady": {
            "seconds": round(steady.seconds, 1),
            "cpu_s": round(steady.cpu, 3),
            "share_of_a_core": round(steady.cpu / steady.seconds, 3),
        },
        "key_lag_ms": {
            "keys": len(lags),
            "median": round(median(lags), 1),
            "p95": round(quantiles(lags, n=20)[-1], 1),
            "most": round(max(lags), 1),
        },
        "key_cpu_ms": {
            "median": round(median(worked), 1),
            "p95": round(quantiles(worked, n=20)[-1], 1),
            "most": round(max(worked), 1),
        },
        "bars": [
            bar("CPU of a reply of 32 KB in 1,000 pieces over the same at once", ratio, at_most=MAX_RATIO),
            bar(
                "CPU of `nacre chat` to its prompt over an import of Textual",
                start_ratio,
                at_most=MAX_START_RATIO,
            ),
            *(
                bar(f"processor seconds of `{name.partition(' to ')[0]}`", start[name], at_most=most)
                for name, most in MAX_START_S.items()
            ),
            bar("95 of 100 keys lag at most, ms", round(quantiles(lags, n=20)[-1], 1), at_most=MAX_LAG_MS),
            bar(
                "most processor time between a key and the input that shows it, ms",
                round(max(worked), 1),
                at_most=MAX_LAG_MS,
            ),
        ],
    }


def _start_cpu(rounds: int) -> dict[str, float]:
    """Return the median processor seconds of each start, with compiled files."""
    commands = {
        "import of Textual": lambda folder: _cpu_of_child([sys.executable, "-c", TEXTUAL], folder),
        "nacre chat to its prompt": _cpu_of_chat,
        "nacre -p hello": lambda folder: _cpu_of_child([SCRIPT, "-p", "hello"], folder),
        "nacre mcp to its first tools/list": _cpu_of_mcp,
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(-1, rounds):
            for name, run in commands.items():
                seconds = run(folder)
                if turn >= 0:  # the round before only compiled the files
                    taken[name].append(seconds)
    return {name: round(median(each), 3) for name, each in taken.items()}


def _environ(folder: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": folder, "TERM": "xterm-256color", "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}


def _cpu_of_child(command: list[str], folder: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=_environ(folder))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _cpu_of_chat(folder: str) -> float:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [SCRIPT, "chat"], cwd=folder, env=_environ(folder), stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True,
    )  # fmt: skip
    try:
        written = b""
        while SHOWN_AT_START not in written:
            written += os.read(master, 65_536)
        return _cpu_so_far(process.pid)
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)


def _cpu_of_mcp(folder: str) -> float:
    process = subprocess.Popen(
        [SCRIPT, "mcp"], cwd=folder, env=_environ(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for message in HELLO:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            if "id" in message:
                process.stdout.readline()
        return _cpu_so_far(process.pid)
    finally:
        process.kill()
        process.communicate()


def _cpu_so_far(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _made(size: int) -> str:
    sections = ""
    number = 0
    while len(sections) < size:
        number += 1
        sections += SECTION.format(n=number)
    return sections[:size]


class _Screen(ThemedApp):
    """Transcript and input of the chat, without a session."""

    CSS_PATH = Path(tui.__file__).with_name("style.tcss")

    def __init__(self) -> None:
        super().__init__()
        self.transcript = TranscriptPane(lambda _: None)
        self.prompt = Prompt({}, [])

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self.prompt


class KeyLag(NamedTuple):
    """Time from a key to the input that has it: passed, and worked by this process in it.

    The second is what passes where no other process has the processor.
    """

    ms: float
    cpu_ms: float


class Streamed(NamedTuple):
    """Processor seconds and seconds until a reply is on the screen, and the lag of each key."""

    cpu: float
    seconds: float
    lags: list[KeyLag]


async def _streamed(text: str, pieces: int, pause: float, *, is_typing: bool = False) -> Streamed:
    app = _Screen()
    step = -(-len(text) // pieces)
    lags: list[KeyLag] = []
    gc.collect()
    gc.freeze()  # as the chat does: what was imported, and here what earlier runs left, is not collected
    async with app.run_test(size=SCREEN) as pilot:
        await pilot.pause()
        began = time.monotonic()
        cpu = time.process_time()
        typing = asyncio.create_task(_typed(app, lags)) if is_typing else None
        for at in range(0, len(text), step):
            await app.transcript.add(ReplyText(text[at : at + step]))
            await asyncio.sleep(pause)
        await app.transcript.finish()
        await pilot.pause()
        result = Streamed(time.process_time() - cpu, time.monotonic() - began, lags)
        if typing is not None:
            typing.cancel()
            await asyncio.wait({typing})
        return result


async def _typed(app: _Screen, lags: list[KeyLag]) -> None:
    """Press a key twenty times a second and measure until the input has it."""
    while True:
        await asyncio.sleep(0.05)
        before = len(app.prompt.text)
        began, worked = time.monotonic(), time.process_time()
        app.post_message(events.Key("x", "x"))
        while len(app.prompt.text) == before:
            await asyncio.sleep(0.001)
        lags.append(KeyLag((time.monotonic() - began) * 1000, (time.process_time() - worked) * 1000))


async def _cpu_of_textual(text: str) -> float:
    class Peer(App[None]):
        def compose(self) -> ComposeResult:
            yield Markdown()

    app = Peer()
    async with app.run_test(size=SCREEN) as pilot:
        await pilot.pause()
        began = time.process_time()
        await app.query_one(Markdown).update(text)
        await pilot.pause()
        return time.process_time() - began
