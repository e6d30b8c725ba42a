"""Whole sessions over HTTP: with the vendors' own clients, alone and inside other people's frameworks.

What the simulator received counts; each story returns the bodies of all requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nacre.devtools.sim import SimClock, Simulator
from nacre.integrations.framework_session import Layers
from nacre.layers.l2_microcompact.settings import MicrocompactSettings
from nacre.memory.memory import Memory
from nacre.messages.wire import canonical
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.openai import OpenAICompatibleProvider
from tests.frozen.scenes import MODEL, QUIET, Scene, remember

Told = Callable[[Scene], Awaitable[Mapping[str, list[bytes]]]]
GPT = "gpt-6-sol"
SYSTEM = "You look things up."
FIRST = "When do deploys of the billing service go out?"
SCRIPT: list[Any] = [
    {"tool_calls": [{"name": "look", "input": {"topic": "deploys", "lines": 1_500}}]},
    {"thinking": "Both.", "tool_calls": [
        {"name": "look", "input": {"topic": "rivers", "lines": 200}},
        {"name": "look", "input": {"topic": "lakes", "lines": 200}},
    ]},
    "On Tuesdays.",
    *[{"tool_calls": [{"name": "look", "input": {"topic": f"topic {n}", "lines": 200}}]} for n in range(14)],
    "Done.",
]  # fmt: skip
"""A long result, two at once, then so many that the window fills up."""
WINDOW = 24_000


def looked_up(topic: str, lines: int = 10) -> str:
    return "\n".join(f"{topic} {n}: a fact worth knowing" for n in range(lines))


async def layers_of(scene: Scene) -> Layers:
    """Every layer that works inside a framework."""
    await remember(scene, "Deploys of the billing service go out on Tuesdays, never on Fridays.")
    memory = await Memory.open(scene.work, environ=scene.environ(), clock=scene.clock)
    return Layers(
        results=scene.root / "results",
        memory=memory,
        window=WINDOW,
        clearable=frozenset({"look"}),
        microcompact=MicrocompactSettings(keep=2),
        clock=scene.clock,
    )


def bodies(sim: Simulator) -> list[bytes]:
    assert [line.refusal for line in sim.log if line.refusal] == []
    return [canonical(line.body) for line in sim.log]


async def anthropic(scene: Scene) -> Mapping[str, list[bytes]]:
    """Our own agent with the official client of Anthropic."""
    scene.write("a.py", "def one():\n    return 1\n")
    script: list[Any] = [
        {"thinking": "Hm.", "tool_calls": [{"name": "Read", "input": {"file_path": "a.py"}}]},
        "Read.",
        "Bye.",
    ]  # fmt: skip
    async with Simulator(script, clock=SimClock()) as sim:
        provider = AnthropicProvider(api_key="k", base_url=sim.url)
        async with scene.opened(scene.settings(QUIET), provider=provider) as ready:
            await scene.said(ready, "Read a.py.", "Thanks.")
        await provider.close()
        return {"main": bodies(sim)}


async def openai(scene: Scene) -> Mapping[str, list[bytes]]:
    """Our own agent with the official client of OpenAI."""
    scene.write("a.py", "def one():\n    return 1\n")
    script: list[Any] = [{"tool_calls": [{"name": "Read", "input": {"file_path": "a.py"}}]}, "Read.", "Bye."]
    async with Simulator(script, clock=SimClock()) as sim:
        provider = OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1")
        async with scene.opened(scene.settings(QUIET, model=GPT), provider=provider) as ready:
            await scene.said(ready, "Read a.py.", "Thanks.")
        await provider.close()
        return {"main": bodies(sim)}


async def langchain(scene: Scene) -> Mapping[str, list[bytes]]:
    """Middleware in an agent of LangChain."""
    from langchain.agents import create_agent
    from langchain_anthropic import ChatAnthropic
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool

    from nacre.integrations.langchain import NacreMiddleware

    @tool
    async def look(topic: str, lines: int = 10) -> str:
        """Look something up."""
        return looked_up(topic, lines)

    async with Simulator(SCRIPT, clock=SimClock()) as sim:
        model = ChatAnthropic(  # type: ignore[call-arg]
            model_name=MODEL,
            api_key="none",  # type: ignore[arg-type]
            base_url=sim.url,
            max_retries=0,
            default_headers={"Connection": "close"},
        )
        middleware = [NacreMiddleware(await layers_of(scene))]
        work: Any = create_agent(model, [look], system_prompt=SYSTEM, middleware=middleware)
        state = await work.ainvoke({"messages": [HumanMessage(FIRST)]})
        scene.clock.advance(3_600)
        again = [*state["messages"], HumanMessage("Go on, but never on Fridays.")]
        await work.ainvoke({"messages": again}, {"recursion_limit": 100})
        return {"main": bodies(sim)}


async def openai_agents(scene: Scene) -> Mapping[str, list[bytes]]:
    """A session and a filter in an agent of the OpenAI Agents SDK."""
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
    from openai import AsyncOpenAI

    from nacre.integrations.openai_agents import NacreFilter, NacreSession, reader

    @function_tool
    async def look(topic: str, lines: int = 10) -> str:
        """Look something up."""
        return looked_up(topic, lines)

    layers = await layers_of(scene)
    assert layers.results is not None
    async with Simulator(SCRIPT, clock=SimClock()) as sim:
        async with AsyncOpenAI(api_key="none", base_url=f"{sim.url}/v1", max_retries=0) as client:
            model = OpenAIChatCompletionsModel(GPT, client)
            tools = [look, reader(layers.results)]
            helper: Agent[Any] = Agent("helper", instructions=SYSTEM, model=model, tools=tools)
            session = NacreSession("user-42", cwd=scene.work, home=scene.home)
            run = RunConfig(tracing_disabled=True, call_model_input_filter=NacreFilter(layers))
            await Runner.run(helper, FIRST, session=session, run_config=run)
            scene.clock.advance(3_600)
            await Runner.run(
                helper, "Go on, but never on Fridays.", session=session, run_config=run, max_turns=50
            )
        return {"main": bodies(sim)}


async def pydantic_ai(scene: Scene) -> Mapping[str, list[bytes]]:
    """A capability of an agent of Pydantic AI."""
    from anthropic import AsyncAnthropic
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider as TheirProvider

    from nacre.integrations.pydantic_ai import NacreCapability

    async def look(topic: str, lines: int = 10) -> str:
        """Look something up."""
        return looked_up(topic, lines)

    async with Simulator(SCRIPT, clock=SimClock()) as sim:
        async with AsyncAnthropic(api_key="none", base_url=sim.url, max_retries=0) as client:
            model = AnthropicModel(MODEL, provider=TheirProvider(anthropic_client=client))
            capability = NacreCapability(await layers_of(scene))
            helper = Agent(model, system_prompt=SYSTEM, tools=[look], capabilities=[capability])
            done = await helper.run(FIRST)
            scene.clock.advance(3_600)
            await helper.run("Go on, but never on Fridays.", message_history=done.all_messages())
        return {"main": bodies(sim)}


STORIES: dict[str, tuple[Told, tuple[str, ...]]] = {
    "anthropic": (anthropic, ()),
    "openai": (openai, ()),
    "langchain": (langchain, ("langchain", "langchain_anthropic")),
    "openai_agents": (openai_agents, ("agents",)),
    "pydantic_ai": (pydantic_ai, ("pydantic_ai",)),
}
"""By name: the story, and the packages it needs."""
