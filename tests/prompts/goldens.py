"""Rewrites goldens/*.md: every rendered prompt about memory, whole, as the model reads it."""

from __future__ import annotations

from pathlib import Path

from nacre.memory.instructions import Changes, InstructionFile, InstructionPaths, Instructions
from nacre.memory.manual import ManualMode, manual
from nacre.memory.opening import MemoryFacts, render_changes, render_context, render_later, render_memory

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
    return {f"{name}.md": text + "\n" for name, text in (rendered | _messages()).items()}


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
        "context_changed": render_changes(Changes((project,), (local.path,), loaded)),
        "memory_of_an_agent": render_memory(facts, INDEX),
    }


def _file(path: Path, text: str, kind: str) -> InstructionFile:
    return InstructionFile(path=path, kind=kind, text=text, bytes=len(text), real=path, identity=(0, 0))  # type: ignore[arg-type]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in current().items():
        (FOLDER / name).write_text(text, encoding="utf-8", newline="\n")
    print(f"{FOLDER.name}: {len(current())} prompts")
