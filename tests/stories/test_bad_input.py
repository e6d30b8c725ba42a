"""Providers, tools, disks and files at their worst: one clear line, a whole log, and the session goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.devtools.sim import Simulator
from nacre.errors import NacreError, Overloaded, PromptTooLong, StreamBroken
from nacre.messages.blocks import Json
from nacre.messages.events import Event, Reply, StartedOver, TextDelta, Waiting
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.retry import RetrySettings, with_retry
from nacre.session.agent import SessionAgent
from nacre.settings import load
from nacre.testing import ScriptedProvider
from nacre.tools.base import Tool, tool
from tests.cli.program import nacre, started
from tests.stories.processes import Sim, logs, said, user_texts
from tests.stories.scenes import CLAUDE, call, calls, environment, results, say

BROKEN = "a reply that breaks off before it has come to its end"


@asynccontextmanager
async def patient(
    sim: Simulator, cwd: Path, *, silence: float = 30.0, tools: list[Tool] | None = None
) -> AsyncIterator[tuple[SessionAgent, list[float]]]:
    """An agent that retries as usual but does not really wait; how long it would have."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    inner = AnthropicProvider(api_key="k", base_url=sim.url, timeout=silence)
    provider = with_retry(inner, RetrySettings(tries=6), sleep=sleep)
    settings = load(cwd, environment(cwd), cli={"model": CLAUDE})
    try:
        async with open_agent(settings, provider=provider, tools=tools) as ready:
            yield ready.agent, slept
    finally:
        await provider.close()


def heard(events: list[Event]) -> str:
    """The words that count: those after the last start."""
    last = max((i for i, event in enumerate(events) if isinstance(event, StartedOver)), default=-1)
    return "".join(event.text for event in events[last + 1 :] if isinstance(event, TextDelta))


@pytest.mark.parametrize("kind", ["disconnect", "malformed", "truncate_json", "overloaded"])
async def test_a_reply_that_breaks_in_the_middle_is_asked_for_again(kind: str, tmp_path: Path) -> None:
    """Q3: what was streamed is void, what is recorded is whole."""
    async with Simulator([{"text": BROKEN, "fault": {"kind": kind, "after": 5}}, "Whole."]) as sim:
        async with patient(sim, tmp_path) as (agent, slept):
            events = await say(agent, "hello")
        assert [type(event) for event in events if isinstance(event, StartedOver)] == [StartedOver]
        assert heard(events) == "Whole."
        assert len(slept) == 1
        assert len(sim.log) == 2
    assert said(logs(tmp_path)[0])[1] == "assistant: Whole."


async def test_a_provider_that_falls_silent_is_given_up_and_the_session_goes_on(tmp_path: Path) -> None:
    """Q3, Q5: three silences are enough; the person's words wait in the log."""
    hang: Json = {"text": BROKEN, "fault": {"kind": "hang", "after": 4}}
    async with (
        Simulator([hang, hang, hang, "Back."]) as sim,
        patient(sim, tmp_path, silence=0.2) as (agent, _),
    ):
        with pytest.raises(StreamBroken, match=r"sent nothing for 0\.2 seconds; gave up after 3 tries"):
            await say(agent, "hello")
        assert heard(await say(agent, "still there?")) == "Back."
    assert user_texts(logs(tmp_path)[0]) == ["hello", "still there?"]
    assert said(logs(tmp_path)[0])[1] == "assistant: Back."


async def test_a_storm_of_overloads_is_waited_out(tmp_path: Path) -> None:
    """Q3: with growing pauses, never shorter than the provider asks for."""
    storm: list[Json] = [{"fault": {"kind": "overloaded", "retry_after": 9}}, *[{"fault": "overloaded"}] * 4]
    async with Simulator([*storm, "Calm."]) as sim, patient(sim, tmp_path) as (agent, slept):
        events = await say(agent, "hello")
    assert heard(events) == "Calm."
    assert [event.seconds for event in events if isinstance(event, Waiting)] == slept
    assert slept[0] == 9
    assert slept[1:] == sorted(slept[1:])
    assert len({str(one.body["messages"]) for one in sim.log}) == 1


async def test_a_storm_that_does_not_end_is_one_line_and_the_session_goes_on(tmp_path: Path) -> None:
    """Q3, Q5."""
    async with (
        Simulator([*[{"fault": "overloaded"}] * 6, "Calm."]) as sim,
        patient(sim, tmp_path) as (agent, _),
    ):
        with pytest.raises(Overloaded, match=r"529.*gave up after 6 tries, try again later") as caught:
            await say(agent, "hello")
        assert "\n" not in str(caught.value)
        assert heard(await say(agent, "and now?")) == "Calm."


async def test_a_prompt_that_is_too_long_is_said_once_and_the_session_goes_on(tmp_path: Path) -> None:
    """C27: with no layer that helps, it is asked once and said in one line."""
    async with (
        Simulator([{"fault": "prompt_too_long"}, "Shorter."]) as sim,
        patient(sim, tmp_path) as (agent, _),
    ):
        with pytest.raises(PromptTooLong) as caught:
            await say(agent, "hello")
        assert "\n" not in str(caught.value)
        assert len(sim.log) == 1
        assert heard(await say(agent, "hm")) == "Shorter."


@pytest.mark.slow
async def test_tools_that_raise_or_print_without_end_become_results(tmp_path: Path) -> None:
    """T6, step 9 of the walk: an exception in a tool never ends a turn."""

    @tool
    async def explode(why: str) -> str:
        """Raises."""
        raise ZeroDivisionError(why)

    script: list[Json] = [
        calls(call("explode", why="just so"), call("nobody"), call("explode", wrong=1)),
        calls(call("Bash", command="yes")),
        "All survived.",
    ]
    async with Simulator(script) as sim, patient(sim, tmp_path) as (agent, _):
        agent.tools["explode"] = explode
        events = await say(agent, "try them")
    assert [one.is_error for one in results(events)] == [True] * 4
    raised, unknown, misused, flood = (one.text for one in results(events))
    assert "just so" in raised
    assert "nobody" in unknown
    assert "why" in misused
    assert "printed more than" in flood
    assert len(flood) < 20_000
    assert isinstance(events[-2], Reply)
    assert heard(events) == "All survived."


FULL = """
import resource, signal, sys
sys.dont_write_bytecode = True  # half a compiled file would break every later process
from nacre.cli.main import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, resource.RLIM_INFINITY))
sys.exit(main())
"""
"""Every file ends at 4 kB, as on a disk that has no more room."""


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_nothing_is_damaged(sim: Sim, tmp_path: Path) -> None:
    """T1, T8: words that could not be kept are not sent; with room again the session goes on."""
    assert nacre(tmp_path, "-p", "hello").returncode == 0
    (log,) = logs(tmp_path)
    before = log.read_bytes()
    full = started(tmp_path, "-c", FULL, "-p", "x" * 5_000, "--continue", **sim.environ())
    assert (full.returncode, full.stdout) == (1, "")
    # Before it, one line says what another model costs.
    last = full.stderr.splitlines()[-1]
    assert last == f"nacre: disk full: {log} is as it was before; free some space and try again"
    assert len(full.stderr.splitlines()) == 2
    assert log.read_bytes() == before
    assert sim.log() == []
    sim.extend("Long words.")
    again = nacre(tmp_path, "-p", "x" * 5_000, "--continue", **sim.environ())
    assert again.returncode == 0
    assert user_texts(log) == ["hello", "x" * 5_000]


@pytest.mark.slow
def test_a_disk_that_fills_up_in_mid_turn_leaves_a_whole_log(sim: Sim, tmp_path: Path) -> None:
    """T6, T8: the results do not fit any more; the calls are marked interrupted when there is room again."""
    sim.script(calls(call("Bash", command="seq 1 2000")), "Later.")
    full = started(tmp_path, "-c", FULL, "-p", "count", **sim.environ())
    assert full.returncode == 1
    assert full.stderr.startswith("nacre: disk full: ")
    assert len(full.stderr.splitlines()) == 1
    again = nacre(tmp_path, "-p", "go on", "--continue", **sim.environ())
    assert (again.returncode, again.stdout) == (0, "Later.\n")
    assert again.stderr == "nacre: 1 tool call did not finish last time.\n"
    assert user_texts(logs(tmp_path)[0]) == ["count", "go on"]


FOREIGN = {
    "binary": bytes(range(256)) * 40,
    "text": b"Dear diary,\ntoday I was not a transcript.\n",
    "a list of numbers": b"[1, 2, 3]\n",
    "records of something else": b'{"level":"info","msg":"started"}\n{"level":"info","msg":"ended"}\n',
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
async def test_a_file_that_is_no_transcript_is_refused_in_one_line_and_left_as_it_is(
    content: bytes, tmp_path: Path
) -> None:
    """T5, T8: nothing is cut off, nothing is appended to it, and nothing is sent."""
    settings = load(tmp_path, environment(tmp_path), cli={"model": CLAUDE})
    path = tmp_path / "home" / "projects" / "-somewhere" / "0a1b2c.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    async with Simulator(["Should not be asked."]) as sim:
        provider = AnthropicProvider(api_key="k", base_url=sim.url)
        with pytest.raises(NacreError) as caught:
            async with open_agent(settings, provider=provider, session="0a1b2c") as ready:
                await say(ready.agent, "hello")
        await provider.close()
        assert not sim.log
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


TORN_FROM_THE_START = {"zeros": b"\0" * 4096, "half a record": b'{"type":"user","mess'}


@pytest.mark.parametrize("content", TORN_FROM_THE_START.values(), ids=TORN_FROM_THE_START)
async def test_a_log_torn_in_its_first_record_begins_anew_and_keeps_the_pieces(
    content: bytes, tmp_path: Path
) -> None:
    """T8: what some file systems leave behind after a power cut."""
    settings = load(tmp_path, environment(tmp_path), cli={"model": CLAUDE})
    path = tmp_path / "home" / "projects" / "-somewhere" / "0a1b2c.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    async with open_agent(settings, provider=ScriptedProvider(["Hello."]), session="0a1b2c") as ready:
        assert [f"{len(content)} bytes were moved" in notice for notice in ready.notices] == [True]
        await say(ready.agent, "hello")
    assert user_texts(path) == ["hello"]
    assert (path.with_suffix("") / "torn-1.bin").read_bytes() == content
