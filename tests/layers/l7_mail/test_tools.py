"""The tool by which a model writes to others (A3b, A4)."""

from __future__ import annotations

import pytest

from nacre.errors import ToolError
from nacre.layers.l7_mail.inbox import MemoryInbox
from nacre.layers.l7_mail.post import Post
from nacre.layers.l7_mail.send_message import MailBinding, send_message_tool
from nacre.messages.blocks import JsonObject
from nacre.testing import FrozenClock
from nacre.tools.base import Tool


@pytest.fixture
def bob() -> MemoryInbox:
    return MemoryInbox()


@pytest.fixture
def tool(bob: MemoryInbox) -> Tool:
    desk = MailBinding()
    desk.belong_to(Post("ann", find={"bob": bob}.get, everyone=lambda: ["ann", "bob"], clock=FrozenClock()))
    return send_message_tool(desk)


def test_its_definition_asks_for_receiver_and_message(tool: Tool) -> None:
    assert tool.name == "SendMessage"
    assert tool.input_schema["required"] == ["to", "message"]
    assert list(tool.input_schema["properties"] or ()) == ["to", "message", "summary"]  # type: ignore[arg-type]
    assert not tool.read_only
    assert "bridge" not in str(tool.definition), "there is none"


async def test_text_is_sent(tool: Tool, bob: MemoryInbox) -> None:
    said = await tool.call({"to": "bob", "message": "All green.", "summary": "tests"})
    [found] = bob.waiting().letters
    assert said == f"Sent to bob (id {found.id})."
    assert (found.text, found.summary, found.kind) == ("All green.", "tests", "text")


@pytest.mark.parametrize(
    ("message", "kind", "approves", "text"),
    [
        ({"type": "shutdown_request"}, "shutdown_request", None, ""),
        ({"type": "shutdown_request", "reason": "done"}, "shutdown_request", None, "done"),
        ({"type": "shutdown_response", "request_id": "r", "approve": True}, "shutdown_response", True, ""),
        ({"type": "plan_approval_request", "plan": "1. Test."}, "plan_approval_request", None, "1. Test."),
        (
            {"type": "plan_approval_response", "request_id": "r", "approve": False, "reason": "no tests"},
            "plan_approval_response", False, "no tests",
        ),
    ],
)  # fmt: skip
async def test_structured_messages_are_sent(
    tool: Tool, bob: MemoryInbox, message: JsonObject, kind: str, approves: bool | None, text: str
) -> None:
    """A4."""
    await tool.call({"to": "bob", "message": message})
    [found] = bob.waiting().letters
    assert (found.kind, found.approves, found.text) == (kind, approves, text)
    assert found.answers == message.get("request_id", "")


async def test_an_object_written_as_text_is_understood_and_other_json_is_text(
    tool: Tool, bob: MemoryInbox
) -> None:
    await tool.call({"to": "bob", "message": '{"type": "shutdown_request", "reason": "done"}'})
    for text in ('{"type": "order"}', '{"type": ["x"]}', '{"type": "shutdown_request", "n": 1}', "{", "[1]"):
        await tool.call({"to": "bob", "message": text})
    kinds = [one.kind for one in bob.waiting().letters]
    assert kinds == ["shutdown_request", *["text"] * 5]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (
            {"type": "order"},
            "known are shutdown_request, shutdown_response, plan_approval_request, plan_approval_response",
        ),
        ({"type": "plan_approval_request"}, "needs the plan"),
        ({}, "known are shutdown_request"),
        ({"type": "text", "reason": "x"}, "known are shutdown_request"),
        ({"type": "shutdown_response", "approve": True}, "request_id"),
        ({"type": "shutdown_response", "request_id": "r"}, "approve"),
        ({"type": "shutdown_response", "request_id": "r", "approve": "yes"}, "approve"),
        ({"type": "shutdown_response", "request_id": "r", "approve": False}, "says why"),
        ({"type": "shutdown_request", "approve": True}, "only"),
        ({"type": "shutdown_request", "mood": "bad"}, "message.mood is not known"),
        ({"type": "shutdown_request", "reason": True}, "are text"),
        ({"type": "shutdown_request", "reason": ["x"]}, "SendMessage"),
        ("", "needs words"),
        ("x" * 100_001, "100,000"),
        (7, "SendMessage"),
    ],
)
async def test_what_cannot_be_sent_is_the_models_to_read(
    tool: Tool, bob: MemoryInbox, message: JsonObject | str, says: str
) -> None:
    """A4: unknown kinds are refused with the list of known ones."""
    with pytest.raises(ToolError, match=says) as refused:
        await tool.call({"to": "bob", "message": message})  # type: ignore[dict-item]
    assert "\n" not in str(refused.value)
    assert bob.waiting().letters == ()


async def test_an_unknown_receiver_is_said(tool: Tool) -> None:
    with pytest.raises(ToolError, match="did you mean bob"):
        await tool.call({"to": "bop", "message": "hello"})


async def test_before_the_desk_belongs_to_a_session_nobody_can_be_written_to() -> None:
    with pytest.raises(ToolError, match="no other agent to write to"):
        await send_message_tool(MailBinding()).call({"to": "bob", "message": "hello"})
