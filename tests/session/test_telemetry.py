"""What a session tells OpenTelemetry: everything that happened, no word of what was said."""

from __future__ import annotations

from asyncio import all_tasks, sleep
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from nacre.app import layers as joining
from nacre.app.open_agent import open_agent
from nacre.cache.models import cost, profile
from nacre.devtools.sim import Simulator
from nacre.errors import AuthError, ToolError
from nacre.inspect.context_usage import contents_of
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.messages.blocks import Text, ToolCall
from nacre.messages.events import Event, TextDelta, TurnDone
from nacre.messages.records import Compacted, Noted, Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Request, complete
from nacre.session.agent import SessionAgent
from nacre.session.layer import Attachment, Layer
from nacre.session.layer_decisions import decisions
from nacre.session.session import Base, Session
from nacre.session.telemetry import VARIABLE
from nacre.settings import load
from nacre.testing import FrozenClock, ScriptedProvider, call, say, together
from nacre.tools.base import tool
from tests.agents.listening import Listener, listen
from tests.stories import scenes

MODEL = "claude-opus-5-5"
SECRET = "the walrus is named Paul"
USAGE = Usage(input=10, cache_write=200, cache_read=3_000, output=40)
listening = cache(listen)


@pytest.fixture
def heard() -> Iterator[Listener]:
    listener = listening()
    listener.exporter.clear()
    yield listener
    listener.failing.breaks = False


@tool(read_only=True)
async def look(at: str) -> str:
    """Looks."""
    return f"seen {at}"


@tool
async def fail(at: str) -> str:
    """Fails."""
    raise ToolError(f"cannot {at}")


def agent(provider: ScriptedProvider, clock: FrozenClock) -> SessionAgent:
    session = Session(Base(MODEL, "s", [look, fail]), clock=clock)
    return SessionAgent(session, provider, [look, fail])


async def played(one: SessionAgent, text: str) -> list[Event]:
    return [event async for event in one.stream(text)]


def note(kind: str, **facts: object) -> Noted:
    return Noted(id=kind, at=FrozenClock().now(), kind=kind, facts=facts)  # type: ignore[arg-type]


async def test_a_turn_is_a_span_around_its_model_calls_and_tool_calls(
    heard: Listener, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """Names, kinds and attributes of the GenAI conventions; what was cached counts as input, too."""
    provider.script(
        together(call("look", at="it"), call("fail", at="all"), usage=USAGE), together("done", usage=USAGE)
    )
    one = agent(provider, clock)
    done = (await played(one, "go"))[-1]
    assert isinstance(done, TurnDone)
    turn = heard.one("invoke_agent nacre")
    assert turn.parent is None and turn.kind is SpanKind.INTERNAL
    shared = {
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": MODEL,
        "gen_ai.conversation.id": one.session.id,
    }
    assert dict(turn.attributes or {}) == {
        **shared,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "nacre",
        "gen_ai.usage.input_tokens": 2 * 3_210,
        "gen_ai.usage.output_tokens": 80,
        "gen_ai.usage.cache_read.input_tokens": 6_000,
        "gen_ai.usage.cache_creation.input_tokens": 400,
        "nacre.outcome": "answered",
        "nacre.rounds": 2,
        "nacre.cost_usd": done.cost_usd,
    }
    first, last = heard.named(f"chat {MODEL}")
    assert first.kind is SpanKind.CLIENT and first.status.status_code is StatusCode.UNSET
    facts = dict(last.attributes or {})
    assert facts | shared == facts
    assert facts["gen_ai.usage.input_tokens"] == 3_210
    assert facts["gen_ai.response.finish_reasons"] == ("end_turn",)
    assert (first.attributes or {})["gen_ai.response.finish_reasons"] == ("tool_use",)
    ids = [block.id for block in calls_of(one)]
    looked, failed = heard.one("execute_tool look"), heard.one("execute_tool fail")
    assert dict(looked.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": ids[0],
        "gen_ai.conversation.id": one.session.id,
    }
    assert (failed.attributes or {})["error.type"] == "ToolError"
    assert failed.status.status_code is StatusCode.ERROR and failed.status.description is None
    for span in (first, last, looked, failed):
        assert span.parent is not None and span.parent.span_id == turn.context.span_id


def calls_of(one: SessionAgent) -> list[ToolCall]:
    blocks = [part.block for item in one.session.view.items for part in item.parts]
    return [block for block in blocks if isinstance(block, ToolCall)]


async def test_figures_count_tokens_time_and_money(
    heard: Listener, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """The metrics of the conventions; sessions are no attribute of theirs, there are too many."""
    tokens, money = "gen_ai.client.token.usage", "nacre.cost"
    before = [
        heard.total(tokens, gen_ai__token__type="input"),
        heard.total(tokens, gen_ai__token__type="output"),
        heard.total(money),
    ]
    provider.script(together("done", usage=USAGE))
    await played(agent(provider, clock), "go")
    assert heard.total(tokens, gen_ai__token__type="input") - before[0] == 3_210
    assert heard.total(tokens, gen_ai__token__type="output") - before[1] == 40
    assert heard.total(money) - before[2] == pytest.approx(cost(profile(MODEL), USAGE))
    series = [facts for facts, _ in heard.points("gen_ai.client.operation.duration")]
    assert any(facts["gen_ai.operation.name"] == "chat" for facts in series)
    assert all("gen_ai.conversation.id" not in facts for facts in series)


async def test_a_failure_is_told_by_its_kind_and_still_raised(
    heard: Listener, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """An error's message may quote anything."""
    provider.script(AuthError(SECRET))
    with pytest.raises(AuthError):
        await played(agent(provider, clock), "go")
    for name in ("invoke_agent nacre", f"chat {MODEL}"):
        span = heard.one(name)
        assert (span.attributes or {})["error.type"] == "AuthError"
        assert span.status.status_code is StatusCode.ERROR and not span.events
    assert SECRET not in everything(heard)


async def test_a_turn_that_is_cancelled_ends_its_spans(
    heard: Listener, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    provider.script(say("a long answer in several pieces"))
    one = agent(provider, clock)
    unfinished = one.stream("first")
    async for event in unfinished:
        if isinstance(event, TextDelta):
            break
    await one.cancel()
    await unfinished.aclose()
    for name in ("invoke_agent nacre", f"chat {MODEL}"):
        assert (heard.one(name).attributes or {})["error.type"] == "cancelled"


async def test_no_word_of_a_conversation_is_told_unless_the_environment_asks(
    heard: Listener, provider: ScriptedProvider, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = agent(provider, clock)
    provider.script(together(SECRET, call("look", at=SECRET)), say(SECRET))
    await played(one, SECRET)
    assert len(heard.spans) == 4 and SECRET not in everything(heard)
    heard.exporter.clear()
    monkeypatch.setenv(VARIABLE, "span_only")
    provider.script(together(SECRET, call("look", at=SECRET)), say(SECRET))
    await played(one, SECRET)
    chat, tool_span = heard.named(f"chat {MODEL}")[0], heard.one("execute_tool look")
    assert {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"} <= set(
        chat.attributes or {}
    )
    assert (tool_span.attributes or {})["gen_ai.tool.call.result"] == f"seen {SECRET}"


async def test_words_for_a_model_on_this_machine_are_told_to_nobody(
    heard: Listener, provider: ScriptedProvider, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M27: it may have been told what must not leave."""
    monkeypatch.setenv(VARIABLE, "true")
    one = agent(provider, clock)
    one.session.telemetry.hides_words = True
    provider.script(call("look", at=SECRET), say(SECRET))
    await played(one, SECRET)
    assert len(heard.spans) == 4 and SECRET not in everything(heard)


async def test_what_a_layer_decides_is_an_event_of_the_turn_and_a_figure(
    heard: Listener, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """Every layer writes a decision record, and the record is the telemetry event."""
    one = agent(provider, clock)
    count = heard.total("nacre.layer.decisions", nacre__layer="offload")
    tokens = heard.total("nacre.layer.tokens", nacre__layer="offload")

    class Notes(Layer):
        async def filter(self, message: Said, view: View) -> tuple[Said, Sequence[Attachment]]:
            await one.session.transcript.append(note("offload", path=SECRET, tokens=5_000, reason="size"))
            return message, ()

    one.session.add_layers(Notes())
    provider.script(call("look", at="it"), say("done"))
    await played(one, "go")
    event, _ = heard.one("invoke_agent nacre").events  # with the person's words, and with the results
    assert event.name == "nacre.layer.decision"
    assert dict(event.attributes or {}) == {
        "nacre.layer": "offload",
        "nacre.layer.reason": "size",
        "nacre.layer.tokens": 5_000,
    }
    assert heard.total("nacre.layer.decisions", nacre__layer="offload") - count == 2
    assert heard.total("nacre.layer.tokens", nacre__layer="offload") - tokens == 10_000
    assert SECRET not in everything(heard)


async def test_a_question_to_the_small_model_is_told_beside_the_turns_own(
    heard: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5; patched, because the provider that chooses memories is built from the settings alone."""
    small = ScriptedProvider([together('{"selected_memories": []}', usage=Usage(input=700, output=20))])
    monkeypatch.setattr(joining, "build", lambda *_: small)
    names = {"ANTHROPIC_API_KEY": "any", "NACRE_SMALL_MODEL": "claude-haiku-4-5", "NACRE_MODEL": MODEL}
    settings = load(tmp_path, {"NACRE_HOME": str(tmp_path / "home"), **names})
    memory = await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")})
    await memory.save(MemoryDraft(body=SECRET), MemoryChange(author="user", reason="by hand"))
    main = ScriptedProvider([call("Glob", pattern="*"), say("done")])
    async with open_agent(settings, provider=main) as ready:
        async for _ in ready.agent.stream("what would be nice to serve our guest?"):
            while len(main.requests) == 1 and any(t.get_name() == "select memories" for t in all_tasks()):
                await sleep(0)
        layers = contents_of(ready.agent.session).layers
    side, turn = heard.one("chat claude-haiku-4-5"), heard.one("invoke_agent nacre")
    assert (side.attributes or {})["nacre.purpose"] == "memdir_relevance"
    assert side.parent is not None and side.parent.span_id == turn.context.span_id
    assert layers["recall"].times == 1 and layers["recall"].tokens == 720
    assert SECRET not in everything(heard)


async def test_what_happens_between_turns_is_a_span_of_its_own(
    heard: Listener, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """C8b: a refresh of the cache, and the request that made it."""
    one = agent(provider, clock)
    provider.script(together("", usage=USAGE))
    aside = one.session.telemetry.aside(provider, "keep_warm")
    assert (aside.name, aside.capabilities(MODEL)) == ("scripted", provider.capabilities(MODEL))
    await complete(aside, Request(model=MODEL, messages=[{"role": "user", "content": "x"}]))
    await one.session.transcript.append(
        note("side_query", purpose="keep_warm", model=MODEL, usage=USAGE.as_json())
    )
    chat, layer = heard.one(f"chat {MODEL}"), heard.one("nacre.layer keep_warm")
    assert (chat.attributes or {})["nacre.purpose"] == "keep_warm"
    assert "error.type" not in (chat.attributes or {})
    assert (layer.attributes or {})["nacre.layer.tokens"] == 3_210


async def test_a_run_of_extraction_and_of_a_dream_tells_counts_and_reasons_and_no_name(
    heard: Listener, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """E6, D5: what was written, saved, refused and why, denied, and how long it took."""
    one = agent(provider, clock)
    before = heard.total("nacre.memory.refusals", nacre__memory__reason="ungrounded")
    extraction = note(
        "extraction", files=[SECRET, "b.md"], saved=2, proposed=0, refused={"ungrounded": 3, SECRET: 1},
        denied_writes=4, rounds=5, seconds=1.5, usage=USAGE.as_json(),
    )  # fmt: skip
    dream = note("dream", files=["a.md"], status="put off", refused={}, rounds=2, seconds="x", tokens=90)
    await one.session.transcript.append(extraction, dream, note("extraction", failed="StoreError"))
    spans = [span for span in heard.exporter.get_finished_spans() if span.name.startswith("nacre.layer ")]
    first, second, third = (dict(span.attributes or {}) for span in spans)
    named = {name.removeprefix("nacre.memory."): value for name, value in first.items()}
    assert first["nacre.layer"] == "extract" and first["nacre.layer.reason"] == "saved"
    assert (named["files_written"], named["files_saved"], named["refused"]) == (2, 2, 4)
    assert named["refusal_reasons"] == ("ungrounded", "unsaid")
    assert (named["denied_writes"], named["turns"], named["duration"]) == (4, 5, 1.5)
    assert first["nacre.layer.tokens"] == USAGE.total
    assert (second["nacre.layer"], second["nacre.layer.reason"]) == ("dream", "put_off")
    assert (second["nacre.memory.turns"], second["nacre.memory.duration"]) == (2, 0.0)
    assert third["nacre.layer.reason"] == "failed"
    assert heard.total("nacre.memory.refusals", nacre__memory__reason="ungrounded") - before == 3
    assert SECRET not in everything(heard)


def test_decisions_are_read_off_records() -> None:
    at = FrozenClock().now()
    compacted = Compacted(id="c", at=at, summary=(Text("s"),), pre_tokens=900, post_tokens=100)
    records = [
        note("offload", tokens_kept_out=10, reason="too long for " + SECRET),
        note("offload", tokens_kept_out=15),
        note("duplicate", tokens=20),
        note("clear", tokens=30, reason="idle", calls=["a"]),
        note("recalled", bytes=400, files=[SECRET]),
        note("side_query", purpose="memdir_relevance", usage={}),
        note("notes", covers="r", tokens=12_000, by="model"),
        note("day", date="2026-01-01"),
        note("clear", tokens="many", reason=7),
        compacted,
    ]
    assert [(one.layer, one.reason, one.tokens) for one in decisions(records)] == [
        ("offload", "unsaid", 10),
        ("offload", "size", 15),
        ("offload", "duplicate", 20),
        ("clear", "idle", 30),
        ("recall", "attached", 100),
        ("notes", "model", 12_000),
        ("clear", "unsaid", 0),
        ("compact", "auto", 800),
    ]


async def test_a_broken_exporter_never_reaches_the_turn(
    heard: Listener, provider: ScriptedProvider, clock: FrozenClock, capsys: pytest.CaptureFixture[str]
) -> None:
    heard.failing.breaks = True
    provider.script(call("look", at="it"), say("done"))
    assert isinstance((await played(agent(provider, clock), "go"))[-1], TurnDone)
    assert capsys.readouterr() == ("", "")


async def test_a_turn_over_http_is_told_with_the_providers_own_figures(
    heard: Listener, tmp_path: Path
) -> None:
    """Against the simulator, through the vendor's SDK, with the tools a person has."""
    script: list[scenes.Json] = [scenes.calls(scenes.call("Glob", pattern="*.py")), "Four modules."]
    work = scenes.project(tmp_path / "work")
    async with Simulator(script) as sim, scenes.talking_to(sim, scenes.CLAUDE, work) as ready:
        events = await scenes.say(ready.agent, "What is in here?")
    done = events[-1]
    assert isinstance(done, TurnDone)
    calls = heard.named(f"chat {scenes.CLAUDE}")
    assert [(span.attributes or {})["gen_ai.provider.name"] for span in calls] == ["anthropic"] * 2
    told = [(span.attributes or {})["gen_ai.usage.input_tokens"] for span in calls]
    assert sum(told) == done.usage.prompt and all(told)  # type: ignore[arg-type]
    assert (calls[1].attributes or {})["gen_ai.usage.cache_read.input_tokens"] == told[0]
    assert (heard.one("execute_tool Glob").attributes or {})["gen_ai.tool.call.id"]
    assert "module_0.py" not in everything(heard) and str(tmp_path) not in everything(heard)


def everything(heard: Listener) -> str:
    """All that was told of spans, as one text."""
    return "\n".join(span.to_json() for span in heard.spans)
