"""`nacre install claude-code`: into another program's settings and out again, everything else as it was."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.cli.install.changes import FileChange, apply
from nacre.cli.install.claude_code import hook_additions, install_changes, uninstall_changes
from nacre.errors import ConfigError
from nacre.integrations.claude_code.input import EVENTS, client_home
from nacre.messages.blocks import Json
from tests.cli.program import nacre
from tests.scale import scaled

USERS = """{
    "model": "opus",
    "permissions": {"allow": ["Bash(ls)", "Read"]},
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "echo hi"}]}]
    },
    "numbers": [1.50, 1E5,  -0.0]
}"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A person's directory, with the client's in it and a project beside."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / "project").mkdir()
    return tmp_path


def environ(base: Path) -> dict[str, str]:
    return {"HOME": str(base)}


def install(base: Path, *, mcp: bool = False) -> list[FileChange]:
    changes = install_changes("user", environ(base), mcp=mcp, cwd=base / "project")
    return carried_out(base, changes)


def uninstall(base: Path) -> list[FileChange]:
    return carried_out(base, uninstall_changes("user", environ(base), cwd=base / "project"))


def carried_out(base: Path, changes: list[FileChange]) -> list[FileChange]:
    needed = [one for one in changes if one.is_needed]
    for one in needed:
        apply(one, client_home(environ(base)))
    return needed


def settings_file(base: Path) -> Path:
    return base / ".claude" / "settings.json"


def commands(path: Path) -> dict[str, list[str]]:
    hooks = json.loads(path.read_bytes())["hooks"]
    return {
        event: [one["command"] for group in groups for one in group["hooks"]]
        for event, groups in hooks.items()
    }


def test_every_event_gets_a_hook_by_an_absolute_path(world: Path) -> None:
    install(world)
    found = commands(settings_file(world))
    assert found.keys() == set(EVENTS)
    for event, (command,) in found.items():
        program, *rest = command.split()
        assert Path(program).is_absolute()
        assert os.access(program, os.X_OK)
        assert rest[-2:] == ["hook", event]


def test_a_program_with_a_blank_in_its_path_is_quoted_and_known_again(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patched because a test has no say in where it was started from."""
    program = world / "my tools" / "nacre"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(program)])
    install(world)
    (stop,) = commands(settings_file(world))["Stop"]
    assert shlex.split(stop) == [str(program), "hook", "Stop"]
    monkeypatch.setattr("sys.argv", ["-c"])
    install(world)
    assert [len(one) for one in commands(settings_file(world)).values()] == [1] * len(EVENTS)
    uninstall(world)
    assert not settings_file(world).exists()


def test_what_was_there_stays_byte_for_byte(world: Path) -> None:
    path = settings_file(world)
    path.write_text(USERS)
    install(world)
    text = path.read_text()
    kept = [line for line in USERS.splitlines() if "Stop" not in line]
    assert [line for line in text.splitlines() if line in kept] == kept
    assert commands(path)["Stop"][0] == "echo hi"
    assert len(commands(path)["Stop"]) == 2
    uninstall(world)
    assert path.read_text() == USERS


def test_what_changed_meanwhile_survives_the_way_back(world: Path) -> None:
    path = settings_file(world)
    path.write_text(USERS)
    install(world)
    path.write_text(path.read_text().replace('"opus"', '"sonnet"'))
    uninstall(world)
    assert path.read_text() == USERS.replace('"opus"', '"sonnet"')


def test_a_second_time_changes_nothing_and_a_moved_nacre_is_found_again(world: Path) -> None:
    install(world)
    path = settings_file(world)
    once = path.read_bytes()
    assert install(world) == []
    program = commands(path)["Stop"][0].split()[0]
    path.write_bytes(once.replace(program.encode(), b"/gone/bin/nacre"))
    install(world)
    assert path.read_bytes() == once


def test_a_file_that_was_not_there_is_gone_again(world: Path) -> None:
    install(world, mcp=True)
    assert settings_file(world).exists()
    assert (world / ".claude.json").exists()
    uninstall(world)
    assert not settings_file(world).exists()
    assert not (world / ".claude.json").exists()


def test_the_server_stands_where_the_client_looks_for_servers(world: Path) -> None:
    """It is told the client's home, so that it serves the same memory (M1)."""
    state = world / ".claude.json"
    state.write_text('{"numStartups": 3, "mcpServers": {"other": {"command": "x"}}}')
    install(world, mcp=True)
    servers = json.loads(state.read_text())["mcpServers"]
    assert servers["nacre"]["args"][-1] == "mcp"
    assert servers["nacre"]["env"] == {"NACRE_HOME": str(world / ".claude")}
    state.write_text(state.read_text().replace('"numStartups": 3', '"numStartups": 4'))
    uninstall(world)
    assert state.read_text() == '{"numStartups": 4, "mcpServers": {"other": {"command": "x"}}}'


def test_hooks_first_and_the_server_later_go_together(world: Path) -> None:
    path = settings_file(world)
    path.write_text(USERS)
    install(world)
    path.write_text(path.read_text().replace('"opus"', '"sonnet"'))
    install(world, mcp=True)
    uninstall(world)
    assert path.read_text() == USERS.replace('"opus"', '"sonnet"')


def test_hooks_of_others_that_only_mention_nacre_stay(world: Path) -> None:
    theirs = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo nacre hook Stop; date"}]}]}}
    settings_file(world).write_text(json.dumps(theirs))
    install(world)
    (world / ".claude" / "cache" / "install").rename(world / "lost")
    uninstall(world)
    assert json.loads(settings_file(world).read_text()) == theirs


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{broken", "settings.json:1:2: not valid JSON"),
        ("[]", "must hold a JSON object"),
        ('{"hooks": []}', "hooks must be a JSON object"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop must be a JSON list"),
        ('{"x": NaN}', "not JSON"),
        ("[" * 100_000, "settings.json"),
    ],
)
def test_a_damaged_file_is_refused_and_left(world: Path, text: str, says: str) -> None:
    path = settings_file(world)
    path.write_text(text)
    with pytest.raises(ConfigError, match=says.replace("[", r"\[")):
        install(world)
    assert path.read_text() == text


def test_a_file_changed_between_the_question_and_the_answer_is_left(world: Path) -> None:
    (change,) = install_changes("user", environ(world), mcp=False, cwd=world)
    settings_file(world).write_text("{}")
    with pytest.raises(ConfigError, match="changed meanwhile"):
        apply(change, client_home(environ(world)))
    assert settings_file(world).read_text() == "{}"


def test_a_link_stays_a_link_and_a_mode_a_mode(world: Path) -> None:
    real = world / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    settings_file(world).symlink_to(real)
    install(world)
    assert settings_file(world).is_symlink()
    assert commands(real).keys() == set(EVENTS)
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_file_that_its_owner_made_read_only_is_left(world: Path) -> None:
    """By its mode, which a rename would pass over; and nothing else is written before."""
    path = settings_file(world)
    path.write_text(USERS)
    path.chmod(0o444)
    ended = nacre(world, "install", "claude-code", "--yes")
    assert (ended.returncode, ended.stderr) == (
        3,
        f"nacre: {path} is read-only; `chmod u+w` it, then try again\n",
    )
    assert path.read_text() == USERS
    assert not (world / "home").exists()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
groups = st.lists(
    st.fixed_dictionaries(
        {"hooks": st.lists(st.fixed_dictionaries({"type": st.just("command"), "command": st.text()}))},
        optional={"matcher": st.text()},
    )
    | json_values.filter(lambda one: not isinstance(one, dict)),
    max_size=3,
)
hooks = st.dictionaries(st.sampled_from([*EVENTS, "PreToolUse"]), groups)
documents = st.builds(
    lambda rest, more: {**rest, **more},
    st.dictionaries(
        st.text().filter(lambda key: key not in {"hooks", "mcpServers", "projects"}), json_values
    ),
    st.fixed_dictionaries(
        {}, optional={"hooks": hooks, "mcpServers": st.dictionaries(st.just("other"), json_values)}
    ),
)


@settings(max_examples=scaled(40))
@given(
    document=documents,
    indent=st.sampled_from([None, 0, 2, 4, "\t"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from(["", "\ufeff"]),
    is_touched=st.booleans(),
    ascii_only=st.booleans(),
)
def test_any_settings_survive_the_way_in_and_out(
    document: dict[str, Json],
    indent: int | str | None,
    line_end: str,
    mark: str,
    is_touched: bool,
    ascii_only: bool,
) -> None:
    """Byte for byte where nobody touched the file, by value where somebody did."""
    with TemporaryDirectory() as folder:
        base = Path(folder)
        path = settings_file(base)
        path.parent.mkdir()
        text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
        data = (mark + text.replace("\n", line_end)).encode(errors="replace")
        path.write_bytes(data)
        document = json.loads(data.decode("utf-8-sig"))
        install(base)
        installed = json.loads(path.read_bytes().decode("utf-8-sig"))
        assert {key: value for key, value in installed.items() if key != "hooks"} == {
            key: value for key, value in document.items() if key != "hooks"
        }
        assert all(len(installed["hooks"][event]) >= 1 for event in EVENTS)
        if is_touched:
            path.write_bytes(path.read_bytes() + b"\n")
        uninstall(base)
        if is_touched:
            assert json.loads(path.read_bytes().decode("utf-8-sig")) == document
        else:
            assert path.read_bytes() == data


def test_it_shows_asks_and_writes_only_on_a_yes(world: Path) -> None:
    """A dry run, a no for want of an answer, and a yes."""
    path = settings_file(world)
    path.write_text(USERS)
    for args, code in ((["--dry-run"], 0), ([], 1)):
        ended = nacre(world, "install", "claude-code", *args)
        assert (ended.returncode, ended.stderr) == (code, "")
        assert "+" in ended.stdout
        assert "nothing was written" in ended.stdout
        assert path.read_text() == USERS
    ended = nacre(world, "install", "claude-code", "--yes")
    assert ended.returncode == 0
    assert f"wrote {path} (as it was: " in ended.stdout
    assert "nacre uninstall claude-code" in ended.stdout
    assert re.search(r"\): \S*nacre memory list\n", ended.stdout)
    copy = ended.stdout.partition("(as it was: ")[2].partition(")")[0]
    assert Path(copy).read_text() == USERS
    assert "already" in nacre(world, "install", "claude-code", "--yes").stdout
    assert nacre(world, "install", "claude-code", "--undo", "--yes").returncode == 0
    assert path.read_text() == USERS
    assert "contain nothing of nacre" in nacre(world, "uninstall", "claude-code", "--yes").stdout


def test_a_key_that_stands_beside_is_not_shown(world: Path) -> None:
    settings_file(world).write_text(
        '{\n  "env": {"ANTHROPIC_API_KEY": "sk-\\"x", "B": "shown"},\n  "apiKey": "hidden"\n}'
    )
    shown = nacre(world, "install", "claude-code", "--dry-run").stdout
    assert "sk-" not in shown
    assert "hidden" not in shown
    assert '"B": "shown"' in shown


@pytest.mark.parametrize(
    ("scope", "file", "server"),
    [
        ("project", ".claude/settings.json", ".mcp.json"),
        ("local", ".claude/settings.local.json", "../.claude.json"),
    ],
)
def test_each_scope_has_its_files(world: Path, scope: str, file: str, server: str) -> None:
    project = world / "project"
    at = {"HOME": str(world)}
    ended = nacre(project, "install", "claude-code", "--scope", scope, "--mcp", "--yes", **at)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert commands(project / file).keys() == set(EVENTS)
    held = json.loads((project / server).read_text())
    servers = held["mcpServers"] if scope == "project" else held["projects"][str(project)]["mcpServers"]
    assert servers.keys() == {"nacre"}
    assert nacre(project, "uninstall", "claude-code", "--scope", scope, "--yes", **at).returncode == 0
    assert not (project / file).exists()
    assert not (project / server).exists()


def test_damage_is_one_line_and_exit_3(world: Path) -> None:
    settings_file(world).write_text("{broken")
    ended = nacre(world, "install", "claude-code", "--yes")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr.count("\n") == 1


def test_help_says_what_can_be_installed(world: Path) -> None:
    assert "claude-code" in nacre(world, "install", "--help").stdout


def test_the_plugin_has_the_hooks_that_install_writes() -> None:
    wanted: dict[str, list[Json]] = {one.keys[-1]: [one.value] for one in hook_additions(["nacre"])}
    plugin = Path(__file__).parents[3] / "plugin"
    assert json.loads((plugin / "hooks" / "hooks.json").read_bytes())["hooks"] == wanted
