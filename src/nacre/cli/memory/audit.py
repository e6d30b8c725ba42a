"""`nacre memory audit`: rate a memory directory and say how to improve it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import json_option, place, scope_option
from nacre.cli.options import RunOptions
from nacre.cli.output import print_json, printable
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.checks.audit import Audit
    from nacre.memory.checks.audit_text import AuditFinding

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
        print_json(_as_json(found))
    else:
        _print(found)
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


def _print(found: Audit) -> None:
    for one in found.findings:
        print(printable(f"{one.file}:{one.line}: {one.level}: {one.message}; {one.advice} [{one.kind}]"))
    counts = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items())
    print(f"{_memories(found.memories)}, {found.sound:,} without a finding: score {found.score} of 100")
    print(f"found: {counts}" if counts else "no problems found")


def _memories(count: int) -> str:
    return f"{count:,} {'memory' if count == 1 else 'memories'}"


def _as_json(found: Audit) -> JsonObject:
    return {
        "path": found.path,
        "tree": found.tree or None,
        "memories": found.memories,
        "sound": found.sound,
        "score": found.score,
        "counts": {**found.counts},
        "findings": [_row(one) for one in found.findings],
    }


def _row(one: AuditFinding) -> JsonObject:
    return {
        "file": one.file,
        "line": one.line,
        "kind": one.kind,
        "level": one.level,
        "message": one.message,
        "advice": one.advice,
        "others": [*one.others],
    }
