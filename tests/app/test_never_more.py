"""Forks, agents, teammates and dreams may never do more than the person allowed the session.

One session is attacked by a model that answers everything with the same calls: each names something that a
rule or the person refuses, by every tool and in every disguise that leads there. The lists of kinds and tools
come from the code, so that a new one without a row here fails.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest

import nacre
from nacre.agents.activity import ActivityModel, ActivityWatcher
from nacre.agents.registry import Pattern
from nacre.agents.team_roster import Roster, member_here
from nacre.agents.tools import AgentRequest
from nacre.agents.types import agent_types
from nacre.app import build_toolset
from nacre.app import open_agent as opening
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.app.teammate import open_teammate
from nacre.errors import SummaryRejected
from nacre.layers.l3_notes.layer import Notes
from nacre.layers.l3_notes.notes import NotesUnchangedError
from nacre.layers.l6_dream.dream import dream
from nacre.layers.l6_dream.layer import dream_config
from nacre.loop.fork import PENDING, SOURCE, ForkTask, RequestSource
from nacre.memory.recall.base import RecallQuery
from nacre.memory.recall.select import select
from nacre.messages.blocks import JsonObject, ToolCall
from nacre.providers.base import Request
from nacre.session.compaction import CompactionRequest
from nacre.settings import Settings, load
from nacre.settings.values import AgentSettings
from nacre.testing import Scripted, ScriptedProvider, say, together
from nacre.tools.base import Tool
from nacre.tools.guard import PermissionAnswer, PermissionQuestion
from nacre.tools.policy import Narrowing
from tests.memory.recall.made import DAY, ranked

pytestmark = pytest.mark.moves_prefix(reason="a fork's directive is not part of its parent's next request")
MODEL = "claude-sonnet-5-5"
CANARY = "canary-4711"
DENY = ["Read(private/**)", "Edit(private/**)", "Read(.env)", "Bash(tail:*)", "WebFetch(domain:example.org)"]
DENY += ["mcp__files__read", "Skill(secret*)", "Agent(secret*)", "SendMessage(secret*)"]
ASK = ["Read(asked/**)", "Bash(head:*)"]

PLACES = [
    "private/plan.md",
    "src/../private/plan.md",
    "{root}/private/plan.md",
    ".env",
    "src/.env",
    "asked/plan.md",
    "link",
    "folder/secret.md",
    "folder/../outside/secret.md",
    "../outside/secret.md",
    "{outside}/secret.md",
    "loop",
    "private-link/plan.md",
    "env-link",
]
"""Files that are denied, asked for, outside the project, or that a link leads to."""
LINES = [
    *(f"cat {place}" for place in PLACES),
    "cd private && cat plan.md",
    "cd folder && cat secret.md",
    "cd ../outside && cat *",
    "cat priv*/plan.md",
    "cat {{private,asked}}/plan.md",
    "cat fold*/s*",
    "grep -r canary ../outside",
    "grep -R canary src",
    "cat < private/plan.md",
    "cat $(echo private/plan.md)",
    "ls; tail src/app.py",
    "head src/app.py",
    "diff src folder",
    "cp private/plan.md copy.md",
    "ln -s ../outside out && cat out/secret.md",
    "cat private/plan.md > copy.md",
    "curl https://example.org/",
    "bash -c 'cat private/plan.md'",
    "find -L . -name secret.md",
    "strings @list",
    "wc --files0-from=list",
    "sort --files0-from=list",
    "git -C ../outside log",
    "grep -rn canary",
    "grep -r canary .",
    "egrep -R canary private",
    "rg canary",
]
ATTACKS: dict[str, list[JsonObject]] = {
    "Read": [{"file_path": place} for place in PLACES],
    "Grep": [
        {"pattern": "canary", "path": place, "output_mode": "content"}
        for place in (*PLACES, "private/", "asked", "folder", "../outside", "private-link")
    ],
    "Glob": [
        {"pattern": one} for one in ("../outside/*", "folder/*", "private/*", "private/**", "{outside}/**")
    ],
    "Edit": [{"file_path": place, "old_string": "canary", "new_string": "x"} for place in PLACES],
    "Write": [
        {"file_path": place, "content": "x"} for place in (*PLACES, "folder/new.md", "../outside/new.md")
    ],
    "Bash": [{"command": line} for line in LINES],
    "WebFetch": [
        {"url": url} for url in ("https://example.org/", "https://a.example.org:84/x", "http://b.net")
    ],
    "Skill": [{"skill": name} for name in ("secret", "../../private", "../../../outside", "secret-link")],
    "Agent": [
        {"description": "x", "prompt": "x", "subagent_type": name}
        for name in ("secret", "../../private/plan")
    ],
    "SendMessage": [{"to": "secret-agent", "message": "x"}, {"to": "../../outside/secret", "message": "x"}],
    "TaskStop": [{"name": "../../outside/secret"}],
    "mcp__files__read": [{"path": "private/plan.md"}, {"path": "../outside/secret.md"}],
    "mcp__other__read": [{"path": "../outside/secret.md"}],
    "forget": [{"file": "../../../../outside/secret.md"}],
    "correct": [{"file": "../../../../outside/secret.md", "text": "x"}],
}
OPEN: list[tuple[str, JsonObject]] = [
    ("Grep", {"pattern": "canary", "output_mode": "content"}),
    ("Grep", {"pattern": ".", "path": "src", "output_mode": "content"}),
    ("Grep", {"pattern": "canary", "output_mode": "count"}),
    ("Glob", {"pattern": "**/*"}),
]
"""These go ahead, and leave out what the rules are against."""
HARMLESS = {"Pin", "TaskList", "TeamTasks", "ToolSearch", "remember", "recall", "search_sessions"}
"""They take no path, command, host or name of a file."""


def calls(root: Path) -> list[ToolCall]:
    def filled(value: object) -> object:
        return value.format(root=root, outside=root.parent / "outside") if isinstance(value, str) else value

    open_calls = [ToolCall(f"open_{number}", *one) for number, one in enumerate(OPEN)]
    return [
        *open_calls,
        *(
            ToolCall("", tool, {name: filled(value) for name, value in arguments.items()})  # type: ignore[misc]
            for tool, listed in ATTACKS.items()
            for arguments in listed
        ),
    ]


def results_in(request: Request) -> list[JsonObject]:
    content = request.messages[-1]["content"]
    blocks = content if isinstance(content, list) else []
    results = [one for one in blocks if isinstance(one, dict) and one.get("type") == "tool_result"]
    return [one for one in results if PENDING not in str(one.get("content"))]


@dataclass
class World:
    """A project with secrets, an opened session, and the model that attacks it."""

    settings: Settings
    provider: ScriptedProvider
    ready: OpenedAgent
    asked: list[PermissionQuestion]
    sources: list[str]
    """Who sent each request."""
    answered: dict[str, int] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.settings.project_root

    async def attack(self, kind: str, run: Callable[[World], Awaitable[object]]) -> None:
        """Run one kind, and check that every call was refused and nothing came out."""
        before = len(self.provider.requests)
        state = snapshot(self.root.parent)
        with suppress(SummaryRejected, NotesUnchangedError):
            await run(self)
        background = self.ready.background
        for name in background.running():
            await background.wait(name, 30)
        requests = self.provider.requests[before:]
        assert requests, f"{kind}: no model was asked"
        if kind in BY_SOURCE:
            assert kind.removeprefix("source ") in self.sources[before:]
        refused = 0
        for request in requests:
            assert CANARY not in json.dumps([request.messages, request.system, request.tools]), kind
            for result in results_in(request):
                is_open = str(result["tool_use_id"]).startswith("open_")
                assert is_open or result.get("is_error"), (kind, result)
                assert not is_open or "plan.md" not in str(result["content"]), (kind, result)
                refused += not is_open
        self.answered[kind] = refused
        assert snapshot(self.root.parent) == state, f"{kind}: a secret was changed or copied"


def snapshot(top: Path) -> dict[str, str]:
    """All files outside and in the project, and those of nacre's home that hold a secret."""
    found = {}
    for path in sorted(top.rglob("*")):
        if path.is_file() and not path.is_symlink() and ".git" not in path.parts:
            content = path.read_bytes()
            if CANARY.encode() in content or (top / "home") not in path.parents:
                found[str(path)] = content.decode(errors="replace")
    return found


def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    files = {
        "src/app.py": "print()\n",
        "private/plan.md": f"{CANARY} plan\n",
        "asked/plan.md": f"{CANARY} asked\n",
        ".env": f"KEY={CANARY}\n",
        "src/.env": f"KEY={CANARY}\n",
        "list": "../outside/secret.md\0",
        "CLAUDE.md": "@.env @private/plan.md @asked/plan.md @link Words.\n",
        "private/SKILL.md": f"---\nname: secret\ndescription: {CANARY}\n---\n{CANARY}\n",
        "private/secret.md": f"---\nname: secret\ndescription: {CANARY}\n---\n{CANARY}\n",
        ".claude/agents/custom.md": "---\nname: custom\ndescription: a kind\n---\nDo it.\n",
        ".gitignore": "nothing\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text(f"---\nname: secret\ndescription: {CANARY}\n---\n{CANARY}\n")
    (outside / "SKILL.md").write_text(f"---\nname: secret\ndescription: {CANARY}\n---\n{CANARY}\n")
    links = {
        "link": "../outside/secret.md",
        "folder": "../outside",
        "loop": "loop",
        "private-link": "private",
        "env-link": ".env",
        ".claude/skills/secret-link": "../../private",
        ".claude/skills/out": "../../../outside",
        ".claude/agents/secret.md": "../../private/secret.md",
        ".claude/agents/out.md": "../../../outside/secret.md",
        ".claude/rules/secret.md": "../../private/plan.md",
        "src/linked": "../../outside/secret.md",
    }
    for name, target in links.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "nowhere")}
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for line in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "begin")):
        subprocess.run(["git", *line], cwd=root, check=True, env=environ)
    return root


class FakeServers:
    """Two servers with a tool that reads whatever file it is given."""

    tools = ()

    def __init__(self, configured: object, **_: object) -> None:
        pass

    def instructions(self) -> tuple[object, ...]:
        return ()

    async def __aenter__(self) -> FakeServers:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def fake_tools(root: Path) -> list[Tool]:
    async def read(arguments: JsonObject) -> str:
        return (root / str(arguments["path"])).read_text()

    names = ("mcp__files__read", "mcp__other__read")
    return [
        Tool(name=name, description="Reads.", input_schema={"type": "object"}, call=read) for name in names
    ]


@asynccontextmanager
async def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    root = project(tmp_path)
    environ = {
        "HOME": str(tmp_path / "person"),
        "NACRE_HOME": str(tmp_path / "home"),
        "PATH": "/usr/bin:/bin",
        "NACRE_PERMISSIONS_DENY": json.dumps(DENY),
        "NACRE_PERMISSIONS_ASK": json.dumps(ASK),
        "NACRE_WEB_FETCH": "1",
        "ANTHROPIC_API_KEY": "none",
        "NACRE_NOTES": "1",
        "NACRE_EXTRACT": "1",
        "NACRE_BACKGROUND_IDLE_SECONDS": "0",
    }
    settings = load(root, environ, cli={"model": MODEL})
    settings = replace(
        settings, is_interactive=True, mcp_servers={"files": {"command": "true"}}, agents=AgentSettings()
    )
    attacks = calls(root)

    sources: list[str] = []

    def answer(request: Request) -> Scripted:
        sources.append(SOURCE.get())
        return say("Nothing.") if results_in(request) else together("I try.", *attacks)

    provider = ScriptedProvider(otherwise=answer)
    monkeypatch.setattr("nacre.mcp_client.Servers", FakeServers)
    monkeypatch.setattr(build_toolset, "mcp_tools", lambda servers, workspace: fake_tools(root))
    monkeypatch.setattr(opening, "build_provider", lambda choice, settings: provider)
    asked: list[PermissionQuestion] = []

    async def ask(question: PermissionQuestion) -> PermissionAnswer:
        asked.append(question)
        return "no"

    async with open_agent(settings, provider=provider, ask=ask) as ready:
        yield World(settings, provider, ready, asked, sources)


async def run_main(world: World) -> None:
    _ = [event async for event in world.ready.agent.stream("Please try it: we use pnpm in this project.")]


async def run_notes(world: World) -> None:
    notes = world.ready.agent.session.layer(Notes)
    assert notes is not None and notes._fork is not None and notes.file is not None
    await notes._update(notes._fork, notes.file)


async def run_extraction(world: World) -> None:
    assert world.ready.extract is not None
    _ = [event async for event in world.ready.agent.stream("We use yarn now.")]


async def run_merged(world: World) -> None:
    background = world.ready.background
    notes = world.ready.agent.session.layer(Notes)
    assert notes is not None and notes._fork is not None and notes.file is not None
    at_once = background.idle_seconds
    background.idle_seconds = 600.0
    _ = [event async for event in world.ready.agent.stream("We use npm now.")]
    background.defer("notes", partial(notes._update, notes._fork, notes.file), can_wait=True)
    background.start_deferred()
    background.idle_seconds = at_once


async def run_dream(world: World) -> None:
    layer = world.ready.dream
    assert layer is not None and layer._model is not None
    await dream(dream_config(layer._target, model=layer._model))


async def run_compaction(world: World) -> None:
    await world.ready.compact.compact(CompactionRequest(trigger="manual"))


async def run_prefetch(world: World) -> None:
    prefetch = world.ready.compact.preparation
    assert prefetch is not None
    prefetch.begin(world.ready.agent.session.view)
    await prefetch.wait(20)


async def run_side(world: World) -> None:
    everything = Narrowing(tools=frozenset(world.ready.agent.tools))
    task = ForkTask(source="side", directive="Try.", access=everything, max_rounds=3)
    await world.ready.forks.side(task, world.provider, MODEL)


async def run_full_fork(world: World) -> None:
    await world.ready.forks.detached("Try.", max_rounds=3)


async def run_activity(world: World) -> None:
    def nothing(*_: object) -> None:
        return None

    model = ActivityModel(provider=world.provider, model=MODEL, pay=nothing, allows=nothing)
    with anyio.move_on_after(1.0):
        await ActivityWatcher(0.05, model).watch(lambda: world.ready.agent.session.view, nothing)


async def run_selector(world: World) -> None:
    await select(
        RecallQuery(text="tea", now=DAY), [ranked("tea.md", "about tea")], world.provider, MODEL, timeout=10
    )


def agent(**more: Any) -> Callable[[World], Awaitable[None]]:
    async def run(world: World) -> None:
        assert world.ready.team is not None
        state = await world.ready.team.spawn(AgentRequest(prompt="Try.", description="x", **more))
        with anyio.fail_after(30):
            while world.ready.team.shared.registry.states[state.name].is_running:
                await anyio.sleep(0.01)

    return run


async def run_resumed(world: World) -> None:
    team = world.ready.team
    assert team is not None
    name = next(one.name for one in team.states() if one.pattern == "typed" and not one.is_running)
    await team.resume(name, "Try again.")
    with anyio.fail_after(30):
        while team.shared.registry.states[name].is_running:
            await anyio.sleep(0.01)


async def run_process_teammate(world: World) -> None:
    """What `nacre agents run` does in the process that it is started in."""
    settings = replace(world.settings, is_interactive=False)
    Roster(settings.home, "others").create(member_here("main"))
    async with open_teammate(settings, "solo", "others", kind="general") as mate:
        await mate._turn("Try.")


KINDS: dict[str, Callable[[World], Awaitable[None]]] = {
    "source main": run_main,
    "source session_memory": run_notes,
    "source extract_memories": run_extraction,
    "source notes_and_memories": run_merged,
    "source auto_dream": run_dream,
    "source side": run_side,
    "source agent": run_full_fork,
    "source agent_summary": run_activity,
    "source memdir_relevance": run_selector,
    "type general": agent(),
    "type explore": agent(type="explore"),
    "type custom": agent(type="custom"),
    "pattern typed": agent(background=True),
    "pattern fork": agent(type="fork"),
    "pattern teammate": agent(team="crew", name="mate"),
    "isolation worktree": agent(isolation="worktree"),
    "teammates in-process": agent(team="crew", name="other"),
    "teammates process": run_process_teammate,
    "resumed": run_resumed,
    "prefetch": run_prefetch,
    "source compact": run_compaction,
}
"""Every kind of work beside the conversation, and how it is started."""
BY_SOURCE = {f"source {name}" for name in get_args(RequestSource)} - {
    "source agent_summary",
    "source memdir_relevance",
}
"""Those that run a loop, and name themselves in it."""
ONE_REPLY = {"source agent_summary", "source memdir_relevance", "prefetch", "source compact"}
"""They get no second request: no tool can be called, so no result is sent back."""


@pytest.mark.slow
async def test_no_kind_of_work_reads_writes_or_runs_what_the_person_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, monkeypatch) as world:
        assert world.ready.agent.tools.keys() <= ATTACKS.keys() | HARMLESS, "each tool needs a row"
        for kind, run in KINDS.items():
            with anyio.fail_after(60):
                await world.attack(kind, run)
        count = sum(map(len, ATTACKS.values()))
        for kind, refused in world.answered.items():
            expected = 0 if kind in ONE_REPLY else count
            assert refused >= expected, (kind, refused, count)
        assert not [question for question in world.asked if "says deny" in question.reason]
        assert {"Read", "Grep", "Glob", "Edit", "Write", "Bash"} <= {one.tool for one in world.asked}


def test_every_kind_has_a_row() -> None:
    """From the code: who sends requests, how agents run, where teammates run, which types are built in."""
    wanted = {f"source {name}" for name in get_args(RequestSource)}
    wanted |= {f"pattern {name}" for name in get_args(Pattern)}
    wanted |= {f"teammates {name}" for name in get_args(AgentSettings.__annotations__["teammates"])} or set()
    wanted |= {f"isolation {name}" for name in ("worktree",)}
    assert wanted <= KINDS.keys()


def test_every_built_in_type_has_a_row(tmp_path: Path) -> None:
    settings = load(tmp_path, {"NACRE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})
    assert {f"type {name}" for name in agent_types(settings).types} <= KINDS.keys()


def test_forks_are_made_in_these_places_only() -> None:
    """A new place needs a row in the list of kinds."""
    top = Path(nacre.__file__).parent
    found = {
        str(path.relative_to(top)): len(re.findall(r"\bForkTask\(\n", text))
        for path in sorted(top.rglob("*.py"))
        if re.search(r"\bForkTask\(\n", text := path.read_text())
    }
    assert found == {
        "devtools/replay/side_work.py": 1,
        "layers/l3_notes/notes.py": 1,
        "layers/l4_compact/summarise.py": 1,
        "layers/l5_extract/extract.py": 1,
        "layers/l6_dream/with_model.py": 1,
        "session/forks.py": 1,
    }
