"""`nacre memory sync`: two clones of one repository, two homes, the real program and real git (M18)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import begin, world
from tests.memory.clones import BRANCH, bare_repository, clone, git

SECRET = "AKIA" + "QYLPMN5HFIQR7BBB"


@dataclass(frozen=True)
class Person:
    """Somebody with a clone and a home of their own."""

    project: Path
    home: Path
    remote: str = "origin"

    def start(self, *args: str) -> subprocess.Popen[str]:
        environ = world(
            self.home, NACRE_HOME=str(self.home), NACRE_MEMORY_TEAM="1", NACRE_MEMORY_TEAM_REMOTE=self.remote
        )
        if not self.remote:
            del environ["NACRE_MEMORY_TEAM_REMOTE"]
        return begin(
            [sys.executable, "-m", "nacre", "memory", *args], self.project, environ, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def said(self, *args: str, code: int = 0) -> tuple[str, str]:
        """What a command prints and tells on stderr, once it has ended with this code."""
        process = self.start(*args)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code, (args, out, err)
        return out, err

    def sync(self, *args: str, code: int = 0) -> Any:
        return json.loads(self.said("sync", "--json", *args, code=code)[0])

    def save(self, text: str, name: str) -> None:
        self.said("save", text, "--name", name, "--type", "project", "--scope", "team")

    @property
    def team(self) -> Path:
        return Path(self.said("path", "--scope", "team")[0].strip())

    @property
    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.team.rglob("*.md"))}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    return bare_repository(tmp_path / "shared.git")


@pytest.fixture
def ana(tmp_path: Path, shared: Path) -> Person:
    project = clone(shared, tmp_path / "ana/project")
    (project / "README").write_text("work\n")
    git("-C", str(project), "add", "README")
    git("-C", str(project), "commit", "--quiet", "-m", "first")
    git("-C", str(project), "push", "--quiet", "origin", "HEAD:main")
    return Person(project, tmp_path / "ana/home")


@pytest.fixture
def bo(tmp_path: Path, shared: Path, ana: Person) -> Person:
    return Person(clone(shared, tmp_path / "bo/project"), tmp_path / "bo/home")


@pytest.mark.slow
def test_two_clones_share_what_is_saved_changed_and_forgotten(ana: Person, bo: Person) -> None:
    ana.save("We deploy on Monday.", "Deploys")
    assert ana.said("sync")[0].splitlines() == ["pushed: MEMORY.md", "pushed: project_deploys.md"]
    pulled = bo.sync()
    assert pulled["pulled"] == ["MEMORY.md", "project_deploys.md"]
    assert bo.files == ana.files
    told = bo.said("undo", "--scope", "team", pulled["commit"])[0]
    assert "project_deploys.md" not in bo.files
    bo.said(*told.splitlines()[-1].split("`")[1].removeprefix("nacre memory ").split())
    bo.said("forget", "deploys", "--scope", "team")
    assert bo.sync()["withdrawn"] == ["project_deploys.md"]
    assert "forgotten here, as by others: project_deploys.md" in ana.said("sync")[0]
    assert ana.files == bo.files == {"MEMORY.md": "# Memory\n\n"}
    assert ana.said("sync")[0] == "Nothing to do: both sides are the same.\n"
    authors = [each["author"] for each in json.loads(ana.said("log", "--scope", "team", "--json")[0])]
    assert authors == ["team", "user"]


@pytest.mark.slow
def test_a_conflict_keeps_both_and_ends_with_code_1(ana: Person, bo: Person) -> None:
    ana.save("We deploy on Monday.", "Deploys")
    bo.save("We deploy on Friday.", "Deploys")
    ana.sync()
    out, err = bo.said("sync", code=1)
    (copy,) = [name for name in bo.files if "_theirs_" in name]
    assert (
        f"conflict: project_deploys.md was changed on both sides; yours keeps the name, theirs is {copy}"
        in err
    )
    assert "Traceback" not in out + err
    (bo.home / "cache").rename(bo.home / "cache-lost")  # all that is derived may be lost
    assert ana.sync()["conflicts"] == []
    again = bo.sync()
    assert [again[key] for key in ("pulled", "pushed", "deleted", "withdrawn", "conflicts")] == [[]] * 5
    assert ana.files == bo.files
    assert "Monday" in ana.files[copy]
    assert "Friday" in ana.files["project_deploys.md"]


def test_nothing_of_the_persons_own_repository_is_touched(ana: Person, shared: Path) -> None:
    project = str(ana.project)
    (ana.project / "README").write_text("changed\n")
    (ana.project / "new").write_text("staged\n")
    git("-C", project, "add", "new")
    told = ("status", "--porcelain=2", "--branch"), ("for-each-ref",), ("config", "--list", "--local")
    before = [git("-C", project, *words) for words in told]
    ana.save("We deploy on Monday.", "Deploys")
    ana.sync()
    assert [git("-C", project, *words) for words in told] == before
    assert git("-C", str(shared), "for-each-ref", "--format=%(refname)").split() == [
        "refs/heads/main", f"refs/heads/{BRANCH}",
    ]  # fmt: skip


@pytest.mark.slow
def test_everybody_at_once_loses_nothing(ana: Person, bo: Person) -> None:
    """Pushes race; who comes second starts anew on what the first left."""
    for number, person in enumerate((ana, bo, ana, bo)):
        person.save(f"Text number {number}.", f"Memory {number}")
    running = [person.start("sync") for person in (ana, bo) * 2]
    told = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0] * 4, told
    ana.sync()
    bo.sync()
    assert ana.files == bo.files
    assert {f"project_memory_{number}.md" for number in range(4)} <= set(ana.files)
    assert ana.files["MEMORY.md"].count("- [Memory") == 4


@pytest.mark.slow
def test_a_dry_run_changes_neither_side(ana: Person, bo: Person, shared: Path) -> None:
    ana.save("We deploy on Monday.", "Deploys")
    assert (
        ana.said("sync", "--dry-run")[0]
        == "would be pushed: MEMORY.md\nwould be pushed: project_deploys.md\n"
    )
    assert BRANCH not in git("-C", str(shared), "for-each-ref")
    ana.sync()
    assert bo.sync("--dry-run")["pulled"] == ["MEMORY.md", "project_deploys.md"]
    assert bo.files == {}


@pytest.mark.slow
def test_secrets_are_refused_by_save_move_import_and_sync(ana: Person, tmp_path: Path) -> None:
    """M16: always for the team; named by kind and line, never by value."""
    text = f"Key {SECRET}"
    _, err = ana.said("save", text, "--scope", "team", "--allow-secret", code=1)
    assert "the team's memory never holds one" in err
    ana.said("save", text, "--name", "Key", "--allow-secret")
    _, moved = ana.said("move", "key.md", "--to", "team", code=1)
    (tmp_path / "note.md").write_text(text)
    _, taken = ana.said("import", str(tmp_path / "note.md"), "--scope", "team", "--allow-secret", code=2)
    ana.save("Fine.", "Fine")
    (ana.team / "sneaked.md").write_text(text)
    out, refused = ana.said("sync", code=1)
    assert "refused: sneaked.md holds AWS access key in line 1; it is not shared" in refused
    assert "pushed: project_fine.md" in out
    assert SECRET not in err + moved + taken + refused + out
    assert "key.md" in ana.said("list")[0]


@pytest.mark.slow
def test_moving_to_the_team_and_back(ana: Person, bo: Person) -> None:
    """M7b, M16b, M18: what is about a person stays, what nobody vouches for needs a word."""
    ana.said("save", "We deploy on Monday.", "--name", "Deploys", "--type", "project")
    ana.said("save", "Likes tea.", "--name", "Tea", "--type", "user", "--scope", "user")
    assert "always private" in ana.said("move", "tea", "--to", "team", code=1)[1]
    assert "shares it with all members" in ana.said("move", "deploys", "--to", "team")[0]
    assert "deploys" not in ana.said("list")[0]
    ana.sync()
    bo.sync()
    bo.said("move", "deploys", "--to", "project")
    bo.sync()
    assert ana.sync()["deleted"] == ["project_deploys.md"]
    assert "project_deploys.md" in bo.said("list")[0]
    project = Path(bo.said("path")[0].strip())
    (project / "web.md").write_text("---\nname: Web\norigin: untrusted\n---\n\nA page said so.\n")
    assert "--trust" in bo.said("move", "web", "--to", "team", code=1)[1]
    bo.said("move", "web", "--to", "team", "--trust")
    assert "web.md" in bo.sync()["pushed"]
    assert "origin" not in bo.files["web.md"]
    bo.said("save", "Mine.", "--name", "Web", "--type", "project")
    bo.said("save", "Mine.", "--name", "Web", "--type", "user", "--scope", "user")
    assert "--from" in bo.said("move", "web", "--to", "team", code=1)[1]
    assert "no memory matches" in bo.said("move", "nothing", "--to", "team", code=1)[1]
    bo.said("move", "web", "--to", "team", "--from", "team", code=2)


@pytest.mark.slow
def test_a_purge_says_that_the_shared_place_keeps_it(ana: Person, bo: Person) -> None:
    """M14b: what is left is told, and nobody is told that nothing is."""
    ana.save("We deploy on Monday.", "Deploys")
    ana.sync()
    bo.sync()
    out, err = ana.said("forget", "project_deploys.md", "--purge", "--yes", "--scope", "team", code=1)
    assert "left: memory.teamRemote" in err
    assert "nothing was found" not in out
    ana.sync()
    assert bo.sync()["deleted"] == ["project_deploys.md"]


@pytest.mark.slow
def test_the_projects_own_scope_knows_nothing_of_the_teams(ana: Person) -> None:
    """M18: list, lint, history and search are apart."""
    ana.save("We deploy on Monday.", "Deploys")
    assert ana.said("list")[0].startswith("There are no memories yet")
    assert json.loads(ana.said("lint", "--json")[0])["problems"] == []
    assert json.loads(ana.said("log", "--json")[0]) == []
    ana.said("search", "deploy", code=1)
    assert "project_deploys.md" in ana.said("list", "--scope", "team")[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("remote", "code", "words"),
    [
        ("", 3, "set memory.teamRemote"),
        ("upstream", 3, "no git remote called 'upstream'"),
        ("--upload-pack=x", 3, "nothing that git may be given"),
        ("ext::sh -c x", 3, "nothing that git may be given"),
        ("/nowhere/at/all.git", 1, "cannot be reached"),
        ("folder:/nowhere/at/all", 1, "cannot be reached"),
    ],
)
def test_what_is_wrong_is_one_line_that_says_what_to_do(
    ana: Person, remote: str, code: int, words: str
) -> None:
    person = Person(ana.project, ana.home, remote)
    person.save("We deploy on Monday.", "Deploys")
    out, err = person.said("sync", code=code)
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
    assert "project_deploys.md" in person.files


def test_a_hostile_branch_is_named_and_leads_nowhere(ana: Person, shared: Path, tmp_path: Path) -> None:
    where = ("-C", str(shared))
    evil = git(*where, "hash-object", "-w", "--stdin", stdin=b"evil\n")
    inner = git(*where, "mktree", stdin=f"100644 blob {evil}\tevil.md\n".encode())
    rows = f"040000 tree {inner}\t..\n120000 blob {evil}\tlink.md\n100644 blob {evil}\tok.md\n"
    top = git(*where, "mktree", stdin=rows.encode())
    git(*where, "update-ref", f"refs/heads/{BRANCH}", git(*where, "commit-tree", top, "-m", "x"))
    out, err = ana.said("sync", code=1)
    assert "refused: ../evil.md has no name for a memory" in err
    assert "refused: link.md is a symlink" in err
    assert "pulled: ok.md" in out
    assert [path.name for path in tmp_path.rglob("evil.md")] == []


def test_a_shared_folder_does_as_well(ana: Person, bo: Person, tmp_path: Path) -> None:
    share = tmp_path / "share"
    share.mkdir()
    one, other = (Person(each.project, each.home, f"folder:{share}") for each in (ana, bo))
    one.save("We deploy on Monday.", "Deploys")
    one.sync()
    assert other.sync()["pulled"] == ["MEMORY.md", "project_deploys.md"]
    assert (share / "project_deploys.md").read_text() == other.files["project_deploys.md"]
