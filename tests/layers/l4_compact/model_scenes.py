"""What the tests of the model's side of layer 4 share: conversations, replies, a scripted fork."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from nacre.layers.l4_compact.summarise import TITLES
from nacre.loop.fork import ForkResult, ForkTask
from nacre.messages.blocks import Block, Message, Text, ToolCall, ToolResult
from nacre.messages.records import Record, Said
from nacre.messages.usage import Usage
from nacre.messages.view import View

START = datetime(2026, 1, 1, tzinfo=UTC)
BODIES = (
    "Parse the ledger and report what does not add up.",
    "- double entry",
    "- `src/ledger.py`: reads the file",
    "None.",
    "Rounding was the cause.",
    "-",
    "- the report, not begun",
    "Editing `total` in `src/ledger.py`.",
    "Run the tests.",
)


def reply_text(*bodies: str, titles: Sequence[str] = TITLES) -> str:
    """A well-formed answer; the given bodies stand in the place of the first ones."""
    said = [*bodies, *BODIES[len(bodies) :]]
    sections = [f"{n}. {title}:\n{body}" for n, (title, body) in enumerate(zip(titles, said, strict=True), 1)]
    return (
        "<analysis>\nfirst this, then that\n</analysis>\n\n<summary>\n"
        + "\n\n".join(sections)
        + "\n</summary>"
    )


def said(record_id: str, role: str, *blocks: Block, meta: bool = False) -> Said:
    return Said(id=record_id, at=START, role=role, blocks=blocks, meta=meta)  # type: ignore[arg-type]


def talk(rounds: int, chars: int = 2_000) -> View:
    """One message, then so many rounds of a call and its result, and a closing word."""
    records: list[Record] = [said("u", "user", Text("Please look at the ledger."))]
    for n in range(rounds):
        records += [
            said(f"a{n}", "assistant", ToolCall(f"c{n}", "Read", {"n": n})),
            said(f"r{n}", "user", ToolResult(f"c{n}", (Text(f"{n} " + "x" * chars),))),
        ]
    return View.of([*records, said("end", "assistant", Text("Looked at."))])


class ScriptedFork:
    """Answers errands from a list; an exception in it is raised."""

    def __init__(self, *script: str | Exception | ForkResult) -> None:
        self._script = list(script)
        self.errands: list[ForkTask] = []

    async def __call__(self, errand: ForkTask) -> ForkResult:
        self.errands.append(errand)
        answer = self._script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return forked(Text(answer)) if isinstance(answer, str) else answer


def forked(*blocks: Block, stop_reason: str = "end_turn", denials: int = 0) -> ForkResult:
    message = Message("assistant", blocks)
    return ForkResult(
        source="compact",
        replies=(message,),
        usage=Usage(),
        first=Usage(),
        stop_reason=stop_reason,
        denials=denials,
    )
