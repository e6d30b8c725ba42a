from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.cli.main import main
from nacre.store.postgres.database import SERVER_ROLE
from tests.postgres import as_ordinary_owner, execute, new_database


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
    assert main(["keys", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == [made["id"], "acme", "ada"]
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


def test_a_home_is_copied_into_a_database_and_from_there_to_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2: with a dry run; repeated, it leaves out what is there."""
    home = tmp_path / "home"
    project = tmp_path / "shop"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("NACRE_HOME", str(home))
    assert main(["memory", "save", "I prefer tabs.", "--scope", "user"]) == 0
    assert main(["memory", "save", "The build server is heron.", "--name", "Build server"]) == 0
    assert main(["-p", "hello"]) == 0
    monkeypatch.setenv("NACRE_DATABASE", new_database())
    assert main(["tenants", "create", "acme"]) == 0
    capsys.readouterr()
    command = ["db", "import", str(home), "--tenant", "acme", "--user", "ada", "--json"]
    assert main([*command, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert main(command) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["spaces"] == planned["spaces"]
    assert {one["name"]: one["count"] for one in done["spaces"]} == {"user": 1, "project:shop": 1}
    assert [one["count"] > 0 for one in done["sessions"]] == [True]
    assert main(command) == 0
    again = json.loads(capsys.readouterr().out)
    assert {one["count"] for kind in ("spaces", "sessions") for one in again[kind]} == {0}
    assert main(["db", "import", str(home), "--tenant", "none", "--user", "ada"]) != 0
    assert "nacre tenants create" in capsys.readouterr().err

    assert main(["db", "backup", str(tmp_path / "all.gz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"]["sessions"] == 1
    assert main(["tenants", "export", "acme", str(tmp_path / "ada.gz"), "--user", "ada"]) == 0
    capsys.readouterr()
    assert main(["tenants", "erase", "acme", "--user", "ada", "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left"] == {}
    assert main(["tenants", "import", str(tmp_path / "ada.gz")]) == 0
    monkeypatch.setenv("NACRE_DATABASE", new_database())
    assert main(["db", "restore", str(tmp_path / "all.gz")]) == 0
    capsys.readouterr()
    assert main(["tenants", "list"]) == 0
    assert capsys.readouterr().out == "acme\n"


def test_a_schema_of_another_version_is_not_served(capsys: pytest.CaptureFixture[str]) -> None:
    address = new_database()
    execute(address, "INSERT INTO nacre.schema_versions VALUES (9999, 'future')")
    assert main(["serve", "--database", address, "--json"]) != 0
    assert "update nacre" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["db", "backup", "all.gz"], ["tenants", "list"], ["keys", "list"]])
def test_the_servers_login_is_told_that_it_sees_no_tenants(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty backup would look like one."""
    monkeypatch.chdir(tmp_path)
    address = as_ordinary_owner()
    assert main(["tenants", "create", "acme", "--database", address]) == 0
    owner = address.partition("//")[2].partition(":")[0]
    login = f"{owner}_app"
    execute(address.replace(f"{owner}:@", "postgres:@"), f"CREATE ROLE {login} LOGIN IN ROLE {SERVER_ROLE}")
    capsys.readouterr()
    server = address.replace(f"{owner}:@", f"{login}:@")
    assert main([*command, "--database", server]) != 0
    assert "address of the tables' owner" in capsys.readouterr().err
    assert not (tmp_path / "all.gz").exists()
