"""`nacre memory review`: a list, one by one, and by id (E7)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nacre.cli.memory import review as memory_reviewing
from nacre.memory.checks.review import Proposal, propose
from nacre.memory.files.location import Location, MemoryPaths, locate
from nacre.testing import FrozenClock
from tests.cli.memory_command import Capture, document, said


def proposed(location: Location, *names: str) -> list[str]:
    made = [
        propose(
            location,
            Proposal(
                file=f"{name}.md",
                before=None,
                after=f"---\nname: {name}\n---\n\nAbout {name}.\n".encode(),
                author="extract",
                reason="heard",
            ),
        )
        for name in names
    ]
    return [one.id for one in made]


@pytest.fixture
def place(home: Path, here: Path) -> Location:
    return locate(MemoryPaths(home=home, cwd=here))


def test_what_waits_is_listed_and_nothing_is_made(place: Location, capsys: Capture) -> None:
    """E7: as a table, or as one document."""
    assert said(capsys, "review")[1] == "nacre: there are no proposals to review\n"
    assert document(capsys, "review") == []
    (tea,) = proposed(place, "tea")
    assert f"{tea}" in said(capsys, "review")[0]
    (one,) = document(capsys, "review")
    assert (one["id"], one["file"], one["before"]) == (tea, "tea.md", None)
    assert not place.directory.exists()


def test_by_id_or_all_at_once(place: Location, capsys: Capture) -> None:
    """E7: accepted is a commit that can be undone, rejected is gone."""
    tea, milk, *_ = proposed(place, "tea", "milk", "cake", "pie")
    done = document(capsys, "review", "--accept", tea, "--reject", milk)
    assert [one["file"] for one in done["accepted"]] == ["tea.md"]
    assert done["rejected"] == [{"id": milk, "file": "milk.md"}]
    assert "saved cake.md (undo: nacre memory undo" in said(capsys, "review", "--all")[0]
    assert sorted(one.name for one in place.directory.glob("*.md")) == [
        "MEMORY.md",
        "cake.md",
        "pie.md",
        "tea.md",
    ]
    assert "no proposal" in said(capsys, "review", "--accept", milk, code=1)[1]
    said(capsys, "undo", done["accepted"][0]["commit"])
    assert not (place.directory / "tea.md").exists()


def test_a_memory_that_changed_since_is_not_overwritten(place: Location, capsys: Capture) -> None:
    """E7: one line says how to go on."""
    (tea,) = proposed(place, "tea")
    said(capsys, "save", "Tea at four.", "--file", "tea")
    _, err = said(capsys, "review", "--accept", tea, code=1)
    assert f"nacre memory review --accept {tea} --rebase" in err


def test_one_by_one_in_a_terminal(
    place: Location, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """E7: accept, edit, reject, skip, leave; the end of input leaves."""
    proposed(place, "accepted", "edited", "rejected", "skipped", "left")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/About/Really/ "$1"\n')
    editor.chmod(0o700)
    answers = iter(["a", "e", "r", "", "q"])
    monkeypatch.setenv("EDITOR", os.fspath(editor))
    monkeypatch.setattr(memory_reviewing, "is_terminal", lambda *_: True)
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    out, _ = said(capsys, "review")
    assert "+About accepted." in out
    assert (place.directory / "accepted.md").read_text().endswith("About accepted.\n")
    assert (place.directory / "edited.md").read_text().endswith("Really edited.\n")
    assert [one["file"] for one in document(capsys, "review")] == ["skipped.md", "left.md"]


class Backwards(FrozenClock):
    """Gives every later id a smaller number."""

    def new_id(self) -> str:
        return f"{999_999_999_999 - int(super().new_id()[-12:]):032d}"


def test_what_is_proposed_at_one_moment_keeps_its_order(place: Location, capsys: Capture) -> None:
    """E7: the oldest first, also where the clock could not tell them apart."""
    names = [f"n{n}" for n in range(12)]
    clock = Backwards()
    for name in names:
        made = Proposal(file=f"{name}.md", before=None, after=b"x", author="extract", reason="heard")
        propose(place, made, clock=clock)
    assert [one["file"] for one in document(capsys, "review")] == [f"{name}.md" for name in names]
