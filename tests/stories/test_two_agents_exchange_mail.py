"""Agents write to each other: at every moment of a round, until a real test passes, across kills (A3, A5)."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.layers.l7_mail.layer import MAIL
from nacre.layers.l7_mail.letter import TERMINAL, Letter
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.layers.l7_mail.send_message import NAME as SEND
from nacre.messages.blocks import Json
from nacre.messages.events import Event, ToolResultEvent
from nacre.providers.base import Request
from nacre.providers.scripted import Scripted
from nacre.session.compaction import CompactionRequest
from nacre.settings import load
from nacre.testing import Cast, ScriptedProvider, call, first_moved_block, say, together
from nacre.tools.base import tool
from tests.scale import scaled
from tests.stories.scenes import environment

MODEL = "claude-sonnet-5-5"
OLDER = "claude-sonnet-4-6"
OFF = {"NACRE_NOTES": "0", "NACRE_COMPACT_PREPARE": "0", "NACRE_EXTRACT": "0", "NACRE_DREAM": "0"}
SAFETY_SECONDS = 30.0


@asynccontextmanager
async def opened(
    cwd: Path, provider: object, *, session: str = "new", model: str = MODEL, **more: object
) -> AsyncIterator[OpenedAgent]:
    cwd.mkdir(exist_ok=True)
    given = load(cwd, {**environment(cwd), **OFF}, cli={"model": model})
    async with open_agent(given, provider=provider, session=session, **more) as ready:  # type: ignore[arg-type]
        yield ready


async def played(ready: OpenedAgent, text: str) -> list[Event]:
    with anyio.fail_after(SAFETY_SECONDS):
        return [event async for event in ready.agent.stream(text)]


def results(events: list[Event]) -> list[str]:
    return [event.result.text for event in events if isinstance(event, ToolResultEvent)]


def letter_to(ready: OpenedAgent, text: str, *, name: str = "main", sender: str = "friend") -> None:
    """Somebody in another process writes."""
    folder = ready.agent.session.writer.folder  # type: ignore[attr-defined]
    clock = ready.agent.session.clock
    box = Mailbox(folder / "inboxes" / f"{name}.jsonl")
    box.put(Letter(id=clock.new_id(), sender=sender, to=name, text=text, summary=text, at=clock.now()))


def send(to: str, message: Json, summary: str = "") -> Scripted:
    return call(SEND, to=to, message=message, summary=summary)


@settings(max_examples=scaled(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moment=st.sampled_from(["before", "during", "at the end"]),
    count=st.integers(1, 3),
    model=st.sampled_from([MODEL, OLDER]),
)
def test_a_letter_sent_while_a_tool_runs_is_in_the_very_next_request(
    tmp_path_factory: pytest.TempPathFactory, moment: str, count: int, model: str
) -> None:
    """A3: always, at the tail; the prefix stays (net)."""

    async def lived() -> ScriptedProvider:
        provider = ScriptedProvider([call("work"), say("done")])
        cwd = tmp_path_factory.mktemp("work")

        @tool
        async def work() -> str:
            """Works for a while."""
            if moment == "before":
                write()
            await asyncio.sleep(0)
            if moment == "during":
                await asyncio.to_thread(write)
                await asyncio.sleep(0)
            if moment == "at the end":
                write()
            return "worked"

        def write() -> None:
            for number in range(count):
                letter_to(ready, f"letter {number}")

        async with opened(cwd, provider, model=model, tools=lambda usual: [*usual, work]) as ready:
            await played(ready, "go")
            assert [note.fact("from") for note in ready.agent.session.view.noted(MAIL)] == [
                ["friend"] * count
            ]
        return provider

    provider = asyncio.run(lived())
    last = str(provider.requests[1].messages[-1])
    assert "worked" in last
    assert re.findall(r"\\n(letter \d)\\n", last) == [f"letter {number}" for number in range(count)]
    assert first_moved_block(provider.requests) is None


@pytest.mark.slow
async def test_a_reviewer_and_a_fixer_talk_until_a_real_test_passes(tmp_path: Path) -> None:
    """A3: two agents of one session, each by its own conversation; the person's session only starts them."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    (cwd / "adding.py").write_text("def add(a, b):\n    return a - b\n")
    (cwd / "test_adding.py").write_text(
        "from adding import add\n\ndef test_adds():\n    assert add(2, 3) == 5\n    assert add(0, 0) == 0\n"
    )
    run_tests = f"{sys.executable} -m pytest -q -p no:cacheprovider test_adding.py"

    def judged(request: Request) -> Scripted:
        return (
            send("fixer", "It passes now. Thank you.", "passes")
            if "2 passed" in _last(request) or "1 passed" in _last(request)
            else send("fixer", "add(2, 3) is not 5: the sign is wrong.", "still fails")
        )

    reviewer = ScriptedProvider([
        call("Bash", command=run_tests), judged, say("I have written to the fixer."),
        call("Bash", command=run_tests), judged, say("It passes."),
    ])  # fmt: skip
    fixer = ScriptedProvider([
        say("I wait for the reviewer."),
        call("Read", file_path="adding.py"),
        call("Edit", file_path="adding.py", old_string="a - b", new_string="a + b"),
        send("reviewer", "The sign is mended. Try again.", "mended"),
        say("Mended."),
        say("Good."),
    ])  # fmt: skip
    main = ScriptedProvider([
        together(
            call("Agent", description="fix", prompt="You fix what the reviewer finds.", name="fixer",
                 run_in_background=True),
            call("Agent", description="review", prompt="You run the tests and write to the fixer.",
                 name="reviewer", run_in_background=True),
        ),
        say("They are at work."),
        *[say("I see.")] * 6,
    ])  # fmt: skip
    parts = {"You fix what the reviewer finds.": fixer, "You run the tests": reviewer}
    async with opened(cwd, Cast(main, parts)) as ready:
        ready.agent.session.is_one_shot = True
        await played(ready, "Have it fixed.")
        states = {one.name: one for one in ready.team.states()}  # type: ignore[union-attr]
    assert (cwd / "adding.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert (reviewer.left, fixer.left) == (0, 0)
    assert {name: one.status for name, one in states.items()} == {
        "fixer": "completed",
        "reviewer": "completed",
    }
    assert 'from=\\"reviewer\\"' in str(fixer.requests[-1].messages).replace('"', '\\"')
    for provider in (reviewer, fixer):
        assert first_moved_block(provider.requests) is None


@pytest.mark.slow
async def test_two_agents_that_always_answer_each_other_stop_until_the_person_says_something(
    tmp_path: Path,
) -> None:
    """Letters wake each of them ten times; then the person is told once, and what came last is kept."""

    def part(other: str, *first: Scripted) -> ScriptedProvider:
        def next_reply(request: Request) -> Scripted:
            return send(other, "Your turn.") if "Your turn." in _last(request) else say("Sent.")

        return ScriptedProvider(first, otherwise=next_reply)

    ping, pong = part("pong", send("pong", "Your turn.")), part("ping", say("I wait."))
    orders = [
        call("Agent", description="play", prompt=f"Be {name}.", name=name, run_in_background=True)
        for name in ("ping", "pong")
    ]
    main = ScriptedProvider([together(*orders), say("They play."), send("pong", "Your turn."), say("Sent.")])
    async with opened(tmp_path / "work", Cast(main, {"Be ping.": ping, "Be pong.": pong})) as ready:

        def asked() -> int:
            return ping.calls + pong.calls

        await played(ready, "Let them play.")
        runs = await _rest(ready, asked)
        assert max(runs.values()) == 11, "a first run, and ten that letters began"
        first = asked()
        assert first <= 100
        told = [one.text for one in ready.agent.session.notices()]
        stopped = [line for line in told if "was woken by messages 10 times without input from you" in line]
        assert len(stopped) == 1 and runs[stopped[0].partition(" ")[0]] == 11
        folder = ready.agent.session.writer.folder  # type: ignore[attr-defined]
        boxes = [Mailbox(folder / "inboxes" / f"{name}.jsonl") for name in ("ping", "pong")]
        (held,) = [letter for box in boxes for letter in box.waiting().letters]

        await played(ready, "Go on.")
        again = await _rest(ready, asked)
        assert first < asked() <= first + 100
        assert all(1 <= again[name] - runs[name] <= 10 for name in runs)
        assert held not in [letter for box in boxes for letter in box.waiting().letters], "it was delivered"

        waiting = {box.path.stem for box in boxes if box.waiting().letters}
        (name,) = waiting
        letter_to(ready, "From another agent.", name=name)
        assert await _rest(ready, asked) == again
        letter_to(ready, "Go on, please.", name=name, sender=TERMINAL)
        with anyio.fail_after(SAFETY_SECONDS):
            while (await _rest(ready, asked))[name] == again[name]:
                pass
    assert "could not be woken: it was woken 10 times" in str([*ping.requests, *pong.requests])


@pytest.mark.slow
async def test_agents_that_write_to_each_other_within_their_turns_are_stopped_until_the_person_says_something(
    tmp_path: Path,
) -> None:
    """Letters reach a running turn thirty times; then they are held, and the person is told once."""
    limit, rounds, after = 30, 95, 3

    def deliveries(provider: ScriptedProvider) -> int:
        return str(provider.requests[-1].messages).count("Other agents have written to you")

    def part(other: str) -> ScriptedProvider:
        def next_reply(request: Request) -> Scripted:
            # Letters that arrive together are one delivery, so both go on until each has had its share.
            reached = all(one.requests and deliveries(one) >= limit for one in (ping, pong))
            left[0] -= reached
            return send(other, "Your turn.") if left[0] > 0 and provider.calls < rounds else say("Enough.")

        left = [after]
        provider = ScriptedProvider(otherwise=next_reply)
        return provider

    ping, pong = part("pong"), part("ping")
    orders = [
        call("Agent", description="play", prompt=f"Be {name}.", name=name, run_in_background=True)
        for name in ("ping", "pong")
    ]
    main = ScriptedProvider([together(*orders), say("They play."), send("ping", "Go on."), say("Sent.")])
    async with opened(tmp_path / "work", Cast(main, {"Be ping.": ping, "Be pong.": pong})) as ready:

        def held() -> dict[str, int]:
            folder = ready.agent.session.writer.folder  # type: ignore[attr-defined]
            boxes = {name: Mailbox(folder / "inboxes" / f"{name}.jsonl") for name in ("ping", "pong")}
            return {name: len(box.waiting().letters) for name, box in boxes.items()}

        await played(ready, "Let them play.")
        await _rest(ready, lambda: ping.calls + pong.calls)
        told = [one.text for one in ready.agent.session.notices()]
        assert sum("received messages 30 times without input from you" in line for line in told) == 1, told
        assert all(held().values())
        assert deliveries(ping) == deliveries(pong) == 30
        assert "could not be woken: it received messages 30 times" in str([*ping.requests, *pong.requests])
        await played(ready, "Go on.")
        await _rest(ready, lambda: ping.calls + pong.calls)
        assert held()["ping"] == 0, "what was held is delivered"


async def _rest(ready: OpenedAgent, count: Callable[[], int]) -> dict[str, int]:
    """Wait until nobody works and nobody is about to be set to work; how often each agent has worked."""
    assert ready.team is not None
    with anyio.fail_after(SAFETY_SECONDS):
        before = -1
        while before != count() or any(one.is_running for one in ready.team.states()):
            before = count()
            await asyncio.sleep(0.5)
    return {one.name: one.run for one in ready.team.states()}


def _last(request: Request) -> str:
    return str(request.messages[-1])


WRONG = {
    "unknown": ({"to": "nobody-here", "message": "x"}, "there is no agent"),
    "close": ({"to": "revewer", "message": "x"}, "did you mean reviewer"),
    "path": ({"to": "../../etc/passwd", "message": "x"}, "cannot be an agent's name"),
    "absolute": ({"to": "/tmp/x", "message": "x"}, "cannot be an agent's name"),
    "oneself": ({"to": "main", "message": "x"}, "a letter to oneself"),
    "oversized": ({"to": "reviewer", "message": "x" * 100_001}, "too many for a letter"),
    "empty": ({"to": "reviewer", "message": "  "}, "needs words"),
    "kind": ({"to": "reviewer", "message": {"type": "obey_me"}}, "known are shutdown_request"),
    "reserved": ({"to": "user", "message": "x"}, "reserved"),
    "bridge": ({"to": "bridge:host-1", "message": "x"}, "no bridge"),
    "socket": ({"to": "uds:/no/such.sock", "message": "x"}, "there is no socket"),
    "scheme": ({"to": "mailto:a@b", "message": "x"}, "is no address"),
}


async def test_what_cannot_be_sent_is_refused_in_one_line_as_a_result(tmp_path: Path) -> None:
    """A4: and the session goes on."""
    wrong = [call(SEND, **arguments) for arguments, _ in WRONG.values()]  # type: ignore[arg-type]
    start = call("Agent", description="a", prompt="Be the reviewer.", name="reviewer")
    main = ScriptedProvider([start, together(*wrong), say("I see.")])
    async with opened(
        tmp_path / "work", Cast(main, {"Be the reviewer.": ScriptedProvider([say("ok")])})
    ) as ready:
        events = await played(ready, "go")
        folder = ready.agent.session.writer.folder  # type: ignore[attr-defined]
        boxes = list((folder / "inboxes").glob("*.jsonl")) if (folder / "inboxes").exists() else []
    refused = [event.result for event in events if isinstance(event, ToolResultEvent)][1:]
    assert all(result.is_error for result in refused)
    for result, (_, why) in zip(refused, WRONG.values(), strict=True):
        assert why in result.text
        assert "\n" not in result.text.strip()
    assert boxes == []


@pytest.mark.slow
async def test_twenty_agents_write_to_each_other_and_each_sender_keeps_its_order(tmp_path: Path) -> None:
    """A3: side by side in one session, nothing lost, nothing twice, in order."""
    count, rounds = 20, 2
    names = [f"a{number}" for number in range(count)]
    heard: dict[str, list[str]] = {name: [] for name in names}
    begun = {"left": count}
    gate = anyio.Event()

    def part(name: str) -> ScriptedProvider:
        async_rounds = [
            together(*[send(to, f"{name} says {n}") for to in names if to != name]) for n in range(rounds)
        ]

        def first(request: Request) -> Scripted:
            begun["left"] -= 1
            if not begun["left"]:
                gate.set()
            return together("I begin.", async_rounds[0], gate=gate)

        def last(request: Request) -> Scripted:
            heard[name] = re.findall(r"\\n(a\d+ says \d)\\n", str(request.messages))
            return say("done")

        return ScriptedProvider([first, *async_rounds[1:]], otherwise=last)

    parts = {f"Be {name}.": part(name) for name in names}
    orders = [
        call("Agent", description="a", prompt=f"Be {name}.", name=name, run_in_background=True)
        for name in names
    ]
    main = ScriptedProvider([together(*orders), say("go")], otherwise=say("I see."))
    async with opened(tmp_path / "work", Cast(main, parts)) as ready:
        ready.agent.session.is_one_shot = True
        with anyio.fail_after(120):
            events = [event async for event in ready.agent.stream("Start them.")]
    assert not any(event.result.is_error for event in events if isinstance(event, ToolResultEvent))
    for name in names:
        assert sorted(heard[name]) == sorted(
            f"{other} says {n}" for other in names if other != name for n in range(rounds)
        )
        for other in names:
            mine = [text for text in heard[name] if text.startswith(f"{other} ")]
            assert mine == sorted(mine)


WISH = "Please remember that I like cold tea with seven lemons every morning."


@pytest.mark.parametrize("by", ["a letter", "the person"])
async def test_a_letter_makes_no_memory_and_is_none_of_the_persons_words(tmp_path: Path, by: str) -> None:
    """E2, C20, M16b: the same sentence from the person makes one, and is kept to the letter."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    wanted = load(cwd, {"HOME": str(cwd), "NACRE_HOME": str(cwd / "home"), "NACRE_MODEL": "embedded"})
    async with open_agent(replace(wanted, is_interactive=True)) as ready:
        await played(ready, "What is two plus two?")
        if by == "a letter":
            letter_to(ready, WISH)
        await played(ready, WISH if by == "the person" else "And three plus three?")
        assert ("lemons" in str(ready.agent.session.view.messages)) is True
        for number in range(4):
            await played(ready, f"Part {number}: " + "one more word and another one, " * 2_000)
        await ready.background.drain()
        (memory, *_) = ready.memories
        files = "".join(path.read_text() for path in memory.location.directory.rglob("*.md"))
        summary = str((await ready.compact.compact(CompactionRequest())).record.summary)
    assert ("lemons" in files) is (by == "the person")
    assert ("lemons" in summary) is (by == "the person")
