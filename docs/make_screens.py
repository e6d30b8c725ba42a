"""Draws the pictures of the terminal: the real app, a scripted provider, a frozen clock.

Those of docs/how-to/terminal.md in one size, twelve states of the chat in three sizes.

Run `python docs/make_screens.py` where the extra `dev` is installed, and look at what it has drawn.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
os.environ.update(COLORTERM="truecolor", TERM="xterm-256color")

import anyio  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME  # noqa: E402

from nacre.memory.format.entry import MemoryChange, MemoryDraft  # noqa: E402
from nacre.messages.blocks import Text  # noqa: E402
from nacre.providers.scripted import Scripted  # noqa: E402
from nacre.testing import Cast, FrozenClock, ScriptedProvider, call, say, together  # noqa: E402
from tests.tui.stage import Stage, staged  # noqa: E402

SIZE = (100, 28)
SIZES = ((80, 24), (120, 40), (200, 50))
STAGE = Path("/tmp/demo")
"""As long as the name it is given in the pictures, so that every letter keeps its place."""
CLOCK = FrozenClock()
SOURCE = (
    "from datetime import datetime\n\n\ndef parse(seconds):\n    return datetime.fromtimestamp(seconds)\n"
)
REPLY = """The tests fail because `parse` **drops the time zone**:

1. `read_header` keeps it,
2. `parse` builds a naive `datetime`.

```python
return datetime.fromtimestamp(seconds, tz=UTC)
```

Shall I change it, and add a test?
"""


def main() -> None:
    try:
        prepare()
        asyncio.run(draw(STAGE, CLOCK))
        asyncio.run(draw_agents(STAGE, CLOCK))
        for size in SIZES:
            prepare()
            asyncio.run(draw_states(STAGE, FrozenClock(), size))
    finally:
        shutil.rmtree(STAGE)


def prepare() -> None:
    """Go to a new directory with one file: paths below it are shown short."""
    shutil.rmtree(STAGE, ignore_errors=True)
    (STAGE / "work").mkdir(parents=True)
    (STAGE / "work" / "clock.py").write_text(SOURCE, encoding="utf-8")
    os.chdir(STAGE / "work")


async def draw(folder: Path, clock: FrozenClock) -> None:
    source = folder / "work" / "clock.py"
    edit = call(
        "Edit",
        file_path=str(source),
        old_string="datetime.fromtimestamp(seconds)",
        new_string="datetime.fromtimestamp(seconds, tz=UTC)",
    )
    provider = ScriptedProvider().script(
        together(
            say("Let me run them."), call("Bash", command="seq 1 9000"), call("Grep", pattern="fromtimestamp")
        ),
        say(REPLY),
        call("Read", file_path=str(source)),
        edit,
        say("Done."),
    )
    async with staged(folder, provider, size=SIZE, clock=clock) as stage:
        await remember(stage)
        await stage.say("why do the tests fail?")
        keep(stage, "terminal-chat", folder)
        stage.app.theme = "ansi-light"
        await stage.pilot.pause()
        keep(stage, "terminal-light", folder, is_light=True)
        stage.app.theme = "ansi-dark"
        await stage.paste("yes, do it")
        await stage.pilot.press("enter")
        await stage.see("Edit needs your permission")
        await stage.see("waits for you")
        keep(stage, "terminal-question", folder)
        await stage.pilot.press("y")
        await stage.until(lambda: stage.app.is_idle, "the turn ends")
        await stage.pilot.press("f2")
        await stage.see("about deploys")
        keep(stage, "terminal-memory", folder)


async def draw_agents(folder: Path, clock: FrozenClock) -> None:
    """Agents at work."""
    agents = {
        "every call": "find callers of parse",
        "the tests": "read the tests",
        "the changelog": "look for when it broke",
    }
    orders = [
        call("Agent", description=about, prompt=prompt, run_in_background=True)
        for prompt, about in agents.items()
    ]
    waits = Scripted(blocks=(Text("never"),), gate=anyio.Event())
    grep = call("Grep", pattern="parse")
    cast = {
        "every call": ScriptedProvider().script(grep, waits),
        "the tests": ScriptedProvider().script(call("Read", file_path=str(folder / "work/clock.py")), waits),
        "the changelog": ScriptedProvider().script(say("It broke with 2.4: see the entry on time zones.")),
    }
    lead = ScriptedProvider().script(together(*orders), say("Three look into it."), say("Good."))
    async with staged(folder, Cast(lead, cast), size=SIZE, clock=clock) as stage:
        await stage.say("who else uses parse?")
        team = stage.ready.team
        assert team is not None
        await stage.until(
            lambda: [each.is_running for each in team.states()] == [True, True, False], "a report"
        )
        await stage.until(lambda: all(each.doing for each in team.states()[:2]), "something to watch")
        await stage.pilot.press("f4", "down", "down")
        await stage.see("see the entry on time zones")
        keep(stage, "terminal-work", folder)


PLAN = """# Plan

1. `clock.py`: let `parse` return an aware `datetime` in UTC.
2. `test_clock.py`: test a header with a time zone.
3. Run `make test`.
"""


async def draw_states(folder: Path, clock: FrozenClock, size: tuple[int, int]) -> None:
    """Twelve states of one chat."""
    place = f"screens/{size[0]}x{size[1]}"
    (ROOT / "docs" / "img" / place).mkdir(parents=True, exist_ok=True)
    source = folder / "work" / "clock.py"
    gate = anyio.Event()
    edit = call(
        "Edit",
        file_path=str(source),
        old_string="datetime.fromtimestamp(seconds)",
        new_string="datetime.fromtimestamp(seconds, tz=UTC)",
    )
    first = ScriptedProvider().script(say("Herons fish at dawn."))
    async with staged(folder, first, size=size, clock=clock) as stage:
        await stage.say("when do herons fish?")
    clock.advance(7_200)
    provider = ScriptedProvider().script(
        together(
            say("Let me run them."), call("Bash", command="seq 1 9000"), call("Grep", pattern="fromtimestamp")
        ),
        say(REPLY),
        Scripted(blocks=(Text("The header has a zone, but `parse` ignores"),), gate=gate),
        call("Read", file_path=str(source)),
        edit,
        say("Done: `parse` returns UTC now."),
        say(PLAN),
    )
    async with staged(folder, provider, size=size, clock=clock, ANTHROPIC_API_KEY="any") as stage:

        def shot(name: str) -> None:
            keep(stage, f"{place}/{name}", folder)

        await remember(stage)
        await stage.see("remembered")
        shot("start")
        await stage.type("/m")
        await stage.see("/memories")
        shot("commands")
        await stage.pilot.press("backspace", "backspace")
        await stage.say("why do the tests fail?")
        shot("turn")
        clock.advance(120)
        await stage.paste("which header?")
        await stage.pilot.press("enter")
        await stage.see("parse")
        await stage.see("writing")
        shot("working")
        gate.set()
        await stage.until(lambda: stage.app.is_idle, "the turn ends")
        clock.advance(240)
        await stage.paste("yes, do it")
        await stage.pilot.press("enter")
        await stage.see("Edit needs your permission")
        await stage.pilot.pause()
        shot("question")
        await stage.pilot.press("y")
        await stage.until(lambda: stage.app.is_idle, "the turn ends")
        shot("change")
        await stage.say("/mode plan")
        clock.advance(240)
        await stage.paste("what about tests?")
        await stage.pilot.press("enter")
        await stage.see("Carry out this plan?")
        await stage.pilot.pause()
        shot("plan")
        await stage.pilot.press("n")
        await stage.until(lambda: stage.app.is_idle, "the question is answered")
        await draw_lists(stage, clock, shot)


async def draw_lists(stage: Stage, clock: FrozenClock, shot: Callable[[str], None]) -> None:
    """What commands and keys show of the same chat."""
    await stage.say("/context")
    await stage.pilot.pause()
    shot("context")
    clock.advance(600)
    await stage.say("/cost")
    shot("cost")
    await stage.say("/model")
    await stage.see("million")
    await stage.type("haiku-5")
    await stage.see("without the prompt cache")
    shot("models")
    await stage.pilot.press("escape", "f3")
    await stage.see("fish at dawn")
    shot("sessions")
    await stage.pilot.press("escape", "f2")
    await stage.see("about deploys")
    await stage.pilot.press("slash")
    await stage.type("monday")
    await stage.see("1 of 2")
    shot("memory")


async def remember(stage: Stage) -> None:
    memory = stage.ready.memories[0]
    for name, body in (
        ("tabs", "Tabs, not spaces, in this project."),
        ("deploys", "We deploy on Mondays.\n\n**Why:** the person on call is there all week.\n"),
    ):
        change = MemoryChange(author="user", reason="said so in a chat")
        await memory.save(
            MemoryDraft(name=name, description=f"about {name}", body=body, kind="project"), change
        )


def keep(stage: Stage, name: str, folder: Path, *, is_light: bool = False) -> None:
    """Without the web fonts that the drawing would fetch, and without where it was drawn."""
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", picture(stage, is_light=is_light), flags=re.DOTALL)
    drawn = re.sub(r"terminal-\d+", "screen", drawn).replace("Fira Code", "DejaVu Sans Mono")
    (ROOT / "docs" / "img" / f"{name}.svg").write_text(
        drawn.replace(str(folder), "/home/you").replace("-tmp-demo", "-home-you"), encoding="utf-8"
    )


def picture(stage: Stage, *, is_light: bool) -> str:
    """The screen as a terminal of either kind would show it; Textual itself draws dark ones only."""
    app = stage.app
    console = Console(
        width=app.size.width, height=app.size.height, file=io.StringIO(), force_terminal=True,
        color_system="truecolor", record=True, legacy_windows=False, safe_box=False,
    )  # fmt: skip
    console.print(app.screen._compositor.render_update(full=True, screen_stack=app._background_screens))
    return console.export_svg(
        title="nacre chat", theme=DEFAULT_TERMINAL_THEME if is_light else SVG_EXPORT_THEME
    )


main()
