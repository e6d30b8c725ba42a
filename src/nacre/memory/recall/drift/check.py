"""Checks whether what a memory names still exists in the working tree, in limited time (R12).

Paths are checked on disk, names and flags are searched in the tracked files. What was not reached in time has
no answer. What need not be in the tree (another program's flag, a file created at run time) is left out, so
that only what a project should have is reported as gone. Nothing is run. Blocking: call it in a thread.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.files.scan import NotAMemory, read_head
from nacre.memory.recall.base import Drift, RankedMemory, Reference
from nacre.memory.recall.drift.commands import ProjectCommand, ProjectCommands, command_of
from nacre.memory.recall.drift.known_names import (
    CODE_ENDINGS,
    DATA_ENDINGS,
    ENDINGS,
    PLAIN_FILES,
    PROSE_ENDINGS,
    is_external,
)
from nacre.memory.recall.drift.references import NamedReference, line_of, parts_of, references_in
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
    return tuple(_drift(each, answers) for each in named)


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
    there = [one for one in drift.references if one.exists]
    parts = [
        f"{word} {_listed(found)}"
        for word, found in (
            ("gone:", drift.gone),
            ("still there:", there),
            ("not looked for:", drift.unchecked),
        )
        if found
    ]
    return f"In the working tree: {'; '.join(parts)}." if parts else ""


def _drift(named: Iterable[NamedReference], answers: Mapping[NamedReference, bool | None]) -> Drift:
    return Drift(
        references=tuple(
            Reference(kind=one[0], text=one[1], exists=answers[one]) for one in named if one in answers
        )
    )


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
        for one in sorted(answers, key=lambda one: ("path", "command", "symbol", "flag").index(one[0])):
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
                if _is_made_at_run_time(one):
                    del answers[one]  # the project's files mention it, so that it may not exist now
            elif self._is_stem(one):
                answers[one] = True
            elif is_external(*one):
                del answers[one]
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
            return self._has_line(found, line) if line else True
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

    def _has_line(self, path: str, line: int) -> bool:
        if not self._folders.has(posixpath.dirname(path)):
            return True
        data = read_inside(self._root, path, MAX_FILE_BYTES)
        if data is None:
            return True
        return data.count(b"\n") + (not data.endswith(b"\n") and bool(data)) >= line

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
        if offered and command.flags and self._commands.is_ours(command):
            return self._flagged(command)
        return offered

    def _flagged(self, command: ProjectCommand) -> bool | Alternatives:
        """Return the flags that must exist for a command of the project's own program."""
        own = [flag for flag in command.flags if not is_external("flag", flag)]
        return (tuple(SearchWord(flag.encode()) for flag in own),) if own else True

    def _alternatives(self, kind: str, text: str) -> Alternatives:
        if kind == "symbol":
            in_prose = not self._has_code
            return (tuple(SearchWord(part.encode(), in_prose=in_prose) for part in parts_of(text)),)
        if text.startswith("-"):
            return tuple((SearchWord(spelling),) for spelling in spellings(text))
        prefix, _, rest = text.partition("_")
        # Settings are often read by a prefix and the name of a field.
        return (SearchWord(text.encode()),), (
            SearchWord(f"{prefix}_".encode()),
            SearchWord(rest.lower().encode(), in_prose=False),
        )

    def _is_stem(self, named: NamedReference) -> bool:
        """Whether a symbol is the name of a file or a folder."""
        kind, text = named
        if kind != "symbol":
            return False
        listing = self._tree.listing
        last = parts_of(text)[-1]
        return any(f"{before}{last}{after}" in listing for before in "/\n" for after in "./")


def _is_made_at_run_time(named: NamedReference) -> bool:
    kind, text = named
    return kind == "path" and text.rpartition(".")[2] in DATA_ENDINGS
