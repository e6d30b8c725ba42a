"""`nacre install` and `nacre uninstall`: other programs set up to use nacre, and as they were before."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from nacre.cli.install.claude_code import FileChange, Where
    from nacre.memory.transfer.copy_home import HomeCopy

OK = 0
NO = 1
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

    For you everywhere, nacre itself then uses Claude Code's memory, too (the setting memoryHome), and what it
    has remembered so far is copied there. Shows first what it would write into which settings, and asks.
    Everything else in them stays; a copy of each file as it was is kept.
    """
    import os
    from pathlib import Path

    from nacre.cli.install.claude_code import install_changes
    from nacre.cli.install.memory import Sharing, sharing, where_it_is
    from nacre.cli.output import printable

    if undo:
        return _uninstalled(scope, dry_run=dry_run, yes=yes)
    if mcp:
        from nacre.cli.mcp import require_sdk

        require_sdk()  # a server that cannot start would only be seen to fail in Claude Code
    changes = install_changes(scope, os.environ, mcp=mcp, cwd=Path.cwd())
    shared = sharing(os.environ, Path.cwd()) if scope == "user" else Sharing()
    # The memories first: where nacre looks for them is changed only when they are there.
    needed = [one for one in (shared.change, *changes) if one and one.is_needed]
    if not needed:
        print("Claude Code calls nacre already: nothing to do.")
        print(printable(where_it_is(os.environ, Path.cwd())))
        return OK
    if not _is_agreed(needed, dry_run=dry_run, yes=yes, passage=shared.passage):
        return OK if dry_run else NO
    _bring(shared.passage)
    _write(needed)
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

    from nacre.cli.install.claude_code import uninstall_changes
    from nacre.cli.install.memory import Sharing, still_shared, unsharing
    from nacre.cli.output import printable

    changes = uninstall_changes(scope, os.environ, cwd=Path.cwd())
    shared = unsharing(os.environ, Path.cwd()) if scope == "user" else Sharing()
    needed = [one for one in (*changes, shared.change) if one and one.is_needed]
    if not needed:
        print(f"nothing of nacre's stands in Claude Code's settings (scope {scope})")
        return OK
    if not _is_agreed(needed, dry_run=dry_run, yes=yes):
        return OK if dry_run else NO
    _write(needed)
    print("Claude Code no longer calls nacre; its memories are untouched.")
    if scope == "user" and (line := still_shared(os.environ, Path.cwd())):
        print(printable(line))
    _tell_what_is_there(shared.passage)
    return OK


def _is_agreed(
    changes: list[FileChange], *, dry_run: bool, yes: bool, passage: HomeCopy | None = None
) -> bool:
    """Show and ask; whether it shall be done."""
    from nacre.cli.install.claude_code import check
    from nacre.cli.memory.copy_home import bring_all
    from nacre.cli.output import printable

    for change in changes:
        for line in _difference(change):
            print(printable(line))
    for line in bring_all(passage, is_dry=True).lines() if passage and (dry_run or not yes) else ():
        print(printable(line))
    if dry_run:
        print("nothing was written")
        return False
    if not yes and not _is_wanted():
        print("nothing was written; --yes does not ask")
        return False
    # All of them before the first is written: half of it would be worse than none.
    for change in changes:
        check(change)
    return True


def _bring(passage: HomeCopy | None) -> None:
    from nacre.cli.memory.copy_home import bring_all
    from nacre.cli.output import printable

    for line in bring_all(passage, is_dry=False).lines() if passage else ():
        print(printable(line))


def _write(changes: list[FileChange]) -> None:
    import os

    from nacre.cli.install.claude_code import apply
    from nacre.cli.output import printable

    for change in changes:
        copy = apply(change, os.environ)
        done = "removed" if change.after is None else "wrote"
        kept = f" (as it was: {copy})" if copy else ""
        print(printable(f"{done} {change.path}{kept}"))


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
    from pathlib import Path

    from nacre.cli.install.claude_code import is_passing, this_program
    from nacre.cli.install.memory import aside, where_it_is
    from nacre.cli.output import printable
    from nacre.integrations.claude_code.input import settings_for
    from nacre.integrations.claude_code.session_start import typed

    settings = settings_for(Path.cwd(), os.environ)
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
    listing = typed("nacre memory list", settings)
    print(printable(f"{where_it_is(os.environ, Path.cwd())}: {listing}"))
    if scope == "user" and (line := aside(os.environ, Path.cwd())):
        print(printable(line))
    undo = f"nacre uninstall claude-code{'' if scope == 'user' else f' --scope {scope}'}"
    print(printable(f"Undo: {typed(undo, settings)}"))


def _tell_what_is_there(passage: HomeCopy | None) -> None:
    """After the way back: how much lies where it was, and how it comes along."""
    import os
    from pathlib import Path
    from shlex import quote

    from nacre.cli.memory.copy_home import bring_all
    from nacre.cli.output import printable
    from nacre.integrations.claude_code.session_start import typed
    from nacre.settings import load

    if passage is None or not (count := bring_all(passage, is_dry=True).count):
        return
    command = typed(f"nacre memory import --home {quote(str(passage.old))}", load(Path.cwd(), os.environ))
    are = "1 memory is" if count == 1 else f"{count:,} memories are"
    print(printable(f"{are} in {passage.old} and not in nacre's own {passage.new}; to copy: {command}"))
