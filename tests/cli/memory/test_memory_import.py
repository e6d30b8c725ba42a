"""`nacre memory import` and `export`: nothing is lost, nothing overwritten, secrets stay out."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from nacre.cli.main import main

Capture = pytest.CaptureFixture[str]
SECRET = "AKIA" + "QYLPMN5HFIQR7BBB"
DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "claude_memory"
TEA = (
    b"---\r\nname: Tea\r\ndescription: user: likes tea\r\nmetadata: \r\n  type: user\r\n---\r\n\r\nGreen.\r\n"
)
BARE = b"No frontmatter at all, and no newline at the end"
INDEX = b"# Mine\n\n- [Tea](tea.md) \xe2\x80\x94 what to pour\n- [Bare](bare.md) \xe2\x80\x94 a note\n"
MEM0 = [
    {
        "id": "m-1",
        "memory": "Likes hiking in the Alps.",
        "metadata": {"type": "user", "app": "walks"},
        "user_id": "alex",
        "created_at": "2025-03-01T10:00:00-08:00",
        "updated_at": "2025-04-01T10:00:00-08:00",
    },
    {"id": "m-2", "text": "Works at a bakery in Lyon.", "metadata": None},
    {"id": "m-3", "memory": ""},
]


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A memory folder as another program left it."""
    return tree(tmp_path / "theirs", {"MEMORY.md": INDEX, "tea.md": TEA, "bare.md": BARE})


def tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def content(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.md")}


def document(capture: Capture, *args: str, code: int = 0) -> Any:
    capture.readouterr()
    ended = main(["memory", *args, "--json"])
    out, err = capture.readouterr()
    assert ended == code, err
    return json.loads(out)


def directory(capture: Capture) -> Path:
    return Path(document(capture, "path")["path"])


def packed(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def test_a_memory_folder_comes_in_byte_for_byte_in_one_commit(
    here: Path, theirs: Path, capsys: Capture
) -> None:
    """M1, M11: odd frontmatter, line ends and files without any stay as they are, and so does the index."""
    done = document(capsys, "import", str(theirs))
    assert done["files"] == ["bare.md", "tea.md"]
    assert content(directory(capsys)) == content(theirs)
    (commit,) = document(capsys, "log")
    assert (commit["author"], commit["commit"]) == ("import", done["commit"])
    document(capsys, "undo")
    assert content(directory(capsys)) == {}


def test_a_second_import_changes_nothing(here: Path, theirs: Path, capsys: Capture) -> None:
    document(capsys, "import", str(theirs))
    again = document(capsys, "import", str(theirs))
    assert (again["files"], sorted(again["same"]), again["commit"]) == ([], ["bare.md", "tea.md"], "")


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    home: Path, here: Path, theirs: Path, capsys: Capture
) -> None:
    told = document(capsys, "import", str(theirs), "--dry-run")
    assert list(home.iterdir()) == []
    done = document(capsys, "import", str(theirs))
    assert told | {"commit": done["commit"], "dry_run": False} == done


def test_a_clash_gets_a_new_name_and_its_line(here: Path, theirs: Path, capsys: Capture) -> None:
    """What was there stays as it was; their hook comes along."""
    document(capsys, "save", "Black, with milk.", "--file", "tea")
    before = (directory(capsys) / "tea.md").read_bytes()
    done = document(capsys, "import", str(theirs))
    assert done["renamed"] == [{"was": "tea.md", "file": "tea_2.md"}]
    assert (directory(capsys) / "tea.md").read_bytes() == before
    assert (directory(capsys) / "tea_2.md").read_bytes() == TEA
    index = (directory(capsys) / "MEMORY.md").read_text()
    assert "(tea_2.md) — what to pour" in index
    assert "(bare.md) — a note" in index
    assert index.count("(tea.md)") == 1


def test_the_words_of_an_index_are_not_lost_where_there_is_one_already(
    here: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Many keep their facts in the index itself: they become a memory of their own, once."""
    facts = b"# Facts\n\nThe build needs Java 21.\n"
    document(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    source = tree(tmp_path / "facts", {"MEMORY.md": facts})
    done = document(capsys, "import", str(source))
    assert done["renamed"] == [{"was": "MEMORY.md", "file": "imported_index.md"}]
    assert document(capsys, "show", "imported_index")["body"] == facts.decode()
    assert document(capsys, "import", str(source))["files"] == []


def test_what_says_it_is_untrusted_loses_its_line(here: Path, theirs: Path, capsys: Capture) -> None:
    """M8, M16b: the file stays as it is, but no index that reaches a prompt names it."""
    (theirs / "tea.md").write_bytes(TEA.replace(b"metadata", b"origin: untrusted\r\nmetadata"))
    document(capsys, "import", str(theirs))
    assert (directory(capsys) / "tea.md").read_bytes() == (theirs / "tea.md").read_bytes()
    assert {row["file"]: row["indexed"] for row in document(capsys, "list")} == {
        "tea.md": False,
        "bare.md": True,
    }


def test_a_packed_folder_is_found_inside_and_nothing_leaves_it(
    home: Path, here: Path, tmp_path: Path, capsys: Capture
) -> None:
    """M6: the rest of the archive is not memory, and a name that leads out is skipped."""
    archive = packed(
        tmp_path / "all.tar.gz",
        {
            "x/memory/MEMORY.md": INDEX,
            "x/memory/tea.md": TEA,
            "x/memory/bare.md": BARE,
            "x/CLAUDE.md": b"rules",
            "../../escape.md": b"out",
        },
    )
    done = document(capsys, "import", str(archive))
    assert [each["file"] for each in done["skipped"]] == ["../../escape.md", "1 more"]
    assert content(directory(capsys)) == {"MEMORY.md": INDEX, "tea.md": TEA, "bare.md": BARE}
    assert not list(tmp_path.rglob("escape*"))


def test_notes_without_frontmatter_become_one_memory_each(
    here: Path, tmp_path: Path, capsys: Capture
) -> None:
    notes = tree(
        tmp_path / "notes",
        {
            "Release Checklist.md": b"# How we release\n\nTag, wait for the build, announce.\n",
            "sub/kept.md": b"---\nname: Kept\n---\n\nAs it is.\n",
            "empty.md": b"\n",
        },
    )
    done = document(capsys, "import", str(notes), code=1)
    assert done["files"] == ["release_checklist.md", "sub/kept.md"]
    assert done["refused"] == [{"file": "empty.md", "why": "is empty"}]
    rows = {row["file"]: row for row in document(capsys, "list")}
    assert rows["release_checklist.md"]["name"] == "How we release"
    assert rows["release_checklist.md"]["indexed"]
    assert (directory(capsys) / "sub/kept.md").read_bytes() == b"---\nname: Kept\n---\n\nAs it is.\n"
    assert document(capsys, "import", str(notes), code=1)["files"] == []
    one = document(capsys, "import", str(notes / "Release Checklist.md"))
    assert one["same"] == ["Release Checklist.md"]


@pytest.mark.parametrize(
    "shape", [lambda items: items, lambda items: {"results": items}], ids=["list", "dict"]
)
def test_facts_of_mem0_are_untrusted_and_keep_what_they_know(
    here: Path, tmp_path: Path, capsys: Capture, shape: Any
) -> None:
    """M16b: found on request, never in the index that reaches every prompt."""
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps(shape(MEM0)))
    done = document(capsys, "import", str(path))
    assert done["files"] == ["user_likes_hiking_alps.md", "works_bakery_lyon.md"]
    assert [each["file"] for each in done["skipped"]] == ["mem0.json, item 3"]
    rows = {row["file"]: row for row in document(capsys, "list")}
    assert {(row["origin"], row["indexed"]) for row in rows.values()} == {("untrusted", False)}
    alps = document(capsys, "show", "user_likes_hiking_alps")
    assert (alps["type"], alps["body"], alps["sources"]) == (
        "user",
        "Likes hiking in the Alps.\n",
        ["mem0 m-1"],
    )
    assert alps["created"] == "2025-03-01T18:00:00+00:00"
    assert alps["modified"] == "2025-04-01T18:00:00+00:00"
    assert "walks" in (directory(capsys) / "user_likes_hiking_alps.md").read_text()
    assert document(capsys, "import", str(path))["files"] == []
    assert [each["kind"] for each in document(capsys, "lint", code=1)["problems"] if each["fixable"]] == []


def test_a_fact_that_is_no_text_comes_in_as_far_as_it_goes(
    here: Path, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "mem0.json"
    path.write_text('[{"memory": "half a sign: \\ud800", "metadata": {"odd": "\\udfff"}}, 7]')
    done = document(capsys, "import", str(path))
    assert document(capsys, "show", done["files"][0])["body"] == "half a sign: ?\n"


def test_an_index_alone_is_an_index(here: Path, theirs: Path, capsys: Capture) -> None:
    done = document(capsys, "import", str(theirs / "MEMORY.md"))
    assert (done["files"], content(directory(capsys))) == ([], {"MEMORY.md": INDEX})


def test_facts_that_the_person_vouches_for_are_listed(here: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps(MEM0))
    document(capsys, "import", str(path), "--trust")
    assert {(row["origin"], row["indexed"]) for row in document(capsys, "list")} == {("user", True)}


def test_a_secret_is_refused_with_file_and_line_and_the_rest_comes_in(
    here: Path, theirs: Path, capsys: Capture
) -> None:
    """M16: and no pointer leads to what stayed out."""
    (theirs / "tea.md").write_bytes(TEA + f"key {SECRET}\n".encode())
    assert main(["memory", "import", str(theirs)]) == 1
    told = capsys.readouterr().err
    assert "tea.md holds AWS access key in line 9" in told
    assert SECRET not in told
    assert set(content(directory(capsys))) == {"MEMORY.md", "bare.md"}
    assert "tea.md" not in (directory(capsys) / "MEMORY.md").read_text()
    document(capsys, "import", str(theirs), "--allow-secret")
    assert set(content(directory(capsys))) == {"MEMORY.md", "bare.md", "tea.md"}


def test_a_secret_in_a_file_name_is_refused(here: Path, theirs: Path, capsys: Capture) -> None:
    """M16: names are shown in the index as well."""
    (theirs / f"key_{SECRET}.md").write_bytes(TEA)
    (theirs / "wifi-password-blueWhale88.md").write_text("A plain note.\n")
    assert main(["memory", "import", str(theirs)]) == 1
    told = capsys.readouterr().err
    assert told.count("in the file name") == 2
    assert set(content(directory(capsys))) == {"MEMORY.md", "bare.md", "tea.md"}


def test_what_is_no_memory_is_skipped_and_named(here: Path, theirs: Path, capsys: Capture) -> None:
    """Bad input: links, pipes, giants and other encodings neither block nor come in."""
    os.mkfifo(theirs / "pipe.md")
    (theirs / "link.md").symlink_to("/etc/passwd")
    (theirs / "huge.md").write_bytes(b"x" * 1_000_001)
    (theirs / "latin.md").write_bytes(b"caf\xe9\n")
    done = document(capsys, "import", str(theirs), code=1)
    assert {each["file"] for each in done["skipped"]} == {"pipe.md", "link.md", "huge.md"}
    assert [each["file"] for each in done["refused"]] == ["latin.md"]
    assert done["files"] == ["bare.md", "tea.md"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.json", b"{"),
        ("x.json", b'{"a": 1}'),
        ("x.tar.gz", b"no archive"),
        ("x.bin", b"\0"),
        ("none", None),
    ],
)
def test_what_cannot_be_read_is_one_line(
    here: Path, tmp_path: Path, capsys: Capture, name: str, data: bytes | None
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    assert main(["memory", "import", str(tmp_path / name)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_several_memory_folders_at_once_are_a_question_back(
    here: Path, tmp_path: Path, capsys: Capture
) -> None:
    tree(tmp_path / "projects", {"a/memory/MEMORY.md": INDEX, "b/memory/MEMORY.md": INDEX})
    assert main(["memory", "import", str(tmp_path / "projects")]) == 1
    assert "name one of them" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["out", "out.tar.gz"])
def test_an_export_is_byte_for_byte_and_comes_back_the_same(
    here: Path, theirs: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    document(capsys, "import", str(theirs))
    done = document(capsys, "export", target)
    assert done["files"] == ["MEMORY.md", "bare.md", "tea.md"]
    assert Path(target).stat().st_mode & 0o077 == 0
    elsewhere = here.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    document(capsys, "import", str(here / target))
    assert content(directory(capsys)) == content(theirs)


@pytest.mark.parametrize("target", ["out", "out.tar.gz"])
def test_an_export_overwrites_only_when_told_to(
    here: Path, theirs: Path, capsys: Capture, target: str
) -> None:
    document(capsys, "import", str(theirs))
    document(capsys, "export", target)
    document(capsys, "save", "Black, with milk.", "--file", "tea")
    before = content(here) if target == "out" else Path(target).read_bytes()
    assert main(["memory", "export", target]) == 1
    assert (content(here) if target == "out" else Path(target).read_bytes()) == before
    document(capsys, "export", target, "--force")
    assert (content(here) if target == "out" else Path(target).read_bytes()) != before
    assert not list(here.rglob("*.tmp"))


def test_secrets_leave_only_unredacted_and_never_unsaid(here: Path, capsys: Capture) -> None:
    """M27."""
    document(
        capsys, "save", f"the key is {SECRET} for now", "--allow-secret", "--file", "key", "--name", "Key"
    )
    assert main(["memory", "export", "plain", "--keep-secrets"]) == 0
    assert "key.md" in capsys.readouterr().err
    assert SECRET in Path("plain/key.md").read_text()
    assert "key.md" in document(capsys, "export", "clean")["redacted"]
    assert all(SECRET.encode() not in data for data in content(Path("clean")).values())


def test_an_export_into_the_memory_itself_is_refused(here: Path, theirs: Path, capsys: Capture) -> None:
    document(capsys, "import", str(theirs))
    before = content(directory(capsys))
    assert main(["memory", "export", str(directory(capsys) / "copy"), "--force"]) == 1
    assert content(directory(capsys)) == before


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.skipif(
    not DATA.is_dir(), reason="needs the folder of real memories, shared/data/claude_memory beside the repo"
)
def test_real_folders_go_in_and_out_unchanged(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M1, M11."""
    for archive in sorted(DATA.glob("*.tar.gz")):
        work = tmp_path / archive.stem
        work.mkdir()
        monkeypatch.chdir(work)
        with tarfile.open(archive) as opened:
            opened.extraction_filter = getattr(tarfile, "data_filter", None)  # early 3.11 has none
            opened.extractall(work / "unpacked")
        document(capsys, "import", str(archive))
        document(capsys, "export", "out")
        assert content(work / "out") == content(work / "unpacked" / "memory")
        assert document(capsys, "import", str(work / "unpacked"))["commit"] == ""
