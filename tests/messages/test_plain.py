"""A summary by a model that shares no cache: bounded text, no pictures, nothing that is restored (C19)."""

from __future__ import annotations

import pytest

from nacre.layers.l4_compact.policy import CompactSettings
from nacre.messages.blocks import Document, Image, Opaque, Text, Thinking, ToolCall, ToolResult
from nacre.messages.records import Compacted
from nacre.messages.text import LEFT_OUT, SEEN, SUMMARY, as_text
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from nacre.testing import FrozenClock
from tests.layers.l4_compact.model_scenes import said, talk

SETTINGS = CompactSettings()
CLOCK = FrozenClock()


def test_a_conversation_as_text() -> None:
    view = View.of(
        [
            said("o", "user", Text("Instructions and memory."), meta=True),
            said("u", "user", Text("What is this?"), Image({"type": "base64", "data": "AAAA"})),
            said(
                "a",
                "assistant",
                Thinking("hm"),
                Text("Let me look."),
                ToolCall("c", "Read", {"path": "é.py"}),
            ),
            said("r", "user", ToolResult("c", (Text("x" * 5_000), Image({"data": "BBBB"})))),
            said("b", "assistant", ToolCall("d", "Bash", {})),
            said("s", "user", ToolResult("d", (Text("no such file"),), is_error=True)),
            said("n", "user", Text("Recalled."), meta=True),
            said("e", "assistant", Text("Done.")),
        ]
    )
    text = as_text(view)
    assert text.startswith(
        'Person:\nWhat is this?\n[image]\n\nAssistant:\nLet me look.\n[calls Read {"path": "é.py"}]'
    )
    assert text.endswith("[error: no such file]\n\nAssistant:\nDone.")
    assert "[… 3,008 characters …]" in text
    for absent in ("Instructions", "Recalled", "AAAA", "BBBB", "hm"):
        assert absent not in text


def test_a_document_and_a_providers_summary_as_text() -> None:
    block = Opaque("compaction", {"type": "compaction", "content": "in short", "signature": "s"})
    view = View.of([said("k", "assistant", block), said("u", "user", Document({"data": "CC"}), Text("And?"))])
    assert as_text(view) == "Assistant:\nin short\n\nPerson:\n[document]\nAnd?"


@pytest.mark.parametrize("tokens", [50, 500, 2_000, 4_000])
def test_the_oldest_rounds_go_where_there_is_no_room(tokens: int) -> None:
    text = as_text(talk(20), tokens=tokens)
    assert text.startswith(LEFT_OUT)
    assert text.endswith("Looked at.")
    assert estimate_text(text) <= tokens + estimate_text(LEFT_OUT) + 10


def test_one_round_that_is_too_large_keeps_its_end() -> None:
    view = View.of([said("u", "user", Text("x" * 9_000 + " the end"))])
    text = as_text(view, tokens=100)
    assert text.startswith(LEFT_OUT) and text.endswith("the end") and len(text) < 600


def test_a_summary_is_nobody_s_turn() -> None:
    """C20: another model must not take it for what the person said."""
    summary = Compacted(id="c", at=CLOCK.now(), summary=(Text("They want tea."),), summary_id="s")
    view = View.of([said("u", "user", Text("hello")), summary, said("v", "user", Text("go on"))])
    assert as_text(view) == f"{SUMMARY}:\nThey want tea.\n\nPerson:\ngo on"


def test_only_what_follows_a_record_and_all_of_it_if_the_record_is_gone() -> None:
    """F7: a small model is asked about what is new."""
    view = View.of(
        [
            said("u", "user", Text("First.")),
            said("a", "assistant", Text("Done with it.")),
            said("v", "user", Text("Second.")),
            said("b", "assistant", Text("Done, too.")),
        ]
    )
    assert as_text(view, after="a") == f"{SEEN}\n\nPerson:\nSecond.\n\nAssistant:\nDone, too."
    assert as_text(view, after="b") == SEEN
    assert as_text(view, after="gone") == as_text(view)
    assert as_text(view, after="a", tokens=2).startswith(LEFT_OUT)
