"""A memory without a model: plain Markdown files with a history. Needs no key.

`recalled.text` is what you add to a prompt for your own model.
Run it: python examples/remembering.py
"""

from __future__ import annotations

import asyncio
import os
from tempfile import TemporaryDirectory

from nacre import Memory


async def main(folder: str) -> None:
    memory = Memory(f"{folder}/memory")
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
        os.environ["NACRE_HOME"] = folder  # the history of a memory is kept here; by default ~/.nacre
        asyncio.run(main(folder))
