"""Real memory directories: each opens, lists, lints and is edited byte for byte (M1, M8, M11)."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.checks.lint import fixes, lint
from nacre.memory.files.scan import head_fields, manifest_line, scan
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import MemoryIndex, load_index

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "claude_memory"

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(
        not DATA.is_dir(),
        reason="needs the folder of real memories, shared/data/claude_memory beside the repo",
    ),
]


def rows() -> list[Any]:
    path = DATA / "index.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [pytest.param(json.loads(line), id=json.loads(line)["repo"]) for line in lines]


@pytest.fixture(params=rows())
def row(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


@pytest.fixture
def memory(row: dict[str, Any], tmp_path: Path) -> Path:
    with tarfile.open(DATA / row["file"]) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # early 3.11 has none
        packed.extractall(tmp_path)
    return tmp_path / "memory"


def topics(memory: Path) -> list[Path]:
    return sorted(path for path in memory.rglob("*.md") if path.name != "MEMORY.md")


def test_every_folder_is_listed_as_its_collector_counted_it(row: dict[str, Any], memory: Path) -> None:
    found = scan(memory)
    assert found.skipped == ()
    assert len(found.entries) == row["memory_files"] - 1
    kinds = [entry.kind for entry in found.entries]
    assert {kind: kinds.count(kind) for kind in kinds if kind} == row["types"]
    assert all(entry.name and entry.description for entry in found.entries)
    lines = [manifest_line(entry) for entry in found.entries]
    assert all(
        "\n" not in line and entry.file in line for line, entry in zip(lines, found.entries, strict=True)
    )


def test_every_pointer_leads_somewhere_and_every_file_is_pointed_to(memory: Path) -> None:
    index = MemoryIndex.parse((memory / "MEMORY.md").read_bytes())
    files = {path.name for path in topics(memory)}
    assert index.mentions == files
    assert {line.file for line in index.pointers} == files
    assert load_index(index.data).cut == ""


def test_reading_changes_nothing(memory: Path) -> None:
    for path in memory.rglob("*.md"):
        data = path.read_bytes()
        document = MarkdownFile.parse(data)
        assert document.with_fields(**dict(document.fields)) == data
        assert document.with_body(document.body) == data
        assert MemoryIndex.parse(data).data == data
        assert dict(head_fields(data.decode())) == dict(document.fields)


def test_an_edit_of_one_field_changes_one_line(memory: Path) -> None:
    """M11: in both shapes, with whatever quotes and blanks they have."""
    for path in topics(memory):
        data = path.read_bytes()
        document = MarkdownFile.parse(data)
        for key in document.fields:
            new = document.with_fields(**{key: "another: value"})
            assert MarkdownFile.parse(new).fields == {**document.fields, key: "another: value"}
            before, after = data.split(b"\n"), new.split(b"\n")
            assert len(before) == len(after)
            assert sum(old != now for old, now in zip(before, after, strict=True)) == 1


def test_a_new_field_adds_one_line_in_the_shape_found(memory: Path) -> None:
    for path in topics(memory):
        data = path.read_bytes()
        document = MarkdownFile.parse(data)
        if not document.has_frontmatter:
            continue
        new = document.with_fields(pinned=True)
        line = b"  pinned: true\n" if document.is_nested else b"pinned: true\n"
        assert new.count(line) == 1
        assert new.replace(line, b"", 1) == data
        assert MarkdownFile.parse(new).with_fields(pinned=None) == data


def test_a_new_pointer_leaves_every_other_byte_of_the_index(memory: Path) -> None:
    data = (memory / "MEMORY.md").read_bytes()
    for kind in (None, "user", "feedback", "project", "reference"):
        new = MemoryIndex.parse(data).with_pointer("new_one.md", "New one", "what it says", kind=kind)  # type: ignore[arg-type]
        start = next(n for n in range(len(new)) if new[n : n + 1] != data[n : n + 1])
        length = len(new) - len(data)
        assert new[:start] + new[start + length :] == data
        (pointer,) = [line for line in MemoryIndex.parse(new).pointers if line.file == "new_one.md"]
        assert (pointer.title, pointer.hook) == ("New one", "what it says")


def test_a_pointer_changed_or_removed_leaves_every_other_line(memory: Path) -> None:
    data = (memory / "MEMORY.md").read_bytes()
    index = MemoryIndex.parse(data)
    for line in index.pointers:
        raw = line.raw.encode()
        assert index.without(line.file) == data.replace(raw, b"", 1)
        new = index.with_pointer(line.file, line.title, "another hook")
        assert new.split(b"\n")[:-1] == [
            row if row + b"\n" != raw else f"- [{line.title}]({line.file}) — another hook".encode()
            for row in data.split(b"\n")[:-1]
        ]


def test_lint_says_only_what_is_so(memory: Path) -> None:
    """Nothing dangling, nothing unlisted; what is fixed stays fixed and is read as before."""
    kinds = {problem.kind for problem in lint(memory)}
    assert kinds <= {"relative-date", "broken-link", "long-index", "long-line", "frontmatter"}
    before = {path.name: dict(MarkdownFile.parse(path.read_bytes()).fields) for path in topics(memory)}
    for fix in fixes(memory):
        (memory / fix.file).write_bytes(fix.after)
    assert {
        path.name: dict(MarkdownFile.parse(path.read_bytes()).fields) for path in topics(memory)
    } == before
    assert not [problem for problem in lint(memory) if problem.fixable]
