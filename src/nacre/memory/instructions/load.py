"""Instructions files, CLAUDE.md and its kin: which ones there are, in which order they count (M22-M25).

A load is a value. Files that a touched file brings along, and changes on disk, give a new value and what is
to be announced at the tail; what was already sent is never rewritten.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
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
"""What instructions files of a folder are called."""
OTHER_PEOPLES = frozenset({".git", ".venv", "node_modules", "site-packages", "venv"})
"""Folders of installed code: its authors' instructions are not the person's and never load by themselves."""

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
    """What was found, in the order in which the model reads it: the strongest last."""

    paths: InstructionPaths
    files: tuple[InstructionFile, ...] = ()
    later: tuple[InstructionFile, ...] = ()
    """What touched files brought along since the start."""
    waiting: tuple[ScopedRule, ...] = ()
    outside: tuple[Path, ...] = ()
    """Real paths that the repository names and that need the person's consent, once."""
    skipped: tuple[SkippedInstructions, ...] = ()
    opened: tuple[Path, ...] = ()
    """Folders whose files have been looked for."""

    @property
    def all_files(self) -> tuple[InstructionFile, ...]:
        return (*self.files, *self.later)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for everything that is not as it should be."""
        remarks = [f"{file.path}: {problem}" for file in self.all_files for problem in file.problems]
        left_out = [f"{skipped.path} is not loaded: {skipped.why}" for skipped in self.skipped]
        return (*remarks, *left_out)


@dataclass(frozen=True, slots=True)
class LateInstructions:
    """Files that load now because of a touched file, and the instructions with them."""

    files: tuple[InstructionFile, ...]
    instructions: Instructions


@dataclass(frozen=True, slots=True)
class InstructionChanges:
    """What is different on disk since a load, and the instructions as they are now."""

    changed: tuple[InstructionFile, ...]
    """New files too."""
    gone: tuple[Path, ...]
    instructions: Instructions

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


def load_instructions(paths: InstructionPaths) -> Instructions:
    """Every file that counts from the start: managed, user, project from the root down, local."""
    gathering = InstructionLoader(paths)
    folders = _chain(paths.root, paths.cwd)
    _add_managed(gathering)
    _add_first(gathering, "user", paths.home / "CLAUDE.md", paths.home / "AGENTS.md")
    _add_rules(gathering, paths.home / "rules", InstructionSource(paths.home, "user", base=paths.cwd))
    _add_folders(gathering, folders, InstructionSource(paths.root, "project"))
    return _settled(Instructions(paths=paths, opened=folders), gathering, files=tuple(gathering.files))


def load_for_files(instructions: Instructions, paths: Iterable[Path]) -> LateInstructions:
    """What loads because these files were read or changed: their folders' files, then rules they match."""
    given = tuple(paths)
    new: list[InstructionFile] = []
    for path in given:
        arrival = nested_for(instructions, path)
        new += arrival.files
        instructions = arrival.instructions
    scoped = scoped_for(instructions, given)
    return LateInstructions((*new, *scoped.files), scoped.instructions)


def nested_for(instructions: Instructions, path: Path) -> LateInstructions:
    """The files of the folders between the root and a file below it, unless they were loaded before."""
    root = Path(os.path.realpath(instructions.paths.root))
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root) or _is_other_peoples(real.relative_to(root)):
        return LateInstructions((), instructions)
    known = {Path(os.path.realpath(folder)) for folder in instructions.opened}
    folders = tuple(folder for folder in _chain(root, real.parent) if folder not in known)
    return (
        _open_folders(instructions, folders, because=path) if folders else LateInstructions((), instructions)
    )


def scoped_for(instructions: Instructions, paths: Iterable[Path]) -> LateInstructions:
    """The waiting rules that mean one of these files."""
    given = tuple(paths)
    active = {
        rule: path for rule in instructions.waiting for path in reversed(given) if rule.globs.matches(path)
    }
    return _activate(instructions, active) if active else LateInstructions((), instructions)


def load_announced(instructions: Instructions, told: Iterable[Path]) -> Instructions:
    """With what else was told in an earlier process: files of folders, and rules in force since (C21)."""
    known = {file.path for file in instructions.all_files}
    missing = [path for path in told if path not in known]
    for path in missing:
        if (folder := _folder_of(path)) is not None:
            instructions = nested_for(instructions, folder / path.name).instructions
    active = {rule: None for rule in instructions.waiting if rule.path in missing}
    return _activate(instructions, active).instructions if active else instructions


def reload(instructions: Instructions) -> Instructions:
    """The same instructions read again from disk, with the rules and folders that had come in since (C21)."""
    fresh = load_instructions(instructions.paths)
    begun = set(fresh.opened)
    folders = tuple(folder for folder in instructions.opened if folder not in begun)
    fresh = _open_folders(fresh, folders, because=None).instructions
    because = {file.path: file.because for file in instructions.later}
    active = {rule: because[rule.path] for rule in fresh.waiting if rule.path in because}
    fresh = _activate(fresh, active).instructions
    return replace(fresh, later=tuple(_as_before(file, because) for file in fresh.later))


def changed_since(instructions: Instructions, told: Mapping[str, str] | None = None) -> InstructionChanges:
    """Which files read otherwise now than they were told, to be announced at the tail (M25).

    `told` holds a digest by path, as of an earlier process; without it the instructions given count as told.
    """
    before = digests(instructions.all_files) if told is None else told
    fresh = reload(instructions)
    now = digests(fresh.all_files)
    changed = tuple(file for file in fresh.all_files if before.get(str(file.path)) != now[str(file.path)])
    missing = (Path(path) for path, digest in before.items() if digest and path not in now)
    # A file of a folder that nobody has looked into this time is still there, only not loaded.
    return InstructionChanges(changed, tuple(path for path in missing if not path.exists()), fresh)


def digests(files: Iterable[InstructionFile]) -> dict[str, str]:
    """What stands for each file's text as the model reads it, by path."""
    return {
        str(file.path): hashlib.blake2b(file.text.encode(errors="replace"), digest_size=8).hexdigest()
        for file in files
    }


def is_claude_home(home: Path) -> bool:
    """Whether a home is Claude Code's, so that its managed file counts as well."""
    return home.name == ".claude" or (home / ".claude.json").is_file()


def _is_other_peoples(inside: Path) -> bool:
    # A worktree kept inside the checkout repeats its instructions word for word.
    return bool(OTHER_PEOPLES & set(inside.parts)) or ".claude/worktrees/" in inside.as_posix()


def _add_managed(gathering: InstructionLoader) -> None:
    paths = gathering.paths
    if is_claude_home(paths.home):
        gathering.add(InstructionSource(paths.claude_managed, "managed"))
    _add_first(gathering, "managed", paths.managed / "CLAUDE.md", paths.managed / "AGENTS.md")
    _add_rules(
        gathering, paths.managed / "rules", InstructionSource(paths.managed, "managed", base=paths.cwd)
    )


def _add_first(gathering: InstructionLoader, kind: InstructionKind, *candidates: Path) -> None:
    for path in candidates:
        if gathering.add(InstructionSource(path, kind)):
            return


def _add_rules(gathering: InstructionLoader, folder: Path, like: InstructionSource) -> None:
    for path in rule_files(folder, gathering, like.kind):
        gathering.add(replace(like, path=path))


def _add_folders(gathering: InstructionLoader, folders: Iterable[Path], like: InstructionSource) -> None:
    """The project's files of every folder, then everybody's local ones: those count more."""
    given = tuple(folders)
    for folder in given:
        for name in ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md"):
            gathering.add(replace(like, path=folder / name))
        _add_rules(gathering, folder / ".claude" / "rules", replace(like, base=folder))
    for folder in given:
        gathering.add(replace(like, path=folder / "CLAUDE.local.md", kind="local"))


def _open_folders(
    instructions: Instructions, folders: tuple[Path, ...], *, because: Path | None
) -> LateInstructions:
    gathering = InstructionLoader(instructions.paths, instructions.all_files)
    _add_folders(gathering, folders, InstructionSource(instructions.paths.root, "project", "nested", because))
    return _arrived(replace(instructions, opened=(*instructions.opened, *folders)), gathering)


def _activate(
    instructions: Instructions,
    active: dict[ScopedRule, Path | None] | dict[ScopedRule, Path] | dict[ScopedRule, None],
) -> LateInstructions:
    gathering = InstructionLoader(instructions.paths, instructions.all_files)
    for rule, path in active.items():
        gathering.add(InstructionSource(rule.path, rule.kind, "scoped", path, base=rule.globs.base))
    waiting = tuple(rule for rule in instructions.waiting if rule not in active)
    return _arrived(replace(instructions, waiting=waiting), gathering)


def _arrived(instructions: Instructions, gathering: InstructionLoader) -> LateInstructions:
    new = tuple(gathering.files)
    return LateInstructions(new, _settled(instructions, gathering, later=(*instructions.later, *new)))


def _settled(
    instructions: Instructions,
    gathering: InstructionLoader,
    *,
    files: tuple[InstructionFile, ...] | None = None,
    later: tuple[InstructionFile, ...] | None = None,
) -> Instructions:
    """The instructions with what a gathering found beside the files themselves."""
    known = {rule.path for rule in instructions.waiting}
    skipped = {each.path: each.why for each in instructions.skipped} | gathering.skipped
    return replace(
        instructions,
        files=instructions.files if files is None else files,
        later=instructions.later if later is None else later,
        waiting=(*instructions.waiting, *(rule for rule in gathering.waiting if rule.path not in known)),
        outside=tuple(dict.fromkeys((*instructions.outside, *gathering.outside))),
        skipped=tuple(SkippedInstructions(path, why) for path, why in skipped.items()),
    )


def _folder_of(path: Path) -> Path | None:
    """The folder that an instructions file belongs to; none for one that another file includes."""
    place = next((up for up in path.parents if up.name == ".claude"), None)
    if place is not None:
        return place.parent
    return path.parent if path.name in NAMES else None


def _as_before(file: InstructionFile, because: dict[Path, Path | None]) -> InstructionFile:
    return replace(file, because=because.get(file.path, file.because))


def _chain(top: Path, bottom: Path) -> tuple[Path, ...]:
    """Every folder from the top down to the bottom; the bottom alone when it is not below the top."""
    if not bottom.is_relative_to(top):
        return (bottom,)
    return tuple(reversed(list(_up(bottom, top))))


def _up(bottom: Path, top: Path) -> Iterator[Path]:
    for folder in (bottom, *bottom.parents):
        yield folder
        if folder == top:
            return
