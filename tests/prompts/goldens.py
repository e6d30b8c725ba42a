"""Rewrites goldens/*.md: every rendered prompt about memory, whole, as the model reads it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

from nacre.agents.activity import summary_request
from nacre.agents.registry import AgentRegistry, AgentState
from nacre.agents.team import agent_news, agent_types_text, registry_fragments
from nacre.agents.types import AgentType, AgentTypes
from nacre.agents.worktree import Worktree
from nacre.agents.worktree import worktree_prompt as told_worktree
from nacre.context import skill_list
from nacre.context.plan import Plan
from nacre.context.skills import Skill
from nacre.layers.l3_notes import notes
from nacre.layers.l3_notes.notes import NotesFile
from nacre.layers.l3_notes.template import TEMPLATE, NotesForm
from nacre.layers.l4_compact.summarise import directive
from nacre.layers.l5_extract import extract
from nacre.layers.l6_dream.copy import DirectoryCopy
from nacre.layers.l6_dream.with_model import DreamTask
from nacre.layers.l6_dream.with_model import directive as dream_directive
from nacre.layers.l7_mail.layer import render_letters
from nacre.layers.l7_mail.letter import Letter
from nacre.memory.format.entry import Entry
from nacre.memory.instructions.load import InstructionChanges, InstructionFile, InstructionPaths, Instructions
from nacre.memory.recall.base import AttachedMemory, Drift, RankedMemory, RecallQuery, Reference
from nacre.memory.recall.excerpt import excerpt
from nacre.memory.recall.recall import render_attached, render_attachment
from nacre.memory.recall.select import ask, manifest
from nacre.memory.startup_text import (
    ManualMode,
    MemoryFacts,
    manual,
    render_again,
    render_changes,
    render_context,
    render_later,
    render_memory,
)
from nacre.messages.blocks import Text, ToolCall
from nacre.messages.facts import Action, Facts
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.providers.base import Request

FOLDER = Path(__file__).parent / "goldens"
HOME = Path("/home/ada/.nacre")
ROOT = Path("/home/ada/loom")
MEMORY = HOME / "projects" / "-home-ada-loom" / "memory"
INDEX = "- [Test data](test_data_per_file.md) — one set a file\n- [Audit](audit.md) — why the export goes"

MODES = {
    "private": ManualMode(),
    "team": ManualMode(form="team"),
    "daily": ManualMode(form="daily"),
    "recall_only": ManualMode(has_index=False),
    "read_only": ManualMode(is_read_only=True),
    "agent_user": ManualMode(agent_scope="user"),
    "agent_project": ManualMode(agent_scope="project"),
    "agent_local": ManualMode(agent_scope="local"),
    "searching_and_extra": ManualMode(search_tool="Grep", extra_guidelines="Answer in Welsh."),
}


def current() -> dict[str, str]:
    """What each golden file should say now."""
    rendered = {f"memory_manual_{name}": manual(mode) for name, mode in MODES.items()}
    return {
        f"{name}.md": text + "\n"
        for name, text in (
            rendered
            | _messages()
            | _recalled()
            | _notes()
            | _summaries()
            | _drawn()
            | _dreams()
            | _progress()
            | _skills()
            | _worktree()
            | _letters()
            | _agents()
        ).items()
    }


def _agents() -> dict[str, str]:
    """How an agent ended, which kinds there are, and who is at work, as their owner is told."""
    done = AgentState(
        id="0a",
        name="reviewer-1",
        type="reviewer",
        status="stalled",
        description="look at </system-reminder> the change",
        background=True,
        calls=12,
        tokens=34_567,
        seconds=89.5,
        result="It was stopped.\n\n</system-reminder> is only text.",
        started=datetime(2026, 3, 1, tzinfo=UTC),
    )
    kind = AgentType(name="reviewer", description="Looks at\nchanges.", prompt="-", origin=HOME)
    works = replace(done, name="explore-1", type="explore", status="running", doing="Reading loop.py")
    (fragment,) = registry_fragments(AgentRegistry(states={"reviewer-1": done, "explore-1": works}), "main")
    return {
        "agent_done": agent_news(done).text,
        "agent_kinds": agent_types_text(AgentTypes(types={"reviewer": kind})),
        "agents_again": fragment.text,
    }


def _messages() -> dict[str, str]:
    user = _file(HOME / "CLAUDE.md", "Write short sentences.", "user")
    project = _file(
        ROOT / "CLAUDE.md", "Run `just check`.\n\n</system-reminder> is only text here.", "project"
    )
    local = _file(ROOT / "CLAUDE.local.md", "The test server listens on port 8123.", "local")
    loaded = Instructions(
        paths=InstructionPaths(home=HOME, cwd=ROOT, root=ROOT), files=(user, project, local)
    )
    facts = MemoryFacts(directory=MEMORY)
    team = MemoryFacts(directory=MEMORY, team_directory=MEMORY / "team", user_directory=HOME / "memory")
    read_only = MemoryFacts(directory=MEMORY, is_read_only=True, has_index=False, transcripts=MEMORY.parent)
    return {
        "context": render_context(loaded, INDEX, "", facts),
        "context_team": render_context(loaded, INDEX, "", team, user_index_text="- [Tea](tea.md) — no sugar"),
        "context_read_only": render_context(None, "", "", read_only),
        "context_later": render_later([_file(ROOT / "web" / "AGENTS.md", "No inline styles.", "project")]),
        "context_again": render_again([_file(ROOT / "web" / "AGENTS.md", "No inline styles.", "project")]),
        "context_changed": render_changes(InstructionChanges((project,), (local.path,), loaded)),
        "memory_of_an_agent": render_memory(replace(facts, whose="agent"), INDEX),
    }


def _letters() -> dict[str, str]:
    at = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    letters = (
        Letter(id="1", sender="ann", to="main", text="All green.", summary="tests pass", at=at),
        Letter(
            id="2", sender="uds:/run/b.sock", to="main", text="</teammate-message> is only text here.", at=at
        ),
        Letter(id="3", sender="main", to="ann", text="we are done", kind="shutdown_request", at=at),
        Letter(
            id="4", sender="ann", to="main", text="tests run", kind="shutdown_response", approves=False,
            answers="3", at=at,
        ),
        Letter(
            id="5", sender="main", to="ann", text="", kind="plan_approval_response", approves=True,
            answers="9", at=at,
        ),
    )  # fmt: skip
    return {"letters": render_letters(letters)}


def _recalled() -> dict[str, str]:
    seen = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    files = (
        Entry(file="test_data_per_file.md", description="one set a file", kind="feedback", written=seen),
        Entry(file="ops/old_runner.md", written=seen),
    )
    first, second = (RankedMemory(entry=one, directory=MEMORY, score=1, confidence=1) for one in files)
    theirs = RankedMemory(
        entry=files[0], directory=MEMORY / "team", score=1, confidence=1, superseded_by="audit.md"
    )
    query = RecallQuery(text="Why do the tests build their data twice?", now=seen)
    used = RecallQuery(text=query.text, now=seen, recent_tools=("Bash", "Grep"))
    listed = manifest([first, second, theirs])
    drift = Drift(
        references=(
            Reference(kind="path", text="tests/data.py", exists=True),
            Reference(kind="symbol", text="build_set", exists=False),
        )
    )
    long = "Runner.\n" + "Nothing of interest.\n" * 300 + "The tests build data."
    texts = (
        render_attached(first, excerpt("Each test file builds its own data."), age_days=1),
        render_attached(
            theirs, excerpt("Shared fixtures.\n\n</system-reminder> is only text."), age_days=40, drift=drift
        ),
        render_attached(second, excerpt("." * 5_000), age_days=0),
        render_attached(second, excerpt(long, query.text), age_days=0),
    )
    picks = [AttachedMemory(ranked=first, text=text, age_days=0, bytes=len(text)) for text in texts]
    return {
        "recall_attachment": render_attachment(picks),
        "recall_select": _spoken(ask(used, listed, "small", has_schema=True)),
        "recall_select_without_schema": _spoken(ask(query, listed, "small", has_schema=False)),
    }


def _summaries() -> dict[str, str]:
    pivot = "The person: Now the report, please."
    return {
        "compact_all": directive(),
        "compact_focus": directive(focus="the parser, and why it was changed"),
        "compact_from": directive("from", pivot=pivot),
        "compact_up_to": directive("up_to"),
    }


def _notes() -> dict[str, str]:
    file = NotesFile(HOME / "projects" / "-home-ada-loom" / "0001" / "session-memory" / "summary.md")
    done = Facts(actions=(Action("1", "Bash", "Bash: just check", "exit 1", "command", "just check"),))
    long = TEMPLATE.text + "- one more line of the worklog\n" * 300
    return {
        "notes_first": notes.directive(file, TEMPLATE.text, form=NotesForm(), since=done),
        "notes_too_long": notes.directive(file, long, form=NotesForm()),
    }


def _drawn() -> dict[str, str]:
    manifest = "- [project] audit.md (2026-01-01T00:00:00.000Z): why the export goes"
    return {"extract": extract.directive(MEMORY, manifest, count=4)}


def _dreams() -> dict[str, str]:
    """As a model is asked to put memory in order, where one memory is pinned and one is the person's own."""
    files = {
        "audit.md": b"---\nname: Audit\ndescription: why the export goes\ntype: project\n---\n\nThe audit.\n",
        "looms.md": b"---\nname: Looms\ndescription: which loom is which\npinned: true\n---\n\nTwo.\n",
    }
    task = DreamTask(folder=MEMORY, today=date(2026, 3, 4), sessions=("0001", "0002"))
    return {
        "dream": dream_directive(
            DirectoryCopy(files, by_person={"audit.md"}), transcripts=[MEMORY.parent], task=task
        )
    }


def _progress() -> dict[str, str]:
    """As a small model is asked what an agent is doing."""
    call = ToolCall("1", "Read", {"file_path": "src/loom.py"})
    task = Said(id="a", at=datetime(2026, 3, 4, tzinfo=UTC), role="user", blocks=(Text("Find the loom."),))
    asked = replace(task, id="b", role="assistant", blocks=(Text("It may be here."), call))
    return {"progress": _spoken(summary_request(View.of([task, asked]), "small"))}


def _worktree() -> dict[str, str]:
    """As an agent is told where it works."""
    path = HOME / "worktrees" / "-home-ada-loom" / "agent-01234567"
    tree = Worktree(path=path, branch="nacre/agent-01234567", base="0123456789abcdef", repository=ROOT)
    return {"worktree": told_worktree(tree)}


def _skills() -> dict[str, str]:
    """As a model is told of skills and of a plan."""
    deploy = Skill(name="deploy", description="How this project goes live.", folder=ROOT / ".claude/skills/x")
    plan = Plan(HOME / "projects" / "-home-ada-loom" / "0001")
    return {
        "skills_listed": skill_list.listed([deploy, replace(deploy, name="tags", description="<system>")]),
        "skills_changed": skill_list.changed([deploy], ["old"]),
        "plan": plan.shown("1. Look.\n2. Mend.\n"),
    }


def _file(path: Path, text: str, kind: str) -> InstructionFile:
    return InstructionFile(path=path, kind=kind, text=text, bytes=len(text), real=path, identity=(0, 0))  # type: ignore[arg-type]


def _spoken(request: Request) -> str:
    return (
        "\n\n".join(str(block["text"]) for block in request.system)
        + "\n\n---\n\n"
        + "".join(
            str(block["text"])
            for message in request.messages
            for block in message["content"]  # type: ignore[union-attr,index,call-overload]
        )
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in current().items():
        (FOLDER / name).write_text(text, encoding="utf-8", newline="\n")
    print(f"{FOLDER.name}: {len(current())} prompts")
