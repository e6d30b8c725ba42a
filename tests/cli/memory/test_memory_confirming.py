"""`nacre memory confirm`, and where it shows what is unconfirmed: log, why, list (M15)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.memory.agent_memory import agent_live
from nacre.memory.files.location import MemoryPaths, locate
from tests.cli.memory_command import Capture, document, said


def beside_an_agent(home: Path, here: Path, **files: str) -> None:
    location = locate(MemoryPaths(home=home, cwd=here))
    location.directory.mkdir(parents=True, exist_ok=True)

    async def edit() -> None:
        async with agent_live(location):
            for name, text in files.items():
                (location.directory / f"{name}.md").write_text(text)

    asyncio.run(edit())


def test_what_was_edited_beside_an_agent_is_shown_until_it_is_confirmed(
    home: Path, here: Path, capsys: Capture
) -> None:
    """M15: in the log and in why; confirmed by name or all at once."""
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    beside_an_agent(home, here, tea="---\nname: Tea\n---\nTea at four.\n")
    beside_an_agent(home, here, milk="---\nname: Milk\n---\nNo milk.\n")
    milk, tea = document(capsys, "log", "--unconfirmed")
    assert (milk["files"], tea["files"]) == (["milk.md"], ["tea.md"])
    assert milk["confirmed"] is False
    assert document(capsys, "log", "tea", "--unconfirmed") == [tea]
    assert document(capsys, "why", "tea")["unconfirmed"] == [tea["commit"]]
    assert f"nacre memory confirm {tea['commit'][:10]}" in said(capsys, "why", "tea")[0]

    assert said(capsys, "confirm", tea["commit"][:10])[0] == f"confirmed {tea['commit'][:10]}: tea.md\n"
    assert document(capsys, "log", "--unconfirmed") == [milk]
    assert [each["confirmed"] for each in document(capsys, "log")] == [None, False, True, None]
    told = said(capsys, "log")[0]
    assert "confirmed 1 change" in told
    assert "Commit: " not in told
    assert "  confirmed: edited by other means: tea.md" in said(capsys, "why", "tea")[0]
    assert document(capsys, "why", "tea")["unconfirmed"] == []

    assert document(capsys, "confirm", "--all")["confirmed"] == [milk["commit"]]
    assert document(capsys, "log", "--unconfirmed") == []


def test_the_list_marks_what_is_unconfirmed(home: Path, here: Path, capsys: Capture) -> None:
    """M15, also an edit that nobody has committed yet."""
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    beside_an_agent(home, here, tea="---\nname: Tea\ndescription: tea at four\n---\nTea at four.\n")
    assert {each["file"]: each["unconfirmed"] for each in document(capsys, "list")} == {
        "tea.md": True,
        "project_deploy_day.md": False,
    }
    assert "(unconfirmed edit) tea at four" in said(capsys, "list")[0]
    said(capsys, "confirm", "--all")
    assert "unconfirmed" not in said(capsys, "list")[0]


def test_the_name_of_a_memory_confirms_its_edits(home: Path, here: Path, capsys: Capture) -> None:
    """One word for one state: an edit is unconfirmed, and the name of its memory is enough."""
    beside_an_agent(home, here, tea="---\nname: Tea\n---\nTea at four.\n")
    assert "unconfirmed edit: who wrote it is not known" in said(capsys, "why", "tea")[0]
    assert "said by: user" not in said(capsys, "why", "tea")[0]
    assert ": tea.md" in said(capsys, "confirm", "tea")[0]
    assert document(capsys, "log", "--unconfirmed") == []
    assert "said by: user" in said(capsys, "why", "tea")[0]


def test_a_confirmation_is_undone_like_any_change(home: Path, here: Path, capsys: Capture) -> None:
    beside_an_agent(home, here, tea="Tea at four.\n")
    made = document(capsys, "confirm", "--all")["commit"]
    assert said(capsys, "undo")[0] == f"undid {made[:10]} (confirmed 1 change)\n"
    assert len(document(capsys, "log", "--unconfirmed")) == 1


def test_where_nothing_is_unconfirmed_it_says_so(home: Path, here: Path, capsys: Capture) -> None:
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    assert "no edit is unconfirmed" in said(capsys, "confirm", "--all")[1]
    assert "nothing is unconfirmed" in said(capsys, "log", "--unconfirmed")[1]
    [own] = document(capsys, "log")
    assert "nothing to confirm" in said(capsys, "confirm", own["commit"], code=1)[1]
    beside_an_agent(home, here, tea="Tea at four.\n")
    [open_one] = document(capsys, "log", "--unconfirmed")
    said(capsys, "confirm", "--all")
    assert "confirmed already" in said(capsys, "confirm", open_one["commit"])[1]


@pytest.mark.parametrize("line", [["confirm"], ["confirm", ""], ["confirm", "--all", "12345"]])
def test_it_must_be_said_what_to_confirm(here: Path, capsys: Capture, line: list[str]) -> None:
    assert "name the memories or commits" in said(capsys, *line, code=2)[1]


def test_a_history_that_cannot_be_read_does_not_hide_the_memories(
    home: Path, here: Path, capsys: Capture
) -> None:
    """Bad input: said in one line, and the list is shown."""
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    location = locate(MemoryPaths(home=home, cwd=here))
    (location.history / "refs/heads").mkdir(parents=True, exist_ok=True)
    for ref in (location.history / "refs/heads").iterdir():
        ref.write_text("0" * 39 + "1\n")
    out, err = said(capsys, "list")
    assert "project_deploy_day.md" in out
    assert err.count("\n") == 1
    assert "unconfirmed edits cannot be listed" in err
