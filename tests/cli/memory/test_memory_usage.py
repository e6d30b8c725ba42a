"""`nacre memory list --usage`: how often each memory was of use; a purge takes one memory's record along."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nacre.cli.main import main
from nacre.memory.files.location import Location, MemoryPaths, locate, user_location
from nacre.memory.recall.usage import UsageEvent, read_usage, record

Capture = pytest.CaptureFixture[str]
AT = datetime(2026, 1, 5, 10, tzinfo=UTC)
NONE = {"offered": 0, "attached": 0, "cited": 0, "contradicted": 0, "tokens": 0, "last": None}


def said(capture: Capture, *args: str) -> str:
    capture.readouterr()
    ended = main(["memory", *args])
    out, err = capture.readouterr()
    assert ended == 0, err
    return out


def used(location: Location, file: str) -> None:
    events = [
        UsageEvent(file=file, kind="offered", at=AT),
        UsageEvent(file=file, kind="attached", at=AT, tokens=1_200),
        UsageEvent(file=file, kind="cited", at=AT),
    ]
    asyncio.run(record(location, events))


def test_each_memory_is_listed_with_how_often_it_was_of_use(home: Path, here: Path, capsys: Capture) -> None:
    said(capsys, "save", "Tea is green.", "--name", "Tea")
    said(capsys, "save", "The parser is slow.", "--name", "Parser")
    used(locate(MemoryPaths(home=home, cwd=here)), "project_tea.md")
    rows: Any = {one["file"]: one for one in json.loads(said(capsys, "list", "--usage", "--json"))}
    assert rows["project_tea.md"]["usage"] == {
        "offered": 1, "attached": 1, "cited": 1, "contradicted": 0, "tokens": 1_200, "last": AT.isoformat(),
    }  # fmt: skip
    assert rows["project_parser.md"]["usage"] == NONE
    assert "usage" not in json.loads(said(capsys, "list", "--json"))[0]
    header, *lines = said(capsys, "list", "--usage").splitlines()
    assert header.split() == [
        "file", "offered", "attached", "cited", "contradicted", "tokens", "last", "description",
    ]  # fmt: skip
    assert sorted(line.split()[:6] for line in lines) == [
        ["project_parser.md", "-", "-", "-", "-", "-"],
        ["project_tea.md", "1", "1", "1", "-", "1.2k"],
    ]


def test_looking_at_the_usage_of_nothing_leaves_no_trace(home: Path, here: Path, capsys: Capture) -> None:
    assert json.loads(said(capsys, "list", "--usage", "--json")) == []
    assert "There are no memories yet" in said(capsys, "list", "--usage")
    assert list(home.iterdir()) == []


def test_a_purge_takes_its_record_and_leaves_that_of_a_namesake(
    home: Path, here: Path, capsys: Capture
) -> None:
    """M14b: the memory of the same name elsewhere is not it."""
    said(capsys, "save", "Tea is green and grows on hills in the far south.", "--name", "Tea")
    said(capsys, "save", "I drink it at four.", "--name", "Tea", "--type", "project", "--scope", "user")
    project, person = locate(MemoryPaths(home=home, cwd=here)), user_location(home)
    used(project, "project_tea.md")
    used(person, "project_tea.md")
    capsys.readouterr()
    main(["memory", "forget", "project_tea.md", "--purge", "--yes", "--json"])
    assert "usage" not in capsys.readouterr().out  # no ledger was a place to look at
    assert read_usage(project, ["project_tea.md"]) == {}
    assert read_usage(person)["project_tea.md"].attached == 1
