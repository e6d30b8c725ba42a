"""`nacre install` and `nacre uninstall`: other programs set up to use nacre, and as they were before."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from nacre.cli.install_claude import FileChange, Where

OK, NO = 0, 1
_SECRET = re.compile(
    r'("[^"]*(?:key|token|secret|password|credential)[^"]*"\s*:\s*)"(?:[^"\\]|\\.)*"', re.IGNORECASE
)
Function = TypeVar("Function", bound=Callable[..., object])


def _scope_option(command: Function) -> Function:
    return click.option(
        "--scope",
        type=click.Choice(["user", "project", "local"]),
        default="user",
        show_default=True,
        help="For you everywhere, for everybody on the project in this directory, or for you in it.",
    )(command)


_dry_run = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group(short_help="Set nacre up in another program.")
def install() -> None:
    """Set nacre up in another program; `nacre uninstall` takes it out again.

    What can be set up: claude-code (hooks for recall and extraction, and with --mcp tools for its memory).
    """


@click.group(short_help="Take nacre out of another program again.")
def uninstall() -> None:
    """Take out what `nacre install` has written, and nothing else."""


@install.command("claude-code", short_help="Recall and extraction in Claude Code.")
@_scope_option
@click.option("--mcp", is_flag=True, help="Let the model search and keep memories itself, by `nacre mcp`.")
@_dry_run
@_yes
@click.option("--undo", is_flag=True, help="The same as `nacre uninstall claude-code`.")
def install_claude_code(*, scope: Where, mcp: bool, dry_run: bool, yes: bool, undo: bool) -> int:
    """Have Claude Code call nacre: memories with each prompt, new ones drawn from what was said.

    Shows first what it would write into Claude Code's settings, and asks. Everything else in them stays; a
    copy of the file as it was is kept.
    """
    import os
    from pathlib import Path

    from nacre.cli.install_claude import install_changes

    if undo:
        return _uninstalled(scope, dry_run=dry_run, yes=yes)
    changes = [one for one in install_changes(scope, os.environ, mcp=mcp, cwd=Path.cwd()) if one.is_needed]
    if not changes:
        print("Claude Code calls nacre already: nothing to do.")
        return OK
    if not _carried_out(changes, dry_run=dry_run, yes=yes):
        return OK if dry_run else NO
    _tell_how_to_check(scope)
    return OK


@uninstall.command("claude-code", short_help="Claude Code without nacre.")
@_scope_option
@_dry_run
@_yes
def uninstall_claude_code(*, scope: Where, dry_run: bool, yes: bool) -> int:
    """Take nacre out of Claude Code's settings; memories stay where they are."""
    return _uninstalled(scope, dry_run=dry_run, yes=yes)


def _uninstalled(scope: Where, *, dry_run: bool, yes: bool) -> int:
    import os
    from pathlib import Path

    from nacre.cli.install_claude import uninstall_changes

    changes = [one for one in uninstall_changes(scope, os.environ, cwd=Path.cwd()) if one.is_needed]
    if not changes:
        print(f"nothing of nacre's stands in Claude Code's settings (scope {scope})")
        return OK
    if not _carried_out(changes, dry_run=dry_run, yes=yes):
        return OK if dry_run else NO
    print("Claude Code no longer calls nacre; its memories are untouched.")
    return OK


def _carried_out(changes: list[FileChange], *, dry_run: bool, yes: bool) -> bool:
    """Show, ask, write; whether anything was written."""
    import os

    from nacre.cli.install_claude import apply
    from nacre.cli.output import printable

    for change in changes:
        for line in _difference(change):
            print(printable(line))
    if dry_run:
        print("nothing was written")
        return False
    if not yes and not _is_wanted():
        print("nothing was written; --yes does not ask")
        return False
    for change in changes:
        copy = apply(change, os.environ)
        done = "removed" if change.after is None else "wrote"
        kept = f" (as it was: {copy})" if copy else ""
        print(printable(f"{done} {change.path}{kept}"))
    return True


def _difference(change: FileChange) -> list[str]:
    from difflib import unified_diff

    before, after = (
        (data or b"").decode(errors="replace").splitlines() for data in (change.before, change.after)
    )
    old = str(change.path) if change.before is not None else "/dev/null"
    new = str(change.path) if change.after is not None else "/dev/null"
    # A file like this can hold a key beside what we write; a terminal may be looked at by others.
    return [_SECRET.sub(r'\1"…"', line) for line in unified_diff(before, after, old, new, lineterm="")]


def _is_wanted() -> bool:
    try:
        return input("write this? [y]es, [N]o: ").strip().lower() in {"y", "yes"}
    except (EOFError, UnicodeDecodeError):
        print()
        return False


def _tell_how_to_check(scope: Where) -> None:
    import os

    from nacre.agents.hook_door_start import with_home
    from nacre.agents.hook_door_told import client_home
    from nacre.cli.install_claude import is_passing, this_program
    from nacre.cli.output import printable

    home = client_home(os.environ)
    if is_passing(this_program()):
        print(
            "This nacre lies in a cache that is emptied now and then: install it for good, then repeat this."
        )
    if scope == "project":
        print(
            "The file is shared: who else uses it needs nacre at the same path. --scope local is yours alone."
        )
    print(
        "Start `claude` anew: /hooks lists the five hooks, and each prompt brings the memories it calls for."
    )
    print(printable(f"The same memory from the terminal: {with_home('nacre memory list', home)}"))
    print(f"Undo: nacre uninstall claude-code{'' if scope == 'user' else f' --scope {scope}'}")
