from __future__ import annotations

import json

import pytest

from nacre.cli.main import main
from tests.postgres import execute, new_database


def test_a_database_is_set_up_with_tenants_and_keys(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NACRE_DATABASE", new_database(migrated=False))
    assert main(["db", "check", "--json"]) == 1
    assert "nacre db migrate" in json.loads(capsys.readouterr().out)["problem"]
    assert main(["db", "migrate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["applied"][0] == "0001_memory"
    assert main(["db", "check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert main(["keys", "create", "--tenant", "acme"]) != 0
    assert "nacre tenants create" in capsys.readouterr().err
    assert main(["tenants", "create", "acme"]) == 0
    assert main(["tenants", "create", "acme"]) != 0
    assert "already" in capsys.readouterr().err
    assert main(["keys", "create", "--tenant", "acme", "--user", "ada", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["tenant"], made["user"], made["role"]) == ("acme", "ada", "member")
    assert main(["keys", "list", "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == [made["id"]]
    assert main(["keys", "revoke", made["id"]]) == 0
    assert main(["keys", "revoke", made["id"]]) != 0
    capsys.readouterr()
    assert main(["tenants", "list"]) == 0
    assert capsys.readouterr().out == "acme\n"


@pytest.mark.parametrize(
    "command",
    [["db", "migrate"], ["db", "check"], ["tenants", "list"], ["serve", "--json"], ["keys", "list"]],
)
@pytest.mark.parametrize(
    "address",
    ["not-an-address", "postgresql://ada:hunter2@127.0.0.1:1/nacre", "postgresql://ada:hunter2@[/x"],
)
def test_a_wrong_address_is_one_line_without_its_password(
    command: list[str], address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--database", address]) != 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert "hunter2" not in printed.err


def test_a_schema_of_another_version_is_not_served(capsys: pytest.CaptureFixture[str]) -> None:
    address = new_database()
    execute(address, "INSERT INTO nacre.schema_versions VALUES (9999, 'future')")
    assert main(["serve", "--database", address, "--json"]) != 0
    assert "update nacre" in capsys.readouterr().err
