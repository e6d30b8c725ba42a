"""Read a session log of Claude Code or of another program that nacre knows, and say what is in it.

Run it: python examples/read_sessions.py [FILE.jsonl]
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from nacre.integrations.session_logs import SessionReport, read_sessions


def main(arguments: list[str]) -> int:
    if arguments:
        return show(Path(arguments[0]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made-up.jsonl"
        path.write_text(made_up(), encoding="utf-8")
        return show(path)


def show(path: Path) -> int:
    for session in read_sessions(path):
        describe(session)
    return 0


def describe(session: SessionReport) -> None:
    kinds = Counter(type(record).__name__ for record in session.records)
    print(f"session   {session.id}")
    print(f"records   {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}")
    print(f"in view   {len(session.view.messages)} messages, about {session.view.count():,} tokens")
    for kind, tokens in session.tokens_by_kind.items():
        if tokens:
            print(f"          {tokens:>9,} {kind.replace('_', ' ')}")
    paid = session.meter
    print(f"paid for  {paid.requests} requests, {paid.usage.hit_rate:.0%} read, ${paid.cost_usd:.4f}")
    for problem in session.problems:
        print(f"odd       {problem.kind} at {problem.where or 'the whole file'}: {problem.message}")


def made_up() -> str:
    """A short session whose last line was cut off by a crash, before the tool's result was written."""
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 2_000, "output_tokens": 40}
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "wc README.md"}}
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "How long is the readme?"},
        {"role": "assistant", "id": "m1", "model": "claude-sonnet-5-5", "usage": usage, "content": [call]},
    ]
    lines = [
        {
            "type": message["role"],
            "uuid": f"id-{place}",
            "parentUuid": f"id-{place - 1}" if place else None,
            "sessionId": "11111111-2222-4333-8444-555555555555",
            "timestamp": f"2026-01-01T09:00:0{place}.000Z",
            "cwd": "/somewhere",
            "message": message,
        }
        for place, message in enumerate(messages)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines) + '{"type": "user", "uuid": "id-2", "mess'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
