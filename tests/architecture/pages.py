"""The Python blocks of a page, and a program that plays them: `python pages.py PAGE`.

The blocks of one page run in order in one namespace, and may await at their top level.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from pathlib import Path

_FENCE = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(text: str) -> list[tuple[str, int, str]]:
    """Every fenced block: what it is marked as, the line its body starts on, and the body."""
    return [
        (fence["kind"].strip(), text.count("\n", 0, fence.start("body")), fence["body"])
        for fence in _FENCE.finditer(text)
    ]


def play(path: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for kind, line, body in fences(path.read_text(encoding="utf-8")):
            if kind != "python":
                continue
            # Empty lines in front, so that a traceback names the line of the page.
            code = compile(
                "\n" * line + body, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
            )
            result = eval(code, names)
            if inspect.iscoroutine(result):
                runner.run(result)


if __name__ == "__main__":
    play(Path(sys.argv[1]))
