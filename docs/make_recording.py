"""Records docs/img/chat.svg, the moving picture of the README: the real app and the simulator over HTTP.

Run `python docs/make_recording.py` where the extra `dev` is installed, and look at what it recorded. Rows of
the screen that stay the same are drawn once; each is shown for as long as it was there.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from functools import partial
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
os.environ.update(COLORTERM="truecolor", TERM="xterm-256color")

from rich.color import Color  # noqa: E402
from rich.style import Style  # noqa: E402
from rich.terminal_theme import SVG_EXPORT_THEME  # noqa: E402
from textual.strip import Strip  # noqa: E402

from nacre.cli.chat.chat import slash_commands  # noqa: E402
from nacre.devtools.sim import Simulator  # noqa: E402
from nacre.settings import load  # noqa: E402
from nacre.tui.app import ChatApp  # noqa: E402
from nacre.tui.start import Start  # noqa: E402
from tests.tui.stage import QUIET, Stage  # noqa: E402

COLUMNS = 90
ROWS = 26
CELL = (8.4, 18.0)
"""Width and height of a cell."""
PAGE = ROOT / "docs" / "img" / "chat.svg"
FOLDER = Path("/tmp/reel")
"""As long as the name it is given in the picture, so that every letter keeps its place."""
SOURCE = "def total(prices):\n    return round(sum(prices))\n"
SCRIPT = (
    {
        "text": "I read it first.",
        "tool_calls": [{"name": "Read", "input": {"file_path": str(FOLDER / "work/billing.py")}}],
    },
    {
        "text": "It **rounds the sum**, which loses the cents.",
        "tool_calls": [
            {
                "name": "Edit",
                "input": {
                    "file_path": str(FOLDER / "work/billing.py"),
                    "old_string": "round(sum(prices))",
                    "new_string": "round(sum(prices), 2)",
                },
            }
        ],
    },
    "Mended: `total([0.1, 0.25])` is **0.35** now.\n\n- the sum keeps two decimals\n- nothing else changed\n",
)


class Frame(NamedTuple):
    """The rows of the screen at a moment, as SVG."""

    at: float
    rows: list[str]


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "work").mkdir(parents=True)
    (FOLDER / "work" / "billing.py").write_text(SOURCE, encoding="utf-8")
    os.chdir(FOLDER / "work")
    try:
        frames = asyncio.run(record())
    finally:
        shutil.rmtree(FOLDER)
    PAGE.write_text(animated(frames), encoding="utf-8")


async def record() -> list[Frame]:
    """Type, answer and look around, and take a frame after each step."""
    frames: list[Frame] = []
    async with Simulator(SCRIPT) as sim:
        environ = {
            **QUIET,
            "HOME": str(FOLDER),
            "NACRE_HOME": str(FOLDER / "home"),
            "PATH": "/usr/bin:/bin",
            "ANTHROPIC_API_KEY": "any",
            "ANTHROPIC_BASE_URL": sim.url,
        }
        settings = load(FOLDER / "work", environ, cli={"model": "claude-sonnet-5-5"})
        app = ChatApp(Start(settings=settings, session="new", slash=partial(slash_commands, settings)))
        app.theme = "ansi-dark"
        try:
            async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
                await play(Stage(app, pilot), frames)
        finally:
            await app.abandon()
    return frames


async def play(stage: Stage, frames: list[Frame]) -> None:
    """The scene."""

    async def show(seconds: float) -> None:
        await stage.pilot.pause()
        strips = stage.app.screen._compositor.render_strips()
        at = frames[-1].at if frames else 0.0
        frames.append(Frame(at, [drawn(strip) for strip in strips]))
        frames.append(Frame(at + seconds, frames[-1].rows))

    async def type_in(text: str) -> None:
        for place in range(0, len(text), 3):
            await stage.type(text[place : place + 3])
            await show(0.1)
        await show(0.4)

    await stage.until(lambda: stage.app.is_idle and stage.app.ready is not None, "the session is open")
    await stage.see("remembered")
    await show(1.6)
    await type_in("#invoices are rounded to cents")
    await stage.pilot.press("enter")
    await stage.see("saved")
    await show(1.4)
    await type_in("why is total() in billing.py wrong?")
    await stage.pilot.press("enter")
    await stage.see("Edit needs your permission")
    await show(2.6)
    await asyncio.sleep(0.5)  # keys that come sooner were meant for a message
    await stage.pilot.press("y")
    await stage.see("nothing else changed")
    await stage.until(lambda: stage.app.is_idle, "the turn ends")
    await show(3.0)
    await type_in("/context")
    await stage.pilot.press("enter")
    await stage.see("system")
    await stage.until(lambda: stage.app.is_idle, "it is shown")
    await show(2.6)
    await stage.pilot.press("f2")
    await stage.see("invoices")
    await show(3.0)
    await stage.pilot.press("escape")


def drawn(strip: Strip) -> str:
    """Return a row: boxes for backgrounds, then its texts, each at its column."""
    boxes, texts, column = [], [], 0
    for segment in strip:
        style = segment.style or Style()
        width = segment.cell_length
        ink, ground = colour(style.color, "foreground"), colour(style.bgcolor, "background")
        if style.reverse:
            ink, ground = ground or GROUND, ink or INK
        x = round(column * CELL[0], 1)
        if ground and ground != GROUND:
            boxes.append(f'<rect x="{x}" width="{round(width * CELL[0], 1)}" height="18" fill="{ground}"/>')
        if segment.text.strip():
            looks = f' fill="{ink}"' if ink and ink != INK else ""
            looks += ' font-weight="bold"' * bool(style.bold) + ' font-style="italic"' * bool(style.italic)
            looks += ' opacity=".6"' * bool(style.dim)
            text = segment.text.rstrip()
            shown = text.lstrip().replace(" ", NBSP)
            skipped = len(text) - len(text.lstrip())
            x = round((column + skipped) * CELL[0], 1)
            length = round((len(text) - skipped) * CELL[0], 1)
            texts.append(f'<text x="{x}" y="14" textLength="{length}"{looks}>{escape(shown)}</text>')
        column += width
    return "".join([*boxes, *texts])


NBSP = "\N{NO-BREAK SPACE}"
"""Other spaces in a row are drawn as one."""
INK = SVG_EXPORT_THEME.foreground_color.hex
GROUND = SVG_EXPORT_THEME.background_color.hex


def colour(given: Color | None, which: str) -> str:
    """Return a colour as the theme of the pictures has it; empty for the default one."""
    if given is None or given.is_default:
        return ""
    return given.get_truecolor(SVG_EXPORT_THEME, foreground=which == "foreground").hex


def animated(frames: list[Frame]) -> str:
    """Return the frames as one picture that runs for ever; every distinct row is in it once."""
    end = frames[-1].at
    spans: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for now, after in zip(frames, [*frames[1:], Frame(end, [])], strict=True):
        for y, row in enumerate(now.rows):
            if row and after.at > now.at:
                shown = spans.setdefault((y, row), [])
                if shown and shown[-1][1] == now.at:
                    shown[-1] = (shown[-1][0], after.at)
                else:
                    shown.append((now.at, after.at))
    width, height = round(COLUMNS * CELL[0] + 20), round(ROWS * CELL[1] + 20)
    rows = [row_element(y, row, shown, end) for (y, row), shown in spans.items()]
    text = "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="{INK}">',
            "<title>A chat with nacre: a memory, a change with a question, what fills the window</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>',
            '<g transform="translate(10 10)">',
            *rows,
            "</g>",
            "</svg>",
            "",
        ]
    )
    text = text.replace(str(FOLDER), "/home/you").replace("-tmp-reel", "-home-you")
    return re.sub(r"\s+$", "\n", text)


def row_element(y: int, row: str, shown: list[tuple[float, float]], end: float) -> str:
    """Return a row that is visible in these spans of time."""
    place = f'transform="translate(0 {round(y * CELL[1])})"'
    if shown == [(0.0, end)]:
        return f"<g {place}>{row}</g>"
    times, values = [0.0], ["visible" if shown[0][0] == 0 else "hidden"]
    for begin, stop in shown:
        for at, value in ((begin, "visible"), (stop, "hidden")):
            if 0 < at < end:
                times.append(at)
                values.append(value)
    keys = ";".join(f"{at / end:.4f}" for at in times)
    return (
        f'<g {place} visibility="{values[0]}"><animate attributeName="visibility" calcMode="discrete" '
        f'dur="{end:.1f}s" repeatCount="indefinite" keyTimes="{keys}" values="{";".join(values)}"/>{row}</g>'
    )


main()
