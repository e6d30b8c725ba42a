"""`nacre install` and `nacre uninstall`: add nacre to other programs and remove it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, TypeVar

import click

from nacre.app.memory_locations import decided_by, memory_paths, memory_place
from nacre.cli.install.changes import FileChange, apply, check, forget, recorded
from nacre.cli.install.claude_code import (
    added,
    install_changes,
    is_passing,
    present_value,
    removed,
    settings_path,
    this_program,
    uninstall_changes,
)
from nacre.cli.install.json_edit import Addition
from nacre.cli.install.mcp_clients import (
    CLIENTS,
    McpClient,
    config_file,
    connected,
    disconnected,
    is_connected,
    is_found,
    remove_folders,
    server_entry,
)
from nacre.errors import ConfigError
from nacre.integrations.claude_code.input import client_home, settings_for
from nacre.memory.files.location import memory_base
from nacre.memory.transfer.copy_home import HomeCopy
from nacre.messages.blocks import JsonObject
from nacre.settings import Settings, load

if TYPE_CHECKING:
    from nacre.cli.install.claude_code import Where

OK = 0
NO = 1
PASSING = "This nacre lies in a cache that is emptied now and then: install it for good, then repeat this."
HELP = (
    "Remove nacre's MCP server from {title}'s configuration.\n\n"
    "An entry that was changed since is left, with a message.",
    "Let {title} start `nacre mcp`, which recalls and saves memories.\n\n"
    "Shows what would be written into which file, and asks. Everything else in it stays unchanged.",
)
"""Help of `uninstall` and of `install`."""
_SECRET = re.compile(
    r'((?:"[^"]*(?:{0})[^"]*"|[\w.-]*(?:{0})[\w.-]*)\s*[:=]\s*)(?:"(?:[^"\\]|\\.)*"|\'[^\']*\')'.format(
        "key|token|secret|password|credential|authorization"
    ),
    re.IGNORECASE,
)
Function = TypeVar("Function", bound=Callable[..., object])


def _scope_option(command: Function) -> Function:
    return click.option(
        "--scope",
        type=click.Choice(["user", "project", "local"]),
        default="user",
        show_default=True,
        help="For you everywhere, for everyone in this project, or for you in this project.",
    )(command)


_dry_run = click.option("--dry-run", is_flag=True, help="Show what would change without changing it.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group(short_help="Set nacre up in another program.", invoke_without_command=True)
@click.pass_context
def install(context: click.Context) -> int:
    """Set nacre up in another program; `nacre uninstall` removes it.

    Supported: claude-code (hooks for recall and extraction, and with --mcp tools for its memory), and codex,
    gemini, opencode, cursor and vscode (tools for its memory). Without a program: lists those found here.
    """
    if context.invoked_subcommand is None:
        _print_programs(os.environ)
    return OK


@click.group(short_help="Remove nacre from another program.")
def uninstall() -> None:
    """Remove what `nacre install` has written, and nothing else."""


def _print_programs(environ: Mapping[str, str]) -> None:
    from nacre.cli.output import printable

    settings = settings_path("user", client_home(environ), Path.cwd())
    is_here = bool(shutil.which("claude")) or client_home(environ).is_dir()
    rows = [("claude-code", "Claude Code", is_here, bool(recorded(client_home(environ), settings)))]
    for client in CLIENTS:
        files = [config_file(client, environ, place) for place in (None, Path.cwd())]
        rows.append(
            (
                client.name,
                client.title,
                is_found(client, environ),
                any(is_connected(client, one) for one in files),
            )
        )
    for name, title, is_found_here, is_done in rows:
        state = "nacre is installed" if is_done else "found" if is_found_here else "not found"
        print(printable(f"{name:<12} {title:<12} {state}"))
    print("Install with, for example: nacre install codex (--dry-run shows what it would write)")


@install.command("claude-code", short_help="Recall and extraction in Claude Code.")
@_scope_option
@click.option("--mcp", is_flag=True, help="Also give the model memory tools, through `nacre mcp`.")
@_dry_run
@_yes
@click.option("--undo", is_flag=True, help="The same as `nacre uninstall claude-code`.")
def install_claude_code(*, scope: Where, mcp: bool, dry_run: bool, yes: bool, undo: bool) -> int:
    """Let Claude Code call nacre: memories with each prompt, new ones extracted from the conversation.

    For you everywhere, nacre itself then also uses Claude Code's memory (the setting memoryHome), and its own
    memories are copied there. Shows what would be written into which settings, and asks. Everything else in
    them stays unchanged; a copy of each file is kept.
    """

    from nacre.cli.memory.import_memories import copy_home
    from nacre.cli.output import printable

    if undo:
        return _uninstalled(scope, dry_run=dry_run, yes=yes)
    if mcp:
        from nacre.cli.mcp import require_sdk

        require_sdk()  # a server that cannot start would only be seen to fail in Claude Code
    changes = install_changes(scope, os.environ, mcp=mcp, cwd=Path.cwd())
    shared = sharing(os.environ, Path.cwd()) if scope == "user" else Sharing()
    # Memories first: the setting changes only after they are copied.
    needed = [one for one in (shared.change, *changes) if one and one.is_needed]
    if not needed:
        print("Claude Code calls nacre already: nothing to do.")
        print(printable(where_it_is(os.environ, Path.cwd())))
        return OK
    if not _is_agreed(needed, dry_run=dry_run, yes=yes, home_copy=shared.home_copy):
        return OK if dry_run else NO
    for line in copy_home(shared.home_copy, is_dry=False).lines() if shared.home_copy else ():
        print(printable(line))
    _write(needed, client_home(os.environ))
    _print_how_to_check(scope)
    return OK


def install_for_user() -> int:
    """Let Claude Code call nacre for this user everywhere, without a question."""
    return int(install_claude_code.callback(scope="user", mcp=False, dry_run=False, yes=True, undo=False))  # type: ignore[misc]


def uninstall_for_user() -> int:
    """Remove nacre from Claude Code for this user, without a question."""
    return _uninstalled("user", dry_run=False, yes=True)


@uninstall.command("claude-code", short_help="Remove nacre from Claude Code.")
@_scope_option
@_dry_run
@_yes
@click.option(
    "--purge",
    is_flag=True,
    help="Also delete nacre's caches and histories there; undo is lost, memories stay.",
)
def uninstall_claude_code(*, scope: Where, dry_run: bool, yes: bool, purge: bool) -> int:
    """Remove nacre from Claude Code's settings; memories stay."""
    if purge and scope != "user":
        raise click.UsageError("--purge works with --scope user only: the files belong to all projects")
    if purge:
        _refuse_purge_in_use(os.environ)
    code = _uninstalled(scope, dry_run=dry_run, yes=yes)
    return _purged(dry_run=dry_run, yes=yes) if purge and code == OK else code


def _refuse_purge_in_use(environ: Mapping[str, str]) -> None:
    """Raise `ConfigError` if nacre would go on using the client's folder."""
    own = load(Path.cwd(), environ)
    client = client_home(environ)
    if Path(os.path.realpath(own.home)) == Path(os.path.realpath(client)):
        raise ConfigError(f"nacre's own home is {client}; --purge would delete what it uses")
    if (line := still_shared(environ, Path.cwd())) and unsharing(environ, Path.cwd()).change is None:
        raise ConfigError(f"{line}; --purge would delete its history")


def _purged(*, dry_run: bool, yes: bool) -> int:
    from nacre.cli.install.purge import delete, leftovers
    from nacre.cli.output import printable

    home = client_home(os.environ)
    found = leftovers(home)
    if not found:
        print(printable(f"{home} contains no other files of nacre"))
        return OK
    for path in found:
        print(printable(f"{'would delete' if dry_run else 'delete'} {path}"))
    if dry_run:
        return OK
    if not yes and not _is_confirmed(
        "delete these? Memories stay, but `nacre memory undo` and `log` lose theirs"
    ):
        print("nothing was deleted; add --yes to delete without asking")
        return NO
    delete(found, home)
    print(printable(f"deleted {len(found)} files and folders of nacre in {home}"))
    return OK


def _is_confirmed(question: str) -> bool:
    try:
        return input(f"{question} [y]es, [N]o: ").strip().lower() in {"y", "yes"}
    except (EOFError, UnicodeDecodeError):
        print()
        return False


def _uninstalled(scope: Where, *, dry_run: bool, yes: bool) -> int:
    from nacre.cli.memory.import_memories import copy_home
    from nacre.cli.output import printable
    from nacre.integrations.claude_code.session_start import typed

    changes = uninstall_changes(scope, os.environ, cwd=Path.cwd())
    shared = unsharing(os.environ, Path.cwd()) if scope == "user" else Sharing()
    needed = [one for one in (*changes, shared.change) if one and one.is_needed]
    if not needed:
        print(f"Claude Code's settings contain nothing of nacre (scope {scope})")
        return OK
    if not _is_agreed(needed, dry_run=dry_run, yes=yes):
        return OK if dry_run else NO
    _write(needed, client_home(os.environ))
    print("Claude Code no longer calls nacre; its memories are untouched.")
    if scope == "user" and (line := still_shared(os.environ, Path.cwd())):
        print(printable(line))
    home_copy = shared.home_copy
    if home_copy and (count := copy_home(home_copy, is_dry=True).count):
        command = typed(
            f"nacre memory import --home {quote(str(home_copy.old))}", load(Path.cwd(), os.environ)
        )
        are = "1 memory is" if count == 1 else f"{count:,} memories are"
        print(
            printable(f"{are} in {home_copy.old} and not in nacre's own {home_copy.new}; to copy: {command}")
        )
    return OK


def _connect(client: McpClient, *, in_project: bool, dry_run: bool, yes: bool) -> int:
    from nacre.cli.mcp import require_sdk
    from nacre.cli.output import printable

    require_sdk()  # a server that cannot start would only be seen to fail in the client
    own = load(Path.cwd(), os.environ)
    path = config_file(client, os.environ, Path.cwd() if in_project else None)
    change = connected(client, path, _entry(client, own), own.home)
    if not change.is_needed:
        print(printable(f"{path} has nacre's server already: nothing to do."))
        return OK
    if not is_found(client, os.environ):
        print(f"{client.title} was not found on this machine; the file is written all the same.")
    if not _is_agreed([change], dry_run=dry_run, yes=yes):
        return OK if dry_run else NO
    _write([change], own.home)
    if is_passing(this_program()):
        print(PASSING)
    if in_project:
        print("Everyone who uses this file needs nacre at the same path.")
    print(f"Start {client.title} anew; {client.check}.")
    print(f"Undo: nacre uninstall {client.name}{' --project' if in_project else ''}")
    return OK


def _disconnect(client: McpClient, *, in_project: bool, dry_run: bool, yes: bool) -> int:
    from nacre.cli.output import printable

    own = load(Path.cwd(), os.environ)
    path = config_file(client, os.environ, Path.cwd() if in_project else None)
    folders = recorded(own.home, path).get("folders")
    change = disconnected(client, path, _entry(client, own), own.home)
    if not change.is_needed:
        forget(path, own.home)
        print(printable(f"{path} contains nothing of nacre"))
        return OK
    if not _is_agreed([change], dry_run=dry_run, yes=yes):
        return OK if dry_run else NO
    _write([change], own.home)
    if change.after is None:
        remove_folders(folders)
    print(f"{client.title} no longer starts nacre; memories are untouched.")
    return OK


def _entry(client: McpClient, own: Settings) -> JsonObject:
    usual = Path(os.environ.get("HOME") or Path.home()) / ".nacre"
    return server_entry(client, this_program(), None if own.home == usual else own.home)


def _add_commands(client: McpClient) -> None:
    """Add `install` and `uninstall` of a program that starts `nacre mcp`."""
    for group, work, short in (
        (install, _connect, f"Memory tools in {client.title}."),
        (uninstall, _disconnect, f"Remove nacre from {client.title}."),
    ):
        command = click.Command(
            client.name,
            callback=partial(work, client),
            params=[
                click.Option(
                    ["--project", "in_project"],
                    is_flag=True,
                    help=f"In {client.project_file} of this directory instead of your own file.",
                ),
                click.Option(["--dry-run"], is_flag=True, help="Show what would change without changing it."),
                click.Option(["--yes"], is_flag=True, help="Do not ask."),
            ],
            short_help=short,
            help=HELP[group.name == "install"].format(title=client.title),
        )
        group.add_command(command)


for _client in CLIENTS:
    _add_commands(_client)


def _is_agreed(
    changes: list[FileChange], *, dry_run: bool, yes: bool, home_copy: HomeCopy | None = None
) -> bool:
    """Show the changes and ask; returns the answer."""
    from nacre.cli.memory.import_memories import copy_home
    from nacre.cli.output import printable

    for change in changes:
        for line in _difference(change):
            print(printable(line))
    for line in copy_home(home_copy, is_dry=True).lines() if home_copy and (dry_run or not yes) else ():
        print(printable(line))
    if dry_run:
        print("nothing was written")
        return False
    if not yes and not _is_confirmed("write this?"):
        print("nothing was written; add --yes to write without asking")
        return False
    # Check all before the first is written: half of the changes would be worse than none.
    for change in changes:
        check(change)
    return True


def _write(changes: list[FileChange], home: Path) -> None:

    from nacre.cli.output import printable

    for change in changes:
        copy = apply(change, home)
        done = "removed" if change.after is None else "wrote"
        kept = f" (as it was: {copy})" if copy else ""
        print(printable(f"{done} {change.path}{kept}"))


def _difference(change: FileChange) -> list[str]:

    before, after = (
        (data or b"").decode(errors="replace").splitlines() for data in (change.before, change.after)
    )
    old = str(change.path) if change.before is not None else "/dev/null"
    new = str(change.path) if change.after is not None else "/dev/null"
    # The file can hold a key, and others may see the terminal.
    return [_SECRET.sub(r'\1"…"', line) for line in unified_diff(before, after, old, new, lineterm="")]


def _print_how_to_check(scope: Where) -> None:

    from nacre.cli.output import printable
    from nacre.integrations.claude_code.session_start import typed

    settings = settings_for(Path.cwd(), os.environ)
    if is_passing(this_program()):
        print(PASSING)
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


KEY = ("memoryHome",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """The changes that share one memory or undo that; None if there are none."""

    change: FileChange | None = None
    home_copy: HomeCopy | None = None


def sharing(environ: Mapping[str, str], cwd: Path) -> Sharing:
    """Return the changes that let nacre use the memory of the client's hooks."""
    own = load(cwd, environ)
    theirs = settings_for(cwd, environ)
    old = memory_base(memory_paths(own))
    new = memory_base(memory_paths(theirs))
    if old == new:
        return Sharing()
    return Sharing(
        change=added(_file(own), [Addition(keys=KEY, value=str(new))], client_home(environ)),
        home_copy=HomeCopy(old=old, new=new, keeps_index=own.memory.keeps_index, leaves_local=True),
    )


def unsharing(environ: Mapping[str, str], cwd: Path) -> Sharing:
    """Return the change that removes the setting if it is still as written; memories stay."""
    own = load(cwd, environ)
    client = client_home(environ)
    if present_value(_file(own), KEY, client) != str(client):
        return Sharing()
    return Sharing(
        change=removed(_file(own), client),
        home_copy=HomeCopy(
            old=client, new=Path(os.path.realpath(own.home)), keeps_index=own.memory.keeps_index
        ),
    )


def where_it_is(environ: Mapping[str, str], cwd: Path) -> str:
    """Say where the memory of this project is for both programs, and which setting decides that."""
    own = load(cwd, environ)
    theirs = settings_for(cwd, environ)
    here = memory_place(own, "project")
    there = memory_place(theirs, "project")
    if here.directory == there.directory:
        return f"One memory for both, below {memory_base(memory_paths(own))} ({decided_by(own, here)})"
    return (
        f"This project's memory is {there.directory} in Claude Code ({decided_by(theirs, there)}), but "
        f"{here.directory} in nacre ({decided_by(own, here)})"
    )


def still_shared(environ: Mapping[str, str], cwd: Path) -> str:
    """Say that nacre still uses the client's memory because the user configured it; else nothing."""
    own = load(cwd, environ)
    if not own.memory.home or memory_base(memory_paths(own)) != client_home(environ):
        return ""
    return f"nacre goes on using the memory in {own.memory.home} (memoryHome: {own.origin('memoryHome')})"


def aside(environ: Mapping[str, str], cwd: Path) -> str:
    """Say which home nacre uses without the client's variable, and how to share that one; else nothing."""
    own = load(cwd, environ)
    usual = Path(environ.get("HOME") or Path.home()) / ".nacre"
    if own.origin("home") != "environment CLAUDE_CONFIG_DIR" or not usual.is_dir():
        return ""
    return (
        f"Where CLAUDE_CONFIG_DIR is not set, nacre's home is {usual}; to have it share that memory, too: "
        f"NACRE_HOME={quote(str(usual))} nacre install claude-code"
    )


def _file(own: Settings) -> Path:
    return own.home / "settings.json"
