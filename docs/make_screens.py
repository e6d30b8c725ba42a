"""Draws the pictures of docs/how-to/terminal.md: the real app, a scripted provider, a frozen clock.

Run `python docs/make_screens.py` where the extra `dev` is installed, and look at what it has drawn.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from nacre.memory.entry import Change, Draft  # noqa: E402
from nacre.testing import ScriptedProvider, call, say, together  # noqa: E402
from tests.tui.stage import Stage, staged  # noqa: E402

SIZE = (100, 28)
STAGE = Path("/tmp/demo")
"""As long as the name it is given in the pictures, so that every letter keeps its place."""
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
    (STAGE / "work").mkdir(parents=True)
    (STAGE / "work" / "clock.py").write_text(SOURCE, encoding="utf-8")
    try:
        asyncio.run(draw(STAGE))
    finally:
        shutil.rmtree(STAGE)


async def draw(folder: Path) -> None:
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
    async with staged(folder, provider, size=SIZE) as stage:
        await remember(stage)
        await stage.say("why do the tests fail?")
        keep(stage, "terminal-chat", folder)
        await stage.paste("yes, do it")
        await stage.pilot.press("enter")
        await stage.see("Edit needs your word")
        keep(stage, "terminal-question", folder)
        await stage.pilot.press("y")
        await stage.until(lambda: stage.app.is_idle, "the turn ends")
        await stage.pilot.press("f2")
        await stage.see("about deploys")
        keep(stage, "terminal-memory", folder)


async def remember(stage: Stage) -> None:
    memory = stage.ready.memories[0]
    for name, body in (
        ("tabs", "Tabs, not spaces, in this project."),
        ("deploys", "We deploy on Mondays.\n\n**Why:** the person on call is there all week.\n"),
    ):
        change = Change(author="user", reason="said so in a chat")
        await memory.save(Draft(name=name, description=f"about {name}", body=body, kind="project"), change)


def keep(stage: Stage, name: str, folder: Path) -> None:
    """Without the web fonts that the drawing would fetch, and without where it was drawn."""
    drawn = stage.app.export_screenshot(title="nacre chat")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r"terminal-\d+", "screen", drawn).replace("Fira Code", "DejaVu Sans Mono")
    (ROOT / "docs" / "img" / f"{name}.svg").write_text(
        drawn.replace(str(folder), "/home/you").replace("-tmp-demo", "-home-you"), encoding="utf-8"
    )


main()
