"""`nacre memory import`: import memories of Claude Code, Markdown notes and exports of mem0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import json_option, read_only, run, scope_option, writable
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_error, print_json, printable
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.files.scan import SkippedFile
    from nacre.memory.transfer.copy_home import CopyResult, DirectoryPair, HomeCopy
    from nacre.memory.transfer.import_memories import ImportResult

SHOWN_FILES = 20
"""Files of one import listed individually."""


@click.command("import", short_help="Import memories.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--trust", is_flag=True, help="Trust facts derived by another program.")
@click.option("--allow-secret", is_flag=True, help="Import even what seems to contain a credential.")
@click.option("--home", is_flag=True, help="PATH is a home: import the memories of all its projects.")
@click.option("--dry-run", is_flag=True, help="Show what would be done without doing it.")
@scope_option
@json_option
@click.pass_obj
def import_(options: RunOptions, /, path: Path, **given: str | bool) -> int:
    """Import a memory folder, a .tar.gz of one, Markdown notes, or a JSON export of mem0.

    Files with frontmatter and whole memory folders stay byte for byte; a note becomes one memory. Existing
    memories are skipped, nothing is overwritten. Facts of mem0 are untrusted unless --trust.

    With --home, PATH is a folder such as ~/.claude or another ~/.nacre: memories of each project are imported
    into the same project here, and those of all projects and of agents likewise.
    """
    if given["home"]:
        return _whole_home(options, path, given)
    from nacre.memory.format.entry import MemoryChange
    from nacre.memory.transfer.import_memories import ImportOptions, import_batch, preview_import
    from nacre.memory.transfer.import_sources import read_batch

    batch = read_batch(path)
    scope = str(given["scope"])
    is_dry = bool(given["dry_run"])
    if scope == "team" and given["allow_secret"]:
        raise click.UsageError("the team's memory never holds a secret; leave out --allow-secret")
    import_options = ImportOptions(
        origin="user" if given["trust"] else "untrusted", allow_secret=bool(given["allow_secret"])
    )
    opened = run(read_only(options, scope) if is_dry else writable(options, scope))
    if is_dry:
        done = preview_import(opened.location, batch, options=import_options)
    else:
        change = MemoryChange(author="import", reason=f"imported from {path.absolute().name}")
        done = run(import_batch(opened.location, batch, options=import_options, change=change))
    if given["as_json"]:
        print_json(
            {
                "files": [*done.files],
                "same": [*done.same],
                "renamed": [{"was": each.was, "file": each.file} for each in done.renamed],
                "refused": [{"file": each.file, "why": each.why} for each in done.refused],
                "skipped": [{"file": each.file, "why": each.why} for each in done.skipped],
                "commit": done.commit,
                "dry_run": is_dry,
                "feedback": done.feedback,
            }
        )
    else:
        _print_imported(done, is_dry=is_dry)
    for each in done.refused:
        print_error(f"refused: {each.file} {each.why}")
    return 1 if done.refused else 0


def _whole_home(options: RunOptions, path: Path, given: dict[str, str | bool]) -> int:
    from nacre.app.memory_locations import memory_paths

    pass
    from nacre.memory.files.location import memory_base
    from nacre.memory.transfer.copy_home import HomeCopy

    if given["trust"] or given["allow_secret"] or given["scope"] != "project":
        raise click.UsageError("--home takes everything as it is; leave out the other options")
    settings = load_settings(options)
    old = path.resolve()
    new = memory_base(memory_paths(settings))
    if not old.is_dir() or old == new:
        what = "is where memory is kept already" if old == new else "is no folder"
        raise click.UsageError(f"{path} {what}; name a home such as ~/.claude")
    home_copy = HomeCopy(old=old, new=new, keeps_index=settings.memory.keeps_index)
    done = copy_home(home_copy, is_dry=bool(given["dry_run"]))
    if given["as_json"]:
        print_json(done.as_json())
    else:
        for line in done.lines():
            print(printable(line))
        if not done.count:
            print(printable(f"there is nothing in {old} that is not here already"))
    return 0 if done.is_whole else 1


def _print_imported(done: ImportResult, *, is_dry: bool) -> None:
    for file in done.files[:SHOWN_FILES]:
        print(printable(f"{'would import' if is_dry else 'imported'} {file}"))
    if len(done.files) > SHOWN_FILES:
        print(f"... and {len(done.files) - SHOWN_FILES:,} more")
    for renamed in done.renamed:
        print(printable(f"{renamed.was} was taken by another memory: the new one is {renamed.file}"))
    for each in done.skipped:
        print(printable(f"skipped: {each.file} {each.why}"))
    same = f", {len(done.same):,} there already" if done.same else ""
    index = ", and the index" if done.has_index else ""
    print(f"{len(done.files):,} memor{'y' if len(done.files) == 1 else 'ies'}{index}{same}")
    if done.feedback:
        print_error(done.feedback)
    if done.commit:
        print(f"`nacre memory undo {done.commit[:10]}` takes it all back.")


SHOWN = 10
"""Directories and names listed individually."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeCopyReport:
    """The result for every memory of a home, done or planned."""

    home_copy: HomeCopy
    found: tuple[CopyResult, ...]
    without: tuple[SkippedFile, ...]
    is_dry: bool

    @property
    def count(self) -> int:
        return sum(len(one.imported.files) for one in self.found)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was refused and nothing failed."""
        return not any(one.failed or one.imported.refused for one in self.found)

    def lines(self) -> Iterator[str]:
        """Return how many were copied, from which directories, and which were not and why."""
        if self.count:
            verb = "would copy" if self.is_dry else "copied"
            memories = "memory" if self.count == 1 else "memories"
            yield f"{verb} {self.count:,} {memories} from {self.home_copy.old} to {self.home_copy.new}:"
            several = [one for one in self.found if one.imported.files]
            for one in several[:SHOWN]:
                yield f"  {len(one.imported.files):,} for {one.pair.whose}"
            if len(several) > SHOWN:
                yield f"  ... and for {len(several) - SHOWN:,} more"
        for one in self.found:
            yield from _remarks(one)
        for left in self.without:
            yield f"left: {left.file}: {left.why}"

    def as_json(self) -> JsonObject:
        """Return the result as JSON."""
        return {
            "old": str(self.home_copy.old),
            "new": str(self.home_copy.new),
            "memories": self.count,
            "directories": [_as_json(one) for one in self.found],
            "left": [{"directory": one.file, "why": one.why} for one in self.without],
            "dry_run": self.is_dry,
        }


def copy_home(home_copy: HomeCopy, *, is_dry: bool) -> HomeCopyReport:
    """Copy missing memories directory by directory, or only report them."""
    pairs, without = home_copy.directories()
    found = [home_copy.preview(one) for one in pairs] if is_dry else run(_brought(home_copy, pairs))
    return HomeCopyReport(home_copy=home_copy, found=tuple(found), without=tuple(without), is_dry=is_dry)


async def _brought(home_copy: HomeCopy, pairs: Sequence[DirectoryPair]) -> list[CopyResult]:
    return [await home_copy.copy(one) for one in pairs]


def _remarks(one: CopyResult) -> Iterator[str]:
    source = one.pair.source
    if one.failed:
        yield f"left: {source}: {one.failed}"
    for renamed in one.imported.renamed:
        target = one.pair.target.directory
        yield f"{renamed.was} of {one.pair.whose} is another one there; it is {target / renamed.file}"
    for each in (*one.imported.refused, *one.imported.skipped):
        yield f"left: {source / each.file} {each.why}"
    if one.staying:
        names = ", ".join(one.staying[:SHOWN]) + (", ..." if len(one.staying) > SHOWN else "")
        yield f"left: {names} in {source}: local-only, and another program sends what it reads there"
    if one.has_team:
        yield f"left: the team's memory in {source}; `nacre memory sync` brings it from where it is shared"


def _as_json(one: CopyResult) -> JsonObject:
    done = one.imported
    return {
        "directory": str(one.pair.source),
        "to": str(one.pair.target.directory),
        "files": [*done.files],
        "same": [*done.same],
        "renamed": [{"was": each.was, "file": each.file} for each in done.renamed],
        "refused": [{"file": each.file, "why": each.why} for each in (*done.refused, *done.skipped)],
        "local_only": [*one.staying],
        "commit": done.commit,
        "failed": one.failed,
    }
