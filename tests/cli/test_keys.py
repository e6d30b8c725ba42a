from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.cli.main import main


def _json(capsys: pytest.CaptureFixture[str], *args: str) -> object:
    assert main([*args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_key_is_created_listed_without_its_secret_and_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = _json(
        capsys, "keys", "create", "--tenant", "local", "--user", "ada", "--role", "reader", "--expires", "3",
        "--space", "user", "--local",
    )  # fmt: skip
    assert isinstance(made, dict)
    assert {name: made[name] for name in ("tenant", "user", "role", "spaces", "local")} == {
        "tenant": "local", "user": "ada", "role": "reader", "spaces": ["user"], "local": True,
    }  # fmt: skip
    listed = _json(capsys, "keys", "list")
    assert listed == [{name: value for name, value in made.items() if name != "key"}]
    assert _json(capsys, "keys", "revoke", made["id"]) == {"revoked": made["id"]}
    assert _json(capsys, "keys", "list") == []
    assert main(["keys", "revoke", made["id"]]) == 1
    assert "there is no key" in capsys.readouterr().err


def test_without_a_name_the_key_is_for_this_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOGNAME", "grace")
    made = _json(capsys, "keys", "create")
    assert isinstance(made, dict)
    assert (made["user"], made["role"], made["expires"]) == ("grace", "member", None)


@pytest.mark.parametrize("space", ["projct:web", "project:", "everything", ""])
def test_a_space_that_cannot_exist_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], space: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["keys", "create", "--space", space]) == 3
    assert "is no space; use user, project:NAME" in capsys.readouterr().err
