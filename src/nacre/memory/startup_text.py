"""Instructions and memory as the model reads them: one message ahead of the conversation (M10, M25).

Same files, same bytes. What stands in files is neutralised and bounded; it cannot end the block it is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from nacre import prompts
from nacre.memory.instructions.files import InstructionFile, InstructionKind
from nacre.memory.instructions.load import InstructionChanges, Instructions
from nacre.messages.untrusted_text import neutralise, one_line

MAX_CHARS = 400_000
"""All instructions together, about 100,000 tokens: more would leave a usual window no room to work in."""
MAX_LATER_CHARS = 40_000
"""What one touched file or one change may add at the tail, in the middle of the work."""
MAX_INDEX_CHARS = 30_000
"""One index with its remark on what was cut (M9); only a caller's mistake is longer."""
EMPTY_INDEX = "(empty: nothing has been saved yet)"

_CONTEXT = prompts.load(__package__, "context")
_LATER = prompts.load(__package__, "context_later")
_AGAIN = prompts.load(__package__, "context_again")
_CHANGED = prompts.load(__package__, "context_changed")
_FILE = prompts.load(__package__, "context_file")
_LEFT_OUT = prompts.load(__package__, "context_left_out")
_GONE = prompts.load(__package__, "context_gone")
_WRITABLE = prompts.load(__package__, "memory_writable")
_READ_ONLY = prompts.load(__package__, "memory_read_only")
_USER = prompts.load(__package__, "memory_user")
_TEAM = prompts.load(__package__, "memory_team")
_TRANSCRIPTS = prompts.load(__package__, "memory_transcripts")
_INDEX = prompts.load(__package__, "memory_index")

AGAIN_BEGINS = _AGAIN.partition("{{")[0]
"""How the block begins that a compaction gets back."""
_MEMORY_BEGINS = _WRITABLE.partition("{{")[0]
_FILE_ENDS = _FILE.rpartition("}}")[2]
_CONTEXT_ENDS = _CONTEXT.rpartition("}}")[2]
"""By which the parts of the block are told apart again."""

_WHOSE: dict[InstructionKind, str] = {
    "managed": "managed: set for this computer",
    "user": "user: the person's own, for all projects",
    "project": "project: part of the repository",
    "local": "local: the person's own, for this project",
}
_CLAIMS: tuple[InstructionKind, ...] = ("managed", "user", "local", "project")
"""Who gets room first when not everything fits: a repository must not be able to crowd out the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """What the manual leaves open because it differs between projects."""

    directory: Path
    whose: Literal["project", "agent"] = "project"
    """What the index of that directory is labelled as: an agent type's own memory is not the project's."""
    is_read_only: bool = False
    has_index: bool = True
    """Off: no index is shown, and none is said to be empty."""
    user_directory: Path | None = None
    team_directory: Path | None = None
    transcripts: Path | None = None
    """Where earlier sessions lie, if the manual says how to search them."""


def render_context(
    instructions: Instructions | None,
    index_text: str = "",
    team_index_text: str = "",
    memory_facts: MemoryFacts | None = None,
    *,
    user_index_text: str = "",
) -> str:
    """The one block ahead of the conversation; empty when there is nothing to say."""
    parts = _instructions(instructions.all_files, MAX_CHARS) if instructions else []
    if memory_facts:
        memory = render_memory(memory_facts, index_text, team_index_text, user_index_text=user_index_text)
        parts.append(memory)
    return prompts.render(_CONTEXT, body="\n\n".join(parts)) if parts else ""


def render_memory(
    facts: MemoryFacts, index_text: str = "", team_index_text: str = "", *, user_index_text: str = ""
) -> str:
    """Where memory lies and what its indexes say; by itself it goes into an agent's system prompt (M26)."""
    place = _READ_ONLY if facts.is_read_only else _WRITABLE
    lines = [prompts.render(place, directory=one_line(str(facts.directory)))]
    for template, folder in (
        (_USER, facts.user_directory),
        (_TEAM, facts.team_directory),
        (_TRANSCRIPTS, facts.transcripts),
    ):
        if folder:
            lines.append(prompts.render(template, directory=one_line(str(folder))))
    parts = ["\n".join(lines)]
    if facts.has_index:
        if facts.user_directory and user_index_text.strip():
            parts.append(_index(facts.user_directory, "user", user_index_text))
        parts.append(_index(facts.directory, facts.whose, index_text))
        if facts.team_directory:
            parts.append(_index(facts.team_directory, "team", team_index_text))
    return "\n\n".join(parts)


def memory_part(context: str) -> str:
    """What of such a block is about memory; empty when nothing is."""
    # A file's own text cannot end its block, so what comes behind the last one was written here.
    behind = max(0, context.rfind(_FILE_ENDS))
    start = context.find(_MEMORY_BEGINS, behind)
    return context[start:].removesuffix("\n").removesuffix(_CONTEXT_ENDS) if start >= 0 else ""


def render_later(files: Sequence[InstructionFile]) -> str:
    """What touched files brought along, for the tail of the conversation; empty when nothing did."""
    parts = _instructions(files, MAX_LATER_CHARS)
    return prompts.render(_LATER, body="\n\n".join(parts)) if parts else ""


def render_again(files: Sequence[InstructionFile]) -> str:
    """What touched files had brought along before a compaction; empty when nothing had (C21)."""
    parts = _instructions(files, MAX_LATER_CHARS)
    return prompts.render(_AGAIN, body="\n\n".join(parts)) if parts else ""


def render_changes(changes: InstructionChanges) -> str:
    """What became of instructions on disk, for the tail of the conversation; empty when nothing did."""
    parts = _instructions(changes.changed, MAX_LATER_CHARS)
    # A file emptied of its text is as good as gone.
    gone = [*changes.gone, *(file.path for file in changes.changed if not file.text.strip())]
    if gone:
        parts.append(prompts.render(_GONE, paths=_listed(gone)))
    return prompts.render(_CHANGED, body="\n\n".join(parts)) if parts else ""


def _instructions(files: Sequence[InstructionFile], room: int) -> list[str]:
    """Each file under its path and kind; those that find no room are named instead."""
    shown = {file.path: _shown(file) for file in files if file.text.strip()}
    left_out: set[Path] = set()
    for file in (file for kind in _CLAIMS for file in reversed(files) if file.kind == kind):
        size = len(shown.get(file.path, ""))
        if size > room:
            left_out.add(file.path)
        else:
            room -= size
    parts = [text for path, text in shown.items() if path not in left_out]
    if left_out:
        parts.append(prompts.render(_LEFT_OUT, paths=_listed(path for path in shown if path in left_out)))
    return parts


def _shown(file: InstructionFile) -> str:
    return prompts.render(
        _FILE, path=one_line(str(file.path)), kind=_WHOSE[file.kind], text=neutralise(file.text)
    )


def _index(directory: Path, scope: str, text: str) -> str:
    shown = neutralise(text[:MAX_INDEX_CHARS].strip("\n")) or EMPTY_INDEX
    return prompts.render(_INDEX, path=one_line(str(directory / "MEMORY.md")), scope=scope, text=shown)


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(f"`{one_line(str(path))}`" for path in paths)


MemoryForm: TypeAlias = Literal["daily", "team", "private", "none"]
"""How memory is kept, in the order in which the forms are considered (M19)."""
AgentScope: TypeAlias = Literal["user", "project", "local"]
"""How far the memory of an agent type reaches (M26)."""

MAX_EXTRA_CHARS = 8_000
"""Guidelines from the environment reach every request; more than this is a document, not a guideline."""

_NAMES = (
    "manual_private manual_team manual_daily manual_recall_only manual_agent manual_read_only "
    "scope_user scope_project scope_local kinds kinds_team not_saved "
    "saving saving_team saving_daily saving_one_step looking looking_read_only "
    "before_acting other_places searching extra"
)
_TEXTS = {name: prompts.load(__package__, name) for name in _NAMES.split()}
_SCOPES: dict[AgentScope, str] = {
    "user": _TEXTS["scope_user"],
    "project": _TEXTS["scope_project"],
    "local": _TEXTS["scope_local"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualMode:
    """Which manual a session needs; everything that may change its bytes."""

    form: MemoryForm = "private"
    has_index: bool = True
    """Off: nothing but recall finds a memory, and saving is one step."""
    is_read_only: bool = False
    """The directory could not be made or cannot be written."""
    agent_scope: AgentScope | None = None
    """Set for a sub-agent with a memory of its own."""
    search_tool: str = ""
    """The tool that searches files in this session; empty leaves the section out."""
    extra_guidelines: str = ""
    """From NACRE_MEMORY_EXTRA_GUIDELINES."""


def form_of(*, is_on: bool, is_daily: bool = False, has_team: bool = False) -> MemoryForm:
    """The form of memory that applies: daily, then team, then private, then none."""
    if not is_on:
        return "none"
    return "daily" if is_daily else "team" if has_team else "private"


def manual(mode: ManualMode) -> str:
    """The manual as it stands in the system prompt; empty without a memory."""
    if mode.form == "none":
        return ""
    sections = _reading(mode) if mode.is_read_only else _keeping(mode)
    if mode.search_tool:
        tool = f"`{neutralise(mode.search_tool)}`"
        sections.append(prompts.render(_TEXTS["searching"], tool=tool))
    if guidelines := mode.extra_guidelines.strip():
        guidelines = neutralise(guidelines[:MAX_EXTRA_CHARS])
        sections.append(prompts.render(_TEXTS["extra"], guidelines=guidelines))
    return "\n\n".join(sections)


def _reading(mode: ManualMode) -> list[str]:
    """What there is to know when nothing can be saved."""
    scope = [_SCOPES[mode.agent_scope]] if mode.agent_scope else []
    return [_TEXTS["manual_read_only"], *scope, _TEXTS["looking_read_only"], _TEXTS["before_acting"]]


def _keeping(mode: ManualMode) -> list[str]:
    form = "private" if mode.agent_scope else mode.form
    return [
        _opening(mode),
        _TEXTS["kinds_team" if form == "team" else "kinds"],
        _TEXTS["not_saved"],
        _TEXTS[_saving(form, has_index=mode.has_index)],
        _TEXTS["looking"],
        _TEXTS["before_acting"],
        _TEXTS["other_places"],
    ]


def _opening(mode: ManualMode) -> str:
    if mode.agent_scope:
        return prompts.render(_TEXTS["manual_agent"], scope=_SCOPES[mode.agent_scope])
    if mode.form == "private" and not mode.has_index:
        return _TEXTS["manual_recall_only"]
    return _TEXTS[f"manual_{mode.form}"]


def _saving(form: MemoryForm, *, has_index: bool) -> str:
    # The log of a day and the two scopes have indexes of their own; only private memory goes without one.
    if form in {"daily", "team"}:
        return f"saving_{form}"
    return "saving" if has_index else "saving_one_step"
