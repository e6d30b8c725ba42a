"""The types of agents: built in, of the user, of the project; the nearest definition wins.

A type is a Markdown file: its frontmatter configures the agent, its body is the system prompt.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from nacre import prompts
from nacre.errors import StoreError
from nacre.memory.format.fields import FieldValue
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.startup_text import AgentScope
from nacre.settings import Settings
from nacre.store import disk
from nacre.tools.files import read_real, resolve

Isolation: TypeAlias = Literal["", "worktree"]
FOLDER = "agents"
GENERAL = "general"
EXPLORE = "explore"
FORK = "fork"
INHERIT = "inherit"
SMALL = "small"
"""Placeholders for a model: that of the agent's owner, and the one for side work."""
MAX_BYTES = 256 * 1024
"""Maximum size of a file; more is no system prompt."""
MAX_FILES = 500
"""Maximum number of files in a folder: a longer list does not help a model to choose."""
DESCRIPTION_CHARS = 1_000
"""Maximum length of a description in the list for the model; some files hold whole dialogues there."""
ALIASES = {"Task": "Agent", "TodoWrite": "TaskList", "MultiEdit": "Edit", "LS": "Glob"}
"""Tool names of other programs, and what they are called here."""
EVERYTHING = frozenset({"*", "all", "all tools"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_YES = frozenset({"true", "yes", "on"})
_NO = frozenset({"false", "no", "off", ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentType:
    """One type of agent."""

    name: str
    description: str
    prompt: str
    tools: frozenset[str] | None = None
    """Tools it may call; None: all."""
    disallowed: frozenset[str] = frozenset()
    model: str = INHERIT
    max_turns: int | None = None
    """Rounds of one turn; None: the limit of a session."""
    memory: AgentScope | None = None
    """Scope of its own memory; None: it has none (M26)."""
    background: bool = False
    isolation: Isolation = ""
    origin: Path | None = None
    """File of the definition; None for a built-in type."""

    def may_call(self, tool: str) -> bool:
        """Whether its definition allows this tool."""
        return tool not in self.disallowed and (self.tools is None or tool in self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTypes:
    """All types by name, and problems of their files."""

    types: Mapping[str, AgentType] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    @property
    def custom(self) -> tuple[AgentType, ...]:
        """The types that are not built in, sorted by name."""
        return tuple(self.types[name] for name in sorted(self.types) if self.types[name].origin)

    def unknown_tools(self, known: Collection[str]) -> tuple[str, ...]:
        """Return a notice for each file that names unknown tools; MCP tools may come later."""
        found = []
        for one in self.custom:
            named = (one.tools or frozenset()) | one.disallowed
            missing = sorted(name for name in named - set(known) if not name.startswith("mcp__"))
            if missing:
                found.append(f"{one.origin}: there is no tool named {', '.join(missing)}; left out")
        return tuple(found)


def agent_types(settings: Settings) -> AgentTypes:
    """Return all types: built in, of the home, of the project; in bare mode only built-in ones."""
    types = {}
    for name in (GENERAL, EXPLORE):
        document = MarkdownFile.parse(prompts.load(__package__, f"agent_{name}").encode())
        tools = _text(document.fields.get("tools"))
        types[name] = AgentType(
            name=name,
            description=_text(document.fields["description"]),
            prompt=document.body.strip(),
            tools=frozenset(_outside_brackets(tools)) if tools else None,
        )
    notices: list[str] = []
    root = settings.project_root
    places = ((settings.home / FOLDER, None), (root / ".claude" / FOLDER, Path(os.path.realpath(root))))
    for folder, tree in () if settings.memory.simple else places:
        for path in _files(folder, notices):
            try:
                one = parse_type(_read(path, tree, settings), path, notices)
            except StoreError as error:
                notices.append(str(error))
            else:
                is_strange = tree is not None and not settings.is_trusted
                types[one.name] = _kept_in_place(one, notices) if is_strange else one
    return AgentTypes(types=types, notices=tuple(notices))


def parse_type(data: bytes, path: Path, notices: list[str]) -> AgentType:
    """Parse the file of a type; raises `StoreError` if it is invalid.

    An invalid field is reported in `notices` and ignored.
    """
    document = MarkdownFile.parse(data)
    given = document.fields
    prompt = document.body.strip()
    name = _text(given.get("name")) or path.stem
    description = _text(given.get("description"))
    if not document.has_frontmatter or not description:
        raise StoreError(f"{path}: needs a frontmatter with name and description; not used")
    if not _NAME.fullmatch(name) or name == FORK:
        raise StoreError(f"{path}: an agent cannot be named {name[:80]!r}; not used")
    if not prompt:
        raise StoreError(f"{path}: says nothing below its frontmatter, so there is no prompt; not used")
    read = _Fields(given, path, notices)
    return AgentType(
        name=name,
        description=description,
        prompt=prompt,
        tools=read.tools("tools"),
        disallowed=read.tools("disallowedTools") or frozenset(),
        model=_text(given.get("model")) or INHERIT,
        max_turns=read.number("maxTurns"),
        memory=cast("AgentScope | None", read.word("memory", get_args(AgentScope))),
        background=read.switch("background"),
        isolation=cast("Isolation", read.word("isolation", ("worktree",)) or ""),
        origin=path,
    )


@dataclass(frozen=True, slots=True)
class _Fields:
    """Reads the optional fields of one file."""

    given: Mapping[str, FieldValue]
    path: Path
    notices: list[str]

    def tools(self, key: str) -> frozenset[str] | None:
        """Return tool names from a list or a string with commas; a rule in brackets is left to the guard."""
        value = self.given.get(key)
        if value is None or value in {"", ()}:
            return None
        parts = _outside_brackets(value) if isinstance(value, str) else value
        names = {part.partition("(")[0].strip().strip("\"'") for part in parts}
        if names & EVERYTHING or {name.lower() for name in names} & EVERYTHING:
            return None
        return frozenset(ALIASES.get(name, name) for name in names if name)

    def number(self, key: str) -> int | None:
        text = _text(self.given.get(key))
        if text.isascii() and text.isdecimal() and int(text[:9]) > 0:
            return int(text[:9])
        self._wrong(key, text, "a number above 0")
        return None

    def word(self, key: str, words: Collection[str]) -> str | None:
        text = _text(self.given.get(key)).lower()
        if text in words:
            return text
        self._wrong(key, text, f"one of {', '.join(words)}")
        return None

    def switch(self, key: str) -> bool:
        text = _text(self.given.get(key)).lower()
        if text not in _YES | _NO:
            self._wrong(key, text, "true or false")
        return text in _YES

    def _wrong(self, key: str, text: str, wanted: str) -> None:
        if text:
            self.notices.append(f"{self.path}: {key} is {text[:40]!r}, expected {wanted}; ignored")


def _kept_in_place(one: AgentType, notices: list[str]) -> AgentType:
    """Limit the memory of a project's type to the project, so that it cannot read or write the user's."""
    if one.memory != "user":
        return one
    notices.append(f"{one.origin}: memory is 'user', and this directory is not trusted; it has none")
    return replace(one, memory=None)


def _files(folder: Path, notices: list[str]) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entry.name for entry in entries if entry.name.endswith(".md"))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        notices.append(f"no agents of {folder}: {error.strerror or error}")
        return
    if len(found) > MAX_FILES:
        notices.append(f"{folder} holds {len(found):,} files; only the first {MAX_FILES} are agents")
    yield from (folder / name for name in found[:MAX_FILES] if not name.startswith("."))


def _read(path: Path, tree: Path | None, settings: Settings) -> bytes:
    """Read a file; one of a repository must lie in its tree, so that a link cannot expose other files."""
    try:
        place = resolve(path)
        if tree is not None and not place.is_relative_to(tree):
            raise StoreError(
                f"{path}: it links to a file outside the project; copy it there; this agent is not used"
            )
        if tree is not None and (why := settings.reading_refusal(place)):
            raise StoreError(f"{path}: {why}; this agent is not used")
        data = read_real(place, MAX_BYTES + 1)[0]
    except OSError as error:
        raise StoreError(f"{disk.explain(error, path)}; this agent is not used") from error
    if len(data) > MAX_BYTES:
        raise StoreError(f"{path}: more than {MAX_BYTES // 1024} KB is no agent's definition; not used")
    return data


def _text(value: FieldValue | None) -> str:
    return value.strip() if isinstance(value, str) else ", ".join(value or ())


def _outside_brackets(text: str) -> list[str]:
    """Split at commas outside brackets, which belong to rules such as `Bash(git log:*, ls)`."""
    parts = [""]
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
