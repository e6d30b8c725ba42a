"""`nacre doctor`: origins, paths, model, keys that are never shown, and an exit code that tells."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from nacre import __version__
from nacre.messages.blocks import JsonObject
from nacre.settings import trust
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
        "disk",
    ]
    assert isinstance(extras, dict) and set(extras) == {"anthropic", "openai", "tui", "mcp", "embed"}
    assert not (tmp_path / "home").exists()  # looking changes nothing


def test_each_value_is_shown_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/settings.json").write_text(
        '{"maxTurns": 7, "smallModel": "s", "switches": {"notes": false}}'
    )
    (tmp_path / ".nacre").mkdir()
    (tmp_path / ".nacre/settings.json").write_text('{"smallModel": "p"}')
    found = report(tmp_path, "--model", "claude-haiku-4-5", NACRE_CACHE_TTL="1h", ANTHROPIC_API_KEY=SECRET)
    assert {
        name: in_force(found, name) for name in ("model", "maxTurns", "smallModel", "cacheTtl", "retry.tries")
    } == {
        "model": ("claude-haiku-4-5", "command line"),
        "maxTurns": (7, f"user {tmp_path}/home/settings.json"),
        "smallModel": ("p", f"project {tmp_path}/.nacre/settings.json"),
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
