"""Changes to Claude Code's settings for nacre, and their removal."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.cli.install.json_edit import Addition, add, at, missing, parsed, take_element, take_member
from nacre.errors import ConfigError
from nacre.integrations.claude_code.input import EVENTS, client_home
from nacre.messages.blocks import Json, JsonObject
from nacre.store import disk

Where: TypeAlias = Literal["user", "project", "local"]
"""For the user everywhere, for everyone on this project, or for the user in this project."""

HOOK_SECONDS: Mapping[str, int] = {"PreCompact": 30}
"""Timeout that the client gives a hook; nacre's own limit is far below."""
DEFAULT_SECONDS = 10
SERVER = "nacre"
RECORDS = Path("cache/install")
"""Below the client's folder: a record of the changes, and copies of the files before them."""
MAX_BYTES = 50_000_000
"""Maximum size of a file that is changed."""
_OURS = re.compile(rf"""(?:^|[/\s])nacre['"]? hook (?:{"|".join(EVENTS)})\s*$""")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file before and after a change."""

    path: Path
    before: bytes | None
    """None if the file does not exist."""
    after: bytes | None
    """None if the file would be removed."""
    record: JsonObject | None = None
    """Record for the removal; None if nothing of nacre would remain."""

    @property
    def is_needed(self) -> bool:
        return self.before != self.after


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


def check(change: FileChange) -> None:
    """Raise `ConfigError` if the file changed meanwhile or is write-protected."""
    target = Path(os.path.realpath(change.path))
    if _read(target) != change.before:
        raise ConfigError(f"{change.path} changed meanwhile; run the command again")
    # By its mode: it could be replaced all the same, but its owner protected it.
    if change.before is not None and not target.stat().st_mode & 0o222:
        raise ConfigError(f"{target} is read-only; `chmod u+w` it, then try again")
    folder = next(one for one in target.parents if one.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"no permission to write to {folder}; change {change.path.name} where it comes from"
        )


def apply(change: FileChange, environ: Mapping[str, str]) -> Path | None:
    """Write the record, then the file; returns the copy of the old one. Raises `ConfigError` if it cannot."""
    home = client_home(environ)
    target = Path(os.path.realpath(change.path))
    check(change)
    record = _record_path(home, change.path)
    copy = None
    try:
        disk.make_folder(record.parent)
        if change.before is not None and change.record and change.record["before"] == _digest(change.before):
            copy = record.with_suffix(".before")
            disk.replace_file(copy, change.before, temp_name=f".{copy.name}.tmp")
        if change.record is not None:
            data = json.dumps(change.record, indent=1).encode()
            disk.replace_file(record, data, temp_name=f".{record.name}.tmp")
        _write(target, change.after)
        if change.record is None:
            record.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(disk.explain(error, change.path)) from error
    return copy


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
    before = _read(Path(os.path.realpath(path)))
    text, mark = _text(before, path)
    known = _recorded(home, path) if _has_ours(text, path) else {}
    is_untouched = known.get("after") == _digest(before or b"")
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
        "after": _digest(after),
        "before": _digest(before or b"") if not known else known.get("before") if is_untouched else "",
        "servers": [[*one.keys] for one in additions if not one.is_listed] or known.get("servers", []),
    }
    is_same = before is not None and parsed(text, str(path)) == parsed(_text(before, path)[0], str(path))
    return FileChange(path=path, before=before, after=before if is_same else after, record=record)


def removed(path: Path, home: Path) -> FileChange:
    """Return a file without the additions."""
    before = _read(Path(os.path.realpath(path)))
    known = _recorded(home, path)
    if before is None:
        return FileChange(path=path, before=None, after=None)
    if known.get("before") and known.get("after") == _digest(before):
        return FileChange(path=path, before=before, after=_as_it_was(home, path, known))
    text, mark = _text(before, path)
    made = {tuple(map(str, keys)) for keys in _lists(known.get("made"))}
    for event in EVENTS:
        text = _without_ours(text, path, ("hooks", event), made=made if known else None)
    for keys in _lists(known.get("servers")):
        text = _without_member(text, path, tuple(map(str, keys)), made=made)
    is_ours_alone = known.get("existed") is False and not parsed(text, str(path))
    return FileChange(path=path, before=before, after=None if is_ours_alone else mark + text.encode())


def _as_it_was(home: Path, path: Path, known: JsonObject) -> bytes | None:
    """Return the copy byte for byte if the file has not changed since."""
    if known.get("existed") is False:
        return None
    copy = _read(_record_path(home, path).with_suffix(".before"))
    if copy is None or _digest(copy) != known.get("before"):
        raise ConfigError(f"the copy of {path} is missing; remove the hooks from it by hand")
    return copy


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


def _recorded(home: Path, path: Path) -> JsonObject:
    try:
        stored: Json = json.loads(_record_path(home, path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _record_path(home: Path, path: Path) -> Path:
    return home / RECORDS / f"{hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest()}.json"


def _lists(stored: Json) -> list[list[Json]]:
    return [one for one in stored if isinstance(one, list)] if isinstance(stored, list) else []


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _text(data: bytes | None, path: Path) -> tuple[str, bytes]:
    """Return a file's text and its byte order mark."""
    mark = b"\xef\xbb\xbf" if data and data.startswith(b"\xef\xbb\xbf") else b""
    try:
        return (data or b"")[len(mark) :].decode(), mark
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None


def present_value(path: Path, keys: tuple[str, ...], home: Path) -> Json:
    """Return the value at a place where nacre put something, or None."""
    known = _recorded(home, path)
    if [*keys] not in _lists(known.get("servers")):
        return None
    return at(parsed(_text(_read(Path(os.path.realpath(path))), path)[0], str(path)), keys)


def _read(path: Path) -> bytes | None:
    try:
        descriptor = disk.open_regular(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(disk.explain(error, path)) from error
    with os.fdopen(descriptor, "rb") as source:
        data = source.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} has more than {MAX_BYTES:,} bytes; this is not a settings file")
    return data


def _write(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
        return
    disk.make_folder(path.parent)
    mode = path.stat().st_mode & 0o777 if path.exists() else disk.FILE_MODE
    disk.replace_file(path, data, mode=mode)
