"""References to deferred tools in requests (P12)."""

from __future__ import annotations

import pytest

from nacre.messages.blocks import Json, JsonObject
from nacre.messages.tool_references import without_references
from nacre.providers.base import Request

TOOLS: list[JsonObject] = [
    {"name": "late", "description": "", "input_schema": {}, "defer_loading": True},
    {"name": "read", "description": "", "input_schema": {}},
]


def result(name: str) -> JsonObject:
    reference: Json = {"type": "tool_reference", "tool_name": name}
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c", "content": [reference]}],
    }


def test_a_reference_to_a_tool_that_is_not_deferred_becomes_text_and_other_messages_stay_the_same() -> None:
    hello: JsonObject = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    kept = result("late")
    shown = without_references([hello, kept, result("gone")], {"late"})
    assert shown[0] is hello
    assert shown[1] is kept
    assert "gone can be called." in str(shown[2])
    assert "tool_reference" not in str(shown[2])


@pytest.mark.parametrize(
    ("model", "is_supported"), [("claude-sonnet-5-5", True), ("claude-3-5-haiku", False)]
)
def test_a_request_defers_tools_only_for_a_model_that_supports_it(model: str, is_supported: bool) -> None:
    """As when the fallback model takes over: the request is the same, the model is another one."""
    body = str(Request(model=model, messages=[result("late")], tools=TOOLS).body())
    assert ("defer_loading" in body) == is_supported
    assert ("tool_reference" in body) == is_supported
