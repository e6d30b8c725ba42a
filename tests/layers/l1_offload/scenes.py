"""What the tests of layer 1 share: a conversation that grows by rounds of calls and their results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nacre.layers.l1_offload.offload import Offloaded, offload
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l1_offload.references import ResultsInView
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.records import ReplyFacts, Said
from nacre.messages.view import View
from nacre.store.tool_results import ToolResultStore
from nacre.testing import FrozenClock


class Talk:
    """A view that grows; results pass through layer 1 on their way in."""

    def __init__(self, folder: Path | None, settings: OffloadSettings | None = None) -> None:
        self.clock = FrozenClock()
        self.settings = settings or OffloadSettings()
        self.shelf = ToolResultStore(folder, sync=False)
        self.seen = ResultsInView()
        self.view = View().after(self._said("user", (Text("go"),)))
        self.calls = 0

    def ask(self, *calls: tuple[str, JsonObject]) -> list[str]:
        """A reply with these calls; their ids."""
        made = []
        for name, arguments in calls:
            self.calls += 1
            made.append(ToolCall(f"toolu_{self.calls}", name, arguments))
        self.view = self.view.after(self._said("assistant", tuple(made)))
        return [one.id for one in made]

    def answer(self, *results: ToolResult) -> Offloaded:
        """These results, recorded as layer 1 leaves them."""
        said = self._said("user", results)
        done = offload(said, self.seen.follow(self.view), self.shelf, self.settings)
        self.view = self.view.after(done.said)
        return done

    def call(self, name: str, text: str, *, is_error: bool = False, **arguments: str | int) -> str:
        """One call and its answer; what stands for it in the record."""
        (call_id,) = self.ask((name, {**arguments}))
        done = self.answer(ToolResult(call_id, (Text(text),), is_error))
        return texts(done)[0]

    def _said(self, role: str, blocks: Sequence[Text | ToolCall | ToolResult]) -> Said:
        new = self.clock.new_id()
        reply = ReplyFacts(id=f"msg_{new}") if role == "assistant" else None
        return Said(id=new, at=self.clock.now(), role=role, blocks=tuple(blocks), reply=reply)  # type: ignore[arg-type]


def texts(done: Offloaded) -> list[str]:
    return [block.text for block in done.said.blocks if isinstance(block, ToolResult)]


def pages(*lines: str) -> str:
    """As Read shows them."""
    return "\n".join(f"{n}\t{line}" for n, line in enumerate(lines, start=1))
