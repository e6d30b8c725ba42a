"""`nacre install codex` and others: an MCP server in their files and out again, everything else as it was."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from nacre.cli.install.changes import FileChange, apply
from nacre.cli.install.json_edit import parsed
from nacre.cli.install.mcp_clients import (
    CLIENTS,
    McpClient,
    config_file,
    connected,
    disconnected,
    server_entry,
)
from nacre.errors import ConfigError
from nacre.messages.blocks import JsonObject
from tests.cli.program import nacre

BY_NAME = {one.name: one for one in CLIENTS}
PROGRAM = ["/opt/nacre/bin/nacre"]

TOML = """# my settings
model = "gpt-6" # the large one
api_key = "sk-mine"

[mcp_servers.other]
command = "other"
args = [
  "one",
]

[profiles.fast] # the last table
text = '''
[mcp_servers.nacre]
'''"""
JSONC = """// my settings
{
    /* servers
       of mine */
    "%s": {
        "other": {"url": "https://example.com/a//b"}, // keep "this"
    },
    "list": [1, 2,],
    // the end
}
"""
COMMENTED_OUT = """{
  "%s": {
    // "off": {}
  }
}
"""


@pytest.fixture(params=CLIENTS, ids=lambda one: one.name)
def client(request: pytest.FixtureRequest) -> McpClient:
    return request.param  # type: ignore[no-any-return]


def entry(client: McpClient, program: list[str] = PROGRAM) -> JsonObject:
    return server_entry(client, program, None)


def file_of(client: McpClient, base: Path) -> Path:
    return config_file(client, {"HOME": str(base)}, None)


def carried_out(change: FileChange, base: Path) -> bool:
    if change.is_needed:
        apply(change, base / ".nacre")
    return change.is_needed


def connect(client: McpClient, base: Path, program: list[str] = PROGRAM) -> bool:
    change = connected(client, file_of(client, base), entry(client, program), base / ".nacre")
    return carried_out(change, base)


def disconnect(client: McpClient, base: Path) -> bool:
    return carried_out(disconnected(client, file_of(client, base), entry(client), base / ".nacre"), base)


def servers(client: McpClient, path: Path) -> JsonObject:
    text = path.read_text()
    if path.suffix == ".toml":
        found = tomllib.loads(text).get(client.key, {})
    else:
        found = parsed(text, str(path), has_comments=True).get(client.key, {})
    assert isinstance(found, dict)
    return found


def users_text(client: McpClient) -> str:
    return TOML if client.name == "codex" else JSONC % client.key


def written(client: McpClient, base: Path, text: str) -> Path:
    path = file_of(client, base)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_the_entry_is_added_beside_others_and_the_file_returns_byte_for_byte(
    client: McpClient, tmp_path: Path, line_end: str
) -> None:
    text = users_text(client).replace("\n", line_end)
    path = written(client, tmp_path, text)
    assert connect(client, tmp_path)
    found = servers(client, path)
    assert found.keys() == {"other", "nacre"}
    assert found["nacre"] == entry(client)
    added = path.read_bytes().decode().splitlines()
    assert [line for line in text.splitlines() if line not in added] == []
    assert disconnect(client, tmp_path)
    assert path.read_bytes() == text.encode()


def test_a_file_that_changed_elsewhere_loses_only_the_entry(client: McpClient, tmp_path: Path) -> None:
    text = users_text(client)
    path = written(client, tmp_path, text)
    connect(client, tmp_path)
    old, new = ('"gpt-6"', '"gpt-7"') if client.name == "codex" else ("[1, 2,]", "[1, 3,]")
    path.write_text(path.read_text().replace(old, new))
    assert disconnect(client, tmp_path)
    assert servers(client, path).keys() == {"other"}
    if client.name == "codex":
        assert path.read_text().rstrip("\n") == text.replace(old, new)
    else:
        assert path.read_text() == text.replace(old, new).replace('b"}, //', 'b"} //')


def test_codex_may_write_the_variables_as_a_table(tmp_path: Path) -> None:
    client = BY_NAME["codex"]
    path = file_of(client, tmp_path)
    wanted = server_entry(client, PROGRAM, tmp_path)
    carried_out(connected(client, path, wanted, tmp_path / ".nacre"), tmp_path)
    inline = f'env = {{ NACRE_HOME = "{tmp_path}" }}\n'
    text = path.read_text()
    assert inline in text
    table = f'\n[mcp_servers.nacre.env]\nNACRE_HOME = "{tmp_path}"\n\n[mcp_servers.other]\ncommand = "x"\n'
    path.write_text(text.replace(inline, table))
    carried_out(disconnected(client, path, wanted, tmp_path / ".nacre"), tmp_path)
    assert path.read_text() == '[mcp_servers.other]\ncommand = "x"\n'


def test_a_comment_in_an_empty_object_stays(tmp_path: Path) -> None:
    client = BY_NAME["vscode"]
    path = written(client, tmp_path, COMMENTED_OUT % client.key)
    connect(client, tmp_path)
    assert servers(client, path).keys() == {"nacre"}
    path.write_text(path.read_text() + "\n")
    disconnect(client, tmp_path)
    assert path.read_text() == COMMENTED_OUT % client.key + "\n"


def test_a_file_of_comments_alone_gets_an_object_below_them(tmp_path: Path) -> None:
    client = BY_NAME["vscode"]
    path = written(client, tmp_path, "// nothing yet")
    connect(client, tmp_path)
    assert path.read_text().startswith("// nothing yet\n{")
    assert servers(client, path).keys() == {"nacre"}


def test_a_file_and_folders_that_were_not_there_are_gone_again(client: McpClient, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    environ = {"HOME": str(tmp_path)}
    done = nacre(project, "install", client.name, "--yes", **environ)
    assert done.returncode == 0, done.stderr
    assert servers(client, file_of(client, tmp_path)).keys() == {"nacre"}
    done = nacre(project, "uninstall", client.name, "--yes", **environ)
    assert done.returncode == 0, done.stderr
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []
    assert not file_of(client, tmp_path).parent.exists()


def test_a_second_time_changes_nothing_and_a_moved_nacre_is_followed(
    client: McpClient, tmp_path: Path
) -> None:
    path = written(client, tmp_path, users_text(client))
    assert connect(client, tmp_path, ["/old/nacre"])
    assert not connect(client, tmp_path, ["/old/nacre"])
    assert connect(client, tmp_path)
    assert servers(client, path)["nacre"] == entry(client)
    assert disconnect(client, tmp_path)
    assert path.read_text() == users_text(client)
    assert not disconnect(client, tmp_path)


def test_an_entry_that_was_changed_by_hand_is_refused_and_left(client: McpClient, tmp_path: Path) -> None:
    path = written(client, tmp_path, users_text(client))
    connect(client, tmp_path)
    changed = path.read_text().replace(PROGRAM[0], "/my/wrapper")
    path.write_text(changed)
    for work in (disconnect, connect):
        with pytest.raises(ConfigError, match=r"nacre is not what nacre wrote"):
            work(client, tmp_path)
    assert path.read_text() == changed


def test_an_entry_of_the_user_is_not_overwritten(tmp_path: Path) -> None:
    client = BY_NAME["cursor"]
    mine = '{"mcpServers": {"nacre": {"url": "http://127.0.0.1:8765/mcp"}}}'
    path = written(client, tmp_path, mine)
    with pytest.raises(ConfigError, match="not what nacre wrote"):
        connect(client, tmp_path)
    with pytest.raises(ConfigError, match="remove it by hand"):
        disconnect(client, tmp_path)
    assert path.read_text() == mine


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("codex", "model = ", "not valid TOML"),
        ("codex", 'mcp_servers = {other = {command = "x"}}\n', "write mcp_servers as tables"),
        ("gemini", "{broken", "not valid JSON"),
        ("gemini", '{"mcpServers": []}', "must be a JSON object"),
        ("opencode", "[]", "must hold a JSON object"),
    ],
)
def test_a_damaged_file_is_one_line_and_left(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = written(BY_NAME[name], tmp_path, text)
    with pytest.raises(ConfigError, match=says) as caught:
        connect(BY_NAME[name], tmp_path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_text() == text


def test_a_link_stays_a_link_and_a_mode_a_mode(client: McpClient, tmp_path: Path) -> None:
    path = written(client, tmp_path, users_text(client))
    kept = tmp_path / "dotfiles"
    path.rename(kept)
    kept.chmod(0o640)
    path.symlink_to(kept)
    connect(client, tmp_path)
    assert path.is_symlink()
    assert "nacre" in servers(client, path)
    disconnect(client, tmp_path)
    assert (path.is_symlink(), kept.stat().st_mode & 0o777) == (True, 0o640)
    assert kept.read_text() == users_text(client)


def test_opencode_keeps_its_variant_with_comments(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text("{}")
    connect(BY_NAME["opencode"], tmp_path)
    assert "nacre" in (folder / "opencode.jsonc").read_text()
    assert not (folder / "opencode.json").exists()


def test_variables_of_the_clients_move_their_files(tmp_path: Path) -> None:
    environ = {"HOME": "/h", "CODEX_HOME": "/c", "XDG_CONFIG_HOME": "/x"}
    files = [str(config_file(BY_NAME[one], environ, None)) for one in ("codex", "opencode")]
    assert files == ["/c/config.toml", "/x/opencode/opencode.json"]
    assert config_file(BY_NAME["vscode"], environ, tmp_path) == tmp_path / ".vscode" / "mcp.json"


def test_it_shows_what_it_would_write_without_secrets_and_asks(tmp_path: Path) -> None:
    text = "[a]\napi_key = 'sk-mine'\nsecret_token = \"ghp_mine\"\n"
    path = written(BY_NAME["codex"], tmp_path, text)
    shown = nacre(tmp_path, "install", "codex", "--dry-run", HOME=str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert "+[mcp_servers.nacre]" in shown.stdout
    assert ("sk-mine" in shown.stdout, "ghp_mine" in shown.stdout) == (False, False)
    assert "secret_token" in shown.stdout
    assert nacre(tmp_path, "install", "codex", HOME=str(tmp_path)).returncode == 1
    assert path.read_text() == text


def test_another_home_is_passed_on(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / "mine")}
    done = nacre(tmp_path, "install", "cursor", "--project", "--yes", **environ)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / ".cursor" / "mcp.json").read_text())["mcpServers"].values()
    assert found["env"] == {"NACRE_HOME": str(tmp_path / "mine")}
    assert found["args"] == ["mcp", "--project", "${workspaceFolder}"]


def test_without_a_program_those_found_here_are_listed(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    connect(BY_NAME["cursor"], tmp_path)
    environ = {"HOME": str(tmp_path), "PATH": "/nowhere"}
    lines = nacre(tmp_path, "install", **environ).stdout.splitlines()
    states = {line.split()[0]: line for line in lines}
    assert states["codex"].endswith(" found")
    assert states["cursor"].endswith("nacre is installed")
    assert states["vscode"].endswith("not found")
