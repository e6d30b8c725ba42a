"""What a rewrite takes out."""

from __future__ import annotations

from datetime import UTC, datetime

from nacre.messages.blocks import Opaque, Text, Thinking
from nacre.messages.records import BlockOf, Change, Replaced, Said
from nacre.messages.rewrite import unbound_thinking
from nacre.messages.view import View

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_all_thinking_goes_also_what_cannot_be_read() -> None:
    """C12b: a redacted block is bound to the bytes before it like any other."""
    hidden = Opaque("redacted_thinking", {"type": "redacted_thinking", "data": "x"})
    words = Said(id="u", at=NOW, role="user", blocks=(Text("go"),))
    reply = Said(id="a", at=NOW, role="assistant", blocks=(Thinking("hm", "sig"), hidden, Text("done")))
    view = View.of([words, reply])
    changes = tuple(unbound_thinking(view.items))
    assert changes == (Change(BlockOf("a", 0), ()), Change(BlockOf("a", 1), ()))
    left = view.after(Replaced(id="r", at=NOW, changes=changes, reason="thinking"))
    assert [block["type"] for block in left.messages[1]["content"]] == ["text"]  # type: ignore[union-attr,index]


def test_only_thinking_behind_the_first_difference_goes() -> None:
    """C12b: what precedes the first changed byte is as it was sent, and stays valid."""

    def spoken(n: int, words: str) -> list[Said]:
        reply = (Thinking(f"about {n}", f"sig {n}"), Text("yes"), Thinking(f"more {n}", f"sig {n}b"))
        return [
            Said(id=f"u{n}", at=NOW, role="user", blocks=(Text(words),)),
            Said(id=f"a{n}", at=NOW, role="assistant", blocks=reply),
        ]

    sent = View.of([*spoken(1, "one"), *spoken(2, "two"), *spoken(3, "three")]).items

    def gone(*records: Said) -> list[str]:
        changes = unbound_thinking(View.of(records).items, sent)
        return [f"{one.at.record_id}.{one.at.index}" for one in changes if isinstance(one.at, BlockOf)]

    assert gone(*spoken(1, "one"), *spoken(2, "two"), *spoken(3, "three")) == []
    assert gone(*spoken(1, "one"), *spoken(2, "two")) == [], "a shorter conversation keeps what is left"
    assert gone(*spoken(1, "one"), *spoken(2, "other"), *spoken(3, "three")) == [
        "a2.0",
        "a2.2",
        "a3.0",
        "a3.2",
    ]
    cut = Said(
        id="a2", at=NOW, role="assistant", blocks=(Thinking("about 2", "sig 2"), Thinking("more 2", "x"))
    )
    assert gone(*spoken(1, "one"), *spoken(2, "two")[:1], cut) == ["a2.1"], "also within a message"
    assert len(gone(*spoken(4, "four"))) == 2
