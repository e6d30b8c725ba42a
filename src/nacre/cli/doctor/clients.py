"""Where `nacre install` has put an entry, and whether it still starts a nacre."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nacre.cli.doctor.memory import Check
from nacre.cli.install.changes import read_file, recorded, text_of
from nacre.cli.install.claude_code import Where, hook_commands, settings_path
from nacre.cli.install.mcp_clients import CLIENTS, McpClient, config_file, entry_of
from nacre.errors import ConfigError
from nacre.formatting import counted
from nacre.integrations.claude_code.input import EVENTS, client_home
from nacre.messages.blocks import Json
from nacre.settings import Settings

SCOPES: Sequence[Where] = ("user", "project", "local")


def client_checks(settings: Settings, environ: Mapping[str, str]) -> list[Check]:
    """Return one check for each file that names nacre, or did when it was installed."""
    checks = list(_claude_code(settings, environ))
    for client in CLIENTS:
        paths = {config_file(client, environ, project): project for project in (settings.cwd, None)}
        for path, project in paths.items():
            check = _mcp_client(client, path, settings, environ, in_project=project is not None)
            checks += [check] if check is not None else []
    return checks


def _mcp_client(
    client: McpClient, path: Path, settings: Settings, environ: Mapping[str, str], *, in_project: bool
) -> Check | None:
    known = recorded(settings.home, path)
    install = f"nacre install {client.name}{' --project' if in_project else ''}"
    try:
        entry = entry_of(client, path)
    except ConfigError as error:
        return Check(client.name, ok=False, message=str(error)) if known else None
    if entry is None:
        gone = f"the entry in {path} is gone; `{install}` adds it again"
        return Check(client.name, ok=False, message=gone) if known else None
    command = _command(entry)
    if problem := _problem(command, environ):
        return Check(client.name, ok=False, message=f"{path}: {problem}; `{install}` writes it anew")
    changed = ", changed since it was installed" if known and known.get("entry") != entry else ""
    by_hand = "" if known else ", not written by `nacre install`"
    return Check(client.name, ok=True, message=f"{path} starts {command[0]}{changed}{by_hand}")


def _claude_code(settings: Settings, environ: Mapping[str, str]) -> Iterator[Check]:
    name = "claude-code"
    home = client_home(environ)
    # In a home directory the user's file is also the project's.
    paths = {settings_path(scope, home, settings.cwd): scope for scope in reversed(SCOPES)}
    for path, scope in paths.items():
        install = f"nacre install {name}{'' if scope == 'user' else f' --scope {scope}'}"
        try:
            text, _ = text_of(read_file(Path(os.path.realpath(path))), path)
            found = hook_commands(text, path)
        except ConfigError as error:
            if recorded(home, path):
                yield Check(name, ok=False, message=str(error))
            continue
        if not found:
            if recorded(home, path):
                gone = f"the hooks in {path} are gone; `{install}` adds them again"
                yield Check(name, ok=False, message=gone)
            continue
        missing = [event for event in EVENTS if event not in found]
        problems = dict.fromkeys(_problem(_words(one), environ) for one in found.values())
        if problem := next(filter(None, problems), ""):
            yield Check(name, ok=False, message=f"{path}: {problem}; `{install}` writes it anew")
        elif missing:
            lost = f"{counted(len(missing), 'hook')} of {len(EVENTS)} missing ({', '.join(missing)})"
            yield Check(name, ok=False, message=f"{path}: {lost}; `{install}` adds what is missing")
        else:
            program = _words(next(iter(found.values())))[0]
            yield Check(name, ok=True, message=f"{path} has all {len(EVENTS)} hooks, which start {program}")


def _command(entry: Json) -> list[str]:
    """Return program and arguments of an entry; empty if it has none."""
    given = entry.get("command") if isinstance(entry, dict) else None
    words = given if isinstance(given, list) else [given]
    return [one for one in words if isinstance(one, str)]


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def _problem(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return why an entry cannot start a program; empty if it can."""
    if not command:
        return "the entry names no program"
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        return f"it starts {command[0]}, which is not there"
    return ""
