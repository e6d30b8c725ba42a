"""Changes to Claude Code's settings for nacre, and their removal."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.cli.install.changes import FileChange, as_it_was, digest, read_file, recorded, text_of
from nacre.cli.install.json_edit import Addition, add, at, missing, parsed, take_element, take_member
from nacre.integrations.claude_code.input import EVENTS, client_home
from nacre.messages.blocks import Json, JsonObject

Where: TypeAlias = Literal["user", "project", "local"]
"""For the user everywhere, for everyone on this project, or for the user in this project."""

HOOK_SECONDS: Mapping[str, int] = {"PreCompact": 30}
"""Timeout that the client gives a hook; nacre's own limit is far below."""
DEFAULT_SECONDS = 10
SERVER = "nacre"
_OURS = re.compile(rf"""(?:^|[/\s])nacre['"]? hook (?:{"|".join(EVENTS)})\s*$""")


def install_changes(where: Where, environ: Mapping[str, str], *, mcp: bool, cwd: Path) -> list[FileChange]:
    """Return the changes that add the missing hooks, and the MCP server if wanted."""
    home = client_home(environ)
    program = this_program()
    wanted = {settings_path(where, home, cwd): [*hook_additions(program)]}
    if mcp:
        path, addition = _server(where, environ, program, cwd=cwd)
        wanted.setdefault(path, []).append(addition)
    return [added(path, additions, home) for path, additions in wanted.items()]


def uninstall_changes(where: Where, environ: Mapping[str, str], *, cwd: Path) -> list[FileChange]:
    """Return the changes that remove everything of nacre and nothing else."""
    home = client_home(environ)
    server, _ = _server(where, environ, [SERVER], cwd=cwd)
    paths = dict.fromkeys((settings_path(where, home, cwd), server))
    return [removed(path, home) for path in paths]


def this_program() -> list[str]:
    """Return the command that starts this nacre from any directory."""
    named = shutil.which(sys.argv[0]) if Path(sys.argv[0]).name == "nacre" else None
    beside = Path(sys.executable).with_name("nacre")
    program = Path(named).absolute() if named else beside if os.access(beside, os.X_OK) else None
    # Without -P, a file named nacre.py in a project would run instead.
    return [str(program)] if program else [sys.executable, "-P", "-m", "nacre"]


def is_passing(program: Sequence[str]) -> bool:
    """Whether a program is in a temporary directory of a tool runner."""
    return ".cache" in Path(program[0]).parts


def settings_path(where: Where, home: Path, cwd: Path) -> Path:
    """Return the client's settings file for this scope."""
    if where == "user":
        return home / "settings.json"
    return cwd / ".claude" / ("settings.json" if where == "project" else "settings.local.json")


def hook_additions(program: Sequence[str]) -> Iterator[Addition]:
    """Return one hook per event."""
    for event in EVENTS:
        hook: JsonObject = {
            "type": "command",
            "command": shlex.join([*program, "hook", event]),
            "timeout": HOOK_SECONDS.get(event, DEFAULT_SECONDS),
        }
        yield Addition(keys=("hooks", event), value={"hooks": [hook]}, is_listed=True)


def _server(
    where: Where, environ: Mapping[str, str], program: Sequence[str], *, cwd: Path
) -> tuple[Path, Addition]:
    """Return the entry of the MCP server, which the client stores in another file than its hooks."""
    home = client_home(environ)
    given = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    state = home / ".claude.json" if given else Path(environ.get("HOME") or Path.home()) / ".claude.json"
    entry: JsonObject = {
        "type": "stdio",
        "command": program[0],
        "args": [*program[1:], "mcp"],
        "env": {"NACRE_HOME": str(home)},
    }
    if where == "project":
        return cwd / ".mcp.json", Addition(keys=("mcpServers", SERVER), value=entry)
    keys = ("mcpServers", SERVER) if where == "user" else ("projects", str(cwd), "mcpServers", SERVER)
    return state, Addition(keys=keys, value=entry)


def added(path: Path, additions: Sequence[Addition], home: Path) -> FileChange:
    """Return a file with additions, and a record below the client's home that can remove them."""
    before = read_file(Path(os.path.realpath(path)))
    text, mark = text_of(before, path)
    known = recorded(home, path) if _has_ours(text, path) else {}
    is_untouched = known.get("after") == digest(before or b"")
    made = [tuple(map(str, keys)) for keys in _lists(known.get("made"))]
    for one in additions:
        if _is_present(parsed(text, str(path)), one):
            continue
        # A hook of another nacre, or of this one before it was moved, would run as well.
        text = _without_ours(text, path, one.keys, made=set()) if one.is_listed else text
        document = parsed(text, str(path))
        if (there := missing(document, one.keys)) < len(one.keys):
            made.append(one.keys[: there + 1])
        text = add(text, one, str(path))
    after = mark + text.encode()
    record: JsonObject = {
        "path": str(path),
        "existed": known.get("existed", before is not None),
        "made": [[*keys] for keys in dict.fromkeys(made)],
        "after": digest(after),
        "before": digest(before or b"") if not known else known.get("before") if is_untouched else "",
        "servers": [[*one.keys] for one in additions if not one.is_listed] or known.get("servers", []),
    }
    is_same = before is not None and parsed(text, str(path)) == parsed(text_of(before, path)[0], str(path))
    return FileChange(path=path, before=before, after=before if is_same else after, record=record)


def removed(path: Path, home: Path) -> FileChange:
    """Return a file without the additions."""
    before = read_file(Path(os.path.realpath(path)))
    known = recorded(home, path)
    if before is None:
        return FileChange(path=path, before=None, after=None)
    if known.get("before") and known.get("after") == digest(before):
        return FileChange(path=path, before=before, after=as_it_was(home, path, known))
    text, mark = text_of(before, path)
    made = {tuple(map(str, keys)) for keys in _lists(known.get("made"))}
    for event in EVENTS:
        text = _without_ours(text, path, ("hooks", event), made=made if known else None)
    for keys in _lists(known.get("servers")):
        text = _without_member(text, path, tuple(map(str, keys)), made=made)
    is_ours_alone = known.get("existed") is False and not parsed(text, str(path))
    return FileChange(path=path, before=before, after=None if is_ours_alone else mark + text.encode())


def _is_present(document: JsonObject, addition: Addition) -> bool:
    there = at(document, addition.keys)
    return (
        addition.value in there if addition.is_listed and isinstance(there, list) else there == addition.value
    )


def _without_ours(
    text: str, path: Path, keys: tuple[str, ...], *, made: set[tuple[str, ...]] | None = None
) -> str:
    """Remove hooks that any nacre wrote for this event.

    With a record, lists and objects that were created for them are removed if empty; without one, all empty
    ones.
    """
    document = parsed(text, str(path))
    ours = [number for number, one in enumerate(_listed(at(document, keys))) if _is_ours(one)]
    for number in reversed(ours):
        text = take_element(text, keys, number)
    return _without_empty(text, path, keys, made) if ours else text


def _without_member(text: str, path: Path, keys: tuple[str, ...], *, made: set[tuple[str, ...]]) -> str:
    if missing(parsed(text, str(path)), keys) < len(keys):
        return text
    return _without_empty(take_member(text, keys), path, keys[:-1], made)


def _without_empty(text: str, path: Path, keys: tuple[str, ...], made: set[tuple[str, ...]] | None) -> str:
    for length in range(len(keys), 0, -1):
        here = keys[:length]
        is_made = made is None or any(here[: len(one)] == one for one in made)
        if at(parsed(text, str(path)), here) not in ([], {}) or not is_made:
            break
        text = take_member(text, here)
    return text


def _has_ours(text: str, path: Path) -> bool:
    """Whether anything of nacre remains, so that a record is still needed."""
    document = parsed(text, str(path))
    groups = (one for event in EVENTS for one in _listed(at(document, ("hooks", event))))
    return any(map(_is_ours, groups)) or f'"{SERVER}"' in text


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _is_ours(group: Json) -> bool:
    """Whether a group holds only a hook of nacre."""
    hooks = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(hooks, list) or not hooks:
        return False
    commands = [one.get("command") if isinstance(one, dict) else None for one in hooks]
    return all(isinstance(one, str) and _OURS.search(one) for one in commands)


def hook_commands(text: str, path: Path) -> dict[str, str]:
    """Return the command of nacre's hook for each event that has one."""
    document = parsed(text, str(path))
    found: dict[str, str] = {}
    for event in EVENTS:
        for group in _listed(at(document, ("hooks", event))):
            for hook in _listed(group.get("hooks") if isinstance(group, dict) else None):
                command = hook.get("command") if isinstance(hook, dict) else None
                if isinstance(command, str) and _OURS.search(command):
                    found[event] = command
    return found


def _lists(stored: Json) -> list[list[Json]]:
    return [one for one in stored if isinstance(one, list)] if isinstance(stored, list) else []


def present_value(path: Path, keys: tuple[str, ...], home: Path) -> Json:
    """Return the value at a place where nacre put something, or None."""
    known = recorded(home, path)
    if [*keys] not in _lists(known.get("servers")):
        return None
    return at(parsed(text_of(read_file(Path(os.path.realpath(path))), path)[0], str(path)), keys)
