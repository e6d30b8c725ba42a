"""`nacre doctor`: origins, paths, model, keys that are never shown, and an exit code that tells."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from nacre import __version__
from nacre.cli.doctor.data_sent import ways_out
from nacre.messages.blocks import JsonObject
from nacre.providers.choose import choose
from nacre.settings import load, trust
from nacre.settings.schema import KEYS
from tests.cli.program import nacre

SECRET = "sk-ant-very-secret"


def report(cwd: Path, *args: str, code: int = 0, **environ: str) -> JsonObject:
    ended = nacre(cwd, *args, "doctor", "--json", **environ)
    assert (ended.returncode, ended.stderr) == (code, "")
    assert SECRET not in ended.stdout
    value: JsonObject = json.loads(ended.stdout)
    return value


def in_force(found: JsonObject, name: str) -> tuple[object, object]:
    rows = found["settings"]
    assert isinstance(rows, list)
    row = next(row for row in rows if isinstance(row, dict) and row["name"] == name)
    assert isinstance(row, dict)
    return row["value"], row["origin"]


def test_with_nothing_configured_all_is_well_and_the_embedded_engine_answers(tmp_path: Path) -> None:
    """P3."""
    found = report(tmp_path)
    slug = "".join(char if char.isascii() and char.isalnum() else "-" for char in str(tmp_path))
    model = found.pop("model")
    rows, checks, extras = found.pop("settings"), found.pop("checks"), found.pop("extras")
    facts, leaves = found.pop("memory_facts"), found.pop("leaves")
    assert found == {
        "version": __version__,
        "python": platform.python_version(),
        "ok": True,
        "paths": {
            "home": f"{tmp_path}/home",
            "sessions": f"{tmp_path}/home/projects/{slug}",
            "project": str(tmp_path),
        },
        "trusted": False,
        "memory": True,
        "keys": {"ANTHROPIC_API_KEY": False, "OPENAI_API_KEY": False},
        "problems": [],
    }
    assert isinstance(model, dict) and model["provider_name"] == "embedded" and model["offer"]
    assert isinstance(rows, list) and [row["name"] for row in rows if isinstance(row, dict)] == list(KEYS)
    assert isinstance(checks, list) and [row["name"] for row in checks if isinstance(row, dict)] == [
        "settings",
        "model",
        "recall",
        "disk",
        "sandbox",
    ]
    assert isinstance(extras, dict) and set(extras) == {"anthropic", "openai", "tui", "mcp", "acp", "embed"}
    assert isinstance(facts, dict) and (facts["entries"], facts["read_only"], facts["mode"]) == (
        0,
        None,
        "topics",
    )
    assert isinstance(leaves, list) and {way["to"] for way in leaves if isinstance(way, dict)} == {
        "nowhere",
        "any host",
    }
    assert not (tmp_path / "home").exists()  # looking changes nothing


def test_each_value_is_shown_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/settings.json").write_text(
        '{"maxTurns": 7, "smallModel": "s", "switches": {"notes": false}}'
    )
    (tmp_path / ".nacre").mkdir()
    (tmp_path / ".nacre/settings.json").write_text('{"smallModel": "claude-haiku-5-5"}')
    found = report(tmp_path, "--model", "claude-haiku-4-5", NACRE_CACHE_TTL="1h", ANTHROPIC_API_KEY=SECRET)
    assert {
        name: in_force(found, name) for name in ("model", "maxTurns", "smallModel", "cacheTtl", "retry.tries")
    } == {
        "model": ("claude-haiku-4-5", "command line"),
        "maxTurns": (7, f"user {tmp_path}/home/settings.json"),
        "smallModel": ("claude-haiku-5-5", f"project {tmp_path}/.nacre/settings.json"),
        "cacheTtl": ("1h", "environment NACRE_CACHE_TTL"),
        "retry.tries": (None, "default"),
    }
    assert in_force(found, "switches.notes") == (False, f"user {tmp_path}/home/settings.json")
    assert found["keys"] == {"ANTHROPIC_API_KEY": True, "OPENAI_API_KEY": False}


@pytest.mark.parametrize("args", [[], ["--all"]])
def test_secrets_are_never_printed_wherever_they_stand(tmp_path: Path, args: list[str]) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/settings.json").write_text(
        json.dumps(
            {
                "env": {"OPENAI_API_KEY": SECRET, "BAD": SECRET},
                "hooks": {"Stop": [SECRET]},
                "mcpServers": {"files": {"env": {"TOKEN": SECRET}}},
                "apiKey": SECRET,
                "openai": {"baseUrl": f"https://me:{SECRET}@host.example/v1?token={SECRET}"},
            }
        )
    )
    ended = nacre(tmp_path, "doctor", *args, ANTHROPIC_API_KEY=SECRET)
    assert ended.returncode == 1  # because of apiKey
    assert SECRET not in ended.stdout + ended.stderr
    assert "https://host.example/v1" in ended.stdout
    found = report(tmp_path, code=1, ANTHROPIC_API_KEY=SECRET)
    assert in_force(found, "env")[0] == ["BAD", "OPENAI_API_KEY"]
    assert found["keys"] == {"ANTHROPIC_API_KEY": True, "OPENAI_API_KEY": True}


def failed(found: JsonObject) -> list[object]:
    checks = found["checks"]
    assert isinstance(checks, list)
    return [(row["name"], row["message"]) for row in checks if isinstance(row, dict) and not row["ok"]]


def test_what_is_wrong_is_listed_and_the_exit_code_says_so(tmp_path: Path) -> None:
    found = report(tmp_path, code=1, NACRE_MAX_TURNS="0", NACRE_MODLE="x")
    assert failed(found) == [
        ("settings", "environment NACRE_MAX_TURNS: must be a whole number from 1 to 100,000, not '0'"),
        ("settings", "environment NACRE_MODLE: no such setting; did you mean 'NACRE_MODEL'?"),
    ]
    assert found["ok"] is False


def test_a_settings_file_that_cannot_be_read_is_a_finding_among_others(tmp_path: Path) -> None:
    """The program that says what is wrong must not be the first to give up."""
    broken = [tmp_path / "home/settings.json", tmp_path / ".nacre/settings.local.json"]
    for path, text in zip(broken, ("{bad", "[1]"), strict=True):
        path.parent.mkdir()
        path.write_text(text)
    (tmp_path / ".nacre/settings.json").write_text('{"maxTurns": 7}')
    found = report(tmp_path, code=1, NACRE_MODLE="x")
    told = failed(found)
    assert [name for name, _ in told] == ["settings"] * 3  # type: ignore[misc,has-type]
    lines = sorted(line for _, line in told)  # type: ignore[misc,has-type]
    assert lines[0].startswith(f"{broken[1]}:1:1: must be a JSON object")
    assert lines[1].startswith(f"{broken[0]}:1:2: not valid JSON (")
    assert lines[2].startswith("environment NACRE_MODLE")
    assert in_force(found, "maxTurns")[0] == 7
    assert nacre(tmp_path, "sessions", "list").returncode == 3  # everybody else stops


def test_a_model_without_its_key_is_a_finding(tmp_path: Path) -> None:
    found = report(tmp_path, code=1, NACRE_MODEL="claude-haiku-4-5")
    assert found["model"] is None
    assert [name for name, _ in failed(found)] == ["model"]  # type: ignore[misc,has-type]


def test_a_home_that_cannot_be_written_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = report(tmp_path, code=1, NACRE_HOME=str(tmp_path / "file/home"))
    assert [name for name, _ in failed(found)] == ["disk"]  # type: ignore[misc,has-type]


def test_trust_is_shown_and_ignored_settings_say_why(tmp_path: Path) -> None:
    (tmp_path / ".nacre").mkdir()
    (tmp_path / ".nacre/settings.json").write_text('{"hooks": {"Stop": []}}')
    found = report(tmp_path, code=1)
    assert found["trusted"] is False and "is not trusted" in str(failed(found))
    trust(tmp_path / "home", tmp_path)
    assert report(tmp_path)["trusted"] is True


def test_people_see_what_differs_from_the_defaults_and_all_on_request(tmp_path: Path) -> None:
    short = nacre(tmp_path, "doctor", NACRE_MODEL="embedded").stdout
    long = nacre(tmp_path, "doctor", "--all", NACRE_MODEL="embedded").stdout
    assert "environment NACRE_MODEL" in short and "switches.dream" not in short
    assert all(name in long for name in KEYS)
    assert "\x1b" not in short + long


def leaves(found: JsonObject) -> dict[str, str]:
    rows = found["leaves"]
    assert isinstance(rows, list)
    return {str(row["what"]): str(row["to"]) for row in rows if isinstance(row, dict)}


def marked(found: JsonObject, name: str) -> list[str]:
    rows = found["checks"]
    assert isinstance(rows, list)
    return [str(row["message"]) for row in rows if isinstance(row, dict) and row["name"] == name]


def test_doctor_says_what_leaves_the_machine_and_to_whom(tmp_path: Path) -> None:
    """M27: hosts without the secrets in their addresses; closed ways are named as closed."""
    assert leaves(report(tmp_path))["conversation"] == "nowhere"
    (tmp_path / "home").mkdir()
    servers = {
        "away": {"url": f"https://me:{SECRET}@mcp.example:8443/x?key={SECRET}"},
        "here": {"command": "some-server", "env": {"TOKEN": SECRET}},
        "off": {"command": "never", "disabled": True},
    }
    shared = {"team": True, "teamRemote": f"https://me:{SECRET}@git.example/team.git"}
    settings = {"mcpServers": servers, "memory": shared, "switches": {"web_fetch": True}}
    (tmp_path / "home/settings.json").write_text(json.dumps(settings))
    found = report(tmp_path, ANTHROPIC_API_KEY=SECRET, ANTHROPIC_BASE_URL="http://127.0.0.1:8000")
    assert leaves(found) == {
        "conversation": "127.0.0.1:8000 (this machine)",
        "MCP server away": "mcp.example:8443",
        "MCP server here": "the program some-server here",
        "team memory": "git.example",
        "own memory": "nowhere",
        "web pages": "any host",
        "commands": "any host",
        "telemetry": "nowhere",
    }
    assert leaves(report(tmp_path, ANTHROPIC_API_KEY=SECRET))["conversation"] == "api.anthropic.com"
    shown = nacre(tmp_path, "doctor", ANTHROPIC_API_KEY=SECRET)
    assert "api.anthropic.com" in shown.stdout and SECRET not in shown.stdout + shown.stderr
    traced = report(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=f"https://me:{SECRET}@traces.example:4318")
    assert leaves(traced)["telemetry"] == "traces.example:4318" and SECRET not in json.dumps(traced)


def test_doctor_tells_how_memory_is(tmp_path: Path) -> None:
    """M16c, M27: where, how many, what a conversation does not get, and why nothing can be written."""
    nacre(tmp_path, "memory", "save", "Deploys happen on Monday.", "--name", "Deploy day")
    found = report(tmp_path)
    facts = found["memory_facts"]
    assert isinstance(facts, dict)
    assert (facts["entries"], facts["source"], facts["not_loaded"]) == (1, "default", [])
    assert facts["decided_by"] == "home: environment NACRE_HOME"
    directory = Path(str(facts["directory"]))
    lines = "".join(f"- [Deploy day](project_deploy_day.md) {n}\n" for n in range(250))
    (directory / "MEMORY.md").write_text("- x\n" * 250 + lines)
    (directory / "odd.md").write_bytes(b"\xff")
    found = report(tmp_path, code=1)
    facts = found["memory_facts"]
    assert isinstance(facts, dict)
    assert [row["file"] for row in facts["not_loaded"] if isinstance(row, dict)] == [  # type: ignore[union-attr]
        "MEMORY.md",
        "project_deploy_day.md",
        "odd.md",
    ]
    assert any("project_deploy_day.md, odd.md" in line for line in marked(found, "memory"))
    identity = directory.parent / "identity.json"
    identity.write_text(json.dumps({**json.loads(identity.read_text()), "format": 99}))
    assert any("format 99" in line for line in marked(report(tmp_path, code=1), "memory"))


def test_doctor_names_large_instructions_and_those_that_wait_for_consent(tmp_path: Path) -> None:
    """M23, M24."""
    (tmp_path / "project/.git").mkdir(parents=True)
    (tmp_path / "shared.md").write_text("Use tabs.")
    (tmp_path / "project/CLAUDE.md").write_text("@../shared.md\n")
    environ = {"NACRE_HOME": str(tmp_path / "home")}
    found = report(tmp_path / "project", **environ)
    assert marked(found, "instructions") == [
        f"{tmp_path}/shared.md is outside the project; `nacre instructions allow` lets it be included"
    ]
    (tmp_path / "project/AGENTS.md").write_text("x" * 40_001)
    assert any(
        "40,001 characters" in line
        for line in marked(report(tmp_path / "project", code=1, **environ), "instructions")
    )


def test_doctor_flags_credentials_in_sessions_by_kind_and_line(tmp_path: Path) -> None:
    """M27: never by value."""
    key = "AKIA" + "QX7ZP2M4N6R5T3WV"
    nacre(tmp_path, "-p", f"my key is {key}")
    found = report(tmp_path, code=1)
    (line,) = [line for line in marked(found, "secrets") if ":3: " in line]
    assert "AWS" in line and key not in json.dumps(found)


def sandbox_check(found: JsonObject) -> JsonObject:
    assert isinstance(found["checks"], list)
    row = next(row for row in found["checks"] if isinstance(row, dict) and row["name"] == "sandbox")
    assert isinstance(row, dict)
    return row


def test_the_sandbox_is_really_run(tmp_path: Path) -> None:
    """A program that ends without an error counts as one that works, and only that."""
    (folder := tmp_path / "bin").mkdir()
    (program := folder / "bwrap").write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    # The home of these tests is in the working directory, and would not be hidden.
    row = sandbox_check(report(tmp_path, PATH=path))
    assert (row["ok"], row["is_note"]) == (True, True)
    assert "but with --sandbox Bash would be refused here" in str(row["message"])
    row = sandbox_check(report(tmp_path, "--sandbox", code=1, PATH=path))
    assert "home is to be hidden" in str(row["message"])
    (work := tmp_path / "work").mkdir()
    elsewhere = {"PATH": path, "NACRE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path / "home")}
    row = sandbox_check(report(work, **elsewhere))
    assert (row["ok"], row["is_note"]) == (True, True)
    assert row["message"] == "off: commands can do what you can; bubblewrap works"
    found = report(work, "--sandbox", **elsewhere)
    assert sandbox_check(found)["message"] == "bubblewrap works"
    assert isinstance(found["leaves"], list)
    assert {
        "what": "commands",
        "to": "nowhere",
        "detail": "Bash runs in a sandbox without a network",
    } in found["leaves"]
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    row = sandbox_check(report(work, "--sandbox", code=1, **elsewhere))
    assert row["ok"] is False
    assert str(row["message"]).startswith(f"Bash is refused: {program} does not work here (No permissions")


def test_doctor_lists_what_the_sandbox_shows_and_what_is_missing(tmp_path: Path) -> None:
    """The option works after the command's name; nothing is created by the check."""
    (folder := tmp_path / "bin").mkdir()
    (program := folder / "bwrap").write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    (work := tmp_path / "work").mkdir()
    home = tmp_path / "home"
    environ = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "NACRE_HOME": str(home),
        "HOME": str(home),
        "NACRE_SANDBOX_READABLE": json.dumps([str(folder), "~/absent"]),
    }
    ended = nacre(work, "doctor", "--json", "--sandbox", **environ)
    found = json.loads(ended.stdout)
    assert found["sandbox"][str(work)] == "can be read and written"
    assert found["sandbox"][str(folder)] == "can be read"
    assert found["sandbox"]["network"] == "cannot be used"
    lines = [row["message"] for row in found["checks"] if row["name"] == "sandbox"]
    missing = (
        f"the settings name a directory that does not exist for the sandbox: sandbox.readable {home}/absent"
    )
    assert lines == ["bubblewrap works", missing]
    assert list(work.iterdir()) == []
    assert "in the sandbox" in nacre(work, "doctor", "--sandbox", **environ).stdout
    assert "sandbox" not in json.loads(nacre(work, "doctor", "--json", **environ).stdout)
    environ["NACRE_SANDBOX_READABLE"] = '["~nosuchuser/x"]'
    ended = nacre(work, "doctor", "--json", "--sandbox", **environ)
    assert "'~nosuchuser/x' names no directory" in ended.stdout
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize("place", ["home", "/tmp", "settings"])
def test_doctor_says_where_bash_would_be_refused(tmp_path: Path, place: str) -> None:
    (folder := tmp_path / "bin").mkdir()
    (program := folder / "bwrap").write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    (home := tmp_path / "home").mkdir()
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "NACRE_HOME": str(home / ".nacre"), "HOME": str(home)}
    if place == "settings":
        environ["NACRE_SANDBOX_WRITABLE"] = '["~"]'
    cwd = {"home": home, "/tmp": Path("/tmp"), "settings": folder}[place]
    row = sandbox_check(report(cwd, "--sandbox", code=1, **environ))
    assert row["ok"] is False
    assert str(row["message"]).startswith("Bash is refused: ") and "is to be hidden" in str(row["message"])


def test_a_rule_that_matches_nothing_is_noted(tmp_path: Path) -> None:
    """A typo must not look like protection."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / ".env").write_text("x")
    rules = ["Raed(.env)", "Read(.evn)", "Read(/etc/passwd)", "Read(.env)", "Edit(src/**)", "Bash(rm:*)"]
    rules += ["Read(//etc/passwd)", "mcp__tracker", "Read"]
    found = report(tmp_path, NACRE_PERMISSIONS_DENY=json.dumps(rules))
    assert isinstance(found["checks"], list)
    rows = [one for one in found["checks"] if isinstance(one, dict) and one["name"] == "permissions"]
    assert all(one["ok"] and one["is_note"] for one in rows)
    noted = [str(one["message"]).partition(" (")[0] for one in rows]
    assert noted == ["Raed(.env)", "Read(.evn)", "Read(/etc/passwd)", "mcp__tracker"]


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "by the local index alone: there is no model"),
        (
            {"ANTHROPIC_API_KEY": SECRET},
            "by the local index and claude-haiku-5-5, for up to 400 ms a message: ANTHROPIC_API_KEY is set",
        ),
        (
            {"OPENAI_API_KEY": SECRET},
            "by the local index and gpt-6-luna, for up to 400 ms a message: OPENAI_API_KEY is set",
        ),
        (
            {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "NACRE_MODEL": "openai:own-model"},
            "by the local index alone: no small model is known beside own-model; "
            "set smallModel to let one choose",
        ),
        ({"NACRE_RECALL_SELECTOR": "0"}, "by the local index alone: switches.recall_selector is false"),
        ({"NACRE_RECALL": "0"}, "off"),
        (
            {"ANTHROPIC_API_KEY": SECRET, "NACRE_SMALL_MODEL": "claude-haiku-4-5"},
            "by the local index and claude-haiku-4-5, for up to 400 ms a message: named in the settings",
        ),
    ],
)
def test_it_says_whether_a_small_model_chooses_memories_and_why(
    environ: dict[str, str], message: str, tmp_path: Path
) -> None:
    """R5"""
    checks = report(tmp_path, **environ)["checks"]
    assert isinstance(checks, list)
    (found,) = [row for row in checks if isinstance(row, dict) and row["name"] == "recall"]
    assert (found["ok"], found["message"]) == (True, message)


@pytest.mark.parametrize(
    ("environ", "models"),
    [
        ({"ANTHROPIC_API_KEY": SECRET}, ["claude-haiku-5-5"]),
        ({"ANTHROPIC_API_KEY": SECRET, "NACRE_SMALL_MODEL": "claude-haiku-4-5"}, ["claude-haiku-4-5"]),
        ({"ANTHROPIC_API_KEY": SECRET, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, []),
    ],
    ids=["the vendor's", "a named one", "another server"],
)
def test_it_says_which_small_model_gets_new_messages(
    environ: dict[str, str], models: list[str], tmp_path: Path
) -> None:
    """F7: notes and memories are written by it where that costs less."""
    settings = load(tmp_path, {"HOME": str(tmp_path), **environ}, cli={"model": "claude-opus-5-5"})
    ways = ways_out(settings, choose("claude-opus-5-5", settings.environ))
    assert [one.detail.partition(":")[0] for one in ways if one.what == "side work"] == models
