"""Whose memory a folder holds, and in which format (M2, M27)."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import StoreError
from nacre.memory.files.identity import MAX_DIRECTORIES, Identity, claim, objection, read_identity
from nacre.memory.files.location import MemoryPaths, locate, prepare, user_location
from nacre.memory.files.location import claim as claim_location

ROOT = Path("/work/project")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path)) / "folder/identity.json"


def test_a_claim_names_root_and_working_directories(file: Path) -> None:
    """M2: each directory once, the latest last."""
    for cwd in ("/work/project", "/work/tree", "/work/project"):
        claim(file, root=ROOT, cwd=Path(cwd))
    expected = Identity(format=1, root="/work/project", directories=("/work/project", "/work/tree"))
    assert read_identity(file) == expected
    assert json.loads(file.read_text()) == {
        "format": 1,
        "root": "/work/project",
        "directories": ["/work/project", "/work/tree"],
    }
    assert list(file.parent.iterdir()) == [file]


def test_the_identity_is_for_its_owner_alone(file: Path) -> None:
    """M27: 0600 in 0700."""
    claim(file, root=ROOT, cwd=ROOT)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (file, file.parent)] == [0o600, 0o700]


def test_only_the_latest_directories_are_kept(file: Path) -> None:
    """M2: worktrees come and go; the file stays small."""
    file.parent.mkdir()
    many = [f"/trees/{number}" for number in range(MAX_DIRECTORIES)]
    file.write_text(json.dumps({"format": 1, "root": str(ROOT), "directories": many}))
    claim(file, root=ROOT, cwd=Path("/trees/new"))
    found = read_identity(file)
    assert found is not None
    assert found.directories == (*many[1:], "/trees/new")


def test_what_others_wrote_into_the_file_is_kept(file: Path) -> None:
    """M27."""
    file.parent.mkdir()
    file.write_text(json.dumps({"note": "mine", "format": 1, "root": str(ROOT)}))
    claim(file, root=ROOT, cwd=ROOT)
    assert json.loads(file.read_text())["note"] == "mine"


def test_a_newer_format_is_read_and_never_written(file: Path) -> None:
    """M27: and the reason says to update."""
    file.parent.mkdir()
    text = json.dumps({"format": 2, "root": str(ROOT), "something": "new"})
    file.write_text(text)
    assert read_identity(file) == Identity(format=2, root=str(ROOT))
    with pytest.raises(StoreError, match="update nacre"):
        claim(file, root=ROOT, cwd=ROOT)
    assert file.read_text() == text


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "{}", '{"format": "1", "root": "/a"}', '{"format": true, "root": "/a"}',
     '{"format": 0, "root": "/a"}', '{"format": 1, "root": 5}', "[" * 100_000, " " * 2_000_000],
)  # fmt: skip
def test_an_identity_that_cannot_be_understood_is_left_alone(file: Path, text: str) -> None:
    """M27: it could be anybody's; the line says what to do."""
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(StoreError, match="correct it or move it away"):
        claim(file, root=ROOT, cwd=ROOT)
    assert "\n" not in str(objection(file, ROOT))
    assert file.read_text() == text


def test_an_identity_that_is_no_regular_file_is_refused_without_waiting(file: Path) -> None:
    """M27: a pipe never blocks, a link is not followed."""
    file.parent.mkdir()
    os.mkfifo(file)
    with pytest.raises(StoreError):
        claim(file, root=ROOT, cwd=ROOT)
    file.unlink()
    file.symlink_to(file.parent / "elsewhere.json")
    with pytest.raises(StoreError):
        claim(file, root=ROOT, cwd=ROOT)
    assert not (file.parent / "elsewhere.json").exists()


def test_of_many_roots_that_claim_at_once_exactly_one_wins(file: Path) -> None:
    """M2."""

    def attempt(number: int) -> str:
        try:
            return claim(file, root=Path(f"/root/{number}"), cwd=Path(f"/root/{number}")).root
        except StoreError:
            return ""

    with ThreadPoolExecutor(8) as pool:
        winners = [each for each in pool.map(attempt, range(200)) if each]
    found = read_identity(file)
    assert found is not None
    assert winners == [found.root]
    assert list(file.parent.iterdir()) == [file]


@given(root=st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_any_path_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, root: str) -> None:
    """M2: also one that is no valid text."""
    place = tmp_path_factory.mktemp("any") / "identity.json"
    path = Path(os.fsdecode(b"/\xff/" + root.encode()))
    claim(place, root=path, cwd=Path("/"))
    found = read_identity(place)
    assert found is not None
    assert found.belongs_to(path)


def test_where_case_does_not_count_another_spelling_is_the_same_root(tmp_path: Path) -> None:
    """M2: known by what it is; here a link has the other spelling."""
    (tmp_path / "Project").mkdir()
    (tmp_path / "project").symlink_to(tmp_path / "Project")
    identity = Identity(format=1, root=str(tmp_path / "Project"))
    assert identity.belongs_to(tmp_path / "project")
    assert not identity.belongs_to(tmp_path / "PROJECT")


def test_memory_outside_the_projects_folder_has_its_identity_apart(tmp_path: Path) -> None:
    """M27: nothing of ours is put beside a directory that somebody else chose."""
    base = Path(os.path.realpath(tmp_path))
    (base / "p").mkdir()
    chosen = MemoryPaths(
        home=base / "me/.nacre", cwd=base / "p", user_home=base / "me", directory_setting="~/notes/memory"
    )
    for location in (locate(chosen), user_location(base / "me/.nacre")):
        assert prepare(location) is None
        claim_location(location, base / "p")
        assert location.identity_file.parent == location.cache
        assert read_identity(location.identity_file) == Identity(
            format=1, root=str(location.directory), directories=(str(base / "p"),)
        )
        assert list(location.directory.iterdir()) == []
    assert list((base / "me/notes").iterdir()) == [base / "me/notes/memory"]


def test_a_project_written_by_a_newer_nacre_is_read_only(tmp_path: Path) -> None:
    """M27: the directory is still found, and preparing it says why it cannot be written."""
    base = Path(os.path.realpath(tmp_path))
    (base / "p").mkdir()
    here = MemoryPaths(home=base / "me/.nacre", cwd=base / "p", user_home=base / "me")
    location = locate(here)
    claim_location(location, base / "p")
    location.identity_file.write_text(json.dumps({"format": 99, "root": str(base / "p")}))
    assert locate(here) == location
    assert "update nacre" in str(prepare(location))
