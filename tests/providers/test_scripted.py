"""The scripted provider: what tests are built on has tests of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from nacre.errors import Overloaded
from nacre.messages.blocks import Message, Text, Thinking, ToolCall
from nacre.messages.events import Reply, TextDelta, ThinkingDelta, ToolCallEvent
from nacre.messages.usage import Usage
from nacre.providers.base import Capabilities, Request, complete
from nacre.providers.scripted import ScriptedProvider, call, say, think, together


def ask(*said: str) -> Request:
    return Request(model="m", messages=[{"role": "user", "content": text} for text in said])


async def test_a_script_is_said_in_order_with_counted_ids() -> None:
    provider = ScriptedProvider().script(call("read", name="a"), [call("read"), call("list")], "done")
    replies = [await complete(provider, ask("q")) for _ in range(3)]
    assert [reply.message for reply in replies] == [
        Message("assistant", (ToolCall("call_1", "read", {"name": "a"}),)),
        Message("assistant", (ToolCall("call_2", "read", {}), ToolCall("call_3", "list", {}))),
        Message("assistant", (Text("done"),)),
    ]
    assert [reply.stop_reason for reply in replies] == ["tool_use", "tool_use", "end_turn"]
    assert (provider.calls, provider.left) == (3, 0)


async def test_text_and_thinking_stream_in_small_pieces() -> None:
    provider = ScriptedProvider([together(think("first I think"), say("then I say it"), call("act"))])
    *deltas, reply = [event async for event in provider.stream(ask("q"))]
    assert deltas == [
        ThinkingDelta("first I thin"),
        ThinkingDelta("k"),
        TextDelta("then I say i"),
        TextDelta("t"),
        ToolCallEvent(ToolCall("call_1", "act", {})),
    ]
    assert isinstance(reply, Reply)
    assert reply.message.blocks[0] == Thinking("first I think", "signed")


async def test_an_exception_is_raised_and_a_broken_reply_breaks_after_its_words() -> None:
    provider = ScriptedProvider([Overloaded("busy"), together("half", fails=Overloaded("cut"))])
    with pytest.raises(Overloaded, match="busy"):
        await complete(provider, ask("q"))
    stream = provider.stream(ask("q"))
    assert await anext(stream) == TextDelta("half")
    with pytest.raises(Overloaded, match="cut"):
        await anext(stream)


async def test_a_gate_holds_the_end_of_a_stream() -> None:
    gate = anyio.Event()
    provider = ScriptedProvider([together("held", gate=gate)])
    stream = provider.stream(ask("q"))
    assert await anext(stream) == TextDelta("held")
    waiting = asyncio.ensure_future(anext(stream))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    assert isinstance(await waiting, Reply)


async def test_a_function_answers_by_the_request() -> None:
    provider = ScriptedProvider(otherwise=lambda request: say(f"{len(request.messages)} messages"))
    assert (await complete(provider, ask("a"))).message.text == "1 messages"
    assert (await complete(provider, ask("a", "b"))).message.text == "2 messages"


async def test_a_request_too_many_is_a_mistake_of_the_test() -> None:
    with pytest.raises(AssertionError, match="request 1 came, but the script holds 0 replies"):
        await complete(ScriptedProvider(), ask("q"))


async def test_requests_are_kept_as_they_were_and_later_changes_are_found() -> None:
    provider = ScriptedProvider(["a", "b"])
    messages: Any = [{"role": "user", "content": [{"type": "text", "text": "q"}]}]
    await complete(provider, Request(model="m", messages=[*messages]))
    await complete(provider, Request(model="m", messages=[*messages, {"role": "user", "content": "more"}]))
    assert provider.changed() == []
    messages[0]["content"][0]["text"] = "changed behind your back"
    assert provider.changed() == [0, 1]
    assert provider.requests[0].messages == [{"role": "user", "content": [{"type": "text", "text": "q"}]}]
    messages[0]["content"][0]["text"] = "q"
    assert provider.changed() == []


@pytest.mark.moves_prefix(reason="another model is asked with a shorter conversation")
async def test_what_was_sent_before_is_billed_as_read() -> None:
    """Append-only accounting: markers may move, the model and the bytes may not."""
    provider = ScriptedProvider(otherwise="ok")
    first: Any = {
        "role": "user",
        "content": [{"type": "text", "text": "a" * 400, "cache_control": {"type": "ephemeral"}}],
    }
    bare: Any = {"role": "user", "content": [{"type": "text", "text": "a" * 400}]}
    more: Any = {"role": "assistant", "content": "b" * 400}
    one = (await complete(provider, Request(model="m", messages=[first]))).usage
    two = (await complete(provider, Request(model="m", messages=[bare, more]))).usage
    other = (await complete(provider, Request(model="n", messages=[bare]))).usage
    assert one.cache_read == 0
    assert one.cache_write == two.cache_read > 200
    assert two.cache_write > 200
    assert other.cache_read == 0
    assert two.prompt == await provider.count_tokens(Request(model="m", messages=[bare, more]))


async def test_usage_and_capabilities_can_be_given() -> None:
    usage = Usage(input=190_000, output=5)
    provider = ScriptedProvider(
        [together("x", usage=usage, stop_reason="max_tokens")], capabilities=Capabilities(window=9)
    )
    reply = await complete(provider, ask("q"))
    assert (reply.usage, reply.stop_reason, provider.capabilities("m").window) == (usage, "max_tokens", 9)
