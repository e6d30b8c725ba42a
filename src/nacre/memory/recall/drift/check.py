"""Checks whether what a memory names still exists in the working tree, in limited time (R12).

Paths are checked on disk, names and flags are searched in the tracked files. What was not reached in time has
no answer. What need not be in the tree (another program's flag, a file created at run time) is left out, so
that only what a project should have is reported as gone. Nothing is run. Blocking: call it in a thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.files.scan import NotAMemory, read_head
from nacre.memory.recall.base import Drift, RankedMemory, Reference
from nacre.memory.recall.drift.known_names import (
    CODE_ENDINGS,
    DATA_ENDINGS,
    ENDINGS,
    PLAIN_FILES,
    PROSE_ENDINGS,
    is_external,
)
from nacre.memory.recall.drift.references import (
    NamedReference,
    ProjectCommand,
    command_of,
    line_of,
    parts_of,
    references_in,
)
from nacre.memory.recall.drift.tree_files import RealFolders, WorkingTree, read_inside, read_tree
from nacre.memory.recall.drift.words import (
    CACHE_FROM_BYTES,
    MAX_FILE_BYTES,
    OnProgress,
    SearchWord,
    WordCache,
    search_words,
    spellings,
)

BUDGET_SECONDS = 0.05
"""Time that a turn may spend on the check (R12)."""
MAX_LISTED = 6
"""References listed per answer; the rest is counted."""
MAX_LISTED_CHARS = 80
"""Characters of one listed reference."""

MAX_MANIFEST_BYTES = 500_000
"""A larger Makefile or package.json is generated."""
MAX_MANIFESTS = 200
"""Files of one kind that are read."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile")
_TASKFILES = ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml")
_RULE = re.compile(r"^([^\s:=#][^:=#\n]*?)\s*:(?![=:])", re.MULTILINE)
_OPEN_ENDED = re.compile(r"^[-s]?include\b|^[\w-]*%[\w-]*\s*:|^\$[({]\w+[)}]\s*:", re.MULTILINE)
"""Makefiles with targets that cannot be listed: included, by pattern, or computed."""
_RECIPE = re.compile(r"^@?([A-Za-z_][\w-]*)[^\n:=]*:(?!=)", re.MULTILINE)
_ALIAS = re.compile(r"^alias\s+([\w-]+)\s*:=", re.MULTILINE)
_TASK = re.compile(r"^ {2}['\"]?([A-Za-z_][\w:.-]*)['\"]?:", re.MULTILINE)


def check(
    named: str | Iterable[NamedReference],
    root: Path,
    *,
    budget_seconds: float = BUDGET_SECONDS,
    clock: Clock = SYSTEM_CLOCK,
    words: WordCache | None = None,
) -> Drift:
    """Check the references of one text in the working tree below a root."""
    return check_each([named], root, budget_seconds=budget_seconds, clock=clock, words=words)[0]


def check_each(
    texts: Sequence[str | Iterable[NamedReference]],
    root: Path,
    *,
    budget_seconds: float = BUDGET_SECONDS,
    clock: Clock = SYSTEM_CLOCK,
    words: WordCache | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[Drift, ...]:
    """Check several texts with one budget and one pass over the files.

    `words` makes the check of a tree of more than 8 MB fast enough.
    """
    deadline = clock.seconds() + budget_seconds
    named = [references_in(one, root) if isinstance(one, str) else tuple(one) for one in texts]
    wanted = dict.fromkeys(one for each in named for one in each)
    look = ReferenceChecker(
        root, is_late=lambda: clock.seconds() >= deadline, on_progress=on_progress, words=words
    )
    answers = look.answers(wanted) if wanted else {}
    return tuple(
        Drift(
            references=tuple(
                Reference(kind=kind, text=text, exists=answers[kind, text])
                for kind, text in each
                if (kind, text) in answers
            )
        )
        for each in named
    )


def has_code(root: Path) -> bool:
    """Return whether a directory contains code, down to two levels: else what memories name is elsewhere."""
    with contextlib.suppress(OSError):
        for folder in (root, *(one for one in root.iterdir() if one.is_dir() and one.name[0] != ".")):
            with contextlib.suppress(OSError):
                names = (one.name for one in folder.iterdir())
                if any(name.rpartition(".")[2] in CODE_ENDINGS or name in PLAIN_FILES for name in names):
                    return True
    return False


def check_ranked(
    ranked: Sequence[RankedMemory],
    root: Path,
    *,
    budget_seconds: float = BUDGET_SECONDS,
    clock: Clock = SYSTEM_CLOCK,
    words: WordCache | None = None,
) -> tuple[Drift | None, ...]:
    """Check memories before they are attached; None for one that cannot be read."""
    texts = [_text(one) for one in ranked]
    said = [text or "" for text in texts]
    found = check_each(said, root, budget_seconds=budget_seconds, clock=clock, words=words)
    return tuple(None if text is None else drift for text, drift in zip(texts, found, strict=True))


def one_line(drift: Drift) -> str:
    """Return which references are gone, exist, or were not checked, as one line; empty without references."""
    groups = (
        ("gone:", drift.gone),
        ("still there:", [one for one in drift.references if one.exists]),
        ("not looked for:", drift.unchecked),
    )
    parts = [f"{word} {_listed(found)}" for word, found in groups if found]
    return f"In the working tree: {'; '.join(parts)}." if parts else ""


def _text(ranked: RankedMemory) -> str | None:
    try:
        return read_head(str(ranked.path), whole=True).data.decode(errors="replace")
    except (OSError, NotAMemory):
        return None


def _listed(references: Sequence[Reference]) -> str:
    names = [f"`{_short(one.text)}`" for one in references[:MAX_LISTED]]
    more = len(references) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


def _short(text: str) -> str:
    return text if len(text) <= MAX_LISTED_CHARS else text[: MAX_LISTED_CHARS - 1] + "…"


def _prefix(variable: str) -> SearchWord:
    return SearchWord(f"{variable.partition('_')[0]}_".encode())


_BY_COST = ("path", "command", "symbol", "flag", "variable")
Alternatives: TypeAlias = tuple[tuple[SearchWord, ...], ...]
"""A reference exists if all words of any one of these exist."""
MAX_TRIED = 8
"""Files of the same name that are checked."""


class ReferenceChecker:
    """Checks references, and caches what it has read of the tree."""

    def __init__(
        self,
        root: Path,
        *,
        is_late: Callable[[], bool],
        on_progress: OnProgress | None = None,
        words: WordCache | None = None,
    ) -> None:
        self._root = os.path.realpath(root)
        self._folders = RealFolders(self._root)
        self._is_late = is_late
        self._on_progress = on_progress
        self._words = words
        self._files: dict[str, str] = {}
        """The files of named paths, which are searched first."""

    def answers(self, named: Iterable[NamedReference]) -> Mapping[NamedReference, bool | None]:
        """Return whether each exists, None when time ran out; what the tree cannot tell is left out."""
        answers: dict[NamedReference, bool | None] = dict.fromkeys(named)
        alternatives: dict[NamedReference, Alternatives] = {}
        # The cheapest checks come first.
        for one in sorted(answers, key=lambda one: _BY_COST.index(one[0])):
            if self._is_late():
                return answers
            match one:
                case ("path", path):
                    answer = self._check_path(path)
                case ("command", text):
                    answer = self._check_command(text)
                case (kind, text):
                    answer = self._alternatives(kind, text)
            if isinstance(answer, tuple):
                alternatives[one] = answer
            elif answer is None:
                del answers[one]
            else:
                answers[one] = answer
        if alternatives:
            self._search(alternatives, answers)
        return answers

    def _search(
        self, alternatives: Mapping[NamedReference, Alternatives], answers: dict[NamedReference, bool | None]
    ) -> None:
        """Search the words of all alternatives in one pass over the files."""
        wanted = {word for ways in alternatives.values() for way in ways for word in way}
        is_large = sum(one.size for one in self._tree.files) >= CACHE_FROM_BYTES
        seen = search_words(
            self._tree,
            wanted,
            self._files.values(),
            is_late=self._is_late,
            on_progress=self._on_progress,
            cache=self._words if is_large else None,
        )
        for one, ways in alternatives.items():
            if any(seen.found.issuperset(way) for way in ways):
                answers[one] = True
                if one[0] == "path" and one[1].rpartition(".")[2] in DATA_ENDINGS:
                    del answers[one]  # the project's files mention it, so that it may not exist now
            elif self._is_stem(*one):
                answers[one] = True
            elif is_external(*one) or (one[0] == "variable" and _prefix(one[1]) not in seen.found):
                del answers[one]  # another program's, such as a variable with a prefix that no file has
            else:
                answers[one] = False if seen.is_whole else None

    @cached_property
    def _tree(self) -> WorkingTree:
        return read_tree(Path(self._root), is_late=self._is_late)

    @cached_property
    def _commands(self) -> ProjectCommands:
        return ProjectCommands(self._tree, lambda path: self._locate(path) is not None)

    @cached_property
    def _has_code(self) -> bool:
        return any(one.path.rpartition(".")[2] in CODE_ENDINGS for one in self._tree.files)

    def _check_path(self, text: str) -> bool | Alternatives | None:
        path, line = line_of(text)
        found = self._locate(path)
        if found is not None:
            self._files[path] = found
            is_real = self._folders.has(posixpath.dirname(found))
            data = read_inside(self._root, found, MAX_FILE_BYTES) if line and is_real else None
            return data is None or data.count(b"\n") + (data[-1:] not in {b"", b"\n"}) >= line
        name = path.rstrip("/").rpartition("/")[2]
        ending = name.rpartition(".")[2]
        if posixpath.normpath(path).startswith("..") or is_external("path", path) or not self._tree.is_whole:
            return None
        if ending not in ENDINGS and name not in PLAIN_FILES:
            return self._lacks_folder(path)
        if "/" in path or ending in CODE_ENDINGS:
            return False
        # A bare name of a page may be another memory's; one of data may be created at run time.
        return None if ending in PROSE_ENDINGS else ((SearchWord(name.encode()),),)

    def _locate(self, path: str) -> str | None:
        """Return a path from the root: as written, or as the end of a tracked file or folder."""
        wanted = posixpath.normpath(path)
        if wanted.startswith(".."):
            return None
        if self._exists(wanted):
            return wanted
        listing = self._tree.listing
        for end in ("\n", "/"):
            at = listing.find(f"/{wanted}{end}")
            for _ in range(MAX_TRIED):
                if at < 0:
                    break
                candidate = listing[listing.rfind("\n", 0, at) + 1 : at + 1 + len(wanted)]
                if candidate in self._tree.elsewhere or self._exists(candidate):
                    return candidate
                at = listing.find(f"/{wanted}{end}", at + 1)
        return wanted if f"\n{wanted}\n" in listing and wanted in self._tree.elsewhere else None

    def _exists(self, path: str) -> bool:
        """Whether a path exists; a link that leads out of the root does not count."""
        whole = f"{self._root}/{path}"
        if not self._folders.has(posixpath.dirname(path)):
            whole = os.path.realpath(whole)
            if not whole.startswith(f"{self._root}/"):
                return False
        return os.path.lexists(whole)

    def _lacks_folder(self, path: str) -> bool | None:
        """Return False for a missing folder whose parent exists; else it may be a branch or a list."""
        parent = posixpath.dirname(posixpath.normpath(path))
        first = parent.partition("/")[0]
        if not parent:
            return None
        return False if self._exists(first) or f"/{first}/" in self._tree.listing else None

    def _check_command(self, text: str) -> bool | Alternatives | None:
        command = command_of(text)
        if command is None:
            return None
        offered = self._commands.offers(command)
        if not (offered and command.flags and self._commands.is_ours(command)):
            return offered
        # The flags of the project's own program must exist.
        own = [flag for flag in command.flags if not is_external("flag", flag)]
        return (tuple(SearchWord(flag.encode()) for flag in own),) if own else True

    def _alternatives(self, kind: str, text: str) -> Alternatives:
        if kind == "symbol":
            in_prose = not self._has_code
            return (tuple(SearchWord(part.encode(), in_prose=in_prose) for part in parts_of(text)),)
        if kind == "flag":
            return tuple((SearchWord(spelling),) for spelling in spellings(text))
        rest = text.partition("_")[2].lower()
        # Settings are often read by a prefix and the name of a field.
        return (SearchWord(text.encode()),), (_prefix(text), SearchWord(rest.encode(), in_prose=False))

    def _is_stem(self, kind: str, text: str) -> bool:
        """Whether a symbol is the name of a file or a folder."""
        if kind != "symbol":
            return False
        last = parts_of(text)[-1]
        return any(f"{before}{last}{after}" in self._tree.listing for before in "/\n" for after in "./")


class ProjectCommands:
    """The commands that one tree offers; each kind of file is read on first use."""

    def __init__(self, tree: WorkingTree, is_there: Callable[[str], bool]) -> None:
        self._tree = tree
        self._is_there = is_there
        self._plain = RealFolders(tree.root)

    def offers(self, command: ProjectCommand) -> bool | None:
        """Whether a command can be run; None when the tree cannot tell."""
        match command.need:
            case "target":
                return self._makes(command.name, command.folder)
            case "script":
                return command.name in self._scripts if self._manifests else None
            case "recipe":
                texts = [text for _, text in self._texts(_JUSTFILES)]
                names = {name for text in texts for name in _RECIPE.findall(text) + _ALIAS.findall(text)}
                return self._listed(
                    command.name, names, texts, re.compile(r"^(?:import|mod)\b", re.MULTILINE)
                )
            case "task":
                texts = [text for _, text in self._texts(_TASKFILES)]
                names = {name for text in texts for name in _TASK.findall(text)}
                return self._listed(command.name, names, texts, re.compile(r"^includes:", re.MULTILINE))
            case "file":
                return self._is_there(command.name)
            case "module":
                return self._has_module(command.name)
            case "program":
                return self._has_program(command.name) or None

    def is_ours(self, command: ProjectCommand) -> bool:
        """Whether the program is the project's own, so that its flags are in the project's files."""
        match command.need:
            case "program":
                return command.name in self._programs
            case "file" | "module":
                return bool(self.offers(command))
            case _:
                return False

    def _makes(self, target: str, folder: str) -> bool | None:
        names = [f"{folder.strip('/')}/{name}" for name in _MAKEFILES] if folder else _MAKEFILES
        texts = [text for path, text in self._texts(_MAKEFILES) if not folder or path in names]
        if not texts:
            return False
        if not target:
            return True
        names_there = {one for text in texts for group in _RULE.findall(text) for one in group.split()}
        return self._listed(target, names_there, texts, _OPEN_ENDED)

    def _listed(
        self, name: str, names: set[str], texts: list[str], open_ended: re.Pattern[str]
    ) -> bool | None:
        if name in names:
            return True
        return None if any(open_ended.search(text) for text in texts) else False

    @cached_property
    def _manifests(self) -> list[dict[str, object]]:
        found = []
        for _, text in self._texts(("package.json",)):
            try:
                read = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(read, dict):
                found.append(read)
        return found

    @cached_property
    def _scripts(self) -> set[str]:
        tables = (manifest.get("scripts") for manifest in self._manifests)
        return {str(name) for table in tables if isinstance(table, dict) for name in table}

    @cached_property
    def _programs(self) -> set[str]:
        """Names of the programs that the project installs."""
        found: set[str] = set()
        for manifest in self._manifests:
            bins = manifest.get("bin")
            found |= {str(name) for name in bins} if isinstance(bins, dict) else set()
            found |= {str(manifest.get("name", "")).rpartition("/")[2]} if isinstance(bins, str) else set()
        for _, text in self._texts(("pyproject.toml",)):
            found |= set(_python_scripts(text))
        for _, text in self._texts(("Cargo.toml",)):
            found |= set(re.findall(r'^name\s*=\s*"([\w-]+)"', text, re.MULTILINE))
        return found

    def _has_program(self, name: str) -> bool:
        listing = self._tree.listing
        in_tree = f"/bin/{name}\n" in listing or f"\nbin/{name}\n" in listing or f"\n{name}\n" in listing
        if name in self._programs or in_tree:
            return True
        # Imported here: a hook waits for recall, and few memories name a command.
        import shutil  # noqa: PLC0415

        return shutil.which(name) is not None

    def _has_module(self, name: str) -> bool | None:
        path = name.replace(".", "/")
        listing = self._tree.listing
        for form in (f"{path}.py\n", f"{path}/__main__.py\n", f"{path}/__init__.py\n"):
            if f"/{form}" in listing or f"\n{form}" in listing:
                return True
        top = path.partition("/")[0]
        is_ours = f"\n{top}/" in listing or f"\nsrc/{top}/" in listing
        return False if is_ours and "/" in path else None

    def _texts(self, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield files of these names and their text, those at the root first."""
        listing = self._tree.listing
        found = list(names)  # at the root they count although git does not know them yet
        for name in names:
            at = listing.find(f"{name}\n")
            while at > 0 and len(found) < MAX_MANIFESTS:
                path = listing[listing.rfind("\n", 0, at) + 1 : at + len(name)]
                if path.rpartition("/")[2] == name:
                    found.append(path)
                at = listing.find(f"{name}\n", at + 1)
        for path in sorted(set(found), key=lambda one: (one.count("/"), one)):
            is_ours = self._plain.has(posixpath.dirname(path))
            data = read_inside(self._tree.root, path, MAX_MANIFEST_BYTES) if is_ours else None
            if data is not None:
                yield path, data.decode(errors="replace")


def _python_scripts(text: str) -> Iterator[str]:
    import tomllib  # noqa: PLC0415 - as above

    try:
        read = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    project = read.get("project")
    tool = read.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    for table in (project, poetry):
        for key in ("scripts", "gui-scripts"):
            names = table.get(key) if isinstance(table, dict) else None
            yield from map(str, names) if isinstance(names, dict) else ()
