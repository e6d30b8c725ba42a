"""What the embedded provider shows of results that were made shorter for a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.blocks import Block, JsonObject, Text, ToolCall, ToolResult
from nacre.messages.wire import render_blocks
from nacre.providers.base import Request, complete
from nacre.providers.embedded.conversation import as_shown
from nacre.providers.embedded.provider import EmbeddedProvider
from nacre.store.tool_results import StoredResult, pointer


def message(role: str, *blocks: Block) -> JsonObject:
    return {"role": role, "content": [*render_blocks(blocks)]}


@pytest.mark.parametrize("text", ["one\n\ntwo\n" * 900, "x" * 9_000, "[...]\n</persisted-output>\n" * 500])
def test_of_a_result_on_disk_its_beginning_is_shown_and_where_all_of_it_is(text: str) -> None:
    """C4: the words of the pointer are for a model."""
    words = pointer("Grep", text, StoredResult(Path("/home/me/it.txt"), len(text)), preview_bytes=2_000)
    shown, path, _ = as_shown(words, {})
    assert path == "/home/me/it.txt"
    assert text.startswith(shown)
    assert len(shown) > 1_000


async def test_of_a_result_that_its_tool_cut_nobody_is_told_that_all_of_it_is_on_disk() -> None:
    kept = StoredResult(Path("/home/me/it.txt"), 30_000)
    for cut, told in (
        (None, "all of it is in /home"),
        ("1 of 2 lines", "the tool returned only a part of it"),
    ):
        words = pointer("Grep", "one\n" * 900, kept, preview_bytes=2_000, cut=cut)
        request = Request(
            model="embedded",
            messages=(
                message("user", Text("search for one")),
                message("assistant", ToolCall("c1", "Grep", {"pattern": "one"})),
                message("user", ToolResult("c1", (Text(words),))),
            ),
        )
        reply = await complete(EmbeddedProvider(), request)
        assert told in reply.message.text


def test_a_reference_is_shown_as_the_text_it_refers_to() -> None:
    """C7."""
    again = "[Unchanged: the text of the earlier Read of a (b).txt (call-1) still stands, line by line.]"
    same = (
        '[The same 300 characters as the result of the earlier call Bash {"command":"(ls)"} (call-1), which '
        "stands in full.]"
    )
    for words in (again, same):
        assert as_shown(words, {"call-1": "the text"}) == ("the text", None, False)
        assert as_shown(words, {}) == (words, None, False)


@given(st.text())
def test_whatever_else_a_tool_says_is_shown_as_it_is(text: str) -> None:
    assert as_shown(text, {"a": "b"}) == (text, None, False)


async def test_a_file_read_again_is_shown_again() -> None:
    reads = [ToolCall(f"call-{n}", "Read", {"file_path": "a.txt"}) for n in (1, 2)]
    words = "[Unchanged: the text of the earlier Read of a.txt (call-1) still stands, line by line.]"
    messages = [
        message("user", Text("read a.txt")),
        message("assistant", reads[0]),
        message("user", ToolResult("call-1", (Text("     1\tBuy milk."),))),
        message("assistant", Text("a.txt: ..."), reads[1]),
        message("user", ToolResult("call-2", (Text(words),))),
    ]
    reply = await complete(EmbeddedProvider(), Request(model="embedded", messages=messages))
    assert "     1\tBuy milk." in reply.message.text
    assert "Unchanged" not in reply.message.text
