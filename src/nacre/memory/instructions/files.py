"""Read instructions files and follow their includes, within the paths that are allowed (M23)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.memory.instructions.includes import (
    Globs,
    includes_in,
    is_any,
    is_text_name,
    spellings,
    split_head,
    without_comments,
)
from nacre.store.disk import explain
from nacre.tools.files import read_real

InstructionKind: TypeAlias = Literal["managed", "user", "project", "local"]
"""Who wrote a file, in ascending order of precedence (M22)."""
LoadReason: TypeAlias = Literal["start", "include", "scoped", "nested"]
"""Why a file is loaded."""

MAX_BYTES = 4 * 1024 * 1024
"""Larger files are skipped."""
WARN_CHARS = 40_000
"""Larger files are followed less well and cost about 10,000 tokens in every request (M24)."""
MAX_FILES = 1_000
"""Limit on the files of one load, rules and includes together."""
MAX_DEPTH = 4
"""Depth of includes (M23)."""


def _no_refusal(path: Path) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionPaths:
    """Where to look for instructions, and what the user has allowed."""

    home: Path
    cwd: Path
    root: Path
    """Root of the checkout; outside of git the working directory."""
    managed: Path = Path("/etc/nacre")
    claude_managed: Path = Path("/etc/claude-code/CLAUDE.md")
    """Read when the home is a Claude Code home."""
    tilde: Path = field(default_factory=Path.home)
    """The folder that `~` in an include refers to."""
    excludes: tuple[str, ...] = ()
    """Globs on absolute paths that are not loaded; managed files always are."""
    allow_outside: frozenset[Path] = frozenset()
    """Real paths outside the working tree that the user allowed; a folder includes all below it."""
    max_depth: int = MAX_DEPTH
    refusal: Callable[[Path], str] = field(default=_no_refusal, compare=False, repr=False)
    """Returns why a file of the project may not be read, by its real path; empty if it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionFile:
    """One instructions file as the model gets it."""

    path: Path
    kind: InstructionKind
    text: str
    """Without frontmatter and block comments; not yet neutralised."""
    bytes: int
    """Its size on disk."""
    real: Path
    identity: tuple[int, int]
    """Device and inode, which identify a file with several names."""
    reason: LoadReason = "start"
    because: Path | None = None
    """The file that includes it, or that caused it to load."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScopedRule:
    """A rule file that loads when a file that matches its globs is touched."""

    path: Path
    kind: InstructionKind
    globs: Globs


@dataclass(frozen=True, slots=True)
class SkippedInstructions:
    """A file that exists and is not loaded, and why."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class InstructionSource:
    """A file to load, and why."""

    path: Path
    kind: InstructionKind
    reason: LoadReason = "start"
    because: Path | None = None
    base: Path | None = None
    """For a rule file: the folder that its globs are relative to."""


class InstructionLoader:
    """The mutable state of one load."""

    def __init__(self, paths: InstructionPaths, known: Iterable[InstructionFile] = ()) -> None:
        self.paths = paths
        self.files: list[InstructionFile] = []
        self.waiting: list[ScopedRule] = []
        self.outside: dict[Path, None] = {}
        self.skipped: dict[Path, str] = {}
        self._seen: set[tuple[int, int] | Path] = {
            mark for file in known for mark in (file.identity, file.real)
        }
        self._trees = tuple(Path(os.path.realpath(folder)) for folder in (paths.root, paths.cwd))
        self._excludes = tuple(_with_home(glob, paths.tilde) for glob in paths.excludes)

    def add(self, source: InstructionSource, *, depth: int = 0) -> bool:
        """Load a file after the files that it includes; return whether it exists."""
        real = Path(os.path.realpath(source.path))
        if real in self._seen:
            return True
        if self._is_excluded(source, real):
            return _mode(real) != 0
        if not self._may_read(source.kind, real):
            return True
        if source.kind in {"project", "local"} and _mode(real) and (why := self.paths.refusal(real)):
            self.skipped.setdefault(source.path, why)
            return True
        file = self._read(source, real)
        if file is None or file.identity in self._seen:
            return file is not None or source.path in self.skipped
        if source.base:
            patterns, text = split_head(file.text)
            file = replace(file, text=text)
            if patterns and source.reason != "scoped":
                globs = Globs(source.base, patterns)
                self.waiting.append(ScopedRule(source.path, source.kind, globs))
                return True
        self._seen |= {file.identity, real}
        for name in includes_in(file.text):
            self._include(name, file, depth + 1)
        self.files.append(_finished(file))
        return True

    def may_enter(self, kind: InstructionKind, folder: Path) -> bool:
        """Return whether a folder of rules may be read; one outside is recorded for consent."""
        real = Path(os.path.realpath(folder))
        if self._is_allowed(kind, real):
            return True
        if stat.S_ISDIR(_mode(real)):
            self.outside.setdefault(real)
        return False

    def _include(self, name: str, by: InstructionFile, depth: int) -> None:
        for spelling in spellings(name):
            path = self._located(spelling, by.path.parent)
            if path is None or stat.S_ISDIR(_mode(path)):
                continue
            if depth > self.paths.max_depth:
                self.skipped.setdefault(path, f"included more than {self.paths.max_depth} files deep")
            elif not is_text_name(path):
                self.skipped.setdefault(path, "included, but its ending is not one of a text file")
            else:
                self.add(InstructionSource(path, by.kind, "include", by.path), depth=depth)
            return

    def _located(self, name: str, folder: Path) -> Path | None:
        if "\0" in name or name == "~":
            return None
        expanded = _with_home(name, self.paths.tilde)
        try:
            path = Path(os.path.normpath(folder / expanded))
            path.lstat()
        except (OSError, ValueError):
            return None
        return path

    def _may_read(self, kind: InstructionKind, real: Path) -> bool:
        """Return whether a file may be read; one outside the working tree is recorded for consent."""
        if self._is_allowed(kind, real):
            return True
        if stat.S_ISREG(_mode(real)) and is_text_name(real):
            self.outside.setdefault(real)
        return False

    def _is_allowed(self, kind: InstructionKind, real: Path) -> bool:
        # The user's own files and the organisation's may include anything; a repository's may not.
        if kind in {"managed", "user"} or any(real.is_relative_to(tree) for tree in self._trees):
            return True
        return any(place in self.paths.allow_outside for place in (real, *real.parents))

    def _is_excluded(self, source: InstructionSource, real: Path) -> bool:
        if source.kind == "managed" or not self._excludes:
            return False
        return is_any(source.path, self._excludes) or is_any(real, self._excludes)

    def _read(self, source: InstructionSource, real: Path) -> InstructionFile | None:
        if len(self.files) + len(self.waiting) >= MAX_FILES:
            if _mode(real):
                self.skipped.setdefault(source.path, f"more than {MAX_FILES:,} instructions files")
            return None
        try:
            content, found = _content(real)
            text = _decoded(content)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            is_odd = error.errno == errno.EINVAL
            why = "not a regular file" if is_odd else explain(error, source.path)
            self.skipped.setdefault(source.path, why)
            return None
        except ValueError as error:
            self.skipped.setdefault(source.path, str(error))
            return None
        return InstructionFile(
            path=source.path,
            kind=source.kind,
            text=text,
            bytes=len(content),
            real=real,
            identity=(found.st_dev, found.st_ino),
            reason=source.reason,
            because=source.because,
        )


def rule_files(folder: Path, loader: InstructionLoader, kind: InstructionKind) -> Iterator[Path]:
    """Yield every Markdown file in a folder of rules, sorted; a cyclic link is followed once."""
    yield from _walk(folder, loader, kind, set())


def _walk(
    folder: Path, loader: InstructionLoader, kind: InstructionKind, entered: set[tuple[int, int]]
) -> Iterator[Path]:
    try:
        found = folder.stat()
        mark = (found.st_dev, found.st_ino)
        if mark in entered or len(entered) >= MAX_FILES or not loader.may_enter(kind, folder):
            return
        entered.add(mark)
        names = sorted(os.listdir(folder))  # noqa: PTH208  # names alone are enough, and sort as text
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
            loader.skipped.setdefault(folder, explain(error, folder))
        return
    for name in names:
        path = folder / name
        if stat.S_ISDIR(_mode(path)):
            yield from _walk(path, loader, kind, entered)
        elif name.lower().endswith(".md"):
            yield path


def _content(real: Path) -> tuple[bytes, os.stat_result]:
    content, found = read_real(real, MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES // 1024**2} MiB; keep instructions short")
    return content, found


def _decoded(content: bytes) -> str:
    if b"\0" in content:
        raise ValueError("a binary file; instructions are UTF-8 text")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start:,}; save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _finished(file: InstructionFile) -> InstructionFile:
    """Return the file without comments, with a warning about its size."""
    text = without_comments(file.text).strip("\n")
    problems = file.problems
    if len(text) > WARN_CHARS:
        remark = (
            f"{len(text):,} characters, more than {WARN_CHARS:,}; move what is not always needed elsewhere"
        )
        problems = (*problems, remark)
    return replace(file, text=text, problems=problems)


def _mode(path: Path) -> int:
    """Return the mode of a path; 0 if it does not exist or is not accessible."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def _with_home(name: str, tilde: Path) -> str:
    return str(tilde) + name[1:] if name == "~" or name.startswith("~/") else name
