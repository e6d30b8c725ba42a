"""Requests for a provider's own compaction, and what counts as an answer (C23b, C23c)."""

from __future__ import annotations

import pytest

from nacre.errors import SummaryRejected
from nacre.layers.l4_compact.provider import (
    BETA,
    INSTRUCTIONS_CHARS,
    compaction_request,
    draft_of,
    with_compaction,
)
from nacre.messages.blocks import Block, JsonObject, Message, Opaque, Text, ToolCall
from nacre.messages.events import Reply
from nacre.messages.records import Compacted
from nacre.messages.usage import Usage
from nacre.providers.base import Request
from tests.layers.l4_compact.model_scenes import START, talk

WIRE: JsonObject = {"type": "compaction", "content": "in short", "signature": "s", "tool_changes": []}


def reply(*blocks: Block, stop_reason: str | None = "compaction") -> Reply:
    return Reply(message=Message("assistant", blocks), usage=Usage(), stop_reason=stop_reason)


def test_a_request_is_the_conversation_with_one_more_field_and_without_what_cannot_stand_beside_it() -> None:
    given = Request(
        model="m",
        messages=[{"role": "user", "content": "hi"}],
        system=[{"type": "text", "text": "s"}],
        tools=[{"name": "t"}],
        options={
            "context_management": {"edits": []},
            "stop_sequences": ["x"],
            "tool_choice": {"type": "any"},
            "output_config": {"effort": "low", "format": {"type": "json_schema"}},
            "diagnostics": {},
        },
        output_schema={"type": "object"},
        betas=("other",),
    )
    asked = compaction_request(given, instructions=" " + "i" * 20_000)
    assert (asked.model, asked.messages, asked.system, asked.tools) == (
        given.model, given.messages, given.system, given.tools,
    )  # fmt: skip
    assert asked.options == {
        "output_config": {"effort": "low"},
        "diagnostics": {},
        "compaction": {"type": "summarize", "instructions": "i" * INSTRUCTIONS_CHARS},
    }
    assert asked.output_schema is None
    assert asked.betas == ("other", BETA)
    assert compaction_request(asked).betas == asked.betas
    assert compaction_request(given).options["compaction"] == {"type": "summarize"}


def test_the_signed_block_is_kept_as_it_came() -> None:
    draft = draft_of(reply(Opaque("compaction", WIRE)))
    assert (draft.kind, draft.text, draft.block) == ("provider", "", Opaque("compaction", WIRE))


UNSIGNED: JsonObject = {"type": "compaction", "content": "in short"}
EMPTY: JsonObject = {"type": "compaction", "content": None, "signature": "s"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply(stop_reason="max_tokens"), "output limit"),
        (reply(stop_reason="model_context_window_exceeded"), "no room"),
        (reply(ToolCall("c", "Read", {}), stop_reason="tool_use"), "called a tool"),
        (reply(stop_reason="refusal"), "would not"),
        (reply(Text("hello"), stop_reason="end_turn"), "stopped with end_turn"),
        (reply(stop_reason=None), "stopped with no reason"),
        (reply(stop_reason="compaction"), "stopped with compaction"),
        (reply(Opaque("compaction", UNSIGNED)), "no summary"),
        (reply(Opaque("compaction", EMPTY)), "no summary"),
        (reply(Opaque("compaction", WIRE), Opaque("compaction", WIRE)), "no summary"),
        (reply(Opaque("compaction", WIRE), stop_reason="max_tokens"), "output limit"),
    ],
)
def test_no_summary_is_rejected_with_the_reason_it_stopped(answer: Reply, reason: str) -> None:
    with pytest.raises(SummaryRejected, match=reason):
        draft_of(answer)


def test_later_requests_carry_the_beta_while_a_block_is_in_view() -> None:
    view = talk(2)
    request = Request(model="m", messages=view.messages)
    assert with_compaction(request, view) == request
    block = Compacted(id="k", at=START, summary=(Opaque("compaction", WIRE),), keeps_from="a1")
    assert with_compaction(request, view.after(block)).betas == (BETA,)
