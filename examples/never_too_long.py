"""Give your own loop a conversation that never outgrows its window: no model is asked for the summaries.

A session with one layer, compaction by rule: what the user said stays word for word, calls become a line
each, the newest rounds stay as they are. The model here is a stand-in; put your own call where `answer` is.
Run it: python examples/never_too_long.py
"""

from __future__ import annotations

import asyncio

from nacre import Base, Request, Session, tool
from nacre.layers.l4_compact.layer import Compact
from nacre.messages.blocks import Message, Text, ToolCall
from nacre.messages.events import Reply
from nacre.messages.usage import Usage
from nacre.session.settings import SessionSettings
from nacre.tools.run import run_all

WINDOW = 20_000
"""Tokens: small, so that a few turns fill it."""
RULE = "never touch generated/"


@tool(read_only=True)
async def read(path: str) -> str:
    """A file of the project."""
    return f"# {path}\n" + "value = 1\n" * 400


def answer(request: Request, n: int) -> Reply:
    """Your model; this one reads one file after another."""
    call = ToolCall(f"call-{n}", "read", {"path": f"src/part_{n}.py"})
    usage = Usage(input=len(str(request.messages)) // 4, output=20)
    return Reply(message=Message("assistant", (Text("Let me look."), call)), usage=usage, id=f"reply-{n}")


def shows(request: Request, words: str) -> bool:
    return words in str(request.messages)


async def main() -> None:
    base = Base("claude-sonnet-5-5", "You work on a project.", [read])
    session = Session(base, settings=SessionSettings(window_ceiling=WINDOW))
    session.layers.append(Compact(session))
    await session.add_user(f"Look at every part, but {RULE}.")
    for n in range(40):
        request = await session.prepare()
        for notice in session.notices():
            print(f"round {n:>2}  {notice.text}")
        reply = answer(request, n)
        await session.record(reply)
        await session.add_results(await run_all(reply.message.tool_calls, {"read": read}))
    request = await session.prepare()
    print(f"at the end about {session.tokens:,} of {WINDOW:,} tokens")
    print(f"the rule of the first message is still there, word for word: {shows(request, RULE)}")


if __name__ == "__main__":
    asyncio.run(main())
