"""Programs that start `nacre mcp`: their configuration files, and the changes to these."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nacre.cli.install.changes import FileChange, as_it_was, digest, read_file, recorded, text_of
from nacre.cli.install.json_edit import Addition, add, at, missing, parsed, take_member
from nacre.cli.install.toml_edit import add_table, parsed_toml, take_table
from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject

SERVER = "nacre"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpClient:
    """A program with a configuration file that names MCP servers."""

    name: str
    title: str
    program: str
    user_file: Callable[[Mapping[str, str]], Path]
    project_file: str
    key: str
    """Key of the object that contains the servers."""
    entry: Literal["plain", "typed", "list"] = "plain"
    """`command` and `args`; with `type: stdio` as well; or one list below `type: local`."""
    is_editor: bool = False
    """Starts servers outside of the project, whose directory it inserts for a variable."""
    check: str = ""
    """How a user sees that the server is known."""


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())


def _config(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or _home(environ) / ".config")


def _codex(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("CODEX_HOME") or _home(environ) / ".codex") / "config.toml"


def _opencode(environ: Mapping[str, str]) -> Path:
    return _config(environ) / "opencode" / "opencode.json"


def _vscode(environ: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        base = _home(environ) / "Library" / "Application Support"
    elif sys.platform == "win32":
        base = Path(environ.get("APPDATA") or _home(environ) / "AppData" / "Roaming")
    else:
        base = _config(environ)
    return base / "Code" / "User" / "mcp.json"


CLIENTS: Sequence[McpClient] = (
    McpClient(
        name="codex",
        title="Codex",
        program="codex",
        user_file=_codex,
        project_file=".codex/config.toml",
        key="mcp_servers",
        check="`codex mcp list` shows it",
    ),
    McpClient(
        name="gemini",
        title="Gemini CLI",
        program="gemini",
        user_file=lambda environ: _home(environ) / ".gemini" / "settings.json",
        project_file=".gemini/settings.json",
        key="mcpServers",
        check="`gemini mcp list` shows it",
    ),
    McpClient(
        name="opencode",
        title="opencode",
        program="opencode",
        user_file=_opencode,
        project_file="opencode.json",
        key="mcp",
        entry="list",
        check="`opencode mcp list` shows it",
    ),
    McpClient(
        name="cursor",
        title="Cursor",
        program="cursor",
        user_file=lambda environ: _home(environ) / ".cursor" / "mcp.json",
        project_file=".cursor/mcp.json",
        key="mcpServers",
        is_editor=True,
        check="the MCP page of Cursor's settings shows it",
    ),
    McpClient(
        name="vscode",
        title="VS Code",
        program="code",
        user_file=_vscode,
        project_file=".vscode/mcp.json",
        key="servers",
        entry="typed",
        is_editor=True,
        check="the command `MCP: List Servers` shows it",
    ),
)


def config_file(client: McpClient, environ: Mapping[str, str], project: Path | None) -> Path:
    """Return the file of the user or of a project; with comments, if that variant exists."""
    path = client.user_file(environ) if project is None else project / client.project_file
    variant = path.with_suffix(".jsonc")
    return variant if client.name == "opencode" and variant.exists() and not path.exists() else path


def is_found(client: McpClient, environ: Mapping[str, str]) -> bool:
    """Whether the program or its folder is on this machine."""
    folder = client.user_file(environ).parent
    return bool(shutil.which(client.program, path=environ.get("PATH"))) or folder.is_dir()


def is_connected(client: McpClient, path: Path) -> bool:
    """Whether a file names nacre's server; one that cannot be read does not."""
    try:
        return entry_of(client, path) is not None
    except ConfigError:
        return False


def entry_of(client: McpClient, path: Path) -> Json:
    """Return the entry of nacre's server in a file, if any; `ConfigError` for a file that is not valid."""
    text, _ = text_of(read_file(Path(os.path.realpath(path))), path)
    return at(_parsed(text, path), (client.key, SERVER))


def server_entry(client: McpClient, program: Sequence[str], home: Path | None) -> JsonObject:
    """Return the entry that starts `nacre mcp`, with its home if that is not the usual one."""
    project = ["--project", "${workspaceFolder}"] if client.is_editor else []
    command: list[Json] = [*program, "mcp", *project]
    env: JsonObject = {"NACRE_HOME": str(home)} if home else {}
    if client.entry == "list":
        named: JsonObject = {"environment": env} if env else {}
        return {"type": "local", "command": command, "enabled": True, **named}
    kind: JsonObject = {"type": "stdio"} if client.entry == "typed" else {}
    return {**kind, "command": command[0], "args": command[1:], **({"env": env} if env else {})}


def connected(client: McpClient, path: Path, entry: JsonObject, home: Path) -> FileChange:
    """Return the file with the entry, and a record below nacre's home that can undo it."""
    before = read_file(Path(os.path.realpath(path)))
    text, mark = text_of(before, path)
    document = _parsed(text, path)
    present = at(document, (client.key, SERVER))
    known = recorded(home, path)
    if present == entry:
        return FileChange(path=path, before=before, after=before)
    if present is None:
        known = {}
    elif present != known.get("entry"):
        raise ConfigError(
            f"{path}: {client.key}.{SERVER} is not what nacre wrote; remove or rename it, then try again"
        )
    without = text if present is None else _removed(client, text, path, known)
    after = mark + _added(client, without, path, entry).encode()
    is_untouched = known.get("after") == digest(before or b"")
    record: JsonObject = {
        "path": str(path),
        "existed": known.get("existed", before is not None),
        "folders": known.get("folders", _missing_folders(path)),
        "made": known.get("made", missing(document, (client.key,)) == 0),
        "entry": entry,
        "after": digest(after),
        "before": digest(before or b"") if not known else known.get("before") if is_untouched else "",
    }
    return FileChange(path=path, before=before, after=after, record=record)


def disconnected(client: McpClient, path: Path, entry: JsonObject, home: Path) -> FileChange:
    """Return the file without the entry.

    Without a record only an entry that `connected` would write is removed.
    """
    before = read_file(Path(os.path.realpath(path)))
    text, mark = text_of(before, path)
    present = at(_parsed(text, path), (client.key, SERVER))
    known = recorded(home, path)
    if present is None:
        return FileChange(path=path, before=before, after=before)
    if known.get("before") and known.get("after") == digest(before or b""):
        return FileChange(path=path, before=before, after=as_it_was(home, path, known))
    if present != known.get("entry", entry):
        raise ConfigError(
            f"{path}: {client.key}.{SERVER} is not what nacre wrote, so it stays; remove it by hand"
        )
    text = _removed(client, text, path, known)
    is_empty = not text.strip() or (path.suffix != ".toml" and text.split() in (["{}"], ["{", "}"]))
    is_ours_alone = known.get("existed") is False and is_empty
    return FileChange(path=path, before=before, after=None if is_ours_alone else mark + text.encode())


def remove_folders(folders: Json) -> None:
    """Remove the folders that were made for a file, innermost first, where they are empty."""
    for one in folders if isinstance(folders, list) else ():
        try:
            Path(str(one)).rmdir()
        except OSError:
            return


def _missing_folders(path: Path) -> list[Json]:
    return [str(one) for one in path.parents if not one.exists()]


def _parsed(text: str, path: Path) -> JsonObject:
    if path.suffix == ".toml":
        return parsed_toml(text, str(path))
    return parsed(text, str(path), has_comments=True)


def _note(client: McpClient) -> str:
    return f"Added by `nacre install {client.name}`."


def _added(client: McpClient, text: str, path: Path, entry: JsonObject) -> str:
    keys = (client.key, SERVER)
    if path.suffix == ".toml":
        return add_table(text, keys, entry, note=_note(client), where=str(path))
    added = add(text, Addition(keys=keys, value=entry), str(path))
    if at(_parsed(added, path), keys) != entry:
        raise ConfigError(f"{path}: {'.'.join(keys)} cannot be added; add it by hand")
    return added


def _removed(client: McpClient, text: str, path: Path, known: JsonObject) -> str:
    keys = (client.key, SERVER)
    if path.suffix == ".toml":
        return take_table(text, keys, note=_note(client), where=str(path))
    text = take_member(text, keys)
    is_left_empty = known.get("made") and at(_parsed(text, path), keys[:1]) == {}
    return take_member(text, keys[:1]) if is_left_empty else text
