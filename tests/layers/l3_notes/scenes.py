"""What the tests of layer 3 share: a conversation in records, and a fork that edits as it is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from nacre.layers.l3_notes.notes import NotesFile
from nacre.loop.fork import ForkResult, ForkTask
from nacre.messages.blocks import Block, JsonObject, Message, Text, ToolCall, ToolResult
from nacre.messages.records import Said
from nacre.messages.usage import Usage

START = datetime(2026, 1, 1, tzinfo=UTC)


def said(record_id: str, role: str, *blocks: Block | str, second: int = 0) -> Said:
    made = tuple(Text(one) if isinstance(one, str) else one for one in blocks)
    return Said(id=record_id, at=START + timedelta(seconds=second), role=role, blocks=made)  # type: ignore[arg-type]


def work(count: int, *, tokens: int = 1_000) -> list[Said]:
    """So many turns: words, a call, its result of about so many tokens, a closing reply."""
    records: list[Said] = []
    for n in range(count):
        command: JsonObject = {"command": f"make step{n}"}
        records += [
            said(f"u{n}", "user", f"please do step {n}"),
            said(f"a{n}", "assistant", f"on it {n}", ToolCall(f"c{n}", "Bash", command)),
            said(f"r{n}", "user", ToolResult(f"c{n}", (Text("o" * 4 * tokens),))),
            said(f"e{n}", "assistant", f"step {n} is done"),
        ]
    return records


class EditingFork:
    """Stands in for a fork: does to the file what it is given to do, and remembers what it was sent for."""

    def __init__(self, file: NotesFile, *edits: Callable[[str], str] | Exception) -> None:
        self.errands: list[ForkTask] = []
        self._file = file
        self._edits = list(edits)

    async def __call__(self, errand: ForkTask) -> ForkResult:
        self.errands.append(errand)
        edit = self._edits.pop(0)
        if isinstance(edit, Exception):
            raise edit
        self._file.write(edit(self._file.read()))
        reply = Message("assistant", (Text("done"),))
        return ForkResult(source=errand.source, replies=[reply], usage=Usage(), first=Usage())
