"""What a rewrite takes out."""

from __future__ import annotations

from datetime import UTC, datetime

from nacre.messages.blocks import Opaque, Text, Thinking
from nacre.messages.records import BlockOf, Change, Replaced, Said
from nacre.messages.rewrite import without_thinking
from nacre.messages.view import View

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_all_thinking_goes_also_what_cannot_be_read() -> None:
    """C12b: a redacted block is bound to the bytes before it like any other."""
    hidden = Opaque("redacted_thinking", {"type": "redacted_thinking", "data": "x"})
    words = Said(id="u", at=NOW, role="user", blocks=(Text("go"),))
    reply = Said(id="a", at=NOW, role="assistant", blocks=(Thinking("hm", "sig"), hidden, Text("done")))
    view = View.of([words, reply])
    changes = tuple(without_thinking(view.items))
    assert changes == (Change(BlockOf("a", 0), ()), Change(BlockOf("a", 1), ()))
    left = view.after(Replaced(id="r", at=NOW, changes=changes, reason="thinking"))
    assert [block["type"] for block in left.messages[1]["content"]] == ["text"]  # type: ignore[union-attr,index]
