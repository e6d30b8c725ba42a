"""Ask, act, repeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import anyio
import pytest

from nacre.errors import PromptTooLong
from nacre.loop.loop import CONTINUE, LoopCallbacks, run
from nacre.loop.round import CUT_SHORT, Limits
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.events import Event, Notice, ProviderEvent, Reply, StartedOver, TextDelta, ToolResultEvent
from nacre.messages.pairing import INTERRUPTED
from nacre.messages.records import Compacted, Record, Said
from nacre.messages.transcript import Transcript
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.testing import FrozenClock, ScriptedProvider, call, say, think, together
from nacre.tools.base import Tool


class Scene:
    """A transcript that begins with a user's words, a scripted provider and a few tools."""

    def __init__(self, provider: ScriptedProvider, clock: FrozenClock) -> None:
        self.provider = provider
        self.clock = clock
        first = Said(id="u1", at=clock.now(), role="user", blocks=(Text("go"),))
        self.transcript = Transcript([first])
        self.asked: list[int] = []
        self.log: list[str] = []
        self.tools = {
            "read": self._tool("read", read_only=True),
            "write": self._tool("write", read_only=False),
            "hang": self._tool("hang", read_only=True),
        }

    def _tool(self, name: str, *, read_only: bool) -> Tool:
        async def answer(arguments: JsonObject) -> str:
            self.log.append(f"{name} begins")
            try:
                await (anyio.sleep_forever() if name == "hang" else anyio.lowlevel.checkpoint())
            finally:
                self.log.append(f"{name} ends")
            return f"{name} {arguments}"

        return Tool(name=name, description="", input_schema={}, call=answer, read_only=read_only)

    async def ask(self, view: View, max_output: int) -> AsyncGenerator[ProviderEvent, None]:
        self.asked.append(max_output)
        async for event in self.provider.stream(Request(model="scripted", messages=view.messages)):
            yield event

    async def play(self, slots: LoopCallbacks = LoopCallbacks(), limits: Limits = Limits()) -> list[Event]:  # noqa: B008
        events = run(self.transcript, self.ask, self.tools, callbacks=slots, limits=limits, clock=self.clock)
        return [event async for event in events]

    @property
    def words(self) -> list[str]:
        """What the transcript holds, one string a record."""
        return [_words(record) for record in self.transcript.records]


def _words(record: Record) -> str:
    assert isinstance(record, Said)
    parts = []
    for block in record.blocks:
        match block:
            case Text(text):
                parts.append(text)
            case ToolResult() as result:
                parts.append(f"{result.call_id}={result.text}")
            case other:
                parts.append(type(other).__name__)
    return f"{record.role}: {' | '.join(parts)}"


@pytest.fixture
def scene(provider: ScriptedProvider, clock: FrozenClock) -> Scene:
    return Scene(provider, clock)


async def test_a_turn_goes_on_until_a_reply_calls_no_tool(scene: Scene) -> None:
    """Q1: ask, act, repeat."""
    scene.provider.script(together(call("read", n=1), call("read", n=2)), say("done"))
    events = await scene.play()
    assert scene.words == [
        "user: go",
        "assistant: ToolCall | ToolCall",
        "user: call_1=read {'n': 1} | call_2=read {'n': 2}",
        "assistant: done",
    ]
    assert sum(isinstance(event, ToolResultEvent) for event in events) == 2
    assert [event.message.text for event in events if isinstance(event, Reply)] == ["", "done"]


async def test_readers_start_while_the_reply_still_streams_and_writers_wait(scene: Scene) -> None:
    """Query loop, step 8: writers run once the reply is whole and recorded."""
    gate = anyio.Event()
    scene.provider.script(together(call("write"), call("read"), gate=gate), say("done"))
    seen: list[list[str]] = []

    async def open_gate() -> None:
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        seen.append(list(scene.log))
        gate.set()

    async with anyio.create_task_group() as group:
        group.start_soon(open_gate)
        await scene.play()
    assert "write begins" not in seen[0]
    assert "write ends" in scene.log


async def test_every_slot_is_called_where_it_belongs(scene: Scene) -> None:
    """Q1: fit before each request, keep before results are recorded, heard after each reply."""
    calls: list[str] = []

    async def fit(view: View, overflow: PromptTooLong | None) -> Sequence[Record]:
        calls.append("fit")
        return ()

    async def keep(results: Said) -> Sequence[Record]:
        calls.append("keep")
        kept = [
            ToolResult(one.call_id, (Text("kept"),)) for one in results.blocks if isinstance(one, ToolResult)
        ]
        return (replace(results, blocks=tuple(kept)),)

    slots = LoopCallbacks(fit=fit, result_records=keep, on_reply=lambda reply: calls.append("heard"))
    scene.provider.script(call("read"), say("done"))
    await scene.play(slots)
    assert calls == ["fit", "heard", "keep", "fit", "heard"]
    assert scene.words[2] == "user: call_1=kept"


async def test_a_turn_stops_at_its_round_limit_and_says_so(scene: Scene) -> None:
    """Query loop, step 12."""
    scene.provider.script(call("read"), call("read"), call("read"))
    events = await scene.play(limits=Limits(max_rounds=2))
    assert isinstance(events[-1], Notice)
    assert scene.provider.calls == 2
    assert scene.words[-1].startswith("user: call_2=")


async def test_a_reply_that_is_cut_off_gets_more_room_once(scene: Scene) -> None:
    """Query loop, step 9: 8K then 64K; the first attempt is void."""
    scene.provider.script(together("half a", stop_reason="max_tokens"), say("whole"))
    events = await scene.play()
    assert scene.asked == [8_192, 64_000]
    assert scene.words == ["user: go", "assistant: whole"]
    assert [event.usage is not None for event in events if isinstance(event, StartedOver)] == [True]


async def test_a_reply_cut_off_even_so_is_asked_to_go_on_at_most_three_times(scene: Scene) -> None:
    """Query loop, step 9: raise once, then continue."""
    scene.provider.script(*[together(f"part {n}", stop_reason="max_tokens") for n in range(9)])
    await scene.play()
    assert scene.provider.calls == 5
    assert scene.words == [
        "user: go",
        "assistant: part 1", f"user: {CONTINUE}",
        "assistant: part 2", f"user: {CONTINUE}",
        "assistant: part 3", f"user: {CONTINUE}",
        "assistant: part 4",
    ]  # fmt: skip


@pytest.mark.moves_prefix(reason="a compaction follows the refusal")
async def test_a_prompt_that_is_too_long_is_shrunk_once_and_sent_again(scene: Scene) -> None:
    """C27: the refusal is withheld from the user."""
    refusal = PromptTooLong("prompt is too long", tokens=210_000, limit=200_000)
    told: list[PromptTooLong | None] = []

    async def fit(view: View, overflow: PromptTooLong | None) -> Sequence[Record]:
        told.append(overflow)
        if overflow is None:
            return ()
        return [Compacted(id="b", at=scene.clock.now(), summary=(Text("so far"),), summary_id="s")]

    scene.provider.script(refusal, say("fits"))
    await scene.play(LoopCallbacks(fit=fit))
    assert told == [None, refusal]
    assert scene.transcript.view.last_reply is not None

    scene.provider.script(refusal, refusal)
    with pytest.raises(PromptTooLong):
        await scene.play(LoopCallbacks(fit=fit))
    assert told == [None, refusal, None, refusal]


async def test_a_refusal_nobody_can_mend_surfaces(scene: Scene) -> None:
    """C27: compact once and retry; then surface."""
    scene.provider.script(PromptTooLong("prompt is too long"))
    with pytest.raises(PromptTooLong):
        await scene.play()
    assert scene.words == ["user: go"]


async def test_cancel_while_streaming_keeps_the_words_heard_so_far(scene: Scene) -> None:
    """Q2, T6: a valid log, and the request is stopped."""
    gate = anyio.Event()
    scene.provider.script(together(think("hm"), "half a sentence", call("hang"), gate=gate))
    task = asyncio.create_task(scene.play())
    for _ in range(100):
        await anyio.lowlevel.checkpoint()
    assert scene.log == ["hang begins"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.log == ["hang begins", "hang ends"]
    assert scene.words == ["user: go", "assistant: half a sentence", f"user: {CUT_SHORT}"]


async def test_cancel_while_tools_run_keeps_the_results_there_are(scene: Scene) -> None:
    """Q2, T6: every call has its result, real or interrupted."""
    scene.provider.script(together(call("read"), call("hang")))
    task = asyncio.create_task(scene.play())
    while "read ends" not in scene.log or len(scene.words) < 2:
        await anyio.lowlevel.checkpoint()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.log[-1] == "hang ends"
    assert scene.words[-1] == "user: call_1=read {} | call_2=" + INTERRUPTED
    scene.provider.script(say("back again"))
    await scene.play()
    assert scene.words[-1] == "assistant: back again"


@pytest.mark.parametrize("is_recorded", [False, True])
async def test_cancel_while_results_are_kept_loses_none_and_keeps_none_twice(
    scene: Scene, is_recorded: bool
) -> None:
    """Q2: a tool that was done must not be called interrupted; keeping may take as long as a disk does."""
    waits = anyio.Event()

    async def keep(results: Said) -> list[Record]:
        if is_recorded:
            await scene.transcript.append(results)
        waits.set()
        await anyio.sleep_forever()
        raise AssertionError

    scene.provider.script(call("read"))
    task = asyncio.create_task(scene.play(LoopCallbacks(result_records=keep)))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.words[2:] == ["user: call_1=read {}"]


async def test_a_reader_who_walks_away_leaves_a_valid_log(scene: Scene) -> None:
    """Q2: closing the generator is a cancel too."""
    scene.provider.script(say("a rather long reply that comes in pieces"))
    events = run(scene.transcript, scene.ask, scene.tools, clock=scene.clock)
    async for event in events:
        if isinstance(event, TextDelta):
            break
    await events.aclose()
    assert scene.words[-1] == f"user: {CUT_SHORT}"
    assert scene.words[-2].startswith("assistant: a rather")


async def test_a_server_that_always_says_the_same_id_does_not_melt_its_replies_together() -> None:
    """T4, T6: records that share a reply's id are one message, and the first was sent already."""
    clock = FrozenClock()
    sent: list[int] = []

    async def ask(view: View, max_output: int) -> AsyncGenerator[ProviderEvent, None]:
        sent.append(len(view.messages))
        reply = call("read") if len(sent) == 1 else say("done")
        async for event in ScriptedProvider([reply]).stream(Request(model="m", messages=view.messages)):
            yield replace(event, id="chatcmpl-1") if isinstance(event, Reply) else event

    scene = Scene(ScriptedProvider([]), clock)
    async for _ in run(scene.transcript, ask, scene.tools, clock=clock):
        pass
    assert [message["role"] for message in scene.transcript.view.messages][:4] == [
        "user", "assistant", "user", "assistant",
    ]  # fmt: skip
