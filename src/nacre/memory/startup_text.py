"""Text about instructions and memory that a session starts with (M10, M19-M21, M25).

`manual` is static text of the system prompt: the same bytes for every project, without path, date or count.
`render_context` is the message before the conversation; the text of files in it is neutralised and bounded,
so that it cannot end the block that contains it.
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
"""All instructions of one message together, about 100,000 tokens; a single file may have them all (M24)."""
MAX_INDEX_CHARS = 30_000
"""One index with its warning about what was cut (M9)."""
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
"""First characters of the block that is restored after a compaction."""
_MEMORY_BEGINS = _WRITABLE.partition("{{")[0]
_FILE_ENDS = _FILE.rpartition("}}")[2]
_CONTEXT_ENDS = _CONTEXT.rpartition("}}")[2]
"""Delimiters by which the parts of a rendered block are found."""

_WHOSE: dict[InstructionKind, str] = {
    "managed": "managed: set for this computer",
    "user": "user: the person's own, for all projects",
    "project": "project: part of the repository",
    "local": "local: the person's own, for this project",
}
_CLAIMS: tuple[InstructionKind, ...] = ("managed", "user", "local", "project")
"""Order in which files get space when not all fit: a repository must not displace the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """Paths and switches of a memory that differ between projects and so are not in the manual."""

    directory: Path
    whose: Literal["project", "agent"] = "project"
    """The label of the index: the memory of an agent type is not the project's."""
    is_read_only: bool = False
    has_index: bool = True
    """Off: no index is shown."""
    user_directory: Path | None = None
    team_directory: Path | None = None
    transcripts: Path | None = None
    """Folder of earlier sessions, if the manual says how to search them."""


def render_context(
    instructions: Instructions | None,
    index_text: str = "",
    team_index_text: str = "",
    memory_facts: MemoryFacts | None = None,
    *,
    user_index_text: str = "",
) -> str:
    """Return the message before the conversation; empty without instructions and memory."""
    parts = _instructions(instructions.all_files) if instructions else []
    if memory_facts:
        memory = render_memory(memory_facts, index_text, team_index_text, user_index_text=user_index_text)
        parts.append(memory)
    return prompts.render(_CONTEXT, body="\n\n".join(parts)) if parts else ""


def render_memory(
    facts: MemoryFacts, index_text: str = "", team_index_text: str = "", *, user_index_text: str = ""
) -> str:
    """Return the paths and indexes of memory; also part of the system prompt of an agent type (M26)."""
    template = _READ_ONLY if facts.is_read_only else _WRITABLE
    lines = [prompts.render(template, directory=one_line(str(facts.directory)))]
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
    """Return the part of a rendered context that is about memory; empty when there is none."""
    # The text of a file cannot end its block, so everything after the last one was written here.
    after_files = max(0, context.rfind(_FILE_ENDS))
    start = context.find(_MEMORY_BEGINS, after_files)
    return context[start:].removesuffix("\n").removesuffix(_CONTEXT_ENDS) if start >= 0 else ""


def render_later(files: Sequence[InstructionFile]) -> str:
    """Return the instructions that touched files added, for the end of the conversation; empty for none."""
    parts = _instructions(files)
    return prompts.render(_LATER, body="\n\n".join(parts)) if parts else ""


def render_again(files: Sequence[InstructionFile]) -> str:
    """Return the instructions that touched files added before a compaction; empty for none (C21)."""
    parts = _instructions(files)
    return prompts.render(_AGAIN, body="\n\n".join(parts)) if parts else ""


def render_changes(changes: InstructionChanges) -> str:
    """Return the changes of instructions on disk, for the end of the conversation; empty for none."""
    parts = _instructions(changes.changed)
    # A file without text counts as removed.
    gone = [*changes.gone, *(file.path for file in changes.changed if not file.text.strip())]
    if gone:
        parts.append(prompts.render(_GONE, paths=_listed(gone)))
    return prompts.render(_CHANGED, body="\n\n".join(parts)) if parts else ""


def too_long(files: Sequence[InstructionFile]) -> tuple[Path, ...]:
    """Return the files that do not fit into one message and are only named in it."""
    return tuple(_split(files)[1])


def _instructions(files: Sequence[InstructionFile]) -> list[str]:
    """Render each file with its path and kind; files that do not fit are only named."""
    parts, left_out = _split(files)
    if left_out:
        parts.append(prompts.render(_LEFT_OUT, paths=_listed(left_out)))
    return parts


def _split(files: Sequence[InstructionFile]) -> tuple[list[str], list[Path]]:
    """Return the rendered files that fit, and the paths of the others; the strongest files come first."""
    shown = {
        file.path: prompts.render(
            _FILE, path=one_line(str(file.path)), kind=_WHOSE[file.kind], text=neutralise(file.text)
        )
        for file in files
        if file.text.strip()
    }
    left_out: set[Path] = set()
    room = MAX_CHARS
    for file in (file for kind in _CLAIMS for file in reversed(files) if file.kind == kind):
        size = len(shown.get(file.path, ""))
        if size > room:
            left_out.add(file.path)
        else:
            room -= size
    parts = [text for path, text in shown.items() if path not in left_out]
    return parts, [path for path in shown if path in left_out]


def _index(directory: Path, scope: str, text: str) -> str:
    shown = neutralise(text[:MAX_INDEX_CHARS].strip("\n")) or EMPTY_INDEX
    return prompts.render(_INDEX, path=one_line(str(directory / "MEMORY.md")), scope=scope, text=shown)


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(f"`{one_line(str(path))}`" for path in paths)


MemoryForm: TypeAlias = Literal["daily", "team", "private"]
"""How memory is organised, in the order of precedence (M19)."""
AgentScope: TypeAlias = Literal["user", "project", "local"]
"""Scope of the memory of an agent type (M26)."""

MAX_EXTRA_CHARS = 8_000
"""Limit on guidelines from the environment, which are part of every request."""

_NAMES = (
    "manual_small manual_private manual_team manual_daily manual_recall_only manual_agent manual_read_only "
    "scope_user scope_project scope_local kinds kinds_team not_saved "
    "saving saving_team saving_daily saving_one_step looking looking_read_only "
    "before_acting other_places searching extra"
)
_TEXTS = {name: prompts.load(__package__, name) for name in _NAMES.split()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualMode:
    """Everything that the text of the manual depends on."""

    form: MemoryForm = "private"
    has_index: bool = True
    """Off: memories are found by recall only, and saving is one step."""
    is_small: bool = False
    """For a small window: the essentials of saving and finding, without an index."""
    is_read_only: bool = False
    """The directory could not be created or is not writable."""
    agent_scope: AgentScope | None = None
    """Set for a sub-agent with a memory of its own."""
    search_tool: str = ""
    """Name of the tool that searches files; empty omits the section."""
    extra_guidelines: str = ""
    """From NACRE_MEMORY_EXTRA_GUIDELINES."""


def form_of(*, is_daily: bool = False, has_team: bool = False) -> MemoryForm:
    """Return the form of memory: daily, else team, else private."""
    return "daily" if is_daily else "team" if has_team else "private"


def manual(mode: ManualMode) -> str:
    """Return the manual for the system prompt."""
    if mode.is_read_only:
        scope = [_TEXTS[f"scope_{mode.agent_scope}"]] if mode.agent_scope else []
        sections = [_TEXTS["manual_read_only"], *scope, _TEXTS["looking_read_only"], _TEXTS["before_acting"]]
    elif mode.is_small:
        sections = [_TEXTS["manual_small"]]
    else:
        form = "private" if mode.agent_scope else mode.form
        if mode.agent_scope:
            opening = prompts.render(_TEXTS["manual_agent"], scope=_TEXTS[f"scope_{mode.agent_scope}"])
        elif form == "private" and not mode.has_index:
            opening = _TEXTS["manual_recall_only"]
        else:
            opening = _TEXTS[f"manual_{form}"]
        # Daily logs and the two scopes have indexes of their own; only private memory can be without one.
        saving = f"saving_{form}" if form != "private" else "saving" if mode.has_index else "saving_one_step"
        kinds = "kinds_team" if form == "team" else "kinds"
        rest = (kinds, "not_saved", saving, "looking", "before_acting", "other_places")
        sections = [opening, *(_TEXTS[name] for name in rest)]
    if mode.search_tool:
        tool = f"`{neutralise(mode.search_tool)}`"
        sections.append(prompts.render(_TEXTS["searching"], tool=tool))
    if guidelines := mode.extra_guidelines.strip():
        guidelines = neutralise(guidelines[:MAX_EXTRA_CHARS])
        sections.append(prompts.render(_TEXTS["extra"], guidelines=guidelines))
    return "\n\n".join(sections)
