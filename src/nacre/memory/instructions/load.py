"""Load instructions files such as CLAUDE.md in their order of precedence (M22-M25).

A load is a value. Files that a touched file adds, and changes on disk, give a new value and the files to
announce at the end of the conversation; what was sent is never rewritten.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nacre.memory.instructions.files import (
    InstructionFile,
    InstructionKind,
    InstructionLoader,
    InstructionPaths,
    InstructionSource,
    ScopedRule,
    SkippedInstructions,
    rule_files,
)

NAMES = frozenset({"CLAUDE.md", "AGENTS.md", "CLAUDE.local.md"})
"""Names of the instructions files of a folder."""
INSTALLED_CODE = frozenset({".git", ".venv", "node_modules", "site-packages", "venv"})
"""Folders of installed code, whose instructions are not the user's and are not loaded by themselves."""

__all__ = [
    "InstructionChanges",
    "InstructionFile",
    "InstructionPaths",
    "Instructions",
    "LateInstructions",
    "ScopedRule",
    "SkippedInstructions",
    "changed_since",
    "digests",
    "is_claude_home",
    "load_announced",
    "load_for_files",
    "load_instructions",
    "nested_for",
    "reload",
    "scoped_for",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """The loaded instructions in the order in which the model reads them: highest precedence last."""

    paths: InstructionPaths
    files: tuple[InstructionFile, ...] = ()
    later: tuple[InstructionFile, ...] = ()
    """Files that touched files added since the start."""
    waiting: tuple[ScopedRule, ...] = ()
    outside: tuple[Path, ...] = ()
    """Real paths that the repository includes and that need the user's consent."""
    skipped: tuple[SkippedInstructions, ...] = ()
    opened: tuple[Path, ...] = ()
    """Folders that have been searched."""

    @property
    def all_files(self) -> tuple[InstructionFile, ...]:
        return (*self.files, *self.later)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each problem."""
        remarks = [f"{file.path}: {problem}" for file in self.all_files for problem in file.problems]
        left_out = [f"{skipped.path} is not loaded: {skipped.why}" for skipped in self.skipped]
        return (*remarks, *left_out)


@dataclass(frozen=True, slots=True)
class LateInstructions:
    """Files that load because of a touched file, and the instructions with them."""

    files: tuple[InstructionFile, ...]
    instructions: Instructions


@dataclass(frozen=True, slots=True)
class InstructionChanges:
    """Changes on disk since a load, and the instructions as they are now."""

    changed: tuple[InstructionFile, ...]
    """New files too."""
    gone: tuple[Path, ...]
    instructions: Instructions

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


def load_instructions(paths: InstructionPaths) -> Instructions:
    """Load managed, user, project (from the root down) and local instructions."""
    loader = InstructionLoader(paths)
    folders = _chain(paths.root, paths.cwd)
    _add_managed(loader)
    own = (paths.home / "CLAUDE.md", paths.home / "AGENTS.md", paths.tilde / ".claude" / "CLAUDE.md")
    _add_first(loader, "user", *own)
    _add_rules(loader, paths.home / "rules", InstructionSource(paths.home, "user", base=paths.cwd))
    _add_folders(loader, folders, InstructionSource(paths.root, "project"))
    return _finished(Instructions(paths=paths, opened=folders), loader, files=tuple(loader.files))


def load_for_files(instructions: Instructions, paths: Iterable[Path]) -> LateInstructions:
    """Load the instructions of the folders of touched files, then the rules that match the files."""
    given = tuple(paths)
    new: list[InstructionFile] = []
    for path in given:
        arrival = nested_for(instructions, path)
        new += arrival.files
        instructions = arrival.instructions
    scoped = scoped_for(instructions, given)
    return LateInstructions((*new, *scoped.files), scoped.instructions)


def nested_for(instructions: Instructions, path: Path) -> LateInstructions:
    """Load the instructions of the folders between the root and a file, unless they are loaded."""
    root = Path(os.path.realpath(instructions.paths.root))
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        return LateInstructions((), instructions)
    inside = real.relative_to(root)
    # A worktree inside the checkout repeats its instructions.
    if INSTALLED_CODE & set(inside.parts) or ".claude/worktrees/" in inside.as_posix():
        return LateInstructions((), instructions)
    known = {Path(os.path.realpath(folder)) for folder in instructions.opened}
    folders = tuple(folder for folder in _chain(root, real.parent) if folder not in known)
    return (
        _open_folders(instructions, folders, because=path) if folders else LateInstructions((), instructions)
    )


def scoped_for(instructions: Instructions, paths: Iterable[Path]) -> LateInstructions:
    """Load the waiting rules that match one of these files."""
    given = tuple(paths)
    active = {
        rule: path for rule in instructions.waiting for path in reversed(given) if rule.globs.matches(path)
    }
    return _activate(instructions, active) if active else LateInstructions((), instructions)


def load_announced(instructions: Instructions, told: Iterable[Path]) -> Instructions:
    """Load files and rules that were announced in an earlier process (C21)."""
    loaded = {file.path for file in instructions.all_files}
    missing = [path for path in told if path not in loaded]
    for path in missing:
        if (folder := _folder_of(path)) is not None:
            instructions = nested_for(instructions, folder / path.name).instructions
    active = {rule: None for rule in instructions.waiting if rule.path in missing}
    return _activate(instructions, active).instructions if active else instructions


def reload(instructions: Instructions) -> Instructions:
    """Read the same instructions from disk again, with the rules and folders added since (C21)."""
    fresh = load_instructions(instructions.paths)
    already = set(fresh.opened)
    folders = tuple(folder for folder in instructions.opened if folder not in already)
    fresh = _open_folders(fresh, folders, because=None).instructions
    because = {file.path: file.because for file in instructions.later}
    active = {rule: because[rule.path] for rule in fresh.waiting if rule.path in because}
    fresh = _activate(fresh, active).instructions
    later = (replace(file, because=because.get(file.path, file.because)) for file in fresh.later)
    return replace(fresh, later=tuple(later))


def changed_since(instructions: Instructions, told: Mapping[str, str] | None = None) -> InstructionChanges:
    """Return the files whose text differs from what was announced (M25).

    `told` maps paths to digests of an earlier process; without it, the given instructions count as announced.
    """
    before = digests(instructions.all_files) if told is None else told
    fresh = reload(instructions)
    now = digests(fresh.all_files)
    changed = tuple(file for file in fresh.all_files if before.get(str(file.path)) != now[str(file.path)])
    missing = (Path(path) for path, digest in before.items() if digest and path not in now)
    # A file of a folder that was not searched this time still exists and is only not loaded.
    return InstructionChanges(changed, tuple(path for path in missing if not path.exists()), fresh)


def digests(files: Iterable[InstructionFile]) -> dict[str, str]:
    """Return the digest of each file's text by path."""
    return {
        str(file.path): hashlib.blake2b(file.text.encode(errors="replace"), digest_size=8).hexdigest()
        for file in files
    }


def is_claude_home(home: Path) -> bool:
    """Return whether a home is Claude Code's, so that its managed file is loaded as well."""
    return home.name == ".claude" or (home / ".claude.json").is_file()


def _add_managed(loader: InstructionLoader) -> None:
    paths = loader.paths
    if is_claude_home(paths.home):
        loader.add(InstructionSource(paths.claude_managed, "managed"))
    _add_first(loader, "managed", paths.managed / "CLAUDE.md", paths.managed / "AGENTS.md")
    _add_rules(loader, paths.managed / "rules", InstructionSource(paths.managed, "managed", base=paths.cwd))


def _add_first(loader: InstructionLoader, kind: InstructionKind, *candidates: Path) -> None:
    for path in candidates:
        if loader.add(InstructionSource(path, kind)):
            return


def _add_rules(loader: InstructionLoader, folder: Path, like: InstructionSource) -> None:
    for path in rule_files(folder, loader, like.kind):
        loader.add(replace(like, path=path))


def _add_folders(loader: InstructionLoader, folders: Iterable[Path], like: InstructionSource) -> None:
    """Add the project files of every folder, then the local ones, which have precedence."""
    given = tuple(folders)
    for folder in given:
        for name in ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md"):
            loader.add(replace(like, path=folder / name))
        _add_rules(loader, folder / ".claude" / "rules", replace(like, base=folder))
    for folder in given:
        loader.add(replace(like, path=folder / "CLAUDE.local.md", kind="local"))


def _open_folders(
    instructions: Instructions, folders: tuple[Path, ...], *, because: Path | None
) -> LateInstructions:
    loader = InstructionLoader(instructions.paths, instructions.all_files)
    _add_folders(loader, folders, InstructionSource(instructions.paths.root, "project", "nested", because))
    return _with_later(replace(instructions, opened=(*instructions.opened, *folders)), loader)


def _activate(
    instructions: Instructions,
    active: dict[ScopedRule, Path | None] | dict[ScopedRule, Path] | dict[ScopedRule, None],
) -> LateInstructions:
    loader = InstructionLoader(instructions.paths, instructions.all_files)
    for rule, path in active.items():
        loader.add(InstructionSource(rule.path, rule.kind, "scoped", path, base=rule.globs.base))
    waiting = tuple(rule for rule in instructions.waiting if rule not in active)
    return _with_later(replace(instructions, waiting=waiting), loader)


def _with_later(instructions: Instructions, loader: InstructionLoader) -> LateInstructions:
    new = tuple(loader.files)
    return LateInstructions(new, _finished(instructions, loader, later=(*instructions.later, *new)))


def _finished(
    instructions: Instructions,
    loader: InstructionLoader,
    *,
    files: tuple[InstructionFile, ...] | None = None,
    later: tuple[InstructionFile, ...] | None = None,
) -> Instructions:
    """Return the instructions with the results of a load."""
    known = {rule.path for rule in instructions.waiting}
    skipped = {each.path: each.why for each in instructions.skipped} | loader.skipped
    return replace(
        instructions,
        files=instructions.files if files is None else files,
        later=instructions.later if later is None else later,
        waiting=(*instructions.waiting, *(rule for rule in loader.waiting if rule.path not in known)),
        outside=tuple(dict.fromkeys((*instructions.outside, *loader.outside))),
        skipped=tuple(SkippedInstructions(path, why) for path, why in skipped.items()),
    )


def _folder_of(path: Path) -> Path | None:
    """Return the folder of an instructions file; None for an included file."""
    place = next((up for up in path.parents if up.name == ".claude"), None)
    if place is not None:
        return place.parent
    return path.parent if path.name in NAMES else None


def _chain(top: Path, bottom: Path) -> tuple[Path, ...]:
    """Return the folders from the top down to the bottom; the bottom alone when it is not below the top."""
    if not bottom.is_relative_to(top):
        return (bottom,)
    folders = (bottom, *bottom.parents)
    return tuple(reversed(folders[: folders.index(top) + 1]))
