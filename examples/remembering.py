"""Remember something from Python, and be reminded of it: plain Markdown with a history, no model, no key.

What is printed as recalled is what you put beside the message for your own model.
Run it: python examples/remembering.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from nacre import open_memory
from nacre.settings import load


async def main(folder: Path) -> None:
    # A folder of its own, so that the example leaves nothing behind; without settings it is your project's.
    memory = await open_memory(load(folder, {"NACRE_HOME": str(folder / "home")}))

    await memory.save("The build server is heron, in the basement.")
    await memory.save("Deploys happen on Tuesday, after the stand-up.")
    await memory.save("I prefer answers in short sentences.")

    recalled = await memory.recall("Which server do we build on?")
    print(recalled.text)

    await memory.correct("build server", "The build server is egret, in the cloud.")
    found = await memory.search("build")
    print("now     ", found[0].entry.body.strip())

    await memory.forget("deploys")
    print("titles  ", sorted(entry.title for entry in await memory.list()))
    print("history ", [commit.reason for commit in await memory.log()])
    print("nothing ", (await memory.recall("What is for lunch today?")).text == "")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
