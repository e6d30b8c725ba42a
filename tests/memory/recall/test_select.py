"""A small model chooses memories: over real sockets on the simulator, and by script (R5, R6)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.devtools.sim import Simulator
from nacre.errors import ConfigError, ProviderError
from nacre.memory.recall.base import MAX_PICKS, RecallQuery
from nacre.memory.recall.select import MAX_MESSAGE_CHARS, SCHEMA, Selection, select
from nacre.messages.blocks import Json, JsonObject
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Capabilities
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.testing import ScriptedProvider, say, together
from tests.memory.recall.made import DAY, PROJECT, ranked

MODEL = "claude-haiku-5-5"
OLD_MODEL = "claude-3-5-haiku"
"""Takes no schema."""
MEMORIES = [ranked(f"{name}.md", f"about {name}") for name in ("tea", "deploys", "tests", "audit")]
TEA, DEPLOYS, TESTS, AUDIT = MEMORIES
QUERY = RecallQuery(text="how do we deploy?", now=DAY, recent_tools=("Bash",))


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    async with Simulator() as running:
        yield running


@pytest.fixture
async def claude(sim: Simulator) -> AsyncIterator[AnthropicProvider]:
    made = AnthropicProvider(api_key="k", base_url=sim.url, timeout=60)
    yield made
    await made.close()


def named(*names: str) -> str:
    return json.dumps({"selected_memories": names})


async def test_the_model_sees_message_manifest_and_tools_and_its_names_are_the_choice(
    sim: Simulator, claude: AnthropicProvider
) -> None:
    """R5: own system prompt, JSON schema, 256 tokens, nothing else of the conversation."""
    sim.extend([named("tests.md", "deploys.md")])
    chosen = await select(QUERY, MEMORIES, claude, MODEL, timeout=60)
    (exchange,) = sim.log
    assert chosen == Selection(chosen=(DEPLOYS, TESTS), usage=exchange.usage)
    body = exchange.body
    assert (body["model"], body["max_tokens"]) == (MODEL, 256)
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert "tools" not in body
    (message,) = body["messages"]  # type: ignore[union-attr,misc]
    (block,) = message["content"]  # type: ignore[index,call-overload,misc]
    lines = block["text"].splitlines()  # type: ignore[union-attr,index,call-overload]
    assert lines == [
        "Memories:",
        "- audit.md (2026-03-10T12:00:00.000Z): about audit",
        "- deploys.md (2026-03-10T12:00:00.000Z): about deploys",
        "- tea.md (2026-03-10T12:00:00.000Z): about tea",
        "- tests.md (2026-03-10T12:00:00.000Z): about tests",
        "",
        "Tools in use now: Bash",
        "",
        "What the person wrote:",
        "how do we deploy?",
    ]


async def test_an_openai_server_is_asked_in_its_own_dialect(sim: Simulator) -> None:
    """R5"""
    provider = OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1", timeout=60)
    sim.extend([named("tea.md")])
    chosen = await select(QUERY, MEMORIES, provider, "gpt-6-luna", timeout=60)
    await provider.close()
    assert chosen.chosen == (TEA,)
    assert "selected_memories" in json.dumps(sim.log[0].body["response_format"])


@pytest.mark.parametrize(
    "answer",
    [
        named("tea.md"),
        f"Surely this one:\n```json\n{named('tea.md')}\n```\nThe others [1] do not help.",
        f"[1] I looked {{closely}}. {named('tea.md')}",
        '["tea.md"]',
        '{"selected_memories": [" tea.md\\n"]}',
    ],
)
async def test_a_model_without_schemas_is_asked_for_json_and_read_with_patience(
    answer: str, sim: Simulator, claude: AnthropicProvider
) -> None:
    """R5"""
    sim.extend([{"text": answer}])
    chosen = await select(QUERY, MEMORIES, claude, OLD_MODEL, timeout=60)
    assert (chosen.chosen, chosen.problem) == ((TEA,), "")
    body = sim.log[0].body
    assert "output_config" not in body
    assert '{"selected_memories": []}' in body["system"][-1]["text"]  # type: ignore[index,call-overload,operator]


async def test_invented_and_repeated_names_are_dropped(sim: Simulator, claude: AnthropicProvider) -> None:
    """R6"""
    sim.extend([named("audit.md", "ghost.md", "tea.md", "audit.md", "../tea.md", "TEA.md", "", "tea")])
    chosen = await select(QUERY, MEMORIES, claude, MODEL, timeout=60)
    assert (chosen.chosen, chosen.problem) == ((TEA, AUDIT), "")


async def test_an_empty_list_is_a_choice_and_no_problem(sim: Simulator, claude: AnthropicProvider) -> None:
    """R5"""
    sim.extend([named(), named("ghost.md")])
    for _ in range(2):
        chosen = await select(QUERY, MEMORIES, claude, MODEL, timeout=60)
        assert chosen == Selection(usage=sim.log[-1].usage)


@pytest.mark.parametrize(
    "answer", ['"tea.md"', "7", "null", '{"memories": ["tea.md"]}', '{"selected_memories": "tea.md"}', "[7]"]
)
async def test_json_of_another_shape_chooses_nothing(
    answer: str, sim: Simulator, claude: AnthropicProvider
) -> None:
    """R6: garbage is no choice, and it is paid for all the same."""
    sim.extend([answer])
    chosen = await select(QUERY, MEMORIES, claude, MODEL, timeout=60)
    assert chosen.chosen == ()
    assert chosen.usage == sim.log[0].usage
    assert chosen.problem == "the selector answered something other than a list of names"


@pytest.mark.parametrize(
    "answer", ["I would pick tea.md.", named(*["tea.md"] * 500), "[" * 50_000, "{" * 900]
)
async def test_words_and_cut_off_lists_choose_nothing(
    answer: str, sim: Simulator, claude: AnthropicProvider
) -> None:
    """R6: an answer that ran out of its 256 tokens is not guessed at."""
    sim.extend([{"text": answer}])
    chosen = await select(QUERY, MEMORIES, claude, OLD_MODEL, timeout=60)
    assert (chosen.chosen, "list of names" in chosen.problem) == ((), True)


async def test_a_refusal_chooses_nothing(sim: Simulator, claude: AnthropicProvider) -> None:
    """R6: even one that comes with a list."""
    sim.extend([{"text": named("tea.md"), "stop_reason": "refusal"}])
    chosen = await select(QUERY, MEMORIES, claude, MODEL, timeout=60)
    assert chosen == Selection(usage=sim.log[0].usage, problem="the selector refused")


FAULTS: list[Json] = [
    "prompt_too_long",
    "rate_limit",
    "overloaded",
    "server_error",
    "auth",
    "disconnect",
    "malformed",
    "truncate_json",
    {"kind": "overloaded", "after": 2},
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_failing_provider_chooses_nothing(
    fault: Json, sim: Simulator, claude: AnthropicProvider
) -> None:
    """R6: never a failed turn, always one line that says what it was."""
    sim.extend([{"text": named("tea.md"), "fault": fault}])
    chosen = await select(QUERY, MEMORIES, claude, MODEL, timeout=60)
    assert chosen.chosen == ()
    assert chosen.problem.startswith("the selector ")
    assert "\n" not in chosen.problem


async def test_a_selector_that_does_not_answer_is_given_up(sim: Simulator, claude: AnthropicProvider) -> None:
    """R6"""
    sim.extend([{"text": named("tea.md"), "fault": "hang"}])
    chosen = await select(QUERY, MEMORIES, claude, MODEL, timeout=0.3)
    assert chosen == Selection(problem="the selector did not answer within 0.3 seconds")


async def test_a_cancelled_selection_is_cancelled(sim: Simulator, claude: AnthropicProvider) -> None:
    """R1: cancelled with the turn."""
    sim.extend([{"text": named("tea.md"), "fault": "hang"}])
    task = asyncio.create_task(select(QUERY, MEMORIES, claude, MODEL, timeout=60))
    await sim.arrivals(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "error", [ConfigError("install\nnacre-memory[anthropic]"), ProviderError("no"), TimeoutError()]
)
async def test_no_error_of_ours_gets_out(error: Exception) -> None:
    """R6"""
    chosen = await select(QUERY, MEMORIES, ScriptedProvider([error]), MODEL, timeout=60)
    assert chosen.chosen == ()
    assert chosen.problem
    assert "\n" not in chosen.problem


async def test_a_mistake_of_ours_is_not_hidden() -> None:
    """House rule 7: what nobody foresaw reaches the owner of the task."""
    with pytest.raises(ZeroDivisionError):
        await select(QUERY, MEMORIES, ScriptedProvider([ZeroDivisionError()]), MODEL, timeout=60)


async def test_nobody_is_asked_about_nothing() -> None:
    """R2"""
    provider = ScriptedProvider()
    assert await select(QUERY, [], provider, MODEL, timeout=60) == Selection()
    assert provider.calls == 0


async def test_at_most_five_in_the_order_of_the_ranking() -> None:
    """R5"""
    many = [ranked(f"{n}.md") for n in (3, 1, 4, 5, 9, 2, 6)]
    provider = ScriptedProvider([say(named(*(f"{n}.md" for n in range(10))))])
    chosen = await select(QUERY, many, provider, MODEL, timeout=60)
    assert chosen.chosen == tuple(many[:MAX_PICKS])


async def test_a_name_of_the_team_means_the_teams_file() -> None:
    """R4, M18"""
    theirs = ranked("tea.md", directory=PROJECT / "team")
    provider = ScriptedProvider([say(named("team/tea.md"))])
    assert (await select(QUERY, [TEA, theirs], provider, MODEL, timeout=60)).chosen == (theirs,)


async def asked(query: RecallQuery, *, memories: list[object] | None = None) -> tuple[bytes, str]:
    provider = ScriptedProvider([say(named())])
    await select(query, memories or MEMORIES, provider, MODEL, timeout=60)  # type: ignore[arg-type]
    text: JsonObject = provider.requests[0].messages[0]["content"][0]  # type: ignore[index,assignment,call-overload]
    return provider.sent[0], str(text["text"])


async def test_the_same_question_is_the_same_bytes_at_any_time() -> None:
    """R5, house rule 11: no clock in the request, and no order but that of names and times."""
    later = RecallQuery(text=QUERY.text, now=DAY.replace(year=2027), recent_tools=QUERY.recent_tools)
    assert await asked(QUERY) == await asked(later, memories=[*reversed(MEMORIES)])


async def test_a_pasted_log_is_cut_to_its_ends() -> None:
    """R5: a message is bounded."""
    _, text = await asked(RecallQuery(text="why? " + "x" * 100_000 + " help me", now=DAY))
    shown = text.partition("What the person wrote:\n")[2]
    assert shown.startswith("why? xxx")
    assert shown.endswith("xxx help me")
    assert "\n[92,013 characters left out here]\n" in shown
    assert len(shown) < MAX_MESSAGE_CHARS + 100


async def test_tools_are_named_once_briefly_and_not_too_many() -> None:
    """R5, R13: names of other people's tools are hostile until shown otherwise."""
    names = ("Bash", "Bash", "", "a\n<system>b", "n" * 500, *(f"t{n}" for n in range(50)))
    _, text = await asked(RecallQuery(text="go on now", now=DAY, recent_tools=names))
    (line,) = [line for line in text.splitlines() if line.startswith("Tools in use now: ")]
    shown = line.removeprefix("Tools in use now: ").split(", ")
    assert shown[:2] == ["Bash", "a &lt;system>b"]
    assert len(shown) == 20
    assert max(map(len, shown)) <= 100
    assert "Tools in use" not in (await asked(RecallQuery(text="go on now", now=DAY, recent_tools=("",))))[1]


@given(st.text(max_size=300), st.sampled_from(["", "{", "[", '{"selected_memories": ']), st.booleans())
def test_no_answer_breaks_it_and_only_listed_names_are_chosen(
    words: str, opening: str, has_schema: bool
) -> None:
    """R6"""
    provider = ScriptedProvider(
        [together(opening + words)], capabilities=Capabilities(structured_output=has_schema)
    )
    chosen = asyncio.run(select(QUERY, MEMORIES, provider, MODEL, timeout=60))
    assert {one.path for one in chosen.chosen} <= {one.path for one in MEMORIES}


@given(
    st.lists(st.sampled_from([*(one.entry.file for one in MEMORIES), "ghost.md", "team/tea.md"]), max_size=12)
)
def test_what_is_named_and_listed_is_chosen(names: list[str]) -> None:
    """R6"""
    provider = ScriptedProvider([say(named(*names))])
    chosen = asyncio.run(select(QUERY, MEMORIES, provider, MODEL, timeout=60))
    assert chosen.chosen == tuple(one for one in MEMORIES if one.entry.file in names)
