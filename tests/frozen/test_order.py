"""Who takes part at each point of a session, in which order, read off really opened agents."""

from __future__ import annotations

import json

import pytest

from nacre.app.chat_session import keep_cache_warm
from nacre.devtools.replay.policies import POLICIES, Driven
from nacre.devtools.replay.schema import Setting
from nacre.integrations.framework_session import Layers
from nacre.integrations.framework_session import opened as session_in_framework
from nacre.memory.memory import Memory
from nacre.session.session import Base
from nacre.testing import Cast, ScriptedProvider, call, say
from tests.frozen.participants import (
    Orders,
    orders,
    orders_of_child,
    orders_of_session,
    recorded_closing,
)
from tests.frozen.scenes import MODEL, Scene

EVENTS = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PreCompact", "PostCompact", "Stop",
    "SubagentStop", "SessionEnd", "InstructionsLoaded",
)  # fmt: skip
OFF = {
    f"NACRE_{name}": "0"
    for name in (
        "OFFLOAD",
        "CLEAR_IDLE",
        "NOTES",
        "COMPACT",
        "RECALL",
        "EXTRACT",
        "DREAM",
        "AGENTS",
        "SKILLS",
    )
}

ONE_ORDER = (
    "LocalOnly", "Switches", "Date", "Instructions", "Offload", "Microcompact", "Recall", "Hooks",
    "Background", "Forks", "Skills", "Plan", "Agents", "Notes", "ProviderCompaction", "Compact",
    "Extract", "Dream", "Mail", "Teammates", "KeepWarm",
)  # fmt: skip
"""A single order that gives every order below, at each point."""


EXPECTED: dict[str, tuple[Orders, list[str]]] = {
    "default": (
        {
            "filter": ["LocalOnly", "Offload"],
            "attach": ["Date", "Instructions", "Offload", "Recall", "Skills", "Plan", "Agents", "Mail"],
            "redact": ["LocalOnly"],
            "cache_points": ["Microcompact"],
            "finish_request": ["ProviderCompaction"],
            "on_cancel": ["Recall", "Background", "Forks"],
            "before_compact": ["Background"],
            "on_reply": ["Notes", "Compact", "KeepWarm"],
            "before_request": ["Background", "Agents", "Mail", "KeepWarm"],
            "before_stop": ["Notes"],
            "pending": ["Agents", "Mail"],
            "before_prompt": ["Mail"],
            "wrap_tools": ["Mail"],
            "shrink": ["Microcompact", "Compact"],
            "before_turn": ["Switches", "Background", "KeepWarm"],
            "after_turn": ["Background", "Extract", "Dream", "Mail"],
            "restore": ["Skills", "Plan", "Agents"],
            "carry": ["Skills", "Plan"],
            "child_opened": ["Mail"],
            "agent_changed": ["Agents", "Mail", "Teammates"],
            "draft": ["PreparedSummary", "Notes", "Summary"],
        },
        ["Mail", "Dream", "Agent", "Background", "Recall", "Memory", "Toolset", "SessionLog"],
    ),
    "hooks": (
        {
            "filter": ["LocalOnly", "Offload", "Hooks"],
            "attach": [
                "Date",
                "Instructions",
                "Offload",
                "Recall",
                "Hooks",
                "Skills",
                "Plan",
                "Agents",
                "Mail",
            ],
            "redact": ["LocalOnly"],
            "cache_points": ["Microcompact"],
            "finish_request": ["ProviderCompaction"],
            "on_cancel": ["Recall", "Hooks", "Background", "Forks"],
            "on_reply": ["Notes", "Compact"],
            "before_request": ["Hooks", "Background", "Agents", "Mail"],
            "before_stop": ["Hooks", "Notes"],
            "pending": ["Agents", "Mail"],
            "before_prompt": ["Hooks", "Mail"],
            "wrap_tools": ["Hooks", "Mail"],
            "shrink": ["Microcompact", "Compact"],
            "before_turn": ["Switches", "Background"],
            "after_turn": ["Background", "Extract", "Dream", "Mail"],
            "restore": ["Skills", "Plan", "Agents"],
            "carry": ["Skills", "Plan"],
            "child_opened": ["Mail"],
            "agent_changed": ["Agents", "Mail", "Teammates"],
            "before_compact": ["Hooks", "Background"],
            "draft": ["PreparedSummary", "Notes", "Summary"],
        },
        [
            "Mail",
            "Dream",
            "Agent",
            "Background",
            "Hooks",
            "Recall",
            "Memory",
            "McpServers",
            "Toolset",
            "SessionLog",
        ],
    ),
    "all off": (
        {
            "filter": ["LocalOnly"],
            "attach": ["Date", "Instructions", "Plan"],
            "redact": ["LocalOnly"],
            "finish_request": ["ProviderCompaction"],
            "on_cancel": ["Background", "Forks"],
            "before_compact": ["Background"],
            "on_reply": ["Compact"],
            "before_request": ["Background"],
            "shrink": ["Compact"],
            "before_turn": ["Switches", "Background"],
            "after_turn": ["Background"],
            "restore": ["Plan"],
            "carry": ["Plan"],
            "draft": ["PreparedSummary", "Summary"],
        },
        ["Agent", "Background", "Toolset", "SessionLog"],
    ),
    "one answer": (
        {
            "filter": ["LocalOnly", "Offload"],
            "attach": ["Date", "Instructions", "Offload", "Recall", "Skills", "Plan", "Agents", "Mail"],
            "redact": ["LocalOnly"],
            "cache_points": ["Microcompact"],
            "finish_request": ["ProviderCompaction"],
            "on_cancel": ["Recall", "Background", "Forks"],
            "before_compact": ["Background"],
            "on_reply": ["Notes", "Compact"],
            "before_request": ["Background", "Agents", "Mail"],
            "before_stop": ["Notes"],
            "pending": ["Agents", "Mail"],
            "before_prompt": ["Mail"],
            "wrap_tools": ["Mail"],
            "shrink": ["Microcompact", "Compact"],
            "before_turn": ["Switches", "Background"],
            "after_turn": ["Background", "Dream", "Mail"],
            "restore": ["Skills", "Plan", "Agents"],
            "carry": ["Skills", "Plan"],
            "child_opened": ["Mail"],
            "agent_changed": ["Agents", "Mail", "Teammates"],
            "draft": ["PreparedSummary", "Notes", "Summary"],
        },
        ["Mail", "Dream", "Agent", "Background", "Recall", "Memory", "Toolset", "SessionLog"],
    ),
    "unkept": (
        {
            "filter": ["LocalOnly", "Offload"],
            "attach": ["Date", "Instructions", "Offload", "Skills", "Plan", "Agents", "Mail"],
            "redact": ["LocalOnly"],
            "cache_points": ["Microcompact"],
            "finish_request": ["ProviderCompaction"],
            "on_cancel": ["Background", "Forks"],
            "before_compact": ["Background"],
            "on_reply": ["Compact"],
            "before_request": ["Background", "Agents", "Mail"],
            "pending": ["Agents", "Mail"],
            "before_prompt": ["Mail"],
            "wrap_tools": ["Mail"],
            "shrink": ["Microcompact", "Compact"],
            "before_turn": ["Switches", "Background"],
            "after_turn": ["Background", "Mail"],
            "restore": ["Skills", "Plan", "Agents"],
            "carry": ["Skills", "Plan"],
            "child_opened": ["Mail"],
            "agent_changed": ["Agents", "Mail", "Teammates"],
            "draft": ["PreparedSummary", "Summary"],
        },
        ["Mail", "Agent", "Background", "Toolset"],
    ),
    "embedded": (
        {
            "filter": ["Offload"],
            "attach": ["Date", "Instructions", "Offload", "Recall", "Skills", "Plan", "Agents", "Mail"],
            "cache_points": ["Microcompact"],
            "finish_request": ["ProviderCompaction"],
            "on_cancel": ["Recall", "Background", "Forks"],
            "before_compact": ["Background"],
            "on_reply": ["Notes", "Compact"],
            "before_request": ["Background", "Agents", "Mail"],
            "before_stop": ["Notes"],
            "pending": ["Agents", "Mail"],
            "before_prompt": ["Mail"],
            "wrap_tools": ["Mail"],
            "shrink": ["Microcompact", "Compact"],
            "before_turn": ["Switches", "Background"],
            "after_turn": ["Background", "Extract", "Dream", "Mail"],
            "restore": ["Skills", "Plan", "Agents"],
            "carry": ["Skills", "Plan"],
            "child_opened": ["Mail"],
            "agent_changed": ["Agents", "Mail", "Teammates"],
            "draft": ["Notes"],
        },
        ["Mail", "Dream", "Agent", "Background", "Recall", "Memory", "Toolset", "SessionLog", "Provider"],
    ),
}
"""By variant: the labels at each point, and in the order of closing."""

CHILD = {
    "filter": ["LocalOnly", "Offload", "Hooks"],
    "attach": ["Date", "Instructions", "Offload", "Skills", "Agents", "Mail"],
    "redact": ["LocalOnly"],
    "cache_points": ["Microcompact"],
    "finish_request": ["ProviderCompaction"],
    "on_cancel": ["Background", "Forks", "Hooks"],
    "before_compact": ["Background"],
    "on_reply": ["Notes", "Compact"],
    "on_usage": ["Agents"],
    "before_request": ["Background", "Hooks", "Agents", "Mail"],
    "before_stop": ["Notes", "Hooks"],
    "pending": ["Agents", "Mail"],
    "wrap_tools": ["Hooks", "Mail"],
    "shrink": ["Microcompact", "Compact"],
    "after_turn": ["Background", "Mail"],
    "restore": ["Skills", "Agents"],
    "carry": ["Skills"],
}


@pytest.fixture
def project(scene: Scene) -> Scene:
    """A project with instructions and a skill."""
    scene.write("CLAUDE.md", "Answer in one line.\n")
    scene.write(".claude/skills/deploy/SKILL.md", "---\nname: deploy\ndescription: How.\n---\n\nAsk first.\n")
    return scene


def with_hooks(scene: Scene) -> None:
    """A command for every event, and a server that cannot be started."""
    hook = [{"hooks": [{"type": "command", "command": "true"}]}]
    servers = {"none": {"command": str(scene.root / "no-such-program")}}
    settings = {"hooks": dict.fromkeys(EVENTS, hook), "mcpServers": servers}
    (scene.home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


async def opened_orders(scene: Scene, variant: str) -> tuple[Orders, list[str]]:
    """The order at each point, and the order of closing, of an agent opened in one of the ways below."""
    settings = {
        "default": lambda: scene.settings(interactive=True),
        "hooks": lambda: scene.settings(interactive=True),
        "all off": lambda: scene.settings({**OFF, "NACRE_SIMPLE": "1"}),
        "one answer": scene.settings,
        "unkept": scene.settings,
        "embedded": lambda: scene.settings(model=None, interactive=True),
    }[variant]()
    given = {} if variant == "embedded" else {"provider": ScriptedProvider()}
    with recorded_closing() as closed:
        async with scene.opened(settings, ephemeral=variant == "unkept", **given) as ready:
            if variant == "default":
                # As the chat does it; whoever asks once keeps nothing warm.
                async with keep_cache_warm(ready.agent, settings):
                    found = orders(ready)
            else:
                found = orders(ready)
    return found, closed


@pytest.mark.parametrize("variant", list(EXPECTED))
async def test_the_participants_of_an_agent_are_called_in_this_order(variant: str, project: Scene) -> None:
    if variant == "hooks":
        with_hooks(project)
    points, closed = await opened_orders(project, variant)
    assert points == EXPECTED[variant][0]
    assert closed == EXPECTED[variant][1]


async def test_the_participants_of_a_child_agent_and_of_its_team_are_called_in_this_order(
    project: Scene,
) -> None:
    """Hooks are registered behind everything that opens a child, unlike in the session of a person."""
    with_hooks(project)
    order = call("Agent", description="count", prompt="Count it.", name="counter", team_name="counters")
    main = ScriptedProvider([order, say("Three.")], otherwise=say("Thanks."))
    counter = ScriptedProvider(otherwise=say("Three."))
    async with project.opened(project.settings(), provider=Cast(main, {"Count it.": counter})) as ready:
        await project.said(ready, "count")
        assert orders_of_child(ready, "counter") == CHILD
        assert orders(ready)["agent_changed"] == ["Agents", "Mail", "Teammates", "Agents"]


async def test_the_layers_inside_a_framework_are_called_in_this_order(scene: Scene) -> None:
    memory = await Memory.open(scene.work, environ={"NACRE_HOME": str(scene.home)})
    layers = Layers(results=scene.root / "results", memory=memory, clock=scene.clock)
    session = session_in_framework(Base(MODEL), layers)
    assert orders_of_session(session) == {
        "filter": ["Offload"],
        "attach": ["Offload", "Recall"],
        "cache_points": ["Microcompact"],  # of a request that is prepared and not sent
        "shrink": ["Microcompact", "Compact"],
    }


@pytest.mark.parametrize(
    ("policy", "shrink"),
    [
        ("none", []),
        ("truncate", ["StandIn"]),
        ("claude-code", ["Microcompact", "StandIn"]),
        ("nacre", ["Microcompact", "Compact"]),
        ("nacre-model", ["Microcompact", "Compact"]),
    ],
)
def test_the_layers_of_a_replay_are_called_in_this_order(policy: str, shrink: list[str]) -> None:
    driven = POLICIES[policy].start(Setting(model=MODEL, window=200_000))
    assert isinstance(driven, Driven)
    found = orders_of_session(driven.session)
    driven.close()
    layered = {"filter": ["Offload"], "attach": ["Offload"], "cache_points": ["Microcompact"]}
    assert found == {
        **(layered if "Microcompact" in shrink else {}),
        **({"shrink": shrink} if shrink else {}),
    }


def test_one_order_of_layers_gives_the_order_at_every_point_of_a_persons_session() -> None:
    for points, _ in EXPECTED.values():
        for point, found in points.items():
            if point != "draft":
                places = [ONE_ORDER.index(one) for one in found]
                assert places == sorted(places), point
