"""A fork: the parent's view, one directive behind it, the loop on a history of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace

import anyio
import pytest
from hypothesis import given

from nacre.errors import PromptTooLong, ToolError
from nacre.loop.fork import FORK, NO_TOOLS, PENDING, SOURCE, ForkResult, ForkTask, branch, run_fork
from nacre.loop.round import SendRequest
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.events import ProviderEvent
from nacre.messages.records import Record, Said
from nacre.messages.transcript import Transcript
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.testing import FrozenClock, ScriptedProvider, call, say, together
from nacre.tools.base import Tool
from nacre.tools.policy import Narrowing
from tests.messages.strategies import logs, moment

ERRAND = ForkTask(source="session_memory", directive="Sum it up.")
ALL = Narrowing(tools=frozenset({"read"}))


def parent(*records: Said) -> Transcript:
    first = Said(id="u1", at=moment(0), role="user", blocks=(Text("go"),))
    return Transcript([first, *records])


def calling(*ids: str) -> Said:
    blocks = (Text("wait"), *(ToolCall(one, "read", {}) for one in ids))
    return Said(id="a1", at=moment(1), role="assistant", blocks=blocks)


def answering(provider: ScriptedProvider) -> SendRequest:
    async def ask(view: View, max_output: int) -> AsyncGenerator[ProviderEvent, None]:
        request = Request(model="scripted", messages=view.messages, max_tokens=max_output)
        async for event in provider.stream(request):
            yield event

    return ask


async def sent(
    view: View,
    provider: ScriptedProvider,
    errand: ForkTask = ERRAND,
    *,
    tools: Mapping[str, Tool] | None = None,
) -> ForkResult:
    clock = FrozenClock()
    transcript = await branch(view, errand, clock=clock)
    return await run_fork(transcript, answering(provider), tools or {}, errand, clock=clock)


def reading(log: list[str]) -> dict[str, Tool]:
    async def answer(arguments: JsonObject) -> str:
        log.append(SOURCE.get())
        return "read"

    return {"read": Tool(name="read", description="", input_schema={}, call=answer, read_only=True)}


@given(logs(), logs(max_size=4))
async def test_whatever_the_log_a_fork_shares_all_up_to_the_last_reply_and_the_parent_stays_as_it_is(
    log: list[Record], later: list[Record]
) -> None:
    """F1, F2: the parent's next request and the fork's begin alike, and nothing reaches the parent."""
    view = View.of(log)
    before = (view.messages, view.chain)
    transcript = await branch(view, ERRAND, clock=FrozenClock())
    shared = _up_to_last_reply(view.messages)
    assert transcript.view.messages[:shared] == view.messages[:shared]
    assert transcript.view.open_calls == []
    await transcript.append(Said(id="fork", at=moment(99), role="assistant", blocks=(Text("done"),)))
    assert (view.messages, view.chain) == before
    after = [replace(record, id=f"later {record.id}") for record in later]
    assert view.after(*after) == View.of([*log, *after])


async def test_every_open_call_gets_the_same_placeholder_and_the_directive_comes_last() -> None:
    """A1: all forks of one reply share every byte but the end."""
    view = parent(calling("c1", "c2")).view
    one = await branch(view, ERRAND, clock=FrozenClock())
    other = await branch(view, replace(ERRAND, directive="Look for facts."), clock=FrozenClock())
    assert one.view.messages[-1] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": PENDING},
            {"type": "tool_result", "tool_use_id": "c2", "content": PENDING},
            {"type": "text", "text": "Sum it up."},
        ],
    }
    assert one.view.chain[:-1] == other.view.chain[:-1]
    assert one.view.chain != other.view.chain


async def test_inside_the_last_result_is_where_the_directive_goes_if_words_there_would_cost_the_cache() -> (
    None
):
    """A1, C31b: only results follow the reply then; without an open call it is a message like any other."""
    inside = await branch(parent(calling("c1", "c2")).view, ERRAND, inside_results=True)
    record = inside.records[-1]
    assert isinstance(record, Said)
    assert record.blocks == (
        ToolResult("c1", (Text(PENDING),)),
        ToolResult("c2", (Text(PENDING), Text("Sum it up."))),
    )
    plain = await branch(parent().view, ERRAND, inside_results=True)
    assert plain.view.messages[-1]["content"] == [
        {"type": "text", "text": "go"},
        {"type": "text", "text": "Sum it up."},
    ]


async def test_a_fork_says_what_it_said_what_that_cost_and_how_much_the_first_request_read() -> None:
    """F4: usage of all requests, and of the first one alone."""
    log: list[str] = []
    first, second = Usage(input=5, cache_read=95, output=3), Usage(input=7, output=2)
    provider = ScriptedProvider([together(call("read"), usage=first), together("It was read.", usage=second)])
    errand = replace(ERRAND, access=ALL, max_rounds=3)
    forked = await sent(parent().view, provider, errand, tools=reading(log))
    assert forked == ForkResult(
        source="session_memory",
        replies=forked.replies,
        usage=first + second,
        first=first,
        stop_reason="end_turn",
    )
    assert [len(one.tool_calls) for one in forked.replies] == [1, 0]
    assert forked.text == "It was read."
    assert (log, SOURCE.get()) == (["session_memory"], "main")


async def test_without_permissions_a_call_is_refused_with_words_the_model_can_act_on() -> None:
    """F3: denied at call time, counted; the definitions stay as they are."""
    log: list[str] = []
    provider = ScriptedProvider([call("read"), say("In words, then.")])
    forked = await sent(parent().view, provider, replace(ERRAND, max_rounds=2), tools=reading(log))
    assert (forked.text, forked.denials, log) == ("In words, then.", 1, [])
    assert NO_TOOLS in str(provider.requests[-1].messages[-1])


async def test_a_fork_stops_after_its_rounds_and_asks_for_no_more_room_than_it_was_given() -> None:
    """F4: turn limit per purpose; a cut-off reply is the errand's to judge."""
    provider = ScriptedProvider(otherwise=together("half", stop_reason="max_tokens"))
    forked = await sent(parent().view, provider, replace(ERRAND, max_rounds=4, max_output=77))
    assert (forked.text, forked.stop_reason, provider.calls) == ("half", "max_tokens", 1)
    assert provider.requests[0].max_tokens == 77
    calls = ScriptedProvider(otherwise=call("read"))
    forked = await sent(parent().view, calls, replace(ERRAND, access=ALL, max_rounds=2), tools=reading([]))
    assert (len(forked.replies), forked.text) == (2, "")


@pytest.mark.parametrize(
    ("names", "is_refused", "requests"),
    [(("Edit", "Write"), False, 1), (("Edit", "read"), False, 2), (("Edit", "Write"), True, 2)],
)
async def test_a_fork_that_ends_with_its_edits_sends_no_request_only_to_say_so(
    names: tuple[str, ...], is_refused: bool, requests: int
) -> None:
    """C14: a call that reads, and an edit that is refused, are followed by another request."""

    async def work(arguments: JsonObject) -> str:
        if is_refused:
            raise ToolError("not like that")
        return "done"

    tools = {name: Tool(name=name, description="", input_schema={}, call=work) for name in names}
    provider = ScriptedProvider([together(*(call(name) for name in names)), say("noted")])
    errand = replace(ERRAND, access=ALL, max_rounds=5, ends_with_edits=True)
    await sent(parent().view, provider, errand, tools=tools)
    assert provider.calls == requests


async def test_what_is_too_long_is_raised_and_never_compacted() -> None:
    """F6: compacting inside a fork could wait for itself."""
    provider = ScriptedProvider([PromptTooLong("too long")])
    with pytest.raises(PromptTooLong):
        await sent(parent().view, provider)
    assert provider.calls == 1


async def test_a_fork_cannot_fork_by_who_asks_and_by_what_its_history_says() -> None:
    """F6: the source first, the mark as a backup; a tool that tries reads why not."""
    mine = parent().view

    async def nested(arguments: JsonObject) -> str:
        await branch(mine, ERRAND)
        return "forked"

    tools = {"read": Tool(name="read", description="", input_schema={}, call=nested)}
    provider = ScriptedProvider([call("read"), say("Then not.")])
    forked = await sent(mine, provider, replace(ERRAND, access=ALL, max_rounds=2), tools=tools)
    assert forked.text == "Then not."
    assert "A fork cannot fork (session_memory)" in str(provider.requests[-1].messages[-1])
    history = await branch(mine, ERRAND)
    assert [note.facts for note in history.view.noted(FORK)] == [{"source": "session_memory", "after": "u1"}]
    with pytest.raises(ToolError, match=r"cannot fork \(session_memory\)"):
        await branch(history.view, ERRAND)


async def test_a_cancelled_fork_ends_its_request_and_asks_as_main_again() -> None:
    """F2, Q2: whoever waits for it is free at once."""
    provider = ScriptedProvider([together("never", gate=anyio.Event())])
    task = asyncio.create_task(sent(parent().view, provider))
    while not provider.calls:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert SOURCE.get() == "main"


def _up_to_last_reply(messages: list[JsonObject]) -> int:
    """How many messages there are up to the last of the assistant's."""
    return max((n for n, one in enumerate(messages, 1) if one["role"] == "assistant"), default=0)
