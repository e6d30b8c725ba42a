"""A history that a framework keeps, followed by a session: what is sent, and that it never moves untold."""

from __future__ import annotations

import json
import re
from asyncio import gather
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.errors import ContextOverflow, ToolError
from nacre.integrations.framework_session import (
    Follower,
    FrameworkMessage,
    Layers,
    MessageToSend,
    Recollection,
    opened,
)
from nacre.layers.l1_offload.reader import result_reader
from nacre.layers.l2_microcompact.settings import MicrocompactSettings
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical, render_blocks
from nacre.session.session import Base
from nacre.testing import FrozenClock
from tests.scale import scaled

BASE = Base("claude-sonnet-5-5")


def words(text: str) -> FrameworkMessage:
    return FrameworkMessage(role="user", blocks=(Text(text),))


def answer(text: str, usage: Usage | None = None) -> FrameworkMessage:
    return FrameworkMessage(role="assistant", blocks=(Text(text),), usage=usage)


def round_of(call: str, size: int) -> list[FrameworkMessage]:
    asked = FrameworkMessage(role="assistant", blocks=(ToolCall(call, "look", {"at": call}),))
    return [asked, FrameworkMessage(role="user", blocks=(ToolResult(call, (Text(f"{call} " * size),)),))]


def wires(standing: list[MessageToSend]) -> list[bytes]:
    return [canonical([one.role, *render_blocks(one.blocks)]) for one in standing]


async def test_what_nothing_was_done_to_is_the_frameworks_own() -> None:
    history = [words("Hi."), answer("Hello."), words("Go on.")]
    shown = await Follower(Layers()).shown(history, BASE)
    assert [(one.place, one.is_same) for one in shown] == [(0, True), (1, True), (2, True)]
    assert await Follower(Layers()).shown([], BASE) == []


async def test_asked_again_about_the_same_history_it_says_the_same(tmp_path: Path) -> None:
    """A framework retries a request that failed."""
    follower, history = Follower(Layers(results=tmp_path)), [words("Hi."), *round_of("c1", 9_000)]
    first = wires(await follower.shown(history, BASE))
    assert first == wires(await follower.shown(history, BASE))


async def test_a_history_that_was_changed_is_followed_anew() -> None:
    """Whatever was decided about another past does not hold for this one."""
    follower = Follower(Layers())
    await follower.shown([words("Hi."), answer("Hello."), words("One.")], BASE)
    shown = await follower.shown([words("Hi."), answer("Hello!"), words("Two.")], BASE)
    assert [one.text for one in shown] == ["Hi.", "Hello!", "Two."]


async def test_a_restart_sends_the_same_long_results_as_before(tmp_path: Path) -> None:
    """C6: pointers are made of what was said, so that another process makes the same ones."""
    history = [words("Hi."), *round_of("c1", 9_000), answer("So."), words("Go on.")]
    layers = Layers(results=tmp_path)
    assert wires(await Follower(layers).shown(history, BASE)) == wires(
        await Follower(layers).shown(history, BASE)
    )


async def test_after_a_restart_a_conversation_is_measured_as_it_stands_now(tmp_path: Path) -> None:
    """C1, C26: the last reply cost little because the view was compacted by then; now it is whole again."""
    told: list[str] = []
    few = Usage(input=500, cache_read=4_000, output=10)
    asked = FrameworkMessage(role="assistant", blocks=(ToolCall("c", "look", {}),), usage=few)
    rounds = [part for n in range(24) for part in round_of(f"c{n}", 2_000)]
    history = [words("Look."), *rounds, answer("So.", few), words("Again."), asked, round_of("c", 1)[1]]
    shown = await Follower(Layers(window=20_000, on_notice=told.append)).shown(history, BASE)
    assert len(shown) < len(history)
    assert [line.split()[0] for line in told] == ["Compacted"]
    again, went_cold = Follower(Layers(on_notice=told.append)), Usage(input=9_000, output=10)
    await again.shown(history, BASE)
    await again.shown([*history, answer("So.", went_cold), words("Go on.")], BASE)
    assert len(told) == 1


async def test_nothing_rides_with_words_that_were_answered_long_ago(tmp_path: Path) -> None:
    """M25: after a restart only what is said now gets memories; the rest was sent without any."""
    memory = await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")})
    for subject in ("billing", "shipping"):
        body = f"Deploys of the {subject} service go out on Tuesdays."
        await memory.save(
            MemoryDraft(body=body, file=f"{subject}.md"), MemoryChange(author="user", reason="test")
        )
    history = [words("When do deploys of billing go out?"), answer("Hm."), words("And those of shipping?")]
    told: list[str] = []
    shown = await Follower(Layers(memory=memory, on_notice=told.append)).shown(history, BASE)
    assert [one.place for one in shown] == [0, 1, 2, None]
    assert [line.startswith("recalled ") for line in told] == [True]


async def deploys(folder: Path) -> Memory:
    memory = await Memory.open(folder, environ={"NACRE_HOME": str(folder / "home")})
    body = "Deploys of the billing service go out on Tuesdays."
    await memory.save(MemoryDraft(body=body, file="billing.md"), MemoryChange(author="user", reason="test"))
    return memory


@pytest.mark.parametrize("at_once", [False, True], ids=["in turns", "at once"])
async def test_conversations_that_begin_alike_each_keep_what_they_were_sent(
    at_once: bool, tmp_path: Path
) -> None:
    """C31, R7: people greet alike, and ask again from an earlier place; a memory once sent stays sent."""
    follower, asked = (
        Follower(Layers(memory=await deploys(tmp_path))),
        words("When do billing deploys go out?"),
    )

    async def sent(*histories: list[FrameworkMessage]) -> list[list[bytes]]:
        asking = [follower.shown(history, BASE) for history in histories]
        return [wires(one) for one in (await gather(*asking) if at_once else [await one for one in asking])]

    first = await sent(*[[asked]] * 3)
    assert [len(one) for one in first] == [2, 2, 2]
    then = [[asked, answer(f"Answer {n}."), words("Go on.")] for n in range(3)]
    second = await sent(*then)
    assert [one[:2] for one in second] == first
    third = await sent(*([*one, answer("So."), words("Go on.")] for one in then))
    assert [one[:4] for one in third] == second


async def test_whoever_asks_the_same_later_is_told_what_is_known_by_then(tmp_path: Path) -> None:
    """R7: what was recalled for somebody else's words, or before an error, need not be true any more."""
    memory = await deploys(tmp_path)
    follower, asked = Follower(Layers(memory=memory)), words("When do billing deploys go out?")
    first = await follower.shown([asked], BASE)
    assert "on Tuesdays" in first[1].text
    assert wires(await follower.shown([asked], BASE)) == wires(first)
    await follower.shown([asked, answer("On Tuesdays."), words("Thanks.")], BASE)
    body = "Deploys of the billing service go out on Thursdays."
    await memory.save(MemoryDraft(body=body, file="billing.md"), MemoryChange(author="user", reason="test"))
    again = await follower.shown([asked], BASE)
    assert "on Thursdays" in again[1].text
    goes_on = [asked, answer("On Tuesdays."), words("Thanks."), answer("Welcome."), words("Bye.")]
    assert wires(await follower.shown(goes_on, BASE))[:2] == wires(first)


async def test_all_conversations_look_things_up_in_one_index(tmp_path: Path) -> None:
    """R9: it holds a file open, which a server with many conversations would otherwise hold many times."""
    layers = Layers(memory=await deploys(tmp_path))
    one, other = (opened(BASE, layers).layer(Recollection) for _ in range(2))
    assert one is not None and other is not None and one is not other
    assert one._index is other._index


async def test_a_question_asked_anew_keeps_what_was_decided_before_it(tmp_path: Path) -> None:
    """C32: going back moves nothing of what stands before; what was compacted afterwards is whole again."""
    told: list[str] = []
    follower = Follower(Layers(window=20_000, memory=await deploys(tmp_path), on_notice=told.append))
    begun = [words("When do billing deploys go out?"), answer("Hm."), words("Go on.")]
    before = wires(await follower.shown(begun, BASE))
    long = begun + [part for n in range(20) for part in round_of(f"c{n}", 2_000)]
    await follower.shown(long, BASE)
    assert told[-1].startswith("Compacted")
    anew = wires(await follower.shown([*begun, answer("Well."), words("Once more?")], BASE))
    assert anew[: len(before)] == before


async def test_whoever_takes_over_a_conversation_brings_its_own_window() -> None:
    """C3: an agent hands over to one with a smaller model; memories and decisions go along."""
    told: list[str] = []
    follower = Follower(Layers(on_notice=told.append))
    history = [words("Look."), *(part for n in range(40) for part in round_of(f"c{n}", 9_000))]
    assert len(await follower.shown(history, Base("gpt-6-sol"))) == len(history)
    shown = await follower.shown([*history, answer("So."), words("Go on.")], Base("claude-haiku-4-5"))
    assert len(shown) < len(history)
    assert [line.split()[0] for line in told] == ["Compacted"]


async def test_handing_over_is_no_loss_that_anybody_is_warned_of() -> None:
    """C32: the next model has a cache of its own; the same one with other tools keeps its books."""
    told: list[str] = []
    follower, history = Follower(Layers(on_notice=told.append)), [words("Look.")]
    for base in (BASE, Base("gpt-6-sol"), Base("gpt-6-sol", tools=({"name": "x"},)), BASE):
        shown = await follower.shown(history, base)
        assert [one.place for one in shown] == list(range(len(history)))
        history += [answer("So.", Usage(input=2_000, output=10)), words("Go on.")]
    assert told == []
    assert len(follower._known) == 1


async def test_only_so_many_conversations_are_remembered() -> None:
    follower = Follower(Layers(conversations=3))
    for n in range(5):
        await follower.shown([words(f"Hi {n}.")], BASE)
    assert len(follower._known) == 3


async def test_what_cannot_fit_is_said_and_not_sent() -> None:
    """C26: words larger than the window."""
    with pytest.raises(ContextOverflow, match="user text"):
        await Follower(Layers(window=5_000)).shown([words("word " * 10_000)], BASE)


async def test_without_layers_nothing_is_taken_out() -> None:
    session = opened(BASE, Layers(compacts=False))
    assert session.layers == ()


async def test_the_reader_reads_only_what_was_put_away(tmp_path: Path) -> None:
    """M6: the model gets no way to other files, not through a link either."""
    folder = tmp_path / "results"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("SECRET")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "c1.txt").write_text("mine")
    read = result_reader(folder)
    assert "mine" in str(await read.call({"file_path": str(folder / "c1.txt")}))
    for path in ("/etc/hostname", "../secret.txt", str(folder / "link.txt"), str(tmp_path / "secret.txt")):
        with pytest.raises(ToolError, match="Only files in"):
            await read.call({"file_path": path})


async def test_all_of_a_long_line_can_be_read_with_the_one_tool_there_is(tmp_path: Path) -> None:
    """C8: most tools answer in JSON on a single line, and a framework's agent has no shell to cut it."""
    whole = json.dumps([f"row {n}" for n in range(9_000)]) + "\n" + "a" * 4_000 + "\n\nend"
    asked = FrameworkMessage(role="assistant", blocks=(ToolCall("c1", "look", {}),))
    answered = FrameworkMessage(role="user", blocks=(ToolResult("c1", (Text(whole),)),))
    history = [words("Look."), asked, answered]
    result = (await Follower(Layers(results=tmp_path)).shown(history, BASE))[2].blocks[0]
    assert isinstance(result, ToolResult)
    assert "Read it with Read" in result.text
    assert not any(other in result.text for other in ("Grep", "Bash"))
    read = result_reader(tmp_path)
    rows: list[str] = []
    line = column = 1
    while line:
        asked_for = {"file_path": str(tmp_path / "c1.txt"), "offset": line, "column": column, "limit": 1}
        shown, _, hint = str(await read.call(asked_for)).partition("\n")
        long = re.search(r" \[… [\d,]+ more characters in this line; go on with (.*)\]$", shown)
        rows.append(shown.partition("\t")[2][: -len(long[0]) if long else None])
        numbers = re.findall(r"=(\d+)", long[1] if long else hint)
        line = int(numbers[0]) if numbers else 0
        column = int(numbers[1]) if long else 1
    assert "".join(rows) == whole.replace("\n", "")
    assert rows[-3:] == ["a" * 4_000, "", "end"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("round"), st.integers(300, 1_500)),
        st.tuples(st.just("round"), st.integers(900, 1_000)),
        st.tuples(st.just("words"), st.integers(1, 200)),
        st.tuples(st.just("pause"), st.integers(1, 900)),
    ),
    min_size=12,
    max_size=30,
)


@settings(max_examples=scaled(20))
@given(steps=STEPS, says_usage=st.booleans())
async def test_what_was_sent_moves_only_where_the_session_says_so(
    steps: list[tuple[str, int]], says_usage: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """C31, C32: for any history, what is sent begins with what was sent before, or a line tells why not."""
    told: list[str] = []
    clock, folder = FrozenClock(), tmp_path_factory.mktemp("results")
    few = MicrocompactSettings(keep=2, tools=frozenset({"look"}))
    layers = Layers(results=folder, window=12_000, microcompact=few, on_notice=told.append, clock=clock)
    follower, history = Follower(layers), [words("Begin, and mind the gap.")]
    before: list[bytes] = []
    for n, (kind, size) in enumerate(steps):
        if kind == "pause":
            clock.advance(size)
            continue
        history += (
            round_of(f"call{n}", size) if kind == "round" else [_answer(n, says_usage), words("more " * size)]
        )
        told.clear()
        shown = await follower.shown(history, BASE)
        now = wires(shown)
        has_moved = now[: len(before)] != before
        assert has_moved == any(line.startswith(("Cleared", "Compacted")) for line in told)
        assert "mind the gap" in "".join(one.text for one in shown)
        _pairs_are_whole(shown)
        before = now


def _answer(n: int, says_usage: bool) -> FrameworkMessage:
    return answer(f"Answer {n}.", Usage(input=2_000, output=10) if says_usage else None)


def _pairs_are_whole(shown: list[MessageToSend]) -> None:
    blocks: list[Any] = [block for one in shown for block in one.blocks]
    asked = [block.id for block in blocks if isinstance(block, ToolCall)]
    assert asked == [block.call_id for block in blocks if isinstance(block, ToolResult)]
