"""A conversation of your own loop that never outgrows its window. No model is asked for summaries.

The session has one layer, compaction by rule: the user's words stay word for word, every tool call becomes
one line, the newest rounds stay as they are. `answer` stands for your model.
Run it: python examples/never_too_long.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from nacre import Base, Compact, Session

WINDOW = 20_000
"""Tokens: small, so that a few rounds fill it."""
RULE = "never touch generated/"


def read(path: str) -> str:
    """Return a file of the project."""
    return f"# {path}\n" + "value = 1\n" * 400


def answer(messages: list[Any], n: int) -> dict[str, Any]:
    """Return a reply in the format of Anthropic's API; this model reads one file after another."""
    return {
        "id": f"reply-{n}",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": f"call-{n}", "name": "read", "input": {"path": f"src/part_{n}.py"}},
        ],
        "usage": {"input_tokens": len(str(messages)) // 4, "output_tokens": 20},
    }


async def main() -> None:
    session = Session(Base("claude-sonnet-5-5", "You work on a project.", [read]), layers=[Compact()])
    session.window = WINDOW
    await session.add_user(f"Look at every part, but {RULE}.")
    for n in range(40):
        request = await session.prepare()
        for notice in session.notices():
            print(f"round {n:>2}  {notice.text}")
        await session.record(answer(request.messages, n))
        await session.call_tools([read])
    request = await session.prepare()
    print(f"at the end about {session.tokens:,} of {WINDOW:,} tokens")
    print(f"the rule of the first message is still there, word for word: {RULE in str(request.messages)}")


if __name__ == "__main__":
    asyncio.run(main())
