"""Requests in OpenAI's vocabulary (P1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.wire import canonical
from nacre.providers.openai_translate import (
    Translator,
    translate_message,
    translate_messages,
    translate_schema,
    translate_tools,
)

MARK = {"cache_control": {"type": "ephemeral"}}
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}


def result(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def test_a_conversation_with_tools_is_translated_whole() -> None:
    """System first, calls with arguments as text, results before the user's words; no marker survives."""
    system: Any = [{"type": "text", "text": "be kind"}, {"type": "text", "text": "be brief", **MARK}]
    messages: Any = [
        {"role": "user", "content": "compare a and b"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "zz"},
                {"type": "text", "text": "I will read both."},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"z": 1, "a": "é"}},
                {"type": "tool_use", "id": "t2", "name": "read", "input": {}, **MARK},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "by the way"},
                result("t1", "AAA"),
                result("t2", "no such file", is_error=True),
                {"type": "text", "text": "be quick", **MARK},
            ],
        },
        {"role": "system", "content": [{"type": "text", "text": "one minute left"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t3", "name": "look", "input": {}}]},
        {"role": "user", "content": [result("t3", [])]},
    ]
    assert translate_messages(system, messages) == [
        {"role": "system", "content": "be kind\n\nbe brief"},
        {"role": "user", "content": "compare a and b"},
        {
            "role": "assistant",
            "content": "I will read both.",
            "tool_calls": [
                {
                    "id": "t1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"z":1,"a":"é"}'},
                },
                {"id": "t2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "AAA"},
        {"role": "tool", "tool_call_id": "t2", "content": "[the tool failed] no such file"},
        {"role": "user", "content": "by the way\n\nbe quick"},
        {"role": "system", "content": "one minute left"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t3", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "t3", "content": "(no output)"},
    ]


def test_pictures_become_data_addresses_and_those_of_results_follow_in_a_user_message() -> None:
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    message: Any = {
        "role": "user",
        "content": [
            result("t", [{"type": "text", "text": "a plot"}, PIXEL]),
            {"type": "text", "text": "and"},
            linked,
        ],
    }
    assert translate_message(message) == [
        {"role": "tool", "tool_call_id": "t", "content": "a plot\n\n(see the picture that follows)"},
        {
            "role": "user",
            "content": [
                shown,
                {"type": "text", "text": "and"},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            ],
        },
    ]


def test_documents_go_as_text_or_file_and_never_as_raw_base64_text() -> None:
    note = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}}
    asked: Any = {"role": "user", "content": [note, pdf]}
    assert translate_message(asked)[0]["content"] == [
        {"type": "text", "text": "words"},
        {
            "type": "file",
            "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBE"},
        },
    ]
    answered: Any = {"role": "user", "content": [result("t", [note, pdf])]}
    assert translate_message(answered) == [
        {"role": "tool", "tool_call_id": "t", "content": "words\n\n(see the file that follows)"},
        {
            "role": "user",
            "content": [
                {
                    "type": "file",
                    "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBE"},
                }
            ],
        },
    ]


def test_a_summary_made_by_another_provider_is_still_read() -> None:
    message: Any = {"role": "user", "content": [{"type": "compaction", "content": "so far"}]}
    assert translate_message(message) == [{"role": "user", "content": "so far"}]


def test_a_message_without_anything_to_say_is_left_out() -> None:
    silent: Any = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}
    assert translate_message(silent) == []


def test_tools_become_functions_and_server_tools_are_left_out() -> None:
    tools: Any = [
        {"name": "read", "description": "reads", "input_schema": {"type": "object"}, **MARK},
        {"type": "web_search_20260209", "name": "web_search"},
    ]
    assert translate_tools(tools) == [
        {
            "type": "function",
            "function": {"name": "read", "description": "reads", "parameters": {"type": "object"}},
        }
    ]


@pytest.mark.parametrize("closed", [True, False])
def test_only_a_closed_schema_is_enforced_strictly(closed: bool) -> None:
    schema: Any = {"type": "object", **({"additionalProperties": False} if closed else {})}
    assert translate_schema(schema)["json_schema"] == {"name": "answer", "schema": schema, "strict": closed}


texts = st.builds(lambda text: {"type": "text", "text": text}, st.text())
blocks = st.one_of(
    texts,
    st.just(PIXEL),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}, st.text()),
    st.builds(
        lambda key, value: {"type": "tool_use", "id": "t", "name": "read", "input": {key: value}},
        st.text(),
        st.integers(),
    ),
    st.builds(
        lambda parts, bad: result("t", parts, is_error=bad), st.lists(texts | st.just(PIXEL)), st.booleans()
    ),
)
messages = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "system"]),
        st.text() | st.lists(blocks, max_size=4),
    ),
    max_size=6,
)


def marked(message: Any) -> Any:
    if isinstance(message["content"], str):
        return message
    return {**message, "content": [{**block, **MARK} for block in message["content"]]}


@given(messages, messages)
def test_an_unchanged_prefix_keeps_its_bytes_whatever_follows_and_wherever_markers_stand(
    before: list[Any], after: list[Any]
) -> None:
    """P1, the prefix is sacred: translation is a pure function of each message's blocks."""
    sent = canonical(translate_messages([], before))  # type: ignore[arg-type]
    longer = canonical(translate_messages([], [*map(marked, before), *after]))  # type: ignore[arg-type]
    assert longer.startswith(sent[:-1])


@given(messages)
def test_results_always_come_before_the_words_of_their_message(said: list[Any]) -> None:
    for message in said:
        roles = [item["role"] for item in translate_message(message)]
        assert roles == sorted(roles, key=lambda role: role != "tool")


@given(st.lists(messages, max_size=4))
def test_a_translator_that_remembers_says_the_same_as_one_that_does_not(turns: list[list[Any]]) -> None:
    """P1: conversations that grow, shrink, repeat a message or share nothing are all translated alike."""
    translator = Translator()
    said: list[Any] = []
    for fresh in turns:
        said = [*said[1:], *fresh, *said[:1]]
        assert translator.messages([], said) == translate_messages([], said)


def test_only_new_messages_are_translated_again() -> None:
    """A long prefix costs nothing the second time: its translation is the very same object."""
    translator = Translator()
    first: Any = {"role": "user", "content": "hello"}
    before = translator.messages([], [first])
    after = translator.messages([], [first, {"role": "user", "content": "again"}])
    assert after[0] is before[0]
