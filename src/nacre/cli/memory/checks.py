"""`nacre memory lint`, `audit` and `verify`: check memories, rate them, look up what they name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import by_hand, json_option, place, read_only, run, scope_option, writable
from nacre.cli.options import RunOptions
from nacre.cli.output import print_error, print_json, print_table, printable, progress_line
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.format.entry import Entry
    from nacre.memory.recall.base import Drift


@click.command(short_help="Report problems of the memories.")
@click.option("--fix", is_flag=True, help="Repair what can be, in one commit.")
@scope_option
@json_option
@click.pass_obj
def lint(options: RunOptions, /, *, fix: bool, scope: str, as_json: bool) -> int:
    """Report problems of the index, the frontmatter and the links; exit code 1 if there are any."""
    from nacre.memory.checks.lint import LintFixResult, apply_fixes
    from nacre.memory.checks.lint import lint as look

    opened = run(writable(options, scope) if fix else read_only(options, scope))
    mended = LintFixResult(files=(), commit="")
    if fix:
        mended = run(apply_fixes(opened.location, by_hand("lint --fix")))
    problems = look(opened.location.directory)
    if as_json:
        rows: list[JsonObject] = [
            {
                "file": each.file,
                "kind": each.kind,
                "message": each.message,
                "fixable": each.fixable,
                "level": each.level,
            }
            for each in problems
        ]
        print_json({"problems": [*rows], "fixed": [*mended.files], "commit": mended.commit})
        return 1 if problems else 0
    for file in mended.files:
        print(printable(f"fixed {file}"))
    for each in problems:
        print(printable(f"{each.file}: {each.message} [{each.kind}{', fixable' if each.fixable else ''}]"))
    fixable = sum(each.fixable for each in problems)
    count = f"{len(problems):,} problem{'s' * (len(problems) != 1)}" if problems else "no problems found"
    print(f"{count}; `nacre memory lint --fix` puts {fixable:,} right" if fixable and not fix else count)
    return 1 if problems else 0


FOREIGN_HOME = ".claude"
"""Memories in that home do not describe the repository that the home itself may be in."""


@click.command(short_help="Rate a memory directory, of nacre or another program.")
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--tree", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="DIR",
              help="Working tree for checking references; usually detected.")  # fmt: skip
@click.option("--fail-on", type=click.Choice(["error", "warning", "info", "never"]), default="error",
              show_default=True, help="Level from which the exit code is 1.")  # fmt: skip
@scope_option
@json_option
@click.pass_obj
def audit(options: RunOptions, /, path: Path | None, **given: str | bool | Path | None) -> int:
    """Report what makes memories useless or harmful and what to do about it; nothing is changed.

    PATH is a memory folder (Claude Code's, too), a .tar.gz of one, a Markdown file or a JSON export of mem0;
    without it, this project's memory. The score ranges from 0 to 100; fixing a finding never lowers it.
    """
    from nacre.memory.checks.audit import audit as look

    tree = given["tree"]
    if path is None:
        store = place(options, str(given["scope"])).directory
        found = look(store, tree=tree if isinstance(tree, Path) else Path.cwd())
    else:
        found = look(path, tree=tree if isinstance(tree, Path) else _tree_of(path))
    if given["as_json"]:
        print_json(
            {
                "path": found.path,
                "tree": found.tree or None,
                "memories": found.memories,
                "sound": found.sound,
                "score": found.score,
                "counts": {**found.counts},
                "findings": [
                    {
                        "file": one.file,
                        "line": one.line,
                        "kind": one.kind,
                        "level": one.level,
                        "message": one.message,
                        "advice": one.advice,
                        "others": [*one.others],
                    }
                    for one in found.findings
                ],
            }
        )
    else:
        for one in found.findings:
            print(printable(f"{one.file}:{one.line}: {one.level}: {one.message}; {one.advice} [{one.kind}]"))
        memories = f"{found.memories:,} {'memory' if found.memories == 1 else 'memories'}"
        counts = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items())
        print(f"{memories}, {found.sound:,} without a finding: score {found.score} of 100")
        print(f"found: {counts}" if counts else "no problems found")
    match given["fail_on"]:
        case "error" | "warning" | "info" as level:
            return 1 if found.at_least(level) else 0
        case _:
            return 0


def _tree_of(path: Path) -> Path | None:
    """Return the working tree that contains a committed memory folder, if any."""
    whole = path.resolve()
    for folder in whole.parents:
        if folder.name == FOREIGN_HOME and whole.relative_to(folder).parts[:1] == ("projects",):
            return None
        if (folder / ".git").exists():
            return folder
    return None


VERIFY_SECONDS = 60.0
"""Time limit: longer than during a turn, so that a large repository can be read."""


@click.command(short_help="Check what the memories name against the working tree.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@scope_option
@json_option
@click.pass_obj
def verify(options: RunOptions, /, names: tuple[str, ...], *, scope: str, as_json: bool) -> int:
    """Check the paths, functions, flags and commands that memories name; exit code 1 if some are gone.

    Without a NAME, all memories are checked. The tree is the checkout around the working directory.
    """

    from nacre.memory.files.roots import checkout_root
    from nacre.memory.recall.drift.check import check_each
    from nacre.memory.recall.drift.words import WordCache

    opened = run(read_only(options, scope))
    if names:
        # Two names may refer to one memory.
        entries = list({one.file: one for one in (run(opened.find(name)) for name in names)}.values())
    else:
        entries = run(opened.list())
    root = checkout_root(Path.cwd())
    with progress_line(f"looking through {root}") as show_progress:
        texts = ["\n\n".join((one.description, one.body)) for one in entries]
        drifts = check_each(texts, root, budget_seconds=VERIFY_SECONDS, on_progress=show_progress)
        if opened.location.history.exists():
            WordCache(opened.location.cache, root).update()  # so that turns can look in time, too
    if as_json:
        print_json({
            "root": str(root),
            "memories": [
                {
                    "file": entry.file,
                    "gone": len(drift.gone),
                    "broken": drift.is_broken,
                    "references": [
                        {"kind": one.kind, "text": one.text, "exists": one.exists} for one in drift.references
                    ],
                }
                for entry, drift in zip(entries, drifts, strict=True)
            ],
        })  # fmt: skip
    else:
        _print_drifts(entries, drifts)
    return 1 if any(drift.gone for drift in drifts) else 0


def _print_drifts(entries: Sequence[Entry], drifts: Sequence[Drift]) -> None:
    rows = [
        ["" if number else entry.file, one.kind, one.text]
        for entry, drift in zip(entries, drifts, strict=True)
        for number, one in enumerate(drift.gone)
    ]
    print_table(rows, header=["file", "gone", ""] if rows else ())
    everything = [one for drift in drifts for one in drift.references]
    if rows:
        stale = sum(bool(drift.gone) for drift in drifts)
        print()
        print(f"{_count(stale, 'memory')} of {len(drifts):,}: {_count(len(rows), 'reference')} gone")
    else:
        print(f"{_count(len(drifts), 'memory')}, {_count(len(everything), 'reference')}, none missing")
    for drift, entry in zip(drifts, entries, strict=True):
        if drift.is_broken:
            print(printable(f"nothing that {entry.file} names is left; `nacre memory forget {entry.file}`?"))
    if unseen := sum(one.exists is None for one in everything):
        print_error(f"{_count(unseen, 'reference')} could not be checked within {VERIFY_SECONDS:.0f} s")


def _count(number: int, word: str) -> str:
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"
